package sqlite_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

var ann = storetest.User

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWriter(t *testing.T) {
	t.Parallel()
	storetest.Writer(t,
		func(t testing.TB) storetest.Queued { return open(t, t.TempDir()) },
		func(t testing.TB, s storetest.Queued) seam.Store { return open(t, s.(*sqlite.Store).Dir()) })
}

// TestTooLargeForTheRoomFailsAlone: a batch that the disk has no room for does not fail the
// small batches in its group.
func TestTooLargeForTheRoomFailsAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, t.TempDir())
	must(t, s.LimitPages(100))
	release := s.Hold()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			size, want := 100, parley.Code("")
			if i == 3 {
				size, want = 1<<20, parley.CodeUnavailable
			}
			if err := s.Append(ctx, ann, storetest.Words(parley.SessionID(fmt.Sprint("S", i)), 0, 1, size)); parley.CodeOf(err) != want {
				t.Errorf("append of %d bytes: got %v, want %q", size, err, want)
			}
		})
	}
	s.AwaitQueue(6)
	release()
	wg.Wait()
	all, err := s.Sessions(ctx, ann, seam.SessionQuery{})
	if err != nil || len(all) != 5 {
		t.Errorf("got %d sessions, %v, want 5", len(all), err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for name, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "wal_autocheckpoint": "8000", "page_size": "2048"} {
		if got, err := s.Pragma(name); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}
