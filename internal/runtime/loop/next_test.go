package loop

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-server/parley"
)

// lines shows actions as one line each.
func lines(acts []action) []string {
	var out []string
	for _, a := range acts {
		switch a := a.(type) {
		case startAgent:
			out = append(out, "start "+a.Name)
		case callModel:
			out = append(out, "call "+string(a.Agent))
		case runTool:
			out = append(out, fmt.Sprintf("run %s %s", a.Name, a.Call))
		case settle:
			out = append(out, "settle "+string(a.Call))
		case ask:
			out = append(out, fmt.Sprintf("ask %s %s", a.Kind, a.Call))
		case handoff:
			out = append(out, fmt.Sprintf("handoff %s %s %q", a.From, a.To, a.Why))
		case compact:
			out = append(out, fmt.Sprintf("compact through %d, %d dropped", a.Through, a.Dropped))
		case finish:
			out = append(out, "finish: "+a.Message)
		case fail:
			line := fmt.Sprintf("fail %s: %s", a.Error.Code, a.Response.Message)
			if a.Budget != nil {
				line += fmt.Sprintf(" [%s %g of %g]", a.Budget.Name, a.Budget.Used, a.Budget.Limit)
			}
			out = append(out, line)
		case stop:
			out = append(out, "stop")
		}
	}
	return out
}

// toolsAsList lets cmp compare a turn's calls.
var toolsAsList = cmp.Transformer("list", func(ts parley.Tools) (list []*parley.Tool) {
	for _, c := range ts.All() {
		list = append(list, c)
	}
	return list
})

func TestNext(t *testing.T) {
	t.Parallel()
	front := parley.AgentStarted{Name: "front"}
	started := func(call, name string, e parley.Effect) parley.ToolStarted {
		return parley.ToolStarted{Call: parley.CallID(call), Name: name, Input: []byte("{}"), Effect: e, Attempt: 1}
	}
	lost := parley.ToolEnded{Effect: parley.EffectWrite, ToolResult: parley.ToolResult{Call: "w", Outcome: parley.OutcomeUnknown}}
	askedWhat := parley.InteractionOpened{Interaction: parley.Interaction{ID: "i", Kind: parley.KindUnknown, Call: "w"}}
	write := join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", "{}")), started("w", "add", parley.EffectWrite))
	reads := func(b parley.Budgets) []any {
		return join(asked(b), front, says("front", "c", text("Looking."), tool("a", "look", "{}"), tool("b", "look", `{"p":1}`)))
	}
	again := func(n int, output string) []any {
		es := join(asked(parley.Budgets{}), front)
		for i := range n {
			call := fmt.Sprint("c", i)
			es = join(es, says("front", call, text(call), tool(call+"x", "look", `{"q": 1}`)), ended(call+"x", output))
		}
		return es
	}

	tests := map[string]struct {
		events []any
		change func(*parley.App)
		want   []string
	}{
		"a turn begins with its entry agent": {join(asked(parley.Budgets{})), nil, []string{"start front"}},
		"then its model is called":           {join(asked(parley.Budgets{}), front), nil, []string{"call front"}},
		"an agent whose model speaks waits":  {join(asked(parley.Budgets{}), front, parley.ModelStarted{Call: "c"}), nil, nil},
		"text ends the turn":                 {join(asked(parley.Budgets{}), front, says("front", "c", text("It is Google."))), nil, []string{"finish: It is Google."}},
		"reads are ready together":           {reads(parley.Budgets{}), nil, []string{"run look a", "run look b"}},
		"a started read runs again":          {join(reads(parley.Budgets{}), started("a", "look", parley.EffectRead), ended("b", "x")), nil, []string{"run look a"}},
		"after the tools the model is called": {
			join(reads(parley.Budgets{}), ended("a", "x"), ended("b", "y")), nil, []string{"call front"},
		},
		"one write puts all in order": {
			join(asked(parley.Budgets{}), front, says("front", "c", tool("a", "look", "{}"), tool("b", "add", "{}"), tool("c", "look", "{}"))), nil,
			[]string{"run look a"},
		},
		"a started write without an outcome is settled": {write, nil, []string{"settle w"}},
		"a started idempotent call runs again": {
			join(asked(parley.Budgets{}), front, says("front", "c", tool("p", "put", "{}")), started("p", "put", parley.EffectIdempotent)), nil,
			[]string{"run put p"},
		},
		"a human is asked about an unknown outcome": {join(write, lost), nil, []string{"ask unknown w"}},
		"before the next write goes": {
			join(asked(parley.Budgets{}), front, says("front", "c", tool("w", "add", "{}"), tool("x", "add", "{}")), started("w", "add", parley.EffectWrite), lost), nil,
			[]string{"ask unknown w"},
		},
		"an unattended model is told": {join(write, lost), func(a *parley.App) { a.Policy.Unattended = true }, []string{"call front"}},
		"an answered question is not asked again": {
			join(write, lost, askedWhat, parley.InteractionAnswered{ID: "i", Answer: parley.Answer{Choice: parley.ChoiceLeave}}), nil, []string{"call front"},
		},
		"what a human wants again runs": {
			join(write, lost, askedWhat, parley.InteractionAnswered{ID: "i", Answer: parley.Answer{Choice: parley.ChoiceAgain}},
				by("", parley.ToolRequested{Call: "w2", Name: "add", Input: []byte("{}"), Redo: "w"})), nil, []string{"run add w2"},
		},
		"a handoff": {
			join(asked(parley.Budgets{}), front, says("front", "c", text("One moment."), hand("h", "finder", "needs data"), hand("i", "front", ""))), nil,
			[]string{`handoff front finder "needs data"`},
		},
		"tools beside a handoff go first": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "finder", ""), tool("a", "look", "{}"))), nil, []string{"run look a"},
		},
		"and then the handoff": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "finder", ""), tool("a", "look", "{}")), ended("a", "x")), nil, []string{`handoff front finder ""`},
		},
		"a handoff that is not allowed goes back to the model": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "judge", ""))), nil, []string{"call front"},
		},
		"the receiving agent goes on": {
			join(asked(parley.Budgets{}), front, says("front", "c", hand("h", "finder", "")), parley.AgentHandoff{From: "front", To: "finder", Name: "finder"}), nil,
			[]string{"call finder"},
		},
		"depth is bounded": {
			join(asked(parley.Budgets{MaxDepth: 1}), front, says("front", "c", hand("h", "finder", "")), parley.AgentHandoff{From: "front", To: "finder", Name: "finder"},
				says("finder", "d", text("Found it."), hand("i", "front", ""))), nil,
			[]string{"fail budget_depth:  [depth 1 of 1]"},
		},
		"a steer in time keeps the turn going": {
			join(asked(parley.Budgets{}), front, says("front", "c", text("Done.")), by("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "wait")})), nil,
			[]string{"call front"},
		},
		"an empty reply is asked for once more": {join(asked(parley.Budgets{}), front, says("front", "c", text(" "))), nil, []string{"call front"}},
		"and not twice":                         {join(asked(parley.Budgets{}), front, says("front", "c"), says("front", "d")), nil, []string{"fail model_error: "}},
		"a failed call is repeated": {
			join(asked(parley.Budgets{}), front, parley.ModelStarted{Call: "c"}, parley.ModelFailed{Call: "c", Retry: true, Partial: "Hel"}), nil, []string{"call front"},
		},
		"unless it is for good": {
			join(asked(parley.Budgets{}), front, parley.ModelStarted{Call: "c"}, parley.ModelFailed{Call: "c", Partial: "Hel", Error: parley.ErrorInfo{Code: parley.CodeModel}}), nil,
			[]string{"fail model_error: Hel"},
		},
		"steps": {join(reads(parley.Budgets{MaxSteps: 1}), ended("a", "x"), ended("b", "y")), nil, []string{"fail budget_steps: Looking. [steps 1 of 1]"}},
		"tool calls over the budget do not run": {
			reads(parley.Budgets{MaxToolCalls: 1}), nil, []string{"fail budget_tool_calls: Looking. [tool_calls 2 of 1]"},
		},
		"but started writes are settled first": {
			join(asked(parley.Budgets{MaxToolCalls: 1}), front, says("front", "c", tool("w", "add", "{}"), tool("x", "add", "{}")), started("w", "add", parley.EffectWrite)), nil,
			[]string{"settle w"},
		},
		"tokens": {
			join(asked(parley.Budgets{MaxTotalTokens: 300}), front, says("front", "c", text("So far."), tool("a", "look", "{}")), ended("a", "x")), nil,
			[]string{"fail budget_tokens: So far. [tokens 110 of 300]"},
		},
		"usd":                           {join(asked(parley.Budgets{MaxUSD: 0.0002}), front), nil, []string{"fail budget_usd:  [usd 0 of 0.0002]"}},
		"two equal rounds are patience": {again(2, "same"), nil, []string{"call front"}},
		"three are a loop":              {again(3, "same"), nil, []string{"fail model_error: c2"}},
		"a message from the user breaks the row": {
			join(again(2, "same"), by("", parley.TurnSteered{Message: parley.Text(parley.RoleUser, "again")}), says("front", "z", tool("zx", "look", `{"q":1}`)), ended("zx", "same")), nil,
			[]string{"call front"},
		},
		"a turn that is to stop settles": {join(write, by("", parley.TurnStopRequested{})), nil, []string{"settle w"}},
		"and then stops":                 {join(write, by("", parley.TurnStopRequested{}), lost), nil, []string{"stop"}},
		"an agent that is gone fails the turn": {
			join(asked(parley.Budgets{}), by("old", parley.AgentStarted{Name: "old"})), nil, []string{"fail invalid: "},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := testGiven()
			if tt.change != nil {
				g = testGiven(tt.change)
			}
			s := fold(t, tt.events...)
			before := s.Clone()
			if diff := cmp.Diff(tt.want, lines(next(g, s))); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, *s, toolsAsList, cmpopts.IgnoreUnexported(parley.Agent{})); diff != "" {
				t.Errorf("next changed the state:\n%s", diff)
			}
		})
	}
}
