package program_test

import (
	"slices"
	"testing"
)

const mcpHello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// TestNames_are_decided_once asks at every kind of door, with host names that a proxy or a page
// of another origin may use.
func TestNames_are_decided_once(t *testing.T) {
	t.Parallel()
	doors := []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/healthz", "", 200},
		{"GET", "/v1/apps", "", 200},
		{"POST", "/v1/sessions", `{"app":"chaos"}`, 201},
		{"POST", "/chat", `{"session_id":"a","message":"What does the Google OAuth spec say?"}`, 200},
		{"POST", "/apps/chaos/mcp", mcpHello, 200},
	}
	key := []string{"Authorization", "Bearer a-key-from-outside-of-here"}
	asKeys := []string{"PARLEY_AUTH_MODE=keys", "PARLEY_API_KEYS=watch@ana=a-key-from-outside-of-here"}
	for _, c := range []struct {
		name   string
		env    []string
		header []string
		ok     bool
	}{
		{"by its address", nil, nil, true},
		{"a name that was made to point here", nil, []string{"Host", "evil.example"}, false},
		{"a proxy on this machine, with keys", asKeys, append(key, "Host", "parley.example"), true},
		{"a proxy on this machine that is named", []string{"PARLEY_HOSTS=parley.example"}, []string{"Host", "parley.example:443"}, true},
		{"another name than the proxy's", []string{"PARLEY_HOSTS=parley.example"}, []string{"Host", "evil.example"}, false},
		{"another name than the proxy's, with keys", append(slices.Clone(asKeys), "PARLEY_HOSTS=parley.example"), append(key, "Host", "evil.example"), false},
		{"its page behind a proxy", asKeys, append(key, "Host", "parley.example", "Origin", "https://parley.example"), true},
		{"its page behind a proxy that renames", asKeys, append(key, "X-Forwarded-Host", "parley.example", "Origin", "https://parley.example"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newPlace(t, append(slices.Clone(c.env), "PARLEY_SCRIPTED_PACE=0s")...).serve()
			for _, d := range doors {
				want := d.status
				if !c.ok {
					want = 403
				}
				a := s.ask(d.method, d.path, d.body, append([]string{"Accept", "application/json, text/event-stream"}, c.header...)...)
				if a.status != want {
					t.Errorf("%s: got %s, want %d", d.path, a, want)
				}
				if !c.ok {
					problemOf(t, a)
				}
			}
		})
	}
}

// TestOrigins_of_elsewhere: requests from pages of other origins are refused wherever they
// could change something, and by MCP always. The development server's page is of another origin
// too, unless the settings name it.
func TestOrigins_of_elsewhere(t *testing.T) {
	t.Parallel()
	const dev = "http://localhost:5173"
	for _, c := range []struct {
		name string
		env  []string
		args []string
		dev  int
	}{
		{"serve", nil, []string{"serve"}, 403},
		{"serve with the setting", []string{"PARLEY_CORS_ORIGINS=" + dev}, []string{"serve"}, 201},
		{"demo", nil, []string{"demo"}, 201},
		{"demo with another setting", []string{"PARLEY_CORS_ORIGINS=https://other.example"}, []string{"demo"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, c.env...)
			s := p.start(p.command(append(c.args, "--addr", "127.0.0.1:0")...))
			a := s.ask("POST", "/v1/sessions", `{"app":"chaos"}`, "Origin", dev)
			if a.status != c.dev || (a.status == 201) != (a.header.Get("Access-Control-Allow-Origin") == dev) {
				t.Errorf("the development server's page: got %s, %v; want %d", a, a.header, c.dev)
			}
			for _, origin := range []string{"file://", "null", "https://evil.example", "chrome-extension://abc"} {
				for _, path := range []string{"/v1/sessions", "/chat", "/apps/chaos/mcp", "/nothing"} {
					if a := s.ask("POST", path, `{}`, "Origin", origin); a.status != 403 {
						t.Errorf("%s at %s: %s", origin, path, a)
					}
				}
				if a := s.ask("GET", "/apps/chaos/mcp", "", "Origin", origin, "Accept", "text/event-stream"); a.status != 403 {
					t.Errorf("%s reads MCP: %s", origin, a)
				}
			}
		})
	}
}
