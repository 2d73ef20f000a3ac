package mistral_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/mistral"
)

// ring makes two agents that hand over to each other, with the real client.
func (j *js) ring() (front, finder string) {
	j.t.Helper()
	front = at(j.call("beta.agents.create", o{"model": "mistral-medium-latest", "name": "front", "instructions": "You answer.", "description": "answers"}), "id").(string)
	finder = at(j.call("beta.agents.create", o{
		"model": "mistral-medium-latest", "name": "finder", "instructions": "You find.", "tools": l{lookUp}, "completionArgs": o{"temperature": 0.1},
	}), "id").(string)
	j.call("beta.agents.update", o{"agentId": front, "updateAgentRequest": o{"handoffs": l{finder}}})
	j.call("beta.agents.update", o{"agentId": finder, "updateAgentRequest": o{"handoffs": l{front}}})
	return front, finder
}

func types(list []any, path ...any) string {
	var names []string
	for _, e := range list {
		names = append(names, fmt.Sprint(at(e, path...)))
	}
	return strings.Join(names, " ")
}

// sum joins the text of a stream's events.
func sum(events []any) string {
	var b strings.Builder
	for _, e := range events {
		if s, ok := at(e, "data", "content").(string); ok {
			b.WriteString(s)
		}
	}
	return b.String()
}

func TestJS_agents(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, mistral.Options{})
	j := newJS(t, srv.URL)
	front, finder := j.ring()
	got := j.call("beta.agents.get", o{"agentId": front})
	j.same("You answer.", at(got, "instructions"))
	j.same(finder, at(got, "handoffs", 0))
	j.same(1.0, at(got, "version"))
	got = j.call("beta.agents.update", o{"agentId": finder, "updateAgentRequest": o{"instructions": "You find well.", "tools": l{}}})
	j.same(0, len(at(got, "tools").(l)))
	j.same("You find well.", at(got, "instructions"))
	j.same(0.1, at(got, "completionArgs", "temperature"))
	j.same(2, len(j.call("beta.agents.list", o{}).(l)))
	j.call("beta.agents.delete", o{"agentId": finder})
	for name, c := range map[string]struct {
		path   string
		args   any
		status float64
	}{
		"one that is gone":         {"beta.agents.get", o{"agentId": finder}, 404},
		"a handoff to nobody":      {"beta.agents.update", o{"agentId": front, "updateAgentRequest": o{"handoffs": l{finder}}}, 400},
		"an unknown model":         {"beta.agents.create", o{"model": "nobody", "name": "x"}, 400},
		"a conversation with none": {"beta.conversations.start", o{"agentId": finder, "inputs": "hello"}, 404},
	} {
		if _, no := j.ask("call", o{"path": c.path, "args": l{c.args}}); no["status"] != c.status {
			t.Errorf("%s: got %v", name, no)
		}
	}
}

func TestJS_conversations(t *testing.T) {
	t.Parallel()
	s, srv := serve(t, mistral.Options{})
	j := newJS(t, srv.URL)
	front, _ := j.ring()

	// A question, as one answer and as a stream, and then another one in the same conversation.
	one := j.call("beta.conversations.start", o{"agentId": front, "inputs": "hello there"})
	j.same("You said hello there", at(one, "outputs", 0, "content"))
	j.same(22.0, at(one, "usage", "totalTokens"))
	id := at(one, "conversationId").(string)
	events := j.stream("beta.conversations.appendStream", o{"conversationId": id, "conversationAppendStreamRequest": o{"inputs": "and again", "handoffExecution": "client"}})
	j.same("conversation.response.started", at(events, 0, "event"))
	j.same("conversation.response.done", at(events, -1, "event"))
	j.same("You said and again", sum(events))
	j.same(id, at(events, 0, "data", "conversationId"))
	j.same("message.input message.output message.input message.output", types(at(j.call("beta.conversations.getHistory", o{"conversationId": id}), "entries").(l), "type"))
	j.same("You said and again", at(j.call("beta.conversations.getMessages", o{"conversationId": id}), "messages", -1, "content"))
	j.same(front, at(j.call("beta.conversations.get", o{"conversationId": id}), "agentId"))

	// A model without an agent, and a function whose results are sent in one append.
	events = j.stream("beta.conversations.startStream", o{"model": "mistral-medium-latest", "instructions": "You help.", "tools": l{lookUp}, "inputs": "look it up"})
	var calls []string
	for _, e := range events {
		if at(e, "event") == "function.call.delta" {
			if c := at(e, "data", "toolCallId").(string); len(calls) == 0 || calls[len(calls)-1] != c {
				calls = append(calls, c)
			}
		}
	}
	j.same(2, len(calls))
	id = at(events, 0, "data", "conversationId").(string)
	result := func(id, text string) o { return o{"type": "function.result", "toolCallId": id, "result": text} }
	more := func(inputs ...any) o {
		return o{"conversationId": id, "conversationAppendRequest": o{"inputs": append(l{}, inputs...), "handoffExecution": "client"}}
	}
	for name, c := range map[string]struct{ args, says any }{
		"a result is missing":    {more(result(calls[0], "x")), "1 results are missing"},
		"of a call of nobody":    {more(result("abc123XYZ", "x"), result(calls[0], "x"), result(calls[1], "x")), "Unexpected tool call id abc123XYZ"},
		"a user after a result":  {more(result(calls[0], "x"), result(calls[1], "x"), o{"role": "user", "content": "x"}), "Unexpected role"},
		"a user in its place":    {more(o{"role": "user", "content": "x"}), "results are missing"},
		"a conversation unknown": {o{"conversationId": "conv_none", "conversationAppendRequest": o{"inputs": "x"}}, "not found"},
	} {
		if _, no := j.ask("call", o{"path": "beta.conversations.append", "args": l{c.args}}); !strings.Contains(fmt.Sprint(no["body"]), c.says.(string)) {
			t.Errorf("%s: got %v", name, no)
		}
	}
	one = j.call("beta.conversations.append", more(result(calls[0], "Google"), result(calls[1], "OAuth")))
	j.same("It is Google, OAuth.", at(one, "outputs", 0, "content"))

	// A new conversation from the history that the client kept.
	one = j.call("beta.conversations.start", o{"agentId": front, "inputs": l{
		o{"type": "message.input", "role": "user", "content": "hello"},
		o{"type": "message.output", "content": "Hi."},
		o{"type": "function.call", "toolCallId": "abc123XYZ", "name": "look_up", "arguments": "{}"},
		result("abc123XYZ", "found"),
	}})
	j.same("It is found.", at(one, "outputs", 0, "content"))

	j.call("beta.conversations.delete", o{"conversationId": id})
	_, no := j.ask("call", o{"path": "beta.conversations.get", "args": l{o{"conversationId": id}}})
	j.same(404.0, no["status"])
	if n := s.Conversations(); n != 2 {
		t.Errorf("%d conversations", n)
	}
}

// TestJS_handoffs: the server performs handoffs itself, except in client mode, which each
// request must ask for.
func TestJS_handoffs(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, mistral.Options{})
	j := newJS(t, srv.URL)
	front, finder := j.ring()

	one := j.call("beta.conversations.start", o{"agentId": front, "inputs": "hand it over"})
	j.same("agent.handoff message.output function.call function.call", types(at(one, "outputs").(l), "type"))
	j.same(finder, at(one, "outputs", 1, "agentId"))

	events := j.stream("beta.conversations.startStream", o{"agentId": front, "inputs": "hand it over", "handoffExecution": "client"})
	j.same("conversation.response.started agent.handoff.started agent.handoff.done conversation.response.done", types(events, "event"))
	j.same("front", at(events, 1, "data", "previousAgentName"))
	j.same(finder, at(events, 2, "data", "nextAgentId"))
	id := at(events, 0, "data", "conversationId").(string)
	// With no input, or with the handoff entry itself.
	events = j.stream("beta.conversations.appendStream", o{"conversationId": id, "conversationAppendStreamRequest": o{"inputs": l{}, "handoffExecution": "client"}})
	j.same("I look.", sum(events))
	var calls []string
	for _, e := range events {
		if at(e, "event") == "function.call.delta" {
			j.same(finder, at(e, "data", "agentId"))
			calls = append(calls, at(e, "data", "toolCallId").(string))
		}
	}
	raw, err := json.Marshal(calls)
	if err != nil || len(calls) != 4 || calls[0] != calls[1] {
		t.Fatalf("calls: %s", raw)
	}
	events = j.stream("beta.conversations.appendStream", o{"conversationId": id, "conversationAppendStreamRequest": o{
		"handoffExecution": "client",
		"inputs":           l{o{"type": "function.result", "toolCallId": calls[0], "result": "a"}, o{"type": "function.result", "toolCallId": calls[2], "result": "b"}},
	}})
	j.same("agent.handoff.done", at(events, -2, "event"))
	entry := o{"type": "agent.handoff", "previousAgentId": finder, "previousAgentName": "finder", "nextAgentId": front, "nextAgentName": "front"}
	one = j.call("beta.conversations.append", o{"conversationId": id, "conversationAppendRequest": o{"inputs": l{entry}, "handoffExecution": "client"}})
	j.same(front, at(one, "outputs", 0, "agentId"))
}
