package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"mime"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// OpenAI's size limits; the other servers do not document theirs.
const (
	maxImage = 20 << 20
	maxFile  = 32 << 20
)

var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// message is a message on the wire.
type message struct {
	Role       string            `json:"role"`
	Content    any               `json:"content"` // string, []content or nil
	Reasoning  string            `json:"reasoning,omitempty"`
	ReasoningC string            `json:"reasoning_content,omitempty"`
	Details    []json.RawMessage `json:"reasoning_details,omitempty"`
	Calls      []wireCall        `json:"tool_calls,omitempty"`
	CallID     string            `json:"tool_call_id,omitempty"`
	Extra      json.RawMessage   `json:"extra_content,omitempty"`
}

type wireCall struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Function wireFunction    `json:"function"`
	Extra    json.RawMessage `json:"extra_content,omitempty"`
}

type wireFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type content struct {
	Type  string    `json:"type"`
	Text  string    `json:"text,omitempty"`
	Image *imageURL `json:"image_url,omitempty"`
	File  *file     `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// seal is the content of a Part's Signature: what the server must get back, and which model said
// it. It goes to no other model, not even of the same server.
type seal struct {
	Dialect Dialect           `json:"dialect"`
	Model   string            `json:"model"`
	Field   string            `json:"field,omitempty"` // the field that contained the reasoning
	Details []json.RawMessage `json:"details,omitempty"`
	Extra   json.RawMessage   `json:"extra,omitempty"`
}

// history converts messages to the wire's.
type history struct {
	m   *model
	r   seam.Request
	n   *names
	q   quirks
	ids *ids

	out   []message
	sent  quirks
	media int // total bytes of files
}

func (h *history) messages(ctx context.Context) ([]message, error) {
	if h.r.System != "" {
		role := "system"
		if h.q&developerRole != 0 && h.q&systemRole == 0 {
			role = "developer"
			h.sent |= systemRole
		}
		h.out = append(h.out, message{Role: role, Content: h.r.System})
	}
	first := len(h.out)
	for _, m := range h.r.Messages {
		switch m.Role {
		case parley.RoleUser:
			if err := h.user(ctx, m.Parts); err != nil {
				return nil, err
			}
		case parley.RoleAssistant:
			h.assistant(m.Parts)
		case parley.RoleTool:
			h.results(m.Parts)
			if err := h.user(ctx, pictured(m.Parts)); err != nil {
				return nil, err
			}
		}
	}
	if len(h.out) == first {
		return nil, parley.Errorf(parley.CodeInvalid, "there is nothing to answer")
	}
	return h.out, nil
}

// user adds a user's message. Neighbouring messages are merged, because the templates of some
// servers require alternating roles.
func (h *history) user(ctx context.Context, parts []parley.Part) error {
	var add []content
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			if strings.TrimSpace(p.Text) != "" {
				add = append(add, content{Type: "text", Text: p.Text})
			}
		case parley.PartImage, parley.PartFile:
			c, err := h.attach(ctx, p)
			if err != nil {
				return err
			}
			add = append(add, c)
		}
	}
	if len(add) == 0 {
		return nil
	}
	if n := len(h.out); n > 0 && h.out[n-1].Role == "user" {
		add = append(contents(h.out[n-1].Content), add...)
		h.out = h.out[:n-1]
	}
	h.out = append(h.out, message{Role: "user", Content: joined(add)})
	return nil
}

func contents(c any) []content {
	switch c := c.(type) {
	case string:
		return []content{{Type: "text", Text: c}}
	case []content:
		return c
	}
	return nil
}

// joined returns a plain text if there is nothing else, because every server accepts that.
func joined(cs []content) any {
	texts := make([]string, 0, len(cs))
	for _, c := range cs {
		if c.Type != "text" {
			return cs
		}
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "\n\n")
}

func (h *history) attach(ctx context.Context, p parley.Part) (content, error) {
	title, what := h.m.info.Name, "images"
	takes := h.m.info.Images
	if p.Type == parley.PartFile {
		what, takes = "documents", h.m.info.Files && h.m.c.d.files
	}
	refuse := func(code parley.Code, format string, args ...any) (content, error) {
		return content{}, parley.Errorf(code, format, args...).WithHint("choose a model that accepts it, or leave it out")
	}
	if !takes || h.r.Open == nil {
		return refuse(parley.CodeInvalid, "%s does not accept %s", title, what)
	}
	f, err := h.r.Open(ctx, p.Artifact)
	if err != nil {
		return content{}, err
	}
	media, _, err := mime.ParseMediaType(cmp.Or(p.MediaType, f.MediaType))
	if err != nil {
		return refuse(parley.CodeInvalid, "%s does not accept files of type %q", title, cmp.Or(p.MediaType, f.MediaType))
	}
	most := maxImage
	if p.Type == parley.PartFile {
		most = maxFile
	}
	switch {
	case len(f.Body) > most:
		return refuse(parley.CodeTooLarge, "a file is larger than the %d MiB that %s accepts", most>>20, title)
	case p.Type == parley.PartImage && !slices.Contains(imageTypes, media):
		return refuse(parley.CodeInvalid, "%s does not accept images of type %s", title, media)
	case p.Type == parley.PartFile && media != "application/pdf":
		return refuse(parley.CodeInvalid, "%s does not accept documents of type %s", title, media)
	}
	data := "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(f.Body)
	h.media += len(data)
	if p.Type == parley.PartImage {
		return content{Type: "image_url", Image: &imageURL{data}}, nil
	}
	return content{Type: "file", File: &file{cmp.Or(p.Name, f.Name, "document.pdf"), data}}, nil
}

// assistant adds a model's message, if anything of it is left.
func (h *history) assistant(parts []parley.Part) {
	w := message{Role: "assistant"}
	var text, thought strings.Builder
	field := ""
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			text.WriteString(p.Text)
		case parley.PartThinking, parley.PartProvider:
			s, own := h.own(p)
			if !own || h.q&noEcho != 0 {
				continue
			}
			if s.Extra != nil {
				w.Extra = s.Extra
			}
			w.Details = append(w.Details, s.Details...)
			if p.Type == parley.PartThinking {
				thought.WriteString(p.Text)
				field = s.Field
			}
		case parley.PartToolCall:
			w.Calls = append(w.Calls, h.call(p, h.n.tool(p.Name), object(p.Input)))
		case parley.PartHandoff:
			args := "{}"
			if p.Text != "" {
				raw, _ := encode(map[string]string{"reason": p.Text})
				args = string(raw)
			}
			w.Calls = append(w.Calls, h.call(p, h.n.handoff(p.Name), args))
		}
	}
	if s := text.String(); strings.TrimSpace(s) != "" {
		w.Content = s
	}
	if w.Content == nil && w.Calls == nil {
		return
	}
	if echo := h.m.c.d.echo; thought.Len() > 0 && echo != "" {
		if echo != asItCame {
			field = echo
		}
		if field == "reasoning" {
			w.Reasoning = thought.String()
		} else {
			w.ReasoningC = thought.String()
		}
	}
	if w.Reasoning != "" || w.ReasoningC != "" || w.Details != nil {
		h.sent |= noEcho
	}
	if h.m.c.d.seals && len(w.Calls) > 0 && w.Calls[0].Extra == nil {
		w.Calls[0].Extra = json.RawMessage(unsealed)
	}
	h.out = append(h.out, w)
}

// unsealed is attached to a call that Gemini did not make: it requires a signature on the first
// call of each step and accepts this placeholder.
const unsealed = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// own returns the seal of a part that came from this same model.
func (h *history) own(p parley.Part) (seal, bool) {
	var s seal
	if p.Provider != h.m.info.Provider || len(p.Signature) == 0 || json.Unmarshal(p.Signature, &s) != nil {
		return s, false
	}
	return s, s.Dialect == h.m.c.opt.Dialect && s.Model == h.m.id
}

func (h *history) call(p parley.Part, name, args string) wireCall {
	c := wireCall{ID: h.ids.call(p), Type: "function", Function: wireFunction{name, args}}
	if s, own := h.own(p); own {
		c.Extra = s.Extra
	}
	return c
}

// object returns an input as the wire's arguments. Servers whose templates include it parse it
// as an object, so other values are wrapped in one.
func object(in json.RawMessage) string {
	in = bytes.TrimSpace(in)
	switch {
	case len(in) == 0 || string(in) == "null":
		return "{}"
	case in[0] == '{' && json.Valid(in):
		return string(in)
	case json.Valid(in):
		return `{"input":` + string(in) + `}`
	}
	raw, _ := encode(map[string]string{"input": strings.ToValidUTF8(string(in), "\ufffd")})
	return string(raw)
}

// pictured is what a user's message has of the images of results, because a tool's message has
// only text.
func pictured(parts []parley.Part) (out []parley.Part) {
	of := ""
	for _, p := range parts {
		switch p.Type {
		case parley.PartToolResult:
			of = p.Name
		case parley.PartImage:
			out = append(out, parley.Part{Type: parley.PartText, Text: "[the image " + p.Name + ", which " + of + " returned]"}, p)
		}
	}
	return out
}

func (h *history) results(parts []parley.Part) {
	for _, p := range parts {
		id, ok := h.ids.of[p.Call]
		if p.Type != parley.PartToolResult || !ok {
			continue
		}
		text := p.Text
		if text == "" && len(p.Input) > 0 {
			text = string(p.Input)
		}
		if strings.TrimSpace(text) == "" {
			text = "(no output)"
		}
		h.out = append(h.out, message{Role: "tool", CallID: id, Content: text})
	}
}
