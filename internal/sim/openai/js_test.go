package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/modeltest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/nodetest"
	"github.com/parley-server/parley/internal/sim/openai"
)

type m = map[string]any

func serve(t *testing.T, o openai.Options) (*openai.Server, string) {
	t.Helper()
	s := openai.New(o)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return s, srv.URL + s.Prefix()
}

func brain(b modeltest.Behaviour) seam.Model { return modeltest.Brain(b) }

func says(stop string, parts ...parley.Part) modeltest.Behaviour {
	return modeltest.Behaviour{Reply: seam.Reply{Parts: parts, StopReason: stop, Usage: parley.Usage{InputTokens: 11, OutputTokens: 7}}}
}

func text(s string) parley.Part { return parley.Part{Type: parley.PartText, Text: s} }

func body(model string) m {
	return m{
		"model":    model,
		"messages": []any{m{"role": "system", "content": "You help."}, m{"role": "user", "content": "What is the spec?"}},
		"tools":    []any{m{"type": "function", "function": m{"name": "look_up", "description": "looks up", "parameters": m{"type": "object", "properties": m{"q": m{"type": "string"}}}}}},
	}
}

// TestRealClient_of_Ollama: Ollama's own client reads the properties of a model.
func TestRealClient_of_Ollama(t *testing.T) {
	t.Parallel()
	_, url := serve(t, openai.Options{Dialect: openai.Ollama, Models: []string{"qwen3"}, Context: 8192, Modelfile: "num_ctx                        8192", Brain: brain(says("end_turn", text("hello")))})
	nodetest.Start(t).Want("ollama", m{"url": strings.TrimSuffix(url, "/v1"), "model": "qwen3"}, m{
		"before": 0.0, "models": []any{"qwen3:latest"}, "trained": 40960.0, "done": true, "response": "", "loaded": "qwen3:latest", "context": 8192.0,
		"parameters": "stop                           \"<|im_end|>\"\ntemperature                    0.6\nnum_ctx                        8192",
	})
}

// TestRealClient: the client reads answers as a stream and as one response, in each dialect
// that it can read. Our own decoder also reads the other dialects.
func TestRealClient(t *testing.T) {
	t.Parallel()
	j := nodetest.Start(t)
	for _, d := range []openai.Dialect{openai.OpenAI, openai.OpenRouter, openai.Ollama, openai.LlamaCpp} {
		t.Run(string(d), func(t *testing.T) { // not parallel: the tests share the client
			j := j.With(t)
			s, url := serve(t, openai.Options{Dialect: d, Key: "k", Models: []string{"m-1"}, Brain: brain(says("end_turn", text("The spec is 語 and 😀.")))})
			j.Want("connect", m{"url": url, "key": "k"}, true)
			j.Want("models", nil, []any{"m-1"})
			j.Want("model", m{"id": "m-1"}, "m-1")
			for _, op := range []string{"create", "stream"} {
				ok, no := j.Ask(op, m{"body": body("m-1")})
				if no != nil {
					t.Fatal(op, no)
				}
				got := ok.(m)
				if c := got["message"].(m)["content"]; c != "The spec is 語 and 😀." || got["finish"] != "stop" {
					t.Errorf("%s: got %v, %v", op, c, got["finish"])
				}
				u, _ := got["usage"].(m)
				if u["prompt_tokens"] != 11.0 || u["completion_tokens"] != 7.0 || u["total_tokens"] != 18.0 {
					t.Errorf("%s: got usage %v", op, u)
				}
				if op == "stream" && got["several"] != true {
					t.Error("the text came in one piece")
				}
			}
			if got := s.Requests(); got != 2 {
				t.Errorf("got %d requests, want 2", got)
			}
		})
	}
}

// TestRealClientCalls: the client reads tool calls and returns their results.
func TestRealClientCalls(t *testing.T) {
	t.Parallel()
	j := nodetest.Start(t)
	for _, d := range []openai.Dialect{openai.OpenAI, openai.OpenRouter, openai.Ollama, openai.LlamaCpp} {
		t.Run(string(d), func(t *testing.T) { // not parallel: the tests share the client
			j := j.With(t)
			call := func(q string) parley.Part {
				return parley.Part{Type: parley.PartToolCall, Name: "look_up", Input: json.RawMessage(`{"q":"` + q + `"}`)}
			}
			_, url := serve(t, openai.Options{Dialect: d, Brain: brain(says("tool_use", text("I look."), call("a 語"), call("b")))})
			j.Want("connect", m{"url": url, "key": "any"}, true)
			b := body("m-1")
			b["parallel_tool_calls"] = true
			for _, op := range []string{"create", "stream"} {
				ok, no := j.Ask(op, m{"body": b})
				if no != nil {
					t.Fatal(op, no)
				}
				var got []string
				calls, _ := ok.(m)["message"].(m)["tool_calls"].([]any)
				for _, c := range calls {
					f := c.(m)["function"].(m)
					got = append(got, fmt.Sprint(f["name"], f["arguments"]))
				}
				if diff := cmp.Diff([]string{`look_up{"q":"a 語"}`, `look_up{"q":"b"}`}, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", op, diff)
				}
				if f := ok.(m)["finish"]; f != "tool_calls" {
					t.Errorf("%s: got %v", op, f)
				}
			}
			j.Want("tool", m{"body": b, "result": "Google OAuth"}, "I look.")
		})
	}
}

// TestRealClientIsRefused compares the client's errors for refusals in each dialect with its
// errors for OpenAI's.
func TestRealClientIsRefused(t *testing.T) {
	t.Parallel()
	j := nodetest.Start(t)
	s, url := serve(t, openai.Options{Key: "k", Models: []string{"gpt-5", "gpt-4.1"}, Brain: brain(says("end_turn", text("no")))})
	j.Want("connect", m{"url": url, "key": "wrong"}, true)
	j.Refused("create", m{"body": body("gpt-5")}, m{"name": "AuthenticationError", "status": 401.0, "code": "invalid_api_key"})
	j.Want("connect", m{"url": url, "key": "k"}, true)
	j.Refused("create", m{"body": body("gpt-99")}, m{"name": "NotFoundError", "status": 404.0, "code": "model_not_found"})
	with := func(model string, more m) m {
		b := body(model)
		for k, v := range more {
			b[k] = v
		}
		return m{"body": b}
	}
	invalid := m{"name": "BadRequestError", "status": 400.0}
	j.Refused("create", with("gpt-5", m{"max_tokens": 10}), m{"status": 400.0, "param": "max_tokens", "code": "unsupported_parameter"})
	j.Refused("create", with("gpt-5", m{"temperature": 0.2}), m{"status": 400.0, "param": "temperature", "code": "unsupported_value"})
	j.Refused("create", with("gpt-4.1", m{"reasoning_effort": "low"}), invalid)
	j.Refused("create", with("gpt-4.1", m{"nonsense": 1}), invalid)
	j.Refused("create", with("gpt-4.1", m{"messages": []any{}}), m{"status": 400.0, "param": "messages"})
	j.Refused("create", with("gpt-4.1", m{"messages": []any{m{"role": "user", "content": "x"}, m{"role": "tool", "tool_call_id": "c", "content": "y"}}}), m{"status": 400.0, "param": "messages.[1].role"})

	s.SetFault(openai.Fault{Times: 1, Status: 429, Header: map[string][]string{"Retry-After": {"7"}, "Content-Type": {"application/json"}}, Body: `{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}`})
	j.Refused("stream", m{"body": body("gpt-4.1")}, m{"name": "RateLimitError", "status": 429.0, "code": "rate_limit_exceeded", "after": "7"})
	s.SetFault(openai.Fault{Times: 1, After: 2, Raw: "data: {\"choices\":[{\n\n"})
	j.Refused("stream", m{"body": body("gpt-4.1")}, m{"name": "OpenAIError"})
	s.SetFault(openai.Fault{Times: 1, After: 2, Close: true})
	j.Refused("stream", m{"body": body("gpt-4.1")}, m{"name": "OpenAIError", "message": "missing finish_reason for choice 0"})
}

// TestRealClientLater has an error in the middle of a stream, and a client that disconnects.
func TestRealClientLater(t *testing.T) {
	t.Parallel()
	j := nodetest.Start(t)
	long := strings.Repeat("word ", 100)
	b := says("end_turn", text(long))
	b.Late, b.Err = true, parley.Errorf(parley.CodeRateLimited, "slow down")
	_, url := serve(t, openai.Options{Brain: brain(b)})
	j.Want("connect", m{"url": url, "key": "any"}, true)
	j.Refused("stream", m{"body": body("m")}, m{"name": "APIError", "code": "rate_limit_exceeded", "message": "slow down"})

	b = says("end_turn", text(long))
	b.Stall = true
	s, url := serve(t, openai.Options{Brain: brain(b)})
	j.Want("connect", m{"url": url, "key": "any"}, true)
	j.Want("leave", m{"body": body("m")}, true)
	select {
	case <-s.Closed():
	case <-j.Done():
		t.Error("the server was not told that the client went away")
	}
}
