package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// answer is an answer being written.
type answer struct {
	s    *Server
	q    *request
	f    Fault
	w    http.ResponseWriter
	id   string
	out  []byte
	sent int // frames sent
	at   int // calls sent
	// the thinking, for its signature
	thought strings.Builder
	begun   bool
	// the text around a frame's content
	before, behind string

	usage *parley.Usage
}

func newAnswer(s *Server, q *request, f Fault, w http.ResponseWriter) *answer {
	id := "chatcmpl-" + signature(q.Model, fmt.Sprint(s.Requests()))[:8]
	if s.opt.Dialect == OpenRouter {
		id = "gen-" + id[9:]
	}
	return &answer{s: s, q: q, f: f, w: w, id: id}
}

// errOver ends an answer after a fault.
var errOver = errors.New("sim/openai: the fault has come")

// stream answers with a stream. An error before the brain's first output is a status; a later
// one is a frame.
func (a *answer) stream(r *http.Request) {
	req, no := a.q.understood(a.s.opt.Dialect)
	if no != nil {
		a.s.refuse(a.w, *no, nil)
		return
	}
	for d, err := range a.s.opt.Brain.Stream(r.Context(), req) {
		if err == nil {
			err = a.delta(d)
		}
		switch {
		case errors.Is(err, errOver):
			if a.f.Cut {
				panic(http.ErrAbortHandler)
			}
			if a.f.Stall {
				<-r.Context().Done()
				a.s.gone()
			}
			return
		case r.Context().Err() != nil:
			a.s.gone()
			return
		case errors.Is(err, io.ErrUnexpectedEOF):
			panic(http.ErrAbortHandler)
		case err != nil:
			a.fail(err)
			return
		}
	}
}

// fail reports an error, if the dialect can.
func (a *answer) fail(err error) {
	no, e := a.s.of(err)
	if !a.begun {
		a.s.refuse(a.w, no, e)
		return
	}
	d := a.s.opt.Dialect
	switch d {
	case Ollama: // the error is lost
		_ = a.frame(obj{"id": "", "object": "chat.completion.chunk", "created": 0, "model": "", "choices": []obj{{"index": 0, "delta": obj{"role": "assistant", "content": ""}, "finish_reason": nil}}})
		return
	case OpenRouter:
		f := a.chunk(obj{"content": ""}, "error")
		f["error"] = a.s.d.shape(no).(obj)["error"]
		_ = a.frame(f)
		return
	case Odd:
		_ = a.frame(numbered(no))
		return
	}
	_ = a.frame(a.s.d.shape(no))
	if d == VLLM {
		_ = a.data("[DONE]")
	}
}

// begin sends what precedes the content.
func (a *answer) begin() error {
	if a.begun {
		return nil
	}
	a.begun = true
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.w.Header().Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	switch a.s.opt.Dialect {
	case OpenRouter:
		return a.write(": OPENROUTER PROCESSING\n\n")
	case OpenAI, VLLM, LlamaCpp:
		return a.frame(a.chunk(obj{"role": "assistant", "content": ""}, ""))
	}
	return nil
}

func (a *answer) delta(d seam.ModelDelta) error {
	if err := a.begin(); err != nil {
		return err
	}
	if d.Thinking != "" {
		if err := a.think(d.Thinking); err != nil {
			return err
		}
	}
	if d.Text != "" {
		if err := a.say(d.Text); err != nil {
			return err
		}
	}
	if d.Reply != nil {
		a.usage = &d.Reply.Usage
		return a.end(d.Reply)
	}
	return nil
}

// say sends text. What surrounds it is always the same, and a long answer has many frames.
func (a *answer) say(text string) error {
	if a.before == "" {
		const mark = "<text>"
		frame := string(marshal(a.chunk(a.role(obj{"content": mark}), "")))
		a.before, a.behind, _ = strings.Cut(frame, `"`+mark+`"`)
	}
	return a.data(a.before + string(marshal(text)) + a.behind)
}

// role adds the role to each delta, in some dialects.
func (a *answer) role(d obj) obj {
	switch a.s.opt.Dialect {
	case Ollama, OpenRouter, Gemini:
		d["role"] = "assistant"
	}
	return d
}

func (a *answer) think(text string) error {
	d := obj{"content": ""}
	a.thought.WriteString(text)
	switch field := a.s.d.reasoning; field {
	case "":
		return nil // OpenAI and Gemini do not return it
	case "both":
		d["reasoning"], d["reasoning_content"], d["content"] = text, text, nil
	default:
		d[field] = text
	}
	if a.s.opt.Dialect == OpenRouter {
		d["reasoning_details"] = []obj{{"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0}}
	}
	return a.frame(a.chunk(a.role(d), ""))
}

// end writes the rest of a reply.
func (a *answer) end(r *seam.Reply) error {
	if a.s.opt.Dialect == OpenRouter && a.thought.Len() > 0 {
		d := obj{"content": "", "reasoning": nil, "reasoning_details": []obj{{"type": "reasoning.text", "signature": signature(a.thought.String()), "format": "anthropic-claude-v1", "index": 0}}}
		if err := a.frame(a.chunk(a.role(d), "")); err != nil {
			return err
		}
	}
	parts := calls(r.Parts)
	if a.s.opt.Dialect == LlamaCpp && len(parts) > 1 && (a.q.Parallel == nil || !*a.q.Parallel) {
		parts = parts[:1] // only one call at a time unless parallel calls are requested
	}
	for _, p := range parts {
		if err := a.call(p); err != nil {
			return err
		}
	}
	finish := a.finish(r.StopReason, len(parts) > 0)
	last := obj{}
	switch a.s.opt.Dialect {
	case Ollama, OpenRouter, Gemini:
		last = a.role(obj{"content": ""})
	case Odd:
		last = obj{"content": nil, "tool_calls": nil}
	}
	f := a.chunk(last, finish)
	if a.s.opt.Dialect == Gemini && !a.s.opt.NoUsage {
		f["usage"] = a.counts()
	}
	if err := a.frame(f); err != nil {
		return err
	}
	asked := a.q.StreamOptions != nil && a.q.StreamOptions.IncludeUsage
	d := a.s.opt.Dialect
	if !a.s.opt.NoUsage && (asked || a.s.d.unasked) && d != Gemini && d != Odd {
		f := a.chunk(nil, "")
		f["choices"] = []obj{}
		if d == OpenRouter {
			f["choices"] = []obj{{"index": 0, "delta": obj{"role": "assistant", "content": ""}, "finish_reason": nil}}
		}
		f["usage"] = a.counts()
		if d == LlamaCpp {
			f["timings"] = obj{"prompt_n": 10, "predicted_n": 20, "predicted_per_second": 42.5}
		}
		if err := a.frame(f); err != nil {
			return err
		}
	}
	if d == Odd {
		return nil
	}
	return a.data("[DONE]")
}

func calls(parts []parley.Part) (out []parley.Part) {
	for _, p := range parts {
		switch p.Type {
		case parley.PartToolCall:
			out = append(out, p)
		case parley.PartHandoff:
			p.Input = json.RawMessage("{}")
			if p.Text != "" {
				p.Input = marshal(obj{"reason": p.Text})
			}
			p.Name = transfer + p.Name
			out = append(out, p)
		}
	}
	return out
}

// args returns a call's arguments as text.
func args(p parley.Part) string {
	if len(p.Input) == 0 {
		return "{}"
	}
	return string(p.Input)
}

// call writes one call, in the dialect's form.
func (a *answer) call(p parley.Part) error {
	n, in := a.at, args(p)
	a.at++
	id := p.ProviderID
	if id == "" {
		id = fmt.Sprintf("call_%s_%d", a.id[len(a.id)-4:], n)
		id = strings.NewReplacer("+", "p", "/", "s", "=", "e").Replace(id)
	}
	send := func(c obj) error { return a.frame(a.chunk(a.role(obj{"tool_calls": []obj{c}}), "")) }
	function := func(name any, args any) obj {
		f := obj{"arguments": args}
		if name != nil {
			f["name"] = name
		}
		return f
	}
	whole := obj{"index": n, "id": id, "type": "function", "function": function(p.Name, in)}
	pieces := pieces(in)
	switch a.s.opt.Dialect {
	case Ollama:
		return a.frame(a.chunk(a.role(obj{"content": "", "tool_calls": []obj{whole}}), ""))
	case Gemini:
		delete(whole, "index")
		whole["extra_content"] = obj{"google": obj{"thought_signature": signature(p.Name, compact(in))}}
		return send(whole)
	case Odd:
		whole = obj{"type": "function", "function": function(p.Name, in)}
		if json.Valid([]byte(in)) {
			whole["function"] = function(p.Name, json.RawMessage(in))
		}
		return send(whole)
	case VLLM: // its parser restarts at index 0 with each call, and only the first delta has an id
		if err := send(obj{"index": 0, "id": "chatcmpl-tool-" + id, "type": "function", "function": obj{"name": p.Name}}); err != nil {
			return err
		}
		for _, piece := range pieces {
			if err := send(obj{"index": 0, "id": "", "function": function("", piece)}); err != nil {
				return err
			}
		}
		return nil
	}
	whole["function"] = function(p.Name, "")
	if err := send(whole); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := send(obj{"index": n, "function": function(nil, piece)}); err != nil {
			return err
		}
	}
	return nil
}

// pieces splits arguments into three, at character boundaries.
func pieces(s string) []string {
	r := []rune(s)
	a, b := len(r)/3, 2*len(r)/3
	var out []string
	for _, p := range []string{string(r[:a]), string(r[a:b]), string(r[b:])} {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

func (a *answer) finish(stop string, calls bool) string {
	switch {
	case stop == "max_tokens":
		return "length"
	case stop == "refusal":
		return "content_filter"
	case calls && !a.s.d.stops:
		return "tool_calls"
	}
	return "stop"
}

// counts returns the usage in the dialect's form.
func (a *answer) counts() obj {
	u := *a.usage
	prompt := u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	c := obj{"prompt_tokens": prompt, "completion_tokens": u.OutputTokens, "total_tokens": prompt + u.OutputTokens}
	if a.s.opt.Dialect == Gemini {
		c["completion_tokens"] = u.OutputTokens - u.ReasoningTokens
	}
	if a.s.d.cached {
		in := obj{"cached_tokens": u.CacheReadTokens, "audio_tokens": 0}
		if a.s.opt.Dialect == OpenRouter {
			in["cache_write_tokens"] = u.CacheWriteTokens
			c["cost"], c["is_byok"], c["cost_details"] = 0.00042, false, obj{"upstream_inference_cost": nil}
		}
		c["prompt_tokens_details"] = in
		c["completion_tokens_details"] = obj{"reasoning_tokens": u.ReasoningTokens, "audio_tokens": 0}
	}
	return c
}

// chunk returns a frame with one delta.
func (a *answer) chunk(delta obj, finish string) obj {
	c := obj{"index": 0, "delta": delta, "finish_reason": orNull(finish)}
	f := obj{"id": a.id, "object": "chat.completion.chunk", "created": 1_790_000_000, "model": a.q.Model, "choices": []obj{c}}
	switch a.s.opt.Dialect {
	case OpenAI:
		c["logprobs"] = nil
		f["service_tier"], f["system_fingerprint"], f["obfuscation"] = "default", nil, "q7Zt"
		if a.q.StreamOptions != nil && a.q.StreamOptions.IncludeUsage {
			f["usage"] = nil
		}
	case OpenRouter:
		f["provider"] = "Anthropic"
		c["native_finish_reason"], c["logprobs"] = orNull(finish), nil
	case Ollama:
		f["system_fingerprint"] = "fp_ollama"
	case VLLM:
		c["logprobs"] = nil
		if finish != "" {
			c["stop_reason"] = nil
		}
	case Odd:
		delete(f, "object")
		if finish == "" {
			delete(c, "finish_reason")
		}
		if a.usage != nil && !a.s.opt.NoUsage {
			f["usage"] = a.counts()
		}
	}
	return f
}

func (a *answer) frame(v any) error { return a.data(string(marshal(v))) }

func (a *answer) data(s string) error {
	switch {
	case a.s.opt.Dialect == Odd:
		return a.write("data:" + s + "\r\n\r\n")
	case a.s.opt.Dialect == OpenRouter && a.sent%7 == 3:
		return a.write("data: " + s + "\n\n: OPENROUTER PROCESSING\n\n")
	}
	return a.write("data: " + s + "\n\n")
}

// write sends a frame and flushes.
func (a *answer) write(s string) error {
	f := a.f
	if (f.Raw != "" || f.Cut || f.Stall || f.Close) && a.sent >= f.After {
		if f.Raw != "" {
			_, _ = io.WriteString(a.w, f.Raw)
			_ = http.NewResponseController(a.w).Flush()
		}
		return errOver
	}
	a.sent++
	a.out = append(a.out[:0], s...)
	if _, err := a.w.Write(a.out); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// whole answers without a stream.
func (a *answer) whole(r *http.Request) {
	req, no := a.q.understood(a.s.opt.Dialect)
	if no != nil {
		a.s.refuse(a.w, *no, nil)
		return
	}
	var text strings.Builder
	for d, err := range a.s.opt.Brain.Stream(r.Context(), req) {
		if err != nil {
			if r.Context().Err() != nil {
				a.s.gone()
				return
			}
			no, e := a.s.of(err)
			a.s.refuse(a.w, no, e)
			return
		}
		text.WriteString(d.Text)
		a.thought.WriteString(d.Thinking)
		if d.Reply == nil {
			continue
		}
		m := obj{"role": "assistant", "content": orNull(text.String()), "refusal": nil}
		if f := a.s.d.reasoning; f != "" && a.thought.Len() > 0 {
			if f == "both" {
				f = "reasoning_content"
			}
			m[f] = a.thought.String()
		}
		var said []obj
		for i, p := range calls(d.Reply.Parts) {
			said = append(said, obj{"id": fmt.Sprintf("call_%d", i), "type": "function", "function": obj{"name": p.Name, "arguments": args(p)}})
		}
		if said != nil {
			m["tool_calls"] = said
		}
		a.usage = &d.Reply.Usage
		f := obj{
			"id": a.id, "object": "chat.completion", "created": 1_790_000_000, "model": a.q.Model,
			"choices": []obj{{"index": 0, "message": m, "logprobs": nil, "finish_reason": a.finish(d.Reply.StopReason, said != nil)}},
		}
		if !a.s.opt.NoUsage {
			f["usage"] = a.counts()
		}
		writeJSON(a.w, 200, f)
	}
}
