package login_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/oauth"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/vault"
)

var (
	ana = parley.Principal{User: "ana", Org: "acme"}
	bob = parley.Principal{User: "bob", Org: "acme"}
)

const base = "http://127.0.0.1:8000"

// world is a service, its authorization server, and our logins.
type world struct {
	t     *testing.T
	as    *oauth.Server
	url   string // of the service
	store seam.Store
	all   *login.Logins
	base  string // our address
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, as: oauth.New(), store: mem.New(), base: base, now: time.Now()}
	t.Cleanup(w.as.Close)
	at := httptest.NewServer(w.as.Protect("/mcp", http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		user, _, scope := w.as.Holder(r)
		fmt.Fprintf(out, "hello %s with %s", user, scope)
	})))
	t.Cleanup(at.Close)
	w.url = at.URL + "/mcp"
	w.restart()
	return w
}

// restart makes the logins of another process over the same store.
func (w *world) restart() {
	w.t.Helper()
	v, err := vault.Open(w.store, []string{base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.all = login.New(login.Options{
		Vault: func() *vault.Vault { return v }, Base: func() (string, error) { return w.base, nil }, Now: func() time.Time { return w.now },
	})
}

func (w *world) of(p parley.Principal, change ...func(*login.Server)) *login.Login {
	w.t.Helper()
	s := login.Server{Name: "crm", URL: w.url, Hosts: []string{"127.0.0.1"}}
	for _, c := range change {
		c(&s)
	}
	l, err := w.all.At(login.Place{Principal: p, Scope: vault.Scope{App: "desk"}}, s)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) link(l *login.Login) string {
	w.t.Helper()
	link, err := l.Needed(w.t.Context(), "find")
	if err != nil || link == "" {
		w.t.Fatalf("the link is %q, %v", link, err)
	}
	return link
}

// visit opens a link in the browser, and returns what it brings back.
func (w *world) visit(link string) parley.LoginAnswer {
	w.t.Helper()
	back, err := w.as.Visit(link)
	if err != nil {
		w.t.Fatal(err)
	}
	if at := back.Scheme + "://" + back.Host + back.Path; at != w.base+login.Page {
		w.t.Fatalf("it comes back to %s", at)
	}
	q := back.Query()
	return parley.LoginAnswer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

func (w *world) finish(p parley.Principal, a parley.LoginAnswer) login.Finished {
	w.t.Helper()
	done, err := w.all.Finish(w.t.Context(), p, a)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

func (w *world) refused(p parley.Principal, a parley.LoginAnswer, code parley.Code) {
	w.t.Helper()
	if _, err := w.all.Finish(w.t.Context(), p, a); parley.CodeOf(err) != code {
		w.t.Errorf("finishing got %v, want %s", err, code)
	}
}

// says is what the service answers.
func (w *world) says(l *login.Login) string {
	w.t.Helper()
	c := http.Client{Transport: l.Transport(http.DefaultTransport)}
	resp, err := c.Post(w.url, "text/plain", strings.NewReader("hi"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	return strings.TrimSpace(b.String())
}

func (w *world) loggedOut(l *login.Login) {
	w.t.Helper()
	if token, err := l.Token(w.t.Context()); parley.CodeOf(err) != parley.CodeUnauthenticated {
		w.t.Errorf("the token is %q, %v", token, err)
	}
}

// TestLogin: from the link to the answer of the service, with each kind of client, and with a
// restart at every point.
func TestLogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(w *world)
		change  func(*login.Server)
	}{
		"registers":             {func(*world) {}, func(*login.Server) {}},
		"registers with secret": {func(w *world) { w.as.Secrets = true }, func(*login.Server) {}},
		"configured": {func(w *world) {
			w.as.Unregister = true
			w.as.Client("ours", "client-secret-4711", base+login.Page)
		}, func(s *login.Server) {
			s.ClientID, s.ClientSecret, s.Scopes = "ours", "client-secret-4711", []string{"notes", "more"}
		}},
		"looked up": {func(w *world) {
			w.base = "https://parley.example.com"
			w.as.Unregister, w.as.Look = true, func(address string) ([]byte, error) {
				who, ok := login.Client(w.base)
				if address != w.base+login.Document || !ok {
					t.Errorf("asked for %s", address)
				}
				return json.Marshal(who)
			}
			w.restart()
		}, func(*login.Server) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.prepare(w)
			l := w.of(ana, c.change)
			w.loggedOut(l)
			if said := w.says(l); said != "who are you?" {
				t.Errorf("a stranger hears %q", said)
			}
			link := w.link(l)
			w.restart()
			if again := w.link(w.of(ana, c.change)); again != link {
				t.Error("who asks again gets another link")
			}
			q, err := url.Parse(link)
			if err != nil || q.Query().Get("resource") != w.url || q.Query().Get("code_challenge_method") != "S256" {
				t.Errorf("the link is %s, %v", link, err)
			}
			answer := w.visit(link)
			w.restart()
			if done := w.finish(ana, answer); done.Link != link || done.Denied || done.Login.Server != "crm" || done.Login.Since.IsZero() {
				t.Errorf("finished %+v", done)
			}
			w.restart()
			l = w.of(ana, c.change)
			want := "hello ana with notes"
			if name == "configured" {
				want += " more"
			}
			if said := w.says(l); said != want {
				t.Errorf("the service says %q", said)
			}
			if link, err := l.Needed(t.Context(), "find"); link != "" || err != nil {
				t.Errorf("a login is still needed: %q, %v", link, err)
			}
			w.loggedOut(w.of(bob, c.change))
			if list, err := w.all.List(t.Context(), bob); err != nil || len(list) != 0 {
				t.Errorf("bob has %v, %v", list, err)
			}
		})
	}
}

// TestNobody_looks_it_up: a server without a public address cannot be looked up, and whoever
// set it up hears what would help.
func TestNobody_looks_it_up(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.as.Unregister, w.as.Look = true, func(string) ([]byte, error) { return nil, errors.New("not reached") }
	_, err := w.of(ana).Needed(t.Context(), "find")
	if hint := parley.Info(err).Hint; parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(hint, base+login.Page) || !strings.Contains(hint, "public_url") {
		t.Errorf("got %v, %s", err, hint)
	}
}

// TestAnswers: an answer counts once, for who began the login, and only if it is from where the
// login began.
func TestAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.of(ana)
	answer := w.visit(w.link(l))
	w.refused(bob, answer, parley.CodeNotFound)
	wrong := answer
	wrong.State = strings.TrimSuffix(wrong.State, wrong.State[len(wrong.State)-4:]) + "AAAA"
	w.refused(ana, wrong, parley.CodeNotFound)
	w.refused(ana, parley.LoginAnswer{Code: answer.Code}, parley.CodeNotFound)
	w.finish(ana, answer)
	w.refused(ana, answer, parley.CodeNotFound)
	if w.as.Issued != 1 {
		t.Errorf("%d codes were used", w.as.Issued)
	}

	for name, issuer := range map[string]string{"another": "https://evil.example", "none": "-", "slash": w.as.URL + "/"} {
		l := w.of(parley.Principal{User: name})
		w.as.Issuer = issuer
		answer := w.visit(w.link(l))
		w.refused(parley.Principal{User: name}, answer, parley.CodeForbidden)
		w.loggedOut(l)
		w.as.Issuer = ""
		w.finish(parley.Principal{User: name}, w.visit(w.link(l))) // it starts over
	}

	w.as.Deny = true
	l = w.of(bob)
	if done := w.finish(bob, w.visit(w.link(l))); !done.Denied {
		t.Errorf("finished %+v", done)
	}
	w.loggedOut(l)
	w.as.Deny = false
	answer = w.visit(w.link(l))
	w.now = w.now.Add(25 * time.Hour)
	w.refused(bob, answer, parley.CodeNotFound) // too late
	w.as.Down = true
	answer = w.visit(w.link(l))
	w.refused(bob, answer, parley.CodeUnavailable)
	w.as.Down = false
	w.refused(bob, answer, parley.CodeNotFound)
	w.loggedOut(l)
}

// TestRenewed: a token that is about to expire, or was refused, is renewed once for all who wait,
// and the refresh token that came with it is the one that counts.
func TestRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.of(ana)
	w.finish(ana, w.visit(w.link(l)))
	first, err := l.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, expire := range []func(){func() { w.now = w.now.Add(59*time.Minute + 31*time.Second) }, func() { w.as.EndTokens(false) }} {
		expire()
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if said := w.says(w.of(ana)); said != "hello ana with notes" {
					t.Errorf("the service says %q", said)
				}
			})
		}
		all.Wait()
		if w.as.Renewed != i+1 {
			t.Errorf("it was renewed %d times, want %d", w.as.Renewed, i+1)
		}
	}
	if next, err := l.Token(t.Context()); err != nil || next == first {
		t.Errorf("the token is %q, %v", next, err)
	}
	w.as.Down = true
	w.as.EndTokens(false)
	if said := w.says(l); said != "who are you?" {
		t.Errorf("without tokens the service says %q", said)
	}
	w.now = w.now.Add(2 * time.Hour)
	if _, err := l.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "the login at crm was not renewed: it answered 5") || strings.Contains(err.Error(), "oauth2") {
		t.Errorf("a renewal that fails says %v", err)
	}
	w.as.Down = false
	if said := w.says(l); said != "hello ana with notes" {
		t.Errorf("once there are tokens again, the service says %q", said)
	}
	w.as.EndTokens(true) // as when ana removes Parley there
	if said := w.says(l); said != "who are you?" {
		t.Errorf("after the login was ended, the service says %q", said)
	}
	w.loggedOut(l)
	w.finish(ana, w.visit(w.link(l)))
	if said := w.says(l); said != "hello ana with notes" {
		t.Errorf("after another login, the service says %q", said)
	}
}

// TestForget: a login is removed here, and revoked there; also without the vault's key.
func TestForget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.finish(ana, w.visit(w.link(w.of(ana))))
	w.finish(bob, w.visit(w.link(w.of(bob))))
	list, err := w.all.List(t.Context(), ana)
	if err != nil || len(list) != 1 || list[0].Server != "crm" || list[0].App != "desk" || !list[0].Renews {
		t.Fatalf("ana has %+v, %v", list, err)
	}
	if _, err := w.all.Forget(t.Context(), parley.Principal{User: "eve"}, list[0].ID); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("eve forgets it: %v", err)
	}
	if revoked, err := w.all.Forget(t.Context(), ana, list[0].ID); err != nil || !revoked || w.as.Revoked != 1 {
		t.Errorf("it was revoked: %t, %v", revoked, err)
	}
	w.loggedOut(w.of(ana))
	if said := w.says(w.of(bob)); said != "hello ana with notes" { // the browser's user there
		t.Errorf("bob hears %q", said)
	}
	v, err := vault.Open(w.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.all = login.New(login.Options{Vault: func() *vault.Vault { return v }})
	if list, err := w.all.List(t.Context(), bob); err != nil || len(list) != 1 {
		t.Errorf("bob has %+v, %v", list, err)
	}
	if err := w.all.ForgetAll(t.Context(), bob); err != nil {
		t.Error(err)
	}
	rows, err := w.store.Sealed(t.Context(), parley.System())
	if err != nil || len(rows) != 0 {
		t.Errorf("%d secrets are left, %v", len(rows), err)
	}
	// A login that is removed while its person is at the other service stays removed.
	w.restart()
	answer := w.visit(w.link(w.of(ana)))
	if list, err = w.all.List(t.Context(), ana); err != nil || len(list) != 1 || !list[0].Waiting {
		t.Fatalf("ana has %+v, %v", list, err)
	}
	if _, err := w.all.Forget(t.Context(), ana, list[0].ID); err != nil {
		t.Error(err)
	}
	w.refused(ana, answer, parley.CodeNotFound)
}

// TestHosts: the operator names who may be asked for tokens, and hears which setting does.
func TestHosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := strings.Replace(w.as.URL, "127.0.0.1", "localhost", 1)
	l := w.of(ana, func(s *login.Server) { s.Hosts = nil; s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1) })
	_, err := l.Needed(t.Context(), "find")
	if info := parley.Info(err); info.Code != parley.CodeForbidden || !strings.Contains(info.Message, "hosts: [127.0.0.1]") {
		t.Errorf("another host: got %+v", info)
	}
	l = w.of(ana, func(s *login.Server) { s.Issuer = elsewhere })
	if _, err = l.Needed(t.Context(), "find"); err == nil || !strings.Contains(err.Error(), "does not take tokens of") {
		t.Errorf("another issuer: got %v", err)
	}
	w.as.Unregister = true
	_, err = w.of(ana).Needed(t.Context(), "find")
	if info := parley.Info(err); !strings.Contains(info.Hint, base+login.Page) || !strings.Contains(info.Hint, "client_id") {
		t.Errorf("no registration: got %+v", info)
	}
}
