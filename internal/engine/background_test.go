package engine_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

var (
	taskID   = regexp.MustCompile(`agentId: (\S+)`)
	findings = regexp.MustCompile(`(seen|mailed) \w+|has ended: failed`)
)

// boss gives tasks to workers in the background. After "fetch" it asks for each result with
// AgentOutputTool, unless it was told that a worker waits for a person. After "tell" it waits to be
// told. It answers once it has all results.
func boss(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if r.Agent == "worker" {
		return teamwork(ctx, r, say)
	}
	how, jobs, _ := strings.Cut(r.Messages[0].Parts[0].Text, ": ")
	tasks, found, asks := []string{}, map[string]bool{}, false
	for _, m := range r.Messages[1:] {
		for _, p := range m.Parts {
			text := p.Text + string(p.Input)
			asks = asks || strings.Contains(text, "waiting for a person")
			for _, match := range taskID.FindAllStringSubmatch(text, -1) {
				tasks = append(tasks, match[1])
			}
			if p.Type != parley.PartToolCall {
				for _, what := range findings.FindAllString(text, -1) {
					found[what] = true
				}
			}
		}
	}
	var parts []parley.Part
	switch all := strings.Split(jobs, "; "); {
	case len(tasks) == 0:
		for _, job := range all {
			parts = append(parts, give(job, true))
		}
	case len(found) >= len(all):
		say(strings.Join(slices.Sorted(maps.Keys(found)), ", "))
	case how == "fetch" && !asks:
		for _, id := range tasks {
			parts = append(parts, enginetest.Call("AgentOutputTool", map[string]any{"agentId": id}))
		}
	default:
		say("waiting")
	}
	return seam.Reply{Parts: parts}, nil
}

// withoutFetching removes the calls of AgentOutputTool from outcomes: after a crash a worker may
// have ended before its result is asked for.
func withoutFetching(outcomes string) string {
	return regexp.MustCompile(`(?m)^AgentOutputTool ok\n`).ReplaceAllString(outcomes, "")
}

// TestBackgroundCrashAtEveryPoint: tasks in the background go on after a crash at any point, the
// agent that gave them gets their results, and no write happens twice. Two may ask a human at once.
func TestBackgroundCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	roomy := func(a *parley.App) { a.Budgets.MaxSteps = 24 } // each crash may repeat the calls of three agents
	for name, sc := range map[string]enginetest.Scenario{
		"told":            {App: enginetest.App(team, roomy), Messages: []string{"tell: look a; look b"}},
		"fetched":         {App: enginetest.App(team, auto, roomy), Messages: []string{"fetch: mail a; look b"}},
		"both ask":        {App: enginetest.App(team, asking, auto, roomy), Messages: []string{"tell: mail a; mail b"}},
		"ask and fetched": {App: enginetest.App(team, asking, roomy), Messages: []string{"fetch: mail a; mail b"}},
		"ask in front":    {App: enginetest.App(team, asking, auto, roomy), Messages: []string{"mail a; mail b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.Model, sc.Sparse, sc.Told = always(boss), 6, withoutFetching
			if name == "ask in front" {
				sc.Model = always(teamwork)
			}
			enginetest.CrashEverywhere(t, sc)
		})
	}
}

// TestBackground: an agent with tasks in the background may end its reply. It is told each result
// when there is one, and answers the user when it has them all.
func TestBackground(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"tell: look a; look b":       "seen a, seen b",
		"fetch: look a; look b":      "seen a, seen b",
		"tell: pass look a; fail it": "has ended: failed, seen a",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, boss, enginetest.App(team))
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, how)
				if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != want {
					t.Errorf("got %+v, want %q\n%s", got.Response, want, enginetest.Types(r.Log(s.ID)))
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPollsForAResult: an agent may ask again and again for a result that is not there yet. It is
// told that the task is running or waits for a person. The turn does not fail as if the model were
// going round in circles.
func TestPollsForAResult(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]parley.App{
		"is at work":         enginetest.App(team),
		"waits for a person": enginetest.App(team, asking),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGates("a")
				var said []string
				model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
					results := enginetest.Results(r)
					switch {
					case r.Agent == "worker":
						return g.model(ctx, r, say)
					case len(results) == 0 && len(r.Messages) == 1:
						return seam.Reply{Parts: []parley.Part{give("mail a", true)}}, nil
					case len(results) > 0 && len(results) < 6:
						if len(results) == 1 {
							g.begun(1)
							if len(app.Policy.Rules) > 0 && app.Policy.Rules[0].Verdict == parley.Ask {
								close(g.gate["a"])
								<-time.After(time.Second) // the worker asks
							}
						}
						return seam.Reply{Parts: []parley.Part{enginetest.Call("AgentOutputTool", map[string]any{"agentId": "lead/worker", "block": false})}}, nil
					case len(results) == 6:
						said = results[1:]
						select {
						case <-g.gate["a"]:
						default:
							close(g.gate["a"])
						}
					}
					say(strings.Join(findings.FindAllString(enginetest.Last(r), -1), " "))
					return seam.Reply{}, nil
				}
				r := enginetest.New(t, model, app)
				defer r.Close()
				s := r.Session()
				turn := r.Send(s.ID, "go")
				got := r.Await(turn.ID)
				if got.Status == parley.StatusWaiting {
					if _, err := r.Engine.Answer(ctx, enginetest.User, got.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
					got = r.Await(turn.ID)
				}
				if got.Response == nil || got.Response.Message != "mailed a" {
					t.Errorf("got %s %+v, %v", got.Status, got.Response, got.Error)
				}
				want := "status: running"
				if name == "waits for a person" {
					want = "status: waiting for a person's answer"
				}
				if len(said) != 5 || !strings.HasPrefix(said[4], want) {
					t.Errorf("got %q, want %q five times", said, want)
				}
			})
		})
	}
}

// TestFetchWaits: AgentOutputTool waits no longer than its call says, and returns as soon as the
// result is there.
func TestFetchWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates("a")
		begun := time.Now()
		var after []time.Duration
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			results := enginetest.Results(r)
			wait := []int{30, 200}
			switch {
			case r.Agent == "worker":
				return g.model(ctx, r, say)
			case len(results) == 0:
				return seam.Reply{Parts: []parley.Part{give("look a", true)}}, nil
			case len(results) <= len(wait):
				if after = append(after, time.Since(begun)); len(results) == 2 {
					time.AfterFunc(10*time.Second, func() { close(g.gate["a"]) })
				}
				return seam.Reply{Parts: []parley.Part{enginetest.Call("AgentOutputTool", map[string]any{"agentId": "lead/worker", "wait_up_to": wait[len(results)-1]})}}, nil
			}
			after = append(after, time.Since(begun))
			say(results[len(results)-1])
			return seam.Reply{}, nil
		}
		r := enginetest.New(t, model, enginetest.App(team))
		defer r.Close()
		got := r.Await(r.Send(r.Session().ID, "go").ID)
		if got.Response == nil || got.Response.Message != "status: completed\n\nseen a" {
			t.Errorf("got %+v", got)
		}
		for i, want := range []time.Duration{0, 30 * time.Second, 40 * time.Second} {
			if i >= len(after) || after[i].Round(time.Second) != want {
				t.Errorf("got steps after %v, want the %d. after %v", after, i+1, want)
			}
		}
	})
}
