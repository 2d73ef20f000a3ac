package anthropic

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// request is a body of POST /v1/messages.
type request struct {
	Model       string
	MaxTokens   *int64
	System      []content
	Messages    []message
	Tools       []tool
	ToolChoice  *struct{ Type, Name string }
	Thinking    *thinking
	Effort      string
	Temperature *float64
	Stream      bool
}

type message struct {
	Role   string
	Blocks []content
	beta   bool // it has a field of a beta feature
}

// content is a content block of any type.
type content struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	Title     string          `json:"title"`
	Source    *struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	} `json:"source"`
	Cache json.RawMessage `json:"cache_control"`
	raw   json.RawMessage
}

func (c *content) UnmarshalJSON(b []byte) error {
	type plain content
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	c.raw = bytes.Clone(b)
	return nil
}

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Cache       json.RawMessage `json:"cache_control"`
}

type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens"`
	Display      string `json:"display"`
}

// Validate checks the body of a request for a message against the provider's rules. The error is
// an *[Error] in the provider's words.
func Validate(body []byte) error {
	req, e := parse(body, false, false)
	if e == nil {
		e = (&Server{opt: Options{Models: Known()}}).fits(req)
	}
	if e != nil {
		return e
	}
	return nil
}

var fields = []string{
	"model", "messages", "max_tokens", "system", "tools", "tool_choice", "thinking", "output_config", "stream", "temperature", "top_k", "top_p",
	"stop_sequences", "metadata", "service_tier", "container", "cache_control", "inference_geo", "speed", "diagnostics",
}

// notCounted are the fields that are rejected when only counting tokens.
var notCounted = []string{"max_tokens", "stream", "temperature", "top_k", "top_p", "stop_sequences", "metadata"}

// betas are fields that requests with beta features may have.
var betas = []string{"context_management", "safeguards"}

// parse parses a body and checks its form. beta says that the request names beta features.
func parse(body []byte, counting, beta bool) (*request, *Error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(body, &top); err != nil || top == nil {
		return nil, invalid("The request body is not valid JSON")
	}
	for name := range top {
		if !slices.Contains(fields, name) && !(beta && slices.Contains(betas, name)) || counting && slices.Contains(notCounted, name) {
			return nil, invalid("%s: Extra inputs are not permitted", name)
		}
	}
	var in struct {
		Model      string          `json:"model"`
		MaxTokens  *int64          `json:"max_tokens"`
		System     json.RawMessage `json:"system"`
		Messages   []message       `json:"messages"`
		Tools      []tool          `json:"tools"`
		ToolChoice *struct{ Type, Name string }
		Thinking   *thinking `json:"thinking"`
		Output     struct {
			Effort string `json:"effort"`
		} `json:"output_config"`
		Temperature *float64 `json:"temperature"`
		Stream      bool     `json:"stream"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		if e, ok := errors.AsType[*Error](err); ok {
			return nil, e
		}
		return nil, invalid("%s", err)
	}
	if raw := top["tool_choice"]; raw != nil {
		_ = json.Unmarshal(raw, &in.ToolChoice) // already parsed above
	}
	r := &request{
		Model: in.Model, MaxTokens: in.MaxTokens, Messages: in.Messages, Tools: in.Tools, ToolChoice: in.ToolChoice,
		Thinking: in.Thinking, Effort: in.Output.Effort, Temperature: in.Temperature, Stream: in.Stream,
	}
	var e *Error
	if r.System, e = blocks("system", in.System); e != nil {
		return nil, e
	}
	r.Messages = nil
	for _, m := range in.Messages {
		switch {
		case m.beta && !beta:
			return nil, invalid("messages: output_config: Extra inputs are not permitted")
		case m.Role != "system":
			r.Messages = append(r.Messages, m)
		case beta && len(r.Messages) > 1:
			m.Role = "user" // said in between: it counts from there on
			r.Messages = append(r.Messages, m)
		case beta:
			r.System = append(r.System, m.Blocks...)
		default:
			return nil, badRole(m.Role)
		}
	}
	if beta && r.Thinking != nil && r.Thinking.Display == "updates" {
		r.Thinking.Display = "summarized"
	}
	switch {
	case r.Model == "":
		return nil, invalid("model: Field required")
	case !counting && r.MaxTokens == nil:
		return nil, invalid("max_tokens: Field required")
	case !counting && *r.MaxTokens < 1:
		return nil, invalid("max_tokens: Input should be greater than or equal to 1")
	case len(r.Messages) == 0:
		return nil, invalid("messages: at least one message is required")
	case len(r.Messages) > 100_000:
		return nil, invalid("messages: at most 100000 messages")
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 1):
		return nil, invalid("temperature: range: 0..1")
	case r.Effort != "" && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, r.Effort):
		return nil, invalid("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
	}
	for _, check := range []func(*request) *Error{checkTools, checkThinking, checkMessages, checkCaches} {
		if e := check(r); e != nil {
			return nil, e
		}
	}
	return r, nil
}

// blocks parses content: a string is one text block.
func blocks(at string, raw json.RawMessage) ([]content, *Error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []content{{Type: "text", Text: text}}, nil
	}
	var list []content
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid("%s: Input should be a valid string or list", at)
	}
	for i, b := range list {
		if at == "system" && b.Type != "text" {
			return nil, invalid("system.%d: Input tag '%s' found using 'type' does not match any of the expected tags: 'text'", i, b.Type)
		}
	}
	return list, nil
}

func (m *message) UnmarshalJSON(b []byte) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	for name := range in {
		switch name {
		case "role", "content":
		case "output_config": // how much to think from there on
			m.beta = true
		default:
			return invalid("messages: %s: Extra inputs are not permitted", name)
		}
	}
	_ = json.Unmarshal(in["role"], &m.Role) // a role that is not a string is unknown
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return badRole(m.Role)
	}
	list, e := blocks("messages.content", in["content"])
	if e != nil {
		return e
	}
	if len(list) == 0 {
		return invalid("messages: all messages must have non-empty content except for the optional final assistant message")
	}
	m.Blocks = list
	return nil
}

func badRole(role string) *Error {
	return invalid("messages: Unexpected role %q. Allowed roles are \"user\" or \"assistant\"", role)
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	useID    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	serverID = regexp.MustCompile(`^srvtoolu_[a-zA-Z0-9_]+$`)
)

func checkTools(r *request) *Error {
	seen := map[string]bool{}
	for i, t := range r.Tools {
		switch {
		case strings.HasPrefix(t.Type, "web_search_20"), strings.HasPrefix(t.Type, "web_fetch_20"):
			if !strings.HasPrefix(t.Type, t.Name) {
				return invalid("tools.%d.%s.name: Input should be the tool's own", i, t.Type)
			}
		case t.Type != "" && t.Type != "custom":
			return invalid("tools.%d: Input tag '%s' found using 'type' does not match any of the expected tags", i, t.Type)
		case !toolName.MatchString(t.Name):
			return invalid("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", i)
		default:
			var schema struct{ Type json.RawMessage }
			if json.Unmarshal(t.InputSchema, &schema) != nil || len(t.InputSchema) == 0 {
				return invalid("tools.%d.custom.input_schema: Input should be a valid dictionary", i)
			}
			if string(schema.Type) != `"object"` {
				return invalid("tools.%d.custom.input_schema.type: Input should be 'object'", i)
			}
		}
		if seen[t.Name] {
			return invalid("tools: Tool names must be unique.")
		}
		seen[t.Name] = true
	}
	if c := r.ToolChoice; c != nil {
		switch {
		case !slices.Contains([]string{"auto", "any", "tool", "none"}, c.Type):
			return invalid("tool_choice: Input tag '%s' found using 'type' does not match any of the expected tags: 'auto', 'any', 'tool', 'none'", c.Type)
		case len(r.Tools) == 0:
			return invalid("tool_choice: may only be specified while providing tools")
		case c.Type == "tool" && !seen[c.Name]:
			return invalid("tool_choice: Tool '%s' not found in provided tools", c.Name)
		}
	}
	return nil
}

func checkThinking(r *request) *Error {
	t := r.Thinking
	if t == nil || t.Type == "disabled" {
		return nil
	}
	switch {
	case t.Type != "adaptive" && t.Type != "enabled":
		return invalid("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", t.Type)
	case t.Display != "" && t.Display != "summarized" && t.Display != "omitted":
		return invalid("thinking.%s.display: Input should be 'summarized' or 'omitted'", t.Type)
	case t.Type == "adaptive" && t.BudgetTokens != 0:
		return invalid("thinking.adaptive.budget_tokens: Extra inputs are not permitted")
	case t.Type == "enabled" && t.BudgetTokens < 1024:
		return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
	case t.Type == "enabled" && r.MaxTokens != nil && t.BudgetTokens >= *r.MaxTokens:
		return invalid("`max_tokens` must be greater than `thinking.budget_tokens`")
	case r.Temperature != nil && *r.Temperature != 1:
		return invalid("`temperature` may only be set to 1 when thinking is enabled")
	case r.ToolChoice != nil && (r.ToolChoice.Type == "any" || r.ToolChoice.Type == "tool"):
		return invalid("Thinking may not be enabled when tool_choice forces tool use.")
	}
	return nil
}

// fits checks rules that depend on the model.
func (s *Server) fits(r *request) *Error {
	m := s.model(r.Model)
	if m == nil {
		return &Error{Type: "not_found_error", Message: "model: " + r.Model}
	}
	if r.MaxTokens != nil && *r.MaxTokens > m.MaxTokens {
		return invalid("max_tokens: %d > %d, which is the maximum allowed number of output tokens for %s", *r.MaxTokens, m.MaxTokens, m.ID)
	}
	if r.Temperature != nil && *r.Temperature != 1 && !m.Sampling {
		return invalid("`temperature` is not supported for this model.")
	}
	if r.Effort != "" && !m.Effort {
		return invalid("This model does not support the effort parameter.")
	}
	if t := r.Thinking; t != nil {
		if t.Type == "enabled" && !m.Enabled {
			return invalid(`"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
		}
		if t.Type == "adaptive" && !m.Adaptive {
			return invalid("adaptive thinking is not supported on this model")
		}
	}
	ms := merged(r.Messages)
	last := ms[len(ms)-1]
	if last.Role == "assistant" && !m.Prefill && !paused(last) {
		return invalid("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	for i, msg := range r.Messages {
		for j, b := range msg.Blocks {
			inner := []content{b}
			if b.Type == "tool_result" {
				inner, _ = blocks("", b.Content) // already validated
			}
			for _, b := range inner {
				if m.NoMedia && (b.Type == "image" || b.Type == "document") {
					return invalid("messages.%d.content.%d: this model does not take %ss", i, j, b.Type)
				}
			}
			if b.Type == "thinking" && !signed(m.ID, b) {
				return invalid("messages.%d.content.%d: Invalid `signature` in `thinking` block", i, j)
			}
		}
	}
	if r.Thinking != nil && r.Thinking.Type == "enabled" {
		return beginsWithThinking(ms)
	}
	return nil
}

// paused reports whether the message was paused in the middle of a tool of the provider's own,
// which may be continued.
func paused(m message) bool {
	t := m.Blocks[len(m.Blocks)-1].Type
	return t == "server_tool_use" || strings.HasSuffix(t, "_tool_result")
}

// beginsWithThinking checks that a turn that continues with results began with thinking.
func beginsWithThinking(ms []message) *Error {
	n := len(ms) - 1
	if ms[n].Role == "user" {
		if n == 0 || ms[n].Blocks[0].Type != "tool_result" {
			return nil
		}
		n--
	}
	if t := ms[n].Blocks[0].Type; t != "thinking" && t != "redacted_thinking" {
		return invalid("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block", n, t)
	}
	return nil
}

// merged joins neighbouring messages of one role, as the provider does.
func merged(ms []message) []message {
	var out []message
	for _, m := range ms {
		if n := len(out); n > 0 && out[n-1].Role == m.Role {
			out[n-1].Blocks = slices.Concat(out[n-1].Blocks, m.Blocks)
			continue
		}
		out = append(out, m)
	}
	return out
}

func checkCaches(r *request) *Error {
	n := 0
	var e *Error
	count := func(at string, c json.RawMessage) {
		if len(c) == 0 || string(c) == "null" {
			return
		}
		n++
		var v struct{ Type, TTL string }
		if json.Unmarshal(c, &v) != nil || v.Type != "ephemeral" || v.TTL != "" && v.TTL != "5m" && v.TTL != "1h" {
			e = invalid("%s.cache_control: Input should be ephemeral", at)
		}
	}
	for _, t := range r.Tools {
		count("tools", t.Cache)
	}
	for _, b := range r.System {
		if count("system", b.Cache); strings.TrimSpace(b.Text) == "" {
			return invalid("system: text content blocks must be non-empty")
		}
	}
	for _, m := range r.Messages {
		for _, b := range m.Blocks {
			count("messages", b.Cache)
			if len(b.Cache) > 0 && (b.Type == "thinking" || b.Type == "redacted_thinking") {
				return invalid("messages: cache_control cannot be set for thinking blocks")
			}
		}
	}
	if n > 4 {
		return invalid("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	return e
}

func decodable(b content, kinds ...string) bool {
	if b.Source == nil || b.Source.Type != "base64" || !slices.Contains(kinds, b.Source.MediaType) {
		return false
	}
	raw, err := base64.StdEncoding.DecodeString(b.Source.Data)
	return err == nil && len(raw) > 0
}
