package program

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// signed is a keyed server that also takes the tokens and sign-ins of a provider.
type signed struct {
	*keyed
	as *oidc.Server
}

// audience is that of its tokens.
const audience = "parley"

func newSigned(t *testing.T, change ...func(*config.Settings)) *signed {
	t.Helper()
	as := oidc.New(oidc.User{ID: "ana", Name: "Ana", Email: "ana@example.com", Org: "north", Orgs: []string{"north", "south"}}, oidc.User{ID: "bea", Name: "Bea"})
	provider := as.Start()
	t.Cleanup(provider.Close)
	k := newKeyed(t, append(change, func(s *config.Settings) {
		s.Auth.Issuers = map[string]config.Issuer{"acme": {
			Issuer: as.URL, Claims: "oidc", Audience: []string{audience}, Org: "org_id", Orgs: "orgs",
			Login: config.IssuerLogin{ClientID: "parley-page", ClientSecret: "client-secret-of-parley", Title: "Acme", EndSession: true},
		}}
	})...)
	as.Register(oidc.Client{ID: "parley-page", Secret: "client-secret-of-parley", Redirects: []string{k.url + "/v1/signin/acme/callback"}, After: []string{k.url + "/"}})
	as.Register(oidc.Client{ID: "other", Redirects: []string{"https://other.example.com/"}})
	return &signed{k, as}
}

// browser follows nothing by itself, and keeps cookies.
type browser struct {
	t       *testing.T
	base    string
	cookies map[string]*http.Cookie
}

func (s *signed) browser() *browser {
	return &browser{s.t, s.url, map[string]*http.Cookie{}}
}

// do makes a request, with the cookies if it goes to the server.
func (b *browser) do(method, to, body string, header ...string) *http.Response {
	b.t.Helper()
	if strings.HasPrefix(to, "/") {
		to = b.base + to
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, to, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(to, b.base+"/") {
		for _, c := range b.cookies {
			req.AddCookie(c)
		}
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	for _, c := range resp.Cookies() {
		if b.cookies[c.Name] = c; c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	return resp
}

// own asks as the server's page does.
func (b *browser) own(method, path, body string, header ...string) *http.Response {
	b.t.Helper()
	return b.do(method, path, body, append([]string{"Sec-Fetch-Site", "same-origin", "Origin", b.base}, header...)...)
}

// next is where a response sends the browser.
func (b *browser) next(resp *http.Response) string {
	b.t.Helper()
	to, err := resp.Location()
	if resp.StatusCode != http.StatusSeeOther || err != nil {
		b.t.Fatalf("%s: %v", resp.Status, err)
	}
	return to.String()
}

// begin goes to the provider and back, and returns the address to which it sends the browser.
func (s *signed) begin(b *browser, user, to string) (callback string) {
	s.t.Helper()
	s.as.Lock()
	s.as.Auto = user
	s.as.Unlock()
	at := b.next(b.do("GET", "/v1/signin/acme?to="+url.QueryEscape(to), ""))
	return b.next(b.do("GET", at, ""))
}

// signIn signs a browser in.
func (s *signed) signIn(user string) *browser {
	s.t.Helper()
	b := s.browser()
	if at := b.next(b.do("GET", s.begin(b, user, "/apps/home/?a=1#x"), "")); at != s.url+"/apps/home/?a=1#x" {
		s.t.Fatalf("after signing in the browser is sent to %s", at)
	}
	return b
}

// cookie is the one of the sign-in.
func (b *browser) cookie() *http.Cookie {
	b.t.Helper()
	u, _ := url.Parse(b.base)
	c := b.cookies["parley-"+u.Port()]
	if c == nil {
		b.t.Fatalf("the browser has no cookie: %v", b.cookies)
	}
	return c
}

// TestTokens_are_users: two tokens are two users, with organisations, and a key with the name of
// one is another user.
func TestTokens_are_users(t *testing.T) {
	t.Parallel()
	k := newSigned(t)
	claims := k.as.Claims("ana", audience)
	k.keys["token"] = k.as.Mint(claims)
	claims["org_id"], claims["orgs"] = "north", []string{"south"}
	k.keys["north"] = k.as.Mint(claims)
	var made parley.SessionInfo
	k.must(&made, "token", "POST", "/v1/sessions", `{"app":"home"}`)
	if made.User != "acme:ana" || made.Org != "" {
		t.Errorf("made by %s of %q", made.User, made.Org)
	}
	for _, other := range []string{"ana", "north", "bea"} {
		if status, _, _ := k.ask(other, "GET", "/v1/sessions/"+string(made.ID), ""); status != http.StatusNotFound {
			t.Errorf("as %s: %d", other, status)
		}
	}
	k.must(&made, "north", "POST", "/v1/sessions", `{"app":"home"}`)
	if made.User != "acme:ana" || made.Org != "acme:north" {
		t.Errorf("made by %s of %q", made.User, made.Org)
	}
	if status, _, _ := k.ask("north", "GET", "/v1/sessions/"+string(made.ID), "", "X-Org-Id", "south"); status != http.StatusNotFound {
		t.Errorf("in her other organisation: %d", status)
	}
	if who, err := k.house.plan.bearer(t.Context(), k.keys["north"]); err != nil || who.Org != "acme:north" || len(who.Orgs) != 2 {
		t.Errorf("in a message: %+v, %v", who, err)
	}
}
