package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// request is a parsed body.
type request struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools         []tool          `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Parallel      *bool           `json:"parallel_tool_calls"`
	MaxTokens     *int64          `json:"max_tokens"`
	MaxCompletion *int64          `json:"max_completion_tokens"`
	Temperature   *float64        `json:"temperature"`
	Effort        *string         `json:"reasoning_effort"`
	Reasoning     *struct {
		Effort string `json:"effort"`
	} `json:"reasoning"`

	keys map[string]json.RawMessage
}

type message struct {
	Role       string            `json:"role"`
	Content    json.RawMessage   `json:"content"`
	Calls      []call            `json:"tool_calls"`
	CallID     string            `json:"tool_call_id"`
	Refusal    string            `json:"refusal"`
	Reasoning  string            `json:"reasoning"`
	ReasoningC string            `json:"reasoning_content"`
	Details    []json.RawMessage `json:"reasoning_details"`
	Extra      json.RawMessage   `json:"extra_content"`

	text  string
	parts []part
	keys  map[string]json.RawMessage
}

type call struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
	Extra struct {
		Google struct {
			Signature string `json:"thought_signature"`
		} `json:"google"`
	} `json:"extra_content"`

	args string
}

type part struct {
	Type  string `json:"type"`
	Text  string `json:"text"`
	Image *struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File *struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
	} `json:"file"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Validate returns an error if OpenAI, the strictest dialect, would reject the body of a
// completion request.
func Validate(body []byte) error { return ValidateAs(OpenAI, body) }

// ValidateAs is Validate by the rules of another dialect.
func ValidateAs(d Dialect, body []byte) error {
	if _, bad := validate(d, body); bad != nil {
		return bad
	}
	return nil
}

var (
	nameRule   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	googleRule = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)
	thinkers   = regexp.MustCompile(`^(?:o[1-9]|gpt-[5-9]|codex)`)
)

// The fields that OpenAI knows, and those that Gemini's endpoint knows.
var (
	openAIKeys = strings.Fields(`model messages stream stream_options tools tool_choice parallel_tool_calls max_tokens max_completion_tokens
		temperature top_p reasoning_effort n stop seed user metadata store response_format logprobs top_logprobs logit_bias frequency_penalty
		presence_penalty modalities audio prediction service_tier verbosity web_search_options prompt_cache_key safety_identifier`)
	geminiKeys  = strings.Fields(`model messages stream stream_options tools tool_choice max_tokens max_completion_tokens temperature top_p reasoning_effort n stop response_format extra_body`)
	messageKeys = strings.Fields(`role content name tool_calls tool_call_id refusal audio function_call`)
)

func validate(d Dialect, body []byte) (*request, *refusal) {
	no := func(param, format string, args ...any) *refusal {
		return &refusal{status: 400, words: fmt.Sprintf(format, args...), kind: kindOf(d), param: param}
	}
	var q request
	if err := json.Unmarshal(body, &q.keys); err != nil {
		return nil, no("", "We could not parse the JSON body of your request.")
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, no("", "Invalid type in the request: %v", err)
	}
	known := map[Dialect][]string{OpenAI: openAIKeys, Gemini: geminiKeys}[d]
	for k := range q.keys {
		if known == nil || slices.Contains(known, k) {
			continue
		}
		if d == Gemini {
			return nil, no("", "Invalid JSON payload received. Unknown name %q: Cannot find field.", k)
		}
		return nil, no("", "Unrecognized request argument supplied: %s", k)
	}
	if q.Model == "" {
		return nil, no("", "you must provide a model parameter")
	}
	for _, rule := range []func(Dialect) *refusal{q.sizes, q.declared, q.conversation} {
		if bad := rule(d); bad != nil {
			bad.status, bad.kind = 400, kindOf(d)
			return nil, bad
		}
	}
	return &q, nil
}

func kindOf(d Dialect) string {
	switch d {
	case VLLM:
		return "BadRequestError"
	case Gemini:
		return "INVALID_ARGUMENT"
	}
	return "invalid_request_error"
}

func bad(param, format string, args ...any) *refusal {
	return &refusal{words: fmt.Sprintf(format, args...), param: param}
}

// sizes checks numbers and choices.
func (q *request) sizes(d Dialect) *refusal {
	if q.StreamOptions != nil && !q.Stream {
		return bad("stream_options", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	}
	if d == Odd && q.StreamOptions != nil {
		return bad("", `[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]`)
	}
	for name, n := range map[string]*int64{"max_tokens": q.MaxTokens, "max_completion_tokens": q.MaxCompletion} {
		if n != nil && *n < 1 {
			return bad(name, "Invalid '%s': integer below minimum value. Expected a value >= 1, but got %d instead.", name, *n)
		}
	}
	if q.Temperature != nil && (*q.Temperature < 0 || *q.Temperature > 2) {
		return bad("temperature", "Invalid 'temperature': decimal out of range. Expected a value between 0 and 2.")
	}
	efforts := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	if d == Ollama {
		efforts = []string{"none", "low", "medium", "high"}
	}
	for _, e := range q.efforts() {
		if !slices.Contains(efforts, e) {
			return bad("reasoning_effort", "invalid reasoning value: '%s' (must be one of %s)", e, strings.Join(efforts, ", "))
		}
	}
	if d != OpenAI {
		return nil
	}
	if q.MaxTokens != nil && q.MaxCompletion != nil {
		return bad("max_tokens", "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
	}
	if !thinkers.MatchString(q.Model) {
		if q.Effort != nil {
			return bad("", "Unrecognized request argument supplied: reasoning_effort")
		}
		return nil
	}
	if q.MaxTokens != nil {
		return &refusal{words: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param: "max_tokens", code: "unsupported_parameter"}
	}
	if q.Temperature != nil && *q.Temperature != 1 {
		return &refusal{words: "Unsupported value: 'temperature' does not support this value with this model. Only the default (1) value is supported.", param: "temperature", code: "unsupported_value"}
	}
	return nil
}

func (q *request) efforts() (out []string) {
	if q.Effort != nil {
		out = append(out, *q.Effort)
	}
	if q.Reasoning != nil && q.Reasoning.Effort != "" {
		out = append(out, q.Reasoning.Effort)
	}
	return out
}

// declared checks the tools.
func (q *request) declared(d Dialect) *refusal {
	if len(q.Tools) == 0 {
		for _, k := range []string{"tool_choice", "parallel_tool_calls"} {
			if q.keys[k] != nil {
				return bad(k, "Invalid value for '%s': '%s' is only allowed when 'tools' are specified.", k, k)
			}
		}
		if q.keys["tools"] != nil {
			return bad("tools", "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
		}
		return nil
	}
	if len(q.Tools) > 128 {
		return bad("tools", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length %d instead.", len(q.Tools))
	}
	rule, seen := nameRule, map[string]bool{}
	if d == Gemini {
		rule = googleRule
	}
	for i, t := range q.Tools {
		at := fmt.Sprintf("tools[%d].function", i)
		switch name := t.Function.Name; {
		case t.Type != "function":
			return bad(fmt.Sprintf("tools[%d].type", i), "Invalid value: '%s'. Supported values are: 'function'.", t.Type)
		case !rule.MatchString(name):
			return bad(at+".name", "Invalid '%s.name': string does not match pattern. Expected a string that matches the pattern '%s'.", at, rule)
		case seen[name]:
			return bad(at+".name", "Tool names must be unique: %s", name)
		}
		seen[t.Function.Name] = true
		var schema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(t.Function.Parameters, &schema); err != nil || schema.Type != "object" {
			return bad(at+".parameters", "Invalid schema for function '%s': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.", t.Function.Name)
		}
		if schema.Properties == nil {
			return bad(at+".parameters", "Invalid schema for function '%s': In context=(), object schema missing properties.", t.Function.Name)
		}
	}
	return nil
}

// conversation checks the messages and their order.
func (q *request) conversation(d Dialect) *refusal {
	if len(q.Messages) == 0 {
		if d == Ollama {
			return bad("", "[] is too short - 'messages'")
		}
		return bad("messages", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	var raw struct {
		Messages []map[string]json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(append(append([]byte(`{"messages":`), q.keys["messages"]...), '}'), &raw); err != nil {
		return bad("messages", "Invalid type for 'messages'.")
	}
	open := map[string]bool{} // unanswered calls of the last assistant message
	for i := range q.Messages {
		m := &q.Messages[i]
		m.keys = raw.Messages[i]
		at := fmt.Sprintf("messages.[%d]", i)
		if len(open) > 0 && m.Role != "tool" {
			return bad(at+".role", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(sorted(open), ", "))
		}
		if no := m.check(d, at, open); no != nil {
			return no
		}
	}
	if len(open) > 0 {
		return bad("messages", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(sorted(open), ", "))
	}
	if d == Gemini {
		return q.signed()
	}
	return nil
}

func sorted(set map[string]bool) []string {
	var out []string
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (m *message) check(d Dialect, at string, open map[string]bool) *refusal {
	for k := range m.keys {
		if (d == OpenAI || d == Gemini && k != "extra_content") && !slices.Contains(messageKeys, k) {
			return bad(at+"."+k, "Unknown parameter: '%s.%s'.", at, k)
		}
	}
	if no := m.content(d, at); no != nil {
		return no
	}
	switch m.Role {
	case "system", "developer", "user":
		if d != OpenAI && m.Role == "developer" {
			return bad(at+".role", "Unexpected message role: developer is not supported.")
		}
		if m.text == "" && len(m.parts) == 0 {
			return bad(at+".content", "Invalid value for 'content': expected a string, got null.")
		}
	case "tool":
		if !open[m.CallID] {
			return bad(at+".role", "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
		}
		delete(open, m.CallID)
		if m.keys["content"] == nil || string(m.keys["content"]) == "null" {
			return bad(at+".content", "Invalid value for 'content': expected a string, got null.")
		}
	case "assistant":
		if m.text == "" && len(m.parts) == 0 && len(m.Calls) == 0 && m.Refusal == "" {
			return bad(at+".content", "Invalid value for 'content': expected a string, got null.")
		}
		return m.calls(d, at, open)
	default:
		return bad(at+".role", "Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
	}
	if m.Calls != nil {
		return bad(at+".tool_calls", "Unknown parameter: '%s.tool_calls'.", at)
	}
	return nil
}

func (m *message) calls(d Dialect, at string, open map[string]bool) *refusal {
	if m.keys["tool_calls"] != nil && len(m.Calls) == 0 {
		return bad(at+".tool_calls", "Invalid '%s.tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.", at)
	}
	for i := range m.Calls {
		c := &m.Calls[i]
		at := fmt.Sprintf("%s.tool_calls[%d]", at, i)
		switch {
		case c.ID == "" || len(c.ID) > 40:
			return bad(at+".id", "Invalid '%s.id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", at, len(c.ID))
		case open[c.ID]:
			return bad(at+".id", "Duplicate value for 'tool_call_id' of '%s'", c.ID)
		case c.Type != "function":
			return bad(at+".type", "Invalid value: '%s'.", c.Type)
		case !nameRule.MatchString(c.Function.Name):
			return bad(at+".function.name", "Invalid '%s.function.name': string does not match pattern. Expected a string that matches the pattern '%s'.", at, nameRule)
		case json.Unmarshal(c.Function.Arguments, &c.args) != nil:
			return bad(at+".function.arguments", "Invalid type for '%s.function.arguments': expected a string.", at)
		}
		// OpenAI accepts any string; servers with templates require an object.
		var args map[string]json.RawMessage
		if d != OpenAI && (json.Unmarshal([]byte(c.args), &args) != nil || args == nil) {
			return bad("", "invalid tool call arguments")
		}
		open[c.ID] = true
	}
	return nil
}

// content parses content as a text or a list of parts.
func (m *message) content(d Dialect, at string) *refusal {
	raw := bytes.TrimSpace(m.Content)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil
	case raw[0] == '"':
		_ = json.Unmarshal(raw, &m.text)
		return nil
	case json.Unmarshal(raw, &m.parts) != nil:
		return bad(at+".content", "Invalid type for '%s.content': expected one of a string or array of objects.", at)
	}
	for i, p := range m.parts {
		at := fmt.Sprintf("%s.content[%d]", at, i)
		switch {
		case p.Type == "text" && p.Text != "":
		case p.Type == "image_url" && m.Role == "user" && p.Image != nil:
			if no := image(d, at, p.Image.URL); no != nil {
				return no
			}
		case p.Type == "file" && m.Role == "user" && p.File != nil && (d == OpenAI || d == OpenRouter):
			if media, _, ok := dataURL(p.File.Data); p.File.ID == "" && (!ok || media != "application/pdf" || p.File.Name == "") {
				return bad(at+".file", "Invalid file data: '%s.file'. Expected a base64-encoded data URL with an application/pdf MIME type.", at)
			}
		default:
			return bad(at+".type", "Invalid value: '%s'.", p.Type)
		}
	}
	return nil
}

func image(d Dialect, at, url string) *refusal {
	if strings.HasPrefix(url, "http") && d != Ollama {
		return nil
	}
	media, body, ok := dataURL(url)
	if !ok || len(body) == 0 || !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, media) {
		return &refusal{words: "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", param: at, code: "invalid_image_format"}
	}
	if len(body) > 20<<20 {
		return bad(at, "The image is larger than 20 MB.")
	}
	return nil
}

func dataURL(url string) (media string, body []byte, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	media, data, cut := strings.Cut(rest, ";base64,")
	body, err := base64.StdEncoding.DecodeString(data)
	return media, body, ok && cut && err == nil
}
