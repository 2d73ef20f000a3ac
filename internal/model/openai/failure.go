package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/transport"
)

// failure is an error reported by a server.
type failure struct {
	words  string
	kind   string // type, or Google's status
	code   string
	param  string
	status int           // a code that is an HTTP status
	wait   time.Duration // the delay that the body asks for
}

// maxBroken limits what is read of an error response.
const maxBroken = 64 << 10

// readFailure parses the error formats of servers: OpenAI's object under "error", Google's array
// of such objects, a text under "error" (Ollama), top-level keys (older vLLM), and "detail"
// (servers built on FastAPI).
func readFailure(body []byte) failure {
	body = bytes.TrimSpace(body)
	if len(body) > 0 && body[0] == '[' {
		var all []json.RawMessage
		if json.Unmarshal(body, &all) != nil || len(all) == 0 {
			return failure{}
		}
		body = all[0]
	}
	var top map[string]json.RawMessage
	if json.Unmarshal(body, &top) != nil {
		return failure{}
	}
	fields := top
	if e := top["error"]; len(e) > 0 && string(e) != "null" {
		if words, ok := str(e); ok {
			return failure{words: words}
		}
		fields = nil
		if json.Unmarshal(e, &fields) != nil {
			return failure{}
		}
	}
	var f failure
	f.words, _ = str(fields["message"])
	if f.words == "" {
		if words, ok := str(top["detail"]); ok {
			f.words = words
		} else if d := top["detail"]; len(d) > 0 {
			f.words = string(d)
		}
	}
	if f.kind, _ = str(fields["type"]); f.kind == "" {
		f.kind, _ = str(fields["status"])
	}
	f.param, _ = str(fields["param"])
	if code, ok := str(fields["code"]); ok {
		f.code = code
	} else if n, err := strconv.Atoi(string(fields["code"])); err == nil && n >= 400 && n < 600 {
		f.status = n
	}
	if n, err := strconv.Atoi(f.code); err == nil && n >= 400 && n < 600 {
		f.status, f.code = n, ""
	}
	f.more(fields)
	return f
}

// more parses Google's details and OpenRouter's metadata.
func (f *failure) more(fields map[string]json.RawMessage) {
	var details []struct {
		Reason string `json:"reason"`
		Delay  string `json:"retryDelay"`
	}
	if json.Unmarshal(fields["details"], &details) == nil {
		for _, d := range details {
			if d.Reason != "" && f.code == "" {
				f.code = d.Reason
			}
			if w, err := time.ParseDuration(d.Delay); err == nil && w > 0 {
				f.wait = min(w, 24*time.Hour)
			}
		}
	}
	var meta struct {
		Kind string          `json:"error_type"`
		Raw  json.RawMessage `json:"raw"`
	}
	if json.Unmarshal(fields["metadata"], &meta) == nil {
		if f.kind == "" {
			f.kind = meta.Kind
		}
		// With "Provider returned error", the provider's own message is here.
		if raw, ok := str(meta.Raw); ok && raw != "" {
			if inner := readFailure([]byte(raw)); inner.words != "" {
				raw = inner.words
			}
			f.words = strings.TrimSpace(f.words + ": " + raw)
		}
	}
}

func str(raw json.RawMessage) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

// meanings are words that say more than the status.
var meanings = []struct {
	words []string
	code  parley.Code
}{
	{[]string{
		"context_length_exceeded", "exceed_context_size", "context length", "context window", "available context size",
		"string_above_max_length", "prompt is too long", "request_too_large", "exceeds the maximum number of tokens",
	}, parley.CodeTooLarge},
	// Google reports both with status 400.
	{[]string{"api_key_invalid", "api key not valid", "invalid_api_key", "incorrect api key"}, parley.CodeUnauthenticated},
	// OpenAI reports these with status 429, although waiting does not help.
	{[]string{"insufficient_quota", "billing_not_active", "billing_hard_limit"}, parley.CodeForbidden},
	{[]string{"model_not_found", "unknown_model"}, parley.CodeNotFound},
}

// kinds are error types and codes within a stream, where there is no status.
var kinds = []struct {
	words []string
	code  parley.Code
}{
	{[]string{"rate_limit", "ratelimit", "resource_exhausted", "too_many_requests"}, parley.CodeRateLimited},
	{[]string{"authentication", "unauthenticated"}, parley.CodeUnauthenticated},
	{[]string{"permission", "content_policy", "moderation"}, parley.CodeForbidden},
	{[]string{"not_found", "notfound"}, parley.CodeNotFound},
	{[]string{"invalid_request", "badrequest", "invalid_argument", "invalid_prompt"}, parley.CodeInvalid},
}

// meaning returns the code of a failure; status is 0 within a stream.
func (f failure) meaning(status int) parley.Code {
	if status == 0 {
		status = f.status
	}
	holds := func(text string, words []string) bool {
		for _, w := range words {
			if strings.Contains(text, w) {
				return true
			}
		}
		return false
	}
	if status < 500 {
		text := strings.ToLower(f.kind + " " + f.code + " " + f.words)
		for _, m := range meanings {
			if holds(text, m.words) {
				return m.code
			}
		}
	}
	if status != 0 {
		return transport.StatusCode(status)
	}
	text := strings.ToLower(f.kind + " " + f.code)
	for _, k := range kinds {
		if holds(text, k.words) {
			return k.code
		}
	}
	return parley.CodeUnavailable // the server accepted the request and failed
}

// failed is the error of a failure within a stream.
func (c *Client) failed(status int, f failure) *parley.Error {
	e := c.tr.Refused(f.meaning(status), f.words)
	if e.Code == parley.CodeRateLimited || e.Code == parley.CodeUnavailable {
		e.RetryAfter = f.wait
	}
	return e
}

// refusal returns the failure and error of a response with an error status. It closes the body.
func (c *Client) refusal(resp *http.Response) (failure, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBroken))
	resp.Body.Close()
	if err != nil {
		body = nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	f := readFailure(body)
	e := c.tr.Refusal(resp, func(status int, _ []byte) (parley.Code, string) { return f.meaning(status), f.words })
	switch {
	case e.Code == parley.CodeRateLimited || e.Code == parley.CodeUnavailable:
		e.RetryAfter = max(e.RetryAfter, f.wait)
	case resp.StatusCode == http.StatusNotFound && f.words == "":
		e.Message = c.tr.Name + " has no chat completions at the base URL"
		e.Hint = "give the part before /chat/completions: it often ends in /v1"
	case e.Code == parley.CodeForbidden && resp.StatusCode == http.StatusPaymentRequired:
		e.Hint = "the account has no credit left"
	}
	return f, e
}

// asError returns err as an Error, if it is one.
func asError(err error) (*parley.Error, bool) { return errors.AsType[*parley.Error](err) }
