package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// street is the test's service in which only things named "house.…" exist.
type street struct{ *enginetest.Service }

func (street) Reaches(_ string, input json.RawMessage) ([]string, bool) {
	var in struct{ Text string }
	_ = json.Unmarshal(input, &in)
	return strings.Fields(in.Text), true
}

func (s street) Vet(tool string, input json.RawMessage) error {
	what, _ := s.Reaches(tool, input)
	for _, w := range what {
		if !strings.HasPrefix(w, "house.") {
			return parley.Errorf(parley.CodeNotFound, "there is no %s", w).WithHint("there are house.1 to house.5")
		}
	}
	return nil
}

// TestAskedAboutWhatThereIs: no permission is asked for a call on something that does not exist,
// and a question names what the call would act on.
func TestAskedAboutWhatThereIs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if len(enginetest.Results(r)) > 0 {
				say("done")
				return seam.Reply{}, nil
			}
			return seam.Reply{Parts: []parley.Part{enginetest.Call("mail", map[string]string{"text": enginetest.Last(r)})}}, nil
		}
		app := enginetest.App(func(a *parley.App) {
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Effect: parley.EffectWrite}}
			for i := range a.Tools {
				a.Tools[i].Subject = "post.send"
			}
		})
		r := enginetest.New(t, model, app, enginetest.With(street{&enginetest.Service{}}))
		defer r.Close()
		s := r.Session()
		if got := r.Await(r.Send(s.ID, "castle.1").ID); got.Status != parley.StatusCompleted {
			t.Fatalf("the turn is %s", got.Status)
		}
		log := r.Log(s.ID)
		types := enginetest.Types(log)
		if strings.Contains(types, "interaction.opened") {
			t.Errorf("somebody was asked:\n%s", types)
		}
		said := ""
		for _, ev := range log {
			if p, err := ev.Payload(); err == nil {
				if end, ok := p.(parley.ToolEnded); ok {
					said = string(end.Outcome) + " " + end.Output
				}
			}
		}
		if want := "error The call was not made: there is no castle.1: there are house.1 to house.5"; said != want {
			t.Errorf("the model was told %q, want %q", said, want)
		}
		for message, want := range map[string]string{
			"house.1": "Allow mail: post.send on house.1?",
			"house.1 house.2 house.3 house.4 house.5": "Allow mail: post.send on house.1, house.2, house.3 and 2 more?",
		} {
			other := r.Session()
			turn := r.Await(r.Send(other.ID, message).ID)
			if len(turn.Interactions) != 1 {
				t.Fatalf("the turn is %s", turn.Status)
			}
			row, err := r.Engine.Interaction(ctx, enginetest.User, turn.Interactions[0])
			if err != nil || row.Title != want {
				t.Errorf("asked %q, want %q (%v)", row.Title, want, err)
			}
			if all := "post.send on " + strings.ReplaceAll(message, " ", ", "); strings.Contains(row.Title, "more") && row.Detail != all {
				t.Errorf("the detail is %q, want %q", row.Detail, all)
			}
		}
	})
}
