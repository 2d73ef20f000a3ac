package api_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestImports_are_few: archives that arrive slowly hold up neither other users
// for good nor memory: one more of the same user is refused before it is read,
// and so is one too many of all.
func TestImports_are_few(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	status := func(user string) (int, string) {
		resp := w.ask("POST", "/v1/sessions/import", "no zip file", "Test-User", user, "Content-Type", "application/zip")
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	slow := func(user string) (end func()) {
		out, in := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/v1/sessions/import", out)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Test-User", user)
		r.Header.Set("Content-Type", "application/zip")
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
		if _, err := in.Write([]byte("PK")); err != nil {
			t.Fatal(err)
		}
		return func() { _ = in.Close(); <-done }
	}
	until := func(user string, want int) (retry string) {
		got := 0
		for t.Context().Err() == nil && got != want {
			got, retry = status(user)
		}
		return retry
	}
	var ends []func()
	for _, user := range []string{"ana", "ben", "cem", "dee"} {
		ends = append(ends, slow(user))
		until(user, http.StatusTooManyRequests)
	}
	if until("eva", http.StatusServiceUnavailable) == "" {
		t.Error("no Retry-After")
	}
	ends[0]()
	until("eva", http.StatusBadRequest)
	for _, end := range ends[1:] {
		end()
	}
	until("dee", http.StatusBadRequest)
}
