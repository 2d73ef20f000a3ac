package api_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestKill_from_a_page: only a page of the demo server's own origin can kill it. Another page can
// make a browser send a form, or another request without a preflight. Such a request is refused,
// whatever name that page uses for the server.
func TestKill_from_a_page(t *testing.T) {
	t.Parallel()
	var kills atomic.Int32
	w := newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) { o.Kill = func() { kills.Add(1) } })
	own := strings.TrimPrefix(w.url, "http://")
	const form = "application/x-www-form-urlencoded"
	for _, c := range []struct {
		what, method, host, origin, site, kind, body string
		want                                         int
	}{
		{"our page", "POST", "", w.url, "same-origin", "application/json", "{}", 202},
		{"a program", "POST", "", "", "", "application/json", "{}", 202},
		{"a stranger's page", "POST", "", "https://evil.example", "cross-site", "application/json", "{}", 403},
		{"a page of another port", "POST", "", "http://127.0.0.1:1", "same-site", "application/json", "{}", 403},
		{"a frame in a sandbox", "POST", "", "null", "cross-site", "application/json", "{}", 403},
		{"a page without an Origin", "POST", "", "", "cross-site", "application/json", "{}", 403},
		{"a stranger's form", "POST", "", "https://evil.example", "cross-site", form, "a=b", 403},
		{"a name that points here", "POST", "evil.example", "http://evil.example", "same-origin", "application/json", "{}", 403},
		{"a form", "POST", "", "", "", form, "a=b", 415},
		{"a text", "POST", "", "", "", "text/plain", "{}", 415},
		{"a file", "POST", "", "", "", "multipart/form-data; boundary=x", "--x--", 415},
		{"a link", "GET", "", "", "cross-site", "", "", 405},
	} {
		before := kills.Load()
		r, err := http.NewRequestWithContext(t.Context(), c.method, w.url+"/v1/server/kill", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = own; c.host != "" {
			r.Host = c.host
		}
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site, "Content-Type": c.kind} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want || (kills.Load() > before) != (c.want == http.StatusAccepted) {
			t.Errorf("%s: got %d, killed %t, want %d", c.what, resp.StatusCode, kills.Load() > before, c.want)
		}
	}
	// A server that is not a demo has no such route. TestKill of package program says which server
	// is one.
	without := newWorld(t, enginetest.Echo, enginetest.App())
	without.call(http.StatusNotFound, nil, "POST", "/v1/server/kill", "{}", "Content-Type", "application/json")
}
