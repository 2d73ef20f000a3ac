package httpcall_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/httpcall"
)

// TestConnections: only a write has a connection of its own.
func TestConnections(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	guard, err := dial.New([]string{"127.0.0.1"}, []string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for effect, reused := range map[parley.Effect]bool{parley.EffectRead: true, parley.EffectIdempotent: true, parley.EffectWrite: false} {
		caller := httpcall.New(guard)
		for i := range 3 {
			var got httptrace.GotConnInfo
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { got = c }})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := caller.Do(ctx, effect, req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if want := reused && i > 0; got.Reused != want {
				t.Errorf("%s, call %d: reused %t, want %t", effect, i+1, got.Reused, want)
			}
		}
		caller.Close()
	}
}
