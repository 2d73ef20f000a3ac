package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// seal is the content of a Part's Signature.
type seal struct {
	// Model is the model that made the seal. Only it can open the seal.
	Model string `json:"model"`
	// Signature is the thought signature of the part, as it came.
	Signature string `json:"thoughtSignature,omitempty"`
	// Apart means that the signature came in an empty part after this one.
	Apart bool `json:"apart,omitempty"`
	// Args are the arguments of a handoff call, of which our part keeps only the reason.
	Args json.RawMessage `json:"args,omitempty"`
	// Part is a whole part of the provider's own, as it came.
	Part json.RawMessage `json:"part,omitempty"`
}

// anySignature is the placeholder that the provider accepts as a signature on calls that it did
// not make itself: https://ai.google.dev/gemini-api/docs/thought-signatures
const anySignature = "skip_thought_signature_validator"

const (
	roleUser  = "user"
	roleModel = "model"
)

// history converts our messages to the provider's contents. The provider's rules: the user comes
// first and last; neighbouring messages of one role are merged, except that results of calls are
// a content of their own, right after the calls and in the same number; no text is blank; a
// result is an object; a seal goes back unchanged to the model that made it; the first call of a
// step has one.
type history struct {
	model string
	info  seam.ModelInfo
	names *names
	open  func(context.Context, parley.ArtifactID) (seam.File, error)
	form  *form

	contents []content
	results  bool // the last content has results
	ids      map[parley.CallID]call
	taken    map[string]bool
}

// call identifies a call on the wire.
type call struct{ id, name string }

func (h *history) add(ctx context.Context, ms []parley.Message) error {
	h.ids, h.taken = map[parley.CallID]call{}, map[string]bool{}
	for _, m := range ms {
		var err error
		switch m.Role {
		case parley.RoleAssistant:
			h.answered(m)
		case parley.RoleTool:
			err = h.told(ctx, m)
		default:
			err = h.asked(ctx, m)
		}
		if err != nil {
			return err
		}
	}
	if len(h.contents) == 0 {
		return parley.Errorf(parley.CodeInvalid, "there is nothing to send to the model").WithHint("send a text")
	}
	if h.contents[len(h.contents)-1].Role == roleModel {
		h.put(roleUser, textPart("[Go on.]"))
	}
	return nil
}

func (h *history) put(role string, p any) {
	n := len(h.contents)
	if n == 0 && role == roleModel {
		h.contents = append(h.contents, content{roleUser, []any{textPart("[The beginning of the conversation is left out.]")}})
		n++
	}
	if n == 0 || h.contents[n-1].Role != role || h.results {
		h.contents, h.results = append(h.contents, content{Role: role}), false
		n++
	}
	c := &h.contents[n-1]
	c.Parts = append(c.Parts, p)
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func (h *history) asked(ctx context.Context, m parley.Message) error {
	for _, p := range m.Parts {
		switch p.Type {
		case parley.PartText:
			if !blank(p.Text) {
				h.put(roleUser, textPart(p.Text))
			}
		case parley.PartImage, parley.PartFile:
			x, err := h.media(ctx, p)
			if err != nil {
				return err
			}
			h.put(roleUser, x)
		}
	}
	return nil
}

// unseal returns the seal of a part if the model accepts it.
func (h *history) unseal(p parley.Part) (seal, bool) {
	var s seal
	if h.form.bare || p.Provider != provider || len(p.Signature) == 0 || json.Unmarshal(p.Signature, &s) != nil || s.Model != h.model {
		return seal{}, false
	}
	if s.Signature != "" {
		h.form.sealed = true
	}
	return s, true
}

func (h *history) answered(m parley.Message) {
	first := true // the next call is the first of its step
	for _, p := range m.Parts {
		s, ours := h.unseal(p)
		switch p.Type {
		case parley.PartText, parley.PartThinking:
			thought := p.Type == parley.PartThinking
			if thought && !ours || blank(p.Text) && s.Signature == "" {
				continue
			}
			x := wirePart{Text: &p.Text, Thought: thought}
			if !s.Apart {
				x.Signature = s.Signature
			}
			h.put(roleModel, x)
			if s.Apart {
				h.put(roleModel, wirePart{Text: new(string), Thought: thought, Signature: s.Signature})
			}
		case parley.PartProvider:
			if ours && isObject(s.Part) {
				h.form.sealed = h.form.sealed || bytes.Contains(s.Part, []byte(`"thoughtSignature"`))
				h.put(roleModel, s.Part)
			}
		case parley.PartToolCall, parley.PartHandoff:
			x := wirePart{Call: h.call(p), Signature: s.Signature}
			if isObject(s.Args) {
				x.Call.Args = s.Args
			}
			if first && x.Signature == "" && h.form.traits.Seals {
				x.Signature = anySignature
			}
			first = false
			h.put(roleModel, x)
		}
	}
}

func (h *history) call(p parley.Part) *functionCall {
	f := functionCall{ID: h.id(p), Args: object(p.Input)}
	f.Name = h.names.wire(target{name: p.Name})
	if p.Type == parley.PartHandoff {
		f.Name, f.Args = h.names.wire(target{name: p.Name, handoff: true}), json.RawMessage("{}")
		if p.Text != "" {
			f.Args, _ = json.Marshal(map[string]string{"reason": p.Text}) // a string always encodes
		}
	}
	h.ids[p.Call] = call{f.ID, f.Name}
	return &f
}

// id returns the provider's id of a call: the id it gave, or none if it gave none, otherwise one
// made from ours.
func (h *history) id(p parley.Part) string {
	id := p.ProviderID
	if p.Provider == provider && (id == "" || len(id) <= maxID && !h.taken[id]) {
		h.taken[id] = id != ""
		return id
	}
	id = "call_" + strings.Map(func(r rune) rune {
		if wordly(r) {
			return r
		}
		return '_'
	}, string(p.Call))
	for h.taken[id] {
		id += "_"
	}
	h.taken[id] = true
	return id
}

// maxID exceeds the length of the provider's ids.
const maxID = 128

// told adds the results of one step as one content, and another one with their images: older models
// take none in a result.
func (h *history) told(ctx context.Context, m parley.Message) error {
	var c content
	var images []any
	of := ""
	for _, p := range m.Parts {
		if p.Type == parley.PartImage {
			x, err := h.media(ctx, p)
			if err != nil {
				return err
			}
			images = append(images, textPart("[the image "+p.Name+", which "+of+" returned]"), x)
		}
		if p.Type != parley.PartToolResult {
			continue
		}
		of = p.Name
		to, ok := h.ids[p.Call]
		if !ok {
			return parley.Errorf(parley.CodeInvalid, "the history has a result of %q without its call", p.Name).WithHint("this is a fault of the server; start a new session")
		}
		c.Parts = append(c.Parts, wirePart{Result: &functionResponse{to.id, to.name, response(p)}})
	}
	if c.Parts != nil {
		c.Role = roleUser
		h.contents, h.results = append(h.contents, c), true
	}
	for _, x := range images {
		h.put(roleUser, x)
	}
	return nil
}

// response wraps a tool's result in the object that the provider requires.
func response(p parley.Part) map[string]any {
	var out any = p.Text
	if p.Text == "" && len(p.Input) > 0 && json.Valid(p.Input) {
		out = p.Input
	}
	if !p.IsError {
		return map[string]any{"output": out}
	}
	if out == "" {
		out = "The call failed."
	}
	return map[string]any{"error": out}
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// object returns an input as an object, the only form that the provider accepts.
func object(raw json.RawMessage) json.RawMessage {
	switch {
	case len(bytes.TrimSpace(raw)) == 0, !json.Valid(raw):
		return json.RawMessage("{}")
	case isObject(raw):
		return raw
	}
	return json.RawMessage(`{"not_an_object":` + string(raw) + `}`)
}
