package gemini

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const handoff = "transfer_to_"

// understood converts the request to one of ours.
func understood(r *request, m *Model) seam.Request {
	out := seam.Request{Model: m.ID, Temperature: r.Config.Temperature, MaxTokens: m.MaxOutput}
	if n := r.Config.MaxOutputTokens; n != nil {
		out.MaxTokens = *n
	}
	if t := r.Config.Thinking; t != nil {
		if out.Effort = strings.ToLower(t.Level); out.Effort == "" && t.Budget != nil {
			out.Effort = "high"
		}
	}
	if r.System != nil {
		var texts []string
		for _, p := range r.System.Parts {
			texts = append(texts, *p.Text)
		}
		out.System = strings.Join(texts, "\n")
	}
	for _, t := range r.Tools {
		if t.Search != nil {
			out.ServerTools = append(out.ServerTools, "web_search")
		}
		if t.URL != nil {
			out.ServerTools = append(out.ServerTools, "web_fetch")
		}
		for _, f := range t.Functions {
			if r.Choice != nil && r.Choice.Calling != nil && r.Choice.Calling.Mode == "NONE" {
				continue
			}
			if agent, ok := strings.CutPrefix(f.Name, handoff); ok {
				out.Handoffs = append(out.Handoffs, seam.Handoff{Agent: agent, Description: f.Description})
				continue
			}
			schema := f.Schema
			if schema == nil {
				schema = f.Parameters
			}
			out.Tools = append(out.Tools, parley.ToolDecl{Name: f.Name, Description: f.Description, InputSchema: schema})
		}
	}
	files := files{}
	var open []parley.Part // unanswered calls
	for i, c := range r.Contents {
		said, told := parley.Message{Role: parley.RoleUser}, parley.Message{Role: parley.RoleTool}
		if c.Role == "model" {
			said.Role = parley.RoleAssistant
		}
		for j, p := range c.Parts {
			switch {
			case p.Call != nil:
				x := called(p, parley.CallID(fmt.Sprintf("call-%d-%d", i, j)))
				open, said.Parts = append(open, x), append(said.Parts, x)
			case p.Response != nil:
				told.Parts = append(told.Parts, result(p.Response, &open))
			case p.Text != nil && *p.Text == "":
			default:
				said.Parts = append(said.Parts, files.part(p))
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

func called(p part, id parley.CallID) parley.Part {
	f := p.Call
	if agent, ok := strings.CutPrefix(f.Name, handoff); ok {
		var in struct{ Reason string }
		_ = json.Unmarshal(f.Args, &in)
		return parley.Part{Type: parley.PartHandoff, Call: id, ProviderID: f.ID, Name: agent, Text: in.Reason}
	}
	return parley.Part{Type: parley.PartToolCall, Call: id, ProviderID: f.ID, Name: f.Name, Input: f.Args}
}

// result removes the answered call from the open ones: found by id, or the first with its name.
func result(r *response, open *[]parley.Part) parley.Part {
	name := strings.TrimPrefix(r.Name, handoff)
	p := parley.Part{Type: parley.PartToolResult, Name: name}
	for i, c := range *open {
		if c.ProviderID == r.ID && c.Name == name {
			p.Call = c.Call
			*open = append((*open)[:i:i], (*open)[i+1:]...)
			break
		}
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(r.Response, &fields) // already validated
	raw, ok := fields["output"]
	if fields["error"] != nil {
		raw, ok, p.IsError = fields["error"], true, true
	}
	switch {
	case !ok:
		p.Text = string(r.Response)
	case json.Unmarshal(raw, &p.Text) != nil:
		p.Text = string(raw)
	}
	return p
}

// files are the images and documents of a request.
type files map[parley.ArtifactID]seam.File

func (f files) part(p part) parley.Part {
	switch {
	case p.Text != nil && p.Thought:
		return parley.Part{Type: parley.PartThinking, Text: *p.Text, Provider: "gemini", Signature: p.raw}
	case p.Text != nil:
		return parley.Part{Type: parley.PartText, Text: *p.Text}
	case p.Inline != nil:
		id := parley.ArtifactID(fmt.Sprintf("file-%d", len(f)+1))
		f[id] = seam.File{Name: p.Inline.Name, MediaType: p.Inline.MIMEType, Body: p.Inline.body}
		kind := parley.PartFile
		if strings.HasPrefix(p.Inline.MIMEType, "image/") {
			kind = parley.PartImage
		}
		return parley.Part{Type: kind, Artifact: id, MediaType: p.Inline.MIMEType, Name: p.Inline.Name}
	}
	return parley.Part{Type: parley.PartProvider, Provider: "gemini", Signature: p.raw}
}

func (f files) open(_ context.Context, id parley.ArtifactID) (seam.File, error) {
	if x, ok := f[id]; ok {
		return x, nil
	}
	return seam.File{}, parley.Errorf(parley.CodeNotFound, "there is no file %s", id)
}
