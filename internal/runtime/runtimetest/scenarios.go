package runtimetest

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/task"
)

// A scenario is a turn and how it has to come out.
type scenario struct {
	name    string
	change  func(*parley.App) // of the app below
	call    *parley.ToolCall  // a direct call instead of a message
	budgets parley.Budgets
	tools   map[string]WorldTool
	choice  string                 // what a human chooses; "" allows, and says of an unknown write that it happened
	script  func(ended int) Script // after so many model calls that have ended

	message  string
	code     parley.Code
	outcomes []string // of the tools, in any order
	commits  int      // it depends on which part is first
	// loose: a crash changes which outcomes there are, but nothing else.
	loose bool
	lost  string // the answer when a crash lost the outcome of the write
}

func (sc *scenario) request() parley.TurnRequest {
	r := parley.TurnRequest{Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, "What is the final spec?"), Budgets: sc.budgets}
	if sc.call != nil {
		r.Origin, r.Call = parley.OriginCall, sc.call
	}
	return r
}

func (sc *scenario) choose(in parley.Interaction) parley.Answer {
	switch {
	case sc.choice != "":
		return parley.Answer{Choice: sc.choice}
	case in.Kind == parley.KindUnknown:
		return parley.Answer{Choice: parley.ChoiceHappened}
	}
	return parley.Answer{Choice: parley.ChoiceAllow}
}

// app has one agent with tools of all effects, and two that hand a turn on.
func (sc *scenario) app() *parley.App {
	schema := json.RawMessage(`{"type":"object"}`)
	app := &parley.App{
		Name: "test", Title: "Test", Runtime: "loop", Entry: "front", Model: info.Name,
		Agents: map[string]parley.AgentDef{
			"front": {
				Name: "front", Prompt: "You answer.", Tools: []string{"look", "seek", "put", "add"}, Handoffs: []string{"finder"},
			},
			"finder": {
				Name: "finder", Prompt: "You find.", Tools: []string{"look", "seek"}, Handoffs: []string{"judge"}, History: parley.HistoryNone,
			},
			"judge": {Name: "judge", Prompt: "You judge.", Handoffs: []string{"front"}, History: parley.HistoryNone},
			"lead":  {Name: "lead", Prompt: "You lead.", Tools: []string{"Task", "AgentOutputTool", "look"}},
			"worker": {
				Name: "worker", Prompt: "You work.", Tools: []string{"look", "add", "Task", "worker"}, Handoffs: []string{"judge"}, AsTool: true,
			},
		},
		Tools: []parley.ToolDecl{
			{Name: "look", Description: "Looks.", InputSchema: schema, Effect: parley.EffectRead},
			{Name: "seek", Description: "Seeks.", InputSchema: schema, Effect: parley.EffectRead},
			{Name: "put", Description: "Puts.", InputSchema: schema, Effect: parley.EffectIdempotent, KeyTTL: parley.Duration(time.Hour)},
			{Name: "add", Description: "Adds.", InputSchema: schema, Effect: parley.EffectWrite},
		},
	}
	if sc.change != nil {
		sc.change(app)
	}
	app.Tools = append(app.Tools, task.Decls(*app)...)
	return app
}

// reply is a script without memory.
func reply(f func(seam.Request) seam.Reply) func(int) Script {
	return func(int) Script { return func(r seam.Request) (seam.Reply, error) { return f(r), nil } }
}

// rounds is a script that uses its first reply when the request shows no
// results yet, the second when it shows those of the first, and so on.
func rounds(replies ...seam.Reply) func(int) Script {
	return reply(func(r seam.Request) seam.Reply {
		n := 0
		for _, m := range r.Messages {
			if m.Role == parley.RoleTool {
				n++
			}
		}
		return replies[min(n, len(replies)-1)]
	})
}

// chain is the script of three agents that hand a turn round.
func chain(r seam.Request) seam.Reply {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case r.Agent == "front" && strings.Contains(last.Text(), "[handed over by judge]"):
		return Say("Google, not passwords.")
	case r.Agent == "front":
		return Use("", To("finder", "needs data"))
	case r.Agent == "finder" && len(Results(r)) == 0:
		return Use("", Tool("look", `{"q":"login"}`), Tool("seek", `{"q":"login"}`))
	case r.Agent == "finder":
		return Use("", To("judge", ""))
	}
	return Use("The newer source wins.", To("front", ""))
}

func failing(o parley.Outcome, why string) map[string]WorldTool {
	return map[string]WorldTool{"add": {Run: func(parley.ToolCall) parley.ToolResult {
		return parley.ToolResult{Outcome: o, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: why}}
	}}}
}

func scenarios() []*scenario {
	return append(alone(), together()...)
}

func alone() []*scenario {
	add := Use("I add it.", Tool("add", `{"name":"a"}`))
	return []*scenario{
		{
			name: "a_plain_turn_is_two_commits", script: rounds(Say("It is Google.")),
			message: "It is Google.", commits: 2,
		},
		{
			name:    "reads",
			script:  rounds(Use("", Tool("look", `{}`), Tool("seek", `{"q":1}`)), Use("", Tool("look", `{"page":2}`)), Say("Found.")),
			message: "Found.", outcomes: []string{"look ok", "look ok", "seek ok"}, commits: 4,
		},
		{
			name: "agents_hand_a_turn_round", script: reply(chain),
			message: "Google, not passwords.", outcomes: []string{"look ok", "seek ok"}, commits: 6,
		},
		{
			name: "a_write", script: rounds(add, Say("Added.")),
			message: "Added.", outcomes: []string{"add ok"}, commits: 5,
		},
		{
			name: "a_write_that_can_be_looked_up", script: rounds(add, Say("Added.")), tools: map[string]WorldTool{"add": {Reconcile: true}},
			message: "Added.", outcomes: []string{"add ok"}, commits: 5, loose: true,
		},
		{
			name: "a_write_that_is_asked_for", script: rounds(add, Say("Added.")), tools: map[string]WorldTool{"add": {Ask: true}},
			message: "Added.", outcomes: []string{"add ok"}, commits: 7,
		},
		{
			name: "a_write_that_a_person_refuses", script: rounds(add, Say("Not added.")), tools: map[string]WorldTool{"add": {Ask: true}},
			choice: parley.ChoiceDeny, message: "Not added.", outcomes: []string{"add denied"}, commits: 5,
		},
		{
			name: "an_unknown_write_is_asked_about", script: rounds(add, Say("Added.")), tools: failing(parley.OutcomeUnknown, "timed out"),
			message: "Added.", outcomes: []string{"add unknown"}, commits: 7, loose: true,
		},
		{
			name: "an_unknown_write_is_done_again_on_demand", script: rounds(add, Say("Added.")),
			tools:  map[string]WorldTool{"add": {Lost: true}},
			choice: parley.ChoiceAgain, message: "Added.", outcomes: []string{"add ok", "add unknown"}, commits: 9, loose: true,
		},
		{
			name: "an_unknown_write_is_told_when_nobody_can_be_asked", script: rounds(add, Say("Perhaps added.")),
			tools: failing(parley.OutcomeUnknown, "timed out"), change: func(a *parley.App) { a.Policy.Unattended = true },
			message: "Perhaps added.", outcomes: []string{"add unknown"}, commits: 5, loose: true,
		},
		{
			name: "a_write_that_fails", script: rounds(add, Say("It said no.")), tools: failing(parley.OutcomeError, "no"),
			message: "It said no.", outcomes: []string{"add error"}, commits: 5, loose: true,
		},
		{
			name: "an_idempotent_call", script: rounds(Use("", Tool("put", `{}`)), Say("Put.")),
			message: "Put.", outcomes: []string{"put ok"}, commits: 4,
		},
		{
			name: "an_idempotent_call_whose_key_is_not_kept", script: rounds(Use("", Tool("put", `{}`)), Say("Put.")),
			change:  func(a *parley.App) { a.Tools[2].KeyTTL = 0 },
			message: "Put.", outcomes: []string{"put ok"}, commits: 5,
		},
		{
			name: "writes_go_in_order", script: rounds(Use("", Tool("look", `{}`), Tool("add", `{"n":1}`), Tool("add", `{"n":2}`)), Say("Both.")),
			message: "Both.", outcomes: []string{"add ok", "add ok", "look ok"}, commits: 7,
		},
		{
			name:    "tools_beside_a_handoff_run_first",
			script:  reply(besides),
			message: "Judged.", outcomes: []string{"look ok"}, commits: 3,
		},
		{
			name: "a_handoff_that_is_not_allowed_is_told", script: rounds(Use("", To("judge", "")), Say("I stay.")),
			message: "I stay.", commits: 3,
		},
		{
			name: "a_tool_that_the_agent_lacks_is_told", script: rounds(Use("", Tool("fly", `{}`)), Say("I cannot fly.")),
			message: "I cannot fly.", outcomes: []string{"fly error"}, commits: 3,
		},
		{
			name: "a_busy_model_is_called_again", script: busy,
			message: "Here it is.", commits: 6,
		},
		{
			name: "an_empty_reply_is_asked_for_once_more", script: silent,
			message: "Now.", commits: 3,
		},
		{
			name: "too_many_steps", script: reply(func(r seam.Request) seam.Reply {
				return Use("Looking.", Tool("look", `{"page":`+string(rune('0'+len(Results(r))))+`}`))
			}),
			budgets: parley.Budgets{MaxSteps: 2}, message: "Looking.", code: "budget_steps",
			outcomes: []string{"look ok", "look ok"}, commits: 3, loose: true,
		},
		{
			name: "a_direct_call", call: &parley.ToolCall{Call: "direct", Name: "look", Input: json.RawMessage(`{}`)},
			script: rounds(), message: "done", outcomes: []string{"look ok"}, commits: 1,
		},
		{
			name: "a_direct_write", call: &parley.ToolCall{Call: "direct", Name: "add", Input: json.RawMessage(`{}`)},
			script:  rounds(),
			message: "done", lost: "The outcome of this call is unknown: it may or may not have taken effect. It was not repeated.\nDo not repeat it; tell the user.", outcomes: []string{"add ok"}, commits: 3, loose: true,
		},
	}
}

func besides(r seam.Request) seam.Reply {
	if r.Agent == "front" {
		return Use("", To("finder", "first"), Tool("look", `{}`), To("judge", "second"))
	}
	return Say("Judged.")
}

// busy fails before its text, then in its middle, then answers.
func busy(n int) Script {
	return func(seam.Request) (seam.Reply, error) {
		n++
		switch n {
		case 1:
			return seam.Reply{}, parley.Errorf(parley.CodeRateLimited, "too many requests")
		case 2:
			return Say("Here"), parley.Errorf(parley.CodeUnavailable, "the connection broke")
		}
		return Say("Here it is."), nil
	}
}

func silent(n int) Script {
	return func(seam.Request) (seam.Reply, error) {
		if n++; n == 1 {
			return seam.Reply{StopReason: "end_turn"}, nil
		}
		return Say("Now."), nil
	}
}

func sorted(xs []string) []string {
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs
}
