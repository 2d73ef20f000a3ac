package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func auto(a *parley.App) { a.Resume = parley.ResumeAuto }

// promises returns what the log of a session says about whether its turn continues: "resumes" or
// "stays" for each interruption, and "resumed".
func promises(log []parley.Event) (all []string, reason string) {
	for _, e := range log {
		p, err := e.Payload()
		if err != nil {
			continue // CheckLog reports it
		}
		switch p := p.(type) {
		case parley.TurnInterrupted:
			reason = p.Reason
			all = append(all, map[bool]string{true: "resumes", false: "stays"}[p.Resumes])
		case parley.TurnResumed:
			all = append(all, "resumed")
		}
	}
	return all, reason
}

// TestInterruptionSaysWhetherItGoesOn: turn.interrupted says what recovery is about to do. If
// that changes later, another turn.interrupted says so, and the turn's row agrees.
func TestInterruptionSaysWhetherItGoesOn(t *testing.T) {
	manual := func(a *parley.App) { a.Resume = parley.ResumeManual }
	other := func(a *parley.App) { a.Name = "other" }
	for name, tc := range map[string]struct {
		then   []func(*parley.App) // the app after each crash
		disk   func(*mem.Store)    // faults of the store at the last start
		lost   bool                // the version of the app that the turn began with is lost
		want   []string
		reason string
	}{
		"auto":          {then: []func(*parley.App){auto}, want: []string{"resumes", "resumed"}},
		"manual":        {then: []func(*parley.App){manual}, want: []string{"stays"}, reason: "the server stopped while the turn was running"},
		"off":           {then: []func(*parley.App){other}, want: []string{"stays"}, reason: "there is no app"},
		"used up":       {then: []func(*parley.App){auto, auto, auto}, want: []string{"resumes", "resumed", "resumes", "resumed", "stays"}, reason: "twice without getting any further"},
		"app gone":      {then: []func(*parley.App){auto}, lost: true, want: []string{"resumes", "stays"}, reason: "it could not be resumed: "},
		"never kept":    {then: []func(*parley.App){auto}, disk: func(m *mem.Store) { m.SetFaults(refuses(new(int), "Append", "turn.resumed")) }, want: []string{"resumes", "stays"}, reason: "it is too large"},
		"now manual":    {then: []func(*parley.App){auto, auto, manual}, want: []string{"resumes", "resumed", "resumes", "stays"}},
		"now off":       {then: []func(*parley.App){auto, auto, other}, want: []string{"resumes", "resumed", "resumes", "stays"}, reason: "there is no app"},
		"in recovery":   {then: []func(*parley.App){auto, auto, auto}, want: []string{"resumes", "resumed", "resumes", "resumed"}},
		"manual, later": {then: []func(*parley.App){manual, auto}, want: []string{"stays", "resumed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := &held{gate: make(chan struct{}), all: true}
				r := enginetest.New(t, h.model, enginetest.App(auto))
				id := r.Session().ID
				one := r.Send(id, "long one")
				synctest.Wait()
				inGap := strings.HasPrefix(name, "now") || name == "in recovery"
				for i, change := range tc.then {
					disk := r.Mem.Clone()
					r.Kill()
					synctest.Wait()
					store := seam.Store(disk)
					if tc.disk != nil {
						tc.disk(disk)
					}
					app := enginetest.App(change)
					if tc.lost {
						store, app.Title = lostBlobs{disk}, "Other"
					}
					r = enginetest.Over(t, store, r.Service, h.model, app)
					r.Mem = disk
					recovered(t, r)
					if inGap && i == 1 { // the second resumption comes after a pause
						if row, err := r.Store.Turn(ctx, enginetest.User, one.ID); err != nil || !row.Resumes || row.Status != parley.StatusInterrupted {
							t.Errorf("in the gap its row is %s, resumes: %t, %v", row.Status, row.Resumes, err)
						}
						continue
					}
					time.Sleep(10 * time.Second)
				}
				defer r.Close()
				log := r.Log(id)
				got, reason := promises(log)
				if diff := cmp.Diff(tc.want, got); diff != "" || !strings.Contains(reason, tc.reason) {
					t.Errorf("%s\n%q\n%s", diff, reason, enginetest.Types(log))
				}
				row, err := r.Engine.Turn(ctx, enginetest.User, one.ID)
				stays := tc.want[len(tc.want)-1] == "stays"
				if err != nil || row.Resumes || (row.Status == parley.StatusInterrupted) != stays || stays && row.Reason != reason {
					t.Errorf("the turn is %s, resumes: %t, %q, %v", row.Status, row.Resumes, row.Reason, err)
				}
				if stays {
					if got := r.Await(one.ID); got.Status != parley.StatusInterrupted || got.Resumes {
						t.Errorf("awaited, it is %s, resumes: %t", got.Status, got.Resumes)
					}
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestProgressIsNoCrashLoop: a turn that makes a new step before each crash survives more crashes
// than the limit for resumptions without progress.
func TestProgressIsNoCrashLoop(t *testing.T) {
	t.Parallel()
	const crashes = 10
	for _, tool := range []string{"look", "mail"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				steps := 1 // the number of replies before the model hangs
				model := func(ctx context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
					done := len(enginetest.Results(r))
					if done > crashes {
						return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "done"}}}, nil
					}
					if done >= steps {
						<-ctx.Done()
						return seam.Reply{}, ctx.Err()
					}
					return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, map[string]string{"text": fmt.Sprint("letter ", done)})}}, nil
				}
				app := enginetest.App(auto, func(a *parley.App) { a.Budgets.MaxSteps, a.Budgets.MaxDurationMS = 100, time.Hour.Milliseconds() })
				r := enginetest.New(t, model, app)
				id := r.Session().ID
				one := r.Send(id, "go")
				time.Sleep(time.Minute)
				for range crashes {
					r = crash(t, r, model, app)
					steps++
					recovered(t, r)
					time.Sleep(time.Minute)
				}
				defer r.Close()
				got := r.Await(one.ID)
				if got.Status != parley.StatusCompleted || got.Attempts != crashes {
					t.Fatalf("after %d resumptions the turn is %s: %s\n%s", got.Attempts, got.Status, got.Reason, enginetest.Types(r.Log(id)))
				}
				if err := enginetest.CheckLog(r.Log(id)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestAnAnswerIsProgress: a turn whose attempts are used up when a person says what became of its
// lost write is resumed again when the server stops after that, and not more often than before.
func TestAnAnswerIsProgress(t *testing.T) {
	t.Parallel()
	for _, choice := range []string{parley.ChoiceAgain, parley.ChoiceDidNot, parley.ChoiceLeave} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := func(ctx context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
					if len(enginetest.Results(r)) > 0 { // what was found out about the mail
						<-ctx.Done()
						return seam.Reply{}, ctx.Err()
					}
					return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": "hi"})}}, nil
				}
				app := enginetest.App(auto, func(a *parley.App) { a.Budgets.MaxDurationMS = time.Hour.Milliseconds() })
				r := enginetest.New(t, model, app)
				r.Service.SetGate(func(ctx context.Context, _ seam.Run) error {
					<-ctx.Done()
					return ctx.Err()
				})
				id := r.Session().ID
				one := r.Send(id, "go")
				time.Sleep(time.Second)
				stops := func(times int) {
					t.Helper()
					for range times {
						r = crash(t, r, model, app)
						recovered(t, r)
						time.Sleep(time.Second * 5 / 2) // it is resumed, and finds out what became of the mail
					}
				}
				stops(2)
				time.Sleep(time.Minute)
				open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
				if err != nil || len(open) != 1 || open[0].Kind != parley.KindUnknown {
					t.Fatalf("got %+v, %v", open, err)
				}
				if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				stops(3)
				defer func() { r.Close() }()
				got, reason := promises(r.Log(id))
				want := []string{"resumes", "resumed", "resumes", "resumed", "resumes", "resumed", "resumes", "resumed", "stays"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("interruptions (-want +got):\n%s", diff)
				}
				if !strings.Contains(reason, "resumed automatically twice") {
					t.Errorf("the reason is %q", reason)
				}
				if row, err := r.Store.Turn(ctx, enginetest.User, one.ID); err != nil || row.Status != parley.StatusInterrupted {
					t.Errorf("the turn is %s, %v", row.Status, err)
				}
				if err := enginetest.CheckLog(r.Log(id)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestBeforeItGoesOn: a user acts between the interruption of a turn and its automatic
// resumption, and then the server crashes again.
func TestBeforeItGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnID)
		want []string
		left int // queued turns
	}{
		"cancel": {func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnID) {
			if got, err := r.Engine.Cancel(ctx, enginetest.User, one, "enough"); err != nil || got.Status != parley.StatusCancelled || got.Resumes {
				t.Errorf("cancelled it is %s, resumes: %t, %v", got.Status, got.Resumes, err)
			}
		}, []string{"long one: cancelled"}, 1},
		"steer": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, one parley.TurnID) {
			if got := say(t, r, id, "and that", parley.BusySteer); got.ID != one {
				t.Errorf("the message became turn %s", got.ID)
			}
		}, []string{"long one: completed", "two: completed"}, 0},
		"queue": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnID) {
			say(t, r, id, "three", parley.BusyEnqueue)
			if info, err := r.Engine.Session(ctx, enginetest.User, id); err != nil || info.Held || len(info.Queue) != 2 {
				t.Errorf("the queue is %v, held: %t, %v", info.Queue, info.Held, err)
			}
		}, []string{"long one: completed", "two: completed", "three: completed"}, 0},
		"interrupt": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnID) {
			say(t, r, id, "now", parley.BusyInterrupt)
		}, []string{"long one: cancelled", "now: completed", "two: completed"}, 0},
		"resume": {func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnID) {
			if got, err := r.Engine.Resume(ctx, enginetest.User, one); err != nil || got.Status != parley.StatusRunning || got.Resumes {
				t.Errorf("resumed it is %s, resumes: %t, %v", got.Status, got.Resumes, err)
			}
		}, []string{"long one: completed", "two: completed"}, 0},
		"retry": {func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, one parley.TurnID) {
			if _, err := r.Engine.Retry(ctx, enginetest.User, one, "", ""); code(err) != parley.CodeConflict {
				t.Errorf("retried: %v", err)
			}
		}, []string{"long one: completed", "two: completed"}, 0},
		"fork": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnID) {
			fork, err := r.Engine.Fork(ctx, enginetest.User, id, parley.ForkSession{})
			if err != nil {
				t.Fatal(err)
			}
			wants(t, r, fork.ID, "long one: cancelled")
			rows, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: fork.ID})
			for _, row := range rows {
				if row.Resumes || !row.Status.Ended() {
					t.Errorf("in the fork %s is %s, resumes: %t", row.Message, row.Status, row.Resumes)
				}
			}
			if err != nil {
				t.Error(err)
			}
		}, []string{"long one: completed", "two: completed"}, 0},
		"end": {func(t *testing.T, r *enginetest.Rig, id parley.SessionID, _ parley.TurnID) {
			end(t, r, id)
		}, []string{"long one: cancelled"}, 0},
		"nothing": {func(*testing.T, *enginetest.Rig, parley.SessionID, parley.TurnID) {}, []string{"long one: completed", "two: completed"}, 0},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, again: %t", name, again), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					h := &held{gate: make(chan struct{}), all: true}
					app := enginetest.App(queued, auto)
					r := enginetest.New(t, h.model, app)
					id := r.Session().ID
					one := r.Send(id, "long one")
					synctest.Wait()
					say(t, r, id, "two", parley.BusyEnqueue)
					for range 2 { // the second time it is resumed after a pause
						r = crash(t, r, h.model, app)
						recovered(t, r)
						synctest.Wait()
					}
					awaited := make(chan parley.TurnInfo, 1)
					defer func() { r.Close() }()
					if !again {
						go func() { awaited <- r.Await(one.ID) }()
						synctest.Wait()
					}
					close(h.gate)
					tc.do(t, r, id, one.ID)
					if again {
						r = crash(t, r, h.model, app)
						recovered(t, r)
					}
					time.Sleep(time.Minute)
					wants(t, r, id, tc.want...)
					pending(t, r, tc.left)
					if !again {
						if got := <-awaited; !got.Status.Ended() {
							t.Errorf("the waiting caller gets the status %s", got.Status)
						}
					}
				})
			})
		}
	}
}

// TestResumedWithinItsTime: a resumption does not give back the time that a turn used before a
// crash. The pause before the resumption does not count.
func TestResumedWithinItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{}), all: true}
		app := enginetest.App(auto, func(a *parley.App) { a.Budgets.MaxDurationMS = 5000 })
		r := enginetest.New(t, h.model, app)
		id := r.Session().ID
		one := r.Send(id, "long one")
		for range 2 {
			time.Sleep(2 * time.Second)
			r = crash(t, r, h.model, app)
			time.Sleep(time.Hour)
			recovered(t, r)
		}
		defer r.Close()
		time.Sleep(2 * time.Second) // the pause before the resumption
		began := time.Now()
		got := r.Await(one.ID)
		if got.Status != parley.StatusFailed || got.Error.Code != "budget_duration" || time.Since(began) > 5*time.Second {
			t.Errorf("after %s it is %s: %+v", time.Since(began), got.Status, got.Error)
		}
		if got, _ := promises(r.Log(id)); !cmp.Equal(got, []string{"resumes", "resumed", "resumes", "resumed"}) {
			t.Errorf("%v", got)
		}
	})
}

// TestCrashWhileItWaits: a turn that waits for a person still waits for the same answer after
// each crash. This counts neither as an interruption nor as an attempt.
func TestCrashWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(asking, auto)
		r := enginetest.New(t, mailer("mail"), app)
		id := r.Session().ID
		one := r.Await(r.Send(id, "go").ID)
		for range 4 {
			r = crash(t, r, mailer("mail"), app)
			recovered(t, r)
			time.Sleep(time.Minute)
		}
		defer r.Close()
		got := r.Await(one.ID)
		if got.Status != parley.StatusWaiting || !cmp.Equal(got.Interactions, one.Interactions) || got.Attempts != 0 {
			t.Fatalf("it is %s after %d attempts, and asks %v", got.Status, got.Attempts, got.Interactions)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, got.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(one.ID); got.Status != parley.StatusCompleted {
			t.Errorf("it is %s: %+v", got.Status, got.Error)
		}
	})
}

// TestPromiseThatCannotBeTakenBack: the log says that a turn continues by itself, but it cannot,
// and the store refuses the event that says so. A caller that awaits the turn is told at once.
func TestPromiseThatCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &held{gate: make(chan struct{}), all: true}
		first := enginetest.New(t, h.model, enginetest.App(auto))
		id := first.Session().ID
		one := first.Send(id, "long one")
		synctest.Wait()
		disk := first.Mem.Clone()
		first.Kill()
		synctest.Wait()
		begun := false
		disk.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method == "Append" && begun {
				return parley.Errorf(parley.CodeTooLarge, "it is too large")
			}
			begun = begun || c.Method == "Append" // the append of turn.interrupted, which says that the turn continues
			return nil
		}})
		r := enginetest.Over(t, disk, first.Service, h.model, enginetest.App(auto))
		defer r.Close()
		recovered(t, r)
		synctest.Wait()
		if got, _ := promises(r.Log(id)); !cmp.Equal(got, []string{"resumes"}) {
			t.Fatalf("the log says %v", got)
		}
		if got := r.Await(one.ID); got.Status != parley.StatusInterrupted || got.Resumes {
			t.Errorf("awaited, it is %s, resumes: %t", got.Status, got.Resumes)
		}
	})
}
