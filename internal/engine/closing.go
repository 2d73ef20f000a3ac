package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// ending returns the events that close the turn after its runtime returned.
func (s *session) ending(ending seam.Ending, err error, cause error) []parley.Event {
	turn := s.view.Turn.ID
	var last parley.Payload
	why, wasStopped := errors.AsType[*stopped](cause)
	slow, wasSlow := errors.AsType[*outOfTime](cause)
	switch {
	case wasStopped:
		last = parley.TurnCancelled{Reason: why.reason, By: why.by}
	case s.view.Turn.Stop != nil: // the caller could not be told that it was stored
		last = parley.TurnCancelled{Reason: s.view.Turn.Stop.Reason, By: s.view.Turn.Stop.By}
	case wasSlow:
		limit := float64(slow.limit.Milliseconds())
		ending.Events = append(ending.Events, parley.NewEvent(turn, "", parley.BudgetReached{Name: "duration", Limit: limit, Used: limit}))
		last = parley.TurnFailed{Error: parley.ErrorInfo{
			Code: "budget_duration", Message: fmt.Sprintf("the turn used up its %s of running time", slow.limit),
			Hint: "what was answered so far is kept; ask for less, or raise max_duration_ms",
		}}
	case err != nil:
		if _, ok := errors.AsType[*parley.Error](err); !ok {
			s.e.o.Logger.Error("a turn failed", "session", s.id, "turn", turn, "err", err)
		}
		last = parley.TurnFailed{Error: parley.Info(err)}
	case ending.Failed != nil:
		f := parley.TurnFailed{Error: parley.Info(ending.Failed)}
		if ending.Response.Message != "" {
			f.Response = &ending.Response
		}
		last = f
	default:
		last = parley.TurnCompleted{Response: ending.Response}
	}
	var events []parley.Event
	for _, ev := range ending.Events {
		ev.Turn = turn
		events = append(events, ev)
	}
	return s.closing(last, events...)
}

// closing is closingTurn, plus the end of a temporary session if nothing is left to run
// in it.
func (s *session) closing(last parley.Payload, events ...parley.Event) []parley.Event {
	events = s.closingTurn(last, events...)
	if s.view.Temporary && len(s.view.Queue) == 0 &&
		!slices.ContainsFunc(events, func(ev parley.Event) bool { return ev.Type == parley.TurnQueued{}.EventType() }) {
		events = append(events, temporaryEnd())
	}
	return events
}

func temporaryEnd() parley.Event {
	return parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended, Reason: "temporary session"})
}

// closingTurn returns the events that end the open turn: the given events, then an
// outcome for everything that was begun, then last, with the turn's usage and, unless the
// turn completed, the answer so far. Messages sent into the turn but not read become
// turns of their own. They are queued before last, so that a queue held by last includes
// them.
func (s *session) closingTurn(last parley.Payload, events ...parley.Event) []parley.Event {
	turn := s.view.Turn.ID
	after := s.view
	apply := func(what string, events []parley.Event) {
		if len(events) == 0 {
			return
		}
		after = after.Clone()
		for i, ev := range events {
			ev.Session, ev.Seq, ev.Time = s.id, after.Seq+1, s.e.now()
			if err := after.Apply(ev); err != nil {
				s.e.o.Logger.Error("an event that ends a turn does not fold", "session", s.id, "which", what, "type", ev.Type, "n", i, "err", err)
			}
		}
	}
	add := func(agent parley.AgentPath, p parley.Payload) {
		events = append(events, parley.NewEvent(turn, agent, p))
	}
	apply("given", events)
	given := len(events)
	t := after.Turn
	cut := t.Calls
	for _, c := range cut {
		text, _, _ := s.e.o.Log.Partial(s.id, c.Call)
		usage := c.Reserved
		usage.Estimated = true
		add(c.Agent, parley.ModelFailed{
			Call: c.Call, Partial: text, Usage: usage,
			Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the call was cut off"},
		})
	}
	for i := range t.Agents {
		if a := &t.Agents[i]; a.IsSub() && !a.Ended && a.Parent.Depth() == 0 { // those below end with it
			add(a.Path, parley.AgentEnded{Outcome: parley.OutcomeCancelled, Told: true})
		}
	}
	for _, c := range t.Tools.Open() {
		if c.Status == parley.ToolIsEnded {
			continue
		}
		add(c.Agent, parley.ToolEnded{Name: c.Name, Effect: c.Effect, ToolResult: cutOff(c)})
	}
	for _, in := range after.Interactions {
		add(in.Agent, parley.InteractionExpired{ID: in.ID, Reason: "the turn ended"})
	}
	apply("closing", events[given:])
	t = after.Turn
	said, scripted := t.Answered(), s.e.scripted(after, cut)
	answered := func(r *parley.Response) *parley.Response {
		if r == nil && said != "" {
			r = &parley.Response{Message: said}
		}
		if r == nil || !scripted {
			return r
		}
		known := *r
		known.Scripted = true
		return &known
	}
	switch p := last.(type) {
	case parley.TurnCompleted:
		p.Usage, p.Response = t.Spent.Usage, *answered(&p.Response)
		last = p
	case parley.TurnFailed:
		p.Usage, p.Response = t.Spent.Usage, answered(p.Response)
		last = p
	case parley.TurnCancelled:
		p.Usage, p.Response = t.Spent.Usage, answered(nil)
		last = p
	case parley.TurnExpired:
		p.Usage = t.Spent.Usage
		last = p
	}
	for _, m := range t.Steers {
		events = append(events, parley.NewEvent(parley.TurnID(s.e.newID()), "", parley.TurnQueued{Late: true, TurnRequest: parley.TurnRequest{
			Origin: parley.OriginUser, Message: m, Budgets: s.view.Budgets, Client: t.Request.Client, By: t.Request.By,
		}}))
	}
	add("", last)
	return events
}

// cutOff is the outcome of a call that is still open when the turn ends.
func cutOff(c *parley.Tool) parley.ToolResult {
	r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: "The call did not run: the turn ended first."}
	if c.Status == parley.ToolIsStarted {
		r.Output = "The call was cut off; it only reads, so nothing was changed."
		if c.Effect != parley.EffectRead {
			r = unknownResult(c.Call)
		}
	}
	return r
}

func unknownResult(call parley.CallID) parley.ToolResult {
	return parley.ToolResult{
		Call: call, Outcome: parley.OutcomeUnknown,
		Output: "The outcome of this call is unknown: it may or may not have taken effect. It was not repeated.",
	}
}
