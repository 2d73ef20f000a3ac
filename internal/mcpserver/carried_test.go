package mcpserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/wire"
)

// oldest are the versions of the older era, whose connections open without a stream.
var oldest = []string{"2024-11-05", "2025-03-26", "2025-06-18"}

// filling is held by the test that fills the limit on the bytes that answers hold, which the whole
// process has: two at once would wait for each other.
var filling sync.Mutex

// bounded serves the house as the binary does: with a limit on the bytes that answers hold.
func (h *house) bounded() {
	filling.Lock()
	h.t.Cleanup(filling.Unlock)
	asked := func(ctx context.Context) parley.Principal { return ctx.Value(userKey{}).(parley.Principal) }
	limited := wire.Bounded(h.app, asked)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limited.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, parley.Principal{User: r.Header.Get("User")})))
	}))
	h.t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	h.url = srv.URL
}

// TestReadsAreThoseOfTheirOwnRequest: a read counts for its own request. The request that opened a
// connection of the older era has ended long before.
func TestReadsAreThoseOfTheirOwnRequest(t *testing.T) {
	t.Parallel()
	for _, era := range append(oldest, eras...) {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, enginetest.Echo, enginetest.App())
			h.bounded()
			one := h.host(era, "reader-"+era, nil)
			for n := range 30 {
				_, err := one.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "parley://artifacts/01M81ZZZZZZZZZZZZZZZZZZZZZ"})
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
					t.Fatalf("read %d: %v", n, err)
				}
			}
		})
	}
}

// gated is an engine whose artifact reads wait until the test lets them go on.
type gated struct {
	mcpserver.Engine
	begun chan string // gets the user of each read that has begun
	may   chan struct{}
}

func (e *gated) Artifact(ctx context.Context, p parley.Principal, id parley.ArtifactID) (seam.Artifact, []byte, error) {
	e.begun <- p.User
	<-e.may
	return e.Engine.Artifact(ctx, p, id)
}

// TestReadsCount: one read takes all that one user may hold. Another read of that user waits, and
// a read of another user does not.
func TestReadsCount(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		g := &gated{begun: make(chan string, 10), may: make(chan struct{})}
		h := newHouse(t, enginetest.Echo, enginetest.App(), func(o *mcpserver.Options) { g.Engine, o.Engine = o.Engine, g })
		h.bounded()
		var reads sync.WaitGroup
		read := func(user string) {
			one := h.host(era, user, nil)
			reads.Go(func() {
				_, _ = one.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "parley://artifacts/01M81ZZZZZZZZZZZZZZZZZZZZZ"})
			})
		}
		ann, ben := "ann-"+era, "ben-"+era+"-"
		read(ann)
		if got := <-g.begun; got != ann {
			t.Fatalf("the read of %s has begun", got)
		}
		read(ann)
		for _, other := range []string{ben + "1", ben + "2"} {
			read(other)
			if got := <-g.begun; got != other {
				t.Errorf("beside ann's read that of %s begins", got)
			}
		}
		close(g.may)
		if got := <-g.begun; got != ann {
			t.Errorf("then that of %s begins", got)
		}
		reads.Wait()
	})
}
