package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestWires_share_no_path: each wire has its own path, which belongs to no other door.
func TestWires_share_no_path(t *testing.T) {
	t.Parallel()
	taken := map[string]string{"/": "pages", "/apps/": "pages"}
	for _, p := range api.Patterns() {
		taken[p] = "api"
	}
	for name, w := range wires {
		if !strings.HasPrefix(w.path, "/") || w.app == "" || w.method == "" {
			t.Errorf("wire %s is not whole: %+v", name, w)
		}
		for path, by := range taken {
			if path == w.path || strings.HasSuffix(path, "/") && path != "/" && strings.HasPrefix(w.path, path) {
				t.Errorf("the path %s of wire %s belongs to %s", w.path, name, by)
			}
		}
		taken[w.path] = "wire " + name
	}
}

func TestDoors_two_apps_with_one_wire_are_refused(t *testing.T) {
	t.Parallel()
	a := parley.App{Name: "a", Wires: []string{"chat"}}
	b := parley.App{Name: "b", Wires: []string{"chat"}}
	_, err := doors([]parley.App{a, b}, wireDeps{})
	if err == nil || !strings.Contains(err.Error(), "a and b") || !strings.Contains(err.Error(), "/chat") {
		t.Errorf("got %v, want an error that names both apps and the path", err)
	}
}

// TestDoors_path_of_an_app_that_is_not_served: every path of such an app says that the app is
// off, and why, or that it is unknown.
func TestDoors_path_of_an_app_that_is_not_served(t *testing.T) {
	t.Parallel()
	mine := enginetest.App(func(a *parley.App) { a.Name = "mine" })
	rig := enginetest.New(t, enginetest.Echo, mine, func(o *engine.Options) { o.Off = map[string]string{"chaos": "it has no key"} })
	t.Cleanup(rig.Close)
	h, err := doors([]parley.App{mine}, wireDeps{engine: rig.Engine, principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/chat":                    "the app chaos is off: it has no key",
		"/apps/chaos/":             "the app chaos is off: it has no key",
		"/apps/chaos/mcp":          "the app chaos is off: it has no key",
		"/apps/chaos/entities":     "the app chaos is off: it has no key",
		"/mcp":                     `there is no app \"home\"`,
		"/apps/zzz/":               `there is no app \"zzz\"`,
		"/apps/zzz/mcp":            `there is no app \"zzz\"`,
		"/apps/zzz/entities":       `there is no app \"zzz\"`,
		"/apps/zzz/entities/a.b/x": `there is no app \"zzz\"`,
		"/apps/mine/entities":      `the app \"mine\" has no entities to show`,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if body := w.Body.String(); w.Code != 404 || !strings.Contains(body, want) || strings.Contains(want, "app chaos") && !strings.Contains(body, "apps here: mine") {
			t.Errorf("POST %s: got %d %s, want %s", path, w.Code, body, want)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]bool{
		"127.0.0.1:8000": true, "127.9.9.9:1": true, "[::1]:8000": true, "localhost:8000": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:8000": false, ":8000": false, "[::]:8000": false, "192.168.1.2:8000": false, "example.com:80": false, "localhost.example.com:80": false, "8000": false,
	} {
		if got := isLoopback(addr); got != want {
			t.Errorf("isLoopback(%q) = %v, want %v", addr, got, want)
		}
	}
}
