package steps_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/steps"
)

// TestOf: a plan is text before calls, and the answer is none; observed_event is what
// happened outside, and a cancel is one error with its reason once.
func TestOf(t *testing.T) {
	t.Parallel()
	say := func(text string) parley.Part { return parley.Part{Type: parley.PartText, Text: text} }
	call := parley.Part{Type: parley.PartToolCall, Name: "look", Call: "t1"}
	var log steps.Log
	var got []string
	for i, p := range []parley.Payload{
		parley.TurnStarted{},
		parley.AgentStarted{Name: "front"},
		parley.ContextRetrieved{},
		parley.ModelStarted{Call: "c1"},
		parley.ModelReplied{Call: "c1", Parts: []parley.Part{call}},
		parley.ModelStarted{Call: "c2"},
		parley.ModelReplied{Call: "c2", Parts: []parley.Part{say(" I look. "), call}},
		parley.InteractionOpened{},
		parley.InteractionAnswered{},
		parley.ContextObserved{Ref: "light.hall"},
		parley.ModelStarted{Call: "c3"},
		parley.ModelReplied{Call: "c3", Parts: []parley.Part{say("Done.")}},
		parley.ModelStarted{Call: "c4"},
		parley.ModelFailed{Call: "c4", Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "stopped by ana: too long"}},
		parley.TurnCancelled{Reason: "too long"},
		parley.TurnStarted{},
		parley.ModelStarted{Call: "c5"},
		parley.ModelReplied{Call: "c5", Parts: []parley.Part{say("The answer.")}},
		parley.TurnCompleted{},
		parley.TurnStarted{},
		parley.ModelStarted{Call: "c6"},
		parley.ModelReplied{Call: "c6", Parts: []parley.Part{say("Half an answer.")}},
		parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeTooLarge, Message: "the log is full"}},
	} {
		e := parley.NewEvent("t", "front", p)
		e.Seq = int64(i + 1)
		if s, ok := log.Of(e, p); ok {
			text := s.Type
			for _, f := range []string{"text", "entity", "message"} {
				if v, ok := s.Detail[f].(string); ok && v != "" {
					text += " " + v
				}
			}
			got = append(got, text)
		}
	}
	want := "plan I look.\nobserved_event light.hall\nplan Done.\nerror the turn was cancelled: too long\nerror the log is full"
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(log.Said) != 0 {
		t.Errorf("it keeps %v", log.Said)
	}
}
