package gemini

import (
	"bytes"
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

func (s *Server) content(w http.ResponseWriter, r *http.Request, body []byte, m *Model, stream bool) {
	fault := s.fault()
	if fault.before(w) {
		return
	}
	req, e := parse(body, m)
	if e != nil {
		refuse(w, e)
		return
	}
	s.count(func(c *Counts) { c.Contents++ })
	ask := understood(req, m)
	if s.opt.Asked != nil {
		s.opt.Asked(body, &ask)
	}
	out := &writer{
		s: s, w: w, ctx: r.Context(), model: m, stream: stream, fault: fault, id: s.id("sim-%08d"),
		usage:  usage{Prompt: guess(body), Total: guess(body)},
		thinks: req.Config.Thinking != nil && req.Config.Thinking.Include,
	}
	err := out.relay(s.opt.Brain, ask)
	switch {
	case err == nil, r.Context().Err() != nil, errors.Is(err, errOver):
	case errors.Is(err, io.ErrUnexpectedEOF):
		panic(http.ErrAbortHandler)
	case out.begun:
		out.write(refusalOf(err).body())
	default:
		refuse(w, refusalOf(err))
	}
}

// errOver means that a fault has ended the answer.
var errOver = errors.New("the answer is over")

type usage struct {
	Prompt     int64 `json:"promptTokenCount"`
	Candidates int64 `json:"candidatesTokenCount,omitempty"`
	Cached     int64 `json:"cachedContentTokenCount,omitempty"`
	Thoughts   int64 `json:"thoughtsTokenCount,omitempty"`
	Total      int64 `json:"totalTokenCount"`
}

type answerPart struct {
	Text      *string     `json:"text,omitempty"`
	Thought   bool        `json:"thought,omitempty"`
	Call      *calledPart `json:"functionCall,omitempty"`
	Signature string      `json:"thoughtSignature,omitempty"`
}

type calledPart struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type candidate struct {
	Content *answerContent `json:"content,omitempty"`
	Finish  string         `json:"finishReason,omitempty"`
	Why     string         `json:"finishMessage,omitempty"`
	Index   int            `json:"index"`
}

type answerContent struct {
	Parts []any  `json:"parts,omitempty"`
	Role  string `json:"role"`
}

type chunk struct {
	Candidates []candidate    `json:"candidates,omitempty"`
	Feedback   map[string]any `json:"promptFeedback,omitempty"`
	Usage      usage          `json:"usageMetadata"`
	Model      string         `json:"modelVersion"`
	ID         string         `json:"responseId"`
}

// writer writes one answer, as a stream or whole.
type writer struct {
	s      *Server
	w      http.ResponseWriter
	ctx    context.Context //nolint:containedctx // the context of the one request it serves
	model  *Model
	stream bool
	thinks bool
	fault  Fault
	id     string
	usage  usage

	begun  bool
	chunks int
	err    error
	parts  []any           // all parts, for an answer that is not streamed
	text   strings.Builder // the whole answer
	buf    []byte
}

func (o *writer) relay(brain seam.Model, ask seam.Request) error {
	if o.fault.Blocked != "" {
		return o.last(chunk{Feedback: map[string]any{"blockReason": o.fault.Blocked, "blockReasonMessage": o.fault.Why}})
	}
	for d, err := range brain.Stream(o.ctx, ask) {
		if err != nil {
			return err
		}
		switch {
		case d.Reply != nil:
			return o.finish(d.Reply)
		case d.Thinking != "" && o.thinks:
			o.usage.Thoughts++
			o.add(answerPart{Text: &d.Thinking, Thought: true})
		case d.Text != "":
			o.usage.Candidates++
			o.text.WriteString(d.Text)
			o.add(answerPart{Text: &d.Text})
		}
		if o.err != nil {
			return o.err
		}
	}
	return io.ErrUnexpectedEOF
}

// add writes a part.
func (o *writer) add(p any) {
	if !o.stream {
		if x, ok := p.(answerPart); ok && x.Text != nil && x.Signature == "" && len(o.parts) > 0 {
			if last, ok := o.parts[len(o.parts)-1].(answerPart); ok && last.Text != nil && last.Signature == "" && last.Thought == x.Thought {
				both := *last.Text + *x.Text
				last.Text = &both
				o.parts[len(o.parts)-1] = last
				return
			}
		}
		o.parts = append(o.parts, p)
		return
	}
	o.chunk(chunk{Candidates: []candidate{{Content: &answerContent{Parts: []any{p}, Role: "model"}}}})
}

func (o *writer) chunk(c chunk) {
	o.usage.Total = o.usage.Prompt + o.usage.Candidates + o.usage.Thoughts
	c.Usage, c.Model, c.ID = o.usage, o.model.ID, o.id
	o.write(c)
}

// write writes a chunk, unless a fault happens instead.
func (o *writer) write(v any) {
	if o.err != nil {
		return
	}
	if !o.begun {
		o.begun = true
		if o.w.Header().Get("Content-Type") == "" {
			o.w.Header().Set("Content-Type", "text/event-stream")
		}
	}
	raw := marshal(v)
	if o.fault.Then != "" && o.chunks >= o.fault.After {
		o.err = errOver
		switch o.fault.Then {
		case ThenCut:
			o.err = io.ErrUnexpectedEOF
			_, _ = o.w.Write(append([]byte("data: "), raw[:len(raw)/2]...))
			_ = http.NewResponseController(o.w).Flush()
			return
		case ThenEnd:
			return
		case ThenChunk:
			raw = raw[:len(raw)/2]
		case ThenError:
			raw = marshal(o.fault.Error.body())
		case ThenBare:
			var nice bytes.Buffer
			_ = json.Indent(&nice, marshal(o.fault.Error.body()), "", "  ") // just encoded
			_, _ = o.w.Write(nice.Bytes())
			return
		}
	}
	o.chunks++
	o.buf = sse.AppendFrame(o.buf[:0], sse.Frame{Data: raw})
	// The provider ends lines with CR LF.
	if _, err := o.w.Write(bytes.ReplaceAll(o.buf, []byte("\n"), []byte("\r\n"))); err != nil && o.err == nil {
		o.err = err
	}
	if err := http.NewResponseController(o.w).Flush(); err != nil && o.err == nil {
		o.err = err
	}
	if o.err == nil {
		o.err = o.ctx.Err()
	}
}

// marshal writes JSON as the provider does, without escaping HTML characters.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // values of this package: strings, numbers and JSON that was checked
	return bytes.TrimSpace(b.Bytes())
}

// finish ends the answer with what the brain did not stream: calls, the provider's own parts,
// and a signature.
func (o *writer) finish(r *seam.Reply) error {
	calls := 0
	for _, p := range r.Parts {
		switch p.Type {
		case parley.PartToolCall:
			if isObject(p.Input) { // an incomplete call is not sent
				o.use(p.Name, p.Input, calls == 0)
				calls++
			}
		case parley.PartHandoff:
			in := json.RawMessage("{}")
			if p.Text != "" {
				in = marshal(map[string]string{"reason": p.Text})
			}
			o.use(handoff+p.Name, in, calls == 0)
			calls++
		case parley.PartProvider:
			if isObject(p.Signature) {
				o.add(p.Signature)
			}
		}
	}
	end := candidate{Finish: "STOP", Why: o.fault.Why}
	switch r.StopReason {
	case "", "end_turn", "tool_use":
	case "max_tokens":
		end.Finish = "MAX_TOKENS"
	case "refusal":
		end.Finish = "SAFETY"
	default:
		end.Finish = strings.ToUpper(r.StopReason)
	}
	if o.fault.Finish != "" {
		end.Finish = o.fault.Finish
	}
	seal := answerPart{Text: new(string)}
	if o.model.Seals && calls == 0 && o.text.Len() > 0 {
		seal.Signature = sign(o.model, "text", o.text.String())
	}
	switch {
	case o.stream && (end.Finish == "STOP" || end.Finish == "MAX_TOKENS"):
		end.Content = &answerContent{Parts: []any{seal}, Role: "model"} // an empty text, with or without a signature
	case !o.stream:
		if seal.Signature != "" {
			o.parts = append(o.parts, seal)
		}
		end.Content = &answerContent{Parts: o.parts, Role: "model"}
	}
	if u := r.Usage; u.InputTokens+u.CacheReadTokens > 0 {
		o.usage.Prompt, o.usage.Cached = u.InputTokens+u.CacheReadTokens, u.CacheReadTokens
	}
	o.usage.Candidates = max(r.Usage.OutputTokens-r.Usage.ReasoningTokens, 1)
	o.usage.Thoughts = r.Usage.ReasoningTokens
	return o.last(chunk{Candidates: []candidate{end}})
}

// last writes the chunk that ends the answer, or the whole answer.
func (o *writer) last(c chunk) error {
	if o.stream {
		o.chunk(c)
		return o.err
	}
	o.usage.Total = o.usage.Prompt + o.usage.Candidates + o.usage.Thoughts
	c.Usage, c.Model, c.ID = o.usage, o.model.ID, o.id
	answer(o.w, http.StatusOK, c)
	return nil
}

func (o *writer) use(name string, input json.RawMessage, first bool) {
	p := answerPart{Call: &calledPart{Name: name, Args: input}}
	if !o.model.NoIDs {
		p.Call.ID = o.s.id("fc%06d")
	}
	if o.model.Seals && first {
		p.Signature = signCall(o.model, name, input)
	}
	o.add(p)
}
