package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Turn returns what one step of a turn appends: two events of about 300 bytes and the
// turn's row.
func Turn(id parley.SessionID, after int64) seam.Batch {
	b := Words(id, after, 2, 250)
	for i := range b.Events {
		b.Events[i].Turn, b.Events[i].Agent, b.Events[i].Time = parley.TurnID(id), "interface", time.UnixMilli(1)
	}
	if after > 0 {
		b.Index.Turns = []parley.TurnInfo{{ID: parley.TurnID(id), SessionID: id, Status: parley.StatusRunning, LastSeq: after + 2}}
	}
	return b
}

// BenchmarkAppend appends from 1, 16 and 256 sessions at once. One operation is one
// append to each of them. The floor only writes the same events in one commit. The two
// alternate, so that noise affects both alike.
func BenchmarkAppend(b *testing.B, open func(*testing.B) (s Queued, floor func(*testing.B, []seam.Batch))) {
	for _, n := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
			s, floor := open(b)
			appends(b, n, s, floor)
		})
	}
}

func appends(b *testing.B, n int, s Queued, floor func(*testing.B, []seam.Batch)) {
	ctx := context.Background()
	ids := make([]parley.SessionID, n)
	for i := range ids {
		ids[i] = parley.SessionID(fmt.Sprintf("01K%023d", i))
		must(b, s.Append(ctx, User, Turn(ids[i], 0)))
	}
	work, done := make([]chan seam.Batch, n), make(chan error, n)
	var wg sync.WaitGroup
	for i := range ids {
		work[i] = make(chan seam.Batch)
		wg.Go(func() {
			for batch := range work[i] {
				done <- s.Append(ctx, User, batch)
			}
		})
	}
	var ours, bare time.Duration
	commits := s.Commits()
	after := int64(2)
	for b.Loop() {
		batches := make([]seam.Batch, n)
		for i, id := range ids {
			batches[i] = Turn(id, after)
		}
		t0 := time.Now()
		for i := range ids {
			work[i] <- batches[i]
		}
		for range ids {
			must(b, <-done)
		}
		t1 := time.Now()
		floor(b, batches)
		ours, bare = ours+t1.Sub(t0), bare+time.Since(t1)
		after += 2
	}
	for i := range work {
		close(work[i])
	}
	wg.Wait()
	ops := float64(after-2) / 2
	b.ReportMetric(float64(ours)/float64(bare), "x-floor")
	b.ReportMetric(float64(ours.Microseconds())/ops, "µs-ours")
	b.ReportMetric(float64(bare.Microseconds())/ops, "µs-floor")
	b.ReportMetric(float64(s.Commits()-commits)/ops, "commits/op")
	b.ReportMetric(0, "ns/op")
}
