package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

const (
	// maxFrame limits one chunk. An image comes in a single chunk.
	maxFrame = 32 << 20
	// maxParts limits the parts of a reply.
	maxParts = 256
	// maxArguments limits the arguments of one call.
	maxArguments = 1 << 20
	// maxReply limits everything that is kept of a reply.
	maxReply = 32 << 20
)

// errStopped means that the reader stopped reading.
var errStopped = errors.New("gemini: the reader went away")

// decoder builds a reply from one stream. Each chunk adds some parts; calls come whole. The
// chunk with a finish reason is the last that matters.
type decoder struct {
	c     *Client
	said  transport.Provider
	names *names
	model string // as requested
	show  func(seam.ModelDelta) bool

	name     string // as the response names it
	pieces   []*piece
	size     int
	usage    []byte // of the last chunk that had one: the numbers are totals
	finish   string
	message  string // the explanation of finish
	blocked  string // why the prompt was blocked
	cites    []parley.Citation
	unquoted []byte
}

// piece is a part while it is being received.
type piece struct {
	kind      parley.PartType
	join      whole
	text      strings.Builder
	call      functionCall
	raw       json.RawMessage // of a part of the provider's own
	signature string
	apart     bool // the signature came in a separate part
}

type functionCall struct {
	ID       string          `json:"id,omitempty"`
	Name     string          `json:"name"`
	Args     json.RawMessage `json:"args,omitempty"`
	Partial  json.RawMessage `json:"partialArgs,omitempty"`
	Continue bool            `json:"willContinue,omitempty"`
}

// part is any part of a chunk.
type part struct {
	Text      json.RawMessage `json:"text"`
	Thought   bool            `json:"thought"`
	Call      *functionCall   `json:"functionCall"`
	Signature string          `json:"thoughtSignature"`
}

// chunk is any chunk of a stream.
type chunk struct {
	Candidates []struct {
		Index   int `json:"index"`
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		FinishReason  string    `json:"finishReason"`
		FinishMessage string    `json:"finishMessage"`
		Grounding     grounding `json:"groundingMetadata"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
		Message     string `json:"blockReasonMessage"`
	} `json:"promptFeedback"`
	Usage        json.RawMessage `json:"usageMetadata"`
	ModelVersion string          `json:"modelVersion"`
	Error        *failure        `json:"error"`
}

// read reads the stream to its end.
func (d *decoder) read(ctx context.Context, body io.Reader) (*seam.Reply, error) {
	bare := &bareLines{r: body}
	for f, err := range sse.Decode(bare, maxFrame) {
		if ctx.Err() != nil { // nobody wants the rest of the buffer
			return nil, ctx.Err()
		}
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return nil, d.said.Malformed("a chunk that is too large", nil)
		case err != nil && d.over():
			return d.reply() // the reply was complete
		case err != nil:
			return nil, d.said.Failure(ctx, err)
		}
		if err := d.chunk(f.Data); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if f, ok := failureOf(bare.kept); ok {
		return nil, d.c.interrupted(f)
	}
	if !d.over() {
		return nil, d.said.Ended()
	}
	return d.reply()
}

func (d *decoder) over() bool { return d.finish != "" || d.blocked != "" }

func (d *decoder) chunk(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if f, ok := quick(data); ok && d.finish == "" && bytes.IndexByte(f.model, '\\') < 0 {
		if string(f.model) != d.name && len(f.model) > 0 {
			d.name = string(f.model)
		}
		if f.usage != nil {
			d.usage = append(d.usage[:0], f.usage...)
		}
		kind := parley.PartText
		if f.thought {
			kind = parley.PartThinking
		}
		return d.text(kind, f.text)
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return d.said.Malformed("a chunk", err)
	}
	if c.Error != nil {
		return d.c.interrupted(*c.Error)
	}
	if c.ModelVersion != "" {
		d.name = c.ModelVersion
	}
	if len(c.Usage) > 0 && c.Usage[0] == '{' {
		d.usage = append(d.usage[:0], c.Usage...)
	}
	if c.Feedback.BlockReason != "" {
		d.blocked, d.message = c.Feedback.BlockReason, c.Feedback.Message
	}
	for _, x := range c.Candidates {
		if x.Index != 0 {
			continue // one was requested
		}
		for _, raw := range x.Content.Parts {
			if err := d.part(raw); err != nil {
				return err
			}
		}
		d.cite(x.Grounding)
		if x.FinishReason != "" && x.FinishReason != "FINISH_REASON_UNSPECIFIED" {
			d.finish, d.message = x.FinishReason, x.FinishMessage
		}
	}
	return nil
}

// part handles a part that does not have the common form.
func (d *decoder) part(raw json.RawMessage) error {
	var p part
	if err := json.Unmarshal(raw, &p); err != nil {
		return d.said.Malformed("a part", err)
	}
	kind := parley.PartText
	if p.Thought {
		kind = parley.PartThinking
	}
	// An empty thought may come without its text, because zero values are omitted.
	bare := p.Thought && p.Call == nil && p.Text == nil && p.Signature != ""
	switch {
	case p.Call != nil:
		return d.called(*p.Call, p.Signature)
	case p.Text != nil && len(p.Text) < 2, p.Text != nil && p.Text[0] != '"':
		return d.said.Malformed("a text that is not a string", nil)
	case len(p.Text) > 2 && p.Signature != "":
		// Text with a seal is not merged with text without one.
		if _, err := d.begin(kind); err != nil {
			return err
		}
		if err := d.text(kind, p.Text[1:len(p.Text)-1]); err != nil {
			return err
		}
		return d.sign(p.Signature, false)
	case len(p.Text) > 2:
		return d.text(kind, p.Text[1:len(p.Text)-1])
	case p.Signature == "" && p.Text != nil:
		return nil
	case p.Text != nil || bare:
		if last := d.last(); last != nil && last.kind == kind && last.signature == "" {
			return d.sign(p.Signature, true)
		}
	}
	// A part of the provider's own, or a signature without a part before it.
	x, err := d.begin(parley.PartProvider)
	if err != nil {
		return err
	}
	x.raw = raw
	return d.grow(len(raw))
}

func (d *decoder) last() *piece {
	if n := len(d.pieces); n > 0 {
		return d.pieces[n-1]
	}
	return nil
}

// begin ends the last piece and starts another.
func (d *decoder) begin(kind parley.PartType) (*piece, error) {
	if err := d.end(); err != nil {
		return nil, err
	}
	if len(d.pieces) >= maxParts {
		return nil, d.tooLarge("parts")
	}
	d.pieces = append(d.pieces, &piece{kind: kind})
	return d.last(), nil
}

// end shows what the last piece held back.
func (d *decoder) end() error {
	if p := d.last(); p != nil {
		return d.say(p, p.join.rest())
	}
	return nil
}

func (d *decoder) sign(signature string, apart bool) error {
	p := d.last()
	p.signature, p.apart = signature, apart
	return d.grow(len(signature))
}

// text adds a fragment, given as the inside of a JSON string.
func (d *decoder) text(kind parley.PartType, inside []byte) error {
	p := d.last()
	if p == nil || p.kind != kind || p.signature != "" {
		if len(inside) == 0 {
			return nil
		}
		var err error
		if p, err = d.begin(kind); err != nil {
			return err
		}
	}
	if bytes.IndexByte(inside, '\\') >= 0 {
		var ok bool
		if d.unquoted, ok = quoted(d.unquoted[:0], inside); !ok {
			return d.said.Malformed("a text with an invalid escape", nil)
		}
		inside = d.unquoted
	}
	if err := d.grow(len(inside)); err != nil {
		return err
	}
	return d.say(p, p.join.add(inside))
}

// say shows complete text and adds it to its piece.
func (d *decoder) say(p *piece, text string) error {
	if text == "" {
		return nil
	}
	p.text.WriteString(text)
	delta := seam.ModelDelta{Text: text}
	if p.kind == parley.PartThinking {
		delta = seam.ModelDelta{Thinking: text}
	}
	if !d.show(delta) {
		return errStopped
	}
	return nil
}

func (d *decoder) called(f functionCall, signature string) error {
	if f.Name == "" || f.Continue || len(f.Partial) > 0 {
		return d.said.Malformed("an incomplete call", nil) // streaming of arguments was not requested
	}
	if len(f.Args) == 0 || string(f.Args) == "null" {
		f.Args = json.RawMessage("{}")
	}
	if f.Args[0] != '{' {
		return d.said.Malformed("a call whose arguments are not an object", nil)
	}
	if len(f.Args) > maxArguments {
		return d.tooLarge("bytes in the arguments of a call")
	}
	p, err := d.begin(parley.PartToolCall)
	if err != nil {
		return err
	}
	p.call, p.signature = f, signature
	return d.grow(len(f.Args) + len(f.ID) + len(f.Name) + len(signature))
}

func (d *decoder) grow(n int) error {
	if d.size += n; d.size > maxReply {
		return d.tooLarge("bytes")
	}
	return nil
}

func (d *decoder) tooLarge(of string) error {
	return parley.Errorf(parley.CodeTooLarge, "the reply of %s has too many %s", d.model, of).WithHint("ask for less at once")
}

// bareLines collects text in a stream that is not a line of it: a provider that fails after it
// began may write the error object as it is.
type bareLines struct {
	r       io.Reader
	kept    []byte
	keeping bool
	inside  bool // within a line
}

func (b *bareLines) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	rest := p[:n]
	for len(rest) > 0 && !b.keeping {
		if !b.inside && (rest[0] == '{' || rest[0] == '[') {
			b.keeping = true
			break
		}
		end := bytes.IndexByte(rest, '\n')
		if b.inside = end < 0; b.inside {
			return n, err
		}
		rest = rest[end+1:]
	}
	if b.keeping {
		b.kept = append(b.kept, rest[:min(len(rest), maxBare-len(b.kept))]...)
	}
	return n, err
}

// maxBare limits what is kept of an error.
const maxBare = 64 << 10
