package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const transfer = "transfer_to_"

// understood converts the request to the brain's. Tools that stand for handoffs become handoffs
// again, and files are opened from the request itself.
func (q *request) understood(d Dialect) (seam.Request, *refusal) {
	r := seam.Request{Model: q.Model}
	for _, n := range []*int64{q.MaxTokens, q.MaxCompletion} {
		if n != nil {
			r.MaxTokens = *n
		}
	}
	r.Temperature = q.Temperature
	if e := q.efforts(); len(e) > 0 {
		r.Effort = e[0]
	}
	for _, t := range q.Tools {
		if agent, ok := strings.CutPrefix(t.Function.Name, transfer); ok {
			r.Handoffs = append(r.Handoffs, seam.Handoff{Agent: agent, Description: t.Function.Description})
			continue
		}
		r.Tools = append(r.Tools, parley.ToolDecl{Name: t.Function.Name, Description: t.Function.Description, InputSchema: schema(t.Function.Parameters)})
	}
	files := map[parley.ArtifactID]seam.File{}
	named := map[string]string{} // names by call id
	for _, m := range q.Messages {
		switch m.Role {
		case "system", "developer":
			r.System = strings.TrimSpace(r.System + "\n\n" + m.said())
		case "user":
			r.Messages = append(r.Messages, parley.Message{Role: parley.RoleUser, Parts: m.heard(files)})
		case "tool":
			p := parley.Part{Type: parley.PartToolResult, Call: parley.CallID(m.CallID), ProviderID: m.CallID, Name: named[m.CallID], Text: m.said()}
			if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == parley.RoleTool {
				r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, p)
				continue
			}
			r.Messages = append(r.Messages, parley.Message{Role: parley.RoleTool, Parts: []parley.Part{p}})
		case "assistant":
			if !replayed(m.Details) {
				return r, &refusal{status: 400, words: "Invalid `signature` in `thinking` block", kind: kindOf(d)}
			}
			r.Messages = append(r.Messages, parley.Message{Role: parley.RoleAssistant, Parts: m.spoken(d, named)})
		}
	}
	r.Open = func(_ context.Context, id parley.ArtifactID) (seam.File, error) {
		if f, ok := files[id]; ok {
			return f, nil
		}
		return seam.File{}, parley.Errorf(parley.CodeNotFound, "no file %s in the request", id)
	}
	return r, nil
}

// schema returns a tool's schema without the empty properties that the API demands.
func schema(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || string(fields["properties"]) != "{}" {
		return raw
	}
	delete(fields, "properties")
	return marshal(fields)
}

func (m *message) said() string {
	texts := []string{}
	if m.text != "" {
		texts = append(texts, m.text)
	}
	for _, p := range m.parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func (m *message) heard(files map[parley.ArtifactID]seam.File) []parley.Part {
	if m.text != "" {
		return []parley.Part{{Type: parley.PartText, Text: m.text}}
	}
	var out []parley.Part
	for _, p := range m.parts {
		id := parley.ArtifactID(fmt.Sprintf("file-%d", len(files)))
		switch {
		case p.Image != nil:
			media, body, _ := dataURL(p.Image.URL)
			files[id] = seam.File{MediaType: media, Body: body}
			out = append(out, parley.Part{Type: parley.PartImage, Artifact: id, MediaType: media})
		case p.File != nil:
			media, body, _ := dataURL(p.File.Data)
			files[id] = seam.File{Name: p.File.Name, MediaType: media, Body: body}
			out = append(out, parley.Part{Type: parley.PartFile, Artifact: id, MediaType: media, Name: p.File.Name})
		default:
			out = append(out, parley.Part{Type: parley.PartText, Text: p.Text})
		}
	}
	return out
}

func (m *message) spoken(d Dialect, named map[string]string) []parley.Part {
	var out []parley.Part
	thought := m.Reasoning
	if d == LlamaCpp || d == Odd && thought == "" {
		thought = m.ReasoningC
	}
	if thought != "" {
		out = append(out, parley.Part{Type: parley.PartThinking, Text: thought})
	}
	if text := m.said(); text != "" {
		out = append(out, parley.Part{Type: parley.PartText, Text: text})
	}
	for _, c := range m.Calls {
		p := parley.Part{Type: parley.PartToolCall, Call: parley.CallID(c.ID), ProviderID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.args)}
		if agent, ok := strings.CutPrefix(p.Name, transfer); ok {
			var why struct {
				Reason string `json:"reason"`
			}
			_ = json.Unmarshal(p.Input, &why)
			p = parley.Part{Type: parley.PartHandoff, Call: p.Call, ProviderID: c.ID, Name: agent, Text: why.Reason}
		}
		named[c.ID] = p.Name
		out = append(out, p)
	}
	return out
}
