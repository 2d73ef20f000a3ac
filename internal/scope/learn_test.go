package scope_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// TestLearn: who resolves an app whose tools are not known waits for the first attempt to learn
// them. After one in vain the app goes on without, and further attempts delay nobody.
func TestLearn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scopes(t, &world{})
		var tries, known atomic.Int64
		works := false
		version := scope.App{App: parley.App{Name: "late", Title: "without"}}
		version.Unknown = func() bool { return known.Load() == 0 }
		version.Learn = func(ctx context.Context) {
			tries.Add(1)
			if !works {
				<-ctx.Done()
				return
			}
			time.Sleep(time.Second)
			known.Store(1)
			if err := s.Replace(scope.App{App: parley.App{Name: "late", Title: "with"}}); err != nil {
				t.Error(err)
			}
		}
		if err := s.Replace(version); err != nil {
			t.Fatal(err)
		}
		at := seam.Scope{Principal: parley.Principal{User: "ana"}, App: "late"}
		resolve := func(title string, took time.Duration) {
			t.Helper()
			begun := time.Now()
			r, err := s.Resolve(ctx, at)
			if err != nil || r.App().Title != title || time.Since(begun) != took {
				t.Fatalf("after %v: %v, %v", time.Since(begun), r, err)
			}
			r.Release()
		}
		if _, ok := s.Ready(at); ok {
			t.Error("it is ready before its tools are known")
		}
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Resolve(brief, at); err == nil {
			t.Error("it does not wait")
		}
		resolve("without", 24*time.Second)
		resolve("without", 0) // the attempt goes on, but nobody waits for it any more
		time.Sleep(36 * time.Second)
		resolve("without", 0) // and tries again
		if r, ok := s.Ready(at); !ok {
			t.Error("it waits for a second attempt")
		} else {
			r.Release()
		}
		synctest.Wait()
		if tries.Load() != 2 {
			t.Errorf("%d attempts", tries.Load())
		}
		works = true
		time.Sleep(time.Minute + time.Second) // the second attempt is over
		resolve("without", 0)
		time.Sleep(2 * time.Second)
		resolve("with", 0)
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
