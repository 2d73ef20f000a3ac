package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/seam"
)

// informed is the test's service, which writes down what it is told of.
type informed struct {
	*enginetest.Service
	mu   *sync.Mutex
	told *[]string
}

func (s informed) Requested(_ context.Context, r seam.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.told = append(*s.told, r.Name+" "+r.Principal.User)
}

// TestInformed: a toolset is told of each call once, when it is requested: also of one that is
// refused, and of one that waits for a person, before the answer and not after it.
func TestInformed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdict parley.Verdict
		answer  string
		mails   int
	}{
		"allowed":  {verdict: parley.Allow, mails: 1},
		"refused":  {verdict: parley.Deny},
		"waits":    {verdict: parley.Ask, answer: parley.ChoiceAllow, mails: 1},
		"declined": {verdict: parley.Ask, answer: parley.ChoiceDeny},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var told []string
				var mu sync.Mutex
				app := enginetest.App(func(a *parley.App) { a.Policy.Rules = []parley.Rule{{Verdict: c.verdict, Tool: "mail"}} })
				service := &enginetest.Service{}
				r := enginetest.New(t, callingInTurn, app, enginetest.With(informed{service, &mu, &told}))
				defer r.Close()
				s := r.Session()
				turn := r.Await(r.Send(s.ID, "call mail").ID)
				want := []string{"mail " + enginetest.User.User}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("before the answer: %s", diff)
				}
				if c.answer != "" {
					if turn.Status != parley.StatusWaiting {
						t.Fatalf("the turn is %s", turn.Status)
					}
					time.Sleep(time.Minute) // longer than sessions stay in memory
					state, err := r.Engine.State(t.Context(), enginetest.User, s.ID)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := r.Engine.Answer(t.Context(), enginetest.User, state.Interactions[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: c.answer}}); err != nil {
						t.Fatal(err)
					}
					r.Await(turn.ID)
				}
				if diff := cmp.Diff(want, told); diff != "" {
					t.Errorf("in the end: %s", diff)
				}
				if _, _, mails := service.Counts(); mails != c.mails {
					t.Errorf("%d mails, want %d", mails, c.mails)
				}
				if strings.Count(enginetest.Types(r.Log(s.ID)), "tool.requested") != 1 {
					t.Error("the call was not requested once")
				}
			})
		})
	}
}
