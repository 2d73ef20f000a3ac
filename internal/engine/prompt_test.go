package engine_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// abroad is the test's service in the time zone of another country.
type abroad struct{ *enginetest.Service }

func (abroad) Zone(at time.Time) (parley.Zone, bool) {
	return parley.ZoneAt(time.FixedZone("Asia/Kolkata", 19800), at), true
}

// TestPromptAfterACrash: a turn that is resumed hours later sends the same prefix as before, with
// the same time. The next turn sends it too, as far as both prompts go.
func TestPromptAfterACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []seam.Request
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			asked = append(asked, r)
			switch {
			case len(asked) == 2: // the process dies during this call
				<-ctx.Done()
				return seam.Reply{}, ctx.Err()
			case len(enginetest.Results(r)) == 0 && enginetest.Last(r) == "go":
				return seam.Reply{Parts: []parley.Part{enginetest.Call("look", map[string]string{"text": "x"})}}, nil
			}
			say("done")
			return seam.Reply{}, nil
		}
		service := &enginetest.Service{}
		options := enginetest.With(abroad{service})
		r := enginetest.New(t, model, enginetest.App(), options)
		s := r.Session()
		turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "go", Budgets: parley.Budgets{MaxSteps: 4}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		store := r.Mem.Clone()
		r.Kill()
		time.Sleep(5 * time.Hour)
		r = enginetest.Over(t, store, service, model, enginetest.App(), options)
		defer r.Close()
		if _, err := r.Engine.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
			t.Fatal(err)
		}
		r.Await(turn.ID)
		r.Await(r.Send(s.ID, "and now?").ID)
		if len(asked) != 4 {
			t.Fatalf("asked %d times", len(asked))
		}
		const want = "[about this turn]\nnow: Saturday, 2000-01-01 05:30 (Asia/Kolkata, UTC+05:30)\nbudget of this turn: 4 steps,"
		if got := asked[0].Messages[0].Parts[1].Text; !strings.HasPrefix(got, want) {
			t.Errorf("told\n%s\nwant\n%s", got, want)
		}
		for i, again := range asked[1:3] {
			again.Messages = again.Messages[:1]
			if diff := cmp.Diff(asked[0], again, cmpopts.IgnoreFields(seam.Request{}, "Call", "Open", "State", "MaxTokens")); diff != "" {
				t.Errorf("call %d has another prefix:\n%s", i+2, diff)
			}
		}
		next := asked[3]
		if next.System != asked[0].System || next.Messages[0].Parts[0].Text != "go" {
			t.Errorf("the next turn begins with %q, %v", next.System, next.Messages[0])
		}
		if got := next.Messages[2].Parts[1].Text; !strings.Contains(got, "now: Saturday, 2000-01-01 10:30 (Asia/Kolkata") {
			t.Errorf("the next turn is told\n%s", got)
		}
		// A fork sends the same prompt.
		fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
		if err != nil {
			t.Fatal(err)
		}
		r.Await(r.Send(fork.ID, "and there?").ID)
		if got := asked[4]; got.System != next.System || !cmp.Equal(got.Messages[:2], next.Messages[:2]) {
			t.Errorf("the fork begins with %q, %v", got.System, got.Messages[:2])
		}
	})
}
