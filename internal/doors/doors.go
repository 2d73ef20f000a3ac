// Package doors is the table of everything that answers on a listener, and what stands before each of
// it: who may come in without an identity, how large a body may be, whether an answer is compressed, and
// how a path may be written.
//
// A pattern is one of [http.ServeMux]. It has one handler: the server's own, or that of one app, which
// may have another for each method. The table is filled before it serves, by one goroutine. Refusals
// have the form of the native API.
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

// Table is everything that answers, by pattern. Patterns that need no identity are named; all others
// require one. It asks nobody who it is: a door before it does, which asks [Table.IsOpen].
type Table struct {
	limits   wire.Limits
	mux      *http.ServeMux
	patterns []string
	open     []string
	pages    []string         // of the patterns
	routes   map[string]route // of the apps, by path
}

// New makes a table. The limits are those of the apps' routes.
func New(limits wire.Limits) *Table {
	return &Table{limits: limits, mux: http.NewServeMux(), routes: map[string]route{}}
}

// Handle adds a door of the server. It limits no body.
func (t *Table) Handle(pattern string, h http.Handler) {
	t.patterns = append(t.patterns, pattern)
	t.mux.Handle(pattern, h)
}

// Open is Handle for public paths, which serve no user's data.
func (t *Table) Open(pattern string, h http.Handler) {
	t.open = append(t.open, pattern)
	t.Handle(pattern, h)
}

// Page is Open for what people look at.
func (t *Table) Page(pattern string, h http.Handler) {
	t.pages = append(t.pages, pattern)
	t.Open(pattern, h)
}

// route is what an app has at one path.
type route struct {
	by       string                  // the app that brings it
	handlers map[string]http.Handler // by method; "" is for every other one
}

// Route adds a route that the app by brings, for a method or with "" for every other one. Its answers
// are compressed, and a body beyond the limits does not reach it. It returns an error if its path is
// taken, also by a pattern that would match the same paths.
func (t *Table) Route(by, method, path string, h http.Handler) (err error) {
	h = Packed(t.bounded(h))
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

// bounded keeps a body that declares itself too large from h, and fails the reading of others beyond
// the limit.
func (t *Table) bounded(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.limits.Bound(w, r); err != nil {
			api.WriteError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Packed compresses h's larger answers with gzip, for clients that accept it.
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

// Patterns are those of all doors.
func (t *Table) Patterns() []string { return slices.Clone(t.patterns) }

// Public are the patterns that need no identity.
func (t *Table) Public() []string { return slices.Clone(t.open) }

// Owner is the app that brings the route at a path, and the methods that it has there; "" among them
// is every other one.
func (t *Table) Owner(path string) (app string, methods []string) {
	own := t.routes[path]
	return own.by, own.methods()
}

// At is the pattern of the door that a request comes to; empty: there is none.
func (t *Table) At(r *http.Request) string {
	_, pattern := t.mux.Handler(r)
	return pattern
}

// IsOpen reports whether a request needs no identity.
func (t *Table) IsOpen(r *http.Request) bool { return slices.Contains(t.open, t.At(r)) }

// ServeHTTP does not send anybody on to another path, as the mux would, except a person
// who left out the slash at the end of a page's path.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect && r.URL.Path == "" {
		api.MethodNotAllowed(w, r, "GET, HEAD, POST, PATCH, DELETE")
		return
	}
	if asked := r.URL.EscapedPath(); r.Method != http.MethodConnect && r.RequestURI != "*" {
		pattern := t.At(r)
		slash := !strings.HasSuffix(asked, "/") && strings.HasSuffix(pattern, "/") && strings.Count(asked, "/") == strings.Count(pattern, "/")-1
		looks := slices.Contains(t.pages, pattern) && (r.Method == http.MethodGet || r.Method == http.MethodHead)
		if !Plain(asked) || slash && !looks {
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

// Plain reports whether an escaped path is written as everybody would understand it: it has no
// empty parts, and no part is . or .. or has a slash, which another program could take for other parts.
func Plain(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil || plain != part && (plain == "." || plain == ".." || strings.Contains(plain, "/")) {
			return false
		}
	}
	return cleaned(p) == p
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
