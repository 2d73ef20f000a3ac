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

// TestTheSameKeyHearsTheSame sends a message twice with one key while the store is about to fail.
// Both callers get the store's error, and no turn is made.
func TestTheSameKeyHearsTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, enginetest.Echo, enginetest.App())
		defer r.Close()
		s := r.Session()
		gate := make(chan struct{})
		r.Mem.SetFaults(mem.Faults{Before: func(c mem.Call) error {
			if c.Method != "Append" {
				return nil
			}
			<-gate
			return parley.Errorf(parley.CodeUnavailable, "no room")
		}})
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", Key: "k"})
				errs <- err
			}()
		}
		synctest.Wait()
		close(gate)
		for range 2 {
			if err := <-errs; code(err) != parley.CodeUnavailable {
				t.Errorf("got %v", err)
			}
		}
		r.Mem.SetFaults(mem.Faults{})
		if n := len(r.Log(s.ID)); n != 1 {
			t.Errorf("%d events", n)
		}
	})
}

// TestOutsideIDLikeASecret: outside ids that redaction would make equal get separate sessions.
func TestOutsideIDLikeASecret(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		make := func(outside string) parley.SessionID {
			info, _, err := r.Engine.Create(ctx, enginetest.User, parley.CreateSession{App: "test", OutsideID: outside})
			if err != nil {
				t.Fatalf("%s: %v", outside, err)
			}
			return info.ID
		}
		one, two := "ghp_"+strings.Repeat("aB3d", 9), "ghp_"+strings.Repeat("xY7z", 9)
		a, b := make(one), make(two)
		if a == b || make(one) != a || make(two) != b {
			t.Error("two ids share a session, or one id has two")
		}
		if id, err := r.Engine.Alias(ctx, enginetest.User, "test", one); err != nil || id != a {
			t.Errorf("alias: %v, %v", id, err)
		}
		for _, e := range r.Log(a) {
			if strings.Contains(string(e.Data), one) {
				t.Error("the id is in the log")
			}
		}
		if make(strings.Repeat("🙂", 128)) == "" {
			t.Error("128 characters")
		}
	})
}

// TestRetryAsksTheSame: a retry has the limits and hints of the first turn.
func TestRetryAsksTheSame(t *testing.T) {
	rigged(t, mailer("look"), enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{
			Message: "go", Budgets: parley.Budgets{MaxSteps: 1}, Hints: map[string]any{"area": "x"}, NoTools: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		first := r.Await(turn.ID)
		again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		second := r.Await(again.ID)
		if first.Error == nil || second.Error == nil || first.Error.Code != "budget_steps" || second.Error.Code != "budget_steps" {
			t.Errorf("first %+v, then %+v", first.Error, second.Error)
		}
		var asked []parley.TurnRequest
		for _, e := range r.Log(s.ID) {
			if p, err := e.Payload(); err == nil {
				if st, ok := p.(parley.TurnStarted); ok {
					asked = append(asked, st.TurnRequest)
				}
			}
		}
		if len(asked) != 2 || !asked[1].NoTools || asked[1].Hints["area"] != "x" {
			t.Errorf("asked %+v", asked)
		}
		call, err := r.Engine.CallTool(ctx, enginetest.User, parley.CallTool{App: "test", Name: "look", Input: []byte(`{"text":"a"}`)})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(call.ID)
		repeated, err := r.Engine.Retry(ctx, enginetest.User, call.ID, "", "test")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(repeated.ID)
		if got, err := r.Engine.CallResult(ctx, enginetest.User, repeated.ID); err != nil || got.Output != "seen a" {
			t.Errorf("a direct call again: %+v, %v", got, err)
		}
	})
}

// TestForkOfAnEndedSession: the fork can be used. Rules and grants are not copied to it.
func TestForkOfAnEndedSession(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllowSession}}); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		if _, err := r.Engine.End(ctx, enginetest.User, s.ID, ""); err != nil {
			t.Fatal(err)
		}
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil || fork.Status != parley.Active {
			t.Fatalf("%+v, %v", fork, err)
		}
		if got := r.Await(r.Send(fork.ID, "again").ID); got.Status != parley.StatusWaiting {
			t.Errorf("the parent's rule allows a call in the fork: %+v", got)
		}
		copied, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID)})
		if err != nil || copied.Status != parley.Active {
			t.Fatalf("%+v, %v", copied, err)
		}
		if got := r.Await(r.Send(copied.ID, "again").ID); got.Status != parley.StatusWaiting {
			t.Errorf("the original's rule allows a call in the copy: %+v", got)
		}
	})
}

// TestInterruptedWrite: a write is under way when the server dies, and its turn is then ended in
// every possible way. The outcome of the write is unknown each time.
func TestInterruptedWrite(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(r *enginetest.Rig, s parley.SessionID, turn parley.TurnID){
		"superseded": func(r *enginetest.Rig, s parley.SessionID, _ parley.TurnID) {
			r.Service.SetGate(nil)
			r.Await(r.Send(s, "something else").ID)
		},
		"cancelled": func(r *enginetest.Rig, _ parley.SessionID, turn parley.TurnID) {
			if _, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil {
				r.T.Error(err)
			}
		},
		"the session ended": func(r *enginetest.Rig, s parley.SessionID, _ parley.TurnID) {
			if _, err := r.Engine.End(ctx, enginetest.User, s, ""); err != nil {
				r.T.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, mailer("mail"), enginetest.App())
				hang := make(chan struct{})
				r.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
				s := r.Session()
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				disk := r.Mem.Clone()
				close(hang)
				r.Kill()
				next := enginetest.Over(t, disk, r.Service, mailer("look"), enginetest.App())
				defer next.Close()
				if _, err := next.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := next.Await(turn.ID); got.Status != parley.StatusInterrupted {
					t.Fatalf("%+v", got)
				}
				end(next, s.ID, turn.ID)
				log := next.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != "mail unknown" {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

// TestStopAskedThenCrash cancels a turn while a write is under way, and then the server dies. The
// next start cancels the turn instead of leaving it to be resumed.
func TestStopAskedThenCrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App())
		hang := make(chan struct{})
		r.Service.SetGate(func(context.Context, seam.Run) error { <-hang; return nil })
		s := r.Session()
		turn := r.Send(s.ID, "go")
		synctest.Wait()
		if got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil || !got.Stopping {
			t.Fatalf("%+v, %v", got, err)
		}
		disk := r.Mem.Clone()
		close(hang)
		r.Kill()
		next := enginetest.Over(t, disk, r.Service, mailer("mail"), enginetest.App())
		defer next.Close()
		if _, err := next.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		if got := next.Await(turn.ID); got.Status != parley.StatusCancelled || got.Reason != "enough" {
			t.Errorf("got %+v", got)
		}
		if got := enginetest.Outcomes(next.Log(s.ID)); got[0] != "mail unknown" {
			t.Errorf("got %v", got)
		}
	})
}

// TestStoppedBetweenAgents cancels a turn while an agent is at work that does not give the answer.
// Its text is not taken as the answer.
func TestStoppedBetweenAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if r.Agent == "sum" {
				say("internal words")
				<-ctx.Done()
				return seam.Reply{}, ctx.Err()
			}
			return relay(ctx, r, say)
		}
		r := enginetest.New(t, model, threeAgents())
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "the question")
		time.Sleep(time.Second)
		if got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil || got.Response != nil {
			t.Errorf("got %+v, %+v, %v", got, got.Response, err)
		}
	})
}

// TestStateOfAnotherVersion: a stored fold of another version is ignored.
func TestStateOfAnotherVersion(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		r.Await(r.Send(s.ID, "one").ID)
		time.Sleep(time.Minute + time.Second) // until the session has left memory
		info, err := r.Store.Session(ctx, enginetest.User, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Store.Append(ctx, enginetest.User, seam.Batch{Session: s.ID, Epoch: 1, After: info.Version, Index: seam.Index{
			State: &seam.State{Seq: info.Version, Version: parley.FoldVersion - 1, Body: fmt.Appendf(nil, `{"id":%q,"seq":%d,"status":"ended"}`, s.ID, info.Version)},
		}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(r.Send(s.ID, "two").ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSettingsAreBounded(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		big := map[string]any{"x": strings.Repeat("x", 900<<10)}
		if err := createErr(r, parley.CreateSession{App: "test", Preferences: big}); code(err) != parley.CodeTooLarge {
			t.Errorf("preferences: %v", err)
		}
		s := r.Session()
		if _, err := r.Engine.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Preferences: big}); code(err) != parley.CodeTooLarge {
			t.Errorf("preferences: %v", err)
		}
		if err := sendErr(r, s.ID, parley.Send{Message: "x", Hints: big}); code(err) != parley.CodeTooLarge {
			t.Errorf("hints: %v", err)
		}
	})
}
