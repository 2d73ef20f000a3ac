package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// commandsDoc says what a client may say over a WebSocket, for which OpenAPI has no words.
const commandsDoc = "The client may send, in a text message each: {\"do\", \"id\", \"key\", \"session\", \"body\"} where do is send, rewind, fork, end or update; " +
	"{\"do\": \"unqueue\", \"id\", \"session\", \"turn\"}; {\"do\": \"answer\", \"claim\" or \"report\", \"id\", \"interaction\", \"body\"}; " +
	"{\"do\": \"cancel\", \"resume\" or \"retry\", \"id\", \"turn\", \"key\", \"body\"}; and {\"do\": \"ping\", \"id\"}. " +
	"id is the client's own, body that of the operation of this name, and key its Idempotency-Key. Each is answered with {\"type\": \"reply\", \"id\", \"status\", \"body\" or \"error\"}; a ping shows that the connection works, for clients that do not see those of the protocol. " +
	"Commands are carried out one at a time, in order; the order of replies and frames of the log means nothing. A client may send 10 messages a second on average, and 50 at once.  " +
	"The connection is closed with 1000 when it is over, 1001 when it is worth connecting again with the cursor, and 1003, 1007, 1008 or 1009 when what the client said was not text, not UTF-8, too much or too large."

// socketDoc describes the WebSocket of one session.
const socketDoc = "As " + linesPath + ", over a WebSocket: each text message is one such object, and the cursor is the same. " + commandsDoc

// manyDoc describes the WebSocket of several sessions.
const manyDoc = "  As a WebSocket, each text message is one frame: a line of " + linesPath + ", which names its session. sessions may be left out. " +
	"{\"do\": \"subscribe\", \"id\", \"session\", \"after\"} adds a session: the events after that number, then what comes. {\"do\": \"unsubscribe\", \"id\", \"session\"} removes one. " +
	"A session that fails, for example because it was deleted, has an error frame that names it, and the others go on. {\"do\": \"create\", \"id\", \"key\", \"body\"} makes a session, which is not followed yet. " + commandsDoc

func (s *Server) socketRoutes(tags []string) {
	for _, at := range []struct{ id, path string }{{"connect", socketPath}, {"connect-events", oldSocketPath}} {
		op := huma.Operation{
			OperationID: at.id, Method: http.MethodGet, Path: at.path, Tags: tags, Summary: "Follow a session's log over a WebSocket, and send commands",
			Description: socketDoc,
			Responses: map[string]*huma.Response{
				"101": {Description: "The connection is a WebSocket now."},
				"426": {Ref: "#/components/responses/" + refusals[http.StatusUpgradeRequired].name},
			},
		}
		if at.path == oldSocketPath {
			op.Deprecated, op.Description = true, "An earlier path of "+socketPath+"."
		}
		route(s, op, func(ctx context.Context, p parley.Principal, in *followInput) (*struct{}, error) { // HEAD
			if err := s.o.Reader.Check(ctx, p, in.ID, 0); err != nil {
				return nil, err
			}
			return nil, &refusedAs{parley.Errorf(parley.CodeInvalid, "this path is for WebSockets").
				WithHint("connect with a WebSocket client, to ws:// or wss://"), http.StatusUpgradeRequired}
		})
	}
}

// socket serves a session's log over a WebSocket, which takes commands.
func (s *Server) socket(id parley.SessionID) func(http.ResponseWriter, *http.Request, *stream) error {
	return s.talking(&talk{s: s, session: id})
}

func (s *Server) talking(t *talk) func(http.ResponseWriter, *http.Request, *stream) error {
	return func(w http.ResponseWriter, r *http.Request, st *stream) error {
		return wire.ServeSocket(w, r, st.frames, st.encoder(), wire.Socket{MaxInput: s.o.MaxBody, Input: t.said}, st.o)
	}
}

// manyOr serves a stream of several sessions itself if a WebSocket is requested, and
// passes everything else to next.
func (s *Server) manyOr(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !wire.Upgrades(r) {
			next(w, r)
			return
		}
		st, err := s.manySocket(r)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.serve(w, r, st)
	}
}

func (s *Server) manySocket(r *http.Request) (*stream, error) {
	ctx := r.Context()
	p, err := s.o.Principal(ctx)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	for name := range q {
		if name != "sessions" && name != "deltas" {
			return nil, invalid(name, "the query parameter %q is not known here", name)
		}
	}
	deltas, err := deltasOf(q)
	if err != nil {
		return nil, err
	}
	t := &talk{s: s, p: p, set: s.o.Reader.Set(p, deltas)}
	if q.Get("sessions") != "" || r.Header.Get("Last-Event-ID") != "" {
		places, err := wire.Places(r)
		if err != nil {
			return nil, err
		}
		for _, at := range places {
			if err := t.follow(ctx, at); err != nil {
				return nil, err
			}
		}
	}
	st := &stream{serve: s.talking(t), frames: t.set.Follow, o: wire.Options{Heartbeat: s.o.Heartbeat}}
	st.done, err = s.Open(ctx, p)
	return st, err
}

// talk is one WebSocket: of a session, or of a set of them.
type talk struct {
	s       *Server
	session parley.SessionID // the only one; "" where there is a set
	p       parley.Principal // whose the set is
	set     *eventlog.Set
}

// follow adds a session to the set.
func (t *talk) follow(ctx context.Context, at eventlog.Place) error {
	if err := t.s.within(ctx, t.p, SessionParam{at.Session}); err != nil {
		return err
	}
	return t.set.Add(ctx, at, wire.MaxSessions)
}

// local carries out the commands that are about the connection itself. It reports whether
// c is one of them.
func (t *talk) local(ctx context.Context, c command) (is bool, err error) {
	if c.Do != "subscribe" && c.After != 0 {
		return true, invalid("after", "the field after is for subscribe only")
	}
	switch {
	case c.Do == "ping":
		return true, only(c)
	case t.set == nil || c.Do != "subscribe" && c.Do != "unsubscribe":
		return false, nil
	case c.Session == "":
		return true, invalid("session", "no session is named")
	}
	if err := only(c, "session", "after"); err != nil {
		return true, err
	}
	if c.Do == "subscribe" {
		return true, t.follow(ctx, eventlog.Place{Session: c.Session, After: c.After})
	}
	if !t.set.Remove(c.Session) {
		return true, parley.Errorf(parley.CodeNotFound, "session %q is not followed here", parley.Cut(string(c.Session), 40)).WithField("session")
	}
	return true, nil
}

// only refuses fields that a command does not have.
func only(c command, fields ...string) error {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"key", c.Key != ""}, {"turn", c.Turn != ""}, {"interaction", c.Interaction != ""}, {"body", len(c.Body) > 0}, {"session", c.Session != ""}, {"after", c.After != 0},
	} {
		if f.set && !slices.Contains(fields, f.name) {
			return invalid(f.name, "the command %s has no field %s", c.Do, f.name)
		}
	}
	return nil
}
