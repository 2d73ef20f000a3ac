package program

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
)

// TestOwnPage_reaches_its_app_alone: at the origin of chaos's own page, with a key for that page,
// every route answers for Ana's sessions of home as if they had never existed. The server's other
// doors and the lists over all apps are not there.
func TestOwnPage_reaches_its_app_alone(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	ana := k.furnish("ana")
	before := k.state("ana", ana)
	at := []string{"Host", "chaos.localhost:8000"}
	k.tryRoutes(ana, pageKey, http.StatusForbidden, at...)
	for _, p := range []string{
		"/v1/apps", "/v1/sessions", "/v1/sessions?app=home", "/v1/interactions", "/v1/usage", "/v1/server", "/v1/models", "/v1/apps/home", "/v1/apps/home/commands", "/v1/apps/home/resources",
	} {
		if status, text, _ := k.ask(pageKey, "GET", p, "", at...); status != http.StatusForbidden {
			t.Errorf("GET %s: got %d %s", p, status, text)
		}
	}
	id := string(ana.session)
	for _, p := range []string{"/v1/sessions/" + id + "/events?format=sse", "/v1/sessions/" + id + "/events/lines", "/v1/sessions/" + id + "/events/stream"} {
		if status, text, _ := k.ask(pageKey, "GET", p, "", at...); status != http.StatusNotFound {
			t.Errorf("GET %s: got %d %s", p, status, text)
		}
	}
	// None of the server's other paths is there.
	fill := strings.NewReplacer("{app}", "home", "{session_id}", id, "{id}", id, "{turn}", id)
	for _, pattern := range k.house.table.Patterns() {
		if pattern == "/v1/" || pattern == "/healthz" || pattern == "/readyz" {
			continue // the API was tried above, and every host has the health checks
		}
		for _, method := range []string{"GET", "POST"} {
			status, text, _ := k.ask(pageKey, method, fill.Replace(pattern), "{}", at...)
			if status != http.StatusNotFound || !strings.Contains(text, "no page here") && !strings.HasPrefix(pattern, "/v1/signin") { // the API says so there
				t.Errorf("%s %s: got %d %.200s", method, pattern, status, text)
			}
		}
	}
	k.unchanged("ana", ana, before)

	// The page's own app is there, on each route that its client uses. If another app has a session
	// with some outside id, that id is a different session here.
	var own parley.SessionInfo
	status, text, _ := k.ask(pageKey, "POST", "/v1/sessions", `{"app":"chaos"}`, at...)
	if err := json.Unmarshal([]byte(text), &own); err != nil || status != http.StatusCreated || own.App != "chaos" || own.User != "ana" {
		t.Fatalf("a session of its own: %d %s", status, text)
	}
	path := "/v1/sessions/" + string(own.ID)
	for _, c := range [][3]string{
		{"GET", "/v1/apps/chaos", ""},
		{"GET", "/v1/apps/chaos/commands", ""},
		{"GET", "/v1/apps/chaos/resources", ""},
		{"GET", "/v1/sessions?app=chaos", ""},
		{"GET", path, ""},
		{"GET", path + "/window", ""},
		{"GET", path + "/events", ""},
		{"GET", path + "/events/stream", ""},
		{"GET", path + "/commands", ""},
		{"GET", path + "/resources", ""},
		{"POST", path + "/turns", `{"message":"hello"}`},
		{"PATCH", path, `{"title":"mine"}`},
	} {
		if status, text, _ := k.ask(pageKey, c[0], c[1], c[2], at...); status/100 != 2 {
			t.Errorf("%s %s: got %d %s", c[0], c[1], status, text)
		}
	}
	// Ana's own key is refused at the page. The page's key is refused at the server and at other
	// pages.
	for _, c := range [][2]string{{"ana", "chaos.localhost"}, {pageKey, "home.localhost"}, {pageKey, "127.0.0.1"}} {
		if status, text, _ := k.ask(c[0], "GET", path, "", "Host", c[1]); status != http.StatusForbidden {
			t.Errorf("%s at %s: %d %s", c[0], c[1], status, text)
		}
	}
	if status, _, _ := k.ask("", "GET", path, "", at...); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", status)
	}
}

// TestOwnNames: every spelling of a page's host name means that page, also behind a proxy.
func TestOwnNames(t *testing.T) {
	t.Parallel()
	of := ownNames(config.Settings{Pages: map[string]string{"desk": "https://Desk.Example.com", "shop": "127.0.0.1:8001"}, Hosts: []string{"parley.localhost"}})
	for _, c := range []struct{ host, forwarded, app string }{
		{"desk.example.com", "", "desk"},
		{"DESK.example.com.:443", "", "desk"},
		{"desk.localhost:8000", "", "desk"},
		{"nothing.localhost", "", "nothing"},
		{"a.b.localhost", "", "a.b"},
		{"127.0.0.1:8000", "desk.example.com", "desk"},
		{"127.0.0.1:8000", "proxy.example.com, desk.example.com", "desk"},
		{"desk.example.com", "example.com", "desk"},
		{"localhost:8000", "", ""},
		{"127.0.0.1:8000", "", ""},
		{"[::1]:8000", "", ""},
		{"parley.localhost", "", ""},
		{"example.com", "", ""},
		{"other.desk.example.com", "", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		if r.Host = c.host; c.forwarded != "" {
			r.Header.Set("X-Forwarded-Host", c.forwarded)
		}
		if app, own := of(r); app != c.app || own != (c.app != "") {
			t.Errorf("%q, forwarded for %q: got %q, %v, want %q", c.host, c.forwarded, app, own, c.app)
		}
	}
}

// paged is a server of one app with a page of its own, without a login, on a real port.
type paged struct {
	t   *testing.T
	dir string // the folder of the page
	url string // the address of the server itself
	h   *house
}

func newPaged(t *testing.T, parts ...app.Part) *paged {
	t.Helper()
	apps := t.TempDir()
	p := &paged{t: t, dir: filepath.Join(apps, "desk", "page")}
	for name, text := range map[string]string{
		"app.yaml": "page: page\nagents: {lead: {prompt: lead.md}}\nscript: script.yaml\n", "lead.md": "Answer.", "secret": "not for the page",
		"script.yaml": "agents:\n  lead:\n    - say: Hello.\n", "page/index.html": "<title>Desk</title>", "page/a/index.html": "a", "page/x.js": "1", "page/.env": "KEY=1", "page/.git/config": "x",
	} {
		p.write(filepath.Join(apps, "desk", name), text)
	}
	flags := map[string]string{"data": t.TempDir(), "store": "mem", "scripted.pace": "0s", "apps": apps}
	s, err := config.Load(config.From{File: os.DevNull, Flags: flags, Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), s, slog.New(slog.DiscardHandler), parts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(t.Context()) })
	p.h = in.house
	l := &entrance{mode: auth.ModeNone}
	keys, err := openKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	l.keys = keys
	srv := httptest.NewServer(in.house.behind(api.GuardOptions{Hosts: l.hosts(s)}, l.doorOptions(ownNames(s))))
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *paged) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// ask makes a request at a host. The path is sent as it is.
func (p *paged) ask(host, method, path, body string, header ...string) (int, string, http.Header) {
	p.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer c.Close()
	r, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+host+"/", strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.URL.Opaque = path
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{Dial: func(string, string) (net.Conn, error) { return c, nil }}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(raw), resp.Header
}

const deskHost = "desk.localhost"

// TestOwnPage_files: only the folder is served, as it is now, and browsers must revalidate each
// file.
func TestOwnPage_files(t *testing.T) {
	t.Parallel()
	p := newPaged(t)
	outside := filepath.Join(t.TempDir(), "outside.html")
	p.write(outside, "outside")
	for link, to := range map[string]string{"out.html": outside, "up.html": "../secret", "dir": filepath.Dir(outside), "in.js": "x.js"} {
		if err := os.Symlink(to, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	big, err := os.Create(filepath.Join(p.dir, "big.html"))
	if err == nil {
		err = big.Truncate(33 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = big.Close()
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/": {200, "<title>Desk</title>"}, "/index.html": {200, "<title>Desk</title>"}, "/x.js": {200, "1"}, "/in.js": {200, "1"}, "/a/": {200, "a"}, "/a": {302, ""},
		"/out.html": {404, ""}, "/up.html": {404, ""}, "/dir/outside.html": {404, ""}, "/../secret": {404, ""}, "/%2e%2e/secret": {404, ""}, "/..%2fsecret": {404, ""},
		"/a/../x.js": {404, ""}, "/a//x.js": {404, ""}, "/.env": {404, ""}, "/.git/config": {404, ""}, "/.git": {404, ""}, "/nothing": {404, ""}, "/big.html": {404, ""},
		"/app.yaml": {404, ""}, "/apps/desk/": {404, ""}, "/mcp": {404, ""}, "/openapi.json": {404, ""}, "/x.js/": {404, ""},
	} {
		status, text, h := p.ask(deskHost, "GET", path, "")
		if status != want.status || want.text != "" && text != want.text {
			t.Errorf("GET %s: got %d %q, want %d %q", path, status, text, want.status, want.text)
		}
		if status == 200 && (h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "connect-src 'self'") || h.Get("Cache-Control") != "no-cache") {
			t.Errorf("GET %s: headers %v", path, h)
		}
		if strings.Contains(text, "outside") || strings.Contains(text, "not for the page") {
			t.Errorf("GET %s leads out: %s", path, text)
		}
	}
	_, _, first := p.ask(deskHost, "GET", "/x.js", "")
	if status, _, _ := p.ask(deskHost, "GET", "/x.js", "", "If-None-Match", first.Get("ETag")); status != http.StatusNotModified {
		t.Errorf("unchanged: %d", status)
	}
	p.write(filepath.Join(p.dir, "x.js"), "22")
	if status, text, h := p.ask(deskHost, "GET", "/x.js", "", "If-None-Match", first.Get("ETag")); status != 200 || text != "22" || h.Get("ETag") == first.Get("ETag") || h.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("changed: %d %q %v", status, text, h)
	}
	if status, text, _ := p.ask(deskHost, "HEAD", "/x.js", ""); status != 200 || text != "" {
		t.Errorf("HEAD: %d %q", status, text)
	}
	if status, _, _ := p.ask(deskHost, "POST", "/x.js", "{}"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", status)
	}
	if status, _, _ := p.ask(deskHost, "GET", "/x.js", "", "Service-Worker", "script"); status != http.StatusForbidden {
		t.Errorf("a service worker: %d", status)
	}
}

// TestOwnPage_is_not_ours: requests of an app's page to the server's own origin are refused, or the
// page cannot read the answers. Pages of other origins cannot act at the origin of the page either.
func TestOwnPage_is_not_ours(t *testing.T) {
	t.Parallel()
	p := newPaged(t)
	ours := strings.TrimPrefix(p.url, "http://")
	session := `{"app":"desk"}`
	kinds := []string{"Content-Type", "application/json"}
	for _, c := range []struct {
		what, host, origin, site string
		want                     int
	}{
		{"the page at its own origin", deskHost, "http://" + deskHost, "same-origin", 201},
		{"the page without fetch metadata", deskHost, "http://" + deskHost, "", 201},
		{"the page at ours", ours, "http://" + deskHost, "cross-site", 403},
		{"the page at ours, of one site", ours, "http://" + deskHost, "same-site", 403},
		{"the page at ours, without metadata", ours, "http://" + deskHost, "", 403},
		{"a page of another port of our host", ours, "http://127.0.0.1:8001", "same-site", 403},
		{"our page at the page's origin", deskHost, p.url, "cross-site", 403},
		{"the page of another app", deskHost, "http://shop.localhost", "same-site", 403},
		{"a stranger's page", deskHost, "https://evil.example", "cross-site", 403},
		{"a sandboxed frame", deskHost, "null", "cross-site", 403},
	} {
		header := slices.Concat(kinds, []string{"Origin", c.origin, "Sec-Fetch-Site", c.site})
		if c.site == "" {
			header = header[:len(header)-2]
		}
		status, text, h := p.ask(c.host, "POST", "/v1/sessions", session, header...)
		if status != c.want || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: got %d %s %v, want %d", c.what, status, text, h, c.want)
		}
	}
	if status, _, h := p.ask(ours, "GET", "/v1/sessions", "", "Origin", "http://"+deskHost); status != 200 || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("our list may be read by the page: %d %v", status, h)
	}
	// There is no login, so the page acts as the user local. It sees its own app only.
	for path, want := range map[string]int{"/v1/sessions?app=desk": 200, "/v1/sessions": 403, "/v1/apps/desk": 200, "/v1/server": 403, "/v1/server/kill": 404} {
		if status, text, _ := p.ask(deskHost, "GET", path, ""); status != want {
			t.Errorf("GET %s: got %d %s, want %d", path, status, text, want)
		}
	}
	// If an app has no page of its own, its origin serves nothing, not even the server's page.
	for _, host := range []string{"home.localhost", "nothing.localhost"} {
		if status, text, _ := p.ask(host, "GET", "/", "", "Accept", "text/html"); status != 404 || strings.Contains(text, "<html") {
			t.Errorf("%s: %d %s", host, status, text)
		}
	}
	if info, ok := p.h.plan.page("desk"); !ok || info.Page.Own != "page" {
		t.Errorf("the app's page: %+v", info)
	}
}

// TestMount: a page that is a Go handler replaces the folder, and gets every request that is not
// for the API.
func TestMount(t *testing.T) {
	t.Parallel()
	p := newPaged(t, app.App{Name: "desk", Page: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+string(body))
	})})
	for _, c := range [][3]string{{"GET", "/", "GET / "}, {"POST", "/any/thing", "POST /any/thing x"}} {
		body := strings.TrimSpace(c[2][strings.LastIndex(c[2], " "):])
		if status, text, h := p.ask(deskHost, c[0], c[1], body); status != 200 || text != c[2] || h.Get("Content-Security-Policy") == "" {
			t.Errorf("%s %s: %d %q %v", c[0], c[1], status, text, h)
		}
	}
	if status, _, _ := p.ask(deskHost, "GET", "/v1/apps/desk", ""); status != 200 {
		t.Errorf("the API: %d", status)
	}
	// A client that goes on writing gets the answer: net/http keeps the connection of a body that it
	// did not read half a second longer. It does not do so for a request with "Connection: close".
	if status, text, _ := p.ask(deskHost, "POST", "/", strings.Repeat("x", 1<<20+64<<10)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large body: %d %.100s", status, text)
	}
	if status, text, _ := p.ask(strings.TrimPrefix(p.url, "http://"), "GET", "/any/thing", ""); status != 404 {
		t.Errorf("at our origin: %d %s", status, text)
	}
	for _, parts := range [][]app.Part{{app.App{Page: http.NotFoundHandler()}}, {app.App{Name: "a", Page: http.NotFoundHandler()}, app.App{Name: "a", Page: http.NotFoundHandler()}}} {
		if _, err := newKit(parts...); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%d pages: %v", len(parts), err)
		}
	}
}

// TestPageSettings: no two pages share an origin, and none shares one with the server.
func TestPageSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "parley.yaml")
	for text, want := range map[string]string{
		"pages: {a: 127.0.0.1:8001, b: 'https://b.example.com', c: 'http://c.example.com:8080'}": "",
		"pages: {a: 127.0.0.1:0, b: 127.0.0.1:0}":                                                "",
		"pages: {a: 127.0.0.1:8000}":                                                             "the address of the server itself",
		"pages: {a: 127.0.0.1:8001, b: 127.0.0.1:8001}":                                          "the page of a is served there",
		"pages: {a: 'https://x.example.com', b: 'http://X.example.com:81'}":                      "the page of a is served there",
		"hosts: [x.example.com]\npages: {a: 'https://x.example.com'}":                            "a name of the server itself",
		"pages: {a: 'http://localhost:8001'}":                                                    "a name of the server itself",
		"pages: {a: x.example.com}":                                                              "expected an address",
		"pages: {a: 'https://x.example.com/page'}":                                               "expected an address",
		"pages: {a: '127.0.0.1:99999'}":                                                          "up to 65535",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.From{File: file, Flags: map[string]string{"data": t.TempDir()}, Env: func(string) (string, bool) { return "", false }})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	who := &entrance{mode: auth.ModeNone}
	if _, err := pageListeners(config.Settings{Pages: map[string]string{"a": "0.0.0.0:0"}}, who); err == nil {
		t.Error("a page without a login is served to other machines")
	}
	ports, err := pageListeners(config.Settings{Pages: map[string]string{"a": "127.0.0.1:0", "b": "https://b.example.com"}}, who)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(ports)
	at, err := net.ResolveTCPAddr("tcp", "127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	url := pageURLs(config.Settings{Pages: map[string]string{"b": "https://b.example.com"}}, at, ports)
	got := map[string]string{"a": url("a"), "b": url("b"), "c": url("c")}
	want := map[string]string{"a": "http://" + ports["a"].Addr().String() + "/", "b": "https://b.example.com/", "c": "http://c.localhost:8000/"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
