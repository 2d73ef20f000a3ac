package loop

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

var testModel = seam.ModelInfo{Name: "m", ContextTokens: 40_000, MaxOutputTokens: 4_000, InputUSD: 1, OutputUSD: 5}

func testGiven(change ...func(*parley.App)) given {
	schema := json.RawMessage(`{"type":"object"}`)
	app := &parley.App{
		Name: "test", Entry: "front", Model: "m",
		Agents: map[string]parley.AgentDef{
			"front":  {Name: "front", Prompt: "You answer.", Tools: []string{"look", "add"}, Handoffs: []string{"finder"}},
			"finder": {Name: "finder", Prompt: "You find.", Tools: []string{"look"}, Handoffs: []string{"front"}, History: parley.HistoryNone},
		},
		Tools: []parley.ToolDecl{
			{Name: "look", InputSchema: schema, Effect: parley.EffectRead},
			{Name: "put", InputSchema: schema, Effect: parley.EffectIdempotent},
			{Name: "add", InputSchema: schema},
		},
	}
	for _, f := range change {
		f(app)
	}
	return given{app: app, model: func(string) (seam.ModelInfo, error) { return testModel, nil }}
}

// entryOf is a payload with its agent. A bare payload belongs to agent front.
type entryOf struct {
	agent   parley.AgentPath
	payload parley.Payload
}

func by(agent parley.AgentPath, p parley.Payload) entryOf { return entryOf{agent, p} }

// fold makes the state of a session from payloads or entries. Each turn.started begins a new turn.
func fold(t testing.TB, events ...any) *parley.Session {
	t.Helper()
	s := &parley.Session{}
	all := append([]any{parley.SessionCreated{App: "test", User: "u"}}, events...)
	turn := parley.TurnID("t0")
	for i, x := range all {
		e, ok := x.(entryOf)
		if !ok {
			e = by("front", x.(parley.Payload))
		}
		if e.payload.EventType() == "turn.started" {
			turn = parley.TurnID(fmt.Sprintf("t%d", i))
		}
		ev := parley.NewEvent(turn, e.agent, e.payload)
		ev.Session, ev.Seq, ev.Time = "s", int64(i+1), time.Unix(int64(i), 0)
		if err := s.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func asked(b parley.Budgets) parley.TurnStarted {
	return parley.TurnStarted{TurnRequest: parley.TurnRequest{
		Origin: parley.OriginUser, Message: parley.Text(parley.RoleUser, "What is the spec?"), Budgets: b,
	}}
}

func text(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }

func tool(call, name, input string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Call: parley.CallID(call), Name: name, Input: json.RawMessage(input)}
}

func hand(call, to, why string) parley.Part {
	return parley.Part{Type: parley.PartHandoff, Call: parley.CallID(call), Name: to, Text: why}
}

// says is a model call with its reply and the tool calls requested in it.
func says(agent parley.AgentPath, call string, parts ...parley.Part) []any {
	es := []any{
		by(agent, parley.ModelStarted{Call: parley.CallID(call), Model: "m"}),
		by(agent, parley.ModelReplied{Call: parley.CallID(call), Model: "m", Parts: parts, Usage: parley.Usage{InputTokens: 100, OutputTokens: 10}}),
	}
	for _, p := range parts {
		if p.Type == parley.PartToolCall {
			es = append(es, by(agent, parley.ToolRequested{Call: p.Call, Name: p.Name, Input: p.Input}))
		}
	}
	return es
}

func ended(call, output string) parley.ToolEnded {
	return parley.ToolEnded{ToolResult: parley.ToolResult{Call: parley.CallID(call), Outcome: parley.OutcomeOK, Output: output}}
}

func join(lists ...any) []any {
	var all []any
	for _, l := range lists {
		if es, ok := l.([]any); ok {
			all = append(all, es...)
		} else {
			all = append(all, l)
		}
	}
	return all
}
