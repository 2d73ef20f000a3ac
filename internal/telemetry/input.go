package telemetry

import (
	"github.com/parley-server/parley"
)

// Limits of what a chat span has as its input.
const (
	maxInput    = 16 << 10 // bytes of its messages, about
	maxMessages = 64
)

// input is what an agent's model was given in this turn, as far as the log has it: the
// question, the model's replies, the results of tools. Instructions and earlier turns are
// not in the events of a turn, so no span has them. If it is too long, the middle is
// dropped: the first message is the question.
type input struct {
	list []message
	size []int
	sum  int
	gone bool // there were more
}

func (in *input) add(m message) {
	if len(m.Parts) == 0 {
		return
	}
	n := len(encode(m))
	in.list, in.size, in.sum = append(in.list, m), append(in.size, n), in.sum+n
	for len(in.list) > 2 && (in.sum > maxInput || len(in.list) > maxMessages) {
		in.sum -= in.size[1]
		in.list = append(in.list[:1:1], in.list[2:]...)
		in.size = append(in.size[:1:1], in.size[2:]...)
		in.gone = true
	}
}

func (in *input) attribute() string {
	list := in.list
	if in.gone {
		list = append([]message{list[0], {Role: "user", Parts: []part{{Type: "text", Content: "[…]"}}}}, list[1:]...)
	}
	return encode(list)
}

// heard adds an event to the input of its agent's next call.
func (t *turn) heard(e parley.Event, p parley.Payload) {
	if !t.d.content {
		return
	}
	to := func(path parley.AgentPath) *input {
		if t.inputs[path] == nil {
			t.inputs[path] = &input{}
		}
		return t.inputs[path]
	}
	user := func(text string) message {
		return said(parley.RoleUser, []parley.Part{{Type: parley.PartText, Text: text}}, "")
	}
	switch p := p.(type) {
	case parley.AgentStarted:
		if p.Parent == "" {
			to(e.Agent).add(t.question)
		} else {
			to(e.Agent).add(user(p.Input))
		}
	case parley.AgentHandoff:
		in := to(p.To)
		if len(in.list) == 0 {
			in.add(t.question)
		}
		if p.Why != "" {
			in.add(user(p.Why))
		}
	case parley.TurnSteered:
		for _, in := range t.inputs {
			in.add(said(p.Message.Role, p.Message.Parts, ""))
		}
	case parley.ModelReplied:
		if !e.Agent.OfSampling() {
			to(e.Agent).add(said(parley.RoleAssistant, p.Parts, ""))
		}
	case parley.ToolEnded:
		if c := t.tools[p.Call]; c != nil {
			to(c.agent).add(message{Role: "tool", Parts: []part{{Type: "tool_call_response", ID: string(p.Call), Response: clip(p.Output)}}})
		}
	case parley.AgentEnded:
		delete(t.inputs, e.Agent)
	}
}
