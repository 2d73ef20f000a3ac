package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

func (s *Server) messages(w http.ResponseWriter, r *http.Request, body []byte) {
	fault := s.fault()
	if fault.before(w) {
		return
	}
	req, e := parse(body, false, r.Header.Get("Anthropic-Beta") != "")
	if e == nil {
		e = s.fits(req)
	}
	if e != nil {
		refuse(w, e)
		return
	}
	s.count(func(c *Counts) { c.Messages++ })
	ask := understood(req)
	if s.opt.Asked != nil {
		s.opt.Asked(body, &ask)
	}
	out := &writer{s: s, w: w, ctx: r.Context(), req: req, fault: fault, input: guess(body), id: s.id("msg")}
	err := out.relay(s.opt.Brain, ask)
	switch {
	case err == nil, r.Context().Err() != nil, errors.Is(err, errOver):
	case errors.Is(err, io.ErrUnexpectedEOF):
		panic(http.ErrAbortHandler)
	case out.begun:
		e, _ := refusalOf(err)
		out.event("error", e.body(w.Header().Get("Request-Id")))
	default:
		e, wait := refusalOf(err)
		retryAfter(w.Header(), wait)
		refuse(w, e)
	}
}

// errOver means that a fault has ended the answer.
var errOver = errors.New("the answer is over")

// writer writes one answer, as a stream or whole.
type writer struct {
	s     *Server
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // the context of the one request it serves
	req   *request
	fault Fault
	input int64
	id    string

	begun  bool
	events int
	err    error
	blocks []map[string]any // for an answer that is not streamed
	open   string           // type of the open block
	text   strings.Builder  // text of the open block
	buf    []byte
}

func (o *writer) thinks() bool {
	return o.req.Thinking != nil && o.req.Thinking.Type != "disabled"
}

func (o *writer) relay(brain seam.Model, ask seam.Request) error {
	for d, err := range brain.Stream(o.ctx, ask) {
		if err != nil {
			return err
		}
		if err := o.begin(); err != nil {
			return err
		}
		switch {
		case d.Reply != nil:
			return o.finish(d.Reply)
		case d.Thinking != "" && o.thinks():
			o.add("thinking", d.Thinking)
		case d.Text != "":
			o.add("text", d.Text)
		}
		if o.err != nil {
			return o.err
		}
	}
	return io.ErrUnexpectedEOF
}

func (o *writer) begin() error {
	if o.begun || !o.req.Stream {
		return nil
	}
	o.begun = true
	if o.w.Header().Get("Content-Type") == "" {
		o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	o.w.Header().Set("Cache-Control", "no-cache")
	o.event("message_start", map[string]any{"type": "message_start", "message": o.message([]map[string]any{}, nil, usage(parley.Usage{InputTokens: o.input, OutputTokens: 1}))})
	o.event("ping", map[string]any{"type": "ping"})
	return o.err
}

func (o *writer) message(content []map[string]any, stop any, usage map[string]any) map[string]any {
	return map[string]any{
		"id": o.id, "type": "message", "role": "assistant", "model": o.req.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
}

func usage(u parley.Usage) map[string]any {
	return map[string]any{
		"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
		"cache_read_input_tokens": u.CacheReadTokens, "cache_creation_input_tokens": u.CacheWriteTokens,
		"output_tokens_details": map[string]int64{"thinking_tokens": u.ReasoningTokens},
		"service_tier":          "standard",
	}
}

// event writes an event, unless a fault happens instead.
func (o *writer) event(name string, v any) {
	if o.err != nil || !o.req.Stream {
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		o.err = err
		return
	}
	over := o.fault.Then != "" && o.events >= o.fault.After
	if over {
		o.err = errOver
		switch o.fault.Then {
		case ThenCut:
			o.err = io.ErrUnexpectedEOF
			raw = raw[:len(raw)/2]
			_, _ = o.w.Write(append([]byte("event: "+name+"\ndata: "), raw...))
			_ = http.NewResponseController(o.w).Flush()
			return
		case ThenEnd:
			return
		case ThenChunk:
			raw = raw[:len(raw)/2]
		case ThenError:
			e := &Error{Type: o.fault.Type, Message: o.fault.Message}
			name = "error"
			if raw, err = json.Marshal(e.body(o.w.Header().Get("Request-Id"))); err != nil {
				return
			}
		}
	}
	o.events++
	o.buf = sse.AppendFrame(o.buf[:0], sse.Frame{Event: name, Data: raw})
	if _, err := o.w.Write(o.buf); err != nil && o.err == nil {
		o.err = err
	}
	if err := http.NewResponseController(o.w).Flush(); err != nil && o.err == nil {
		o.err = err
	}
	if o.err == nil {
		o.err = o.ctx.Err()
	}
}

// start starts a block.
func (o *writer) start(kind string, block map[string]any) {
	o.close()
	o.open = kind
	o.event("content_block_start", map[string]any{"type": "content_block_start", "index": len(o.blocks), "content_block": block})
	o.blocks = append(o.blocks, block)
}

func (o *writer) delta(d any) {
	o.event("content_block_delta", struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta any    `json:"delta"`
	}{"content_block_delta", len(o.blocks) - 1, d})
}

type textDelta struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type thinkingDelta struct {
	Type     string `json:"type"`
	Thinking string `json:"thinking"`
}

type inputDelta struct {
	Type        string `json:"type"`
	PartialJSON string `json:"partial_json"`
}

type signatureDelta struct {
	Type      string `json:"type"`
	Signature string `json:"signature"`
}

// add streams a piece of text or thinking.
func (o *writer) add(kind, piece string) {
	if o.open != kind {
		block := map[string]any{"type": "text", "text": ""}
		if kind == "thinking" {
			block = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		}
		o.start(kind, block)
	}
	o.text.WriteString(piece)
	switch {
	case kind == "text":
		o.delta(textDelta{"text_delta", piece})
	case o.req.Thinking.Display != "omitted":
		o.delta(thinkingDelta{"thinking_delta", piece})
	}
}

// close ends the open block.
func (o *writer) close() {
	if o.open == "" {
		return
	}
	block := o.blocks[len(o.blocks)-1]
	switch o.open {
	case "text":
		block["text"] = o.text.String()
	case "thinking":
		text := o.text.String()
		if o.req.Thinking.Display == "omitted" {
			text = ""
		}
		block["thinking"], block["signature"] = text, sign(o.req.Model, text)
		o.delta(signatureDelta{"signature_delta", sign(o.req.Model, text)})
	}
	o.text.Reset()
	o.open = ""
	o.event("content_block_stop", map[string]any{"type": "content_block_stop", "index": len(o.blocks) - 1})
}

// finish ends the answer with what the brain did not stream: calls and the provider's own
// blocks.
func (o *writer) finish(r *seam.Reply) error {
	calls := false
	for _, p := range r.Parts {
		switch p.Type {
		case parley.PartToolCall:
			o.use(p.Name, p.Input)
			calls = true
		case parley.PartHandoff:
			in := json.RawMessage("{}")
			if p.Text != "" {
				in, _ = json.Marshal(map[string]string{"reason": p.Text})
			}
			o.use(handoff+p.Name, in)
			calls = true
		case parley.PartProvider:
			o.provider(p.Signature)
		}
	}
	o.close()
	stop := r.StopReason
	switch {
	case stop != "":
	case calls:
		stop = "tool_use"
	default:
		stop = "end_turn"
	}
	u := r.Usage
	if u.InputTokens == 0 {
		u.InputTokens = o.input
	}
	u.OutputTokens = max(u.OutputTokens, 1)
	if !o.req.Stream {
		if o.blocks == nil {
			o.blocks = []map[string]any{}
		}
		answer(o.w, http.StatusOK, o.message(o.blocks, stop, usage(u)))
		return nil
	}
	o.event("message_delta", map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": usage(u),
	})
	o.event("message_stop", map[string]any{"type": "message_stop"})
	return o.err
}

// pieceOf is how many bytes of arguments come in one delta.
const pieceOf = 12

func (o *writer) use(name string, input json.RawMessage) {
	block := map[string]any{"type": "tool_use", "id": o.s.id("toolu"), "name": name, "input": map[string]any{}}
	o.start("tool_use", block)
	o.arguments(string(input))
	if json.Valid(input) {
		block["input"] = input
	}
	o.close()
}

// arguments streams an input in pieces, which may end inside escapes but not inside a UTF-8
// sequence.
func (o *writer) arguments(input string) {
	o.delta(inputDelta{"input_json_delta", ""})
	if input == "{}" {
		return
	}
	var piece strings.Builder
	for _, r := range input {
		if piece.WriteRune(r); piece.Len() >= pieceOf {
			o.delta(inputDelta{"input_json_delta", piece.String()})
			piece.Reset()
		}
	}
	if piece.Len() > 0 {
		o.delta(inputDelta{"input_json_delta", piece.String()})
	}
}

// provider writes a block unchanged, but streams the input of a tool that the provider runs in
// pieces.
func (o *writer) provider(raw json.RawMessage) {
	var block map[string]any
	if json.Unmarshal(raw, &block) != nil || block["type"] == nil {
		return
	}
	input, ok := block["input"]
	if !ok {
		o.start("own", block)
		o.close()
		return
	}
	args, err := json.Marshal(input)
	if err != nil {
		return
	}
	block["input"] = map[string]any{}
	o.start("own", block)
	o.arguments(string(args))
	block["input"] = input
	o.close()
}
