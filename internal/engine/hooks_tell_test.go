package engine_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
)

// TestHooksThatHangAreBounded: while hooks hang, so many events wait for theirs and no more. The
// server's log says that further ones were dropped, and how many. Commands wait for none of it.
func TestHooksThatHangAreBounded(t *testing.T) {
	t.Parallel()
	const most, dropped = 8 + 4096, 7 // 8 run at once
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := 0
		hang := make(chan struct{})
		h := (&hooked{}).on("app", hook.SessionEnd, func(map[string]any) string {
			<-hang
			mu.Lock()
			defer mu.Unlock()
			heard++
			return ""
		})
		var said strings.Builder
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), h.in, func(o *engine.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		})
		defer r.Close()
		end := func() {
			t.Helper()
			s := r.Session()
			if _, err := r.Engine.End(ctx, enginetest.User, s.ID, ""); err != nil {
				t.Fatal(err)
			}
		}
		for range 8 {
			end()
		}
		synctest.Wait() // these hang
		for range most - 8 + dropped {
			end()
		}
		synctest.Wait()
		if n := strings.Count(said.String(), "too many events wait for hooks"); n != 1 {
			t.Errorf("it was said %d times that events are dropped, want once", n)
		}
		close(hang)
		time.Sleep(time.Second)
		synctest.Wait() // also the server's log is whole
		mu.Lock()
		defer mu.Unlock()
		if heard != most {
			t.Errorf("hooks ran for %d events, want %d", heard, most)
		}
		if want := fmt.Sprint("events=", dropped); !strings.Contains(said.String(), want) {
			t.Errorf("got %s, want it to have %s", said.String(), want)
		}
	})
}

// TestHooksThatHangHoldLittle: while hooks hang, the events that wait for theirs hold 16 MiB and no
// more, however few they are.
func TestHooksThatHangHoldLittle(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	const most = 8 + 16<<20/size - 1 // 8 run at once; each event is a little larger than size
	synctest.Test(t, func(t *testing.T) {
		var heard atomic.Int64
		hang := make(chan struct{})
		h := (&hooked{}).on("app", hook.SessionEnd, func(map[string]any) string {
			<-hang
			heard.Add(1)
			return ""
		})
		var said strings.Builder
		r := enginetest.New(t, enginetest.Echo, enginetest.App(), h.in, func(o *engine.Options) {
			o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		})
		defer r.Close()
		user := parley.Principal{User: strings.Repeat("u", size)} // which each event names
		for range most + 3 {
			s, _, err := r.Engine.Create(ctx, user, parley.CreateSession{App: "test"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Engine.End(ctx, user, s.ID, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first 8 no longer wait
		}
		close(hang)
		time.Sleep(time.Second)
		synctest.Wait()
		if heard.Load() != most {
			t.Errorf("hooks ran for %d events, want %d", heard.Load(), most)
		}
		if !strings.Contains(said.String(), "events=3") {
			t.Errorf("got %.2000s, want it to have events=3", said.String())
		}
	})
}
