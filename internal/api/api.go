// Package api is the native door: sessions, turns, events, interactions and
// artifacts over HTTP and JSON, described by an OpenAPI document that is made
// from the same table as the routes.
//
// A door makes no decisions. It identifies the caller, checks the form of the request,
// passes it to the engine, and encodes the result. Every refusal is
// {"error":{"code","message","hint","field"}} with the status of [Status]. The log is
// shown as a JSON page, as server-sent events, as NDJSON or over a WebSocket, with one
// cursor for all: the number of the last event seen.
//
// [New] makes the handler, [Guard] wraps it and every other door of the same listener: it
// checks against DNS rebinding, handles CORS, and contains panics, so that one costs a
// request and not the server.
//
// Closing a stream never ends a turn. Handlers are safe for concurrent use.
package api

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/wire"
)

// Options of [New]. Engine and Reader are required; the rest has defaults.
type Options struct {
	Engine Engine
	Reader *eventlog.Reader
	Blobs  Blobs    // for exports; nil leaves the blobs out
	Import Importer // nil refuses imports

	// Principal identifies the caller from the request's context. Nil: everybody is
	// parley.Local.
	Principal func(ctx context.Context) (parley.Principal, error)
	// Only returns the app that the caller is limited to, or "". Nil: nobody is limited.
	Only func(ctx context.Context) string

	// Providers asks the model providers whether they would answer; nil: there is no such
	// route.
	Providers func(ctx context.Context) []ProviderInfo

	// Missing says why a runtime cannot carry out turns now; nil, also the function: it can.
	Missing func(runtime string) error

	// Page returns how an app's page looks; nil: it is not known.
	Page func(app string) AppPage

	// Logins are users' logins at other services; nil: there are none.
	Logins *login.Logins

	// Access is what callers may see and change of their own ways in; nil: nobody has any.
	Access *auth.Access

	// Devices are told when turns end or wait; nil: there are no such routes.
	Devices *push.Push

	// Schedules begin turns at times; nil: there are no such routes.
	Schedules *schedule.Schedules

	// Partial returns what an open call of a session has shown of its answer; nil: nothing is known of
	// text in flight.
	Partial func(id parley.SessionID, call parley.CallID) (shown string, n int64, ok bool)

	// Files are those of users' workspaces; nil: there are no such routes.
	Files *userfiles.Files

	// Kill ends the process as a power cut would. Only a demo has it; nil: there is no such route.
	Kill func()

	Version string            // of the server, as /v1/server shows it
	Off     map[string]string // apps that are not served, and why
	// Mistakes returns the mistakes in the current files of apps, by the app's name; nil: there
	// are none.
	Mistakes func() map[string][]string
	// Outages says why tools of apps are not known, by the app's name; nil: there are none.
	Outages func() map[string][]string
	// AppNotices are what the toolsets of an app say to its users, by the app's name; nil: nothing.
	AppNotices func(app string) []string
	Notices    []string     // what every client should show, for example that no login is required
	Metrics    http.Handler // at /metrics; nil: there is none
	Streams    func(n int)  // called with the number of open streams
	// Redact removes secrets from errors that are sent over a WebSocket, as the guard does with
	// others. Nil: they are sent as they are.
	Redact func(body []byte) []byte
	Logger *slog.Logger

	wire.Limits
	Heartbeat time.Duration // for silent streams; 0: 15 s
}

// Server is the native API.
type Server struct {
	o    Options
	mux  *http.ServeMux
	huma huma.API

	streams wire.Streams
	texts   texts
	heavy   fair.Turns
	priming *fair.Turns // of views that begin in the middle of a log

	imports gate
	writes  gate          // of files, with large bodies
	unpack  chan struct{} // held while an archive is unpacked and appended
}

// New makes the native API.
func New(o Options) *Server {
	if o.Principal == nil {
		o.Principal = func(context.Context) (parley.Principal, error) { return parley.Local, nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	o.Limits = o.Limits.Defaults()
	o.Heartbeat = orElse(o.Heartbeat, 15*time.Second)

	hookErrors()
	s := &Server{o: o, mux: http.NewServeMux(), priming: newPriming(), unpack: make(chan struct{}, 1)}
	s.imports.max, s.imports.each, s.writes.max, s.writes.each = maxImports, maxUserImports, maxWrites, maxUserWrites
	s.heavy.Slots, s.heavy.Queued = heavySlots(), maxUserWaiting
	s.streams.Max, s.streams.Each, s.streams.Told = o.MaxStreams, o.MaxUserStreams, o.Streams
	s.huma = humago.New(routes{s}, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title:   "Parley",
				Version: o.Version,
				License: &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"},
				Description: "An agent server whose sessions outlive it. Every error is {\"error\": {\"code\", \"message\", \"hint\", \"field\"}}; one that is worth trying again has retry_after_ms, in milliseconds, too. " +
					"Names are case-sensitive, each field and query parameter may be given once, and text is UTF-8.",
			},
			// Relative to the document, which may be served below a proxy's prefix.
			Servers:    []*huma.Server{{URL: "."}},
			Components: &huma.Components{SecuritySchemes: keys, Responses: map[string]*huma.Response{}},
			// The first entry, without a requirement, is a server without a login.
			Security: []map[string][]string{{}, {"bearer": {}}, {"key": {}}},
			Tags: []*huma.Tag{
				{Name: "sessions", Description: "Conversations, each with one log."},
				{Name: "conversations", Description: "Sessions for clients that keep conversations: status, answer so far and cost, without the log."},
				{Name: "events", Description: "The log of a session, to read and to follow."},
				{Name: "turns", Description: "A message and all that an agent does about it."},
				{Name: "interactions", Description: "Questions that wait for a person."},
				{Name: "logins", Description: "Where the user has logged in at other services."},
				{Name: "access", Description: "Who the caller is, and the sign-ins and keys that act as them."},
				{Name: "devices", Description: "What is told when a turn ends or waits: browsers, apps on phones, programs."},
				{Name: "proposals", Description: "Changes of a lake that an agent proposes, and people apply."},
				{Name: "schedules", Description: "What begins turns at times, without anybody asking."},
				{Name: "workspaces", Description: "Folders of files that sessions work in."},
				{Name: "entities", Description: "The pages of a lake, with their links and their history."},
				{Name: "artifacts", Description: "Large results that are stored separately."},
				{Name: "server", Description: "What the server offers, and its health."},
				{Name: wiresTag, Description: "The apps' own protocols, as their clients expect them."},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": strictJSON, "json": strictJSON},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
	})
	s.failures()
	s.sessionRoutes()
	s.turnRoutes()
	s.conversationRoutes()
	s.eventRoutes()
	s.windowRoutes()
	s.interactionRoutes()
	s.loginRoutes()
	s.accessRoutes()
	s.deviceRoutes()
	s.scheduleRoutes()
	s.proposalRoutes()
	s.workspaceRoutes()
	s.entityRoutes()
	s.serverRoutes()
	s.archiveRoutes()
	s.attachmentRoutes()
	s.specRoutes()
	s.mux.HandleFunc("/", s.nothing)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mux.ServeHTTP(w, r)
}

// Route is one line of the table of routes.
type Route struct{ Method, Path string }

// Routes lists every operation of the API, so that a test can try each.
func (s *Server) Routes() []Route {
	var out []Route
	for path, item := range s.huma.OpenAPI().Paths {
		for method, op := range operations(item) {
			if op.Tags[0] != wiresTag {
				out = append(out, Route{method, path})
			}
		}
	}
	return out
}

// operations are those of one path, by method.
func operations(item *huma.PathItem) map[string]*huma.Operation {
	all := map[string]*huma.Operation{
		http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPatch: item.Patch,
		http.MethodDelete: item.Delete, http.MethodPut: item.Put,
	}
	maps.DeleteFunc(all, func(_ string, op *huma.Operation) bool { return op == nil })
	return all
}

// Patterns are the mux patterns that the Server handles.
func Patterns() []string {
	return []string{"/v1/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"}
}

// Open lists the patterns that require no identity: health checks come from monitors
// without one, and the description of the routes is the same for everybody. Usage
// (/metrics) is not among them.
func Open() []string { return []string{"/healthz", "/readyz", "/openapi.json", "/docs"} }

// routes lets huma fill the mux.
type routes struct{ s *Server }

// Every operation runs aside: its connection may have a stream next, with the stack that was needed before.
func (r routes) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	h = r.s.aside(h)
	switch pattern {
	case http.MethodGet + " " + eventsPath:
		h = r.s.streamOr(h, "")
	case http.MethodGet + " " + followPath:
		h = r.s.streamOr(h, "sse")
	case http.MethodGet + " " + linesPath:
		h = r.s.streamOr(h, "ndjson")
	case http.MethodGet + " " + socketPath, http.MethodGet + " " + oldSocketPath:
		h = r.s.streamOr(h, "socket")
	case http.MethodGet + " " + streamPath:
		h = r.s.manyOr(h)
	case http.MethodPut + " " + filePath, http.MethodPost + " " + attachPath:
		h = r.s.writing(h)
	case http.MethodPost + " " + importPath:
		h = r.s.importing(h)
	}
	r.s.mux.HandleFunc(pattern, h)
}

func (r routes) ServeHTTP(w http.ResponseWriter, q *http.Request) { r.s.ServeHTTP(w, q) }

// route adds one operation: it identifies the caller before h runs, and turns h's error
// into the one shape.
func route[I, O any](s *Server, op huma.Operation, h func(ctx context.Context, p parley.Principal, in *I) (*O, error)) {
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = s.o.MaxBody
	}
	s.declareFailures(&op, reflect.TypeFor[I]())
	op.Metadata = map[string]any{schemas: s.huma.OpenAPI().Components.Schemas}
	op.BodyReadTimeout = -1 // none here: package edge limits the wait for every body
	op.Middlewares = append(op.Middlewares, func(hc huma.Context, next func(huma.Context)) {
		// A body that declares itself too large is not waited for.
		if r, w := humago.Unwrap(hc); r.ContentLength > op.MaxBodyBytes {
			WriteError(w, refusal(http.StatusRequestEntityTooLarge, "", nil, &op))
			return
		}
		next(hc)
	})
	huma.Register(s.huma, op, func(ctx context.Context, in *I) (*O, error) {
		p, err := s.o.Principal(ctx)
		if err != nil {
			return nil, s.fail(ctx, op, err)
		}
		bytes, late := heldBy(op.OperationID)
		if err := wire.Reserve(ctx, bytes); err != nil {
			return nil, s.fail(ctx, op, err)
		}
		if err := s.within(ctx, p, in); err != nil {
			return nil, s.fail(ctx, op, err)
		}
		out, err := h(ctx, p, in)
		if err == nil && late {
			err = wire.Reserve(ctx, heldSmall)
		}
		if err != nil {
			return nil, s.fail(ctx, op, err)
		}
		return out, nil
	})
}

// fail logs the details that the client does not get, and returns what it does get.
func (s *Server) fail(ctx context.Context, op huma.Operation, err error) *statusError {
	e := problem(err)
	if e.status >= http.StatusInternalServerError && ctx.Err() == nil {
		level, why := slog.LevelError, err
		if e.status == http.StatusBadGateway || e.status == http.StatusGatewayTimeout {
			level = slog.LevelWarn // a service of somebody else, or a wait that was too short
		}
		if own, ok := errors.AsType[*parley.Error](err); ok && e.status == http.StatusServiceUnavailable {
			if _, said := errors.AsType[*parley.Error](own.Err); own.Err == nil || said {
				level = slog.LevelInfo // the server is full or stopping, or its data folder is away, which is logged once elsewhere
			} else {
				why = own.Err
			}
		}
		s.o.Logger.Log(ctx, level, "request failed", "operation", op.OperationID, "code", e.info.Code, "error", why)
	}
	return e
}

// nothing answers requests that no route matched: another method of a known path, or an
// unknown path.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	var allow string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != "" && pattern != "/" {
			if allow != "" {
				allow += ", "
			}
			allow += m
		}
	}
	if allow == "" {
		WriteError(w, parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200)).
			WithHint("the routes are listed at /docs"))
		return
	}
	MethodNotAllowed(w, r, allow)
}

// MethodNotAllowed answers a request with a method that the path does not support.
func MethodNotAllowed(w http.ResponseWriter, r *http.Request, allow string) {
	w.Header().Set("Allow", allow)
	e := problem(parley.Errorf(parley.CodeInvalid, "%s is not allowed at %s", parley.Cut(r.Method, 20), parley.Cut(r.URL.Path, 200)).
		WithHint("use %s", allow))
	writeStatus(w, http.StatusMethodNotAllowed, e)
}

type body[T any] struct{ Body T }

func ok[T any](v T, err error) (*body[T], error) {
	if err != nil {
		return nil, err
	}
	return &body[T]{v}, nil
}

func orElse[T int | int64 | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
