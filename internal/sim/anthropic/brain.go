package anthropic

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const handoff = "transfer_to_"

// understood converts the request to one of ours.
func understood(r *request) seam.Request {
	out := seam.Request{Model: r.Model, Effort: r.Effort, Temperature: r.Temperature}
	if r.MaxTokens != nil {
		out.MaxTokens = *r.MaxTokens
	}
	var system []string
	for _, b := range r.System {
		system = append(system, b.Text)
	}
	out.System = strings.Join(system, "\n")
	for _, t := range r.Tools {
		agent, hands := strings.CutPrefix(t.Name, handoff)
		switch {
		case t.Type != "" && t.Type != "custom":
			out.ServerTools = append(out.ServerTools, t.Name)
		case r.ToolChoice != nil && r.ToolChoice.Type == "none":
		case hands:
			out.Handoffs = append(out.Handoffs, seam.Handoff{Agent: agent, Description: t.Description})
		default:
			out.Tools = append(out.Tools, parley.ToolDecl{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema})
		}
	}
	files := files{}
	names := map[string]string{}
	for _, m := range merged(r.Messages) {
		role := parley.RoleUser
		if m.Role == "assistant" {
			role = parley.RoleAssistant
		}
		said := parley.Message{Role: role}
		told := parley.Message{Role: parley.RoleTool}
		for _, b := range m.Blocks {
			switch b.Type {
			case "tool_use":
				names[b.ID] = b.Name
				said.Parts = append(said.Parts, called(b))
			case "tool_result":
				told.Parts = append(told.Parts, files.result(b, names[b.ToolUseID])...)
			default:
				said.Parts = append(said.Parts, files.part(b))
			}
		}
		for _, m := range []parley.Message{told, said} {
			if len(m.Parts) > 0 {
				out.Messages = append(out.Messages, m)
			}
		}
	}
	if len(files) > 0 {
		out.Open = files.open
	}
	return out
}

func called(b content) parley.Part {
	p := parley.Part{Type: parley.PartToolCall, Call: parley.CallID(b.ID), ProviderID: b.ID, Name: b.Name, Input: b.Input}
	if agent, ok := strings.CutPrefix(b.Name, handoff); ok {
		var in struct{ Reason string }
		_ = json.Unmarshal(b.Input, &in)
		p = parley.Part{Type: parley.PartHandoff, Call: p.Call, ProviderID: b.ID, Name: agent, Text: in.Reason}
	}
	return p
}

func (f files) result(b content, name string) []parley.Part {
	p := parley.Part{Type: parley.PartToolResult, Call: parley.CallID(b.ToolUseID), Name: strings.TrimPrefix(name, handoff), IsError: b.IsError}
	inner, _ := blocks("", b.Content) // already validated
	var texts []string
	var media []parley.Part
	for _, c := range inner {
		if c.Type == "text" {
			texts = append(texts, c.Text)
			continue
		}
		m := f.part(c)
		m.Call = p.Call
		media = append(media, m)
	}
	p.Text = strings.Join(texts, "\n")
	return append([]parley.Part{p}, media...)
}

// files are the images and documents of a request.
type files map[parley.ArtifactID]seam.File

func (f files) part(b content) parley.Part {
	switch b.Type {
	case "text":
		return parley.Part{Type: parley.PartText, Text: b.Text}
	case "thinking":
		return parley.Part{Type: parley.PartThinking, Text: b.Thinking, Provider: "anthropic", Signature: b.raw}
	case "redacted_thinking":
		return parley.Part{Type: parley.PartThinking, Provider: "anthropic", Signature: b.raw}
	case "image", "document":
		body := []byte(b.Source.Data)
		if b.Source.Type == "base64" {
			body, _ = base64.StdEncoding.DecodeString(b.Source.Data) // already validated
		}
		id := parley.ArtifactID(fmt.Sprintf("file-%d", len(f)+1))
		f[id] = seam.File{Name: b.Title, MediaType: b.Source.MediaType, Body: body}
		kind := parley.PartImage
		if b.Type == "document" {
			kind = parley.PartFile
		}
		return parley.Part{Type: kind, Artifact: id, MediaType: b.Source.MediaType, Name: b.Title}
	}
	return parley.Part{Type: parley.PartProvider, Provider: "anthropic", Name: b.Type, Signature: bytes.Clone(b.raw)}
}

func (f files) open(_ context.Context, id parley.ArtifactID) (seam.File, error) {
	if x, ok := f[id]; ok {
		return x, nil
	}
	return seam.File{}, parley.Errorf(parley.CodeNotFound, "there is no file %s", id)
}
