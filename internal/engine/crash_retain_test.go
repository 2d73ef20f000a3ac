package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// lasting is an in-memory store that outlives its engine.
type lasting struct{ *mem.Store }

func (lasting) Close() error { return nil }

func TestCrashWhileStepsAreCondensed(t *testing.T) {
	t.Parallel()
	t.Run("mem", func(t *testing.T) {
		t.Parallel()
		enginetest.CrashRetention(t, 1, func(*testing.T) func() seam.Store {
			m := lasting{mem.New()}
			return func() seam.Store { return m }
		})
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		enginetest.CrashRetention(t, 1, func(t *testing.T) func() seam.Store {
			dir := t.TempDir()
			return func() seam.Store {
				s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
		})
	})
}

// TestFollowingWhatIsCondensed follows a session from numbers before its condensed steps. Some
// readers are already in the middle, others reconnect. Each event comes once, and condensed ones
// come without their data.
func TestFollowingWhatIsCondensed(t *testing.T) {
	t.Parallel()
	sh := newShelf(t)
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, secretary, enginetest.App(keeping), byHand, func(o *engine.Options) { o.Archive = sh })
		defer r.Close()
		s, _ := busy(t, r, 5)
		before := int64(len(r.Log(s.ID)))
		var all sync.WaitGroup
		for after := range before {
			for _, stays := range []bool{true, false} {
				all.Go(func() {
					live, stop := context.WithCancel(ctx)
					defer stop()
					last, end := after, before
					for last < end {
						for f, err := range r.Reader.Follow(live, enginetest.User, s.ID, last) {
							if err != nil {
								t.Errorf("after %d: %v", last, err)
								return
							}
							if f.Event == nil {
								continue
							}
							if f.Event.Seq != last+1 {
								t.Errorf("event %d follows %d", f.Event.Seq, last)
							}
							if last = f.Event.Seq; last == after+1 {
								time.Sleep(50 * time.Hour) // its steps are condensed, and a turn has been added
								if end = int64(len(r.Log(s.ID))); !stays {
									break
								}
							}
							if last == end {
								break
							}
						}
					}
				})
			}
		}
		time.Sleep(25 * time.Hour)
		if sweep(t, r).Condensed == 0 {
			t.Error("nothing was condensed")
		}
		r.Await(r.Send(s.ID, "look again").ID)
		all.Wait()
	})
}
