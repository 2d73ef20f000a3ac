package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// TestWaitingIsBounded fills a running turn and the queue behind it to their limits. A refused
// message leaves no trace, and an accepted one is answered.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		busy  parley.BusyMode
		size  int
		taken int
		code  parley.Code
	}{
		{"steers by bytes", parley.BusySteer, 250_000, 4, parley.CodeTooLarge},
		{"steers by count", parley.BusySteer, 10, 32, parley.CodeBusy},
		{"the queue by bytes", parley.BusyEnqueue, 250_000, 4, parley.CodeBusy},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGated("slow")
				r := enginetest.New(t, g.model, enginetest.App())
				defer r.Close()
				s := r.Session(func(s *parley.CreateSession) { s.MaxOpenTurns = 50 })
				slow := r.Send(s.ID, "slow")
				synctest.Wait()
				taken := 0
				var err error
				last := slow
				for err == nil && taken < 300 {
					var info parley.TurnInfo
					if info, err = r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: strings.Repeat("x", c.size), Busy: c.busy}); err == nil {
						taken, last = taken+1, info
					}
				}
				if taken != c.taken || code(err) != c.code || parley.Info(err).Hint == "" {
					t.Errorf("got %d and %v, want %d and %s with a hint", taken, err, c.taken, c.code)
				}
				before := len(r.Log(s.ID))
				if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: strings.Repeat("x", c.size), Busy: c.busy}); err == nil {
					t.Error("taken after a refusal")
				}
				if after := len(r.Log(s.ID)); after != before {
					t.Errorf("a refusal left %d events", after-before)
				}
				close(g.open["slow"])
				if got := r.Await(slow.ID); !got.Status.Ended() {
					t.Errorf("the turn that ran: %+v", got)
				}
				if got := r.Await(last.ID); !got.Status.Ended() {
					t.Errorf("the last that was taken: %+v", got)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestSteersThatWereReadCount: messages that a turn was given while it ran count against its limit
// until it ends, also when its agent has read them.
func TestSteersThatWereReadCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		steps, goOn := 0, make(chan bool)
		model := func(ctx context.Context, _ seam.Request, _ func(string)) (seam.Reply, error) {
			steps++
			select {
			case more := <-goOn:
				if more {
					return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": fmt.Sprint(steps)})}}, nil
				}
				return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "ok"}}, StopReason: "end_turn"}, nil
			case <-ctx.Done():
				return seam.Reply{}, context.Cause(ctx)
			}
		}
		const most = 1000
		r := enginetest.New(t, model, enginetest.App(), func(o *engine.Options) { o.Limits.MaxMessage = most })
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		synctest.Wait()
		told := func() error {
			_, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: strings.Repeat("x", 9*most/10), Busy: parley.BusySteer})
			return err
		}
		for n := range 4 {
			if err := told(); err != nil {
				t.Fatalf("message %d: %v", n+1, err)
			}
			goOn <- true
			synctest.Wait()
			if steps != n+2 {
				t.Fatalf("after message %d, the model was called %d times, want %d", n+1, steps, n+2)
			}
		}
		if err := told(); code(err) != parley.CodeTooLarge || parley.Info(err).Hint == "" {
			t.Errorf("a fifth message: got %v, want %s with a hint", err, parley.CodeTooLarge)
		}
		close(goOn)
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("the turn: %s, %v", got.Status, got.Error)
		}
	})
}
