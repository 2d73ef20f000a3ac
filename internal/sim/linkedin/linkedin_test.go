package linkedin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
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

// TestFile: the next process knows the posts, what others said about them, and the tokens.
func TestFile(t *testing.T) {
	t.Parallel()
	o := linkedin.Options{
		ClientID: "app", ClientSecret: "app-secret", Back: "/api/back", Members: []linkedin.Member{{ID: "ana1", Name: "Ana Weiss"}},
		Settings: linkedin.Settings{Reading: true, Consent: "allow", Member: "ana1"}, File: filepath.Join(t.TempDir(), "linkedin.json"),
		Chatter: [][2]string{{"ben2", "How many came?"}, {"eve3", "Lovely."}, {"kim4", "Where is it?"}},
		Posts:   []linkedin.Post{{URN: "urn:li:share:1", Activity: "urn:li:activity:2", Author: "urn:li:person:ana1", Text: "Old"}},
	}
	ask := func(s *linkedin.Server, method, path, body, token string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if token != "" {
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("LinkedIn-Version", time.Now().UTC().Format("200601"))
			r.Header.Set("X-Restli-Protocol-Version", "2.0.0")
		}
		s.ServeHTTP(w, r)
		return w
	}
	s := linkedin.New(o)
	scope := "&response_type=code&scope=openid%20profile%20w_member_social%20r_member_social"
	for back, want := range map[string]int{
		"http://127.0.0.1:8123/api/back": 302, "http://localhost/api/back": 302, "http://127.0.0.1:8123/api/other": 400,
		"https://evil.example/api/back": 400, "http://u@127.0.0.1/api/back": 400, "http://127.0.0.1/api/back?x=1": 400,
	} {
		if w := ask(s, "GET", "/oauth/v2/authorization?client_id=app&redirect_uri="+url.QueryEscape(back)+scope, "", ""); w.Code != want {
			t.Errorf("%s: %d, want %d", back, w.Code, want)
		}
	}
	w := ask(s, "GET", "/oauth/v2/authorization?client_id=app&redirect_uri="+url.QueryEscape("http://127.0.0.1:8123/api/back")+scope, "", "")
	to, err := w.Result().Location()
	if err != nil {
		t.Fatal(err)
	}
	w = ask(linkedin.New(o), "POST", "/oauth/v2/accessToken", url.Values{
		"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "client_id": {"app"}, "client_secret": {"app-secret"}, "redirect_uri": {"http://127.0.0.1:8123/api/back"},
	}.Encode(), "")
	var got struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Token == "" {
		t.Fatalf("%v %s", err, w.Body)
	}
	w = ask(linkedin.New(o), "POST", "/rest/posts", `{"author":"urn:li:person:ana1","commentary":"New","visibility":"PUBLIC","distribution":{"feedDistribution":"MAIN_FEED"},"lifecycleState":"PUBLISHED"}`, got.Token)
	urn := w.Header().Get("X-Restli-Id")
	if w.Code != http.StatusCreated || urn == "" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	last := linkedin.New(o)
	w = ask(last, "GET", "/rest/socialActions/"+url.QueryEscape(urn)+"/comments", "", got.Token)
	if said := w.Body.String(); !strings.Contains(said, "How many came?") && !strings.Contains(said, "Lovely.") && !strings.Contains(said, "Where is it?") {
		t.Errorf("nobody says anything: %s", said)
	}
	if n := len(last.Posts()); n != 2 {
		t.Errorf("there are %d posts", n)
	}
}
