package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
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
