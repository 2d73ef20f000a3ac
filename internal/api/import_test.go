package api_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestImports_are_few: archives that arrive slowly hold up neither other users
// for good nor memory: one more of the same user is refused before it is read,
// and so is one too many of all.
func TestImports_are_few(t *testing.T) {
	t.Parallel()
	w := newWorld(t, enginetest.Echo, enginetest.App())
	patient := &http.Transport{ExpectContinueTimeout: time.Hour}
	t.Cleanup(patient.CloseIdleConnections)
	status := func(user string) (int, string) {
		resp := w.ask("POST", "/v1/sessions/import", "no zip file", "Test-User", user, "Content-Type", "application/zip")
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	// slow begins an import that does not go on: it returns when the server has asked
	// for the body, which is when it counts, or has refused it.
	slow := func(user string) (end func()) {
		out, in := io.Pipe()
		begun := make(chan struct{}, 2)
		trace := &httptrace.ClientTrace{Got100Continue: func() { begun <- struct{}{} }}
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), "POST", w.url+"/v1/sessions/import", out)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Test-User", user)
		r.Header.Set("Content-Type", "application/zip")
		r.Header.Set("Expect", "100-continue")
		done := make(chan struct{})
		go func() {
			defer close(done)
			resp, err := patient.RoundTrip(r)
			if err == nil {
				_ = resp.Body.Close()
			}
			begun <- struct{}{}
		}()
		<-begun
		return func() { _ = in.Close(); <-done }
	}
	is := func(user string, want int) (retry string) {
		t.Helper()
		got, retry := status(user)
		if got != want {
			t.Errorf("an import of %s is answered with %d, want %d", user, got, want)
		}
		return retry
	}
	// over waits for the end of an import to count: the answer may be there before.
	over := func(user string) {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		got := 0
		for ctx.Err() == nil && got != http.StatusBadRequest {
			got, _ = status(user)
		}
		if got != http.StatusBadRequest {
			t.Errorf("when there is a place, an import of %s is answered with %d", user, got)
		}
	}
	var ends []func()
	for _, user := range []string{"ana", "ben", "cem", "dee"} {
		ends = append(ends, slow(user))
		is(user, http.StatusTooManyRequests)
	}
	if is("eva", http.StatusServiceUnavailable) == "" {
		t.Error("no Retry-After")
	}
	ends[0]()
	over("eva")
	for _, end := range ends[1:] {
		end()
	}
	over("dee")
}
