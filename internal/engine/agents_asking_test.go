package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// twoAsk returns a turn that waits because each of its two sub-agents asks whether it may send a
// mail.
func twoAsk(t *testing.T, change ...func(*parley.App)) (*enginetest.Rig, parley.SessionInfo, parley.TurnInfo) {
	t.Helper()
	r := enginetest.New(t, teamwork, enginetest.App(append([]func(*parley.App){team, asking, queued}, change...)...))
	s := r.Session()
	turn := r.Await(r.Send(s.ID, "mail a; mail b").ID)
	if turn.Status != parley.StatusWaiting || len(turn.Interactions) != 2 {
		t.Fatalf("got %+v, want a turn that waits for two answers", turn)
	}
	return r, s, turn
}

// question returns the open interaction of the agent at path.
func question(t *testing.T, r *enginetest.Rig, id parley.SessionID, path parley.AgentPath) parley.InteractionID {
	t.Helper()
	for _, in := range stateOf(t, r, id).Interactions {
		if in.Agent == path {
			return in.ID
		}
	}
	t.Fatalf("%s asks nothing", path)
	return ""
}

func answerAs(t *testing.T, r *enginetest.Rig, id parley.InteractionID, choice, text string) {
	t.Helper()
	if _, err := r.Engine.Answer(ctx, enginetest.User, id, parley.AnswerInteraction{Answer: parley.Answer{Choice: choice, Text: text}}); err != nil {
		t.Fatal(err)
	}
}

// TestSteerWhileOneAsks: a steered message declines the open question of one agent. Another agent
// that is at work goes on.
func TestSteerWhileOneAsks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGates("a", "b")
		close(g.gate["a"])
		r := enginetest.New(t, g.model, enginetest.App(team, asking))
		defer r.Close()
		s := r.Session()
		turn := r.Send(s.ID, "mail a; look b")
		g.begun(2)
		synctest.Wait()
		if st := stateOf(t, r, s.ID); st.Turn.Status != parley.StatusRunning || len(st.Interactions) != 1 {
			t.Fatalf("got %s with %d questions, want a turn that runs with one", st.Turn.Status, len(st.Interactions))
		}
		if _, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "look b", Busy: parley.BusySteer}); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if st := stateOf(t, r, s.ID); len(st.Interactions) != 0 || st.Turn.Agent("lead/worker").Outcome != parley.OutcomeOK || st.Turn.Agent("lead/worker#2").Ended {
			t.Errorf("got %+v, want one agent that heard no, and one at work", st.Turn.Agents)
		}
		close(g.gate["b"])
		if got := r.Await(turn.ID); got.Status != parley.StatusCompleted {
			t.Errorf("got %+v", got)
		}
		if _, _, mails := r.Service.Counts(); mails != 0 {
			t.Errorf("%d mails were sent", mails)
		}
		if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
			t.Error(err)
		}
	})
}

// TestTwoAsk: two agents ask at once. Each gets its own answer, whichever is given first. When one
// question is declined or expires, the other agent goes on.
func TestTwoAsk(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		play  func(t *testing.T, r *enginetest.Rig, s parley.SessionID)
		want  []string // in the answer, in this order
		mails int
	}{
		"the first is declined": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			one, two := question(t, r, s, "lead/worker"), question(t, r, s, "lead/worker#2")
			answerAs(t, r, one, parley.ChoiceDeny, "not a")
			synctest.Wait()
			if st := stateOf(t, r, s); st.Turn == nil || st.Turn.Status != parley.StatusWaiting || len(st.Interactions) != 1 || st.Turn.Agent("lead/worker").Outcome != parley.OutcomeOK {
				t.Errorf("after one answer, got %+v", st.Turn)
			}
			answerAs(t, r, two, parley.ChoiceAllow, "")
		}, []string{"not a", "mailed b"}, 1},
		"the second is declined first": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			one, two := question(t, r, s, "lead/worker"), question(t, r, s, "lead/worker#2")
			answerAs(t, r, two, parley.ChoiceDeny, "not b")
			answerAs(t, r, one, parley.ChoiceAllow, "")
		}, []string{"mailed a", "not b"}, 1},
		"one allows for the session": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			one, two := question(t, r, s, "lead/worker"), question(t, r, s, "lead/worker#2")
			answerAs(t, r, one, parley.ChoiceAllowSession, "")
			answerAs(t, r, two, parley.ChoiceAllow, "")
		}, []string{"mailed a", "mailed b"}, 2},
		"one is not answered in time": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			answerAs(t, r, question(t, r, s, "lead/worker#2"), parley.ChoiceAllow, "")
			time.Sleep(longAgo + time.Minute)
		}, []string{"nobody answered in time", "mailed b"}, 1},
		"one is told something instead": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			steer := parley.Send{Message: "look c", Busy: parley.BusySteer, Agent: "lead/worker"}
			if _, err := r.Engine.Send(ctx, enginetest.User, s, steer); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if st := stateOf(t, r, s); st.Turn == nil || len(st.Interactions) != 1 || st.Interactions[0].Agent != "lead/worker#2" {
				t.Errorf("a message for one agent has answered the other's question, too: %+v", st.Interactions)
			}
			answerAs(t, r, question(t, r, s, "lead/worker#2"), parley.ChoiceAllow, "")
		}, []string{"seen c", "mailed b"}, 1},
		"both are told something instead": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			if _, err := r.Engine.Send(ctx, enginetest.User, s, parley.Send{Message: "stop that", Busy: parley.BusySteer}); err != nil {
				t.Fatal(err)
			}
		}, nil, 0},
		"the session plans only from now on": {func(t *testing.T, r *enginetest.Rig, s parley.SessionID) {
			plan := parley.ModePlan
			if _, err := r.Engine.Update(ctx, enginetest.User, s, parley.UpdateSession{Mode: &plan}); err != nil {
				t.Fatal(err)
			}
			answerAs(t, r, question(t, r, s, "lead/worker"), parley.ChoiceAllow, "")
			answerAs(t, r, question(t, r, s, "lead/worker#2"), parley.ChoiceAllow, "")
		}, []string{"not allowed", "not allowed"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, s, turn := twoAsk(t, func(a *parley.App) {
					a.Policy.Modes = []parley.PermissionMode{parley.ModeDefault, parley.ModePlan}
					a.Policy.AnswerWithin = parley.Duration(longAgo)
				})
				defer r.Close()
				tc.play(t, r, s.ID)
				got := r.Await(turn.ID)
				if got.Status != parley.StatusCompleted {
					t.Fatalf("got %s, %v\n%s", got.Status, got.Error, enginetest.Types(r.Log(s.ID)))
				}
				rest := got.Response.Message
				for _, want := range tc.want {
					_, after, ok := strings.Cut(rest, want)
					if !ok {
						t.Errorf("got %q, want %q in this order", got.Response.Message, tc.want)
					}
					rest = after
				}
				if _, _, mails := r.Service.Counts(); mails != tc.mails {
					t.Errorf("%d mails were sent, want %d", mails, tc.mails)
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
