package mistral_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/mistral"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

const key = "key-of-the-tests"

// js is the provider's own client, run under Node.
type js struct {
	*nodetest.Client
	t *testing.T
}

func newJS(t *testing.T, url string) *js {
	t.Helper()
	j := &js{nodetest.Start(t), t}
	j.Must("connect", o{"url": url, "key": key})
	return j
}

type (
	o = map[string]any
	l = []any
)

// ask returns an answer, or the driver's report of a refusal.
func (j *js) ask(op string, args o) (ok any, no o) {
	j.t.Helper()
	ok, refused := j.Ask(op, args)
	no, is := refused.(o)
	if refused != nil && !is {
		j.t.Fatalf("%s: %v", op, refused)
	}
	return ok, no
}

func (j *js) call(path string, args ...any) any {
	j.t.Helper()
	return j.Must("call", o{"path": path, "args": args})
}

func (j *js) stream(path string, args ...any) []any {
	j.t.Helper()
	return j.Must("stream", o{"path": path, "args": args}).([]any)
}

// at returns the value at a path of keys and indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(o)
			v = m[k]
		case int:
			list, _ := v.(l)
			if k < 0 {
				k += len(list)
			}
			if k < 0 || k >= len(list) {
				return nil
			}
			v = list[k]
		}
	}
	return v
}

func (j *js) same(want, got any) {
	j.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		j.t.Errorf("(-want +got):\n%s", diff)
	}
}

// brain is a function that acts as a model.
type brain func(r seam.Request) (seam.Reply, error)

func (b brain) Info() seam.ModelInfo { return seam.ModelInfo{Name: "brain"} }

func (b brain) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		reply, err := b(r)
		if err != nil {
			yield(seam.ModelDelta{}, err)
			return
		}
		for _, p := range reply.Parts {
			if p.Type != parley.PartText && p.Type != parley.PartThinking {
				continue
			}
			for word := range strings.SplitAfterSeq(p.Text, " ") {
				d := seam.ModelDelta{Text: word}
				if p.Type == parley.PartThinking {
					d = seam.ModelDelta{Thinking: word}
				}
				if ctx.Err() != nil || word != "" && !yield(d, nil) {
					return
				}
			}
		}
		reply.Usage = parley.Usage{InputTokens: 11, OutputTokens: 7, CacheReadTokens: 4}
		yield(seam.ModelDelta{Reply: &reply}, nil)
	}
}

// circle is a model of two agents: a front hands over to a finder, which looks something up and
// hands back.
func circle(r seam.Request) (seam.Reply, error) {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case last.Role == parley.RoleTool && last.Parts[0].Name != "front" && last.Parts[0].Name != "finder":
		var said []string
		for _, p := range last.Parts {
			said = append(said, p.Text)
		}
		if len(r.Handoffs) > 0 && r.Agent == "finder" {
			return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "Found " + strings.Join(said, ", ")}, {Type: parley.PartHandoff, Name: "front", Text: "found"}}}, nil
		}
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "It is " + strings.Join(said, ", ") + "."}}}, nil
	case strings.Contains(last.Text(), "[text of finder]"):
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "It is found."}}}, nil
	case strings.Contains(last.Text(), "hand") && r.Agent == "front":
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartHandoff, Name: "finder", Text: "look"}}}, nil
	case len(r.Tools) > 0 && (r.Agent == "finder" || strings.Contains(last.Text(), "look")):
		in := json.RawMessage(`{"query":"login"}`)
		return seam.Reply{Parts: []parley.Part{
			{Type: parley.PartText, Text: "I look."},
			{Type: parley.PartToolCall, Name: "look_up", Input: in},
			{Type: parley.PartToolCall, Name: "look_up", Input: json.RawMessage(`{"query":"auth"}`)},
		}}, nil
	case strings.Contains(last.Text(), "think"):
		return seam.Reply{Parts: []parley.Part{{Type: parley.PartThinking, Text: "Let me see."}, {Type: parley.PartText, Text: "I see."}}}, nil
	case strings.Contains(last.Text(), "busy"):
		return seam.Reply{}, parley.Errorf(parley.CodeRateLimited, "slow down").WithRetry(time.Second)
	}
	return seam.Reply{Parts: []parley.Part{{Type: parley.PartText, Text: "You said " + last.Text()}}}, nil
}

func serve(t *testing.T, opt mistral.Options) (*mistral.Server, *httptest.Server) {
	t.Helper()
	opt.Key = key
	if opt.Brain == nil {
		opt.Brain = brain(circle)
	}
	s := mistral.New(opt)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv
}

var lookUp = o{"type": "function", "function": o{"name": "look_up", "description": "d", "parameters": o{"type": "object"}}}

func TestJS_chat(t *testing.T) {
	t.Parallel()
	s, srv := serve(t, mistral.Options{})
	j := newJS(t, srv.URL)
	ask := func(text string, more o) o {
		m := o{"model": "mistral-medium-latest", "messages": l{o{"role": "system", "content": "You help."}, o{"role": "user", "content": text}}}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	one := j.call("chat.complete", ask("hello there", nil))
	j.same("You said hello there", at(one, "choices", 0, "message", "content"))
	j.same("stop", at(one, "choices", 0, "finishReason"))
	j.same(22.0, at(one, "usage", "totalTokens"))

	var text string
	events := j.stream("chat.stream", ask("hello there", nil))
	for _, e := range events {
		if s, ok := at(e, "data", "choices", 0, "delta", "content").(string); ok {
			text += s
		}
	}
	j.same("You said hello there", text)
	j.same("stop", at(events, -1, "data", "choices", 0, "finishReason"))
	j.same(15.0, at(events, -1, "data", "usage", "promptTokens"))
	if len(events) < 5 {
		t.Errorf("%d events", len(events))
	}

	// Tool calls, with their results in the next request.
	tools := o{"tools": l{lookUp}}
	events = j.stream("chat.stream", ask("look it up", tools))
	calls := at(events, -1, "data", "choices", 0, "delta", "toolCalls").(l)
	j.same(2, len(calls))
	j.same(`{"query":"auth"}`, at(calls, 1, "function", "arguments"))
	j.same("tool_calls", at(events, -1, "data", "choices", 0, "finishReason"))
	messages := l{
		o{"role": "user", "content": "look it up"},
		o{"role": "assistant", "content": "I look.", "toolCalls": calls},
		o{"role": "tool", "toolCallId": at(calls, 0, "id"), "name": "look_up", "content": "Google"},
		o{"role": "tool", "toolCallId": at(calls, 1, "id"), "name": "look_up", "content": "OAuth"},
	}
	one = j.call("chat.complete", ask("", o{"messages": messages, "tools": l{lookUp}}))
	j.same("It is Google, OAuth.", at(one, "choices", 0, "message", "content"))

	events = j.stream("chat.stream", ask("think", nil))
	j.same("thinking", at(events, 1, "data", "choices", 0, "delta", "content", 0, "type"))
	j.same("Let ", at(events, 1, "data", "choices", 0, "delta", "content", 0, "thinking", 0, "text"))

	// Requests that the provider refuses.
	for name, c := range map[string]struct {
		body   o
		status float64
		says   string
	}{
		"a user after a tool":   {o{"messages": append(append(l{}, messages...), o{"role": "user", "content": "x"})}, 400, "3230"},
		"a call without result": {o{"messages": messages[:3]}, 400, "Not the same number of function calls"},
		"an id of its own":      {o{"messages": l{messages[0], o{"role": "assistant", "toolCalls": l{o{"id": "call_1", "function": o{"name": "f", "arguments": "{}"}}}}, o{"role": "tool", "toolCallId": "call_1", "content": "x"}}}, 400, "3280"},
		"the assistant last":    {o{"messages": l{messages[0], o{"role": "assistant", "content": "x"}}}, 400, "Expected last role"},
		"an unknown model":      {o{"model": "nobody"}, 400, "1500"},
		"too much at once":      {o{"messages": l{o{"role": "user", "content": "busy"}}}, 429, "slow down"},
	} {
		_, no := j.ask("call", o{"path": "chat.complete", "args": l{ask("x", c.body)}})
		if no["status"] != c.status || !strings.Contains(fmt.Sprint(no["body"]), c.says) {
			t.Errorf("%s: got %v", name, no)
		}
	}

	j.same("mistral-medium-latest", at(j.call("models.list"), "data", 0, "id"))
	j.same(true, at(j.call("models.retrieve", o{"modelId": "mistral-small-latest"}), "capabilities", "completionChat"))
	_, no := j.ask("call", o{"path": "models.retrieve", "args": l{o{"modelId": "nobody"}}})
	j.same(404.0, no["status"])

	// A stream is closed when the client stops reading.
	j.Must("stop", o{"path": "chat.stream", "args": l{ask(strings.Repeat("many words ", 100_000), nil)}})
	select {
	case <-s.Closed():
	case <-j.Done():
		t.Error("the connection stays open")
	}
}

func TestJS_key(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, mistral.Options{})
	j := newJS(t, srv.URL)
	j.Must("connect", o{"url": srv.URL, "key": "another"})
	_, no := j.ask("call", o{"path": "models.list", "args": l{}})
	j.same(401.0, no["status"])
}

func TestValidate_unknown_keys(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stream_options":{"include_usage":true}}`,
		`{"model":"m","messages":[{"role":"user","content":"x","tool":1}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}]}`,
	} {
		no, ok := mistral.Validate([]byte(body)).(*mistral.Refusal) //nolint:errorlint // it is not wrapped
		if !ok || no.Status != 422 || no.Type != "extra_forbidden" {
			t.Errorf("%s: got %v", body, no)
		}
	}
}
