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
		parley.HookRan{Name: "guard", Decision: parley.Allow},
		parley.HookRan{Name: "guard", Decision: parley.Deny, Reason: "no"},
		parley.FilesSaved{Files: []parley.FileSaved{{Path: "a.md"}}},
		parley.FilesSaved{},
		parley.RuntimeNoted{Kind: "restarted", Text: "again"},
		parley.RuntimeKept{},
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
	want := "plan I look.\nobserved_event light.hall\nobserved_event the hook guard denied it: no guard\nobserved_event changed a.md a.md\nobserved_event again restarted\nplan Done.\nerror the turn was cancelled: too long\nerror the log is full"
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(log.Said) != 0 {
		t.Errorf("it keeps %v", log.Said)
	}
}

// TestAgentOfAStep: a step names its agent by its path, so that two of one kind are told apart.
func TestAgentOfAStep(t *testing.T) {
	t.Parallel()
	for _, agent := range []parley.AgentPath{"lead", "lead/reader#2"} {
		var log steps.Log
		p := parley.ToolStarted{Call: "k", Name: "look"}
		if s, ok := log.Of(parley.NewEvent("t", agent, p), p); !ok || s.Detail["agent"] != agent {
			t.Errorf("%s: got %+v", agent, s)
		}
	}
}

// TestOfMemory: what the agent does that keeps the memory is no step, at whichever attempt. What
// came of it is one.
func TestOfMemory(t *testing.T) {
	t.Parallel()
	summary := "The user counts."
	for _, agent := range []parley.AgentPath{"front/memory", "front/memory#2"} {
		var log steps.Log
		var got []string
		for _, p := range []parley.Payload{
			parley.ModelStarted{Call: "m1"},
			parley.ModelFailed{Call: "m1", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "no answer"}},
			parley.ModelStarted{Call: "m2"},
			parley.ModelReplied{Call: "m2", Parts: []parley.Part{{Type: parley.PartText, Text: "{}"}, {Type: parley.PartToolCall, Name: "look", Call: "t1"}}},
			parley.MemoryUpdated{Summary: &summary, Dropped: 1},
		} {
			if s, ok := log.Of(parley.NewEvent("t", agent, p), p); ok {
				got = append(got, s.Type)
			}
		}
		if diff := cmp.Diff([]string{steps.Summary}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", agent, diff)
		}
	}
}
