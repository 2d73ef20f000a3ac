package program

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// TestSignIn_of_every_route: no page of another origin changes anything with the cookie of somebody who is signed in,
// at any route of the table, however a browser may send it. What opens a WebSocket counts as a change.
func TestSignIn_of_every_route(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	ana := s.signIn("ana")
	made := read[parley.SessionInfo](t, ana.own("POST", "/v1/sessions", `{"app":"home"}`))
	ways := map[string][]string{
		"fetch of another site":       {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Content-Type", "text/plain"},
		"form of another site":        {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Content-Type", "application/x-www-form-urlencoded"},
		"page of the same site":       {"Origin", "http://other.127.0.0.1", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"},
		"frame without an origin":     {"Origin", "null", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"},
		"older browser":               {"Origin", "https://evil.example.com"},
		"older browser, no origin":    nil,
		"older browser, null":         {"Origin", "null"},
		"origin that begins alike":    {"Origin", s.url + ".evil.example.com"},
		"origin with a user":          {"Origin", "http://" + strings.TrimPrefix(s.url, "http://") + "@evil.example.com"},
		"two origins":                 {"Origin", s.url, "Origin", "https://evil.example.com"},
		"two sites":                   {"Origin", s.url, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"},
		"address typed, with a page":  {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "none"},
		"a link that overrides":       {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "X-HTTP-Method-Override", "GET"},
		"a frame that another opened": {"Origin", "https://evil.example.com", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	}
	upgrade := []string{"Upgrade", "websocket", "Connection", "Upgrade", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	open := s.house.table.Public()
	fill := strings.NewReplacer("{app}", "home", "{session_id}", string(made.ID), "{id}", string(made.ID), "{turn}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{path...}", "x")
	type route struct{ method, path string }
	routes := map[route]bool{}
	for _, pattern := range s.house.table.Patterns() {
		method, path, ok := strings.Cut(pattern, " ")
		if !ok {
			method, path = http.MethodPost, pattern
		}
		if !slices.Contains(open, path) && !slices.Contains(open, pattern) {
			routes[route{method, fill.Replace(path)}] = true
		}
	}
	for _, r := range s.house.api.Routes() {
		if !slices.Contains(open, r.Path) {
			routes[route{r.Method, fill.Replace(r.Path)}] = true
		}
	}
	tried := 0
	for r := range routes {
		header := []string(nil)
		if r.method == http.MethodGet || r.method == http.MethodHead {
			if !strings.HasSuffix(r.path, "/ws") && r.path != "/v1/stream" {
				continue // it changes nothing
			}
			header = upgrade
		}
		for name, way := range ways {
			resp := ana.do(r.method, r.path, "{}", append(slices.Clone(header), way...)...)
			var body struct{ Error parley.ErrorInfo }
			err := json.NewDecoder(resp.Body).Decode(&body)
			said := body.Error.Message
			if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(said, "pages of this server only") && !strings.Contains(said, "may not change anything here") {
				t.Errorf("%s %s by a %s: %s %+v", r.method, r.path, name, resp.Status, body.Error)
			}
			tried++
		}
	}
	if tried < 40*len(ways) {
		t.Errorf("only %d requests were tried", tried)
	}
	if resp := ana.own("GET", "/v1/sessions/"+string(made.ID), ""); resp.StatusCode != http.StatusOK {
		t.Errorf("her own page afterwards: %s", resp.Status)
	}
}

// TestSignIn_at_once: an answer of the provider that comes twice at once signs in once; of two logins in two tabs
// the later one counts, and the earlier neither signs in nor signs out.
func TestSignIn_at_once(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	b := s.browser()
	back := s.begin(b, "ana", "/")
	var hands sync.WaitGroup
	var mu sync.Mutex
	signedIn := 0
	for range 8 {
		tab := s.browser()
		tab.cookies = maps.Clone(b.cookies)
		hands.Go(func() {
			resp := tab.do("GET", back, "")
			mu.Lock()
			defer mu.Unlock()
			for _, c := range resp.Cookies() {
				if c.MaxAge > 0 {
					signedIn++
				}
			}
		})
	}
	hands.Wait()
	if signedIn != 1 {
		t.Errorf("one answer signed in %d times", signedIn)
	}

	tabs := s.browser()
	first := s.begin(tabs, "bea", "/first")
	second := s.begin(tabs, "ana", "/second")
	if at := tabs.next(tabs.do("GET", second, "")); at != s.url+"/second" {
		t.Fatalf("the second tab goes to %s", at)
	}
	if at := tabs.next(tabs.do("GET", first, "")); !strings.HasSuffix(at, "#signin=failed") {
		t.Errorf("the first tab goes to %s", at)
	}
	if me := read[auth.Me](t, tabs.own("GET", "/v1/me", "")); me.User != "acme:ana" {
		t.Errorf("the browser is %+v", me)
	}
}

// TestSignIn_returns_here: wherever a login is to return to, the browser stays at this server.
func TestSignIn_returns_here(t *testing.T) {
	t.Parallel()
	s := newSigned(t)
	here, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	went := 0
	for _, to := range []string{
		"/", "/apps/home/#/x", "//evil.example.com", "///evil.example.com", "/\\evil.example.com", "/\t/evil.example.com", "/\n/evil.example.com", "https:evil.example.com", "https://evil.example.com",
		"/.//evil.example.com", "/..//evil.example.com", "/%2F/evil.example.com", "/%5Cevil.example.com", "/%09//evil.example.com", "@evil.example.com", "/@evil.example.com", ".evil.example.com", ":80@evil.example.com",
		"javascript:alert(1)", "/x?next=//evil.example.com", "/#//evil.example.com", "/\x00//evil.example.com", "/ //evil.example.com", "", "evil", "/" + strings.Repeat("x", 3000),
	} {
		b := s.browser()
		resp := b.do("GET", "/v1/signin/acme?to="+url.QueryEscape(to), "")
		if resp.StatusCode == http.StatusBadRequest {
			continue
		}
		s.as.Lock()
		s.as.Auto = "ana"
		s.as.Unlock()
		at, err := url.Parse(b.next(b.do("GET", b.next(b.do("GET", b.next(resp), "")), "")))
		if err != nil || at.Scheme != here.Scheme || at.Host != here.Host || at.User != nil {
			t.Errorf("%q returns to %s, %v", to, at, err)
		}
		if went++; strings.ContainsAny(to, "\\\t\n\x00") || strings.HasPrefix(to, "//") || !strings.HasPrefix(to, "/") {
			t.Errorf("%q is a path of this server", to)
		}
	}
	if went < 5 {
		t.Errorf("only %d logins returned", went)
	}
}
