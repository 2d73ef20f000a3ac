package crm_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/crm"
)

func TestPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, crm.Options{})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://crm.test"+path, nil))
		return w
	}
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/demo.json": "application/json"} {
		w := get(path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || !strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self'") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	if body := get("/demo.json").Body.String(); !strings.Contains(body, `"parley":false`) || !strings.Contains(body, "Mara Lindqvist") || strings.Contains(body, "assword") {
		t.Error(body)
	}
	for _, path := range []string{"/ws/codex", "/sidecar.js", "/api/chat/conversations", "/v1/sessions"} {
		if w := get(path); w.Code != http.StatusBadGateway {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if w := get("/nothing"); w.Code != http.StatusNotFound {
		t.Errorf("%d", w.Code)
	}
}

// TestProxy: the paths of Parley reach it with the login and the host of the page, also upgraded
// ones, and no other path does.
func TestProxy(t *testing.T) {
	t.Parallel()
	parley := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close() //nolint:errcheck // it is closed by whoever is first
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			line, _ := rw.ReadString('\n')
			_, _ = io.WriteString(conn, "heard "+line)
			return
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" "+r.Host+" "+r.Header.Get("Authorization"))
	}))
	t.Cleanup(parley.Close)
	r := newRig(t, crm.Options{Parley: parley.URL})
	page := httptest.NewServer(r.Server)
	t.Cleanup(page.Close)
	host := strings.TrimPrefix(page.URL, "http://")
	ask := func(path string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer abc")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, path := range []string{"/api/chat/conversations?limit=5", "/sidecar.js", "/v1/sessions/abc"} {
		if got, want := ask(path), "GET "+path+" "+host+" Bearer abc"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, path := range []string{"/api/chatter", "/api/leads", "/ws/other", "/v2/sessions"} {
		if got := ask(path); strings.HasPrefix(got, "GET ") {
			t.Errorf("%s reached Parley", path)
		}
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it was read to its end
	_, _ = io.WriteString(conn, "GET /ws/codex HTTP/1.1\r\nHost: "+host+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is the connection
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "hello\n")
	if line, _ := in.ReadString('\n'); resp.StatusCode != http.StatusSwitchingProtocols || line != "heard hello\n" {
		t.Errorf("%d %q", resp.StatusCode, line)
	}
	r.Connect("")
	if got := ask("/sidecar.js"); !strings.Contains(got, "no Parley") {
		t.Error(got)
	}
}
