// Command go-app is a server for one app, whose files are beside this one. Its agent tells which rooms
// are free, and books them for its user.
//
//	go run . serve
package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/tool"
)

// The app is not in a folder of its own, so app.yaml says its name.
//
//go:embed app.yaml clerk.md script.yaml
var files embed.FS

func main() { server.Main(server.App(files), server.Tools("rooms", new(rooms).tools())) }

// rooms stands for your own service. This one forgets everything when the server stops.
type rooms struct {
	mu     sync.Mutex
	booked []booking
}

type booking struct {
	call parley.CallID
	Room string `json:"room"`
	Day  string `json:"day"`
	User string `json:"user"`
}

type dayIn struct {
	Day string `json:"day"`
}

type bookIn struct {
	Room string `json:"room"`
	Day  string `json:"day"`
}

type free struct {
	Day   string   `json:"day"`
	Rooms []string `json:"rooms" jsonschema:"that nobody has booked"`
}

// A schema of one's own says more than a type can.
const bookSchema = `{
	"type": "object",
	"properties": {
		"room": {"type": "string", "enum": ["oak", "elm"]},
		"day": {"type": "string", "enum": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]}
	},
	"required": ["room", "day"],
	"additionalProperties": false
}`

func (r *rooms) tools() tool.Set {
	return tool.Set{
		tool.New(tool.Def{Name: "free_rooms", Description: "Lists the rooms that are free on a day.", Effect: parley.EffectRead}, r.free),
		// Idempotent: the service knows the id of the call, and does nothing twice for one.
		tool.New(tool.Def{
			Name: "book_room", Description: "Books a room for a day.", Effect: parley.EffectIdempotent, Subject: "{room} on {day}",
			Input: []byte(bookSchema),
		}, r.book),
	}
}

func (r *rooms) free(_ context.Context, in dayIn) (free, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := free{Day: in.Day, Rooms: []string{}}
	for _, room := range []string{"oak", "elm"} {
		if !slices.ContainsFunc(r.booked, func(b booking) bool { return b.Room == room && b.Day == in.Day }) {
			out.Rooms = append(out.Rooms, room)
		}
	}
	return out, nil
}

func (r *rooms) book(ctx context.Context, in bookIn) (booking, error) {
	call := tool.From(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.booked {
		switch {
		case b.call == call.ID:
			return b, nil // it was done at an earlier attempt
		case b.Room == in.Room && b.Day == in.Day:
			return booking{}, tool.NoEffect(fmt.Errorf("%s is booked on %s", in.Room, in.Day))
		}
	}
	b := booking{call.ID, in.Room, in.Day, call.Principal.User}
	r.booked = append(r.booked, b)
	return b, nil
}
