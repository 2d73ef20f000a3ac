// Package doors is the table of all handlers on a listener. For each it says whether requests
// need an identity, how large a body may be, and whether answers are compressed. It also
// decides how a path may be written.
//
// Patterns are those of [http.ServeMux]. A pattern belongs to the server, with one handler, or
// to one app, which may have a handler for each method. Fill the table from one goroutine
// before it serves. Errors have the form of the native API.
package doors

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/wire"
	"github.com/parley-server/parley/web"
)

// Table holds all handlers by pattern. Requests need an identity, except for open patterns. The
// table does not check identities itself: the handler in front of it does, using
// [Table.IsOpen].
type Table struct {
	limits   wire.Limits
	mux      *http.ServeMux
	patterns []string
	open     []string
	pages    []string               // patterns of pages
	routes   map[string]route       // routes of apps, by path
	returns  []string               // paths to which other services send browsers
	unlocked map[string]func() bool // whether the app is served, by the paths of routes that need no identity then
	details  []string               // paths whose clients look for the message of an error under detail
}

// New makes an empty table. The limits apply to the routes of apps.
func New(limits wire.Limits) *Table {
	return &Table{limits: limits, mux: http.NewServeMux(), routes: map[string]route{}}
}

// Handle adds a handler of the server. It does not limit the body.
func (t *Table) Handle(pattern string, h http.Handler) {
	t.patterns = append(t.patterns, pattern)
	t.mux.Handle(pattern, h)
}

// Open is Handle for public paths, which must not serve any user's data.
func (t *Table) Open(pattern string, h http.Handler) {
	t.open = append(t.open, pattern)
	t.Handle(pattern, h)
}

// Page is Open for pages that people look at.
func (t *Table) Page(pattern string, h http.Handler) {
	t.pages = append(t.pages, pattern)
	t.Open(pattern, h)
}

// route is what an app has at one path.
type route struct {
	by       string                  // the app that brings it
	handlers map[string]http.Handler // by method; "" is for all other methods
}

// Route adds a route that the app by brings, for one method, or for all other methods if method
// is "". Its answers are compressed, and bodies over the limit are rejected. It returns an
// error if another pattern already matches the same paths.
func (t *Table) Route(by, method, path string, h http.Handler) (err error) {
	h = Packed(t.bounded(h))
	known, ok := t.routes[path]
	switch {
	case !strings.HasPrefix(path, "/"):
		return errors.New("it does not begin with a slash")
	case ok && (known.by != by || known.handlers[method] != nil):
		return fmt.Errorf("the app %s already has it", known.by)
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

// Unlock says that requests to the path of a route need no identity while its app is served: what its
// clients say later names them.
func (t *Table) Unlock(path string, served func() bool) {
	if t.unlocked == nil {
		t.unlocked = map[string]func() bool{}
	}
	t.unlocked[path] = served
}

// Detail says that clients of a path look for the message of an error under detail, also at paths
// below its folder where there is nothing.
func (t *Table) Detail(path string) { t.details = append(t.details, path) }

// HasDetail reports whether the client of a request does.
func (t *Table) HasDetail(r *http.Request) bool {
	if at := t.At(r); at != "" && at != "/" {
		return slices.Contains(t.details, at)
	}
	return slices.ContainsFunc(t.details, func(path string) bool {
		folder := path[:strings.LastIndexByte(path, '/')+1]
		return folder != "/" && strings.HasPrefix(r.URL.Path, folder)
	})
}

// bounded limits the bodies that h reads. A request whose declared length is over the limit is
// rejected; reading any other body beyond the limit fails.
func (t *Table) bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.limits.Bound(w, r); err != nil {
			api.WriteError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Packed compresses the larger answers of h with gzip, for clients that accept it.
func Packed(h http.Handler) http.Handler {
	return wire.Compressed(h, func(r *http.Request) bool {
		return web.Accepts(strings.Join(r.Header.Values("Accept-Encoding"), ","), "gzip")
	})
}

// ServeHTTP implements http.Handler.
func (o route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := o.handlers[r.Method]
	if h == nil {
		h = o.handlers[""]
	}
	if h == nil {
		api.MethodNotAllowed(w, r, strings.Join(o.methods(), ", "))
		return
	}
	h.ServeHTTP(w, r)
}

func (o route) methods() []string { return slices.Sorted(maps.Keys(o.handlers)) }

// Patterns returns all patterns.
func (t *Table) Patterns() []string { return slices.Clone(t.patterns) }

// Public returns the patterns that need no identity now.
func (t *Table) Public() []string {
	list := slices.Clone(t.open)
	for _, path := range slices.Sorted(maps.Keys(t.unlocked)) {
		if t.unlocked[path]() {
			list = append(list, path)
		}
	}
	return list
}

// Owner returns the app that brings the route at a path, and the route's methods. The method ""
// stands for all others.
func (t *Table) Owner(path string) (app string, methods []string) {
	own := t.routes[path]
	return own.by, own.methods()
}

// At returns the pattern that matches a request, or "" if none does.
func (t *Table) At(r *http.Request) string {
	_, pattern := t.mux.Handler(r)
	return pattern
}

// IsOpen reports whether a request needs no identity.
func (t *Table) IsOpen(r *http.Request) bool {
	at := t.At(r)
	if served := t.unlocked[at]; served != nil && served() {
		return true
	}
	return slices.Contains(t.open, at) || t.Returns(r)
}

// Return says that another service sends browsers to path, after a login there. Such a browser shows
// no key. Its request reaches the route, which sends it on with [Back] if it has no identity.
func (t *Table) Return(path string) { t.returns = append(t.returns, path) }

// Returns reports whether a request is that of a browser that goes to such a path, and shows no
// key. A page's own request is none.
func (t *Table) Returns(r *http.Request) bool {
	if r.Method != http.MethodGet || !slices.Contains(t.returns, r.URL.Path) || r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// Back sends a browser on to the page that hands in what it brings, with its user's key. The page
// learns the path from the query.
func Back(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	q.Set("at", r.URL.Path)
	h := w.Header()
	// Relative, since a proxy's prefix is not known here.
	h.Set("Location", strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)+"login.html?"+q.Encode())
	h.Set("Referrer-Policy", "no-referrer") // the address has a code
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// ServeHTTP implements http.Handler. Unlike the mux it does not redirect, except to add a
// missing slash at the end of a page's path. Its frame is small, since every stream has it on its
// stack for as long as it is open.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !t.answered(w, r) {
		t.mux.ServeHTTP(w, r)
	}
}

// answered refuses and redirects what the mux would take otherwise, and reports whether it has.
//
//go:noinline
func (t *Table) answered(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodConnect && r.URL.Path == "" {
		api.MethodNotAllowed(w, r, "GET, HEAD, POST, PATCH, DELETE")
		return true
	}
	if asked := r.URL.EscapedPath(); r.Method != http.MethodConnect && r.RequestURI != "*" {
		pattern := t.At(r)
		slash := !strings.HasSuffix(asked, "/") && strings.HasSuffix(pattern, "/") && strings.Count(asked, "/") == strings.Count(pattern, "/")-1
		looks := slices.Contains(t.pages, pattern) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if !Plain(asked) || slash && !looks {
			api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is nothing at %s", parley.Cut(r.URL.Path, 200)).
				WithHint("paths are taken as they are written, without //, . and ..; the routes are listed at /docs"))
			return true
		}
		if slash {
			to := "./" + path.Base(asked) + "/" // relative, since a proxy's prefix is not known here
			if r.URL.RawQuery != "" {
				to += "?" + r.URL.RawQuery
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
			return true
		}
	}
	return false
}

// Plain reports whether an escaped path is unambiguous: no part is empty, "." or "..", or
// contains an escaped slash, which other programs could interpret differently.
func Plain(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil || plain != part && (plain == "." || plain == ".." || strings.Contains(plain, "/")) {
			return false
		}
	}
	return cleaned(p) == p
}

// cleaned returns the path that the mux would redirect to.
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
