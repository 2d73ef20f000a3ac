package wire

import (
	"net/http"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// MaxSessions is the most sessions that one stream carries.
const MaxSessions = 50

// Places returns the sessions that a client wants in one stream, each with the last event
// it has: from Last-Event-ID, else from ?sessions=, a list such as "a:12,b:0". A session
// without a number is followed from its beginning.
func Places(r *http.Request) ([]eventlog.Place, error) {
	field, list := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if list == "" {
		field, list = "sessions", strings.Join(r.URL.Query()["sessions"], ",")
	}
	return ParsePlaces(field, list)
}

// ParsePlaces reads such a list; errors call it field.
func ParsePlaces(field, list string) ([]eventlog.Place, error) {
	bad := func(format string, args ...any) ([]eventlog.Place, error) {
		return nil, parley.Errorf(parley.CodeInvalid, format, args...).WithField(field).
			WithHint("a list of session:number, such as a:12,b:0, where number is that of the last event you have")
	}
	if list == "" {
		return bad("no session is named")
	}
	if n := strings.Count(list, ",") + 1; n > MaxSessions {
		return bad("%d sessions exceed the limit of %d per stream", n, MaxSessions)
	}
	var places []eventlog.Place
	for item := range strings.SplitSeq(list, ",") {
		id, after, numbered := strings.Cut(item, ":")
		at := eventlog.Place{Session: parley.SessionID(id)}
		if numbered {
			n, err := number(field, after)
			if err != nil {
				return nil, err
			}
			at.After = n
		}
		if id == "" {
			return bad("an entry of the list names no session")
		}
		if slices.ContainsFunc(places, func(p eventlog.Place) bool { return p.Session == at.Session }) {
			return bad("session %q is named twice", parley.Cut(id, 40))
		}
		places = append(places, at)
	}
	return places, nil
}

// ServeMany carries a FollowMany of places in the native form, as Server-Sent Events. When one of
// the sessions fails the stream goes on without it.
func ServeMany(w http.ResponseWriter, r *http.Request, frames Frames, places []eventlog.Place, o Options) error {
	return Serve(w, r, frames, SSE, Many(places), &o)
}
