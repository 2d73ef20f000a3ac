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
)

var errLost = errors.New("the connection broke")

// asks answers whether a mail was made, depending on the time since it was first asked.
type asks struct {
	*enginetest.Service
	says  func(since time.Duration) (yes, known bool, err error)
	asked int
	first time.Time
}

func (a *asks) Reconcile(context.Context, seam.Run) (parley.ToolResult, bool, error) {
	if a.asked++; a.asked == 1 {
		a.first = time.Now()
	}
	yes, known, err := a.says(time.Since(a.first))
	if yes {
		return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "mailed"}, known, err
	}
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: "it was never mailed"}, known, err
}

// TestAnswerOfAWriteIsLost: the server lives, and the answer to a write is lost. The service is
// asked about the outcome. The mail may be under way until its deadline (10 s) and 5 s more.
// Until then only a yes counts.
func TestAnswerOfAWriteIsLost(t *testing.T) {
	t.Parallel()
	const all = 15 * time.Second
	for name, tc := range map[string]struct {
		says  func(since time.Duration) (yes, known bool, err error) // nil: the service cannot be asked
		stop  bool                                                   // after 2 s a person stops the turn
		close bool                                                   // after 2 s the server stops, and another one continues
		want  string
		after time.Duration
		asked int
	}{
		"cannot be asked": {want: "mail unknown"},
		"does not know":   {says: func(time.Duration) (bool, bool, error) { return false, false, nil }, want: "mail unknown", asked: 1},
		"says yes":        {says: func(time.Duration) (bool, bool, error) { return true, true, nil }, want: "mail ok", asked: 1},
		"says no":         {says: func(time.Duration) (bool, bool, error) { return false, true, nil }, want: "mail error", after: all, asked: 12},
		"says yes later": {
			says: func(d time.Duration) (bool, bool, error) { return d > time.Second, true, nil },
			want: "mail ok", after: 1500 * time.Millisecond, asked: 5,
		},
		"answers later": {says: func(d time.Duration) (bool, bool, error) {
			if d < time.Second {
				return false, false, errLost
			}
			return true, true, nil
		}, want: "mail ok", after: 1500 * time.Millisecond, asked: 5},
		"never answers": {says: func(time.Duration) (bool, bool, error) { return false, false, errLost }, want: "mail unknown", after: all, asked: 12},
		"is stopped meanwhile": {
			says: func(d time.Duration) (bool, bool, error) { return d > 4*time.Second, true, nil },
			stop: true, want: "mail ok", after: 5100 * time.Millisecond, asked: 7,
		},
		"the server stops meanwhile": {
			says:  func(d time.Duration) (bool, bool, error) { return d > 4*time.Second, true, nil },
			close: true, want: "mail ok", after: all, asked: 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				service := &enginetest.Service{}
				service.SetGate(func(context.Context, seam.Run) error { return errLost })
				a := &asks{Service: service, says: tc.says}
				set := seam.Toolset(service)
				if tc.says != nil {
					set = a
				}
				r := enginetest.New(t, mailer("mail"), app, enginetest.With(set))
				s := r.Session()
				began := time.Now()
				turn := r.Send(s.ID, "go")
				if tc.stop || tc.close {
					time.Sleep(2 * time.Second)
				}
				want := parley.StatusCompleted
				if tc.stop {
					want = parley.StatusCancelled
					if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
						t.Fatal(err)
					}
				}
				if tc.close {
					r.Close()
					r = enginetest.Over(t, r.Mem, service, mailer("mail"), app, enginetest.With(set))
					if _, err := r.Engine.Recover(ctx); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
				}
				defer r.Close()
				if got := r.Await(turn.ID); got.Status != want {
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
				if a.asked != tc.asked {
					t.Errorf("its service was asked %d times, want %d", a.asked, tc.asked)
				}
				if _, _, mails := service.Counts(); mails != 1 {
					t.Errorf("it was mailed %d times", mails)
				}
			})
		})
	}
}

// TestAnswerOfAnIdempotentCallIsLost: the call is made again with its key, three times at most.
// It is not made again after the turn was stopped or when the key is too old.
func TestAnswerOfAnIdempotentCallIsLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lost int           // number of answers that are lost
		each time.Duration // duration of each call
		stop bool          // during the first call
		want string
		made int
	}{
		"once":               {lost: 1, want: "put ok", made: 2},
		"twice":              {lost: 2, want: "put ok", made: 3},
		"every time":         {lost: 9, want: "put unknown", made: 3},
		"stopped":            {lost: 9, each: time.Second, stop: true, want: "put unknown", made: 1},
		"the key is too old": {lost: 9, each: 5 * time.Second, want: "put unknown", made: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) {
					a.Policy.Unattended = true
					for i := range a.Tools {
						if a.Tools[i].Name == "put" {
							a.Tools[i].KeyTTL = parley.Duration(3 * time.Second)
						}
					}
				})
				keys, made := map[parley.CallID]bool{}, 0
				service := &enginetest.Service{}
				service.SetGate(func(_ context.Context, r seam.Run) error {
					keys[r.Call] = true
					made++
					time.Sleep(tc.each)
					if made <= tc.lost {
						return errLost
					}
					return nil
				})
				r := enginetest.New(t, mailer("put"), app, enginetest.With(service))
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "go")
				if tc.stop {
					synctest.Wait()
					if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
						t.Fatal(err)
					}
				}
				r.Await(turn.ID)
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != tc.want {
					t.Errorf("got %v", got)
				}
				if made != tc.made || len(keys) != 1 {
					t.Errorf("it was made %d times with %d keys, want %d", made, len(keys), tc.made)
				}
			})
		})
	}
}
