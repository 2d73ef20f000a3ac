package main

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	answer "github.com/parley-server/parley/internal/wire"
	"github.com/parley-server/parley/web"
)

// table is everything that answers on a listener, by pattern. Patterns that need no
// identity are named; all others require one.
type table struct {
	mux      *http.ServeMux
	patterns []string
	open     []string
	pages    []string // of the patterns
}

func (t *table) Handle(pattern string, h http.Handler) {
	t.patterns = append(t.patterns, pattern)
	t.mux.Handle(pattern, h)
}

func (t *table) HandleFunc(pattern string, h http.HandlerFunc) { t.Handle(pattern, h) }

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

// doors makes the table.
func doors(list []parley.App, d wireDeps) (*table, error) {
	t := &table{mux: http.NewServeMux()}
	for _, pattern := range api.Patterns() {
		if slices.Contains(api.Open(), pattern) {
			t.Open(pattern, packed(d.api))
			continue
		}
		t.Handle(pattern, packed(d.api))
	}
	for _, name := range names(wires) {
		w := wires[name]
		owner := ""
		for _, a := range list {
			if !slices.Contains(a.Wires, name) {
				continue
			}
			if owner != "" {
				return nil, parley.Errorf(parley.CodeInvalid, "the apps %s and %s both name the wire %s, which has one path, %s", owner, a.Name, name, w.path).
					WithHint("take it out of one of them")
			}
			owner = a.Name
		}
		if owner == "" {
			t.HandleFunc(w.path, func(rw http.ResponseWriter, _ *http.Request) { d.noApp(rw, w.app) })
			continue
		}
		open := w.open(owner, d)
		t.HandleFunc(w.path, func(rw http.ResponseWriter, r *http.Request) {
			if r.Method != w.method { // HEAD is refused, too: a stream has no end
				api.MethodNotAllowed(rw, r, w.method)
				return
			}
			open.ServeHTTP(rw, r)
		})
	}
	mcpDoors(t, list, d)
	entityDoors(t, d)
	pages(t, list, d)
	return t, nil
}

// packed compresses h's larger answers with gzip, for clients that accept it.
func packed(h http.Handler) http.Handler {
	return answer.Compressed(h, func(r *http.Request) bool {
		return web.Accepts(strings.Join(r.Header.Values("Accept-Encoding"), ","), "gzip")
	})
}

// noApp answers at the path of an app that is not served, or has nothing there.
func (d wireDeps) noApp(w http.ResponseWriter, name string) {
	_, err := d.engine.App(name) // which knows why
	if err == nil {
		err = parley.Errorf(parley.CodeNotFound, "the app %q has nothing here", name)
	}
	api.WriteError(w, err)
}
