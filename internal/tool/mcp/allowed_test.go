//go:build unix

package mcp_test

import (
	"context"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/mcp"
)

// TestAllowed: a server that may not run is not started. If it is no longer allowed once it has
// started, because its program changed in between, it is ended before it is used. It is then not
// tried in the older era's way.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yes, starts, ended int64 }{
		"not allowed":       {0, 0, 0},
		"changed meanwhile": {1, 1, 1},
		"allowed":           {2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, starts, ended atomic.Int64
			tools := mcp.NewOver(mcp.Options{Name: "test", Logger: quiet, Allowed: func(context.Context) error {
				if asked.Add(1) > c.yes {
					return parley.Errorf(parley.CodeForbidden, "test has changed since it was approved")
				}
				return nil
			}}, func(ctx context.Context) (sdk.Transport, func(), error) {
				starts.Add(1)
				theirs, ours := sdk.NewInMemoryTransports()
				s, err := newTestServer(nil).Connect(ctx, theirs, nil)
				if err != nil {
					return nil, nil, err
				}
				return ours, func() { ended.Add(1); _ = s.Close() }, nil
			})
			_, err := tools.Tools(t.Context())
			if allowed := c.yes > 1; (err == nil) != allowed || !allowed && parley.CodeOf(err) != parley.CodeUnavailable {
				t.Errorf("the tools: %v", err)
			}
			if starts.Load() != c.starts || ended.Load() < c.ended {
				t.Errorf("started %d times and ended %d, want %d and %d", starts.Load(), ended.Load(), c.starts, c.ended)
			}
			tools.Close()
		})
	}
}
