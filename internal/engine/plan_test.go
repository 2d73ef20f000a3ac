package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/plan"
)

// planning lets the agents of an app plan. Writes are asked for, unless the mode says otherwise.
func planning(a *parley.App) {
	def := a.Agents["lead"]
	def.Tools = append(def.Tools, plan.Enter, plan.Exit)
	a.Agents["lead"] = def
	decls, err := plan.New().Tools(ctx)
	if err != nil {
		panic(err)
	}
	a.Tools = append(a.Tools, decls...)
	a.Policy.Rules = []parley.Rule{{Verdict: parley.Allow, Effect: parley.EffectRead}, {Verdict: parley.Allow, Tool: "mail"}}
}

// planner goes into plan mode, tries to write, plans until the plan is approved, and writes.
func planner(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	call := func(tool string, in map[string]any) (seam.Reply, error) {
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, in)}}, nil
	}
	results := enginetest.Results(r)
	last := ""
	if len(results) > 0 {
		last = results[len(results)-1]
	}
	switch {
	case last == "":
		return call(plan.Enter, map[string]any{})
	case len(results) == 1:
		return call("mail", map[string]any{"text": "too early"})
	case len(results) == 2, strings.Contains(last, "not approved") && len(results) < 5:
		return call(plan.Exit, map[string]any{"plan": "1. Mail it, version " + string(rune('0'+len(results)))})
	case strings.Contains(last, "has approved"):
		return call("mail", map[string]any{"text": "as planned"})
	}
	say(strings.Join(results, " | "))
	return seam.Reply{}, nil
}

func approve(label string) parley.Answer {
	return parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{"Carry out this plan?": label}}
}

// TestPlan: nothing is changed until the plan is approved; what the user says instead reaches the
// model; the answer chooses the mode.
func TestPlan(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []parley.Answer
		mode    parley.PermissionMode
		told    []string
	}{
		"approved":      {[]parley.Answer{approve("Yes")}, parley.ModeDefault, []string{"plan mode: nothing is changed", "not allowed", "has approved", "mailed as planned"}},
		"accept edits":  {[]parley.Answer{approve("Yes, and change files without asking")}, parley.ModeAcceptEdits, []string{"not allowed", "acceptEdits", "mailed as planned"}},
		"another plan":  {[]parley.Answer{approve("Write to Bob first"), approve("No, keep planning"), approve("Yes")}, parley.ModeDefault, []string{"The user said: Write to Bob first", "not approved the plan. The session stays", "mailed as planned"}},
		"declined":      {[]parley.Answer{{Choice: parley.ChoiceDeny, Text: "later"}, {Choice: parley.ChoiceDeny}, {Choice: parley.ChoiceDeny}}, parley.ModePlan, []string{"The user said: later"}},
		"not its words": {[]parley.Answer{approve("Yes, and ask nothing"), approve("yes"), approve("Yes")}, parley.ModeDefault, []string{"The user said: Yes, and ask nothing", "The user said: yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, planner, enginetest.App(planning), func(t *testing.T, r *enginetest.Rig) {
				s := r.Session()
				turn := r.Send(s.ID, "go")
				for n, a := range c.answers {
					got := r.Await(turn.ID)
					if got.Status != parley.StatusWaiting || len(got.Interactions) != 1 {
						t.Fatalf("got %+v %+v", got, got.Response)
					}
					in, err := r.Engine.Interaction(ctx, enginetest.User, got.Interactions[0])
					if err != nil || in.Kind != parley.KindQuestion || in.Tool != plan.Exit || !strings.HasPrefix(in.Text, "1. Mail it") {
						t.Fatalf("plan %d: %+v, %v", n, in, err)
					}
					if st, err := r.Engine.State(ctx, enginetest.User, s.ID); err != nil || st.Mode != parley.ModePlan {
						t.Errorf("while it is asked the mode is %q, %v", st.Mode, err)
					}
					if _, err := r.Engine.Answer(ctx, enginetest.User, in.ID, parley.AnswerInteraction{Answer: a}); err != nil {
						t.Fatal(err)
					}
				}
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted {
					t.Fatalf("got %+v", got)
				}
				for _, want := range c.told {
					if !strings.Contains(got.Response.Message, want) {
						t.Errorf("the model was not told %q: %s", want, got.Response.Message)
					}
				}
				st, err := r.Engine.State(ctx, enginetest.User, s.ID)
				if err != nil || st.Mode != c.mode {
					t.Errorf("the mode is %q, want %q, %v", st.Mode, c.mode, err)
				}
				if writes := strings.Count(got.Response.Message, "mailed"); writes > 1 || (writes == 1) != (c.mode != parley.ModePlan) {
					t.Errorf("%d writes: %s", writes, got.Response.Message)
				}
			})
		})
	}
}

// TestPlanModesOffered: a way out that the app or the session does not offer is not offered, and plan
// mode is not entered where it is none, or where nobody could be asked.
func TestPlanModesOffered(t *testing.T) {
	offers := func(modes ...parley.PermissionMode) parley.App {
		return enginetest.App(planning, func(a *parley.App) { a.Policy.Modes = modes })
	}
	t.Run("no acceptEdits", func(t *testing.T) {
		rigged(t, planner, offers(parley.ModePlan, parley.ModeBypassPermissions), func(t *testing.T, r *enginetest.Rig) {
			turn := r.Await(r.Send(r.Session().ID, "go").ID)
			in, err := r.Engine.Interaction(ctx, enginetest.User, turn.Interactions[0])
			if err != nil {
				t.Fatal(err)
			}
			var labels []string
			for _, o := range in.Questions[0].Options {
				labels = append(labels, o.Label)
			}
			if want := []string{"Yes", "Yes, and ask nothing", "No, keep planning"}; !slices.Equal(labels, want) {
				t.Errorf("offered are %q", labels)
			}
		})
	})
	once := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if res := enginetest.Results(r); len(res) > 0 {
			say(res[0])
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(plan.Enter, map[string]any{})}}, nil
	}
	t.Run("no plan", func(t *testing.T) {
		rigged(t, once, offers(parley.ModeAcceptEdits), func(t *testing.T, r *enginetest.Rig) {
			s := r.Session()
			if got := r.Await(r.Send(s.ID, "go").ID); !strings.Contains(got.Response.Message, "does not offer plan mode") {
				t.Errorf("got %+v", got.Response)
			}
			if st, _ := r.Engine.State(ctx, enginetest.User, s.ID); st.Mode == parley.ModePlan {
				t.Error("it is in plan mode")
			}
		})
	})
	var told []string
	lonely := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		for _, d := range r.Tools {
			told = append(told, d.Name)
		}
		say("alone")
		return seam.Reply{}, nil
	}
	t.Run("nobody to ask", func(t *testing.T) {
		rigged(t, lonely, enginetest.App(planning, func(a *parley.App) { a.Policy.Unattended = true }), func(t *testing.T, r *enginetest.Rig) {
			r.Await(r.Send(r.Session().ID, "go").ID)
			if slices.Contains(told, plan.Enter) || slices.Contains(told, plan.Exit) || len(told) == 0 {
				t.Errorf("where nobody can be asked, the model is told of %q", told)
			}
		})
	})
}

// TestPlanCrashAtEveryPoint: whenever the server dies, nothing is written before the approval, and one
// mail after it.
func TestPlanCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	enginetest.CrashEverywhere(t, enginetest.Scenario{
		App: enginetest.App(planning), Model: always(planner), Messages: []string{"go"}, Sparse: 2,
	})
}

// TestPlanAndCommands does each thing that can be done with a turn to a turn whose plan waits for
// approval.
func TestPlanAndCommands(t *testing.T) {
	t.Parallel()
	mode := func(r *enginetest.Rig, s parley.SessionID) parley.PermissionMode {
		r.T.Helper()
		st, err := r.Engine.State(ctx, enginetest.User, s)
		if err != nil {
			r.T.Fatal(err)
		}
		return st.Mode
	}
	set := func(r *enginetest.Rig, s parley.SessionID, m parley.PermissionMode) {
		r.T.Helper()
		if _, err := r.Engine.Update(ctx, enginetest.User, s, parley.UpdateSession{Mode: &m}); err != nil {
			r.T.Fatal(err)
		}
	}
	answer := func(r *enginetest.Rig, in parley.InteractionID, a parley.Answer) {
		r.T.Helper()
		if _, err := r.Engine.Answer(ctx, enginetest.User, in, parley.AnswerInteraction{Answer: a}); err != nil {
			r.T.Fatal(err)
		}
	}
	for name, do := range map[string]func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo){
		"steered: the text is what to change": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			if _, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "to Bob", Busy: parley.BusySteer}); err != nil {
				t.Fatal(err)
			}
			got := r.Await(turn.ID)
			if got.Status != parley.StatusWaiting || mode(r, s) != parley.ModePlan {
				t.Fatalf("got %+v in %s", got, mode(r, s))
			}
			answer(r, got.Interactions[0], approve("Yes"))
			if got := r.Await(turn.ID); !strings.Contains(got.Response.Message, "mailed as planned") || !slices.ContainsFunc(r.Log(s), func(e parley.Event) bool {
				return e.Type == parley.ToolEnded{}.EventType() && strings.Contains(string(e.Data), "has not approved the plan. The user said: to Bob")
			}) {
				t.Errorf("got %+v", got.Response)
			}
		},
		"cancelled: it stays in plan mode": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
				t.Fatal(err)
			}
			if got := r.Await(turn.ID); got.Status != parley.StatusCancelled || mode(r, s) != parley.ModePlan {
				t.Errorf("got %s in %s", got.Status, mode(r, s))
			}
		},
		"the mode is changed meanwhile: the answer still counts": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			set(r, s, parley.ModeAcceptEdits)
			answer(r, turn.Interactions[0], approve("Yes"))
			if got := r.Await(turn.ID); got.Status != parley.StatusCompleted || mode(r, s) != parley.ModeDefault {
				t.Errorf("got %+v in %s", got.Response, mode(r, s))
			}
		},
		"the mode is changed meanwhile, and the plan is declined: the mode stays": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			set(r, s, parley.ModeAcceptEdits)
			answer(r, turn.Interactions[0], parley.Answer{Choice: parley.ChoiceDeny})
			got := r.Await(turn.ID)
			if got.Status != parley.StatusCompleted || mode(r, s) != parley.ModeAcceptEdits || !strings.Contains(got.Response.Message, "not in plan mode") {
				t.Errorf("got %s %+v in %s", got.Status, got.Response, mode(r, s))
			}
		},
		"forked: the fork is in plan mode and asks nothing": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			f, err := r.Engine.Fork(ctx, enginetest.User, s, parley.ForkSession{})
			if err != nil || mode(r, f.ID) != parley.ModePlan {
				t.Fatalf("%v in %s", err, mode(r, f.ID))
			}
			if st, err := r.Engine.State(ctx, enginetest.User, f.ID); err != nil || len(st.Interactions) != 0 || st.Turn != nil {
				t.Errorf("%+v, %v", st.Interactions, err)
			}
			answer(r, turn.Interactions[0], approve("Yes"))
			r.Await(turn.ID)
			if mode(r, s) != parley.ModeDefault || mode(r, f.ID) != parley.ModePlan {
				t.Errorf("the modes are %s and %s", mode(r, s), mode(r, f.ID))
			}
			if err := enginetest.CheckLog(r.Log(f.ID)); err != nil {
				t.Error(err)
			}
		},
		"interrupted: the next message is planned, too": func(t *testing.T, r *enginetest.Rig, s parley.SessionID, turn parley.TurnInfo) {
			next, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "something else", Busy: parley.BusyInterrupt})
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Await(turn.ID); got.Status != parley.StatusCancelled {
				t.Errorf("the first is %s", got.Status)
			}
			if got := r.Await(next.ID); got.Status != parley.StatusWaiting || mode(r, s) != parley.ModePlan {
				t.Errorf("the next is %s in %s", got.Status, mode(r, s))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			rigged(t, planner, enginetest.App(planning), func(t *testing.T, r *enginetest.Rig) {
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "go").ID)
				if turn.Status != parley.StatusWaiting {
					t.Fatalf("got %+v", turn)
				}
				do(t, r, s.ID, turn)
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
