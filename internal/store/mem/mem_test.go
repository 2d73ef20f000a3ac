package mem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Body{
		Open: func(testing.TB) seam.Store { return mem.New() },
		Reopen: func(t testing.TB, s seam.Store) seam.Store {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			return s.(*mem.Store).Clone()
		},
	})
}

var ann = parley.Principal{User: "ann"}

func batch(n int64) seam.Batch {
	e := parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended})
	e.Session, e.Seq = "S", n
	b := seam.Batch{Session: "S", Epoch: 1, After: n - 1, Events: []parley.Event{e}}
	if n == 1 {
		b.Create, b.Index.Session = true, &parley.SessionInfo{ID: "S", User: "ann"}
	}
	return b
}

func length(t *testing.T, s *mem.Store) int {
	t.Helper()
	events, err := s.Read(context.Background(), ann, "S", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(events)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := mem.New()
	if err := s.Append(ctx, ann, batch(1)); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the connection is gone")
	var calls []string
	var atCommit *mem.Store
	s.SetFaults(mem.Faults{
		Before: func(c mem.Call) error {
			calls = append(calls, "before "+c.Method)
			if c.Method == "Append" && c.Batch.After == 1 {
				return lost
			}
			return nil
		},
		After: func(c mem.Call) error {
			calls = append(calls, "after "+c.Method)
			atCommit = s.Clone()
			return lost
		},
	})
	if err := s.Append(ctx, ann, batch(2)); !errors.Is(err, lost) || length(t, s) != 1 {
		t.Errorf("before: got %v and %d events, want the fault and 1", err, length(t, s))
	}
	if _, err := s.Claim(ctx, ann, "S", "node"); !errors.Is(err, lost) {
		t.Errorf("claim: got %v, want the fault", err)
	}
	s.SetFaults(mem.Faults{After: func(mem.Call) error { atCommit = s.Clone(); return lost }})
	b := batch(2)
	b.Epoch = 2 // the claim was made
	if err := s.Append(ctx, ann, b); !errors.Is(err, lost) || length(t, s) != 2 {
		t.Errorf("after: got %v and %d events, want the fault and 2", err, length(t, s))
	}
	if d := cmp.Diff([]string{"before Append", "before Claim", "after Claim"}, calls); d != "" {
		t.Error(d)
	}

	// The copy keeps its state, and has no faults.
	s.SetFaults(mem.Faults{})
	b = batch(3)
	b.Epoch = 2
	if err := s.Append(ctx, ann, b); err != nil {
		t.Fatal(err)
	}
	if length(t, atCommit) != 2 || length(t, s) != 3 {
		t.Errorf("got %d and %d events, want 2 and 3", length(t, atCommit), length(t, s))
	}
	if err := atCommit.Append(ctx, ann, b); err != nil {
		t.Fatal(err)
	}
}

func TestFaultMayBlockInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		s.SetFaults(mem.Faults{Before: func(mem.Call) error { time.Sleep(time.Hour); return nil }})
		done := make(chan error)
		go func() { done <- s.Append(context.Background(), ann, batch(1)) }()
		synctest.Wait()
		if _, err := s.Session(context.Background(), ann, "S"); !errors.Is(err, parley.ErrNotFound) {
			t.Errorf("got %v while the append waits, want not found", err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestRandom runs the model against itself: the state machine must find no differences, and a
// copy must equal the original.
func TestRandom(t *testing.T) {
	t.Parallel()
	storetest.Random(t, storetest.Body{Open: func(testing.TB) seam.Store { return mem.New().Clone() }})
}
