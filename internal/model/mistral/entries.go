package mistral

import (
	"github.com/parley-server/parley"
)

// An entry is an input of a conversation.
type entry struct {
	Type       string  `json:"type"`
	Role       string  `json:"role,omitempty"`
	Content    any     `json:"content,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
	Name       string  `json:"name,omitempty"`
	Arguments  string  `json:"arguments,omitempty"`
	Result     *string `json:"result,omitempty"`
}

// entries converts our messages to inputs of a conversation.
//
// A past handoff is not written as one, because that might pass the turn on. The text that our
// loop writes for the receiving agent tells about it instead.
type entries struct {
	h    history
	list []entry
	err  error
	// calls in the last assistant message that are handoffs
	handed map[parley.CallID]bool
}

func (w *entries) add(e entry) {
	if n := len(w.list); n > 0 && e.Type == "message.input" && w.list[n-1].Type == "function.result" {
		w.list = append(w.list, entry{Type: "message.output", Role: "assistant", Content: understood})
	}
	w.list = append(w.list, e)
}

func (w *entries) result(id, text string) {
	w.add(entry{Type: "function.result", ToolCallID: id, Result: &text})
}

// message adds the content of a message.
func (w *entries) message(m parley.Message) error {
	switch m.Role {
	case parley.RoleUser:
		content, err := w.h.user(m.Parts)
		if err != nil {
			w.err = err
			return err
		}
		if content != nil {
			w.add(entry{Type: "message.input", Role: "user", Content: content})
		}
	case parley.RoleAssistant:
		w.assistant(m.Parts)
	case parley.RoleTool:
		for _, p := range m.Parts {
			switch {
			case p.Type != parley.PartToolResult:
			case !w.handed[p.Call]:
				w.result(w.h.ids.id(p), resultText(p))
			case p.IsError: // the handoff failed
				w.add(entry{Type: "message.input", Role: "user", Content: "[" + resultText(p) + "]"})
			}
		}
		return w.images(m.Parts)
	}
	return nil
}

// images adds the images of results as a user's message, because a result is only text.
func (w *entries) images(parts []parley.Part) error {
	var out []parley.Part
	of := ""
	for _, p := range parts {
		switch p.Type {
		case parley.PartToolResult:
			of = p.Name
		case parley.PartImage:
			out = append(out, parley.Part{Type: parley.PartText, Text: "[the image " + p.Name + ", which " + of + " returned]"}, p)
		}
	}
	return w.message(parley.Message{Role: parley.RoleUser, Parts: out})
}

func (w *entries) assistant(parts []parley.Part) {
	w.handed = map[parley.CallID]bool{}
	var said []parley.Part
	var calls []entry
	for _, p := range parts {
		switch p.Type {
		case parley.PartText, parley.PartThinking:
			said = append(said, p)
		case parley.PartToolCall:
			f := w.h.function(p)
			calls = append(calls, entry{Type: "function.call", ToolCallID: w.h.ids.id(p), Name: f.Name, Arguments: f.Arguments})
		case parley.PartHandoff:
			w.handed[p.Call] = true
		}
	}
	if m, ok := w.h.assistant(said); ok {
		w.add(entry{Type: "message.output", Role: "assistant", Content: m.Content})
	}
	for _, e := range calls {
		w.add(e)
	}
}

// results adds what followed a reply of the agent; ms begins with it. It returns false if the
// conversation does not wait for these results.
func (w *entries) results(s *state, ms []parley.Message) bool {
	wants := map[string]bool{}
	for _, id := range s.Pending {
		if wants[id] {
			return false // an id that came twice cannot be answered
		}
		wants[id] = true
	}
	if s.HandedBy != "" {
		wants[s.HandedBy] = true
	}
	ids := map[parley.CallID]string{}
	for _, p := range ms[0].Parts {
		if p.Type == parley.PartToolCall || p.Type == parley.PartHandoff {
			ids[p.Call] = p.ProviderID
		}
	}
	for _, m := range ms[1:] {
		switch m.Role {
		case parley.RoleTool:
			for _, p := range m.Parts {
				if p.Type != parley.PartToolResult {
					continue
				}
				id := ids[p.Call]
				if !wants[id] {
					return false
				}
				delete(wants, id)
				w.result(id, resultText(p))
			}
			if w.images(m.Parts) != nil {
				return false
			}
		case parley.RoleUser:
			if w.message(m) != nil {
				return false
			}
		default:
			return false // the agent has said more since
		}
	}
	return len(wants) == 0 && len(w.list) > 0
}
