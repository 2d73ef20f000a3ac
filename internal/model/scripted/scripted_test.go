package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

func user(text ...string) parley.Message {
	m := parley.Message{Role: parley.RoleUser}
	for _, t := range text {
		m.Parts = append(m.Parts, parley.Part{Type: parley.PartText, Text: t})
	}
	return m
}

func assistant(parts ...parley.Part) parley.Message {
	return parley.Message{Role: parley.RoleAssistant, Parts: parts}
}

func results(parts ...parley.Part) parley.Message {
	return parley.Message{Role: parley.RoleTool, Parts: parts}
}

func text(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }

func call(id string) parley.Part {
	return parley.Part{Type: parley.PartToolCall, Call: parley.CallID(id), Name: "look_up", Input: json.RawMessage(`{"query":"x"}`)}
}

func result(id string) parley.Part {
	return parley.Part{Type: parley.PartToolResult, Call: parley.CallID(id), Name: "look_up", Text: "found"}
}

func TestInvalidHistoryIsRefused(t *testing.T) {
	t.Parallel()
	q := user("What?")
	for name, c := range map[string]struct {
		messages []parley.Message
		want     string // part of the error; "" means valid
	}{
		"a question":                    {[]parley.Message{q}, ""},
		"a conversation":                {[]parley.Message{q, assistant(text("It.")), user("Why?", "[handed over by x]")}, ""},
		"calls with results":            {[]parley.Message{q, assistant(text("I look."), call("a"), call("b")), results(result("b"), result("a"))}, ""},
		"nothing":                       {nil, "it is empty"},
		"the assistant first":           {[]parley.Message{assistant(text("Hi.")), q}, "begins with the assistant"},
		"the assistant last":            {[]parley.Message{q, assistant(text("Hi."))}, "the last message is the assistant's"},
		"two users in a row":            {[]parley.Message{q, q}, "messages 0 and 1 are both the user's"},
		"two assistants in a row":       {[]parley.Message{q, assistant(text("a")), assistant(text("b")), q}, "messages 1 and 2 are both the assistant's"},
		"an empty message":              {[]parley.Message{{Role: parley.RoleUser}}, "it is empty"},
		"a blank text":                  {[]parley.Message{user(" \n")}, "a text is blank"},
		"thinking alone":                {[]parley.Message{q, assistant(parley.Part{Type: parley.PartThinking, Text: "hm"}), q}, "thinking alone"},
		"a call without a result":       {[]parley.Message{q, assistant(call("a")), q}, "follows 1 calls without their results"},
		"a call at the end":             {[]parley.Message{q, assistant(call("a"))}, "the last 1 calls have no result"},
		"one of two results":            {[]parley.Message{q, assistant(call("a"), call("b")), results(result("a"))}, "1 calls have no result"},
		"a result twice":                {[]parley.Message{q, assistant(call("a")), results(result("a"), result("a"))}, `the result of "a" belongs to no open call`},
		"a result of nothing":           {[]parley.Message{q, assistant(text("x")), results(result("a"))}, "follows no calls"},
		"a handoff without a result":    {[]parley.Message{q, assistant(parley.Part{Type: parley.PartHandoff, Call: "h", Name: "x"}), q}, "follows 1 calls without their results"},
		"an id twice":                   {[]parley.Message{q, assistant(call("a")), results(result("a")), assistant(call("a")), results(result("a"))}, `the id "a" of a call is missing or was used before`},
		"no id":                         {[]parley.Message{q, assistant(call("")), results(result(""))}, `the id "" of a call`},
		"a blank result":                {[]parley.Message{q, assistant(call("a")), results(parley.Part{Type: parley.PartToolResult, Call: "a"})}, `the result of "a" is blank`},
		"a call by the user":            {[]parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{call("a")}}}, `a part of type "tool_call" cannot be the user's`},
		"text among results":            {[]parley.Message{q, assistant(call("a")), results(result("a"), text("x"))}, `a part of type "text" cannot be the tool's`},
		"a part of a type nobody knows": {[]parley.Message{{Role: parley.RoleUser, Parts: []parley.Part{{Type: "song"}}}}, `a part of type "song"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := scripted.Func("scripted/x", func(seam.Request) (seam.Reply, error) {
				return seam.Reply{Parts: []parley.Part{text("ok")}}, nil
			}, scripted.Options{})
			_, err := reply(t, m, seam.Request{Messages: c.messages})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v for a valid history", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || parley.CodeOf(err) != parley.CodeInvalid):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestPaceAndCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, err := scripted.Lines("scripted/x", "say one two three four", scripted.Options{Pace: 25 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var at []time.Duration
		for d, err := range m.Stream(t.Context(), seam.Request{Messages: []parley.Message{user("?")}}) {
			if err != nil {
				t.Fatal(err)
			}
			if d.Text != "" {
				at = append(at, time.Since(start))
			}
		}
		if diff := cmp.Diff([]time.Duration{0, 25e6, 50e6, 75e6}, at); diff != "" {
			t.Errorf("times of words (-want +got):\n%s", diff)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start = time.Now()
		for _, err = range m.Stream(ctx, seam.Request{Messages: []parley.Message{user("?")}}) {
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Millisecond {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestReplyKeepsToTheLimit(t *testing.T) {
	t.Parallel()
	m, err := scripted.Lines("scripted/x", "say "+strings.Repeat("語", 100), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := reply(t, m, seam.Request{Messages: []parley.Message{user("?")}, MaxTokens: 10})
	want := seam.Reply{
		Model: "scripted/x", Parts: []parley.Part{text(strings.Repeat("語", 13))}, StopReason: "max_tokens",
		Usage: got.Usage,
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got.Usage.InputTokens == 0 || got.Usage.OutputTokens == 0 {
		t.Errorf("got usage %+v", got.Usage)
	}
}

const small = `
ignore: [spec]
topics: [{name: Stripe, group: pay, library: stripe}]
groups: {pay: {words: [payments], search: [payment]}}
templates:
  bye: Bye, {{ .Agent }}.
agents:
  one:
    - when: has .Question "bye"
      say: '{{ template "bye" . }}'
    - when: .Results
      say: "{{ range .Results }}{{ .Tool }} {{ index .Input \"query\" }}: {{ .Output }}{{ if .Failed }} (failed){{ end }}{{ end }}"
    - when: .Handed
      say: "{{ .Handed.From }} because {{ .Handed.Why }} found {{ len .Handed.Results }} and said {{ .Handed.Text }}"
    - call: [{tool: look_up, input: {query: '{{ words (keywords .Question) }}', limit: 3}}]
      handoff: {to: two, why: 'asked {{ .Question }} after {{ len .History }}'}
`

func TestAScriptOfAUsersOwn(t *testing.T) {
	t.Parallel()
	m, err := scripted.New("scripted/mine", []byte(small), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tools, to := []parley.ToolDecl{{Name: "look_up"}}, []seam.Handoff{{Agent: "two"}}
	past := []parley.Message{user("Old?"), assistant(text("Old."))}
	for name, c := range map[string]struct {
		r    seam.Request
		want []parley.Part
	}{
		"a named template": {seam.Request{Messages: []parley.Message{user("Good bye")}}, []parley.Part{text("Bye, one.")}},
		"a call and a handoff": {
			seam.Request{Messages: append(past, user("the Stripe spec?")), Tools: tools, Handoffs: to},
			[]parley.Part{
				{Type: parley.PartToolCall, Name: "look_up", Input: json.RawMessage(`{"limit":3,"query":"stripe"}`)},
				{Type: parley.PartHandoff, Name: "two", Text: "asked the Stripe spec? after 1"},
			},
		},
		"what is not offered is left out": {
			seam.Request{Messages: []parley.Message{user("Stripe?")}, Handoffs: to},
			[]parley.Part{{Type: parley.PartHandoff, Name: "two", Text: "asked Stripe? after 0"}},
		},
		"nothing is offered": {
			seam.Request{Messages: []parley.Message{user("Stripe?")}},
			[]parley.Part{text("I cannot do this now: the tool look_up is not available in this turn.")},
		},
		"own results": {
			seam.Request{Messages: []parley.Message{user("Stripe?"), assistant(call("a")), results(result("a"))}},
			[]parley.Part{text("look_up x: found")},
		},
		"what was handed over": {
			seam.Request{Messages: []parley.Message{user("Stripe?", "[handed over by two]\nreason: it knows\nmore\n[result of a {\"query\":\"q\"}]\nline 1\nline 2\n[result of b {}]\nFailed: no\n[text of two]\nHere\nit is.")}},
			[]parley.Part{text("two because it knows\nmore found 2 and said Here\nit is.")},
		},
		"a reply that was cut off is the same turn": {
			seam.Request{Messages: append(past, user("bye"), assistant(parley.Part{Type: parley.PartText, Text: "By\n[cut off]", Cut: true}), user("[Your reply was cut off there. Go on.]"))},
			[]parley.Part{text("Bye, one.")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.r.Agent = "one"
			got, err := reply(t, m, c.r)
			if diff := cmp.Diff(c.want, got.Parts); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, err := reply(t, m, seam.Request{Agent: "three", Messages: []parley.Message{user("?")}}); parley.CodeOf(err) != parley.CodeModel {
		t.Errorf("got %v for an agent without rules", err)
	}
}

func TestMistakesInAScript(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, want string }{
		"an unknown key":     {"agents: {one: [{sya: x}]}", "sya"},
		"not YAML":           {"agents: [", "did not find expected"},
		"no agents":          {"ignore: [x]", "agents: the script has rules for no agent"},
		"a rule of nothing":  {"agents: {one: [{when: .Handed}]}", "line 1: agents.one[0]: the rule says nothing"},
		"a bad condition":    {"agents: {one: [{when: 'nosuch .', say: x}]}", `function "nosuch" not defined`},
		"a bad text":         {"agents: {one: [{say: '{{ if }}'}]}", "missing value for if"},
		"a bad template":     {"templates: {x: '{{'}\nagents: {one: [{say: x}]}", "unclosed action"},
		"a call of nothing":  {"agents: {one: [{call: [{input: {}}]}]}", "call 1 names no tool"},
		"a field of nothing": {"agents: {one: [{say: '{{ .Nothing }}'}]}", "there is no .Nothing"},
		"a topic of nothing": {"topics: [{group: x}]\nagents: {one: [{say: x}]}", "topics[0]: has no name"},
	} {
		if _, err := scripted.New("scripted/x", []byte(c.script), scripted.Options{}); err == nil || !strings.Contains(err.Error(), c.want) || parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	m, err := scripted.New("scripted/x", []byte("agents: {one: [{say: '{{ (index .Results 0).Output }}'}]}"), scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reply(t, m, seam.Request{Agent: "one", Messages: []parley.Message{user("?")}}); parley.CodeOf(err) != parley.CodeModel {
		t.Errorf("got %v, want a model error", err)
	}
}
