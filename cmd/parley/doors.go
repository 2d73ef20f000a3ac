package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/mcpserver"
	answer "github.com/parley-server/parley/internal/wire"
	"github.com/parley-server/parley/web"
)

// table is everything that answers on a listener, by pattern. Patterns that need no
// identity are named; all others require one.
type table struct {
	mux      *http.ServeMux
	patterns []string
	open     []string
	pages    []string         // of the patterns
	routes   map[string]route // of the apps, by path
}

func (t *table) Handle(pattern string, h http.Handler) {
	t.patterns = append(t.patterns, pattern)
	t.mux.Handle(pattern, h)
}

// route is what an app has at one path.
type route struct {
	by       string                  // the app that brings it
	handlers map[string]http.Handler // by method; "" is for every other one
}

// route adds a route that the app by brings. It returns an error if its path is taken, also by a
// pattern that would match the same paths.
func (t *table) route(by, method, path string, h http.Handler) (err error) {
	known, ok := t.routes[path]
	switch {
	case !strings.HasPrefix(path, "/"):
		return errors.New("it does not begin with a slash")
	case ok && (known.by != by || known.handlers[method] != nil):
		return fmt.Errorf("the app %s has it", known.by)
	case ok:
		known.handlers[method] = h
		return nil
	}
	defer func() {
		if v := recover(); v != nil { // the mux found a conflict, or a mistake in the pattern
			err = fmt.Errorf("%v", v)
		}
	}()
	own := route{by, map[string]http.Handler{method: h}}
	t.mux.Handle(path, own)
	t.routes[path] = own
	t.patterns = append(t.patterns, path)
	return nil
}

// ServeHTTP implements http.Handler.
func (o route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := o.handlers[r.Method]
	if h == nil {
		h = o.handlers[""]
	}
	if h == nil {
		api.MethodNotAllowed(w, r, strings.Join(names(o.handlers), ", "))
		return
	}
	h.ServeHTTP(w, r)
}

// Open is Handle for public paths, which serve no user's data.
func (t *table) Open(pattern string, h http.Handler) {
	t.open = append(t.open, pattern)
	t.Handle(pattern, h)
}

// Page is Open for what people look at.
func (t *table) Page(pattern string, h http.Handler) {
	t.pages = append(t.pages, pattern)
	t.Open(pattern, h)
}

// ServeHTTP does not send anybody on to another path, as the mux would, except a person
// who left out the slash at the end of a page's path.
func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect && r.URL.Path == "" {
		api.MethodNotAllowed(w, r, "GET, HEAD, POST, PATCH, DELETE")
		return
	}
	if asked := r.URL.EscapedPath(); r.Method != http.MethodConnect && r.RequestURI != "*" {
		_, pattern := t.mux.Handler(r)
		slash := !strings.HasSuffix(asked, "/") && strings.HasSuffix(pattern, "/") && strings.Count(asked, "/") == strings.Count(pattern, "/")-1
		looks := slices.Contains(t.pages, pattern) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if cleaned(asked) != asked || disguised(asked) || slash && !looks {
			api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200)).
				WithHint("paths are taken as they are written, without //, . and ..; the routes are listed at /docs"))
			return
		}
		if slash {
			to := "./" + path.Base(asked) + "/" // relative, since a proxy's prefix is not known here
			if r.URL.RawQuery != "" {
				to += "?" + r.URL.RawQuery
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
	}
	t.mux.ServeHTTP(w, r)
}

// disguised reports whether a part of an escaped path is . or .. or has a slash, which
// another program could take for other parts.
func disguised(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil || plain != part && (plain == "." || plain == ".." || strings.Contains(plain, "/")) {
			return true
		}
	}
	return false
}

// cleaned is the path that the mux would send to.
func cleaned(p string) string {
	if p == "" || p[0] != '/' {
		p = "/" + p
	}
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

func (t *table) isOpen(r *http.Request) bool {
	_, pattern := t.mux.Handler(r)
	return slices.Contains(t.open, pattern)
}

func (t *table) isMetrics(r *http.Request) bool {
	_, pattern := t.mux.Handler(r)
	return pattern == "/metrics"
}

// doorDeps is what the doors are made of. Only plan is needed to find out which there are.
type doorDeps struct {
	plan      *plan
	engine    *engine.Engine
	reader    *eventlog.Reader
	api       *api.Server
	principal func(ctx context.Context) (parley.Principal, error)
	mcp       []*mcpserver.App // of the apps, in their order
	log       *slog.Logger
}

// doors makes the table for the apps that are served. Its error is about two that claim one path.
func doors(list []parley.App, d doorDeps) (*table, error) {
	t := &table{mux: http.NewServeMux(), routes: map[string]route{}}
	for _, pattern := range api.Patterns() {
		if slices.Contains(api.Open(), pattern) {
			t.Open(pattern, packed(d.api))
			continue
		}
		t.Handle(pattern, packed(d.api))
	}
	mcp := mcpOf(list, d)
	t.Handle("/apps/{app}/mcp", mcp(func(r *http.Request) string { return r.PathValue("app") }))
	pages(t, list, d)
	m := &mounted{t: t, d: d, mcp: mcp, served: map[string]bool{}}
	for _, a := range list {
		m.served[a.Name] = true
	}
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
			before := len(t.patterns)
			for _, of := range list {
				if !slices.Contains(of.Wires, name) {
					continue
				}
				if owner != "" {
					return nil, parley.Errorf(parley.CodeInvalid, "the apps %s and %s both name the wire %s, which has one path, %s", owner, of.Name, name, strings.Join(t.patterns[before:], ", ")).
						WithHint("take it out of one of them")
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

// mounted is the [app.Mux] of one app at a time.
type mounted struct {
	t      *table
	d      doorDeps
	mcp    func(of func(*http.Request) string) http.Handler
	served map[string]bool
	by     string // the app that brings the routes being mounted
	owner  string // whose they are
	err    error  // the first pattern that could not be
}

func (m *mounted) mount(f app.Mount, owner string) {
	m.owner = owner
	f(m, app.Deps{
		App: owner, Engine: m.d.engine, Reader: m.d.reader, Principal: m.d.principal, Open: m.d.api.Open, Fail: api.WriteError,
		MCP:          func(name string) http.Handler { return m.mcp(func(*http.Request) string { return name }) },
		Limits:       m.d.plan.limits(),
		PartialEvery: m.d.plan.partialEvery(owner), Toolsets: m.d.plan.sets,
	})
}

// Handle implements [app.Mux].
func (m *mounted) Handle(pattern string, h http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	owner, each := m.owner, strings.HasPrefix(path, "/apps/{app}/")
	if !each && !m.served[owner] {
		if method = ""; m.t.routes[path].by == m.by {
			return // it says so already, to every method
		}
	}
	limits := m.d.plan.limits()
	err := m.t.route(m.by, method, path, packed(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := owner
		if each {
			name = r.PathValue("app")
		}
		if !m.served[name] {
			m.noApp(w, r, name)
			return
		}
		if err := limits.Bound(w, r); err != nil {
			api.WriteError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})))
	if m.err == nil && err != nil {
		m.err = parley.Errorf(parley.CodeInvalid, "the path %s of the app %s is taken: %w", path, m.by, err).
			WithHint("each path belongs to one app; give one of them another")
	}
}

// Describe implements [app.Mux].
func (m *mounted) Describe(op *huma.Operation, refused ...int) {
	if m.d.api != nil && (m.served[m.owner] || strings.HasPrefix(op.Path, "/apps/{app}/")) {
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

// packed compresses h's larger answers with gzip, for clients that accept it.
func packed(h http.Handler) http.Handler {
	return answer.Compressed(h, func(r *http.Request) bool {
		return web.Accepts(strings.Join(r.Header.Values("Accept-Encoding"), ","), "gzip")
	})
}

// noApp answers at the path of an app that is not served, or has nothing there.
func (d doorDeps) noApp(w http.ResponseWriter, name string) {
	api.WriteError(w, d.notServed(name))
}

// notServed says why an app is not served, or has nothing at a path.
func (d doorDeps) notServed(name string) error {
	_, err := d.engine.App(name) // which knows why
	if err == nil {
		err = parley.Errorf(parley.CodeNotFound, "the app %q has nothing here", name).WithHint("the routes are listed at /docs")
	}
	return err
}

// noApp is doorDeps.noApp at the path of a request. If every app has the same at a path of
// its own, the hint says so.
func (m *mounted) noApp(w http.ResponseWriter, r *http.Request, name string) {
	err := m.d.notServed(name)
	if e, ok := errors.AsType[*parley.Error](err); ok && slices.Contains(m.t.patterns, "/apps/{app}"+r.URL.Path) {
		err = e.WithHint("%s; each has its own at /apps/NAME%s", e.Hint, r.URL.Path)
	}
	api.WriteError(w, err)
}
