package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
)

func TestDurationBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one")
		r := enginetest.New(t, g.model, enginetest.App(func(a *parley.App) { a.Budgets.MaxDurationMS = 5000 }))
		defer r.Close()
		s := r.Session()
		began := time.Now()
		got := r.Await(r.Send(s.ID, "one").ID)
		if got.Status != parley.StatusFailed || got.Error.Code != "budget_duration" || got.Response.Message != "half of " || time.Since(began) != 5*time.Second {
			t.Errorf("after %s: %+v %+v", time.Since(began), got, got.Error)
		}
		if !strings.Contains(enginetest.Types(r.Log(s.ID)), "budget.reached") {
			t.Error("budget.reached is not in the log")
		}
	})
}

// TestWaitingDoesNotCount: a turn may wait for a human for longer than it may run.
func TestWaitingDoesNotCount(t *testing.T) {
	app := enginetest.App(asking, func(a *parley.App) { a.Budgets.MaxDurationMS = 5000 })
	rigged(t, mailer("mail"), app, func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		time.Sleep(time.Hour)
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || got.Spent.RanMS > 1000 {
			t.Errorf("got %+v, %v", got, got.Error)
		}
	})
}

// TestDowntimeDoesNotCount resumes a turn after the server was down for longer
// than the turn may run.
func TestDowntimeDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		app := enginetest.App(func(a *parley.App) { a.Budgets.MaxDurationMS = 5000 })
		g := newGated("one")
		r := enginetest.New(t, g.model, app)
		s := r.Session()
		turn := r.Send(s.ID, "one")
		time.Sleep(time.Second)
		disk := r.Mem.Clone()
		r.Kill()
		time.Sleep(time.Hour)
		close(g.open["one"])
		next := enginetest.Over(t, disk, r.Service, g.model, app)
		defer next.Close()
		if _, err := next.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
			t.Fatal(err)
		}
		got := next.Await(turn.ID)
		if got.Status != parley.StatusCompleted || got.Spent.RanMS > 2000 {
			t.Errorf("the turn is %s after %d ms: %+v", got.Status, got.Spent.RanMS, got.Error)
		}
	})
}

func TestStepBudget(t *testing.T) {
	forever := func(_ context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
		return seam.Reply{Parts: []parley.Part{
			{Type: parley.PartText, Text: "still looking"},
			enginetest.Call("look", map[string]string{"text": strings.Repeat("x", len(r.Messages))}),
		}}, nil
	}
	rigged(t, forever, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Budgets: parley.Budgets{MaxSteps: 3}})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Await(turn.ID)
		if got.Status != parley.StatusFailed || got.Error.Code != "budget_steps" || got.Spent.Steps != 3 || got.Response.Message != "still looking" {
			t.Errorf("got %+v, %+v", got, got.Error)
		}
	})
}

// TestNoRoom fills the disk at different moments. Commands are refused. A running turn ends when
// there is room again. The log that was there before is intact.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one")
		r := enginetest.New(t, g.model, enginetest.App())
		defer r.Close()
		s := r.Session()
		r.Await(r.Send(s.ID, "zero").ID)
		before := len(r.Log(s.ID))
		full := mem.Faults{Before: func(mem.Call) error {
			return parley.Errorf(parley.CodeUnavailable, "the disk is full").WithHint("free some space")
		}}
		r.Mem.SetFaults(full)
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x", Key: "k"}); code(err) != parley.CodeUnavailable {
			t.Errorf("a message without room: %v", err)
		}
		if err := r.Engine.Ready(ctx); err == nil {
			t.Error("ready without room")
		}
		synctest.Wait()
		if info, err := r.Engine.Session(ctx, enginetest.User, s.ID); err != nil || info.Turn != nil || len(r.Log(s.ID)) != before {
			t.Errorf("after a refused message: %+v, %v", info, err)
		}
		r.Mem.SetFaults(mem.Faults{})
		turn := r.Send(s.ID, "one")
		synctest.Wait()
		r.Mem.SetFaults(full)
		close(g.open["one"])
		time.Sleep(10 * time.Second)
		if got, err := r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || !got.Status.Open() {
			t.Errorf("without room the turn is %+v, %v", got, err)
		}
		r.Mem.SetFaults(mem.Faults{})
		if got := r.Await(turn.ID); !got.Status.Ended() {
			t.Errorf("got %+v", got)
		}
		if got := r.Await(r.Send(s.ID, "two").ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestIdleSessionsLeaveMemory looks at the memory that a waiting turn and an ended turn hold.
func TestIdleSessionsLeaveMemory(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		if n := r.Engine.InMemory(); n != 1 {
			t.Errorf("%d sessions in memory", n)
		}
		if _, err := r.Engine.Session(ctx, enginetest.User, "01JNOBODY"); code(err) != parley.CodeNotFound {
			t.Error(err)
		}
		_, _ = r.Engine.Send(ctx, enginetest.User, "01JNOBODY", parley.Send{Message: "x"})
		time.Sleep(time.Minute + time.Second)
		if n := r.Engine.InMemory(); n != 0 {
			t.Errorf("%d sessions in memory after a minute", n)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
	})
}

// TestStopAndStart stops the server in the middle of an answer and starts it again.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	for _, resume := range []parley.ResumeMode{parley.ResumeAuto, parley.ResumeManual} {
		t.Run(string(resume), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(func(a *parley.App) { a.Resume = resume })
				g := newGated("one")
				r := enginetest.New(t, g.model, app)
				s := r.Session()
				turn := r.Send(s.ID, "one")
				time.Sleep(time.Second)
				r.Close()
				if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "x"}); err == nil {
					t.Error("a stopped engine took a message")
				}
				close(g.open["one"])
				next := enginetest.Over(t, r.Mem.Clone(), r.Service, g.model, app)
				defer next.Close()
				done, err := next.Engine.Recover(ctx)
				if err != nil {
					t.Fatal(err)
				}
				<-done
				if resume == parley.ResumeManual {
					if got := next.Await(turn.ID); got.Status != parley.StatusInterrupted || got.Attempts != 0 {
						t.Errorf("got %+v", got)
					}
					if _, err := next.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if got := next.Await(turn.ID); got.Status != parley.StatusCompleted || got.Response.Message == "" || got.Attempts != 1 {
					t.Errorf("got %+v", got)
				}
				log := next.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				// The text that was streamed before the stop is kept.
				var kept string
				for _, e := range log {
					if p, err := e.Payload(); err == nil {
						if f, ok := p.(parley.ModelFailed); ok {
							kept = f.Partial
						}
					}
				}
				if kept != "half of " {
					t.Errorf("kept %q", kept)
				}
				if _, err := next.Engine.Resume(ctx, enginetest.User, turn.ID); code(err) != parley.CodeConflict {
					t.Errorf("resumed again: %v", err)
				}
			})
		})
	}
}

// TestCrashLoop: a turn is resumed automatically twice and then left alone, if what stops the
// server is a model call or a tool call, also when the model makes the call again each time.
func TestCrashLoop(t *testing.T) {
	calls := func(tools ...string) func(done int) []string {
		return func(done int) []string { return tools[done%len(tools):][:1] }
	}
	for name, tc := range map[string]struct {
		deadly string                  // "": the model
		asks   func(done int) []string // for which tools, after so many results
		late   bool                    // it is in the log when the server first dies
		twice  string                  // how the reason calls it
	}{
		"a model call":           {twice: "without getting any further"},
		"a read":                 {deadly: "look", asks: calls("look"), twice: "without getting any further"},
		"a read in the log":      {deadly: "look", late: true, asks: calls("look"), twice: "without getting any further"},
		"a keyed call":           {deadly: "put", asks: calls("put"), twice: "without getting any further"},
		"a write":                {deadly: "mail", asks: calls("mail"), twice: `after a call of "mail"`},
		"a write behind a read":  {deadly: "mail", asks: calls("look", "mail"), twice: `after a call of "mail"`},
		"a write beside a read":  {deadly: "mail", asks: func(int) []string { return []string{"look", "mail"} }, twice: `after a call of "mail"`},
		"a write behind a write": {deadly: "mail", asks: calls("put", "look", "mail"), twice: `after a call of "mail"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				app := enginetest.App(auto, func(a *parley.App) {
					a.Policy.Unattended = true
					a.Budgets.MaxSteps, a.Budgets.MaxToolCalls, a.Budgets.MaxDurationMS = 100, 100, time.Hour.Milliseconds()
				})
				var deaths atomic.Int64
				model := func(ctx context.Context, r seam.Request, _ func(string)) (seam.Reply, error) {
					if tc.deadly == "" {
						deaths.Add(1)
						<-ctx.Done()
						return seam.Reply{}, ctx.Err()
					}
					done := len(enginetest.Results(r))
					var parts []parley.Part
					for _, tool := range tc.asks(done) {
						parts = append(parts, enginetest.Call(tool, map[string]string{"text": fmt.Sprint("no ", done)}))
					}
					return seam.Reply{Parts: parts}, nil
				}
				r := enginetest.New(t, model, app)
				dead := make(chan struct{})
				r.Service.SetGate(func(_ context.Context, run seam.Run) error {
					if run.Name == tc.deadly {
						deaths.Add(1)
						<-dead
					}
					return nil
				})
				s := r.Session()
				turn := r.Send(s.ID, "boom")
				for i := range int64(8) {
					// The server dies at once, before it commits what is only staged.
					for began := time.Now(); deaths.Load() <= i && time.Since(began) < time.Minute; {
						time.Sleep(time.Millisecond)
						synctest.Wait()
					}
					if tc.late && i == 0 {
						time.Sleep(time.Second)
					}
					disk := r.Mem.Clone()
					r.Kill()
					close(dead)
					synctest.Wait()
					dead = make(chan struct{})
					r = enginetest.Over(t, disk, r.Service, model, app)
					recovered(t, r)
				}
				defer r.Close()
				lives := sync.OnceFunc(func() { close(dead) })
				defer lives()
				got := r.Await(turn.ID)
				if got.Status != parley.StatusInterrupted || deaths.Load() != 3 || got.Attempts != 2 || !strings.Contains(got.Reason, "twice") || !strings.Contains(got.Reason, tc.twice) {
					t.Errorf("%d deaths, %+v\n%s", deaths.Load(), got, enginetest.Types(r.Log(s.ID)))
				}
				if again, err := r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || again.Reason != got.Reason {
					t.Errorf("read again it is interrupted because %q, %v", again.Reason, err)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if _, last := promises(log); last != got.Reason {
					t.Errorf("the last interruption says: %q", last)
				}
				// A new message takes the turn's place.
				two, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "again", Budgets: parley.Budgets{MaxDurationMS: 100}})
				if err != nil {
					t.Fatal(err)
				}
				if got, _ := r.Engine.Turn(ctx, enginetest.User, turn.ID); got.Status != parley.StatusCancelled {
					t.Errorf("superseded, it is %s", got.Status)
				}
				lives()
				r.Await(two.ID)
			})
		})
	}
}

// unleased is a store that considers the engine over it gone, as if its lease had expired.
type unleased struct{ seam.Store }

func (unleased) Join(string) func() { return func() {} }

// TestFenced takes a session away from an engine that is running a turn in it.
func TestFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one")
		store := mem.New()
		r := enginetest.Over(t, unleased{store}, &enginetest.Service{}, g.model, enginetest.App())
		s := r.Session()
		turn := r.Send(s.ID, "one")
		synctest.Wait()
		other := enginetest.Over(t, store, r.Service, enginetest.Echo, enginetest.App())
		if got, err := other.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
			t.Fatalf("%+v, %v", got, err)
		}
		other.Await(turn.ID)
		close(g.open["one"])
		synctest.Wait()
		log := other.Log(s.ID)
		if err := enginetest.CheckLog(log); err != nil {
			t.Error(err)
		}
		if got := enginetest.Outcomes(log); len(got) != 1 || !strings.HasPrefix(got[0], "completed: you said") {
			t.Errorf("got %v", got)
		}
		other.Close()
		r.Close()
	})
}

// TestUpgradeRequired: a log that holds something newer is shown, but not driven.
func TestUpgradeRequired(t *testing.T) {
	rigged(t, enginetest.Echo, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		id := parley.SessionID("01JNEWER000000000000000000")
		created := parley.NewEvent("", "", parley.SessionCreated{App: "test", User: enginetest.User.User, Org: enginetest.User.Org})
		newer := parley.Event{Type: "grant.revoked", Data: []byte(`{"x":1}`)}
		events := []parley.Event{created, newer}
		for i := range events {
			events[i].Session, events[i].Seq, events[i].Time = id, int64(i+1), parley.Now(time.Now())
		}
		if err := r.Store.Append(ctx, enginetest.User, seam.Batch{Session: id, Create: true, Events: events, Index: seam.Index{Session: &parley.SessionInfo{
			ID: id, App: "test", User: enginetest.User.User, Org: enginetest.User.Org, Status: parley.Active, Version: 2,
		}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Session(ctx, enginetest.User, id); err != nil {
			t.Error(err)
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, id, parley.Send{Message: "x"}); code(err) != parley.CodeUpgradeRequired {
			t.Errorf("got %v", err)
		}
	})
}

// TestAppOfYesterday: a turn goes on with the prompt that it began with, but under today's
// prohibitions.
func TestAppOfYesterday(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var prompts []string
		model := func(m enginetest.Model) enginetest.Model {
			return func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
				prompts = append(prompts, r.System)
				return m(ctx, r, say)
			}
		}(mailer("mail"))
		old := enginetest.App(asking)
		r := enginetest.New(t, model, old)
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		disk := r.Mem.Clone()
		r.Close()
		today := enginetest.App(func(a *parley.App) {
			a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Another prompt.", Tools: []string{"mail"}}}
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Deny, Tool: "mail", Reason: "no more mail"}}
		})
		next := enginetest.Over(t, disk, r.Service, model, today)
		defer next.Close()
		if _, err := next.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		next.Await(turn.ID)
		if got := enginetest.Outcomes(next.Log(s.ID)); got[0] != "mail denied" {
			t.Errorf("got %v", got)
		}
		for _, p := range prompts {
			if strings.Contains(p, "Another") {
				t.Errorf("the turn went on with another prompt: %q", p)
			}
		}
	})
}

// TestPanic: when a runtime panics, its turn fails and the engine continues.
func TestPanic(t *testing.T) {
	var n atomic.Int32
	rigged(t, func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if n.Add(1) == 1 {
			panic("oh")
		}
		return enginetest.Echo(ctx, r, say)
	}, enginetest.App(), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "one").ID); got.Status != parley.StatusFailed {
			t.Errorf("got %+v", got)
		}
		if got := r.Await(r.Send(s.ID, "two").ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

func TestTooManyTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGated("one")
		r := enginetest.New(t, g.model, enginetest.App(), func(o *engine.Options) { o.MaxRunning = 1 })
		defer r.Close()
		a, b := r.Session(), r.Session()
		one := r.Send(a.ID, "one")
		_, err := r.Engine.Send(ctx, enginetest.User, b.ID, parley.Send{Message: "two"})
		if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeUnavailable || e.RetryAfter == 0 {
			t.Errorf("got %v", err)
		}
		close(g.open["one"])
		r.Await(one.ID)
		synctest.Wait()
		r.Await(r.Send(b.ID, "two").ID)
	})
}
