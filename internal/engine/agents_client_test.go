package engine_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// byClient makes clients run the app's tool of that name, with a timeout of 10 s.
func byClient(tool string) func(*parley.App) {
	return func(a *parley.App) {
		a.Tools = slices.Clone(a.Tools)
		i := slices.IndexFunc(a.Tools, func(d parley.ToolDecl) bool { return d.Name == tool })
		a.Tools[i].Run, a.Tools[i].Timeout = parley.RunClient, parley.Duration(10*time.Second)
	}
}

// offerOf returns the call of the agent at path that is offered to clients.
func offerOf(t *testing.T, r *enginetest.Rig, id parley.SessionID, path parley.AgentPath) seam.InteractionRow {
	t.Helper()
	row, err := r.Engine.Interaction(ctx, enginetest.User, question(t, r, id, path))
	if err != nil || row.Kind != parley.KindClient || row.Agent != path {
		t.Fatalf("%s: %+v, %v", path, row, err)
	}
	return row
}

// TestAgentsClientCrashAtEveryPoint: clients run the calls of sub-agents: of two that work at once,
// and of one that another sub-agent has started. After a crash at any point each agent gets the
// report of its own call.
func TestAgentsClientCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	auto := func(a *parley.App) { a.Resume = parley.ResumeAuto }
	for name, message := range map[string]string{"together": "mail a; look b", "nested": "pass mail a"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.CrashEverywhere(t, enginetest.Scenario{
				App: enginetest.App(team, auto, byClient("mail"), byClient("look")), Messages: []string{message},
				Model: always(teamwork), Sparse: 3,
				Client: func(s *enginetest.Service) *enginetest.Client { return &enginetest.Client{Service: s} },
			})
		})
	}
}

// TestClientOfSubAgents: two sub-agents each get the report of their own call, in either order.
// Whatever becomes of one call, the other agent goes on.
func TestClientOfSubAgents(t *testing.T) {
	t.Parallel()
	const one, two parley.AgentPath = "lead/worker", "lead/worker#2"
	take := func(t *testing.T, r *enginetest.Rig, in seam.InteractionRow) parley.Claimed {
		t.Helper()
		c, err := claim(r, in.ID, ownToken)
		if err != nil || c.Call != in.Call {
			t.Fatalf("%+v, %v", c, err)
		}
		return c
	}
	say := func(t *testing.T, r *enginetest.Rig, in seam.InteractionRow, output string) {
		t.Helper()
		if _, err := report(r, in.ID, ownToken, output); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second) // of fake time, for the model
	}
	for name, tc := range map[string]struct {
		play func(t *testing.T, r *enginetest.Rig, s parley.SessionID, a, b seam.InteractionRow)
		want []string // in the answer, in this order
	}{
		"the second reports first": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID, a, b seam.InteractionRow) {
			take(t, r, a)
			take(t, r, b)
			_, err := report(r, a.ID, ownToken+"x", "stolen")
			wantCode(t, "another token", err, parley.CodeForbidden)
			say(t, r, b, "client mailed b")
			if st := stateOf(t, r, s); st.Turn == nil || !st.Turn.Agent(two).Ended || st.Turn.Agent(one).Ended {
				t.Errorf("got %+v, want one agent at work", st.Turn)
			}
			say(t, r, a, "client mailed a")
		}, []string{"client mailed a", "client mailed b"}},
		"one is declined": {func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, a, b seam.InteractionRow) {
			answerAs(t, r, a.ID, parley.ChoiceDeny, "not a")
			take(t, r, b)
			say(t, r, b, "client mailed b")
		}, []string{"not a", "client mailed b"}},
		"nobody takes one": {func(t *testing.T, r *enginetest.Rig, _ parley.SessionID, a, b seam.InteractionRow) {
			take(t, r, b)
			say(t, r, b, "client mailed b")
			time.Sleep(longAgo + time.Minute)
			_, err := claim(r, a.ID, ownToken)
			wantCode(t, "a late claim", err, parley.CodeConflict)
		}, []string{"No client made this call", "client mailed b"}},
		"one reports too late": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID, a, b seam.InteractionRow) {
			take(t, r, a)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			_, err := report(r, a.ID, ownToken, "client mailed a")
			wantCode(t, "a late report", err, parley.CodeConflict)
			asked, err := r.Engine.Interaction(ctx, enginetest.User, question(t, r, s, one))
			if err != nil || asked.Kind != parley.KindUnknown || asked.Call != a.Call {
				t.Fatalf("%+v, %v", asked, err)
			}
			take(t, r, b)
			say(t, r, b, "client mailed b")
			answerAs(t, r, asked.ID, parley.ChoiceHappened, "")
		}, []string{"client mailed b"}},
		"one is told something instead": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID, a, b seam.InteractionRow) {
			steer := parley.Send{Message: "look c", Busy: parley.BusySteer, Agent: one}
			if _, err := r.Engine.Send(ctx, enginetest.User, s, steer); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			_, err := claim(r, a.ID, ownToken)
			wantCode(t, "a claim after a message", err, parley.CodeConflict)
			take(t, r, b)
			say(t, r, b, "client mailed b")
		}, []string{"seen c", "client mailed b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := enginetest.New(t, teamwork, enginetest.App(team, byClient("mail"), func(a *parley.App) {
					a.Policy.AnswerWithin = parley.Duration(longAgo)
				}))
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "mail a; mail b").ID)
				tc.play(t, r, s.ID, offerOf(t, r, s.ID, one), offerOf(t, r, s.ID, two))
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted {
					t.Fatalf("got %s, %v\n%s", got.Status, got.Error, enginetest.Types(r.Log(s.ID)))
				}
				rest := got.Response.Message
				for _, w := range tc.want {
					_, after, ok := strings.Cut(rest, w)
					if !ok {
						t.Fatalf("got %q, want %q in it", got.Response.Message, tc.want)
					}
					rest = after
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestClientOfSubAgent_and_its_team: while a client has claimed the call of one agent, the other
// agent goes on. After a cancellation the turn waits for the report of the claimed write, and then
// ends.
func TestClientOfSubAgent_and_its_team(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates("a", "b")
		close(g.gate["a"])
		r := enginetest.New(t, g.model, enginetest.App(team, byClient("mail")))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "mail a; look b")
		g.begun(2)
		synctest.Wait()
		in := offerOf(t, r, s.ID, "lead/worker")
		if _, err := claim(r, in.ID, ownToken); err != nil {
			t.Fatal(err)
		}
		close(g.gate["b"])
		<-time.After(time.Second) // of fake time, for the service
		if st := stateOf(t, r, s.ID); st.Turn.Agent("lead/worker").Ended || st.Turn.Agent("lead/worker#2").Outcome != parley.OutcomeOK {
			t.Errorf("got %+v, want one agent whose call a client has, and one that is done", st.Turn.Agents)
		}
		if got, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, ""); err != nil || !got.Stopping {
			t.Errorf("%+v, %v", got, err)
		}
		if res, err := report(r, in.ID, ownToken, "mailed"); err != nil || res.Output != "mailed" {
			t.Errorf("%+v, %v", res, err)
		}
		if got := r.Await(turn.ID); got.Status != parley.StatusCancelled {
			t.Errorf("the turn is %s", got.Status)
		}
		if got := enginetest.Outcomes(r.Log(s.ID)); !slices.Contains(got, "mail ok") {
			t.Errorf("got %v, want what the client reported", got)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}
