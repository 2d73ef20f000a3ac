package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

var (
	ann    = parley.Principal{User: "ann", Org: "acme"}
	bob    = parley.Principal{User: "bob", Org: "acme"}
	ann2   = parley.Principal{User: "ann", Org: "other"}
	nobody = parley.Principal{}
	people = []parley.Principal{ann, bob, ann2}

	start = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
)

// at returns the moment ms milliseconds after start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// event makes event n of a session.
func event(id parley.SessionID, n int64, typ parley.EventType, data string) parley.Event {
	return parley.Event{
		Session: id, Seq: n, Turn: "turn-" + parley.TurnID(id), Agent: "lead/research#2",
		Time: at(int(n)), Type: typ, Data: json.RawMessage(data),
	}
}

func steered(id parley.SessionID, from int64, n int) []parley.Event {
	var out []parley.Event
	for i := range n {
		seq := from + int64(i)
		out = append(out, event(id, seq, "turn.steered", fmt.Sprintf(`{"message":{"role":"user","parts":[{"type":"text","text":"word %d"}]}}`, seq)))
	}
	return out
}

func info(p parley.Principal, id parley.SessionID) parley.SessionInfo {
	return parley.SessionInfo{
		ID: id, App: "notes", User: p.User, Org: p.Org, Title: "A title", Status: parley.Active, Busy: parley.BusyReject,
		CreatedAt: start, UpdatedAt: start, Version: 1,
	}
}

// creation is the first append of a session, with n events.
func creation(p parley.Principal, id parley.SessionID, n int) seam.Batch {
	in := info(p, id)
	return seam.Batch{Session: id, Create: true, Owner: "node-1", Events: steered(id, 1, n), Index: seam.Index{Session: &in}}
}

func create(t testing.TB, s seam.Store, p parley.Principal, id parley.SessionID, n int) {
	t.Helper()
	must(t, s.Append(context.Background(), p, creation(p, id, n)))
}

// fataler is a testing.TB or a rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want no error", err)
	}
}

func want(t testing.TB, what string, err error, code parley.Code) {
	t.Helper()
	if parley.CodeOf(err) != code {
		t.Errorf("%s: got error %v (%s), want code %q", what, err, parley.CodeOf(err), code)
	}
}

func diff(want, got any) string { return cmp.Diff(want, got) }

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// world is one session with something in every table.
type world struct {
	p           parley.Principal
	id          parley.SessionID
	events      []parley.Event
	info        parley.SessionInfo
	state       seam.State
	turn        parley.TurnInfo
	interaction seam.InteractionRow
	key, ofUser seam.Key
	artifact    seam.Artifact
	blob        []byte
	digest      parley.Digest
	chunk       seam.Chunk
	row         seam.Row
}

// newWorld makes a world. Its ids begin with name.
func newWorld(t testing.TB, s seam.Store, p parley.Principal, name string) world {
	t.Helper()
	ctx := context.Background()
	id := parley.SessionID(name + "-session")
	w := world{p: p, id: id, blob: []byte("the body of " + name)}
	var err error
	w.digest, err = s.PutBlob(ctx, p, w.blob)
	must(t, err)

	w.events = append(steered(id, 1, 2), event(id, 3, "from.the.future", `{"what":"ever"}`))
	w.events[2].V = 7
	w.info = info(p, id)
	w.info.OutsideID, w.info.Version, w.info.UpdatedAt = name+"-outside", 3, at(3)
	w.state = seam.State{Seq: 3, Version: parley.FoldVersion, Body: []byte("{}")}
	w.turn = parley.TurnInfo{
		ID: parley.TurnID(name + "-turn"), SessionID: id, Status: parley.StatusWaiting, Origin: parley.OriginUser,
		Message: "<hello> & goodbye", CreatedAt: start, UpdatedAt: at(2), FirstSeq: 1, LastSeq: 3,
	}
	w.interaction = seam.InteractionRow{Open: true, Interaction: parley.Interaction{
		ID: parley.InteractionID(name + "-interaction"), Session: id, Turn: w.turn.ID, Kind: parley.KindPermission,
		Input: json.RawMessage(`{"to":"<ana>"}`), Title: "May I?", OpenedAt: at(2), ExpiresAt: at(1000),
	}}
	w.key = seam.Key{Session: id, Key: "key", Body: w.digest, Made: id, Turn: w.turn.ID}
	w.ofUser = seam.Key{Key: name + "-key", Body: w.digest, Made: id}
	w.artifact = seam.Artifact{
		ArtifactRef: parley.ArtifactRef{ID: parley.ArtifactID(name + "-artifact"), Name: "out.txt", MediaType: "text/plain", Size: int64(len(w.blob)), SHA256: w.digest},
		Session:     id, Turn: w.turn.ID, CreatedAt: at(3),
	}
	w.chunk = seam.Chunk{Session: id, Call: "call", N: 3, Text: "so far"}
	w.row = seam.Row{RowName: seam.RowName{Kind: seam.RowTimer, ID: name + "-row"}, Session: id, Due: at(500), Open: true, Body: json.RawMessage(`{"of":"<world>"}`)}
	must(t, s.Append(ctx, p, seam.Batch{
		Session: id, Create: true, Owner: "node-1", Events: w.events,
		Index: seam.Index{
			Session: &w.info, State: &w.state, Turns: []parley.TurnInfo{w.turn}, Interactions: []seam.InteractionRow{w.interaction},
			Keys: []seam.Key{w.key, w.ofUser}, Artifacts: []seam.Artifact{w.artifact}, Blobs: []parley.Digest{w.digest},
			Spend: []seam.Spend{{Day: "2026-11-21", Model: "acme/" + name, Calls: 1, Usage: parley.Usage{InputTokens: 7, USD: 0.5}}},
			Rows:  []seam.Row{w.row},
		},
	}))
	save := w.chunk
	save.Epoch = 1
	must(t, s.SaveChunks(ctx, p, []seam.Chunk{save}))
	return w
}

// dumped is everything that System sees.
type dumped struct {
	Sessions     []parley.SessionInfo
	Turns        []parley.TurnInfo
	Interactions []seam.InteractionRow
	Spent        []seam.Spend
	Rows         []seam.Row // without versions, which differ from store to store
	Of           map[parley.SessionID]contents
}

type contents struct {
	Events    []parley.Event
	State     seam.State
	Artifacts []seam.Artifact
	Chunks    []seam.Chunk
}

func dump(t fataler, s seam.Store) (d dumped) {
	t.Helper()
	ctx, sys := context.Background(), parley.System()
	var err error
	d.Sessions, err = s.Sessions(ctx, sys, seam.SessionQuery{Limit: -1, Direct: true})
	must(t, err)
	d.Turns, err = s.Turns(ctx, sys, seam.TurnQuery{Limit: -1})
	must(t, err)
	d.Interactions, err = s.Interactions(ctx, sys, seam.InteractionQuery{Limit: -1})
	must(t, err)
	d.Spent, err = s.Spent(ctx, sys, "", "9999-99-99")
	must(t, err)
	d.Rows, err = s.Rows(ctx, sys, seam.RowQuery{Limit: -1})
	must(t, err)
	for i := range d.Rows {
		d.Rows[i].Version = 0
	}
	d.Of = map[parley.SessionID]contents{}
	for _, in := range d.Sessions {
		var c contents
		c.Events = readAll(t, s, sys, in.ID)
		if c.State, err = s.State(ctx, sys, in.ID); err != nil && !errors.Is(err, parley.ErrNotFound) {
			must(t, err)
		}
		c.Artifacts, err = s.Artifacts(ctx, sys, in.ID)
		must(t, err)
		c.Chunks, err = s.Chunks(ctx, sys, in.ID)
		must(t, err)
		d.Of[in.ID] = c
	}
	return d
}

func readAll(t fataler, s seam.Store, p parley.Principal, id parley.SessionID) []parley.Event {
	t.Helper()
	var all []parley.Event
	for {
		page, err := s.Read(context.Background(), p, id, int64(len(all)), 0)
		must(t, err)
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}
