package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// driven is a runtime that calls a function for each run and counts the runs.
type driven struct {
	run   func(ctx context.Context, h seam.Host) (seam.Ending, error)
	runs  atomic.Int32
	start func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)
}

func (d *driven) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	d.runs.Add(1)
	return d.run(ctx, h)
}

func (d *driven) Starts(start func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)) {
	d.start = start
}

func by(d *driven) func(*engine.Options) {
	return func(o *engine.Options) { o.Runtimes["driven"] = d }
}

// drivenApp has a tool edit, which the runtime runs and which needs permission.
func drivenApp(change ...func(*parley.App)) parley.App {
	return enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Runtime = "driven"
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Tools: []string{"edit", "read"}}}
		schema := json.RawMessage(`{"type":"object"}`)
		a.Tools = []parley.ToolDecl{
			{Name: "edit", InputSchema: schema, Effect: parley.EffectWrite, Run: parley.RunRuntime},
			{Name: "read", InputSchema: schema, Effect: parley.EffectRead, Run: parley.RunRuntime},
		}
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "edit"}}
	}}, change...)...)
}

// calls makes the turn's one model call, which asks for a tool, unless it was made already. It
// returns the tool call.
func calls(ctx context.Context, h seam.Host, tool string) (*parley.Tool, error) {
	if h.State().Turn.Tools.Len() == 0 {
		turn := h.Turn()
		call, use := h.NewCall(), h.NewCall()
		if err := h.Emit(ctx,
			parley.NewEvent(turn, "lead", parley.AgentStarted{Name: "lead"}), parley.NewEvent(turn, "lead", parley.ModelStarted{Call: call, Model: "m"}),
			parley.NewEvent(turn, "lead", parley.ModelReplied{Call: call, Model: "m", Parts: []parley.Part{{Type: parley.PartToolCall, Call: use, Name: tool, Input: []byte(`{}`)}}}),
		); err != nil {
			return nil, err
		}
	}
	for _, c := range h.State().Turn.Tools.All() {
		return c, nil
	}
	return nil, errors.New("no call")
}

// edits is a runtime's run that waits until it may call edit.
func edits(done *atomic.Int32) func(context.Context, seam.Host) (seam.Ending, error) {
	return func(ctx context.Context, h seam.Host) (seam.Ending, error) {
		c, err := calls(ctx, h, "edit")
		if err != nil {
			return seam.Ending{}, err
		}
		d, err := h.Begin(ctx, parley.ToolCall{Call: c.Call})
		for errors.Is(err, seam.ErrParked) {
			if err = h.Wait(ctx, c.Call); err == nil {
				d, err = h.Begin(ctx, parley.ToolCall{Call: c.Call})
			}
			if errors.Is(err, seam.ErrParked) && len(h.State().Interactions) > 0 {
				return seam.Ending{}, err
			}
		}
		if err != nil {
			return seam.Ending{}, err
		}
		said := string(d.Result.Outcome)
		if d.Run {
			done.Add(1)
			if err := h.End(ctx, parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeOK, Output: "edited"}); err != nil {
				return seam.Ending{}, err
			}
			said = "edited"
		}
		return seam.Ending{Response: parley.Response{Message: said}}, nil
	}
}

func open(t *testing.T, r *enginetest.Rig) parley.Interaction {
	t.Helper()
	list, err := r.Engine.Interactions(ctx, enginetest.User, 10)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d questions, %v", len(list), err)
	}
	return list[0].Interaction
}

func answer(t *testing.T, r *enginetest.Rig, choice string) {
	t.Helper()
	if _, err := r.Engine.Answer(ctx, enginetest.User, open(t, r).ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
		t.Fatal(err)
	}
}

// TestPatience: a run that waits for a human continues from where it waits, and the wait does not
// count as running time. It parks when nobody answers for a while, and when the server stops.
func TestPatience(t *testing.T) {
	t.Parallel()
	brief := func(a *parley.App) { a.Budgets.MaxDurationMS = 60_000 }
	for name, c := range map[string]struct {
		wait time.Duration
		stop bool
		runs int32
		does string
	}{
		"an answer comes soon": {wait: 4 * time.Minute, runs: 1, does: parley.ChoiceAllow},
		"a denial comes soon":  {wait: 4 * time.Minute, runs: 1, does: parley.ChoiceDeny},
		"an answer comes late": {wait: 6 * time.Minute, runs: 2, does: parley.ChoiceAllow},
		"the server stops":     {wait: time.Minute, stop: true, runs: 2, does: parley.ChoiceAllow},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var done atomic.Int32
				d := &driven{run: edits(&done)}
				r := enginetest.New(t, enginetest.Echo, drivenApp(brief), by(d))
				turn := r.Send(r.Session().ID, "go")
				synctest.Wait()
				time.Sleep(c.wait)
				if got := r.Await(turn.ID); got.Status != parley.StatusWaiting || got.Spent.RanMS != 0 {
					t.Errorf("it is %s, after %d ms", got.Status, got.Spent.RanMS)
				}
				if c.stop {
					before := time.Now()
					r.Close()
					if took := time.Since(before); took > time.Second {
						t.Errorf("the server took %s to stop", took)
					}
					r = enginetest.Over(t, r.Mem.Clone(), r.Service, enginetest.Echo, drivenApp(brief), by(d))
				}
				defer r.Close()
				answer(t, r, c.does)
				got := r.Await(turn.ID)
				want := map[string]string{parley.ChoiceAllow: "edited", parley.ChoiceDeny: "denied"}[c.does]
				if got.Status != parley.StatusCompleted || got.Response.Message != want || d.runs.Load() != c.runs {
					t.Errorf("%s %+v after %d runs", got.Status, got.Response, d.runs.Load())
				}
				if done.Load() > 1 {
					t.Errorf("edited %d times", done.Load())
				}
			})
		})
	}
}

// TestPatience_ends_with_the_turn: a run that waits ends with its turn. After an answer, the turn's
// time budget runs again.
func TestPatience_ends_with_the_turn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		d := &driven{run: edits(&done)}
		r := enginetest.New(t, enginetest.Echo, drivenApp(), by(d))
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		synctest.Wait()
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCancelled || done.Load() != 0 {
			t.Errorf("%s, edited %d times", got.Status, done.Load())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := &driven{}
		var done atomic.Int32
		waits := edits(&done)
		d.run = func(ctx context.Context, h seam.Host) (seam.Ending, error) {
			if _, err := waits(ctx, h); err != nil {
				return seam.Ending{}, err
			}
			<-ctx.Done()
			return seam.Ending{}, context.Cause(ctx)
		}
		r := enginetest.New(t, enginetest.Echo, drivenApp(func(a *parley.App) { a.Budgets.MaxDurationMS = 60_000 }), by(d))
		defer r.Close()
		turn := r.Send(r.Session().ID, "go")
		time.Sleep(4 * time.Minute)
		answer(t, r, parley.ChoiceAllow)
		time.Sleep(59 * time.Second)
		if got, err := r.Engine.Turn(ctx, enginetest.User, turn.ID); err != nil || got.Status != parley.StatusRunning {
			t.Fatalf("%s, %v", got.Status, err)
		}
		time.Sleep(2 * time.Second)
		if got := r.Await(turn.ID); got.Status != parley.StatusFailed || got.Error.Code != "budget_duration" {
			t.Errorf("%s %+v", got.Status, got.Error)
		}
	})
}

// TestWriteAsks: a call with effects asks and waits. Its timeout does not run meanwhile. When it
// cannot wait any longer, it gets a denial and ends by itself.
func TestWriteAsks(t *testing.T) {
	t.Parallel()
	question := parley.Interaction{Kind: parley.KindConfirmation, Key: "sure", Title: "Sure?", Choices: []string{parley.ChoiceAllow, parley.ChoiceDeny}}
	for name, c := range map[string]struct {
		then func(t *testing.T, r *enginetest.Rig, turn parley.TurnID)
		want string
	}{
		"answered": {func(t *testing.T, r *enginetest.Rig, _ parley.TurnID) {
			time.Sleep(4 * time.Minute) // far longer than the tool may take
			answer(t, r, parley.ChoiceAllow)
		}, "ok allow"},
		"nobody answers": {func(*testing.T, *enginetest.Rig, parley.TurnID) {
			time.Sleep(6 * time.Minute)
		}, "ok deny"},
		"stopped": {func(t *testing.T, r *enginetest.Rig, turn parley.TurnID) {
			if _, err := r.Engine.Cancel(ctx, enginetest.User, turn, ""); err != nil {
				t.Error(err)
			}
		}, "ok deny"},
		"declined with a message": {func(t *testing.T, r *enginetest.Rig, turn parley.TurnID) {
			row, err := r.Engine.Turn(ctx, enginetest.User, turn)
			if err == nil {
				_, err = r.Engine.Send(ctx, enginetest.User, row.SessionID, parley.Send{Message: "leave it", Busy: parley.BusySteer})
			}
			if err != nil {
				t.Error(err)
			}
		}, "ok deny"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				once := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					if len(r.Messages) > 1 {
						return enginetest.Echo(ctx, r, say)
					}
					return mailer("mail")(ctx, r, say)
				}
				r := enginetest.New(t, once, enginetest.App(func(a *parley.App) { a.Budgets.MaxDurationMS = 60_000 }))
				defer r.Close()
				said := make(chan string, 1)
				r.Service.SetGate(func(ctx context.Context, run seam.Run) error {
					a, err := run.Ask(ctx, question)
					if err != nil {
						t.Error(err)
					}
					said <- a.Choice
					return nil
				})
				s := r.Session()
				turn := r.Send(s.ID, "go")
				synctest.Wait()
				if got := r.Await(turn.ID); got.Status != parley.StatusWaiting {
					t.Fatalf("it is %s", got.Status)
				}
				c.then(t, r, turn.ID)
				synctest.Wait()
				r.Await(turn.ID)
				log := r.Log(s.ID)
				i := slices.IndexFunc(log, func(e parley.Event) bool { return e.Type == "tool.ended" })
				if i < 0 {
					t.Fatalf("the call has not ended\n%s", enginetest.Types(log))
				}
				p, err := log[i].Payload()
				if err != nil {
					t.Fatal(err)
				}
				if got := string(p.(parley.ToolEnded).Outcome) + " " + <-said; got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
				if _, _, mails := r.Service.Counts(); mails != 1 {
					t.Errorf("%d mails", mails)
				}
				if list, err := r.Engine.Interactions(ctx, enginetest.User, 10); err != nil || len(list) > 0 {
					t.Errorf("still open: %v, %v", list, err)
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestWriteAsksThroughACrash: when a call with effects is lost in a crash, its open question is
// closed, and its outcome is unknown.
func TestWriteAsksThroughACrash(t *testing.T) {
	t.Parallel()
	enginetest.CrashEverywhere(t, enginetest.Scenario{
		App: enginetest.App(func(a *parley.App) {
			a.Policy.Unattended = false
			a.Resume = parley.ResumeAuto
		}), Model: always(mailer("mail")), Messages: []string{"go"},
		World: func() enginetest.World { return &asksWorld{} },
	})
}

// asksWorld is a service whose mails ask before they are sent.
type asksWorld struct{ enginetest.Service }

func (w *asksWorld) Live(o *engine.Options, gate func() error) func() {
	box := enginetest.Box(&askingService{&w.Service})
	o.Tools["test"] = box
	w.SetGate(func(context.Context, seam.Run) error { return gate() })
	return func() {}
}

func (w *asksWorld) Effects() map[string]int {
	_, _, mails := w.Counts()
	return map[string]int{"mail": mails}
}

func (w *asksWorld) Close() {}

type askingService struct{ *enginetest.Service }

func (s *askingService) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	a, err := r.Ask(ctx, parley.Interaction{Kind: parley.KindConfirmation, Key: "sure", Title: "Sure?", Choices: []string{parley.ChoiceAllow, parley.ChoiceDeny}})
	switch {
	case err != nil:
		return parley.ToolResult{}, seam.NotSent(err)
	case a.Choice != parley.ChoiceAllow:
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: "not sure"}, nil
	}
	return s.Service.Run(ctx, r)
}

// TestRuntimeTools: the runtime's own tools are recorded like others. Policy decides about them, a
// large output is cut, and no person is offered to repeat a lost call.
func TestRuntimeTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &driven{run: func(ctx context.Context, h seam.Host) (seam.Ending, error) {
			c, err := calls(ctx, h, "edit")
			if err != nil {
				return seam.Ending{}, err
			}
			if c.Status == parley.ToolIsRequested {
				if _, err := h.Begin(ctx, parley.ToolCall{Call: c.Call}); err != nil {
					return seam.Ending{}, err
				}
				if err := h.End(ctx, parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeUnknown, Output: strings.Repeat("x", 100<<10)}); err != nil {
					return seam.Ending{}, err
				}
			}
			a, err := h.Ask(ctx, parley.Interaction{
				Agent: c.Agent, Kind: parley.KindUnknown, Call: c.Call, Tool: c.Name, Title: "Did it?",
				Choices: []string{parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave},
			})
			return seam.Ending{Response: parley.Response{Message: a.Choice}}, err
		}}
		r := enginetest.New(t, enginetest.Echo, drivenApp(func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow}} }), by(d))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		synctest.Wait()
		in := open(t, r)
		if slices.Contains(in.Choices, parley.ChoiceAgain) {
			t.Errorf("the choices are %v", in.Choices)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAgain}}); code(err) != parley.CodeInvalid {
			t.Errorf("do it again: %v", err)
		}
		answer(t, r, parley.ChoiceHappened)
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || got.Response.Message != parley.ChoiceHappened {
			t.Errorf("%s %+v", got.Status, got.Response)
		}
		list, err := r.Store.Artifacts(ctx, enginetest.User, s.ID)
		if err != nil || len(list) != 1 || list[0].Size != 100<<10 {
			t.Errorf("artifacts %+v, %v", list, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var done atomic.Int32
		d := &driven{run: edits(&done)}
		r := enginetest.New(t, enginetest.Echo, drivenApp(func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Deny, Tool: "edit", Reason: "not here"}}
		}), by(d))
		defer r.Close()
		if got := r.Await(r.Send(r.Session().ID, "go").ID); got.Response == nil || got.Response.Message != "denied" || done.Load() != 0 {
			t.Errorf("%+v, edited %d times", got.Response, done.Load())
		}
	})
}

// secretWorld is a service whose mails ask for a secret before they are sent.
type secretWorld struct{ asksWorld }

func (w *secretWorld) Live(o *engine.Options, gate func() error) func() {
	o.Tools["test"] = enginetest.Box(&secretService{&w.Service})
	w.SetGate(func(context.Context, seam.Run) error { return gate() })
	return func() {}
}

type secretService struct{ *enginetest.Service }

func (s *secretService) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	a, err := r.Ask(ctx, parley.Interaction{
		Kind: parley.KindCredential, Key: "pin", Title: "Which PIN?", Credentials: []string{"PIN"}, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
	})
	switch {
	case err != nil:
		return parley.ToolResult{}, err
	case a.Choice != parley.ChoiceAnswered:
		return parley.ToolResult{Outcome: parley.OutcomeError, Output: "no PIN"}, nil
	case a.Secrets["PIN"] != canary:
		return parley.ToolResult{}, errors.New("another PIN")
	}
	res, err := s.Service.Run(ctx, r)
	res.Output += " with " + a.Secrets["PIN"]
	return res, err
}

// TestCallAsksForSecretThroughACrash: a call asks for a secret while it runs. The secret is in no
// event. If the process dies, a call asks for it again or is given up.
func TestCallAsksForSecretThroughACrash(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"mail", "look"} {
		enginetest.CrashEverywhere(t, enginetest.Scenario{
			App: enginetest.App(func(a *parley.App) {
				a.Policy.Unattended = false
				a.Resume = parley.ResumeAuto
			}), Model: always(mailer(tool)), Messages: []string{"go"}, Credentials: parley.Credentials{"PIN": canary},
			World: func() enginetest.World { return &secretWorld{} },
		})
	}
}

// TestCallAsksForSecret: the secret reaches the call and nothing else. A request for a secret
// without its name is the tool's mistake.
func TestCallAsksForSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		once := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(r.Messages) > 1 {
				return enginetest.Echo(ctx, r, say)
			}
			return mailer("mail")(ctx, r, say)
		}
		r := enginetest.New(t, once, enginetest.App())
		defer r.Close()
		got := make(chan string, 2)
		r.Service.SetGate(func(ctx context.Context, run seam.Run) error {
			_, err := run.Ask(ctx, parley.Interaction{Kind: parley.KindCredential, Title: "?"})
			got <- string(parley.CodeOf(err))
			a, err := run.Ask(ctx, parley.Interaction{
				Kind: parley.KindCredential, Key: "pin", Title: "Which PIN?", Credentials: []string{"PIN"}, Choices: []string{parley.ChoiceAnswered, parley.ChoiceDeny},
			})
			got <- a.Secrets["PIN"]
			return err
		})
		s := r.Session()
		turn := r.Send(s.ID, "go")
		synctest.Wait()
		in := open(t, r)
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAnswered}}); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("an answer without the value: %v", err)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{
			Answer: parley.Answer{Choice: parley.ChoiceAnswered}, Credentials: parley.Credentials{"PIN": canary},
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if end := r.Await(turn.ID); end.Status != parley.StatusCompleted {
			t.Errorf("it is %s", end.Status)
		}
		if code, secret := <-got, <-got; code != string(parley.CodeInvalid) || secret != canary {
			t.Errorf("without a name %s; the call got %q", code, secret)
		}
		for _, ev := range r.Log(s.ID) {
			if strings.Contains(string(ev.Data), canary) {
				t.Errorf("the secret is in %s", ev.Type)
			}
		}
	})
}
