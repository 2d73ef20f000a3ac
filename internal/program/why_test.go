package program

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	begun := []parley.Payload{
		parley.SessionCreated{App: "chaos", User: "local"},
		parley.TurnStarted{TurnRequest: parley.TurnRequest{Message: parley.Text(parley.RoleUser, "mail it")}},
		parley.AgentStarted{Name: "lead"},
		parley.ModelStarted{Call: "c1", Model: "m"},
	}
	replied := parley.ModelReplied{Call: "c1", Model: "m", Usage: parley.Usage{InputTokens: 7, OutputTokens: 3}}
	mail := parley.ToolStarted{Call: "w", Name: "mail", Input: json.RawMessage(`{}`), Effect: parley.EffectWrite, Attempt: 1, Deadline: at.Add(time.Minute)}
	settled := func(choice string, more ...parley.Payload) []parley.Payload {
		return append([]parley.Payload{
			replied, mail,
			parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown}, Name: "mail"},
			parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindUnknown, Call: "w", Choices: []string{choice}}},
			parley.InteractionAnswered{ID: "i1", Answer: parley.Answer{Choice: choice}},
		}, more...)
	}
	const nobodyKnows = "The outcome of a call of mail is unknown"
	for _, c := range []struct {
		name   string
		more   []parley.Payload
		status parley.TurnStatus // as in the index
		says   []string          // with "not: " before it: what it does not say
	}{
		{"nothing_asked", nil, "", []string{"Nothing was asked yet."}},
		{"running", []parley.Payload{}, parley.StatusRunning, []string{"It is running.", "a call of the model m", "parley session cancel t1"}},
		{"waits_for_a_write", []parley.Payload{replied, mail, parley.TurnInterrupted{Reason: "crash"}, parley.TurnResumed{Attempt: 1}}, parley.StatusRunning, []string{
			"resumed 1 time", "It is running.", "under way: the tool mail, started before the interruption; its outcome is known shortly after " + mail.Deadline.Local().Format(time.TimeOnly),
		}},
		{"answered", []parley.Payload{replied, parley.TurnCompleted{}}, "", []string{"1 model call; 10 tokens", "It was answered, after 5s."}},
		{"sampled", []parley.Payload{
			replied,
			parley.ModelStarted{Call: "c2", Model: "m", For: &parley.Sampling{Server: "deep"}},
			parley.ModelReplied{Call: "c2", Usage: parley.Usage{InputTokens: 4, OutputTokens: 1}},
			parley.ModelStarted{Call: "c3", Model: "m", For: &parley.Sampling{Server: "deep"}},
		}, parley.StatusRunning, []string{"3 model calls; 15 tokens", "of these for the server deep: 2 model calls; 5 tokens", "under way: a call of the model m for the server deep"}},
		{"model_failed", []parley.Payload{
			parley.ModelFailed{Call: "c1", Error: parley.ErrorInfo{Code: parley.CodeUnavailable, Message: "overloaded"}, Retry: true},
			parley.TurnFailed{Error: parley.ErrorInfo{Code: parley.CodeModel, Message: "the model is away", Hint: "try later"}},
		}, "", []string{"1 failed and 1 of them tried again", "It failed: the model is away", "try later", "parley session retry t1"}},
		{"budget", []parley.Payload{
			replied, parley.BudgetReached{Name: "steps", Limit: 8, Used: 8}, parley.TurnFailed{Error: parley.ErrorInfo{Code: "budget_steps"}},
		}, "", []string{"a budget was reached: steps, 8 of 8", "app.yaml"}},
		{"cancelled", []parley.Payload{parley.TurnCancelled{By: "local", Reason: "enough"}}, "", []string{"cancelled by local", "enough"}},
		{"rewound", []parley.Payload{replied, parley.TurnCompleted{}, parley.SessionRewound{Rewind: parley.Rewind{What: parley.RewindBoth, To: 1, Turn: "t1"}}}, "", []string{
			"Event 7 took conversation and files back to event 1. To undo it: parley session rewind s1 --undo 7", "All turns were taken back.", "not: It was answered",
		}},
		{"held", []parley.Payload{
			parley.TurnQueued{TurnRequest: parley.TurnRequest{Message: parley.Text(parley.RoleUser, "next")}}, parley.TurnCancelled{By: "local"},
		}, "", []string{"cancelled by local", "1 turn waits behind it", "The next message releases it", "To drop a turn instead: parley session cancel t2"}},
		{"superseded", []parley.Payload{parley.TurnInterrupted{Reason: "crash"}, parley.TurnCancelled{By: "superseded"}}, "", []string{"the next message came"}},
		{"interrupted", []parley.Payload{parley.TurnInterrupted{Reason: "the server stopped"}}, "", []string{"It was interrupted: the server stopped", "parley session resume t1"}},
		{"cut_in_a_write", []parley.Payload{
			parley.ToolStarted{Call: "c9", Name: "put_contact", Effect: parley.EffectIdempotent}, parley.TurnInterrupted{Reason: "the server stopped"},
		}, "", []string{"put_contact was running and may have taken effect", "parley session resume t1"}},
		{"goes_on", []parley.Payload{parley.TurnInterrupted{Reason: "the server stopped", Resumes: true}}, "", []string{"It was interrupted: the server stopped", "It goes on by itself"}},
		{"waits", []parley.Payload{
			replied, parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindPermission, Title: "May it mail?"}},
		}, parley.StatusWaiting, []string{"It waits for a human", "permission: May it mail?", "parley session answer i1", "answer with allow"}},
		{"waits_for_a_client", []parley.Payload{
			replied, parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindClient, Title: "A client must run mail", Choices: []string{parley.ChoiceDeny}}},
		}, parley.StatusWaiting, []string{"It waits for a client program", "client: A client must run mail", "parley session claim i1", "parley session answer i1 deny"}},
		{"reported_late", []parley.Payload{
			replied, mail,
			parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown}, Name: "mail"},
			parley.InteractionOpened{Interaction: parley.Interaction{ID: "i1", Kind: parley.KindUnknown, Call: "w", Title: "Did mail take effect?", Text: "Nobody knows."}},
			parley.ContextObserved{Source: "client", Ref: "w", Text: "The client that had claimed mail reported after the deadline: ok"},
		}, parley.StatusWaiting, []string{"unknown: Did mail take effect?\n    Nobody knows.\n    The client that had claimed mail reported after the deadline: ok\n"}},
		{"unknown", []parley.Payload{
			replied, mail, parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown}, Name: "mail"}, parley.TurnCompleted{},
		}, "", []string{"tool mail: 1 unknown", "it may have taken effect"}},
		{"said_to_have_happened", settled(parley.ChoiceHappened, parley.TurnCompleted{}), "", []string{"A person said that the call of mail took effect.", "not: " + nobodyKnows, "not: tool mail: 1 unknown"}},
		{"said_not_to_have", settled(parley.ChoiceDidNot, parley.TurnCompleted{}), "", []string{"A person said that the call of mail took no effect.", "not: " + nobodyKnows, "not: tool mail: 1 unknown"}},
		{"done_again", settled(
			parley.ChoiceAgain, mail, parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeOK}, Name: "mail"}, parley.TurnCompleted{},
		), "", []string{"A person said to make the call of mail again.", "tool mail: 1 ok\n", "not: " + nobodyKnows}},
		{"left", settled(parley.ChoiceLeave, parley.TurnCompleted{}), "", []string{nobodyKnows, "tool mail: 1 unknown", "not: A person said"}},
		{"lost_again", settled(
			parley.ChoiceAgain, mail, parley.ToolEnded{ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown}, Name: "mail"}, parley.TurnCompleted{},
		), "", []string{nobodyKnows, "tool mail: 1 unknown"}},
		{"stopping", []parley.Payload{replied, mail, parley.TurnStopRequested{Reason: "stop"}}, parley.StatusRunning, []string{"being stopped", "the tool mail"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			list := append(begun[:len(begun):len(begun)], c.more...)
			if c.more == nil {
				list = begun[:1]
			}
			var v parley.Transcript
			var fold parley.Session
			var events []parley.Event
			for i, p := range list {
				turn := parley.TurnID("t1")
				switch {
				case i == 0:
					turn = ""
				case p.EventType() == parley.TurnQueued{}.EventType():
					turn = "t2"
				}
				e := parley.NewEvent(turn, "", p)
				e.Session, e.Seq, e.Time = "s1", int64(i+1), at.Add(time.Duration(i)*time.Second)
				if i == len(list)-1 && len(list) > 4 {
					e.Time = at.Add(6 * time.Second)
				}
				v.Apply(e)
				if err := fold.Apply(e); err != nil {
					t.Fatal(err)
				}
				events = append(events, e)
			}
			got := why(fold.Info(), v, events, at.Add(time.Hour))
			for _, want := range c.says {
				want, not := strings.CutPrefix(want, "not: ")
				if strings.Contains(got, want) == not {
					t.Errorf("says %q: %t:\n%s", want, not, got)
				}
			}
		})
	}
}
