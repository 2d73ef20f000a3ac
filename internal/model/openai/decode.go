package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/seam"
)

// The limits of one reply.
const (
	maxText     = 16 << 20 // text and thinking together
	maxArgs     = 1 << 20  // arguments of one call
	maxCalls    = 254      // with text and thinking, a reply has up to 256 parts
	maxSealed   = 8 << 20  // data kept to be sent back
	maxCited    = 256
	maxMiscount = 1 << 40 // tokens: a larger number is not a count
)

// reply collects a reply from frames.
type reply struct {
	m *model

	text, thinking strings.Builder
	said, thought  joiner
	field          string // field that contained the reasoning
	refused        bool   // the server used the refusal field

	calls   []*call
	details []*detail
	extra   json.RawMessage // extra_content of the message
	sealed  int

	begun     bool // a frame was fully parsed, including the model's name
	model     string
	finish    string
	usage     *usage
	counted   bool // the usage arrived at the end
	citations []parley.Citation
}

// call is a call being received.
type call struct {
	index   int
	indexed bool
	id      string
	name    string
	args    []byte
	extra   json.RawMessage
}

// frame handles one frame and returns new text to show.
func (r *reply) frame(data []byte) (d seam.ModelDelta, err error) {
	if !r.begun {
		aside.Do(func() { d, err = r.parsed(data) }) // what follows, perhaps for long, needs less stack
		return d, err
	}
	if q, ok := quick(data); ok {
		if q.reasoning != nil && r.field == "" {
			r.field = q.field
		}
		return r.add(unescaped(q.content), unescaped(q.reasoning))
	}
	return r.parsed(data)
}

// parsed handles any frame.
func (r *reply) parsed(data []byte) (seam.ModelDelta, error) {
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return seam.ModelDelta{}, nil
	}
	if data[0] == '[' { // Gemini wraps errors in an array
		var all []json.RawMessage
		if json.Unmarshal(data, &all) == nil && len(all) > 0 {
			data = all[0]
		}
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		var bad *json.SyntaxError
		if errors.As(err, &bad) && bad.Offset >= int64(len(data)) || errors.Is(err, io.ErrUnexpectedEOF) {
			return seam.ModelDelta{}, r.m.c.tr.Ended()
		}
		return seam.ModelDelta{}, r.m.c.tr.Malformed("a chunk", err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || string(c.Object) == "error" {
		return seam.ModelDelta{}, r.m.c.failed(0, readFailure(data))
	}
	return r.chunk(&c)
}

func unescaped(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return unquote(make([]byte, 0, len(raw)), raw)
}

// chunk handles one decoded frame.
func (r *reply) chunk(c *chunk) (seam.ModelDelta, error) {
	r.begun = true
	if r.model == "" {
		r.model = strings.ToValidUTF8(string(c.Model), "\ufffd")
	}
	if c.Usage != nil && (c.Usage.Prompt > 0 || c.Usage.Completion > 0) {
		r.usage = c.Usage
		r.counted = len(c.Choices) == 0
	}
	if len(c.Choices) == 0 {
		return seam.ModelDelta{}, nil
	}
	ch := &c.Choices[0] // one choice is requested
	d := &ch.Delta
	if ch.Message != nil {
		d = ch.Message
	}
	if len(ch.Finish) > 0 {
		r.finish = string(ch.Finish)
	}
	if len(d.Refusal) > 0 {
		r.refused = true
		d.Content = append(d.Content, d.Refusal...)
	}
	for _, f := range d.Calls {
		if err := r.fragment(f); err != nil {
			return seam.ModelDelta{}, err
		}
	}
	if err := r.keep(d); err != nil {
		return seam.ModelDelta{}, err
	}
	thought := d.Reasoning
	switch {
	case len(thought) > 0:
		r.name("reasoning")
	case len(d.ReasoningContent) > 0:
		thought = d.ReasoningContent
		r.name("reasoning_content")
	default:
		for _, x := range d.Details {
			thought = append(thought, x.Text...)
			thought = append(thought, x.Summary...)
		}
		if len(thought) > 0 {
			r.name("reasoning")
		}
	}
	return r.add(d.Content, thought)
}

func (r *reply) name(field string) {
	if r.field == "" {
		r.field = field
	}
}

// add adds text and thinking.
func (r *reply) add(text, thinking []byte) (seam.ModelDelta, error) {
	var d seam.ModelDelta
	if len(text) > 0 {
		d.Text = r.said.add(text)
		r.text.WriteString(d.Text)
	}
	if len(thinking) > 0 {
		d.Thinking = r.thought.add(thinking)
		r.thinking.WriteString(d.Thinking)
	}
	if r.text.Len()+r.thinking.Len() > maxText {
		return d, r.tooLarge("text")
	}
	return d, nil
}

func (r *reply) tooLarge(what string) *parley.Error {
	return parley.Errorf(parley.CodeTooLarge, "the reply of %s has too much %s", r.m.info.Name, what).
		WithHint("ask for less at once, or choose another model")
}

// fragment adds a piece of a call to the right call; see [reply.slot].
func (r *reply) fragment(f fragment) error {
	name := strings.ToValidUTF8(string(f.Function.Name), "\ufffd")
	args := bytes.TrimSpace(f.Function.Arguments)
	whole := len(args) > 0 && (args[0] == '{' || args[0] == '[') // not a string, so it is complete
	said := args
	if len(args) >= 2 && args[0] == '"' {
		said = unquote(nil, args[1:len(args)-1])
	} else if !whole {
		said = nil
	}
	c := r.slot(f, name, len(said) > 0)
	if c == nil {
		if len(r.calls) == maxCalls {
			return r.tooLarge("calls")
		}
		c = &call{}
		c.index, c.indexed = f.at()
		r.calls = append(r.calls, c)
	}
	if c.id == "" {
		c.id = strings.ToValidUTF8(string(f.ID), "\ufffd")
	}
	if name != c.name && name != "" {
		c.name += name // the name may come in pieces
	}
	if whole {
		c.args = c.args[:0]
	}
	c.args = append(c.args, said...)
	if len(c.args) > maxArgs || len(c.name) > maxArgs || len(c.id) > maxArgs {
		return r.tooLarge("input of a call")
	}
	if len(f.Extra) > 0 && string(f.Extra) != "null" {
		c.extra = f.Extra
		return r.hold(len(f.Extra))
	}
	return nil
}

// slot finds the call that a fragment continues; nil: it begins a new one. A different id
// begins a new call even if the index is the same, as with vLLM and some gateways. Without
// an index, as with Gemini, the id alone decides. Without either, a name after complete
// arguments begins a new call.
func (r *reply) slot(f fragment, name string, says bool) *call {
	var c *call
	at, indexed := f.at()
	id := string(f.ID)
	for i := len(r.calls) - 1; i >= 0 && c == nil; i-- {
		switch x := r.calls[i]; {
		case indexed && x.indexed && x.index == at, !indexed && id != "" && x.id == id:
			c = x
		case !indexed && id == "":
			c = x // the last call
		}
	}
	if c == nil && id == "" && name == "" && len(r.calls) > 0 {
		c = r.calls[len(r.calls)-1]
	}
	switch {
	case c == nil:
		return nil
	case id != "" && c.id != "" && id != c.id:
		return nil
	case name != "" && name != c.name && c.name != "" && (!indexed || len(c.args) > 0):
		return nil
	case name != "" && name == c.name && says && len(c.args) > 0 && id == "" && json.Valid(c.args):
		return nil
	}
	return c
}

// keep stores what has to be sent back, and citations.
func (r *reply) keep(d *delta) error {
	for i := range d.Details {
		x := &d.Details[i]
		if err := r.hold(len(x.raw)); err != nil {
			return err
		}
		r.details = join(r.details, x)
	}
	if len(d.Extra) > 0 && string(d.Extra) != "null" {
		r.extra = d.Extra
		if err := r.hold(len(d.Extra)); err != nil {
			return err
		}
	}
	for _, a := range d.Annotations {
		if a.Type == "url_citation" && a.URL.URL != "" && len(r.citations) < maxCited {
			r.citations = append(r.citations, parley.Citation{Source: "web", Ref: a.URL.URL, Quote: a.URL.Content})
		}
	}
	return nil
}

func (r *reply) hold(n int) error {
	if r.sealed += n; r.sealed > maxSealed {
		return r.tooLarge("reasoning")
	}
	return nil
}

// tokens returns the usage as the server reports it, or nil.
func (u *usage) tokens(d Dialect) *parley.Usage {
	if u == nil {
		return nil
	}
	count := func(f float64) int64 {
		if !(f > 0) || f > maxMiscount {
			return 0
		}
		return int64(f)
	}
	out := &parley.Usage{
		OutputTokens: count(u.Completion), ReasoningTokens: count(u.CompletionOf.Reasoning),
		CacheReadTokens: max(count(u.PromptOf.Cached), count(u.CacheHit)), CacheWriteTokens: count(u.PromptOf.CacheWrite),
	}
	// Gemini's completion_tokens exclude thoughts; its total includes them.
	if all := count(u.Total) - count(u.Prompt); d == Gemini && all > out.OutputTokens {
		out.ReasoningTokens = max(out.ReasoningTokens, all-out.OutputTokens)
		out.OutputTokens = all
	}
	out.InputTokens = max(count(u.Prompt)-out.CacheReadTokens-out.CacheWriteTokens, 0)
	if usd := u.Cost; usd > 0 && !math.IsInf(usd, 0) {
		if u.BYOK && u.CostOf.Upstream > 0 {
			usd += u.CostOf.Upstream
		}
		out.USD = usd
	}
	return out
}
