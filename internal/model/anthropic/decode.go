package anthropic

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
	// maxFrame is the limit of the provider's own clients.
	maxFrame = 32 << 20
	// maxBlocks limits the blocks of a reply.
	maxBlocks = 256
	// maxArguments limits the arguments of one call.
	maxArguments = 1 << 20
	// maxReply limits all texts, arguments and blocks of a reply together, including pages that
	// the provider fetched.
	maxReply = 32 << 20
)

// decoder builds a reply from one stream. Frames come in this order: message_start; for each
// block a start, deltas and a stop; message_delta; message_stop. Open blocks may interleave, and
// a ping or an error may come anywhere. Unknown frames are ignored.
type decoder struct {
	said   transport.Provider
	client *Client
	names  *names
	model  string
	show   func(seam.ModelDelta) bool
	most   int // most blocks

	begun   bool
	name    string
	blocks  []*block
	size    int
	usage   usage
	stop    string
	details *stopDetails
}

// block is a content block while it is being received.
type block struct {
	kind   string
	start  json.RawMessage // the block as it started
	join   joiner
	text   strings.Builder // of text or thinking
	seal   strings.Builder // a signature
	input  []byte          // the arguments of a call
	cites  []json.RawMessage
	closed bool
}

type usage struct {
	Input     *int64 `json:"input_tokens"`
	Output    *int64 `json:"output_tokens"`
	CacheRead *int64 `json:"cache_read_input_tokens"`
	CacheMade *int64 `json:"cache_creation_input_tokens"`
	Details   *struct {
		Thinking int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

// over overwrites the numbers of u with those that v has: the numbers in a stream are totals.
func (u *usage) over(v usage) {
	for _, f := range []struct{ to, from **int64 }{
		{&u.Input, &v.Input}, {&u.Output, &v.Output}, {&u.CacheRead, &v.CacheRead}, {&u.CacheMade, &v.CacheMade},
	} {
		if *f.from != nil {
			*f.to = *f.from
		}
	}
	if v.Details != nil {
		u.Details = v.Details
	}
}

func (u usage) tokens() parley.Usage {
	of := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return max(*n, 0)
	}
	p := parley.Usage{InputTokens: of(u.Input), OutputTokens: of(u.Output), CacheReadTokens: of(u.CacheRead), CacheWriteTokens: of(u.CacheMade)}
	if u.Details != nil {
		p.ReasoningTokens = max(u.Details.Thinking, 0)
	}
	return p
}

type stopDetails struct {
	Explanation string `json:"explanation"`
}

// event is any event of a stream.
type event struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Model string `json:"model"`
		Usage usage  `json:"usage"`
	} `json:"message"`
	Block json.RawMessage `json:"content_block"`
	Delta struct {
		Type        string          `json:"type"`
		Text        json.RawMessage `json:"text"`
		Thinking    json.RawMessage `json:"thinking"`
		PartialJSON json.RawMessage `json:"partial_json"`
		Signature   string          `json:"signature"`
		Citation    json.RawMessage `json:"citation"`
		StopReason  string          `json:"stop_reason"`
		StopDetails *stopDetails    `json:"stop_details"`
	} `json:"delta"`
	Usage usage   `json:"usage"`
	Error failure `json:"error"`
}

// read reads the stream to its end.
func (d *decoder) read(ctx context.Context, body io.Reader) (*seam.Reply, error) {
	for f, err := range sse.Decode(body, maxFrame) {
		if err != nil {
			if errors.Is(err, sse.ErrTooLarge) {
				return nil, d.said.Malformed("a chunk that is too large", nil)
			}
			return nil, d.said.Failure(ctx, err)
		}
		if ctx.Err() != nil { // nobody wants the rest of the buffer
			return nil, ctx.Err()
		}
		if i, kind, raw, ok := commonDelta(f.Data); ok {
			if err := d.delta(i, kind, raw); err != nil {
				return nil, err
			}
			continue
		}
		done, err := d.event(f)
		if err != nil {
			return nil, err
		}
		if done {
			return d.reply()
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, d.said.Ended()
}

func (d *decoder) event(f sse.Frame) (done bool, err error) {
	var e event
	if err := json.Unmarshal(f.Data, &e); err != nil {
		return false, d.said.Malformed("a chunk", err)
	}
	switch e.Type {
	case "message_start":
		d.begun, d.name = true, e.Message.Model
		d.usage.over(e.Message.Usage)
	case "content_block_start":
		return false, d.open(e)
	case "content_block_delta":
		return false, d.rare(e)
	case "content_block_stop":
		b, err := d.block(e.Index)
		if err != nil {
			return false, err
		}
		b.closed = true
		return false, d.say(b, b.join.rest())
	case "message_delta":
		if e.Delta.StopReason != "" {
			d.stop, d.details = e.Delta.StopReason, e.Delta.StopDetails
		}
		d.usage.over(e.Usage)
	case "message_stop":
		if !d.begun || d.stop == "" {
			return false, d.said.Ended()
		}
		return true, nil
	case "error":
		return false, d.client.interrupted(e.Error)
	}
	return false, nil
}

// open starts a block. Blocks start in the order of their indices.
func (d *decoder) open(e event) error {
	if !d.begun || e.Index != len(d.blocks) {
		return d.said.Malformed("a block out of order", nil)
	}
	if len(d.blocks) >= d.most {
		return d.tooLarge("parts")
	}
	var head struct {
		Type     string          `json:"type"`
		Text     json.RawMessage `json:"text"`
		Thinking json.RawMessage `json:"thinking"`
		Sig      string          `json:"signature"`
	}
	if err := json.Unmarshal(e.Block, &head); err != nil || head.Type == "" {
		return d.said.Malformed("a block", err)
	}
	b := &block{kind: head.Type, start: e.Block}
	d.blocks = append(d.blocks, b)
	b.seal.WriteString(head.Sig)
	if err := d.grow(len(e.Block)); err != nil {
		return err
	}
	// As far as is known both start empty. If not, their content counts.
	for _, raw := range []json.RawMessage{head.Text, head.Thinking} {
		if s := bytes.TrimPrefix(raw, []byte(`"`)); len(raw) > 0 && len(s) < len(raw) {
			if err := d.delta(e.Index, b.kind+"_delta", s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) block(i int) (*block, error) {
	if i < 0 || i >= len(d.blocks) || d.blocks[i].closed {
		return nil, d.said.Malformed("a delta for a block that is not open", nil)
	}
	return d.blocks[i], nil
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

// rare handles a delta that does not have the common form.
func (d *decoder) rare(e event) error {
	var raw json.RawMessage
	switch e.Delta.Type {
	case "text_delta":
		raw = e.Delta.Text
	case "thinking_delta":
		raw = e.Delta.Thinking
	case "input_json_delta":
		raw = e.Delta.PartialJSON
	case "signature_delta":
		b, err := d.block(e.Index)
		if err != nil {
			return err
		}
		b.seal.WriteString(e.Delta.Signature)
		return d.grow(len(e.Delta.Signature))
	case "citations_delta":
		b, err := d.block(e.Index)
		if err != nil {
			return err
		}
		b.cites = append(b.cites, e.Delta.Citation)
		return d.grow(len(e.Delta.Citation))
	default:
		return nil
	}
	if len(raw) < 2 || raw[0] != '"' {
		return d.said.Malformed("a delta without its text", nil)
	}
	return d.delta(e.Index, e.Delta.Type, raw[1:])
}

// delta adds a fragment to its block. raw is a JSON string after its opening quote.
func (d *decoder) delta(i int, kind string, raw []byte) error {
	b, err := d.block(i)
	if err != nil {
		return err
	}
	piece := raw[:len(raw)-1]
	if bytes.IndexByte(piece, '\\') >= 0 {
		var ok bool
		if piece, _, ok = unquote(make([]byte, 0, len(raw)), raw); !ok {
			return d.said.Malformed("a delta", nil)
		}
	}
	if err := d.grow(len(piece)); err != nil {
		return err
	}
	if kind == "input_json_delta" {
		if b.input = append(b.input, piece...); len(b.input) > maxArguments {
			return d.tooLarge("bytes in the arguments of a call")
		}
		return nil
	}
	if b.kind+"_delta" != kind {
		return d.said.Malformed("a delta of another kind than its block", nil)
	}
	return d.say(b, b.join.add(piece))
}

// say shows complete text and adds it to its block.
func (d *decoder) say(b *block, text string) error {
	if text == "" {
		return nil
	}
	b.text.WriteString(text)
	delta := seam.ModelDelta{Text: text}
	if b.kind == "thinking" {
		delta = seam.ModelDelta{Thinking: text}
	}
	if !d.show(delta) {
		return errStopped
	}
	return nil
}

var (
	deltaHead  = []byte(`{"type":"content_block_delta","index":`)
	deltaText  = []byte(`,"delta":{"type":"text_delta","text":"`)
	deltaThink = []byte(`,"delta":{"type":"thinking_delta","thinking":"`)
	deltaInput = []byte(`,"delta":{"type":"input_json_delta","partial_json":"`)
)

// commonDelta parses the most common delta by hand, since nearly all frames have that form. raw
// is its JSON string, after the opening quote and including the closing one. Other forms are
// left to encoding/json.
func commonDelta(data []byte) (i int, kind string, raw []byte, ok bool) {
	rest, ok := bytes.CutPrefix(data, deltaHead)
	if !ok {
		return 0, "", nil, false
	}
	n := 0
	for n < len(rest) && n < 4 && rest[n] >= '0' && rest[n] <= '9' {
		i = 10*i + int(rest[n]-'0')
		n++
	}
	if n == 0 {
		return 0, "", nil, false
	}
	rest = rest[n:]
	if after, ok := bytes.CutPrefix(rest, deltaText); ok {
		kind, raw = "text_delta", after
	} else if after, ok := bytes.CutPrefix(rest, deltaInput); ok {
		kind, raw = "input_json_delta", after
	} else if after, ok := bytes.CutPrefix(rest, deltaThink); ok {
		kind, raw = "thinking_delta", after
	} else {
		return 0, "", nil, false
	}
	end := bytes.IndexByte(raw, '"')
	if end < 0 {
		return 0, "", nil, false
	}
	if bytes.IndexByte(raw[:end], '\\') >= 0 {
		for end = 0; end < len(raw) && raw[end] != '"'; end++ {
			if raw[end] == '\\' {
				end++
			}
		}
		if end >= len(raw) {
			return 0, "", nil, false
		}
	}
	if tail := raw[end+1:]; string(tail) != "}}" && string(bytes.TrimRight(tail, " \t\r\n")) != "}}" {
		return 0, "", nil, false
	}
	return i, kind, raw[:end+1], true
}
