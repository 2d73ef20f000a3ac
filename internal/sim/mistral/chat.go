package mistral

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const handoffPrefix = "transfer_to_"

// understood is what the provider's own command line inserts between results and a user's
// message, which may not follow them directly.
const understood = "Understood."

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	b, no := parseChat(bodyOf(r))
	if no == nil && !s.knows(b.Model) {
		no = bad("invalid_model", "1500", "Invalid model: %s", b.Model)
	}
	if no != nil {
		refuse(w, no)
		return
	}
	out := &chatStream{s: s, model: b.Model, id: s.id("")}
	s.think(w, r, b.request(s.o.Agent), b.Stream, out)
}

// request converts a chat completion to the brain's request.
func (b *chatBody) request(agent func(string) string) seam.Request {
	req := seam.Request{Model: b.Model}
	for _, t := range b.Tools {
		if t.Function != nil {
			offer(&req, t.Function.Name, t.Function.Description, t.Function.Parameters)
		}
	}
	req.Temperature = b.Temperature
	if b.MaxTokens != nil {
		req.MaxTokens = *b.MaxTokens
	}
	if b.ReasoningEffort != nil {
		req.Effort = *b.ReasoningEffort
	}
	files := &files{}
	req.Open = files.open
	for i, m := range b.Messages {
		chunks, _ := contentOf(m.Content, i)
		switch m.Role {
		case "system":
			req.System += chunksText(chunks)
		case "user":
			join(&req, parley.RoleUser, files.parts(chunks)...)
		case "assistant":
			ps := said(chunks)
			if chunksText(chunks) == understood && m.ToolCalls == nil && i > 0 && b.Messages[i-1].Role == "tool" {
				continue
			}
			for _, c := range m.ToolCalls {
				args, _ := arguments(c.Function.Arguments)
				ps = append(ps, called(c.ID, c.Function.Name, args))
			}
			join(&req, parley.RoleAssistant, ps...)
		case "tool":
			p := parley.Part{Type: parley.PartToolResult, Call: parley.CallID(*m.ToolCallID), Text: chunksText(chunks)}
			if m.Name != nil {
				p.Name = strings.TrimPrefix(*m.Name, handoffPrefix)
			}
			join(&req, parley.RoleTool, p)
			for _, c := range chunks {
				if c.Type == "image_url" {
					image := files.keep(parley.PartImage, address(c.ImageURL), "")
					image.Call = p.Call
					join(&req, parley.RoleTool, image)
				}
			}
		}
	}
	if agent != nil {
		req.Agent = agent(req.System)
	}
	return req
}

// offer adds a function to the tools, or to the handoffs if it stands for one.
func offer(req *seam.Request, name, description string, parameters json.RawMessage) {
	if to, ok := strings.CutPrefix(name, handoffPrefix); ok {
		req.Handoffs = append(req.Handoffs, seam.Handoff{Agent: to, Description: description})
		return
	}
	req.Tools = append(req.Tools, parley.ToolDecl{Name: name, Description: description, InputSchema: parameters})
}

// called converts a call to a part.
func called(id, name string, args json.RawMessage) parley.Part {
	if to, ok := strings.CutPrefix(name, handoffPrefix); ok {
		var why struct{ Reason string }
		_ = json.Unmarshal(args, &why) // the reason is optional
		return parley.Part{Type: parley.PartHandoff, Call: parley.CallID(id), Name: to, Text: why.Reason}
	}
	return parley.Part{Type: parley.PartToolCall, Call: parley.CallID(id), Name: name, Input: args}
}

// join adds parts to the last message if it has the role, otherwise to a new message.
func join(req *seam.Request, role parley.Role, parts ...parley.Part) {
	if len(parts) == 0 {
		return
	}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == role {
		req.Messages[n-1].Parts = append(req.Messages[n-1].Parts, parts...)
		return
	}
	req.Messages = append(req.Messages, parley.Message{Role: role, Parts: parts})
}

func chunksText(chunks []chunkBody) string {
	var b strings.Builder
	for _, c := range chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// said converts an assistant's chunks to parts.
func said(chunks []chunkBody) []parley.Part {
	var ps []parley.Part
	for _, c := range chunks {
		switch {
		case c.Type == "thinking":
			ps = append(ps, parley.Part{Type: parley.PartThinking, Text: chunksText(c.Thinking)})
		case c.Text != "":
			ps = append(ps, parley.Part{Type: parley.PartText, Text: c.Text})
		}
	}
	return ps
}

// files are the files inside a request.
type files struct{ list []seam.File }

func (f *files) parts(chunks []chunkBody) []parley.Part {
	var ps []parley.Part
	for _, c := range chunks {
		p := parley.Part{Type: parley.PartText, Text: c.Text}
		switch c.Type {
		case "image_url":
			p = f.keep(parley.PartImage, address(c.ImageURL), "")
		case "document_url":
			title := ""
			if c.DocumentName != nil {
				title = *c.DocumentName
			}
			p = f.keep(parley.PartFile, c.DocumentURL, title)
		}
		ps = append(ps, p)
	}
	return ps
}

// address returns an image_url, which may be a text or an object.
func address(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct{ URL string }
	_ = json.Unmarshal(raw, &o) // other values have no address
	return o.URL
}

// usageOf returns a usage in the API's form.
func usageOf(u parley.Usage) map[string]any {
	in := u.InputTokens + u.CacheReadTokens
	m := map[string]any{"prompt_tokens": in, "completion_tokens": u.OutputTokens, "total_tokens": in + u.OutputTokens}
	if u.CacheReadTokens > 0 {
		m["prompt_tokens_details"] = map[string]any{"cached_tokens": u.CacheReadTokens}
	}
	return m
}

// chatStream writes a chat completion.
type chatStream struct {
	s     *Server
	model string
	id    string
	text  strings.Builder
	think strings.Builder
	reply *seam.Reply
}

func (c *chatStream) chunk(delta map[string]any, finish any) map[string]any {
	return map[string]any{
		"id": c.id, "object": "chat.completion.chunk", "created": c.s.o.Now().Unix(), "model": c.model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
	}
}

func (c *chatStream) begin(e *events) {
	e.send("", c.chunk(map[string]any{"role": "assistant", "content": ""}, nil))
}

func (c *chatStream) delta(e *events, d seam.ModelDelta) {
	if d.Thinking != "" {
		c.think.WriteString(d.Thinking)
		e.send("", c.chunk(map[string]any{"content": []any{thinking(d.Thinking)}}, nil))
	}
	if d.Text != "" {
		c.text.WriteString(d.Text)
		e.send("", c.chunk(map[string]any{"content": d.Text}, nil))
	}
}

func thinking(text string) map[string]any {
	return map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": text}}}
}

// calls returns the calls of a reply in the API's form.
func (c *chatStream) calls(reply *seam.Reply) []any {
	var list []any
	for _, p := range reply.Parts {
		name, args := p.Name, string(p.Input)
		switch p.Type {
		case parley.PartToolCall:
		case parley.PartHandoff:
			raw, _ := json.Marshal(map[string]string{"reason": p.Text}) // a string always encodes
			name, args = handoffPrefix+p.Name, string(raw)
		default:
			continue
		}
		list = append(list, map[string]any{
			"id": c.s.id(""), "function": map[string]any{"name": name, "arguments": args}, "index": len(list),
		})
	}
	return list
}

func finishOf(reply *seam.Reply, calls int) string {
	switch {
	case reply.StopReason == "max_tokens":
		return "length"
	case calls > 0:
		return "tool_calls"
	}
	return "stop"
}

func (c *chatStream) next(_ *events, reply *seam.Reply) (seam.Request, bool) {
	c.reply = reply
	return seam.Request{}, false
}

func (c *chatStream) end(e *events) {
	reply := c.reply
	calls := c.calls(reply)
	delta := map[string]any{"content": ""}
	if calls != nil {
		delta["tool_calls"] = calls
	}
	last := c.chunk(delta, finishOf(reply, len(calls)))
	last["usage"] = usageOf(reply.Usage)
	e.send("", last)
	e.raw("data: [DONE]\n\n")
}

func (c *chatStream) failed(e *events, message string) {
	e.send("", map[string]any{"object": "error", "message": message, "type": "internal_server_error", "code": "1000"})
}

func (c *chatStream) whole() any {
	reply := c.reply
	calls := c.calls(reply)
	var content any = c.text.String()
	if c.think.Len() > 0 {
		content = []any{thinking(c.think.String()), map[string]any{"type": "text", "text": c.text.String()}}
	}
	m := map[string]any{"role": "assistant", "content": content}
	if calls != nil {
		m["tool_calls"] = calls
	}
	return map[string]any{
		"id": c.id, "object": "chat.completion", "created": c.s.o.Now().Unix(), "model": c.model, "usage": usageOf(reply.Usage),
		"choices": []any{map[string]any{"index": 0, "message": m, "finish_reason": finishOf(reply, len(calls))}},
	}
}

func decodeData(url string) (kind string, body []byte) {
	head, data, _ := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	body, _ = base64.StdEncoding.DecodeString(data) // invalid data is empty
	return head, body
}
