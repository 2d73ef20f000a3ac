package main

import (
	"net/http"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	answer "github.com/parley-server/parley/internal/wire"
	"github.com/parley-server/parley/web"
)

// table is all that answers on a listener, by pattern. What needs no identity is
// named; everything else needs one, whether or not it asks for it.
type table struct {
	mux      *http.ServeMux
	patterns []string
	open     []string
}

func (t *table) Handle(pattern string, h http.Handler) {
	t.patterns = append(t.patterns, pattern)
	t.mux.Handle(pattern, h)
}

func (t *table) HandleFunc(pattern string, h http.HandlerFunc) { t.Handle(pattern, h) }

// Open is Handle for what anybody may have, which holds nobody's data.
func (t *table) Open(pattern string, h http.Handler) {
	t.open = append(t.open, pattern)
	t.Handle(pattern, h)
}

func (t *table) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.mux.ServeHTTP(w, r) }

func (t *table) isOpen(r *http.Request) bool {
	_, pattern := t.mux.Handler(r)
	return slices.Contains(t.open, pattern)
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
			if r.Method != w.method { // HEAD, too: a stream has no end to tell of
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

// packed is h with its larger answers as gzip, for clients that say they read it.
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
