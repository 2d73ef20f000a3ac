package telemetry

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// Limits on content in a trace. The log has all of it.
const (
	maxText  = 8 << 10 // bytes of one text
	maxParts = 32      // of one message
)

// message is a message in the form of the conventions.
type message struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// messages is one message as an attribute's JSON. It never has signatures, files or
// provider state.
func messages(role parley.Role, parts []parley.Part, finish string) string {
	return encode([]message{said(role, parts, finish)})
}

// said is one message.
func said(role parley.Role, parts []parley.Part, finish string) message {
	m := message{Role: string(role), Parts: []part{}, Finish: finish}
	for _, p := range parts {
		if len(m.Parts) == maxParts {
			break
		}
		switch p.Type {
		case parley.PartText:
			m.Parts = append(m.Parts, part{Type: "text", Content: clip(p.Text)})
		case parley.PartResource:
			m.Parts = append(m.Parts, part{Type: "text", Content: clip("[" + p.Server + ": " + p.URI + "]\n" + p.Text)})
		case parley.PartAttachment:
			m.Parts = append(m.Parts, part{Type: "text", Content: clip("[" + p.Name + "]\n" + p.Text)})
		case parley.PartThinking:
			m.Parts = append(m.Parts, part{Type: "reasoning", Content: clip(p.Text)})
		case parley.PartToolCall:
			m.Parts = append(m.Parts, part{Type: "tool_call", ID: string(p.Call), Name: p.Name, Arguments: arguments(p.Input)})
		case parley.PartHandoff:
			m.Parts = append(m.Parts, part{Type: "handoff", ID: string(p.Call), Name: p.Name, Content: clip(p.Text)})
		}
	}
	return m
}

// arguments returns a call's input, or the beginning of its text if it is long.
func arguments(raw json.RawMessage) json.RawMessage {
	if len(raw) <= maxText && json.Valid(raw) {
		return raw
	}
	return json.RawMessage(encode(clip(string(raw))))
}

// clip cuts a long text between two characters, and marks the cut.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// encode is JSON of plain data, which cannot fail.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}
