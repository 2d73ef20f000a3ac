package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/toolbox"
)

// TestWriteInFlight checks the outcome of a write whose turn is stopped, whose time is up or
// whose connection drops while it is under way.
func TestWriteInFlight(t *testing.T) {
	t.Parallel()
	unattended := enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
	for name, tc := range map[string]struct {
		gate   func(ctx context.Context) error
		stop   bool
		status parley.TurnStatus
		want   string
	}{
		"the connection drops":     {gate: func(context.Context) error { return errors.New("connection reset") }, status: parley.StatusCompleted, want: "mail unknown"},
		"its time is up":           {gate: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, status: parley.StatusCompleted, want: "mail unknown"},
		"stopped, then it answers": {gate: func(context.Context) error { time.Sleep(3 * time.Second); return nil }, stop: true, status: parley.StatusCancelled, want: "mail ok"},
		"stopped, and its time is up": {gate: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}, stop: true, status: parley.StatusCancelled, want: "mail unknown"},
		"it never left": {gate: func(context.Context) error { return seam.NotSent(errors.New("no route")) }, status: parley.StatusCompleted, want: "mail error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, mailer("mail"), unattended)
				defer r.Close()
				r.Service.SetGate(func(ctx context.Context, _ seam.Run) error { return tc.gate(ctx) })
				s := r.Session()
				turn := r.Send(s.ID, "go")
				if tc.stop {
					time.Sleep(time.Second)
					got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "stop")
					if err != nil || !got.Stopping || got.Status.Ended() {
						t.Errorf("while the write is under way: %+v, %v", got, err)
					}
				}
				if got := r.Await(turn.ID); got.Status != tc.status {
					t.Errorf("turn is %s: %v", got.Status, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); got[0] != tc.want {
					t.Errorf("got %v, want %s first", got, tc.want)
				}
			})
		})
	}
}

func TestUnknownIsPutBeforeTheHuman(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]struct {
		mails int
		text  string
	}{
		parley.ChoiceHappened: {1, "took effect"},
		parley.ChoiceDidNot:   {1, "took no effect"},
		parley.ChoiceLeave:    {1, "unknown"},
		parley.ChoiceAgain:    {2, "mailed hi"},
	} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, mailer("mail"), enginetest.App())
				defer r.Close()
				r.Service.SetGate(func(context.Context, seam.Run) error { return errors.New("connection reset") })
				s := r.Session()
				turn := r.Send(s.ID, "go")
				if got := r.Await(turn.ID); got.Status != parley.StatusWaiting || len(got.Interactions) != 1 {
					t.Fatalf("got %+v", got)
				}
				open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
				if err != nil || len(open) != 1 || open[0].Kind != parley.KindUnknown {
					t.Fatalf("got %+v, %v", open, err)
				}
				r.Service.SetGate(nil)
				if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice}}); err != nil {
					t.Fatal(err)
				}
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, want.text) {
					t.Errorf("got %+v, want %q in the answer", got.Response, want.text)
				}
				if _, _, mails := r.Service.Counts(); mails != want.mails {
					t.Errorf("%d mails", mails)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// letters is a service whose mails have a subject.
type letters struct{ *enginetest.Service }

func (l letters) Tools(ctx context.Context) ([]parley.ToolDecl, error) {
	decls, err := l.Service.Tools(ctx)
	decls = slices.Clone(decls)
	for i := range decls {
		decls[i].Subject = "{text}"
	}
	return decls, err
}

// TestUnknownNamesItsSubject: of two such questions in a list one can tell which is which, and
// nothing says that the call was sent, which nobody knows.
func TestUnknownNamesItsSubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &enginetest.Service{}
		service.SetGate(func(context.Context, seam.Run) error { return errors.New("connection reset") })
		post := letters{service}
		app := enginetest.App(func(a *parley.App) { a.Tools, _ = post.Tools(ctx) })
		r := enginetest.Over(t, mem.New(), service, mailer("mail"), app, enginetest.With(post))
		defer r.Close()
		r.Await(r.Send(r.Session().ID, "go").ID)
		open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
		if err != nil || len(open) != 1 {
			t.Fatalf("got %+v, %v", open, err)
		}
		if got, want := open[0].Title, "Did mail take effect: hi?"; got != want {
			t.Errorf("the title is %q, want %q", got, want)
		}
		if got := open[0].Text; strings.Contains(got, "was sent") || !strings.Contains(got, "connection reset") {
			t.Errorf("the text is %q", got)
		}
	})
}

// TestStartedSaysWhatItIsAbout: who reads the log need not guess what a call is about. What was taken
// out of the input is not in the subject either.
func TestStartedSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		effect parley.Effect
		text   string
		edited string
		want   string
	}{
		"a write":            {parley.EffectWrite, "hi", "", "hi"},
		"a read":             {parley.EffectRead, "hi", "", "hi"},
		"an edited write":    {parley.EffectWrite, "hi", "hello", "hello"},
		"a long one":         {parley.EffectWrite, strings.Repeat("hi ", 200), "", ""},
		"one with a secret":  {parley.EffectWrite, ownText, "", ""},
		"a secret edited in": {parley.EffectWrite, "hi", ownText, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &folder{t: t, effect: c.effect, own: true, subject: "{text}"}
				app := f.app(func(a *parley.App) {
					verdict := parley.Allow
					if c.edited != "" {
						verdict = parley.Ask
					}
					a.Policy.Rules = []parley.Rule{{Verdict: verdict, Tool: "write"}}
				})
				r := enginetest.New(t, writes(c.text, 1), app, f.in)
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if c.edited != "" {
					raw, err := json.Marshal(map[string]string{"text": c.edited})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := r.Engine.Answer(ctx, enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow, Input: raw}}); err != nil {
						t.Fatal(err)
					}
					r.Await(turn.ID)
				}
				var got []string
				for _, ev := range r.Log(s.ID) {
					if ev.Type == "tool.started" {
						var d parley.ToolStarted
						if err := json.Unmarshal(ev.Data, &d); err != nil {
							t.Fatal(err)
						}
						got = append(got, d.Subject)
					}
				}
				if want := []string{c.want}; !slices.Equal(got, want) || len(f.written()) != 1 {
					t.Errorf("the subjects are %q, want %q; %d files", got, want, len(f.written()))
				}
			})
		})
	}
}

func asking(a *parley.App) {
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}
}

func TestPermission(t *testing.T) {
	t.Parallel()
	type outcome struct {
		mails    int
		outcomes []string
	}
	for name, tc := range map[string]struct {
		answer parley.Answer
		want   outcome
	}{
		"allowed":             {parley.Answer{Choice: parley.ChoiceAllow}, outcome{1, []string{"mail ok", "completed: done: mailed hi"}}},
		"allowed and edited":  {parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(`{"text":"edited"}`)}, outcome{1, []string{"mail ok", "completed: done: "}}},
		"denied with a word":  {parley.Answer{Choice: parley.ChoiceDeny, Text: "too soon"}, outcome{0, []string{"mail denied", "completed: done: "}}},
		"allowed for session": {parley.Answer{Choice: parley.ChoiceAllowSession}, outcome{1, []string{"mail ok", "completed: done: mailed hi"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, mailer("mail"), enginetest.App(asking))
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "go")
				if got := r.Await(turn.ID); got.Status != parley.StatusWaiting {
					t.Fatalf("got %+v", got)
				}
				id := r.Await(turn.ID).Interactions[0]
				time.Sleep(time.Minute) // longer than sessions stay in memory
				answer := func(a parley.Answer) error {
					_, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: a})
					return err
				}
				if err := answer(parley.Answer{Choice: "perhaps"}); code(err) != parley.CodeInvalid {
					t.Errorf("a choice that is none: %v", err)
				} else if e, ok := errors.AsType[*parley.Error](err); !ok || e.Hint != "the choices are allow, allow_session, deny" {
					t.Errorf("the choices are not listed: %v", err)
				}
				if err := answer(parley.Answer{Choice: parley.ChoiceAllow, Input: []byte(`{"txt":1}`)}); code(err) != parley.CodeInvalid {
					t.Errorf("an edited input that does not fit: %v", err)
				}
				if err := answer(tc.answer); err != nil {
					t.Fatal(err)
				}
				if err := answer(tc.answer); err != nil {
					t.Errorf("the same answer again: %v", err)
				}
				if err := answer(parley.Answer{Choice: parley.ChoiceDeny}); code(err) != parley.CodeConflict {
					t.Errorf("another answer: %v", err)
				}
				r.Await(turn.ID)
				log := r.Log(s.ID)
				got := enginetest.Outcomes(log)
				_, _, mails := r.Service.Counts()
				if mails != tc.want.mails || len(got) != 2 || got[0] != tc.want.outcomes[0] || !strings.HasPrefix(got[1], tc.want.outcomes[1]) {
					t.Errorf("%d mails, %q, want %+v", mails, got, tc.want)
				}
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				second := r.Await(r.Send(s.ID, "again").ID)
				if asked := second.Status == parley.StatusWaiting; asked == (tc.answer.Choice == parley.ChoiceAllowSession) {
					t.Errorf("the next call of the session: %s", second.Status)
				}
			})
		})
	}
}

// described is a service whose tools say how safe they are.
type described struct {
	*enginetest.Service
	safety string
}

func (d described) Tools(ctx context.Context) ([]parley.ToolDecl, error) {
	list, err := d.Service.Tools(ctx)
	for i := range list {
		list[i].Safety = d.safety
	}
	return list, err
}

// TestGrantedForTheTool: a rule granted for a session is about the tool that the person was asked about. When
// the app has another one of its name, with other rights, the person is asked again.
func TestGrantedForTheTool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &enginetest.Service{}
		app := func(safety string) parley.App {
			return enginetest.App(asking, func(a *parley.App) {
				for i := range a.Tools {
					a.Tools[i].Safety = safety
				}
			})
		}
		with := func(safety string) func(*engine.Options) {
			return func(o *engine.Options) {
				box, err := toolbox.New([]seam.Toolset{described{service, safety}}, toolbox.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for name := range o.Tools {
					o.Tools[name] = box
				}
			}
		}
		store := mem.New()
		r := enginetest.Over(t, store, service, mailer("mail"), app("confined"), with("confined"))
		s := r.Session()
		turn := r.Await(r.Send(s.ID, "go").ID)
		if turn.Status != parley.StatusWaiting {
			t.Fatalf("got %+v", turn)
		}
		if _, err := r.Engine.Answer(t.Context(), enginetest.User, turn.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllowSession}}); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		r.Close()
		for _, c := range []struct {
			safety string
			asks   bool
		}{{"not confined", true}, {"confined", false}, {"", true}} {
			r := enginetest.Over(t, store, service, mailer("mail"), app(c.safety), with(c.safety))
			got := r.Await(r.Send(s.ID, "again").ID)
			if asks := got.Status == parley.StatusWaiting; asks != c.asks {
				t.Errorf("%q: the next call of the session: %s", c.safety, got.Status)
			}
			if _, err := r.Engine.Cancel(t.Context(), enginetest.User, got.ID, ""); err != nil {
				t.Error(err)
			}
			r.Close()
		}
	})
}

// TestNobodyAnswers lets the time to answer a question pass. The question is closed
// automatically, and the turn continues.
func TestNobodyAnswers(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "go")
		r.Await(turn.ID)
		time.Sleep(24*time.Hour + time.Minute)
		synctest.Wait()
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		if got := enginetest.Outcomes(r.Log(s.ID)); got[0] != "mail denied" {
			t.Errorf("got %v", got)
		}
	})
}

func TestAnswerAfterItsTime(t *testing.T) {
	never := func(o *engine.Options) { o.TendEvery = 1000 * time.Hour }
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := enginetest.New(t, mailer("mail"), enginetest.App(asking), never)
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "go")
		id := r.Await(turn.ID).Interactions[0]
		time.Sleep(25 * time.Hour)
		_, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}})
		if code(err) != parley.CodeConflict || !strings.Contains(err.Error(), "expired") {
			t.Errorf("got %v", err)
		}
		r.Await(turn.ID)
		if got := enginetest.Outcomes(r.Log(s.ID)); got[0] != "mail denied" {
			t.Errorf("got %v", got)
		}
	})
}

func TestMessageToAWaitingTurnDeclines(t *testing.T) {
	rigged(t, mailer("mail"), enginetest.App(asking), func(t *testing.T, r *enginetest.Rig) {
		s := r.Session()
		turn := r.Send(s.ID, "go")
		r.Await(turn.ID)
		same := say(t, r, s.ID, "no, wait until Friday", parley.BusySteer)
		if same.ID != turn.ID {
			t.Errorf("got another turn %s", same.ID)
		}
		r.Await(turn.ID)
		if got := enginetest.Outcomes(r.Log(s.ID)); got[0] != "mail denied" {
			t.Errorf("got %v", got)
		}
		if _, _, mails := r.Service.Counts(); mails != 0 {
			t.Errorf("%d mails", mails)
		}
	})
}

func TestPolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		app    func(*parley.App)
		create func(*parley.CreateSession)
		want   string
	}{
		"deny wins over allow": {func(a *parley.App) {
			a.Policy.Rules = append(a.Policy.Rules, parley.Rule{Verdict: parley.Deny, Tool: "ma*"})
		}, nil, "mail denied"},
		"a misspelt verdict bars": {func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: "alow"}} }, nil, "mail denied"},
		"unattended is not asked": {func(a *parley.App) { asking(a); a.Policy.Unattended = true }, nil, "mail denied"},
		"the caller may forbid": {nil, func(c *parley.CreateSession) {
			c.Policy = &parley.Policy{Rules: []parley.Rule{{Verdict: parley.Deny, Tool: "mail"}}}
		}, "mail denied"},
		"plan mode changes naught": {nil, func(c *parley.CreateSession) { c.Mode = parley.ModePlan }, "mail denied"},
		"bypass asks nobody":       {func(a *parley.App) { asking(a); a.Policy.Modes = []parley.PermissionMode{parley.ModeBypassPermissions} }, func(c *parley.CreateSession) { c.Mode = parley.ModeBypassPermissions }, "mail ok"},
		"not this agent's tool": {func(a *parley.App) {
			d := a.Agents["lead"]
			d.Tools = []string{"look"}
			a.Agents = map[string]parley.AgentDef{"lead": d}
		}, nil, "mail error"},
	} {
		t.Run(name, func(t *testing.T) {
			var change []func(*parley.App)
			if tc.app != nil {
				change = append(change, tc.app)
			}
			rigged(t, mailer("mail"), enginetest.App(change...), func(t *testing.T, r *enginetest.Rig) {
				var c []func(*parley.CreateSession)
				if tc.create != nil {
					c = append(c, tc.create)
				}
				s := r.Session(c...)
				r.Await(r.Send(s.ID, "go").ID)
				if got := enginetest.Outcomes(r.Log(s.ID)); len(got) == 0 || got[0] != tc.want {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}
