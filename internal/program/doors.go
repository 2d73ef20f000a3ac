package program

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/doors"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/mcpserver"
)

// doorDeps is what the doors are made from. To list the doors, only plan is needed.
type doorDeps struct {
	access    *auth.Access // nil: the doors are only listed
	plan      *plan
	engine    *engine.Engine
	reader    *eventlog.Reader
	api       *api.Server
	principal func(ctx context.Context) (parley.Principal, error)
	roll      *roll // the apps that are served
	log       *slog.Logger
}

// doorsOf makes the table of doors for the apps that are served. It returns an error if two of
// them claim the same path.
func doorsOf(list []parley.App, d doorDeps) (*doors.Table, error) {
	t := doors.New(d.plan.limits())
	if d.roll == nil {
		d.roll = &roll{apps: map[string]*mcpserver.App{}}
		for _, a := range list {
			d.roll.put(a.Name, nil)
		}
	}
	for _, pattern := range api.Patterns() {
		if slices.Contains(api.Open(), pattern) {
			t.Open(pattern, doors.Packed(d.api))
			continue
		}
		t.Handle(pattern, doors.Packed(d.api))
	}
	d.signIn(t)
	mcp := mcpOf(d)
	t.Handle("/apps/{app}/mcp", mcp(func(r *http.Request) string { return r.PathValue("app") }))
	t.Open(login.Document, http.HandlerFunc(d.document))
	pages(t, list, d)
	m := &mounted{t: t, d: d, mcp: mcp}
	app.DescribeMCP(m, "app-mcp", "/apps/{app}/mcp", "an app", &huma.Param{
		Name: "app", In: "path", Required: true, Description: "The app's name.", Schema: &huma.Schema{Type: huma.TypeString},
	})
	for _, a := range d.plan.kit.apps {
		m.by = a.Name
		if a.Mount != nil {
			m.mount(a.Mount, a.Name)
		}
		for _, name := range names(a.Wires) {
			owner := ""
			before := len(t.Patterns())
			for _, of := range list {
				if !slices.Contains(of.Wires, name) {
					continue
				}
				if owner != "" {
					return nil, parley.Errorf(parley.CodeInvalid, "the apps %s and %s both name the wire %s, which has only one path, %s", owner, of.Name, name, strings.Join(t.Patterns()[before:], ", ")).
						WithHint("remove it from one of them")
				}
				owner = of.Name
				m.mount(a.Wires[name], owner)
			}
			if owner == "" {
				m.mount(a.Wires[name], a.Name)
			}
		}
	}
	return t, m.err
}

// signIn adds what a browser needs to sign in. It has no identity then.
func (d doorDeps) signIn(t *doors.Table) {
	var flow *auth.Flow
	if d.access != nil {
		flow = d.access.Flow
	}
	only := func(f func(*auth.Flow, http.ResponseWriter, *http.Request)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method != http.MethodGet:
				api.MethodNotAllowed(w, r, "GET")
			case flow == nil:
				api.WriteError(w, parley.Errorf(parley.CodeNotFound, "nobody signs in at this server").WithHint("auth.issuers.NAME.login in parley.yaml lets browsers sign in"))
			default:
				f(flow, w, r)
			}
		})
	}
	t.Open(auth.WaysPath, only((*auth.Flow).ServeWays))
	t.Open(auth.BeginPath, only((*auth.Flow).Begin))
	t.Open(auth.CallbackPath, only((*auth.Flow).Callback))
}

// mounted is the [app.Mux] for mounting one app after another.
type mounted struct {
	t     *doors.Table
	d     doorDeps
	mcp   func(of func(*http.Request) string) http.Handler
	by    string // the app that brings the routes being mounted
	owner string // the app that the routes belong to
	err   error  // about the first pattern that could not be mounted
}

func (m *mounted) mount(f app.Mount, owner string) {
	m.owner = owner
	f(m, app.Deps{
		App: owner, Engine: m.d.engine, Reader: m.d.reader, Principal: m.d.principal, Bearer: m.d.plan.bearer, Open: m.d.api.Open, Fail: api.WriteError,
		MCP:          func(name string) http.Handler { return m.mcp(func(*http.Request) string { return name }) },
		Limits:       m.d.plan.limits(),
		PartialEvery: m.d.plan.partialEvery(owner), Toolsets: m.d.plan.sets,
		Tables: m.d.plan.tables[m.by],
	})
}

// Handle implements [app.Mux].
func (m *mounted) Handle(pattern string, h http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	owner, each := m.owner, strings.HasPrefix(path, "/apps/{app}/")
	if !each && !m.d.roll.has(owner) {
		method = ""
		if by, _ := m.t.Owner(path); by == m.by {
			return // it already answers so, for every method
		}
	}
	err := m.t.Route(m.by, method, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.t.Returns(r) {
			if _, err := m.d.principal(r.Context()); err != nil {
				doors.Back(w, r)
				return
			}
		}
		name := owner
		if each {
			name = r.PathValue("app")
		}
		if !m.d.roll.has(name) {
			m.noApp(w, r, name)
			return
		}
		if only := auth.App(r.Context()); only != "" && only != name {
			api.WriteError(w, beyond(only))
			return
		}
		h.ServeHTTP(w, r)
	}))
	if _, ok := h.(app.Detailed); ok {
		m.t.Detail(path)
	}
	if m.err == nil && err != nil {
		m.err = parley.Errorf(parley.CodeInvalid, "the path %s of the app %s is already in use: %w", path, m.by, err).
			WithHint("each path belongs to one app; give one of the apps another path")
	}
}

// Return implements [app.Mux].
func (m *mounted) Return(path string) { m.t.Return(path) }

// Unlock implements [app.Mux].
func (m *mounted) Unlock(path string) {
	owner := m.owner
	m.t.Unlock(path, func() bool { return m.d.roll.has(owner) })
}

// Describe implements [app.Mux].
func (m *mounted) Describe(op *huma.Operation, refused ...int) {
	if m.d.api != nil && (m.d.roll.has(m.owner) || strings.HasPrefix(op.Path, "/apps/{app}/")) {
		m.d.api.Describe(op, refused...)
	}
}

// Schema implements [app.Mux].
func (m *mounted) Schema(v any) *huma.Schema {
	if m.d.api == nil {
		return &huma.Schema{}
	}
	return m.d.api.Schema(v)
}

// noApp answers a request at the path of an app that is not served or has nothing there.
func (d doorDeps) noApp(w http.ResponseWriter, name string) {
	api.WriteError(w, d.notServed(name))
}

// notServed returns the error that says why an app is not served, or that it has nothing at the
// path.
func (d doorDeps) notServed(name string) error {
	_, err := d.engine.App(name) // its error says why
	if err == nil {
		err = parley.Errorf(parley.CodeNotFound, "the app %q has nothing here", name).WithHint("the routes are listed at /docs")
	}
	return err
}

// noApp is doorDeps.noApp for a request. If every app has the same route under its own path,
// the hint says so.
func (m *mounted) noApp(w http.ResponseWriter, r *http.Request, name string) {
	err := m.d.notServed(name)
	if e, ok := errors.AsType[*parley.Error](err); ok && slices.Contains(m.t.Patterns(), "/apps/{app}"+r.URL.Path) {
		err = e.WithHint("%s; each has its own at /apps/NAME%s", e.Hint, r.URL.Path)
	}
	api.WriteError(w, err)
}

// document says to authorization servers who this server is.
func (d doorDeps) document(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		api.MethodNotAllowed(w, r, "GET, HEAD")
		return
	}
	base, err := d.plan.base()
	who, ok := login.Client(base)
	if err != nil || !ok {
		api.WriteError(w, parley.Errorf(parley.CodeNotFound, "this server has no public address that begins with https").
			WithHint("set public_url in parley.yaml, or PARLEY_PUBLIC_URL, such as https://parley.example.com"))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(who) // the client may be gone
}
