package eventlog_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// BenchmarkPublish measures one token sent to n followers that are reading. After 1,000 tokens the
// call ends and the next one begins.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{0, 1, 4, 100} {
		b.Run(fmt.Sprintf("followers=%d", n), func(b *testing.B) {
			d := newDesk(b, eventlog.Options{})
			ctx, stop := context.WithCancel(context.Background())
			var wg, up sync.WaitGroup
			up.Add(n)
			for range n {
				wg.Go(func() {
					first := sync.OnceFunc(up.Done)
					for range d.r.Follow(ctx, parley.Local, d.id, 0) {
						first()
					}
				})
			}
			up.Wait()
			token := parley.Delta{Session: d.id, Turn: turn, Agent: "lead", Text: "token "}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if i%1000 == 0 {
					b.StopTimer()
					if i > 0 {
						d.append(replied(token.Call, ""))
					}
					token.Call = parley.CallID(fmt.Sprintf("c%d", i))
					d.append(started(token.Call))
					b.StartTimer()
				}
				d.w.Publish(token)
			}
			b.StopTimer()
			stop()
			wg.Wait()
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	d := newDesk(b, eventlog.Options{})
	text := strings.Repeat("what an agent says in a few words ", 30)
	b.ReportAllocs()
	for b.Loop() {
		d.append(replied("c1", text))
	}
}

func BenchmarkFollowReplay(b *testing.B) {
	d := newDesk(b, eventlog.Options{})
	const events = 1000
	for i := range events - 1 {
		d.append(replied(parley.CallID(fmt.Sprintf("c%d", i)), "a short answer"))
	}
	b.ReportAllocs()
	for b.Loop() {
		for f, err := range d.r.Follow(b.Context(), parley.Local, d.id, 0) {
			if err != nil {
				b.Fatal(err)
			}
			if f.Event.Seq == events {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}
