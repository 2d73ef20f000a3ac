package sdkview

import (
	"strings"

	"github.com/parley-server/parley"
)

// end shows the end of the turn, if p is one. An interrupted turn that does not go on by itself
// has one, too; when it is resumed, there is another.
func (s *SDK) end(p parley.Payload) {
	switch p := p.(type) {
	case parley.TurnCompleted:
		s.over(p.Usage, object{"subtype": "success", "is_error": false, "result": p.Response.Message, "terminal_reason": "completed"})
	case parley.TurnFailed:
		subtype, reason := "error_during_execution", "model_error"
		switch code, _ := strings.CutPrefix(string(p.Error.Code), "budget_"); code {
		case "steps", "tool_calls":
			subtype, reason = "error_max_turns", "max_turns"
		case "usd":
			subtype, reason = "error_max_budget_usd", "budget_exhausted"
		}
		s.over(p.Usage, object{"subtype": subtype, "is_error": true, "errors": []string{p.Error.Message}, "terminal_reason": reason})
	case parley.TurnCancelled:
		s.stopped(p.Usage, because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		s.stopped(p.Usage, because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes {
			t := s.turn
			s.over(s.turn.used, object{"subtype": "error_during_execution", "is_error": true, "errors": []string{because("the turn was interrupted", p.Reason)}})
			s.turn = t // it may be resumed
		}
	}
}

// stopped shows the end of a turn that somebody has stopped, with the mark that the CLI leaves.
func (s *SDK) stopped(u parley.Usage, why string) {
	mark, reason := "[Request interrupted by user]", "aborted_streaming"
	if s.turn.cut {
		mark, reason = "[Request interrupted by user for tool use]", "aborted_tools"
	}
	s.say("user", object{"message": object{"role": "user", "content": []object{{"type": "text", "text": mark}}}, "parent_tool_use_id": nil})
	s.cutOff()
	s.over(u, object{"subtype": "error_during_execution", "is_error": true, "errors": []string{why}, "terminal_reason": reason})
}

// over says the result of the turn.
func (s *SDK) over(u parley.Usage, body object) {
	t := s.turn
	s.turn, s.asked = nil, nil
	total := s.spent + u.USD
	if body["terminal_reason"] != nil { // else it was interrupted, and has another end
		s.spent = total
	}
	if s.quiet {
		return
	}
	s.cutOff()
	models := object{}
	for name, of := range t.models {
		models[name] = object{
			"inputTokens": of.used.InputTokens, "outputTokens": of.used.OutputTokens, "cacheReadInputTokens": of.used.CacheReadTokens, "cacheCreationInputTokens": of.used.CacheWriteTokens,
			"webSearchRequests": 0, "costUSD": of.used.USD, "contextWindow": of.window, "maxOutputTokens": 0, "thinkingTokens": of.used.ReasoningTokens,
		}
	}
	if t.denied == nil {
		t.denied = []object{}
	}
	if body["subtype"] == "success" {
		body["ttft_ms"], body["api_error_status"] = t.ttft, nil
	}
	body["stop_reason"], body["user_message_uuid"], body["user_message_uuids"] = nil, t.message, []string{t.message}
	if t.stop != "" {
		body["stop_reason"] = t.stop
	}
	body["duration_ms"], body["duration_api_ms"], body["num_turns"] = s.now.Sub(t.began).Milliseconds(), t.api, t.steps
	body["total_cost_usd"], body["modelUsage"], body["permission_denials"] = total, models, t.denied
	body["usage"] = usageOf(u)
	s.say("result", body)
	s.state("idle")
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
