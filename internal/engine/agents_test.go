package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/task"
)

// team changes an app so that its agent lead can give tasks to workers.
func team(a *parley.App) {
	a.Agents = map[string]parley.AgentDef{
		"lead":   {Name: "lead", Prompt: "Lead.", Tools: []string{"Task", "AgentOutputTool", "look"}},
		"worker": {Name: "worker", Prompt: "Work.", Tools: []string{"look", "mail", "worker"}, AsTool: true},
	}
	a.Tools = append(a.Tools, task.Decls(*a)...)
}

// give returns a call that gives a worker a task.
func give(prompt string, background bool) parley.Part {
	return enginetest.Call("Task", map[string]any{"description": prompt, "prompt": prompt, "subagent_type": "worker", "run_in_background": background})
}

// teamwork is the model of a team. As lead it gives each task of the message to a worker, and
// repeats what the workers return. As a worker it does what the first word of its task says.
func teamwork(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	results := enginetest.Results(r)
	if r.Agent == "worker" {
		prompt := strings.Fields(enginetest.Last(r))
		if len(results) > 0 {
			say(results[0])
			return seam.Reply{}, nil
		}
		switch prompt[0] {
		case "fail":
			return seam.Reply{}, parley.Errorf(parley.CodeModel, "cannot")
		case "pass":
			return seam.Reply{Parts: []parley.Part{enginetest.Call("worker", map[string]string{"prompt": strings.Join(prompt[1:], " ")})}}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call(prompt[0], map[string]string{"text": prompt[1]})}}, nil
	}
	if len(results) > 0 {
		say(strings.Join(results, ", "))
		return seam.Reply{}, nil
	}
	var parts []parley.Part
	for _, job := range strings.Split(enginetest.Last(r), "; ") {
		parts = append(parts, give(job, false))
	}
	return seam.Reply{Parts: parts}, nil
}

// TestAgentsCrashAtEveryPoint: sub-agents that work at once go on from their own steps after a
// crash at any point, and none of their writes happens twice.
func TestAgentsCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	ask := func(a *parley.App) {
		a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
	}
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, sc := range map[string]enginetest.Scenario{
		"reads":  {App: enginetest.App(team), Messages: []string{"look a; look b"}},
		"writes": {App: enginetest.App(team, auto), Messages: []string{"mail a; look b"}},
		"asked":  {App: enginetest.App(team, ask, auto), Messages: []string{"mail a; look b"}},
		"nested": {App: enginetest.App(team), Messages: []string{"pass look a; fail b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc.Model, sc.Sparse = always(teamwork), 3
			enginetest.CrashEverywhere(t, sc)
		})
	}
}

// gates is a model whose workers reply once their gate is open.
type gates struct {
	gate map[string]chan struct{} // by the task's last word
	at   chan string              // the workers that have begun
}

func (g *gates) model(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if r.Agent != "worker" || len(enginetest.Results(r)) > 0 {
		return teamwork(ctx, r, say)
	}
	words := strings.Fields(enginetest.Last(r))
	name := words[len(words)-1]
	g.at <- name
	select {
	case <-g.gate[name]:
		return teamwork(ctx, r, say)
	case <-ctx.Done():
		return seam.Reply{}, ctx.Err()
	}
}

func newGates(names ...string) *gates {
	g := &gates{gate: map[string]chan struct{}{}, at: make(chan string, 10)}
	for _, n := range names {
		g.gate[n] = make(chan struct{})
	}
	return g
}

// begun waits for n workers.
func (g *gates) begun(n int) {
	for range n {
		<-g.at
	}
}

// TestQuestionOfOneAgent: while one agent works, the question of another is on the session at once
// and names its agent. The answer lets that agent go on while the other still works.
func TestQuestionOfOneAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ask := func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}, {Verdict: parley.Allow, Effect: parley.EffectRead}}
		}
		g := newGates("a", "b")
		r := enginetest.New(t, g.model, enginetest.App(team, ask))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "mail a; look b")
		g.begun(2)
		close(g.gate["a"])
		synctest.Wait()
		open, err := r.Engine.Interactions(ctx, enginetest.User, 10)
		if err != nil || len(open) != 1 || open[0].Agent != "lead/worker" {
			t.Fatalf("got %+v, %v, want a question of lead/worker", open, err)
		}
		if st := stateOf(t, r, s.ID); st.Turn.Status != parley.StatusRunning {
			t.Errorf("the turn is %s while one of its agents works", st.Turn.Status)
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, open[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second) // what it staged is committed by then
		if a := stateOf(t, r, s.ID).Turn.Agent("lead/worker"); a.Outcome != parley.OutcomeOK {
			t.Errorf("got outcome %q, want an agent that went on after the answer:\n%s", a.Outcome, enginetest.Types(r.Log(s.ID)))
		}
		close(g.gate["b"])
		if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "mailed a, seen b" {
			t.Errorf("got %+v", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelGoesDown: a turn that is cancelled ends its sub-agents, and each of their calls.
func TestCancelGoesDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates("a", "b")
		r := enginetest.New(t, g.model, enginetest.App(team))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "pass look a; look b")
		g.begun(2)
		close(g.gate["a"])
		synctest.Wait()
		if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCancelled {
			t.Errorf("got %+v", got)
		}
		log := r.Log(s.ID)
		if err := enginetest.CheckLog(log); err != nil {
			t.Errorf("%v\n%s", err, enginetest.Types(log))
		}
	})
}

// TestSteerOfOneAgent: a message goes to the sub-agent that it names, and to no other.
func TestSteerOfOneAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates("a", "b")
		var heard sync.Map
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			for _, m := range r.Messages {
				for _, p := range m.Parts {
					if p.Text == "in short" {
						heard.Store(r.Agent+" "+enginetest.Last(seam.Request{Messages: r.Messages[:1]}), true)
						say("shortly")
						return seam.Reply{}, nil
					}
				}
			}
			return g.model(ctx, r, say)
		}
		r := enginetest.New(t, model, enginetest.App(team))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "look a; look b")
		g.begun(2)
		steer := parley.Send{Message: "in short", Busy: parley.BusySteer, Agent: "lead/worker#2"}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, steer); err != nil {
			t.Fatal(err)
		}
		steer.Agent = "lead/nobody"
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, steer); parley.CodeOf(err) != parley.CodeConflict {
			t.Errorf("got %v for an agent that is not at work, want a conflict", err)
		}
		close(g.gate["a"])
		close(g.gate["b"])
		if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "seen a, shortly" {
			t.Errorf("got %+v", got)
		}
		if _, ok := heard.Load("worker look b"); !ok {
			t.Error("the agent that was named did not hear it")
		}
	})
}

// TestPoolOfSiblings: sub-agents that work at once never reserve more in total than the turn may
// spend. An agent for which there is no room waits, and all finish.
func TestPoolOfSiblings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pool = 4000
		slow := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			<-time.After(time.Second) // so that they overlap
			return teamwork(ctx, r, say)
		}
		r := enginetest.New(t, slow, enginetest.App(team, func(a *parley.App) {
			a.Budgets = parley.Budgets{MaxTotalTokens: pool}
		}))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "look a; look b; look c; look d")
		if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "seen a, seen b, seen c, seen d" {
			t.Errorf("got %+v", got)
		}
		var fold parley.Session
		for _, e := range r.Log(s.ID) {
			if err := fold.Apply(e); err != nil {
				t.Fatal(err)
			}
			if fold.Turn == nil {
				continue
			}
			if n := fold.Turn.Spent.Usage.Add(fold.Turn.Reserved()).Tokens(); n > pool {
				t.Errorf("after event %d, %d tokens are spent or reserved of %d", e.Seq, n, pool)
			}
		}
	})
}

func stateOf(t *testing.T, r *enginetest.Rig, id parley.SessionID) parley.Session {
	t.Helper()
	s, err := r.Engine.State(ctx, enginetest.User, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
