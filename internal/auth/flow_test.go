package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/auth"
)

// TestFlow_asks_the_issuer_rarely: strangers who begin many logins make no request to the issuer for
// each, whether it answers or not, and wherever its keys are.
func TestFlow_asks_the_issuer_rarely(t *testing.T) {
	t.Parallel()
	for name, jwks := range map[string]string{"keys from the document": "", "keys from the settings": issuerURL + "/jwks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t, auth.Issuer{Audience: []string{ours}, JWKS: jwks, Login: &auth.Login{ClientID: "parley"}})
			flow, err := auth.NewFlow(auth.FlowOptions{
				Issuers: p.issuers, Base: func() (string, error) { return ours, nil }, Now: p.clock,
				Fail: func(_ http.ResponseWriter, err error) { t.Error(err) },
			})
			if err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.HandleFunc("GET "+auth.BeginPath, flow.Begin)
			// begin begins many logins at once, and returns how many requests they made. Each is to be sent to
			// an address that begins with want.
			begin := func(want string) int {
				t.Helper()
				before := p.requests()
				var all sync.WaitGroup
				for range 50 {
					all.Go(func() {
						w := httptest.NewRecorder()
						mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", ours+"/v1/signin/acme?to=/", nil))
						if to := w.Header().Get("Location"); !strings.HasPrefix(to, want) {
							t.Errorf("sent to %q, want %q", to, want)
						}
					})
				}
				all.Wait()
				return p.requests() - before
			}
			cut := func(err error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.cut = err
			}
			const login, failed = issuerURL + "/authorize?", ours + "/#signin=unavailable"
			cut(errors.New("no network"))
			if n := begin(failed); n != 1 {
				t.Errorf("%d requests while it does not answer", n)
			}
			p.wait(11 * time.Second)
			if n := begin(failed); n != 1 {
				t.Errorf("%d requests when it is asked again", n)
			}
			cut(nil)
			p.wait(11 * time.Second)
			if n := begin(login); n != 1 {
				t.Errorf("%d requests when it answers", n)
			}
			p.accepts(p.token(nil)) // which fetches the keys
			if n := begin(login); n != 0 {
				t.Errorf("%d requests when its document is known", n)
			}
			cut(errors.New("no network"))
			p.wait(2 * time.Hour)
			if n := begin(login); n != 1 {
				t.Errorf("%d requests when the document is old", n)
			}
		})
	}
}
