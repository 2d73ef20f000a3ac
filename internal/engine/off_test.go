package engine_test

import (
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/toolbox"
)

// TestAppOff: when a session's app is not served, every command that would continue the session
// is refused, and nothing of the session is lost.
func TestAppOff(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, first *enginetest.Rig) {
		done := first.Session()
		ended := first.Await(first.Send(done.ID, "go").ID)
		if _, err := first.Engine.Answer(ctx, enginetest.User, ended.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		ended = first.Await(ended.ID)
		s := first.Session()
		turn := first.Await(first.Send(s.ID, "go").ID)
		open := turn.Interactions[0]
		first.Close()
		before, beforeDone := first.Log(s.ID), first.Log(done.ID)

		off := enginetest.Over(t, first.Mem, first.Service, first.Model, enginetest.App(func(a *parley.App) { a.Name = "other" }))
		answer := func(a parley.Answer) error {
			_, err := off.Engine.Answer(ctx, enginetest.User, open, parley.AnswerInteraction{Answer: a})
			return err
		}
		plan := parley.ModePlan
		for name, do := range map[string]func() error{
			"answer":        func() error { return answer(parley.Answer{Choice: parley.ChoiceAllow}) },
			"allow_session": func() error { return answer(parley.Answer{Choice: parley.ChoiceAllowSession}) },
			"an edited input": func() error {
				return answer(parley.Answer{Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"text":"x"}`)})
			},
			"deny": func() error { return answer(parley.Answer{Choice: parley.ChoiceDeny}) },
			"send": func() error {
				_, err := off.Engine.Send(ctx, enginetest.User, done.ID, parley.Send{Message: "x"})
				return err
			},
			"steer": func() error {
				_, err := off.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", Busy: parley.BusySteer})
				return err
			},
			"retry": func() error {
				_, err := off.Engine.Retry(ctx, enginetest.User, ended.ID, "", "")
				return err
			},
			"fork": func() error {
				_, err := off.Engine.Fork(ctx, enginetest.User, done.ID, parley.ForkSession{})
				return err
			},
			"mode": func() error {
				_, err := off.Engine.Update(ctx, enginetest.User, done.ID, parley.UpdateSession{Mode: &plan})
				return err
			},
			"direct call": func() error {
				_, err := off.Engine.CallTool(ctx, enginetest.User, parley.CallTool{Session: done.ID, Name: "look", Input: json.RawMessage(`{"text":"a"}`)})
				return err
			},
		} {
			err := do()
			e, _ := errors.AsType[*parley.Error](err)
			if e == nil || e.Code != parley.CodeConflict || e.Field != "app" || e.Hint == "" {
				t.Errorf("%s: got %v", name, err)
			}
		}
		time.Sleep(48 * time.Hour) // the time to answer the question passes
		synctest.Wait()
		off.Close()
		if diff := cmp.Diff(enginetest.Types(before), enginetest.Types(off.Log(s.ID))); diff != "" {
			t.Errorf("the session that waits has changed:\n%s", diff)
		}
		if diff := cmp.Diff(enginetest.Types(beforeDone), enginetest.Types(off.Log(done.ID))); diff != "" {
			t.Errorf("the session at rest has changed:\n%s", diff)
		}

		on := enginetest.Over(t, first.Mem, first.Service, first.Model, enginetest.App(asking))
		defer on.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := on.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("with its app back, the turn is %s: %v", got.Status, got.Error)
		}
	})
}

// TestInterruptedWhileOff: an interrupted turn cannot be resumed without its app, and is not
// ended either.
func TestInterruptedWhileOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one")
		first := enginetest.New(t, g.model, enginetest.App())
		s := first.Session()
		turn := first.Send(s.ID, "one")
		disk := first.Mem.Clone()
		first.Kill()
		synctest.Wait()
		off := enginetest.Over(t, disk, first.Service, first.Model, enginetest.App(func(a *parley.App) { a.Name = "other" }))
		if _, err := off.Engine.Resume(ctx, enginetest.User, turn.ID); code(err) != parley.CodeConflict {
			t.Errorf("resume: %v", err)
		}
		if _, err := off.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "another"}); code(err) != parley.CodeConflict {
			t.Errorf("send: %v", err)
		}
		if got := off.Await(turn.ID); got.Status != parley.StatusInterrupted {
			t.Errorf("the turn is %s", got.Status)
		}
		off.Close()
		close(g.open["one"])
		on := enginetest.Over(t, disk, first.Service, first.Model, enginetest.App())
		defer on.Close()
		if _, err := on.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
			t.Fatal(err)
		}
		if got := on.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("resumed, the turn is %s: %v", got.Status, got.Error)
		}
	})
}

// TestGrantForAToolThatIsGone: a yes for the session grants nothing if the tool of the call is
// gone. In particular it does not grant everything.
func TestGrantForAToolThatIsGone(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, first *enginetest.Rig) {
		s := first.Session()
		turn := first.Await(first.Send(s.ID, "go").ID)
		first.Close()
		bare := func(o *engine.Options) { o.Tools = map[string]*toolbox.Box{} }
		r := enginetest.Over(t, first.Mem, first.Service, first.Model, enginetest.App(asking), bare)
		defer r.Close()
		if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{
			Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: json.RawMessage(`{"text":"x"}`)},
		}); code(err) != parley.CodeNotFound {
			t.Errorf("an edited input: %v", err)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllowSession}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("the turn is %s: %v", got.Status, got.Error)
		}
		if got := enginetest.Outcomes(r.Log(s.ID)); got[0] != "mail error" {
			t.Errorf("got %v", got)
		}
		if rules, err := r.Engine.Rules(ctx, enginetest.User, s.ID); err != nil || len(rules) != 0 {
			t.Errorf("rules %+v, %v", rules, err)
		}
	})
}
