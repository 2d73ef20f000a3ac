package wire_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// TestCarried_calls: a call counts for the request that carries it, whatever became of the request
// that opened its connection. If its own request ends first, it counts until the call ends.
func TestCarried_calls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 8 << 20
		ana := parley.Principal{User: "ana"}
		var opened context.Context // context of the request that opened the connection
		l := newLane(32<<20, size, func(_ http.ResponseWriter, r *http.Request) error {
			opened = context.WithoutCancel(r.Context())
			return nil
		})
		if err := l.ask(t.Context(), ana, httptest.NewRecorder()); err != nil {
			t.Fatal(err)
		}
		held := func(when string, want int) {
			t.Helper()
			if got := l.budget.Used(); got != want {
				t.Errorf("%s: %d bytes are held, want %d", when, got, want)
			}
		}
		reserve := func(ctx context.Context) {
			t.Helper()
			if err := wire.Reserve(ctx, size); err != nil {
				t.Error(err)
			}
		}
		l.handler = func(_ http.ResponseWriter, r *http.Request) error {
			call, done := wire.Carried(opened, r.Context())
			reserve(call)
			done()
			held("its request goes on", size)
			return nil
		}
		for range 30 {
			_ = l.ask(t.Context(), ana, httptest.NewRecorder())
			held("both have ended", 0)
		}
		var late context.Context
		var ends func()
		l.handler = func(_ http.ResponseWriter, r *http.Request) error {
			late, ends = wire.Carried(opened, r.Context())
			return nil
		}
		_ = l.ask(t.Context(), ana, httptest.NewRecorder())
		for _, begun := range []bool{true, false} { // whether the call had begun when its request ended
			if !begun {
				late, ends = wire.Carried(opened, nil)
			}
			reserve(late)
			held("its request has ended", size)
			other, stop := context.WithCancel(opened)
			other, done := wire.Carried(other, nil)
			var wg sync.WaitGroup
			wg.Go(func() {
				if wire.Reserve(other, size) == nil {
					t.Error("another call of the user does not wait")
				}
			})
			synctest.Wait()
			stop()
			wg.Wait()
			done()
			ends()
			held("the call has ended", 0)
		}
	})
}
