package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// seal is the content of a Part's Signature: a block as it came, which goes back unchanged.
// Thinking is valid only for the model that produced it.
type seal struct {
	Model string          `json:"model,omitempty"`
	Block json.RawMessage `json:"block"`
}

func unseal(p parley.Part) (seal, bool) {
	var s seal
	if p.Provider != provider || len(p.Signature) == 0 || json.Unmarshal(p.Signature, &s) != nil || !isObject(s.Block) {
		return seal{}, false
	}
	return s, true
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == '{'
}

// history converts our messages to the provider's. The provider's rules: the first message is
// the user's; neighbouring messages of one role are merged; no text is blank; a call's results
// come first in the very next message; ids are unique and match a pattern; an input is an
// object; thinking goes back only as it came.
type history struct {
	c     *Client
	model string
	info  seam.ModelInfo
	names *names
	open  func(context.Context, parley.ArtifactID) (seam.File, error)

	files    attachments
	messages []sdk.MessageParam
	raw      [][]bool // which blocks of messages are unchanged blocks of the provider
	ids      map[parley.CallID]string
	taken    map[string]bool
	calls    bool // there are calls
	question int  // index of the message with the user's last words
}

func (h *history) add(ctx context.Context, ms []parley.Message) error {
	h.ids, h.taken, h.question = map[parley.CallID]string{}, map[string]bool{}, -1
	for _, m := range ms {
		role := sdk.MessageParamRoleUser
		if m.Role == parley.RoleAssistant {
			role = sdk.MessageParamRoleAssistant
		}
		for _, p := range m.Parts {
			if m.Role == parley.RoleTool && p.Type == parley.PartImage {
				if err := h.imageOf(ctx, p); err != nil {
					return err
				}
				continue
			}
			b, raw, err := h.block(ctx, m.Role, p)
			if err != nil {
				return err
			}
			if b == nil {
				continue
			}
			if len(h.messages) == 0 && role == sdk.MessageParamRoleAssistant {
				h.put(sdk.MessageParamRoleUser, sdk.NewTextBlock("[The beginning of the conversation is left out.]"), false)
			}
			h.put(role, *b, raw)
			if m.Role == parley.RoleUser {
				h.question = len(h.messages) - 1
			}
		}
	}
	if len(h.messages) == 0 {
		return parley.Errorf(parley.CodeInvalid, "there is nothing to send to the model").WithHint("send a text")
	}
	return nil
}

// imageOf adds an image to the result of its call, which is the last block.
func (h *history) imageOf(ctx context.Context, p parley.Part) error {
	var of *sdk.ToolResultBlockParam
	if n := len(h.messages); n > 0 {
		if blocks := h.messages[n-1].Content; len(blocks) > 0 {
			of = blocks[len(blocks)-1].OfToolResult
		}
	}
	if of == nil || of.ToolUseID != h.ids[p.Call] {
		return parley.Errorf(parley.CodeInvalid, "the history has an image of %q without its result", p.Name).WithHint("this is a fault of the server; start a new session")
	}
	b, _, err := h.media(ctx, p)
	if err != nil {
		return err
	}
	of.Content = append(of.Content, sdk.ToolResultBlockParamContentUnion{OfImage: b.OfImage})
	return nil
}

func (h *history) put(role sdk.MessageParamRole, b sdk.ContentBlockParamUnion, raw bool) {
	n := len(h.messages)
	if n == 0 || h.messages[n-1].Role != role {
		h.messages, h.raw = append(h.messages, sdk.MessageParam{Role: role}), append(h.raw, nil)
		n++
	}
	m := &h.messages[n-1]
	m.Content, h.raw[n-1] = append(m.Content, b), append(h.raw[n-1], raw)
}

// block converts a part to a block, or to nil if it is left out. raw means that the block goes
// back as it once came.
func (h *history) block(ctx context.Context, role parley.Role, p parley.Part) (b *sdk.ContentBlockParamUnion, raw bool, err error) {
	one := func(b sdk.ContentBlockParamUnion) (*sdk.ContentBlockParamUnion, bool, error) { return &b, false, nil }
	asItCame := func(s seal) (*sdk.ContentBlockParamUnion, bool, error) {
		b := param.Override[sdk.ContentBlockParamUnion](s.Block)
		return &b, true, nil
	}
	switch p.Type {
	case parley.PartText:
		if strings.TrimSpace(p.Text) == "" {
			return nil, false, nil
		}
		// A text with citations goes back with them, unless its words were changed.
		if s, ok := unseal(p); ok && role == parley.RoleAssistant && sameText(s.Block, p.Text) {
			return asItCame(s)
		}
		return one(sdk.NewTextBlock(p.Text))
	case parley.PartThinking:
		if s, ok := unseal(p); ok && s.Model == h.model && role == parley.RoleAssistant {
			return asItCame(s)
		}
	case parley.PartProvider:
		if s, ok := unseal(p); ok && role == parley.RoleAssistant {
			return asItCame(s)
		}
	case parley.PartToolCall:
		h.calls = true
		return one(sdk.NewToolUseBlock(h.id(p), object(p.Input), h.names.wire(target{name: p.Name})))
	case parley.PartHandoff:
		h.calls = true
		input := json.RawMessage("{}")
		if p.Text != "" {
			if input, err = json.Marshal(map[string]string{"reason": p.Text}); err != nil {
				return nil, false, err
			}
		}
		return one(sdk.NewToolUseBlock(h.id(p), input, h.names.wire(target{name: p.Name, handoff: true})))
	case parley.PartToolResult:
		id, ok := h.ids[p.Call]
		if !ok {
			return nil, false, parley.Errorf(parley.CodeInvalid, "the history has a result of %q without its call", p.Name).WithHint("this is a fault of the server; start a new session")
		}
		return one(result(id, p))
	case parley.PartImage, parley.PartFile:
		if role != parley.RoleUser {
			return nil, false, parley.Errorf(parley.CodeInvalid, "Anthropic accepts files only in a user's messages").WithHint("send the file with a message")
		}
		return h.media(ctx, p)
	}
	return nil, false, nil
}

func sameText(block json.RawMessage, text string) bool {
	var b struct{ Text string }
	return json.Unmarshal(block, &b) == nil && b.Text == text
}

func result(id string, p parley.Part) sdk.ContentBlockParamUnion {
	r := sdk.ToolResultBlockParam{ToolUseID: id}
	text := p.Text
	if text == "" && len(p.Input) > 0 {
		text = string(p.Input)
	}
	if strings.TrimSpace(text) != "" {
		r.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: text}}}
	}
	if p.IsError {
		r.IsError = param.NewOpt(true)
		if r.Content == nil { // a failed result must not be empty
			r.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: "The call failed."}}}
		}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &r}
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

// id returns the provider's id of a call: the id it gave if it is unique and its own, otherwise
// one made from ours.
func (h *history) id(p parley.Part) string {
	id := p.ProviderID
	if p.Provider != provider || !validID(id) || h.taken[id] {
		id = "toolu_" + strings.Map(func(r rune) rune {
			if validID(string(r)) {
				return r
			}
			return '_'
		}, string(p.Call))
		for h.taken[id] {
			id += "_"
		}
	}
	h.taken[id] = true
	h.ids[p.Call] = id
	return id
}

// validID checks the pattern ^[a-zA-Z0-9_-]+$ and a length that no id of the provider exceeds.
func validID(id string) bool {
	return id != "" && len(id) <= 128 && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

// beginsWithThought reports whether the current turn, if its calls were just answered, began
// with thinking. Models that think within a budget otherwise refuse to continue it with
// thinking.
func (h *history) beginsWithThought() bool {
	n := len(h.messages)
	if n < 2 {
		return true
	}
	last, before := h.messages[n-1], n-2
	if last.Role == sdk.MessageParamRoleAssistant {
		before = n - 1
	} else if last.Content[0].OfToolResult == nil {
		return true
	}
	raw, ok := h.messages[before].Content[0].Overrides()
	if !ok {
		return false
	}
	var b struct{ Type string }
	block, _ := raw.(json.RawMessage)
	return json.Unmarshal(block, &b) == nil && (b.Type == "thinking" || b.Type == "redacted_thinking")
}

// mark sets a cache breakpoint at the end of message i. It returns false if that is not
// possible.
func (h *history) mark(i int) bool {
	if i < 0 {
		return false
	}
	blocks := h.messages[i].Content
	for n := len(blocks) - 1; n >= 0; n-- {
		if h.raw[i][n] {
			continue
		}
		if at := blocks[n].GetCacheControl(); at != nil {
			*at = sdk.NewCacheControlEphemeralParam()
			return true
		}
	}
	return false
}
