package linkedin_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

const redirect = "http://127.0.0.1/back"

func serve(t *testing.T, set linkedin.Settings) (*linkedin.Server, string) {
	t.Helper()
	s := linkedin.New(linkedin.Options{
		ClientID: "app", ClientSecret: "app-secret", Redirects: []string{redirect}, Settings: set,
		Members: []linkedin.Member{{ID: "ana1", Name: "Ana Weiss", Email: "ana@example.com"}, {ID: "ben2", Name: "Ben Ito", Email: "ben@example.com"}},
	})
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL
}

// TestOfficialClient: LinkedIn's own client understands every answer.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	s, base := serve(t, linkedin.Settings{Reading: true, Refreshing: true, Consent: "allow", Member: "ana1"})
	got := nodetest.Run(t, base, redirect, time.Now().UTC().Format("200601"))
	type m = map[string]any
	list := func(v ...any) []any { return v }
	want := m{
		"state": "my-state", "given": list(5184000.0, "email,openid,profile,r_member_social,w_member_social", "Bearer", "string"),
		"codeTwice": list(400.0, "invalid_grant"), "refreshed": true, "status": "active",
		"me":   list("ana1", "Ana Weiss", "ana@example.com", "object"),
		"post": list(201.0, true, 201.0), "comment": list(201.0, true, true, true, "Nice"), "reply": list(201.0, true),
		"deep": list(400.0, "INVALID_VALUE"), "listed": list(1.0, 1.0, list("Thanks")),
		"found": list("One (two) three", `Hello \(world\) #go`), "one": `Hello \(world\) #go`,
		"duplicate": list(422.0, "DUPLICATE_POST"), "oldVersion": list(426.0, "NONEXISTENT_VERSION"),
		"badToken": list(401.0, "INVALID_ACCESS_TOKEN"), "notMine": list(403.0, "ACCESS_DENIED"), "removed": 204.0,
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("what the client found (-want +got):\n%s", diff)
	}
	var shown []string
	for _, p := range s.Posts() {
		shown = append(shown, p.Text)
	}
	if d := cmp.Diff([]string{"Hello (world) #go", "One "}, shown); d != "" {
		t.Errorf("the texts as they are shown (-want +got):\n%s", d)
	}
}

// TestConsent: the page waits for a person, who may also cancel.
func TestConsent(t *testing.T) {
	t.Parallel()
	_, base := serve(t, linkedin.Settings{})
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	at := func(scope, back string) string {
		return base + "/oauth/v2/authorization?" + url.Values{"response_type": {"code"}, "client_id": {"app"}, "redirect_uri": {back}, "state": {"s 1"}, "scope": {scope}}.Encode()
	}
	send := func(to string, form url.Values) *http.Response {
		t.Helper()
		var resp *http.Response
		var err error
		if form == nil {
			resp, err = c.Get(to)
		} else {
			resp, err = c.PostForm(to, form)
		}
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	if resp := send(at("openid profile", redirect), nil); resp.StatusCode != http.StatusOK {
		t.Errorf("the page: got %s", resp.Status)
	}
	if resp := send(at("openid", redirect+"/other"), nil); resp.StatusCode != http.StatusBadRequest || resp.Header.Get("Location") != "" {
		t.Errorf("another redirect: got %s to %q", resp.Status, resp.Header.Get("Location"))
	}
	for name, tt := range map[string]struct{ scope, answer, want string }{
		"cancelled": {"openid", "cancel", "error=user_cancelled_authorize"},
		"allowed":   {"openid", "allow", "code=AQT"},
		"scope":     {"r_member_social", "allow", "error=unauthorized_scope_error"},
	} {
		resp := send(at(tt.scope, redirect), url.Values{"answer": {tt.answer}, "member": {"ben2"}})
		if to := resp.Header.Get("Location"); !strings.Contains(to, tt.want) || !strings.Contains(to, "state=s+1") {
			t.Errorf("%s: got %q, want %s", name, to, tt.want)
		}
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`plain`: `plain`, `a \(b\) \#c`: `a (b) #c`, `a (b)`: `a `, `#tag and # no`: `#tag and `, `@[Acme](urn:li:organization:1)!`: `Acme!`,
		`snake_case`: `snake`, `a\`: `a`, `mail me\@x.de`: `mail me@x.de`,
	} {
		if got := linkedin.Shown(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
