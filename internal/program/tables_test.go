package program

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestKit_shares_nothing: the apps that come with Parley bring different paths, wires and kinds
// of tools.
func TestKit_shares_nothing(t *testing.T) {
	t.Parallel()
	k := builtin() // panics when two bring the same kind or wire
	h, err := doorsOf(nil, doorDeps{plan: &plan{kit: k}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/chat", "/events/{session_id}", "/mcp", "/apps/{app}/entities"} {
		if by, _ := h.Owner(path); by == "" {
			t.Errorf("no app has %s; there are %v", path, h.Patterns())
		}
	}
	if len(k.wires) < 2 || k.tools["homeassistant"] == nil || k.tools["slack"] == nil {
		t.Errorf("the kit has the wires %v and the tools %v", names(k.wires), names(k.tools))
	}
}

func TestDoors_two_apps_with_one_wire_are_refused(t *testing.T) {
	t.Parallel()
	a := parley.App{Name: "a", Wires: []string{"chat"}}
	b := parley.App{Name: "b", Wires: []string{"chat"}}
	_, err := doorsOf([]parley.App{a, b}, doorDeps{plan: &plan{kit: builtin()}})
	if err == nil || !strings.Contains(err.Error(), "a and b") || !strings.Contains(err.Error(), "/chat") {
		t.Errorf("got %v, want an error that names both apps and the path", err)
	}
}

// TestDoors_path_that_is_taken: no app gets a path of another app or of the server, however the
// path is written. A mistake in a pattern is an error, too.
func TestDoors_path_that_is_taken(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"/chat", "POST /chat", "/events/{id}", "/v1/", "/healthz", "/apps/{app}/mcp", "GET /", "chat", "/{", "/apps/{app}/"} {
		mine := app.App{Name: "mine", Mount: func(m app.Mux, _ app.Deps) { m.Handle(pattern, http.NotFoundHandler()) }}
		_, err := doorsOf([]parley.App{{Name: "chaos", Wires: []string{"chat"}}, {Name: "mine"}}, doorDeps{plan: &plan{kit: kitOf(chaos.App(), home.App(), mine)}})
		if err == nil || !strings.Contains(err.Error(), "the app mine") {
			t.Errorf("%s: got %v, want an error that names the app", pattern, err)
		}
	}
}

// TestDoors_of_an_app: an app has any number of routes, each with its methods. A handler knows the
// caller and its app.
func TestDoors_of_an_app(t *testing.T) {
	t.Parallel()
	crm := app.App{Name: "crm", Mount: func(m app.Mux, d app.Deps) {
		say := func(what string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p, err := d.Principal(r.Context())
				if err != nil {
					d.Fail(w, err)
					return
				}
				_, _ = w.Write([]byte(strings.Join([]string{what, d.App, p.User, r.PathValue("id"), r.PathValue("app")}, " ")))
			})
		}
		m.Handle("GET /crm/{id}", say("read"))
		m.Handle("DELETE /crm/{id}", say("delete"))
		m.Handle("/crm/{id}/any", say("any"))
		m.Handle("PUT /apps/{app}/crm", say("put"))
	}}
	rig := enginetest.New(t, enginetest.Echo, enginetest.App(func(a *parley.App) { a.Name = "mine" }))
	t.Cleanup(rig.Close)
	open := func(served ...string) http.Handler {
		list := []parley.App{}
		for _, name := range served {
			list = append(list, parley.App{Name: name})
		}
		h, err := doorsOf(list, doorDeps{
			plan: &plan{kit: kitOf(crm)}, engine: rig.Engine,
			principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	ask := func(h http.Handler, method, path string) (int, string, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String(), w.Header().Get("Allow")
	}
	for _, c := range []struct {
		served, method, path string
		status               int
		says, allow          string
	}{
		{"crm", "GET", "/crm/7", 200, "read crm ana 7 ", ""},
		{"crm", "DELETE", "/crm/7", 200, "delete crm ana 7 ", ""},
		{"crm", "HEAD", "/crm/7", 405, "", "DELETE, GET"},
		{"crm", "POST", "/crm/7", 405, "POST is not allowed", "DELETE, GET"},
		{"crm", "PATCH", "/crm/7/any", 200, "any crm ana 7 ", ""},
		{"crm", "PUT", "/apps/crm/crm", 200, "put crm ana  crm", ""},
		{"crm", "PUT", "/apps/none/crm", 404, `no app \"none\"`, ""},
		{"crm", "GET", "/apps/crm/crm", 405, "", "PUT"},
		{"mine", "GET", "/crm/7", 404, `no app \"crm\"`, ""},
		{"mine", "POST", "/crm/7", 404, `no app \"crm\"`, ""},
		{"mine", "PUT", "/apps/mine/crm", 200, "put crm ana  mine", ""},
	} {
		status, body, allow := ask(open(c.served), c.method, c.path)
		if status != c.status || !strings.Contains(body, c.says) || allow != c.allow {
			t.Errorf("with %s, %s %s: got %d %q, Allow %q; want %d %q, Allow %q", c.served, c.method, c.path, status, body, allow, c.status, c.says, c.allow)
		}
	}
}

// TestDoors_path_of_an_app_that_is_not_served: every path of such an app says that the app is
// off, and why, or that it is unknown.
func TestDoors_path_of_an_app_that_is_not_served(t *testing.T) {
	t.Parallel()
	mine := enginetest.App(func(a *parley.App) { a.Name = "mine" })
	rig := enginetest.New(t, enginetest.Echo, mine, func(o *engine.Options) {
		o.Off = func(app string) string { return map[string]string{"chaos": "it has no key"}[app] }
	})
	t.Cleanup(rig.Close)
	h, err := doorsOf([]parley.App{mine}, doorDeps{plan: &plan{kit: builtin()}, engine: rig.Engine, principal: func(context.Context) (parley.Principal, error) { return enginetest.User, nil }})
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
		if path == "/mcp" && !strings.Contains(w.Body.String(), "apps here: mine; each has its own at /apps/NAME/mcp") {
			t.Errorf("POST %s does not say where the tools of other apps are: %s", path, w.Body)
		}
		if body := w.Body.String(); w.Code != 404 || !strings.Contains(body, want) || strings.Contains(want, "app chaos") && !strings.Contains(body, "apps here: mine") {
			t.Errorf("POST %s: got %d %s, want %s", path, w.Code, body, want)
		}
	}
}

// TestDoors_limit_bodies: an app's handler never gets more than the limit, whether or not the client
// says beforehand how much it sends.
func TestDoors_limit_bodies(t *testing.T) {
	t.Parallel()
	mine := app.App{Name: "mine", Mount: func(m app.Mux, d app.Deps) {
		m.Handle("POST /mine", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, " ", err)
		}))
	}}
	h, err := doorsOf([]parley.App{{Name: "mine"}}, doorDeps{plan: &plan{kit: kitOf(mine), settings: config.Settings{Limits: config.Limits{MaxBody: 100}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		size     int
		declared bool
		status   int
		says     string
	}{
		{100, true, 200, "100 <nil>"},
		{100, false, 200, "100 <nil>"},
		{101, true, 413, "more than 100 bytes"},
		{101, false, 200, "100 http: request body too large"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/mine", strings.NewReader(strings.Repeat("x", c.size)))
		if !c.declared {
			r.ContentLength = -1
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%d bytes, declared %v: got %d %s; want %d %s", c.size, c.declared, w.Code, w.Body, c.status, c.says)
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
