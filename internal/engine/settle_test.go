package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// replies is a service that answers whether a mail was made, depending on the time at which it is
// asked.
type replies struct {
	*enginetest.Service
	known  func(since time.Duration) (yes, known bool)
	asked  *int
	starts time.Time
}

func (p replies) Reconcile(context.Context, seam.Run) (parley.ToolResult, bool, error) {
	*p.asked++
	yes, known := p.known(time.Since(p.starts))
	if yes {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "mailed"}, known, nil
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: "it was never mailed"}, known, nil
}

// TestSettleWaits: the next owner treats a write started by the last owner as running until its
// deadline (here 10 s) and 5 s more. Only a yes ends the wait earlier.
func TestSettleWaits(t *testing.T) {
	t.Parallel()
	const all = 15 * time.Second
	never := func(time.Duration) (bool, bool) { return false, false }
	for name, tc := range map[string]struct {
		known  func(since time.Duration) (yes, known bool) // nil: the service cannot be asked
		budget time.Duration
		cancel bool // after 2 s
		close  bool // the second owner stops after 2 s, and a third goes on
		late   time.Duration
		want   string
		status parley.TurnStatus
		after  time.Duration // how long after its start the write ends
		asked  int
	}{
		"cannot be asked":    {want: "mail unknown", after: all},
		"does not know":      {known: never, want: "mail unknown", after: all, asked: 2},
		"says yes":           {known: func(time.Duration) (bool, bool) { return true, true }, want: "mail ok", after: time.Second, asked: 1},
		"says no":            {known: func(time.Duration) (bool, bool) { return false, true }, want: "mail error", after: all, asked: 2},
		"says no, then yes":  {known: func(d time.Duration) (bool, bool) { return d > 5*time.Second, true }, want: "mail ok", after: all, asked: 2},
		"resumed much later": {known: never, late: time.Hour, want: "mail unknown", after: time.Hour + time.Second, asked: 1},
		"stopped meanwhile":  {cancel: true, want: "mail unknown", status: parley.StatusCancelled, after: all},
		"out of time":        {budget: 3 * time.Second, want: "mail unknown", status: parley.StatusFailed, after: all},
		"once more a crash":  {close: true, want: "mail unknown", after: all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) {
					a.Policy.Unattended, a.Budgets.MaxDurationMS = true, tc.budget.Milliseconds()
				})
				first := enginetest.New(t, mailer("mail"), app)
				hang := make(chan struct{})
				first.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				s := first.Session()
				turn := first.Send(s.ID, "go")
				synctest.Wait()
				began, asked := time.Now(), 0
				disk := first.Dies(hang)
				time.Sleep(time.Second + tc.late)

				again := func() *enginetest.Rig {
					r := enginetest.Over(t, disk, first.Service, mailer("mail"), app, func(o *engine.Options) {
						if tc.known == nil {
							return
						}
						enginetest.With(replies{first.Service, tc.known, &asked, began})(o)
					})
					if _, err := r.Engine.Recover(ctx); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					now := time.Now()
					if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
					if time.Since(now) > time.Second {
						t.Errorf("the resuming caller waits for %s", time.Since(now))
					}
					return r
				}
				r := again()
				if tc.close {
					time.Sleep(2 * time.Second)
					now := time.Now()
					r.Close()
					if time.Since(now) > time.Second {
						t.Errorf("stopping the server takes %s", time.Since(now))
					}
					r = again()
				}
				defer r.Close()
				if tc.cancel {
					time.Sleep(2 * time.Second)
					if got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil || !got.Stopping {
						t.Errorf("%+v, %v", got, err)
					}
				}
				// Meanwhile the session accepts commands.
				if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Title: new(string)}); err != nil {
					t.Error(err)
				}
				want := tc.status
				if want == "" {
					want = parley.StatusCompleted
				}
				got := r.Await(turn.ID)
				if got.Status != want || want == parley.StatusFailed && got.Error.Code != "budget_duration" {
					t.Errorf("the turn is %s: %v", got.Status, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != tc.want {
					t.Errorf("got %v", got)
				}
				for _, ev := range log {
					if took := ev.Time.Sub(began); ev.Type == "tool.ended" && took.Round(100*time.Millisecond) != tc.after {
						t.Errorf("it ended %s after its start, want %s", took, tc.after)
					}
				}
				if asked != tc.asked {
					t.Errorf("its service was asked %d times, want %d", asked, tc.asked)
				}
				if _, _, mails := r.Service.Counts(); mails != 1 {
					t.Errorf("it was mailed %d times", mails)
				}
			})
		})
	}
}

// resident is a service whose calls run inside the process.
type resident struct {
	*enginetest.Service
	over func(parley.CallID) bool
}

func (l resident) Over(_ string, call parley.CallID) bool { return l.over(call) }

// TestSettleOver: a write that ran inside a process that is dead is not waited for. It is waited
// for if another process may be alive over the same store. It is also waited for if the call still
// runs in this process, whose first engine has only lost the session.
func TestSettleOver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		alone, runs bool
		after       time.Duration
	}{
		"its process is dead":     {alone: true, after: 0},
		"its process may live":    {after: 15 * time.Second},
		"it runs in this one":     {alone: true, runs: true, after: 15 * time.Second},
		"it runs, and others may": {runs: true, after: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				first := enginetest.New(t, mailer("mail"), app)
				hang := make(chan struct{})
				first.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				s := first.Session()
				turn := first.Send(s.ID, "go")
				synctest.Wait()
				began := time.Now()
				next := enginetest.Over(t, first.Mem.Clone(), first.Service, mailer("mail"), app, func(o *engine.Options) {
					o.Alone = tc.alone
					enginetest.With(resident{first.Service, func(parley.CallID) bool { return !tc.runs }})(o)
				})
				defer next.Close()
				if _, err := next.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if _, err := next.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
					t.Fatal(err)
				}
				next.Await(turn.ID)
				log := next.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != "mail unknown" {
					t.Errorf("got %v", got)
				}
				for _, ev := range log {
					if took := ev.Time.Sub(began); ev.Type == "tool.ended" && took.Round(100*time.Millisecond) != tc.after {
						t.Errorf("it ended %s after its start, want %s", took, tc.after)
					}
				}
				close(hang)
				first.Kill()
				synctest.Wait()
				if _, _, mails := first.Service.Counts(); mails != 1 {
					t.Errorf("it was mailed %d times", mails)
				}
			})
		})
	}
}
