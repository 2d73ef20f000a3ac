package client_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestHandleOfAllSessions: nothing announces the calls that wait in all sessions, so the client
// reads a list of them. It reads the list less often while it is empty, and often again as soon as
// there was a call.
func TestHandleOfAllSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		var list atomic.Value
		list.Store(`{"interactions": []}`)
		c := client.New(client.Options{BaseURL: "http://parley", Transport: tripper(func(r *http.Request) (*http.Response, error) {
			status, body := http.StatusOK, list.Load().(string)
			if r.Method == http.MethodPost {
				status, body = http.StatusConflict, `{"error": {"code": "conflict", "message": "another client has claimed the call"}}`
			} else {
				reads.Add(1)
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})})
		within := func(d time.Duration) int64 {
			before := reads.Load()
			time.Sleep(d) // fake time
			synctest.Wait()
			return reads.Load() - before
		}
		ctx, stop := context.WithCancel(t.Context())
		look := func(context.Context, parley.Claimed) (parley.ReportCall, error) { return parley.ReportCall{}, nil }
		ended := make(chan error)
		go func() { ended <- c.Handle(ctx, "", map[string]client.ToolFunc{"look": look}) }()
		if n := within(10 * time.Second); n < 5 || n > 11 {
			t.Errorf("%d reads in the first 10 s", n)
		}
		within(time.Minute)
		if n := within(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d reads in a quiet minute", n)
		}
		list.Store(`{"interactions": [{"id": "i1", "kind": "client", "tool": "look", "open": true}]}`)
		if n := within(10 * time.Second); n < 4 {
			t.Errorf("%d reads in 10 s with a call", n)
		}
		stop()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	})
}
