package replay_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/task"
)

// TestReplayOfSubAgents: two sub-agents of one definition work at once, and come in any order. Each has
// its own replies again, and a question of one has its own answer. What one of them did differently is
// found.
func TestReplayOfSubAgents(t *testing.T) {
	t.Parallel()
	team := func(a *parley.App) {
		a.Agents = map[string]parley.AgentDef{
			"lead":   {Name: "lead", Prompt: "Lead.", Tools: []string{"Task", "AgentOutputTool"}},
			"worker": {Name: "worker", Prompt: "Work.", Tools: []string{"look", "mail"}, AsTool: true},
		}
		a.Tools = append(a.Tools, task.Decls(*a)...)
	}
	// The words of a message are the pauses of the workers, in milliseconds. One that pauses for an even
	// time looks, and the others mail.
	model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		got, asked := enginetest.Results(r), enginetest.Last(r)
		if len(got) > 0 {
			say("done: " + strings.Join(got, "; "))
			return seam.Reply{}, nil
		}
		var reply seam.Reply
		if r.Agent == "worker" {
			pause, err := time.ParseDuration(asked + "ms")
			if err != nil {
				return reply, err
			}
			time.Sleep(pause)
			tool := "look"
			if pause.Milliseconds()%2 == 1 {
				tool = "mail"
			}
			reply.Parts = append(reply.Parts, enginetest.Call(tool, map[string]string{"text": asked}))
			return reply, nil
		}
		for _, word := range strings.Fields(asked) {
			reply.Parts = append(reply.Parts, enginetest.Call("Task", map[string]any{"description": word, "prompt": word, "subagent_type": "worker"}))
		}
		return reply, nil
	}
	for _, message := range []string{"2 4", "4 2", "3 2", "2 3", "5 3", "3 5", "2 2", "6 2 4"} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			var rec *replay.Recording
			synctest.Test(t, func(t *testing.T) {
				rec = recorded(t, model, enginetest.App(team, asks), func(r *enginetest.Rig, s parley.SessionInfo) {
					turn := r.Await(r.Send(s.ID, message).ID)
					for n := 0; turn.Status == parley.StatusWaiting; n++ {
						answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow, Text: strings.Repeat("x", n)})
						turn = r.Await(turn.ID)
					}
					if turn.Status != parley.StatusCompleted {
						t.Fatalf("the turn is %s: %v", turn.Status, turn.Error)
					}
				})
			})
			same(t, rec)
			if message == "3 2" { // whatever was in progress when the session was exported
				for n := 2; n < len(rec.Events); n++ {
					part := &replay.Recording{Events: rec.Events[:n], Apps: rec.Apps}
					if d := replay.Compare(part.Events, again(t, part, replay.Options{}).Events); d != nil {
						t.Errorf("up to event %d, %s: %s", n, part.Events[n-1].Type, d)
					}
				}
			}
			res := again(t, rec, replay.Options{})
			for i, ev := range rec.Events {
				if p, err := ev.Payload(); err == nil && ev.Agent.Depth() > 0 && ev.Type == "tool.ended" {
					done := p.(parley.ToolEnded)
					done.Output += ", and more"
					data, err := json.Marshal(done)
					if err != nil {
						t.Fatal(err)
					}
					rec.Events[i] = ev.WithData(data)
					if d := replay.Compare(rec.Events, res.Events); d == nil || d.Seq != ev.Seq {
						t.Errorf("another result of a sub-agent's call is no difference: %v", d)
					}
					rec.Events[i] = ev
				}
			}
		})
	}
}
