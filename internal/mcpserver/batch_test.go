package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
)

// batch is n pings in one request, as the oldest version of the protocol allows.
func batch(n int) string {
	return " \n[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"},`, n-1) + `{"jsonrpc":"2.0","id":2,"method":"ping"}]`
}

// TestBatch: a batch is limited, because each of its messages costs as much as a request. It is
// refused before its messages are looked at, in each version of the protocol.
func TestBatch(t *testing.T) {
	t.Parallel()
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { o.Fail = api.WriteError })
	id := h.connected("ana")
	for _, header := range [][]string{
		{"User", "ana"},
		{"User", "ana", "Mcp-Session-Id", id},
		{"MCP-Protocol-Version", "2026-07-28"},
		{"MCP-Protocol-Version", "2025-11-25"},
	} {
		for _, body := range []string{batch(mcpserver.MaxBatch + 1), "[" + strings.Repeat("1,", 400_000) + "1]"} {
			resp := h.post(body, header...)
			raw, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(raw), `"too_large"`) || !strings.Contains(string(raw), "50 messages") {
				t.Errorf("%q: %d %s", header, resp.StatusCode, raw)
			}
		}
	}
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"as many as allowed": {batch(mcpserver.MaxBatch), http.StatusOK},
		"cut off":            {strings.TrimSuffix(batch(3), "]"), http.StatusBadRequest},
		"only its beginning": {"[", http.StatusBadRequest},
		"no comma":           {`[{"jsonrpc":"2.0","id":1,"method":"ping"} 1]`, http.StatusBadRequest},
	} {
		resp := h.post(c.body, "User", "ana")
		if raw, _ := io.ReadAll(resp.Body); resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", name, resp.StatusCode, raw)
		}
	}
}

// TestBatchCountsAsItsMessages: a user has no more under way with a batch than with requests.
func TestBatchCountsAsItsMessages(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	open, most := 0, 0
	h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) {
		o.Fail = api.WriteError
		o.Open = func(context.Context, parley.Principal) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			if open == 20 {
				return nil, parley.Errorf(parley.CodeRateLimited, "there are 20 open already")
			}
			open++
			most = max(most, open)
			return sync.OnceFunc(func() { mu.Lock(); open--; mu.Unlock() }), nil
		}
	})
	for n, want := range map[int]int{20: http.StatusOK, 21: http.StatusTooManyRequests, 1: http.StatusOK} {
		resp := h.post(batch(n))
		raw, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != want {
			t.Errorf("a batch of %d: %d %s", n, resp.StatusCode, raw)
		}
	}
	h.Close()
	h.app.Close(context.Background())
	mu.Lock()
	defer mu.Unlock()
	if open != 0 || most != 20 {
		t.Errorf("%d are open at the end, %d at most", open, most)
	}
}
