package openai

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

// maxFrame limits one frame, and an answer that is not streamed.
const maxFrame = 32 << 20

// maxAdapts limits how often one call is sent again without a rejected field: a model has only
// so many quirks.
const maxAdapts = 5

// Stream makes one call. See [seam.Model].
func (m *model) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	n := newNames(&r)
	first := m.request(ctx, &r, n, m.known())
	return func(yield func(seam.ModelDelta, error) bool) {
		resp, size, err := m.open(ctx, &r, n, first)
		r, first = seam.Request{}, made{} // the server has it, and the reply may take long
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		defer resp.Body.Close()
		rep := &reply{m: m}
		gone := false
		show := func(d seam.ModelDelta) bool {
			if d.Text != "" || d.Thinking != "" {
				gone = !yield(d, nil)
			}
			return !gone && ctx.Err() == nil
		}
		err = rep.read(ctx, resp, show)
		if gone {
			return
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil {
			rest := seam.ModelDelta{Text: rep.said.end(), Thinking: rep.thought.end()}
			rep.text.WriteString(rest.Text)
			rep.thinking.WriteString(rest.Thinking)
			if !show(rest) && gone {
				return
			}
			var done *seam.Reply
			if done, err = rep.end(n, size); err == nil {
				yield(seam.ModelDelta{Reply: done}, nil)
				return
			}
		}
		yield(seam.ModelDelta{}, err)
	}
}

// known is what the server is known to reject.
func (m *model) known() quirks { return m.c.d.at(m.id) | m.c.knows(m.id) }

// open sends the request, without the fields that the server is known to reject.
func (m *model) open(ctx context.Context, r *seam.Request, n *names, q made) (resp *http.Response, size int, err error) {
	most := r.MaxTokens
	if err := m.fits(ctx, r); err != nil {
		return nil, 0, err
	}
	if r.MaxTokens != most {
		q = m.request(ctx, r, n, q.without)
	}
	found := quirks(0)
	for try := 0; ; try++ {
		if q.err != nil {
			return nil, 0, q.err
		}
		resp, err := m.c.tr.Post(ctx, m.c.opt.HTTP, m.c.base+"/chat/completions", m.c.header("text/event-stream"), q.raw)
		if err != nil {
			return nil, 0, err
		}
		if resp.StatusCode/100 == 2 {
			// Only this success shows that the field was the reason.
			if found != 0 {
				m.c.learn(m.id, found)
			}
			return resp, q.size, nil
		}
		f, err := m.c.refusal(resp)
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		reason := drop(resp.StatusCode, f, q.sent)
		if reason == 0 || try == maxAdapts {
			return nil, 0, err
		}
		m.c.opt.Logger.Info("a model server rejected a field; the call was repeated without it", "model", m.info.Name, "words", m.c.tr.Words(f.words))
		found |= reason
		q = m.request(ctx, r, n, q.without|reason)
	}
}

// read reads frames until the reply is complete or has failed.
func (r *reply) read(ctx context.Context, resp *http.Response, show func(seam.ModelDelta) bool) error {
	var body io.Reader = resp.Body
	if !transport.IsType(resp, sse.ContentType) {
		// Some servers send no content type, or a wrong one.
		begin := bufio.NewReader(body)
		body = begin
		switch first, err := firstByte(begin); {
		case err != nil && !errors.Is(err, io.EOF):
			return r.m.c.tr.Failure(ctx, err)
		case err != nil:
			return r.m.c.tr.Ended()
		case first == '{' || first == '[':
			return r.whole(ctx, body, show)
		case transport.IsType(resp, "text/html") || first != 'd' && first != ':' && first != 'e':
			return r.m.c.tr.Malformed("a response that is not a reply", nil)
		}
	}
	// The last frame may lack its blank line.
	ended := false
	for f, err := range sse.Decode(io.MultiReader(body, strings.NewReader("\n\n")), maxFrame) {
		if err != nil {
			if r.finish != "" && ctx.Err() == nil {
				return nil // the reply is complete; at most the usage is lost
			}
			if errors.Is(err, sse.ErrTooLarge) {
				return r.tooLarge("in one piece")
			}
			return r.m.c.tr.Failure(ctx, err)
		}
		if data := bytes.TrimSpace(f.Data); bytes.HasPrefix(data, []byte("[DONE]")) {
			ended = true
			break
		}
		d, err := r.frame(f.Data)
		if !show(d) {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	// Without a finish reason the stream was cut off, unless the server also sent the usage and
	// ended the stream properly. [DONE] alone proves nothing: gateways send it even after their
	// own provider has failed.
	if r.finish == "" && !(ended && r.counted) {
		return r.m.c.tr.Ended()
	}
	return nil
}

func firstByte(b *bufio.Reader) (byte, error) {
	for {
		c, err := b.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, b.UnreadByte()
		}
	}
}

// whole reads an answer that is not streamed, from a server that does not stream.
func (r *reply) whole(ctx context.Context, body io.Reader, show func(seam.ModelDelta) bool) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxFrame+1))
	if err != nil {
		return r.m.c.tr.Failure(ctx, err)
	}
	if len(raw) > maxFrame {
		return r.tooLarge("in one piece")
	}
	d, err := r.frame(raw)
	if !show(d) {
		return ctx.Err()
	}
	if err == nil && r.finish == "" {
		err = r.m.c.tr.Ended()
	}
	return err
}

// stopReason converts finish_reason to our words; an unknown one stays.
func stopReason(finish string) string {
	switch strings.ToLower(finish) {
	case "", "stop", "end_turn", "eos", "eos_token", "stop_sequence", "complete", "tool_calls", "tool_use", "function_call":
		return "end_turn"
	case "length", "max_tokens", "model_length", "max_output_tokens":
		return "max_tokens"
	case "content_filter", "safety", "recitation", "prohibited_content", "refusal", "sensitive":
		return "refusal"
	}
	return finish
}

// end builds the reply from what was collected.
func (r *reply) end(n *names, size int) (*seam.Reply, error) {
	c := r.m.c
	stop := stopReason(r.finish)
	switch strings.ToLower(r.finish) {
	case "error", "network_error", "failed":
		return nil, c.tr.Refused(parley.CodeUnavailable, "it broke off in the middle of a reply")
	case "tool_calls", "tool_use", "function_call":
		if len(r.calls) == 0 {
			return nil, r.lost("announced tool calls and made none")
		}
	}
	if r.refused {
		stop = "refusal"
	}
	out := &seam.Reply{StopReason: stop, Citations: r.citations}
	sealed := seal{Dialect: c.opt.Dialect, Model: r.m.id}
	if r.thinking.Len() > 0 || len(r.details) > 0 {
		s := sealed
		s.Field = r.field
		for _, d := range r.details {
			s.Details = append(s.Details, d.whole())
		}
		out.Parts = append(out.Parts, s.on(parley.Part{Type: parley.PartThinking, Text: r.thinking.String()}, r.m.info.Provider))
	}
	if r.extra != nil {
		s := sealed
		s.Extra = r.extra
		out.Parts = append(out.Parts, s.on(parley.Part{Type: parley.PartProvider, Name: "extra_content"}, r.m.info.Provider))
	}
	if r.text.Len() > 0 {
		out.Parts = append(out.Parts, parley.Part{Type: parley.PartText, Text: r.text.String()})
	}
	// Calls of a reply that was cut off must not be made: even a call that looks complete may
	// have been meant to continue.
	if stop != "max_tokens" && stop != "refusal" {
		for _, x := range r.calls {
			p, err := r.part(x, n)
			if err != nil {
				return nil, err
			}
			if x.extra != nil {
				s := sealed
				s.Extra = x.extra
				p = s.on(p, r.m.info.Provider)
			}
			out.Parts = append(out.Parts, p)
			out.StopReason = "tool_use" // Gemini and others say "stop"
		}
	}
	out.Model = r.m.info.Name
	if prefix, _, ok := strings.Cut(out.Model, "/"); ok && r.model != "" {
		out.Model = prefix + "/" + r.model
	}
	out.Usage = r.used(size)
	out.Warning = r.m.doubt(size, out.Usage)
	return out, nil
}

// lost is the error for a call that was lost, for example when a server's parser of the model's
// own notation fails.
func (r *reply) lost(what string) *parley.Error {
	return parley.Errorf(parley.CodeUnavailable, "%s %s", r.m.c.tr.Name, what).
		WithHint("try again, and check that the server's tool-call parser matches the model")
}

func (s seal) on(p parley.Part, provider string) parley.Part {
	raw, err := encode(s)
	if err == nil {
		p.Signature, p.Provider = raw, provider
	}
	return p
}

// part converts a call to a part: a tool call or a handoff.
func (r *reply) part(x *call, n *names) (parley.Part, error) {
	if x.name == "" {
		return parley.Part{}, r.lost("called a tool without a name")
	}
	in, err := r.input(x)
	if err != nil {
		return parley.Part{}, err
	}
	t, ok := n.back[x.name]
	if !ok {
		t.name = x.name
	}
	if !t.handoff {
		return parley.Part{Type: parley.PartToolCall, ProviderID: x.id, Name: t.name, Input: in}, nil
	}
	var why struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(in, &why) // a reason that is not a text is ignored
	return parley.Part{Type: parley.PartHandoff, ProviderID: x.id, Name: t.name, Text: why.Reason}, nil
}

// input returns a call's arguments as JSON. If they are not JSON although the reply is complete,
// that is the model's mistake: they go on as a string, which the tool's schema rejects, so that
// the model is told. If the reply has no finish reason and the arguments end in the middle, the
// call was cut off.
func (r *reply) input(x *call) (json.RawMessage, error) {
	var j joiner
	raw := []byte(j.add(x.args) + j.end())
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), nil
	}
	var v json.RawMessage
	err := json.Unmarshal(raw, &v)
	if err == nil {
		if raw[0] == '"' { // an object that was encoded as a string twice
			var inner string
			if json.Unmarshal(raw, &inner) == nil && strings.HasPrefix(strings.TrimSpace(inner), "{") && json.Valid([]byte(inner)) {
				return json.RawMessage(inner), nil
			}
		}
		return raw, nil
	}
	// Servers that translate another API start with {} for "nothing yet".
	if rest, ok := bytes.CutPrefix(raw, []byte("{}")); ok && json.Valid(rest) {
		return rest, nil
	}
	var bad *json.SyntaxError
	if r.finish == "" && errors.As(err, &bad) && strings.Contains(bad.Error(), "unexpected end") {
		return nil, r.m.c.tr.Ended()
	}
	return encode(string(raw))
}

// used returns the reply's usage in tokens, estimated if the server does not report it.
func (r *reply) used(size int) parley.Usage {
	if u := r.usage.tokens(r.m.c.opt.Dialect); u != nil {
		return *u
	}
	per := r.m.info.TokenBytes
	if per <= 0 {
		per = 3
	}
	said := r.text.Len() + r.thinking.Len()
	for _, x := range r.calls {
		said += len(x.name) + len(x.args)
	}
	guess := func(n int) int64 { return max(int64(float64(n)/per), 1) }
	return parley.Usage{
		InputTokens: guess(size), OutputTokens: guess(said), Estimated: true,
		ReasoningTokens: int64(float64(r.thinking.Len()) / per),
	}
}
