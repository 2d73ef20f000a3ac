package openai_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/sim/openai"
)

// TestValidate lists what each dialect rejects, and in which words. Every dialect accepts the
// first of each list.
func TestValidate(t *testing.T) {
	t.Parallel()
	const (
		user  = `{"role":"user","content":"x"}`
		calls = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		res   = `{"role":"tool","tool_call_id":"c1","content":"1"}`
		f     = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]`
	)
	body := func(messages string, more ...string) string {
		return `{"model":"m","messages":[` + messages + `]` + strings.Join(append([]string{""}, more...), ",") + `}`
	}
	for _, c := range []struct {
		by   openai.Dialect
		body string
		says string // "": the request is valid
	}{
		{openai.OpenAI, body(user+","+calls+","+res, f), ""},
		{openai.Ollama, body(user+","+calls+","+res, f), ""},
		{openai.VLLM, body(user+","+calls+","+res, f), ""},
		{openai.OpenAI, `{`, "could not parse"},
		{openai.OpenAI, `{"messages":[` + user + `]}`, "model parameter"},
		{openai.Ollama, body(""), "is too short"},
		{openai.OpenAI, body(user + "," + calls), "did not have response messages: c1"},
		{openai.OpenAI, body(user + "," + calls + "," + user), "did not have response messages: c1"},
		{openai.OpenAI, body(user + "," + res), "must be a response to a preceeding message"},
		{openai.OpenAI, body(user + "," + calls + "," + res + "," + res), "must be a response to a preceeding message"},
		{openai.OpenAI, body(`{"role":"user","content":null}`), "expected a string, got null"},
		{openai.OpenAI, body(`{"role":"robot","content":"x"}`), "Supported values are"},
		{openai.OpenAI, body(user + `,{"role":"assistant","content":"x","reasoning":"y"}`), "Unknown parameter"},
		{openai.VLLM, body(user + `,{"role":"assistant","content":"x","reasoning":"y"}`), ""},
		{openai.OpenAI, body(user + "," + strings.Replace(calls, `"c1"`, `"`+strings.Repeat("c", 41)+`"`, 1)), "maximum length 40"},
		{openai.Ollama, body(user + "," + strings.Replace(calls, `"{}"`, `"[]"`, 1) + "," + res), "invalid tool call arguments"},
		{openai.OpenAI, body(user + "," + strings.Replace(calls, `"{}"`, `"[]"`, 1) + "," + res), ""},
		{openai.OpenAI, body(user, strings.Replace(f, `"f"`, `"a.b"`, 1)), "does not match pattern"},
		{openai.Gemini, body(user, strings.Replace(f, `"f"`, `"9"`, 1)), "does not match pattern"},
		{openai.OpenAI, body(user, strings.Replace(f, `,"properties":{}`, "", 1)), "object schema missing properties"},
		{openai.OpenAI, body(user, `"tools":[]`), "empty array"},
		{openai.OpenAI, body(user, `"parallel_tool_calls":true`), "only allowed when 'tools'"},
		{openai.OpenAI, body(user, `"stream_options":{"include_usage":true}`), "only allowed when 'stream'"},
		{openai.OpenAI, body(user, `"max_tokens":0`), "below minimum"},
		{openai.OpenAI, body(user, `"temperature":3`), "out of range"},
		{openai.OpenAI, body(user, `"top_k":3`), "Unrecognized request argument"},
		{openai.VLLM, body(user, `"top_k":3`), ""},
		{openai.Ollama, body(user, `"reasoning_effort":"minimal"`), "invalid reasoning value"},
		{openai.Gemini, body(user, f, `"parallel_tool_calls":true`), "Cannot find field"},
		{openai.Gemini, body(user + "," + calls + "," + res), "missing a thought_signature"},
		{openai.Gemini, body(user + "," + calls + "," + res + "," + user), ""}, // of an earlier turn
		{openai.Gemini, body(user + "," + strings.Replace(calls, `"type"`, `"extra_content":{"google":{"thought_signature":"made up"}},"type"`, 1) + "," + res), "Corrupted"},
		{openai.Odd, body(user, `"stream":true`, `"stream_options":{"include_usage":true}`), "Extra inputs are not permitted"},
		{openai.Ollama, body(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}`), "unsupported image"},
		{openai.OpenAI, body(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,AAAA"}}]}`), "unsupported image"},
		{openai.VLLM, body(`{"role":"user","content":[{"type":"file","file":{"filename":"a","file_data":"data:application/pdf;base64,AAAA"}}]}`), "Invalid value"},
	} {
		err := openai.ValidateAs(c.by, []byte(c.body))
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %s: got %v, want %q", c.by, c.body, err, c.says)
		}
	}
	if err := openai.Validate([]byte(body(user))); err != nil {
		t.Error(err)
	}
}
