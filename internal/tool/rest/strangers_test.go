package rest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/rest"
)

// TestStrangers: a flood of random tokens from one client does not reach the API, also when they come at once.
// Others, and users of the same address who were accepted before, do not notice it.
func TestStrangers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.answer(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer good-") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"id":%q}`, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	})
	now := time.Unix(1_800_000_000, 0)
	ids, err := rest.NewIdentities(a.URL, nil, false, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	good := func(from, token string) {
		t.Helper()
		if _, ok, err := ids.WhoseFrom(t.Context(), from, token); !ok || err != nil {
			t.Errorf("%s from %s: %v, %v", token, from, ok, err)
		}
	}
	for i := range 100 { // an office whose users log in at once
		good("198.51.100.1", fmt.Sprint("good-", i))
	}
	if n := len(a.took()); n != 100 {
		t.Errorf("the API was asked %d times", n)
	}
	flood := func(what string) (asked int) {
		var hands sync.WaitGroup
		for i := range 500 {
			hands.Go(func() {
				_, ok, err := ids.WhoseFrom(t.Context(), "198.51.100.1", fmt.Sprint(what, i))
				if e, limited := errors.AsType[*parley.Error](err); ok || err != nil && (!limited || e.Code != parley.CodeRateLimited || e.RetryAfter <= 0) {
					t.Errorf("a random token: %v, %v", ok, err)
				}
			})
		}
		hands.Wait()
		return len(a.took())
	}
	if n := flood("a"); n != 30 {
		t.Errorf("of 500 random tokens at once %d reached the API", n)
	}
	if n := flood("b"); n != 0 {
		t.Errorf("of another 500 %d reached it", n)
	}
	good("203.0.113.9", "good-elsewhere")
	now = now.Add(time.Minute + time.Second) // the answers do not count any more
	for range 10 {
		flood("c")
	}
	good("198.51.100.1", "good-7")
	if _, _, err := ids.WhoseFrom(t.Context(), "198.51.100.1", "good-new"); parley.CodeOf(err) != parley.CodeRateLimited {
		t.Errorf("an unknown token in a flood: %v", err)
	}
	now = now.Add(10 * time.Second)
	good("198.51.100.1", "good-new")
	a.took()
	for range 10 {
		if _, ok, err := ids.WhoseFrom(t.Context(), "192.0.2.4", "old"); ok || err != nil {
			t.Errorf("the same wrong token: %v, %v", ok, err)
		}
	}
	if n := len(a.took()); n != 1 {
		t.Errorf("the same token was asked for %d times at once", n)
	}
}
