package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Queued is a store with one writer and a queue of appends, with the methods its tests
// need.
type Queued interface {
	seam.Store
	Hold() (release func())                     // holds the writer in the middle of a commit
	AwaitQueue(n int)                           // returns once n appends wait
	During(ctx context.Context, f func()) error // runs f in the writer
	Commits() int64                             // the number of commits so far
}

// Writer runs the tests of a store with one writer. again opens another store over the
// data of a closed one.
func Writer(t *testing.T, open func(testing.TB) Queued, again func(testing.TB, Queued) seam.Store) {
	t.Run("waiting_appends_are_one_commit", func(t *testing.T) {
		t.Parallel()
		oneCommit(t, open(t))
	})
	t.Run("cancelled_before_the_writer_took_it", func(t *testing.T) {
		t.Parallel()
		withdrawn(t, open(t))
	})
	t.Run("an_append_in_progress_reports_its_outcome", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(context.Background())
		if err := open(t).During(ctx, cancel); err != nil {
			t.Errorf("got %v, want the outcome: it was committed", err)
		}
	})
	t.Run("close_finishes_waiting_appends", func(t *testing.T) {
		t.Parallel()
		s := open(t)
		finished(t, s)
		all, err := again(t, s).Sessions(context.Background(), User, seam.SessionQuery{})
		if err != nil || len(all) != 20 {
			t.Errorf("got %d sessions, %v, want 20", len(all), err)
		}
	})
}

func oneCommit(t *testing.T, s Queued) {
	ctx := context.Background()
	release := s.Hold()
	before := s.Commits()
	var wg sync.WaitGroup
	const n = 100
	for i := range n {
		wg.Go(func() {
			b := Words(parley.SessionID(fmt.Sprintf("S%03d", i)), 0, 1, 10)
			if i%10 == 0 {
				b = Words("refused", 7, 1, 10) // the session does not exist
			}
			err := s.Append(ctx, User, b)
			if (err != nil) != (i%10 == 0) {
				t.Errorf("append %d: got %v", i, err)
			}
		})
	}
	s.AwaitQueue(n)
	release()
	wg.Wait()
	// One of them is the hold's.
	if got := s.Commits() - before; got != 2 {
		t.Errorf("%d appends took %d commits, want 1", n, got-1)
	}
	all, err := s.Sessions(ctx, User, seam.SessionQuery{Limit: 500})
	if err != nil || len(all) != 90 {
		t.Errorf("got %d sessions, %v, want 90", len(all), err)
	}
}

func withdrawn(t *testing.T, s Queued) {
	must(t, s.Append(context.Background(), User, Words("S", 0, 1, 10)))
	release := s.Hold()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error)
	go func() { got <- s.Append(ctx, User, Words("S", 1, 1, 10)) }()
	s.AwaitQueue(1)
	cancel()
	if err := <-got; parley.CodeOf(err) != parley.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want cancelled", err)
	}
	release()
	must(t, s.During(context.Background(), func() {})) // the writer has handled the queue by now
	if n := Head(t, s, "S"); n != 1 {
		t.Errorf("got event %d, want the append to do nothing", n)
	}
}

// finished closes a store while twenty appends wait.
func finished(t *testing.T, s Queued) {
	release := s.Hold()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if err := s.Append(context.Background(), User, Words(parley.SessionID(fmt.Sprint("S", i)), 0, 1, 10)); err != nil {
				t.Error(err)
			}
		})
	}
	s.AwaitQueue(20)
	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	release()
	wg.Wait()
}
