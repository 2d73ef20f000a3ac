package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

// crash ends a rig as a crash would, and starts another over the stored log.
func crash(t *testing.T, r *enginetest.Rig, model enginetest.Model, app parley.App) *enginetest.Rig {
	t.Helper()
	disk := r.Mem.Clone()
	r.Kill()
	synctest.Wait()
	return enginetest.Over(t, disk, r.Service, model, app)
}

func recovered(t *testing.T, r *enginetest.Rig) {
	t.Helper()
	done, err := r.Engine.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-done
}

// TestQueueAfterCrash: acknowledged messages run. This holds after an automatic resumption, after
// a manual one, and after a crash between two turns or while the first was being interrupted.
func TestQueueAfterCrash(t *testing.T) {
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, tc := range map[string]struct {
		app    func(*parley.App)
		begin  string
		before func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnInfo)
		after  func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnInfo)
		want   []string
		left   int
		stuck  bool
	}{
		"auto": {app: auto, begin: "long one", want: []string{"long one: completed", "two: completed", "three: completed"}},
		"by a human": {begin: "long one", after: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnInfo) {
			pending(t, r, 2)
			if _, err := r.Engine.Resume(ctx, enginetest.User, one.ID); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"long one: completed", "two: completed", "three: completed"}},
		"nobody resumes": {begin: "long one", want: []string{"long one: "}, left: 2},
		"cancelled instead": {begin: "long one", after: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnInfo) {
			if _, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, ""); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"long one: cancelled"}, left: 2},
		"resumed, then cancelled": {begin: "long one", after: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnInfo) {
			if _, err := r.Engine.Resume(ctx, enginetest.User, one.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, ""); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"long one: cancelled"}, left: 2, stuck: true},
		"a message instead": {begin: "long one", after: func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnInfo) {
			say(t, r, id, "four", "")
		}, want: []string{"long one: cancelled", "two: completed", "three: completed", "four: completed"}},
		"auto, while a message interrupts": {app: auto, begin: "mail one", before: func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnInfo) {
			say(t, r, id, "four", parley.BusyInterrupt)
		}, want: []string{"mail one: cancelled", "four: completed", "two: completed", "three: completed"}},
		"auto, after a wish to stop": {app: auto, begin: "mail one", before: func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnInfo) {
			if _, err := r.Engine.Cancel(ctx, enginetest.User, one.ID, ""); err != nil {
				t.Fatal(err)
			}
		}, want: []string{"mail one: cancelled"}, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := &held{}
			change := []func(*parley.App){queued}
			if tc.app != nil {
				change = append(change, tc.app)
			}
			app := enginetest.App(change...)
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h.gate = make(chan struct{})
				r := enginetest.New(t, h.model, app)
				slowMail(r)
				id := r.Session().ID
				one := r.Send(id, tc.begin)
				synctest.Wait()
				say(t, r, id, "two", parley.BusyEnqueue)
				say(t, r, id, "three", parley.BusyEnqueue)
				if tc.before != nil {
					tc.before(t, r, id, one)
				}
				r = crash(t, r, h.model, app)
				defer r.Close()
				if !tc.stuck {
					close(h.gate)
				}
				recovered(t, r)
				if tc.after != nil {
					tc.after(t, r, id, one)
				}
				time.Sleep(time.Minute)
				wants(t, r, id, tc.want...)
				pending(t, r, tc.left)
			})
		})
	}
}

// TestCrashBetweenTurns: the crash comes after the end of the first turn, before the start of the
// queued one is committed.
func TestCrashBetweenTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		app := enginetest.App(queued, func(a *parley.App) { a.Resume = parley.ResumeAuto })
		r := enginetest.New(t, h.model, app)
		id := r.Session().ID
		r.Send(id, "long one")
		say(t, r, id, "two", parley.BusyEnqueue)
		synctest.Wait()
		var disk *mem.Store
		r.Mem.SetFaults(mem.Faults{After: func(c mem.Call) error {
			if disk == nil && strings.Contains(types(c), "turn.completed") {
				disk = r.Mem.Clone()
			}
			return nil
		}})
		close(h.gate)
		synctest.Wait()
		r.Kill()
		r = enginetest.Over(t, disk, r.Service, h.model, app)
		defer r.Close()
		recovered(t, r)
		time.Sleep(time.Minute)
		wants(t, r, id, "long one: completed", "two: completed")
	})
}

func types(c mem.Call) string {
	var all []string
	for _, ev := range c.Batch.Events {
		all = append(all, string(ev.Type))
	}
	return strings.Join(all, " ")
}

// TestQueuedTurnWaitsForTheStore: a queued turn whose start could not be committed begins when
// there is room again.
func TestQueuedTurnWaitsForTheStore(t *testing.T) {
	h := &held{}
	rigged(t, h.model, enginetest.App(queued), func(t *testing.T, r *enginetest.Rig) {
		h.gate = make(chan struct{})
		id := r.Session().ID
		r.Send(id, "long one")
		say(t, r, id, "two", parley.BusyEnqueue)
		synctest.Wait()
		full := time.Now().Add(30 * time.Second)
		r.Mem.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if strings.Contains(types(c), "turn.started") && time.Now().Before(full) {
				return parley.Errorf(parley.CodeUnavailable, "no room")
			}
			return nil
		}})
		close(h.gate)
		time.Sleep(time.Minute)
		wants(t, r, id, "long one: completed", "two: completed")
	})
}

// TestAboutToBeResumed: a message right after a restart follows the busy mode, as
// if the turn that is about to be resumed were running.
func TestAboutToBeResumed(t *testing.T) {
	for name, tc := range map[string]struct {
		busy  parley.BusyMode
		app   func(*parley.App)
		crash int // number of crashes before
		want  []string
		code  parley.Code
	}{
		"reject":              {busy: parley.BusyReject, code: parley.CodeBusy, want: []string{"long one: completed"}},
		"enqueue":             {busy: parley.BusyEnqueue, want: []string{"long one: completed", "two: completed"}},
		"steer":               {busy: parley.BusySteer, want: []string{"long one: completed"}},
		"interrupt":           {busy: parley.BusyInterrupt, want: []string{"long one: cancelled", "two: completed"}},
		"resumed twice":       {busy: parley.BusyReject, crash: 2, want: []string{"long one: cancelled", "two: completed"}},
		"resumed once":        {busy: parley.BusyEnqueue, crash: 1, want: []string{"long one: completed", "two: completed"}},
		"by a human, rejects": {busy: parley.BusyReject, app: func(a *parley.App) { a.Resume = parley.ResumeManual }, want: []string{"long one: cancelled", "two: completed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &held{gate: make(chan struct{}), all: true}
				app := enginetest.App(queued, func(a *parley.App) { a.Resume = parley.ResumeAuto })
				if tc.app != nil {
					tc.app(&app)
				}
				r := enginetest.New(t, h.model, app)
				id := r.Session().ID
				one := r.Send(id, "long one")
				synctest.Wait()
				for range tc.crash {
					r = crash(t, r, h.model, app)
					recovered(t, r)
					time.Sleep(10 * time.Second)
				}
				r = crash(t, r, h.model, app)
				defer r.Close()
				close(h.gate)
				// Recover has not reached the session yet.
				two, err := r.Engine.Send(ctx, enginetest.User, id, parley.Send{Message: "two", Busy: tc.busy})
				if parley.CodeOf(err) != tc.code {
					t.Fatalf("got %v", err)
				}
				if tc.busy == parley.BusySteer && two.ID != one.ID {
					t.Errorf("a turn of its own: %s", two.ID)
				}
				recovered(t, r)
				time.Sleep(time.Minute)
				wants(t, r, id, tc.want...)
				if tc.busy == parley.BusySteer && !strings.Contains(fmt.Sprint(enginetest.Outcomes(r.Log(id))), "two") {
					t.Errorf("the steer is lost: %v", enginetest.Outcomes(r.Log(id)))
				}
			})
		})
	}
}

// TestResumptionThatFails: a turn that cannot be resumed does not block the session.
func TestResumptionThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
		r := enginetest.New(t, h.model, enginetest.App(auto))
		id := r.Session().ID
		one := r.Send(id, "long one")
		synctest.Wait()
		// The app has changed, and the version that the turn began with is gone.
		app := enginetest.App(auto, func(a *parley.App) { a.Title = "Other" })
		disk := r.Mem.Clone()
		r.Kill()
		r = enginetest.Over(t, lostBlobs{disk}, r.Service, h.model, app)
		defer r.Close()
		close(h.gate)
		recovered(t, r)
		time.Sleep(time.Minute)
		if got, err := r.Engine.Turn(ctx, enginetest.User, one.ID); err != nil || got.Status != parley.StatusInterrupted {
			t.Fatalf("got %s, %v", got.Status, err)
		}
		r.Send(id, "two")
		wants(t, r, id, "long one: cancelled", "two: completed")
	})
}

type lostBlobs struct{ seam.Store }

func (lostBlobs) Blob(context.Context, parley.Principal, parley.SessionID, parley.Digest) ([]byte, error) {
	return nil, parley.Errorf(parley.CodeNotFound, "there is no such blob")
}

// TestSteersOfAnInterruptedTurn: when its session ends, a message that was sent into an
// interrupted turn ends too.
func TestSteersOfAnInterruptedTurn(t *testing.T) {
	for name, ends := range map[string]func(t *testing.T, r *enginetest.Rig, id parley.SessionID){
		"end": end,
		"expire": func(t *testing.T, r *enginetest.Rig, _ parley.SessionID) {
			time.Sleep(3 * time.Hour)
			if done, err := r.Engine.Sweep(ctx, parley.System()); err != nil || done.Expired != 1 {
				t.Fatalf("got %+v, %v", done, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &held{gate: make(chan struct{})}
				app := enginetest.App(queued, func(a *parley.App) { a.TTL.SessionIdle = parley.Duration(time.Hour) })
				over := func(o *engine.Options) { o.SweepEvery = 100 * time.Hour }
				r := enginetest.New(t, h.model, app, over)
				id := r.Session().ID
				r.Send(id, "long one")
				synctest.Wait()
				say(t, r, id, "two", parley.BusySteer)
				disk := r.Mem.Clone()
				r.Kill()
				r = enginetest.Over(t, disk, r.Service, h.model, app, over)
				defer r.Close()
				recovered(t, r)
				ends(t, r, id)
				pending(t, r, 0)
				log := r.Log(id)
				if err := enginetest.CheckLog(log); err != nil || !strings.HasSuffix(enginetest.Types(log), "session.ended\n") {
					t.Errorf("%v\n%s", err, enginetest.Types(log))
				}
			})
		})
	}
}

// TestAwaitOfAResumption: a caller that awaits a turn which is about to be resumed automatically
// waits for its end.
func TestAwaitOfAResumption(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		r := enginetest.New(t, h.model, app)
		one := r.Send(r.Session().ID, "long one")
		for range 2 { // the second resumption comes after a pause
			synctest.Wait()
			disk := r.Mem.Clone()
			r.Kill()
			r = enginetest.Over(t, disk, r.Service, h.model, app)
			recovered(t, r)
		}
		defer r.Close()
		close(h.gate)
		if got, err := r.Engine.Await(ctx, enginetest.User, one.ID, time.Minute); err != nil || got.Status != parley.StatusCompleted {
			t.Errorf("the turn is %s, %v", got.Status, err)
		}
	})
}

// TestRetryOfATurnAboutToBeResumed: a turn that goes on by itself after a crash cannot be asked
// again, as if it were running.
func TestRetryOfATurnAboutToBeResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{})}
		app := enginetest.App(queued, func(a *parley.App) { a.Resume = parley.ResumeAuto })
		r := enginetest.New(t, h.model, app)
		id := r.Session().ID
		one := r.Send(id, "long one")
		synctest.Wait()
		r = crash(t, r, h.model, app)
		defer r.Close()
		close(h.gate)
		if _, err := r.Engine.Retry(ctx, enginetest.User, one.ID, "", ""); code(err) != parley.CodeConflict {
			t.Errorf("got %v", err)
		}
		recovered(t, r)
		time.Sleep(time.Minute)
		wants(t, r, id, "long one: completed")
	})
}
