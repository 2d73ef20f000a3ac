package auth_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// browsers are sign-ins with a clock of their own, behind a door.
type browsers struct {
	t    *testing.T
	file string
	now  time.Time
	s    *auth.SignIns
	door http.Handler
}

func newBrowsers(t *testing.T) *browsers {
	t.Helper()
	b := &browsers{t: t, file: filepath.Join(t.TempDir(), "signins.json"), now: time.Unix(1_800_000_000, 0)}
	b.open()
	return b
}

func (b *browsers) open() {
	b.t.Helper()
	clock := func() time.Time { return b.now }
	var err error
	if b.s, err = auth.OpenSignIns(b.file, auth.SignInsOptions{Idle: time.Hour, Max: 10 * time.Hour, Now: clock}); err != nil {
		b.t.Fatal(err)
	}
	b.door = behind(b.t, auth.Options{Mode: auth.ModeKeys, SignIns: b.s, Cookie: func() string { return "parley" }, Now: clock})
}

var ana = auth.Identity{Principal: parley.Principal{User: "acme:ana", Org: "acme:north"}, Issuer: "acme", Orgs: []string{"north", "south"}}

func (b *browsers) begin(old string) string {
	b.t.Helper()
	cookie, err := b.s.Begin(ana, "Test/1", old)
	if err != nil {
		b.t.Fatal(err)
	}
	return cookie
}

func (b *browsers) user(cookie string, header ...string) said {
	b.t.Helper()
	_, _, s := ask(b.t, b.door, "192.0.2.1:1", append([]string{"Cookie", "parley=" + cookie}, header...)...)
	return s
}

func TestSignIns_last_over_a_restart_and_expire(t *testing.T) {
	t.Parallel()
	b := newBrowsers(t)
	cookie := b.begin("")
	raw, err := os.ReadFile(b.file)
	if err != nil || strings.Contains(string(raw), cookie) {
		t.Errorf("the file holds the cookie: %s, %v", raw, err)
	}
	if info, _ := os.Stat(b.file); info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the file: %v", info.Mode())
	}
	for range 9 { // used each 50 minutes it does not get idle
		b.now = b.now.Add(50 * time.Minute)
		b.s.Sweep()
		if s := b.user(cookie); s.User != "acme:ana" || s.Org != "acme:north" {
			t.Fatalf("in use: %+v", s)
		}
		b.s.Sweep()
		b.open()
	}
	b.now = b.now.Add(59 * time.Minute)
	if s := b.user(cookie, "X-Org-Id", "south"); s.Org != "acme:south" {
		t.Errorf("in her other organisation: %+v", s)
	}
	if s := b.user(cookie, "X-Org-Id", "west"); s.Code != parley.CodeForbidden {
		t.Errorf("in an organisation that is not hers: %+v", s)
	}
	b.now = b.now.Add(59 * time.Minute) // 9:28 h after the beginning
	if s := b.user(cookie); s.User != "acme:ana" {
		t.Errorf("after 9:28 h: %+v", s)
	}
	b.now = b.now.Add(32 * time.Minute)
	if s := b.user(cookie); s.User != "" || s.Code != parley.CodeUnauthenticated {
		t.Errorf("after 10 h: %+v", s)
	}
	idle := b.begin("")
	b.now = b.now.Add(time.Hour)
	b.open() // a restart does not give it more time
	if s := b.user(idle); s.User != "" {
		t.Errorf("unused for an hour: %+v", s)
	}
}

// TestSignIns_fixation: signing in gives a browser a new cookie, and ends what its old one was.
func TestSignIns_fixation(t *testing.T) {
	t.Parallel()
	b := newBrowsers(t)
	planted := "chosen-by-somebody-else"
	first := b.begin(planted)
	second := b.begin(first)
	if first == planted || second == first {
		t.Error("a cookie was kept")
	}
	for _, old := range []string{planted, first} {
		if s := b.user(old); s.User != "" {
			t.Errorf("an old cookie is %+v", s)
		}
	}
	if s := b.user(second); s.User != "acme:ana" {
		t.Errorf("the new cookie is %+v", s)
	}
	// Two cookies of one name: another host may have set one of them.
	if _, _, s := ask(t, b.door, "192.0.2.1:1", "Cookie", "parley="+second+"; parley="+first); s.User != "" {
		t.Errorf("with two cookies: %+v", s)
	}
}

func TestSignIns_of_one_user_are_limited(t *testing.T) {
	t.Parallel()
	b := newBrowsers(t)
	first := b.begin("")
	for range 50 {
		b.now = b.now.Add(time.Second)
		b.begin("")
	}
	if n := len(b.s.Of(ana.Principal)); n != 50 {
		t.Errorf("%d sign-ins", n)
	}
	if s := b.user(first); s.User != "" {
		t.Errorf("the oldest is still %+v", s)
	}
	if n := len(b.s.Of(parley.Principal{User: "acme:ana"})); n != 0 {
		t.Errorf("outside of the organisation she has %d", n)
	}
	// Those whose tokens name many organisations are fewer.
	many := ana
	many.Orgs = slices.Repeat([]string{strings.Repeat("o", 64)}, 200)
	last := ""
	for range 50 {
		b.now = b.now.Add(time.Second)
		var err error
		if last, err = b.s.Begin(many, "Test/1", ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.s.Of(ana.Principal)); n != 256<<10/(200*64) {
		t.Errorf("%d sign-ins of 12,800 bytes each", n)
	}
	if s := b.user(last); s.User != "acme:ana" {
		t.Errorf("the newest is %+v", s)
	}
}

// TestSignIns_that_cannot_be_stored do not begin or end.
func TestSignIns_that_cannot_be_stored(t *testing.T) {
	t.Parallel()
	b := newBrowsers(t)
	cookie := b.begin("")
	id := b.s.Of(ana.Principal)[0].ID
	if err := os.RemoveAll(filepath.Dir(b.file)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Dir(b.file), nil, 0o600); err != nil { // where the folder has to be
		t.Fatal(err)
	}
	if _, err := b.s.Begin(ana, "", cookie); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("beginning one: %v", err)
	}
	if err := b.s.Revoke(ana.Principal, id); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("ending one: %v", err)
	}
	if s := b.user(cookie); s.User != "acme:ana" {
		t.Errorf("the one before: %+v", s)
	}
	if err := os.Remove(filepath.Dir(b.file)); err != nil {
		t.Fatal(err)
	}
	if err := b.s.Revoke(ana.Principal, id); err != nil {
		t.Error(err)
	}
	b.open()
	if s := b.user(cookie); s.User != "" {
		t.Errorf("after a restart: %+v", s)
	}
}

// TestSignIns_are_for_pages_of_this_server only, since a browser sends the cookie along with other
// requests, too.
func TestSignIns_are_for_pages_of_this_server(t *testing.T) {
	t.Parallel()
	b := newBrowsers(t)
	cookie := b.begin("")
	for _, c := range []struct {
		name   string
		method string
		header []string
		ok     bool
	}{
		{"its own page", "POST", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://example.com"}, true},
		{"its own page, in an old browser", "POST", []string{"Origin", "http://example.com"}, true},
		{"its own page behind a proxy", "POST", []string{"Origin", "https://parley.example.com", "X-Forwarded-Host", "parley.example.com"}, true},
		{"an address that was typed", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, true},
		{"a link from elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"a frame elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, false},
		{"a picture elsewhere", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		{"a script of the same site", "GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, false},
		{"a form elsewhere", "POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", "https://evil.example.com"}, false},
		{"a form elsewhere, in an old browser", "POST", []string{"Origin", "https://evil.example.com"}, false},
		{"a form in a file", "POST", []string{"Origin", "null"}, false},
		{"no origin at all", "POST", nil, false},
		{"a safe request without an origin", "GET", nil, true},
		{"two origins", "POST", []string{"Origin", "http://example.com", "Origin", "https://evil.example.com"}, false},
		{"two sites", "POST", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}, false},
		{"a WebSocket of its own page", "GET", []string{"Upgrade", "websocket", "Origin", "http://example.com"}, true},
		{"a WebSocket elsewhere", "GET", []string{"Upgrade", "WebSocket", "Origin", "https://evil.example.com"}, false},
		{"a WebSocket without an origin", "GET", []string{"Upgrade", "websocket"}, false},
		{"a cross-origin DELETE", "DELETE", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example.com"}, false},
	} {
		s := b.user(cookie, append(c.header, "X-Method", c.method)...)
		if ok := s.User == "acme:ana"; ok != c.ok || !ok && s.Code != parley.CodeForbidden {
			t.Errorf("%s: %+v, want it let in: %t", c.name, s, c.ok)
		}
	}
	// A key in a header is no cookie.
	if s := b.user(cookie, "Authorization", "Bearer pk_wrong", "X-Method", "GET"); s.User != "" {
		t.Errorf("a wrong key beside the cookie: %+v", s)
	}
}
