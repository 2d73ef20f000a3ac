package leads_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestLeadsProcess_flood_of_tokens: random tokens, at the native API and in chats, do not become as many requests to
// the API that says whose tokens are, and a user of the same address who is known goes on.
func TestLeadsProcess_flood_of_tokens(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	o := newOffice(t, "sqlite", "testdata/hostile", func(o *office) {
		o.front = func(crm http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/me" {
					asked.Add(1)
				}
				crm.ServeHTTP(w, r)
			})
		}
	})
	token := o.token(jonas)
	b := o.browser(token)
	if f := b.ask("SAY Hello."); f.Type != "turn.completed" {
		t.Fatalf("got %+v", b.frames)
	}
	before := asked.Load()
	stranger := o.browser("")
	for i := range 50 {
		stranger.token = fmt.Sprint("crm_random_", i)
		if f := stranger.ask("SAY Hello."); f.Type != "error" {
			t.Fatalf("got %+v", stranger.frames)
		}
		// Nobody has to log in here, so an unknown token may be meant for another server.
		if status, said := o.native(fmt.Sprint("crm_other_", i), "GET", "/v1/sessions", ""); status != 200 && status != 429 {
			t.Fatalf("%d %s", status, said)
		}
	}
	if n := asked.Load() - before; n < 30 || n > 35 {
		t.Errorf("of 100 random tokens %d reached the API", n)
	}
	if status, said := o.native(token, "GET", "/v1/sessions?app=leads", ""); status != 200 {
		t.Errorf("a user who is known: %d %s", status, said)
	}
	if f := b.ask("SAY Hello."); f.Type != "turn.completed" {
		t.Errorf("a user who is known: %+v", b.frames)
	}
}
