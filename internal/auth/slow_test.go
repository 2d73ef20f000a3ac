package auth_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/auth"
)

// TestWrongKeysAreSlowed: wrong keys are slowed by address and by their first characters, right
// keys never.
func TestWrongKeysAreSlowed(t *testing.T) {
	t.Parallel()
	keys, err := auth.OpenKeys("", []auth.Fixed{{Name: "ana", Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	h := auth.Door(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), auth.Options{
		Mode: auth.ModeKeys, Verifiers: []auth.Verifier{keys}, Now: func() time.Time { return now },
		Fail: func(w http.ResponseWriter, err error) {
			w.WriteHeader(map[parley.Code]int{parley.CodeUnauthenticated: 401, parley.CodeRateLimited: 429}[parley.CodeOf(err)])
			_ = json.NewEncoder(w).Encode(parley.Info(err))
		},
	})
	n := 0
	try := func(from, key string) (int, time.Duration) {
		n++
		r := httptest.NewRequest(http.MethodGet, "/v1/sessions", nil)
		r.RemoteAddr = from
		if key == "" {
			key = fmt.Sprintf("pk_%04d0123456789abcdef", n) // with different first characters
		}
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var info parley.ErrorInfo
		_ = json.Unmarshal(w.Body.Bytes(), &info)
		return w.Code, time.Duration(info.RetryAfterMS) * time.Millisecond
	}
	const a, sameNet, b = "203.0.113.7:1", "203.0.113.7:2", "203.0.113.8:1"
	for i := range 10 {
		if got, _ := try(a, ""); got != 401 {
			t.Fatalf("wrong key %d: %d", i, got)
		}
	}
	for range 1000 {
		got, wait := try(sameNet, "")
		if got != 429 || wait <= 0 || wait > 6*time.Second {
			t.Fatalf("got %d, to wait for %s", got, wait)
		}
	}
	if got, _ := try(a, secret); got != 200 {
		t.Errorf("the right key from there: %d", got)
	}
	if got, _ := try(b, ""); got != 401 {
		t.Errorf("another's first wrong key: %d", got)
	}
	_, wait := try(a, "")
	if now = now.Add(wait); true {
		if got, _ := try(a, ""); got != 401 {
			t.Errorf("after the wait: %d", got)
		}
		if got, _ := try(a, ""); got != 429 {
			t.Errorf("and at once again: %d", got)
		}
	}
	for i := range 30 { // one key from many addresses
		if got, _ := try(fmt.Sprintf("198.51.100.%d:1", i), "pk_abcdXXXXXXXXXXXXXXXX"); got != map[bool]int{true: 401, false: 429}[i < 10] {
			t.Errorf("guess %d at one key: %d", i, got)
		}
	}
	for i := range 20 { // addresses of one customer's network
		if got, _ := try(fmt.Sprintf("[2001:db8::%x]:1", i+1), ""); got != map[bool]int{true: 401, false: 429}[i < 10] {
			t.Errorf("from address %d of a network: %d", i, got)
		}
	}
}

func TestWrongKeysTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	if n := auth.CountWrongs(100_000, func(i int) string { return fmt.Sprint("from ", i) }); n > 4096 {
		t.Errorf("%d are remembered", n)
	}
}
