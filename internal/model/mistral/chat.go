package mistral

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// The limits of https://docs.mistral.ai/capabilities/vision and document_ai.
const (
	maxImage  = 10 << 20
	maxImages = 8 // of a request
	maxFile   = 50 << 20
)

// understood is inserted between results and a user's message, where Mistral requires an
// assistant message. Mistral's own command line uses the same word.
const understood = "Understood."

// chatRequest is the body of POST /v1/chat/completions. Mistral rejects unknown keys.
type chatRequest struct {
	Model           string        `json:"model"`
	Messages        []chatMessage `json:"messages"`
	Tools           []tool        `json:"tools,omitempty"`
	MaxTokens       int64         `json:"max_tokens,omitempty"`
	Temperature     *float64      `json:"temperature,omitempty"`
	ReasoningEffort string        `json:"reasoning_effort,omitempty"`
	Stream          bool          `json:"stream"`
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // string or []contentChunk
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	Name       string     `json:"name,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function functionCall `json:"function"`
}

type functionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string    `json:"type"`
	Function *function `json:"function,omitempty"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// A contentChunk is one of its types.
type contentChunk struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	ImageURL     string          `json:"image_url,omitempty"`
	DocumentURL  string          `json:"document_url,omitempty"`
	DocumentName string          `json:"document_name,omitempty"`
	Thinking     []contentChunk  `json:"thinking,omitempty"`
	Signature    json.RawMessage `json:"signature,omitempty"`
}

// Stream implements seam.Model.
func (m *model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	n := newNames(r)
	body, made := m.body(ctx, r, n)
	return func(yield func(seam.ModelDelta, error) bool) {
		if made != nil {
			yield(seam.ModelDelta{}, made)
			return
		}
		resp, err := m.c.open(ctx, "/v1/chat/completions", body)
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		defer resp.Body.Close()
		a := newAssembly(m.c, n, m.id)
		a.estimate = int64(len(body)+3) / 4
		a.chat(ctx, resp.Body, yield)
	}
}

func (m *model) body(ctx context.Context, r seam.Request, n *names) ([]byte, error) {
	req := chatRequest{
		Model: m.id, Tools: tools(r, n), MaxTokens: r.MaxTokens, Temperature: r.Temperature, ReasoningEffort: r.Effort, Stream: true,
	}
	h := history{ctx: ctx, req: r, info: m.info, names: n, ids: newIDs(), calls: map[parley.CallID]target{}}
	if strings.TrimSpace(r.System) != "" {
		h.add(chatMessage{Role: "system", Content: r.System})
	}
	for _, msg := range r.Messages {
		if err := h.message(msg); err != nil {
			return nil, err
		}
	}
	req.Messages = h.list
	return encode(req)
}

// encode returns JSON that keeps < and > as they are, because prompts may have many of them.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the request cannot be written as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// tools returns the app's tools and the handoffs as functions.
func tools(r seam.Request, n *names) []tool {
	var list []tool
	for _, d := range r.Tools {
		list = append(list, newFunction(n.of(target{name: d.Name}), d.Description, d.InputSchema))
	}
	for _, h := range r.Handoffs {
		list = append(list, handoffFunction(h, n))
	}
	return list
}

func newFunction(name, description string, schema json.RawMessage) tool {
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return tool{Type: "function", Function: &function{Name: name, Description: description, Parameters: schema}}
}

func handoffFunction(h seam.Handoff, n *names) tool {
	about := "Hands the conversation over to the agent " + h.Agent + "."
	if h.Description != "" {
		about += " " + h.Description
	}
	return newFunction(n.of(target{handoff: true, name: h.Agent}), about,
		json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","description":"why, in a few words"}}}`))
}

// history converts our messages to Mistral's.
type history struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call of body
	req    seam.Request
	info   seam.ModelInfo
	names  *names
	ids    *ids
	calls  map[parley.CallID]target
	list   []chatMessage
	images int
}

func (h *history) add(m chatMessage) {
	if n := len(h.list); n > 0 && m.Role == "user" && h.list[n-1].Role == "tool" {
		h.list = append(h.list, chatMessage{Role: "assistant", Content: understood})
	}
	h.list = append(h.list, m)
}

func (h *history) message(m parley.Message) error {
	switch m.Role {
	case parley.RoleUser:
		content, err := h.user(m.Parts)
		if err != nil || content == nil {
			return err
		}
		h.add(chatMessage{Role: "user", Content: content})
	case parley.RoleAssistant:
		if out, ok := h.assistant(m.Parts); ok {
			h.add(out)
		}
	case parley.RoleTool:
		for _, p := range m.Parts {
			if p.Type != parley.PartToolResult {
				continue
			}
			t, ok := h.calls[p.Call]
			if !ok {
				t = target{name: p.Name}
			}
			content := any(resultText(p))
			for i, image := range m.Parts {
				if image.Type != parley.PartImage || image.Call != p.Call {
					continue
				}
				c, err := h.media(m.Parts[i])
				if err != nil {
					return err
				}
				chunks, ok := content.([]contentChunk)
				if !ok {
					chunks = []contentChunk{{Type: "text", Text: resultText(p)}}
				}
				content = append(chunks, c)
			}
			h.add(chatMessage{Role: "tool", ToolCallID: h.ids.id(p), Name: h.names.of(t), Content: content})
		}
	}
	return nil
}

func resultText(p parley.Part) string {
	if strings.TrimSpace(p.Text) == "" && len(p.Input) > 0 {
		return string(p.Input)
	}
	if p.Text == "" {
		return "(no output)"
	}
	return p.Text
}

// user returns the content of a user's message: a string if it is only text, otherwise chunks,
// and nil if it is empty.
func (h *history) user(parts []parley.Part) (any, error) {
	var chunks []contentChunk
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			if strings.TrimSpace(p.Text) != "" {
				chunks = append(chunks, contentChunk{Type: "text", Text: p.Text})
			}
		case parley.PartImage, parley.PartFile:
			c, err := h.media(p)
			if err != nil {
				return nil, err
			}
			chunks = append(chunks, c)
		}
	}
	switch {
	case len(chunks) == 0:
		return nil, nil //nolint:nilnil // an empty message is no error
	case len(chunks) == 1 && chunks[0].Type == "text":
		return chunks[0].Text, nil
	}
	return chunks, nil
}

func (h *history) media(p parley.Part) (contentChunk, error) {
	var none contentChunk
	image := p.Type == parley.PartImage
	what, most := "a file", maxFile
	if image {
		what, most = "an image", maxImage
	}
	if image && !h.info.Images || !image && !h.info.Files || h.req.Open == nil {
		return none, parley.Errorf(parley.CodeInvalid, "the model %s does not accept %s", h.info.Name, what).WithHint("choose another model, or leave it out")
	}
	if image {
		h.images++
	}
	if h.images > maxImages {
		return none, parley.Errorf(parley.CodeInvalid, "the conversation has more than the %d images that %s accepts", maxImages, h.info.Name).
			WithHint("start a new session, or choose another model")
	}
	f, err := h.req.Open(h.ctx, p.Artifact)
	if err != nil {
		return none, parley.Errorf(parley.CodeInvalid, "read %s for the model: %w", what, err)
	}
	if len(f.Body) > most {
		return none, parley.Errorf(parley.CodeTooLarge, "%s has %d bytes; Mistral accepts at most %d", what, len(f.Body), most)
	}
	kind := p.MediaType
	if kind == "" {
		kind = f.MediaType
	}
	data := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(f.Body)
	if image {
		return contentChunk{Type: "image_url", ImageURL: data}, nil
	}
	title := p.Name
	if title == "" {
		title = f.Name
	}
	return contentChunk{Type: "document_url", DocumentURL: data, DocumentName: title}, nil
}

// assistant converts a reply of the model, without parts sealed by another provider. It returns
// false if nothing is left.
func (h *history) assistant(parts []parley.Part) (chatMessage, bool) {
	m := chatMessage{Role: "assistant"}
	var chunks []contentChunk
	thought := false
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			if n := len(chunks); n > 0 && chunks[n-1].Type == "text" {
				chunks[n-1].Text += p.Text
			} else if p.Text != "" {
				chunks = append(chunks, contentChunk{Type: "text", Text: p.Text})
			}
		case parley.PartThinking:
			if c, ok := thinkingChunk(p); ok {
				chunks, thought = append(chunks, c), true
			}
		case parley.PartToolCall, parley.PartHandoff:
			m.ToolCalls = append(m.ToolCalls, toolCall{ID: h.ids.id(p), Type: "function", Function: h.function(p)})
		}
	}
	switch {
	case len(chunks) == 1 && !thought:
		m.Content = chunks[0].Text
	case len(chunks) > 0:
		m.Content = chunks
	}
	said := m.ToolCalls != nil
	for _, c := range chunks {
		said = said || c.Type == "text"
	}
	return m, said
}

func (h *history) function(p parley.Part) functionCall {
	t := target{handoff: p.Type == parley.PartHandoff, name: p.Name}
	h.calls[p.Call] = t
	if t.handoff {
		return functionCall{Name: h.names.of(t), Arguments: reason(p.Text)}
	}
	f := functionCall{Name: h.names.of(t), Arguments: string(p.Input)}
	if len(p.Input) == 0 {
		f.Arguments = "{}"
	}
	return f
}

// reason returns the arguments of a handoff.
func reason(why string) string {
	if why == "" {
		return "{}"
	}
	raw, err := json.Marshal(map[string]string{"reason": why})
	if err != nil { // a string always encodes
		return "{}"
	}
	return string(raw)
}

// seal holds the fields of Mistral's own in a thinking part, which go back with it.
type seal struct {
	Signature json.RawMessage `json:"signature,omitempty"`
}

func thinkingChunk(p parley.Part) (contentChunk, bool) {
	var s seal
	if p.Provider != name || len(p.Signature) == 0 || p.Text == "" || json.Unmarshal(p.Signature, &s) != nil {
		return contentChunk{}, false
	}
	return contentChunk{Type: "thinking", Thinking: []contentChunk{{Type: "text", Text: p.Text}}, Signature: s.Signature}, true
}
