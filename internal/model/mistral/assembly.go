package mistral

import (
	"encoding/json"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// An assembly builds a reply from the fragments of a stream.
type assembly struct {
	c        *Client
	names    *names
	model    string
	pieces   []*piece
	at       int // index of the output that fragments belong to
	text     runes
	thinking runes
	size     int
	usage    *usage
	estimate int64 // of the input tokens, for replies without a usage
	cites    []parley.Citation
	buf      []byte
}

// A piece becomes a part.
type piece struct {
	kind  parley.PartType
	index int             // of the output it belongs to
	text  strings.Builder // text, or arguments of a call
	id    string
	name  string
	seal  seal
}

type usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	CachedTokens     int64 `json:"num_cached_tokens"`
	PromptDetails    *struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails *struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func newAssembly(c *Client, n *names, model string) *assembly {
	return &assembly{c: c, names: n, model: model}
}

// say adds a fragment of the answer and returns the part that can be shown.
func (a *assembly) say(kind parley.PartType, b []byte) (string, error) {
	if a.size += len(b); a.size > maxText {
		return "", tooMuch("text")
	}
	hold := &a.text
	if kind == parley.PartThinking {
		hold = &a.thinking
	}
	text := hold.next(b)
	return text, a.write(kind, text)
}

// write adds text to the last piece of the output, or starts a piece.
func (a *assembly) write(kind parley.PartType, text string) error {
	if text == "" {
		return nil
	}
	p := a.last()
	if p == nil || p.kind != kind {
		if len(a.pieces) >= maxParts {
			return tooMuch("in parts")
		}
		p = &piece{kind: kind, index: a.at}
		a.pieces = append(a.pieces, p)
	}
	p.text.WriteString(text)
	return nil
}

// last returns the last piece of the current output.
func (a *assembly) last() *piece {
	for i := len(a.pieces) - 1; i >= 0; i-- {
		if a.pieces[i].index == a.at {
			return a.pieces[i]
		}
	}
	return nil
}

// rest writes what was held back in the middle of a character.
func (a *assembly) rest() (delta seam.ModelDelta, err error) {
	if delta.Thinking = a.thinking.rest(); delta.Thinking != "" {
		err = a.write(parley.PartThinking, delta.Thinking)
	}
	if delta.Text = a.text.rest(); delta.Text != "" && err == nil {
		err = a.write(parley.PartText, delta.Text)
	}
	return delta, err
}

// call adds a fragment of a call. Mistral sends calls whole but does not promise to; a fragment
// without an id belongs to the last call.
func (a *assembly) call(id, name string, arguments json.RawMessage) error {
	if id == "null" {
		id = ""
	}
	var p *piece
	for i := len(a.pieces) - 1; i >= 0 && p == nil; i-- {
		if q := a.pieces[i]; q.kind == parley.PartToolCall && (id == q.id || id == "" && name == "") {
			p = q
		}
	}
	if p == nil || id == "" && name != "" {
		if len(a.pieces) >= maxParts {
			return tooMuch("in calls")
		}
		p = &piece{kind: parley.PartToolCall, id: id, index: a.at}
		a.pieces = append(a.pieces, p)
	}
	if p.name == "" {
		p.name = name
	}
	var part jsonText
	if len(arguments) > 0 && arguments[0] == '"' {
		part = unquote(nil, arguments[1:len(arguments)-1])
	} else if string(arguments) != "null" {
		part = jsonText(arguments)
	}
	if p.text.Len()+len(part) > maxArguments {
		return tooMuch("in the arguments of a call")
	}
	p.text.Write(part)
	return nil
}

// parts converts the pieces to parts. In a reply that was cut off, calls with incomplete
// arguments are left out.
func (a *assembly) parts(cut bool) []parley.Part {
	var ps []parley.Part
	for _, p := range a.pieces {
		switch p.kind {
		case parley.PartThinking:
			sealed, err := json.Marshal(p.seal)
			if err != nil {
				sealed = nil
			}
			ps = append(ps, parley.Part{Type: p.kind, Text: p.text.String(), Signature: sealed, Provider: name})
		case parley.PartToolCall:
			if part, ok := p.called(a.names, cut); ok {
				ps = append(ps, part)
			}
		case parley.PartHandoff:
			ps = append(ps, parley.Part{Type: p.kind, Name: p.name, ProviderID: p.id})
		default:
			ps = append(ps, parley.Part{Type: p.kind, Text: p.text.String()})
		}
	}
	return ps
}

func (p *piece) called(n *names, cut bool) (parley.Part, bool) {
	args := strings.TrimSpace(valid([]byte(p.text.String())))
	if cut && !json.Valid([]byte(args)) {
		return parley.Part{}, false
	}
	t := n.target(p.name)
	if t.handoff {
		var why struct{ Reason string }
		_ = json.Unmarshal([]byte(args), &why) // the reason is optional
		return parley.Part{Type: parley.PartHandoff, Name: t.name, Text: why.Reason, ProviderID: p.id}, true
	}
	if args == "" {
		args = "{}"
	}
	return parley.Part{Type: parley.PartToolCall, Name: t.name, Input: json.RawMessage(args), ProviderID: p.id}, true
}

// reply returns the complete reply.
func (a *assembly) reply(stop string) *seam.Reply {
	r := &seam.Reply{Model: a.model, Parts: a.parts(stop == "max_tokens"), StopReason: stop, Usage: a.used(), Citations: a.cites}
	if stop == "" {
		r.StopReason = "end_turn"
		for _, p := range r.Parts {
			if p.Type == parley.PartToolCall || p.Type == parley.PartHandoff {
				r.StopReason = "tool_use"
			}
		}
	}
	return r
}

// used returns the provider's usage, or an estimate if it sent none.
func (a *assembly) used() parley.Usage {
	if u := a.usage; u != nil {
		cached := u.CachedTokens
		if u.PromptDetails != nil {
			cached = max(cached, u.PromptDetails.CachedTokens)
		}
		cached = min(max(cached, 0), max(u.PromptTokens, 0))
		out := parley.Usage{InputTokens: max(u.PromptTokens, 0) - cached, OutputTokens: max(u.CompletionTokens, 0), CacheReadTokens: cached}
		if u.CompletionDetails != nil {
			out.ReasoningTokens = max(u.CompletionDetails.ReasoningTokens, 0)
		}
		return out
	}
	n := 0
	for _, p := range a.pieces {
		n += p.text.Len() + len(p.name)
	}
	return parley.Usage{InputTokens: a.estimate, OutputTokens: int64(n+3) / 4, Estimated: true}
}
