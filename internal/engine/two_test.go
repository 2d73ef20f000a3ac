package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// TestTwoEngines: one turn runs at the first engine, another waits for it and a third waits for a
// human. A second engine over the same store reads everything, recovers, sweeps and tends. The
// first engine still drives all turns to their end.
func TestTwoEngines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gated{open: map[string]chan struct{}{"slow": make(chan struct{})}}
		app := enginetest.App(asking, keeping, func(a *parley.App) {
			a.Busy, a.MaxOpenTurns, a.Resume = parley.BusyEnqueue, 4, parley.ResumeAuto
			a.TTL = parley.TTL{SessionIdle: parley.Duration(time.Minute), TurnSteps: parley.Duration(time.Minute), Ended: parley.Duration(time.Minute)}
			a.Policy.AnswerWithin = parley.Duration(time.Minute)
		})
		store := mem.New()
		one := enginetest.Over(t, store, &enginetest.Service{}, g.model, app)
		defer one.Close()
		two := enginetest.Over(t, store, one.Service, g.model, app)
		s := one.Session()
		slow := one.Send(s.ID, "slow")
		next := one.Send(s.ID, "next")
		asks := enginetest.Over(t, store, one.Service, mailer("mail"), app)
		defer asks.Close()
		q := asks.Session()
		waits := asks.Await(asks.Send(q.ID, "go").ID)

		queue, err := two.Engine.Queue(ctx, enginetest.User, s.ID)
		if err != nil || len(queue) != 1 || queue[0].ID != next.ID {
			t.Errorf("the queue, read elsewhere: %v, %v", queue, err)
		}
		for id, want := range map[parley.TurnID]parley.TurnStatus{slow.ID: parley.StatusRunning, next.ID: parley.StatusPending, waits.ID: parley.StatusWaiting} {
			if got, err := two.Engine.Await(ctx, enginetest.User, id, 10*time.Second); err != nil || got.Status != want {
				t.Errorf("awaited elsewhere: %s, %v, want %s", got.Status, err, want)
			}
		}
		if st, err := two.Engine.State(ctx, enginetest.User, s.ID); err != nil || st.Turn == nil || st.Turn.Status != parley.StatusRunning {
			t.Errorf("the state, read elsewhere: %+v, %v", st.Turn, err)
		}
		done, err := two.Engine.Recover(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-done
		if _, err := two.Engine.Sweep(ctx, parley.System()); err != nil {
			t.Errorf("a sweep of sessions driven by another node: %v", err)
		}
		if _, err := two.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x"}); !errors.Is(err, seam.ErrDriven) || code(err) != parley.CodeUnavailable {
			t.Errorf("a command elsewhere: %v", err)
		}
		time.Sleep(30 * time.Second)
		got := make(chan parley.TurnInfo)
		go func() {
			info, err := two.Engine.Await(ctx, enginetest.User, next.ID, time.Hour)
			if err != nil {
				t.Error(err)
			}
			got <- info
		}()
		synctest.Wait()
		close(g.open["slow"])
		if got := one.Await(slow.ID); got.Status != parley.StatusCompleted || got.Attempts != 0 {
			t.Errorf("the first's turn is %s after %d attempts", got.Status, got.Attempts)
		}
		if got := <-got; got.Status != parley.StatusCompleted {
			t.Errorf("the queued turn, awaited elsewhere, is %s", got.Status)
		}
		for _, id := range []parley.SessionID{s.ID, q.ID} {
			for _, e := range one.Log(id) {
				if e.Type == "turn.interrupted" {
					t.Errorf("session %s was interrupted", id)
				}
			}
			if err := enginetest.CheckLog(one.Log(id)); err != nil {
				t.Error(err)
			}
		}
		two.Close()
	})
}

// TestResumedTurnsThatWaitHoldNoPlace: a resumed turn releases its slot once its start is durable.
// More turns are resumed than there are slots, and each takes an hour. All of them run at once.
func TestResumedTurnsThatWaitHoldNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		running := make(chan struct{}, 100)
		slow := func(ctx context.Context, _ seam.Request, say func(string)) (seam.Reply, error) {
			running <- struct{}{}
			for range 120 { // for an hour, with some text each time
				say("and ")
				select {
				case <-time.After(30 * time.Second):
				case <-ctx.Done():
					return seam.Reply{}, ctx.Err()
				}
			}
			return seam.Reply{}, nil
		}
		r := enginetest.New(t, slow, app)
		const n = 20
		var turns []parley.TurnID
		for range n {
			turns = append(turns, r.Send(r.Session().ID, "go").ID)
		}
		synctest.Wait()
		disk := r.Mem.Clone()
		r.Kill()
		for range n {
			<-running
		}
		next := enginetest.Over(t, disk, r.Service, slow, app)
		defer next.Close()
		done, err := next.Engine.Recover(ctx)
		if err != nil {
			t.Fatal(err)
		}
		<-done
		time.Sleep(time.Minute)
		if len(running) != n {
			t.Errorf("%d of %d turns run after a minute", len(running), n)
		}
		for _, id := range turns {
			if got, err := next.Engine.Await(ctx, enginetest.User, id, 2*time.Hour); err != nil || got.Status != parley.StatusCompleted {
				t.Errorf("got %s, %v", got.Status, err)
			}
		}
	})
}

// TestSweepOfAnothersSession: a sweep leaves an idle session to the node that drives it, and
// returns no error.
func TestSweepOfAnothersSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) { a.TTL.SessionIdle = parley.Duration(time.Minute) })
		store := mem.New()
		one := enginetest.Over(t, store, &enginetest.Service{}, mailer("look"), app)
		defer one.Close()
		two := enginetest.Over(t, store, one.Service, mailer("look"), app)
		defer two.Close()
		s := one.Session()
		one.Await(one.Send(s.ID, "go").ID)
		time.Sleep(time.Minute + time.Second)
		if done, err := two.Engine.Sweep(ctx, parley.System()); err != nil || done.Expired != 0 {
			t.Errorf("elsewhere: %+v, %v", done, err)
		}
		if done, err := one.Engine.Sweep(ctx, parley.System()); err != nil || done.Expired != 1 {
			t.Errorf("where it is driven: %+v, %v", done, err)
		}
	})
}
