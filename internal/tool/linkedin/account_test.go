package linkedin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/linkedin"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// TestLogin: a call asks the user to log in, with a link that stays the same for a while and
// survives a restart. Afterwards it asks no more, whichever user of the person calls.
func TestLogin(t *testing.T) {
	t.Parallel()
	g := newRig(t, sim.Settings{})
	ask := func(p parley.Principal) *parley.Interaction {
		t.Helper()
		r := g.run("c", linkedin.Post, sebastian, in{"text": "x"})
		r.Principal = p
		in, err := g.set.Prepare(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	first := ask(ana)
	if first == nil || first.Kind != parley.KindQuestion || !strings.HasSuffix(first.Text, "\n"+first.URL) || !strings.Contains(first.Title, "sebastian") {
		t.Fatalf("it asks %+v", first)
	}
	g.restart()
	if again := ask(ana); again.URL != first.URL {
		t.Error("the link has changed")
	}
	if other := ask(bob); other.URL == first.URL {
		t.Error("another user got the same link")
	}
	u, err := url.Parse(first.URL)
	if err != nil || u.Query().Get("scope") != "openid profile w_member_social" || strings.Contains(u.RawQuery, "+") {
		t.Errorf("the link is %s, %v", first.URL, err)
	}
	if _, err := g.set.Finish(t.Context(), ana, g.visit(first.URL), nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []parley.Principal{ana, bob} {
		if in := ask(p); in != nil {
			t.Errorf("%s is asked %q", p.User, in.Title)
		}
	}
	if err := g.set.Logout(t.Context(), sebastian); err != nil || ask(ana) == nil {
		t.Errorf("after the logout nobody is asked; %v", err)
	}
}

// TestState: an answer counts once, for the user who began the login, while it lasts, for a
// workspace that the user may still use.
func TestState(t *testing.T) {
	t.Parallel()
	g := newRig(t, sim.Settings{})
	link := func(w parley.Workspace) string {
		t.Helper()
		l, err := g.set.Login(t.Context(), ana, w)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	refused := func(name string, p parley.Principal, a linkedin.Answer, want parley.Code) {
		t.Helper()
		if _, err := g.set.Finish(t.Context(), p, a, func(_ parley.Principal, w parley.Workspace) error {
			if w == petra {
				return parley.Errorf(parley.CodeNotFound, "no such workspace")
			}
			return nil
		}); parley.CodeOf(err) != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
	a := g.visit(link(sebastian))
	refused("another user", bob, a, parley.CodeNotFound)
	refused("another organisation", parley.Principal{User: "ana"}, a, parley.CodeNotFound)
	refused("no state", ana, linkedin.Answer{Code: a.Code}, parley.CodeNotFound)
	refused("another state", ana, linkedin.Answer{State: a.State + "x", Code: a.Code}, parley.CodeNotFound)
	if _, err := g.set.Finish(t.Context(), ana, a, nil); err != nil {
		t.Fatal(err)
	}
	refused("a second time", ana, a, parley.CodeNotFound)
	late := g.visit(link(sebastian))
	g.clock.add(61 * time.Minute)
	refused("too late", ana, late, parley.CodeNotFound)
	refused("workspace withdrawn", ana, g.visit(link(petra)), parley.CodeNotFound)
	g.sim.Set(func(s *sim.Settings) { s.Consent = "cancel" })
	cancelled := g.visit(link(sebastian))
	if _, err := g.set.Finish(t.Context(), ana, cancelled, nil); parley.CodeOf(err) != parley.CodeForbidden || parley.Info(err).Hint == "" {
		t.Errorf("cancelled: got %v; a person can begin again, which the hint has to say", err)
	}
	bad := g.visit(link(sebastian))
	bad.Code, bad.Error = "wrong", ""
	refused("wrong code", ana, bad, parley.CodeForbidden)
	g.o.Scopes = []string{"openid", "r_member_social"}
	g.restart()
	refused("scopes", ana, g.visit(link(sebastian)), parley.CodeForbidden)
	if n := g.sim.Counts().Logins; n != 1 {
		t.Errorf("%d logins", n)
	}
	// At once, one of two answers counts.
	g.o.Scopes = nil
	g.restart()
	g.sim.Set(func(s *sim.Settings) { s.Consent = "allow" })
	a = g.visit(link(sebastian))
	won := make(chan bool, 2)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, err := g.set.Finish(t.Context(), ana, a, nil); won <- err == nil })
	}
	wg.Wait()
	if first, second := <-won, <-won; first == second {
		t.Error("not one of the answers counted")
	}
}

// TestRenewal: a token that has expired or was refused is renewed once, however many calls need it.
// Without a refresh token the person is asked again.
func TestRenewal(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"expired", "refused"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, sim.Settings{Refreshing: true})
			g.login(ana, sebastian, "seb1")
			if end == "expired" {
				g.clock.add(sim.TokenTTL)
			} else {
				g.sim.EndTokens(false)
			}
			var wg sync.WaitGroup
			for _, text := range []string{"one", "two", "three"} {
				r := g.run(text, linkedin.Post, sebastian, in{"text": text})
				wg.Go(func() {
					if _, err := g.set.Prepare(t.Context(), r); err != nil {
						t.Error(err)
					}
					if res, err := g.set.Run(t.Context(), r); err != nil || res.Outcome != parley.OutcomeOK {
						t.Errorf("%s: %+v, %v", text, res, err)
					}
				})
			}
			wg.Wait()
			if c := g.sim.Counts(); c.Refreshes != 1 || c.Posts != 3 {
				t.Errorf("%d renewals, %d posts", c.Refreshes, c.Posts)
			}
		})
	}
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		g := newRig(t, sim.Settings{Refreshing: true})
		g.login(ana, sebastian, "seb1")
		g.sim.EndTokens(true)
		if res := g.do("c1", linkedin.Post, in{"text": "x"}); !strings.HasPrefix(res.Output, "Error: LinkedIn does not accept the login of sebastian any more") {
			t.Errorf("got %+v", res)
		}
		if ask, err := g.set.Prepare(t.Context(), g.run("c2", linkedin.Post, sebastian, in{})); ask == nil || err != nil {
			t.Errorf("nobody is asked, %v", err)
		}
	})
	t.Run("no refresh token", func(t *testing.T) {
		t.Parallel()
		g := newRig(t, sim.Settings{})
		g.login(ana, sebastian, "seb1")
		g.clock.add(sim.TokenTTL)
		if ask, err := g.set.Prepare(t.Context(), g.run("c", linkedin.Post, sebastian, in{})); ask == nil || err != nil {
			t.Errorf("nobody is asked, %v", err)
		}
	})
	t.Run("login service away", func(t *testing.T) {
		t.Parallel()
		g := newRig(t, sim.Settings{Refreshing: true})
		g.login(ana, sebastian, "seb1")
		g.clock.add(sim.TokenTTL)
		g.sim.Fail(sim.Fault{Path: "/accessToken", Status: 503})
		if res := g.do("c1", linkedin.Post, in{"text": "x"}); !strings.HasPrefix(res.Output, "Error: LinkedIn's login service answered 503") {
			t.Errorf("got %+v", res)
		}
		if res := g.do("c2", linkedin.Post, in{"text": "x"}); res.Outcome != parley.OutcomeOK {
			t.Errorf("afterwards %+v", res)
		}
	})
}

// TestCallback: the page that LinkedIn redirects to answers in the seed's form.
func TestCallback(t *testing.T) {
	t.Parallel()
	g := newRig(t, sim.Settings{})
	h := g.set.Callback(linkedin.CallbackOptions{
		Principal: func(r *http.Request) (parley.Principal, error) {
			return parley.Principal{User: r.Header.Get("X-User"), Org: "acme"}, nil
		},
		Fail: func(w http.ResponseWriter, err error) {
			w.WriteHeader(http.StatusTeapot)
			_ = json.NewEncoder(w).Encode(parley.Info(err))
		},
	})
	link, err := g.set.Login(t.Context(), ana, sebastian)
	if err != nil {
		t.Fatal(err)
	}
	a := g.visit(link)
	get := func(user string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, linkedin.CallbackPath+"?"+url.Values{"code": {a.Code}, "state": {a.State}}.Encode(), nil)
		r.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := get("bob"); w.Code != http.StatusTeapot {
		t.Errorf("bob got %s", w.Body)
	}
	if w := get("ana"); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != `{"success":true,"expires_in":5184000}` || w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("ana got %d %s", w.Code, w.Body)
	}
	if w := get("ana"); w.Code != http.StatusTeapot {
		t.Errorf("the second time ana got %s", w.Body)
	}
}

// TestSecrets: no token is in a result, an error, a file, the server's log, or readable in the
// store; each is hidden before it is used.
func TestSecrets(t *testing.T) {
	t.Parallel()
	g := newRig(t, sim.Settings{Refreshing: true})
	g.login(ana, sebastian, "seb1")
	var said strings.Builder
	hidden := map[string]bool{}
	run := func(call, text string) {
		r := g.run(call, linkedin.Post, sebastian, in{"text": text})
		r.Hide = func(values ...string) error {
			for _, v := range values {
				hidden[v] = true
			}
			return nil
		}
		res, err := g.set.Run(t.Context(), r)
		raw, _ := json.Marshal(res)
		said.Write(raw)
		if err != nil {
			said.WriteString(err.Error())
		}
	}
	run("c1", "one")
	g.sim.EndTokens(false)
	run("c2", "two")
	for i, f := range []sim.Fault{{Status: 403}, {Status: 500}, {Lost: true}, {}} {
		f.Path = "/rest/"
		g.sim.Fail(f)
		run("f"+string(rune('a'+i)), "fault "+string(rune('a'+i)))
	}
	for _, row := range g.rows("sebastian") {
		said.WriteString(strings.Join(row, " "))
	}
	rows, err := g.store.(interface {
		seam.Store
	}).Sealed(t.Context(), parley.System())
	if err != nil || len(rows) == 0 {
		t.Fatal("the store has nothing", err)
	}
	for _, row := range rows {
		said.Write(row.Body)
		said.WriteString(row.Name)
	}
	g.logs.Lock()
	said.WriteString(g.log.String())
	g.logs.Unlock()
	secrets := append(g.sim.Secrets(), "app-secret")
	if len(secrets) < 4 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	for _, s := range secrets {
		if strings.Contains(said.String(), s) {
			t.Error("a secret was told")
		}
	}
	if len(hidden) < 3 {
		t.Errorf("%d values were hidden", len(hidden))
	}
	run("last", strings.Repeat("x", 9))
}
