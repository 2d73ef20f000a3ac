package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

const (
	eventsPath = "/v1/sessions/{id}/events"
	followPath = eventsPath + "/stream"
	linesPath  = eventsPath + "/lines"
	streamPath = "/v1/stream"
	socketPath = "/v1/sessions/{id}/ws"

	oldSocketPath = eventsPath + "/ws"
)

type eventsInput struct {
	SessionParam
	After  int64  `query:"after" minimum:"0" doc:"The number of the last event you have; 0 is from the beginning."`
	Types  string `query:"types" maxLength:"2000" doc:"Only events of these types, separated by commas; a type that ends in .* stands for all that begin so."`
	Deltas bool   `query:"deltas" default:"true" doc:"Streams only: whether text in flight is shown."`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" doc:"Pages only: at most so many events; 1,000 when not given."`
	View   string `query:"view" enum:"native,sdk,simple" doc:"Streams only: sdk shows the messages of the Claude Agent SDK, simple the five events TextDelta, ToolUse, ToolResult, Done and Error. types then names their types, and the cursor is the id of the last message, or its uuid (sdk) or cursor (simple) on wires without ids."`
	Format string `query:"format" enum:"json,sse,ndjson" doc:"In place of Accept."`
	Last   string `header:"Last-Event-ID" maxLength:"64" doc:"What a browser sends when it comes back; it wins over after."`
	Accept string `header:"Accept" doc:"application/json is a page; text/event-stream and application/x-ndjson stay with the live end."`
}

type followInput struct {
	SessionParam
	View   string `query:"view" enum:"native,sdk,simple" doc:"sdk shows the messages of the Claude Agent SDK, simple the five events TextDelta, ToolUse, ToolResult, Done and Error. types then names their types, and the cursor is the id of the last message, or its uuid (sdk) or cursor (simple) on wires without ids."`
	After  int64  `query:"after" minimum:"0" doc:"The number of the last event you have; 0 is from the beginning."`
	Types  string `query:"types" maxLength:"2000" doc:"Only events of these types, separated by commas; a type that ends in .* stands for all that begin so."`
	Deltas bool   `query:"deltas" default:"true" doc:"Whether text in flight is shown."`
	Last   string `header:"Last-Event-ID" maxLength:"64" doc:"What a browser sends when it comes back; it wins over after."`
}

type manyInput struct {
	Sessions string `query:"sessions" maxLength:"4000" doc:"Session ids, separated by commas, each with :N behind it when events up to N are there already."`
	Deltas   bool   `query:"deltas" default:"true" doc:"Whether text in flight is shown."`
	Last     string `header:"Last-Event-ID" maxLength:"4000" doc:"The id of the last frame: the sessions, each with :N."`
	AcceptParam
}

// AcceptParam says whether the client of a stream takes a refusal.
type AcceptParam struct {
	Accept string `header:"Accept" doc:"While the store cannot be asked, the stream begins and waits, since a browser's EventSource would give up. Clients that take application/json, too, get 503."`
}

func (s *Server) eventRoutes() {
	tags := []string{"events"}
	route(s, huma.Operation{
		OperationID: "events", Method: http.MethodGet, Path: eventsPath, Tags: tags, Summary: "Read and follow a session's log",
		Description: "One cursor for every form: the number of the last event seen. " +
			"With Accept: text/event-stream or application/x-ndjson, or with format, the answer is that of " + followPath + " or " + linesPath + ".",
		Responses: map[string]*huma.Response{
			"200": {Description: "Events after the cursor", Content: map[string]*huma.MediaType{
				"application/json": {Schema: s.schema(eventPage{})},
			}},
		},
	}, s.events)
	route(s, huma.Operation{
		OperationID: "follow-events", Method: http.MethodGet, Path: followPath, Tags: tags, Summary: "Follow a session's log",
		Description: "First the events after the cursor, then whatever comes, until the client goes or the session is deleted. " +
			"While the store cannot be asked, the stream waits; clients that accept application/json, too, get 503.",
		Responses: map[string]*huma.Response{
			"200": {Description: "Frames of the session", Content: s.frames("text/event-stream")},
		},
	}, s.followHead("text/event-stream"))
	route(s, huma.Operation{
		OperationID: "follow-lines", Method: http.MethodGet, Path: linesPath, Tags: tags, Summary: "Follow a session's log as NDJSON",
		Description: "As " + followPath + ", one line of JSON a frame. The cursor is the seq of the last event.",
		Responses: map[string]*huma.Response{
			"200": {Description: "Frames of the session", Content: s.frames("application/x-ndjson")},
		},
	}, s.followHead("application/x-ndjson"))
	s.socketRoutes(tags)
	route(s, huma.Operation{
		OperationID: "stream", Method: http.MethodGet, Path: streamPath, Tags: tags, Summary: "Follow several sessions in one stream",
		Description: "A browser opens at most six connections to one host; this needs one. The id of a frame is the whole list with its numbers." + manyDoc,
		Responses: map[string]*huma.Response{
			"101": {Description: "A WebSocket was requested, and the connection is one now."},
			"200": {Description: "Frames of all the sessions", Content: s.frames("text/event-stream")},
		},
	}, s.many)
}

func (s *Server) events(ctx context.Context, p parley.Principal, in *eventsInput) (*huma.StreamResponse, error) {
	if in.View != "" && in.View != viewNative {
		return nil, invalid("view", "a page has no view %s", in.View).WithHint("ask for a stream: with format=sse or format=ndjson")
	}
	after, err := cursorOf(in.After, in.Last)
	if err != nil {
		return nil, err
	}
	keep, err := wire.Types(in.Types)
	if err != nil {
		return nil, err
	}
	if after == 0 { // an empty page would suggest that the session exists
		if _, err := s.o.Engine.Session(ctx, p, in.ID); err != nil {
			return nil, err
		}
	}
	g := &logPage{s: s, p: p, id: in.ID, limit: orElse(in.Limit, pageEvents), keep: keep, next: after}
	if err := g.read(ctx); err != nil { // refusals have been made by now
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		hc.SetHeader("Content-Type", "application/json")
		hc.SetHeader("Cache-Control", "no-cache")
		if err := g.write(hc.Context(), hc.BodyWriter()); err != nil {
			if hc.Context().Err() == nil {
				s.o.Logger.ErrorContext(hc.Context(), "a page of events broke off", "session", in.ID, "error", err)
			}
			panic(http.ErrAbortHandler) // the client must not take half a page for a whole one
		}
	}}, nil
}

// followHead answers HEAD for a stream, which never ends. streamOr serves GET.
func (s *Server) followHead(media string) func(context.Context, parley.Principal, *followInput) (*huma.StreamResponse, error) {
	return func(ctx context.Context, p parley.Principal, in *followInput) (*huma.StreamResponse, error) {
		if _, err := s.o.Engine.Session(ctx, p, in.ID); err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			hc.SetHeader("Content-Type", media)
			hc.SetHeader("Cache-Control", "no-cache")
		}}, nil
	}
}

// streamOr serves a session's events itself if a stream is requested, and passes
// everything else to next. form is the kind of stream that the path stands for; if empty,
// the request decides. A stream keeps its goroutine's stack for hours. So everything that
// is decided once is decided aside.
func (s *Server) streamOr(next http.HandlerFunc, form string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var st *stream
		aside.Do(func() { st = s.asked(w, r, form) })
		if st == nil {
			next(w, r)
			return
		}
		if st.serve == nil {
			return // it was refused
		}
		s.serve(w, r, st)
	}
}

// aside runs next aside, and then serves the stream that next left for it, if it did: see streamOr.
func (s *Server) aside(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var st *stream
		aside.Do(func() { st = leftBy(next, w, r) })
		if st != nil {
			s.serve(w, r, st)
		}
	}
}

// left is where a handler under huma leaves a stream.
type left struct{ st *stream }

type leftKey struct{}

func leftBy(next http.HandlerFunc, w http.ResponseWriter, r *http.Request) *stream {
	l := &left{}
	next(w, r.WithContext(context.WithValue(r.Context(), leftKey{}, l)))
	return l.st
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, st *stream) {
	defer st.done()
	if err := st.serve(w, r, st); err != nil {
		s.refuse(w, r, err)
	}
}

// stream is a requested stream.
type stream struct {
	serve  func(http.ResponseWriter, *http.Request, *stream) error // nil: refused
	frames func(ctx context.Context) wire.Frames
	form   wire.Encoder // nil: the native one
	o      wire.Options
	done   func()
}

// encoder is the form of the stream's messages.
func (st *stream) encoder() wire.Encoder {
	if st.form != nil {
		return st.form
	}
	return wire.Native()
}

// by carries a stream as a response.
func by(c *wire.Carrier) func(http.ResponseWriter, *http.Request, *stream) error {
	return func(w http.ResponseWriter, r *http.Request, st *stream) error {
		return wire.Serve(w, r, st.frames(r.Context()), c, st.encoder(), &st.o)
	}
}

// asked returns the stream that r requests, or nil if it requests none. A refusal has
// been answered already.
func (s *Server) asked(w http.ResponseWriter, r *http.Request, form string) *stream {
	own := form != "" // the path decides
	if !own {
		form = formOf(r)
	}
	if form == "" || r.Method != http.MethodGet { // HEAD would wait for a body that it never gets
		return nil
	}
	st, err := s.follow(r, form, own)
	if err != nil {
		s.refuse(w, r, err)
		return &stream{}
	}
	return st
}

func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	WriteError(w, s.fail(r.Context(), huma.Operation{OperationID: "events"}, err))
}

// formOf returns the form of stream that a request asks for. It returns none for a page
// and for unknown values, which are refused like any other parameter.
func formOf(r *http.Request) string {
	switch format := r.URL.Query().Get("format"); format {
	case "sse", "ndjson":
		return format
	case "":
		accept := r.Header.Get("Accept")
		switch {
		case accepts(accept, "text/event-stream"):
			return "sse"
		case accepts(accept, "application/x-ndjson"), accepts(accept, "application/ndjson"):
			return "ndjson"
		}
	}
	return ""
}

func (s *Server) follow(r *http.Request, form string, own bool) (*stream, error) {
	p, err := s.o.Principal(r.Context())
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	for name := range q {
		switch {
		case name == "after", name == "types", name == "deltas", name == "view":
		case !own && name == "format":
		case !own && name == "limit": // parameters of the page form of this path
			if n, err := strconv.Atoi(q.Get(name)); q.Get(name) != "" && (err != nil || n < 1 || n > pageEvents) {
				return nil, invalid(name, "limit is a number from 1 to %d, and for pages only", pageEvents)
			}
		default:
			return nil, invalid(name, "the query parameter %q is not known here", name)
		}
	}
	deltas, err := deltasOf(q)
	if err != nil {
		return nil, err
	}
	v, err := s.viewOf(r, p, deltas)
	if err != nil {
		return nil, err
	}
	follow := s.o.Reader.Follow
	if !deltas {
		follow = s.o.Reader.FollowEvents
	}
	id := parley.SessionID(r.PathValue("id"))
	// Later it could not be refused: a socket is one by then, and the head of a stream does not wait
	// for a store that is slow.
	if err = s.within(r.Context(), p, SessionParam{id}); err == nil {
		err = s.o.Reader.Check(r.Context(), p, id, v.after)
	}
	waits := form == "sse" && beginsLater(err, r.Header.Get("Accept"))
	if err != nil && !waits {
		return nil, err
	}
	st := &stream{serve: by(wire.NDJSON), o: wire.Options{Keep: v.keep, Heartbeat: s.o.Heartbeat}}
	switch form {
	case "sse":
		st.serve = by(wire.SSE)
	case "socket":
		st.serve = s.socket(id)
	}
	if st.done, err = s.Open(r.Context(), p); err != nil {
		return nil, err
	}
	st.form = v.encoder()
	st.frames = func(ctx context.Context) wire.Frames { return follow(ctx, p, id, v.after) }
	if waits {
		st.frames = s.afterOutage(p, []eventlog.Place{{Session: id, After: v.after}}, func(ctx context.Context) (wire.Frames, error) {
			err := s.within(ctx, p, SessionParam{id})
			if err == nil {
				err = v.prime(ctx)
			}
			return follow(ctx, p, id, v.after), err
		})
		return st, nil
	}
	if err = v.prime(r.Context()); err != nil {
		st.done()
		return nil, err
	}
	return st, nil
}

// beginsLater reports whether a stream begins although the store cannot be asked now. A browser's EventSource
// gives up after a status that is an error, and does not tell the page which one it was. Clients that try again by
// themselves accept JSON as well, and get the status: so they can tell people that nothing comes.
func beginsLater(err error, accept string) bool {
	return parley.CodeOf(err) == parley.CodeUnavailable && !accepts(accept, "application/json")
}

// afterOutage is a stream that begins when the store can be asked again.
func (s *Server) afterOutage(p parley.Principal, places []eventlog.Place, begin func(context.Context) (wire.Frames, error)) func(context.Context) wire.Frames {
	return func(ctx context.Context) wire.Frames {
		return func(yield func(eventlog.Frame, error) bool) {
			err := s.o.Reader.Await(ctx, p, places...)
			var frames wire.Frames
			if err == nil {
				frames, err = begin(ctx)
			}
			if err != nil {
				yield(eventlog.Frame{}, err)
				return
			}
			frames(yield)
		}
	}
}

// deltasOf reads the parameter deltas.
func deltasOf(q url.Values) (bool, error) {
	switch deltas := q.Get("deltas"); deltas {
	case "", "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, invalid("deltas", "deltas is true or false, not %q", parley.Cut(deltas, 20))
	}
}

func (s *Server) many(ctx context.Context, p parley.Principal, in *manyInput) (*huma.StreamResponse, error) {
	field, list := "Last-Event-ID", in.Last
	if list == "" {
		field, list = "sessions", in.Sessions
	}
	places, err := wire.ParsePlaces(field, list)
	if err != nil {
		return nil, err
	}
	done, err := s.Open(ctx, p)
	if err != nil {
		return nil, err
	}
	frames, err := s.o.Reader.FollowMany(ctx, p, places, in.Deltas)
	if beginsLater(err, in.Accept) {
		frames, err = s.afterOutage(p, places, func(ctx context.Context) (wire.Frames, error) {
			frames, err := s.o.Reader.FollowMany(ctx, p, places, in.Deltas)
			if err != nil {
				return nil, err
			}
			return frames(ctx), nil
		}), nil
	}
	if err != nil {
		done()
		return nil, err
	}
	return s.streamed(done, func(w http.ResponseWriter, r *http.Request) error {
		return wire.ServeMany(w, r, frames(r.Context()), places, wire.Options{Heartbeat: s.o.Heartbeat})
	}), nil
}

// streamed is an answer that is a stream. An error before its first byte is answered like
// any other.
func (s *Server) streamed(done func(), serve func(w http.ResponseWriter, r *http.Request) error) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		if r.Method == http.MethodHead { // HEAD would wait for a body that it never gets
			defer done()
			w.WriteHeader(http.StatusOK)
			return
		}
		hc.Context().Value(leftKey{}).(*left).st = &stream{
			serve: func(w http.ResponseWriter, r *http.Request, _ *stream) error { return serve(w, r) }, done: done,
		}
	}}
}

// cursorOf is where to continue. Last-Event-ID, which a browser sends when it reconnects,
// is newer than the URL.
func cursorOf(after int64, last string) (int64, error) {
	if last == "" {
		return after, nil
	}
	n, err := strconv.ParseInt(last, 10, 64)
	if err != nil || n < 0 {
		return 0, invalid("Last-Event-ID", "%q is not a cursor", last).WithHint("a cursor is the number of the last event you have of this session")
	}
	return n, nil
}
