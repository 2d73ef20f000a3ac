package replay_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/seam"
)

// TestReplayOfCutOutputs: the output of a call was cut, and its last line names an artifact by the id of
// the call. The model repeats the name in its words and in the inputs of calls, and the user in messages.
// A replay has the name of its own call in all of them.
func TestReplayOfCutOutputs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long ", 4000)
	last := func(s string) string { return s[strings.LastIndex(s, "\n")+1:] }
	// Calls of one step that clients run are offered in any order, so there is one a step.
	steps := []string{long, "second " + long, "it: 0", "it: 1"}
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		got, asked := enginetest.Results(r), enginetest.Last(r)
		if len(got) >= len(steps) || asked != "go" {
			say("I heard " + asked + ", and read " + strings.Join(got, "; "))
			return seam.Reply{}, nil
		}
		text := steps[len(got)]
		if n, ok := strings.CutPrefix(text, "it: "); ok {
			text = last(got[n[0]-'0'])
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": text})}}, nil
	}
	name := regexp.MustCompile(`look-\w+\.txt`)
	for kind, app := range map[string]parley.App{"here": enginetest.App(asks), "by clients": enginetest.App(enginetest.ByClients)} {
		var rec *replay.Recording
		synctest.Test(t, func(t *testing.T) {
			rec = recorded(t, model, app, func(r *enginetest.Rig, s parley.SessionInfo) {
				own := &enginetest.Client{Service: r.Service}
				turn := r.Send(s.ID, "go")
				for turn = r.Await(turn.ID); turn.Status == parley.StatusWaiting; turn = r.Await(turn.ID) {
					if kind == "here" {
						answer(t, r, turn, parley.Answer{Choice: parley.ChoiceAllow})
						continue
					}
					if _, err := own.Serve(ctx, r.Engine, turn.Interactions[0]); err != nil {
						t.Fatal(err)
					}
				}
				artifact := name.FindString(turn.Response.Message)
				if artifact == "" {
					t.Fatalf("%s: the turn is %s: %s", kind, turn.Status, turn.Response.Message)
				}
				r.Await(r.Send(s.ID, "what is in "+artifact+"?").ID)
			})
		})
		same(t, rec)

		// Another artifact's name in the model's words is a difference.
		res := again(t, rec, replay.Options{})
		var calls []string
		for _, ev := range rec.Events {
			if p, err := ev.Payload(); err == nil {
				if q, ok := p.(parley.ToolRequested); ok {
					calls = append(calls, string(q.Call))
				}
			}
		}
		for i, ev := range rec.Events {
			if p, err := ev.Payload(); err == nil && ev.Type == "turn.completed" {
				done := p.(parley.TurnCompleted)
				done.Response.Message = strings.ReplaceAll(done.Response.Message, calls[0], calls[1])
				data, err := json.Marshal(done)
				if err != nil {
					t.Fatal(err)
				}
				rec.Events[i] = ev.WithData(data)
				break
			}
		}
		if d := replay.Compare(rec.Events, res.Events); d == nil || !strings.Contains(d.String(), "turn.completed") {
			t.Errorf("%s: another artifact's name is no difference: %v", kind, d)
		}
	}
}
