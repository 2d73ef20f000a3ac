package mistral

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Refusal is an error response of the provider.
type Refusal struct {
	Status  int
	Type    string
	Message string
	Code    string
	// Loc makes it a schema error: status 422, in FastAPI's form.
	Loc []any
}

func (e *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Message) }

func refuse(w http.ResponseWriter, e *Refusal) {
	if e.Loc != nil {
		write(w, http.StatusUnprocessableEntity, map[string]any{
			"detail": []map[string]any{{"type": e.Type, "loc": append([]any{"body"}, e.Loc...), "msg": e.Message, "input": nil}},
		})
		return
	}
	var code any
	if e.Code != "" {
		code = e.Code
	}
	write(w, e.Status, map[string]any{
		"object": "error", "message": e.Message, "type": e.Type, "param": nil, "code": code, "raw_status_code": e.Status,
	})
}

// usual returns the provider's usual error for a status.
func usual(status int) *Refusal {
	e := &Refusal{Status: status, Type: "internal_server_error", Message: "Service unavailable.", Code: "1000"}
	switch status {
	case http.StatusTooManyRequests:
		e.Type, e.Message, e.Code = "rate_limited", "Rate limit exceeded", "1300"
	case http.StatusUnauthorized:
		e.Type, e.Message, e.Code = "unauthorized", "Unauthorized", ""
	case http.StatusForbidden:
		e.Type, e.Message, e.Code = "forbidden", "Guardrail blocked the request", ""
	case http.StatusNotFound:
		e.Type, e.Message, e.Code = "not_found", "Not found", ""
	case http.StatusBadRequest:
		e.Type, e.Message, e.Code = "invalid_request_error", "Bad request", "3000"
	}
	return e
}

func bad(kind, code, format string, args ...any) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Type: kind, Message: fmt.Sprintf(format, args...), Code: code}
}

func schema(kind, message string, loc ...any) *Refusal {
	return &Refusal{Status: http.StatusUnprocessableEntity, Type: kind, Message: message, Loc: loc}
}

type chatBody struct {
	Model             string          `json:"model"`
	Messages          []chatMessage   `json:"messages"`
	Tools             []toolBody      `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	MaxTokens         *int64          `json:"max_tokens"`
	Temperature       *float64        `json:"temperature"`
	TopP              *float64        `json:"top_p"`
	Stream            bool            `json:"stream"`
	Stop              json.RawMessage `json:"stop"`
	RandomSeed        *int64          `json:"random_seed"`
	ResponseFormat    json.RawMessage `json:"response_format"`
	PresencePenalty   *float64        `json:"presence_penalty"`
	FrequencyPenalty  *float64        `json:"frequency_penalty"`
	N                 *int            `json:"n"`
	Prediction        json.RawMessage `json:"prediction"`
	ParallelToolCalls *bool           `json:"parallel_tool_calls"`
	ReasoningEffort   *string         `json:"reasoning_effort"`
	PromptMode        *string         `json:"prompt_mode"`
	Guardrails        json.RawMessage `json:"guardrails"`
	PromptCacheKey    *string         `json:"prompt_cache_key"`
	Metadata          map[string]any  `json:"metadata"`
	SafePrompt        *bool           `json:"safe_prompt"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []callBody      `json:"tool_calls"`
	ToolCallID *string         `json:"tool_call_id"`
	Name       *string         `json:"name"`
	Prefix     bool            `json:"prefix"`
}

type callBody struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Index    *int   `json:"index"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

type toolBody struct {
	Type     string `json:"type"`
	Function *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Strict      bool            `json:"strict"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function,omitempty"`
	LibraryIDs        []string        `json:"library_ids,omitempty"`
	ConnectorID       string          `json:"connector_id,omitempty"`
	ToolConfiguration json.RawMessage `json:"tool_configuration,omitempty"`
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
)

var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh"}

// Validate returns a *Refusal if the provider would reject the body of a chat completion,
// otherwise nil.
func Validate(body []byte) error {
	if _, no := parseChat(body); no != nil {
		return no
	}
	return nil
}

func parseChat(body []byte) (*chatBody, *Refusal) {
	var b chatBody
	if no := strict(body, &b); no != nil {
		return nil, no
	}
	switch {
	case b.Model == "":
		return nil, schema("missing", "Field required", "model")
	case len(b.Messages) == 0:
		return nil, bad("invalid_request_message_order", "3230", "Conversation must have at least one message")
	case b.MaxTokens != nil && *b.MaxTokens < 1:
		return nil, schema("greater_than_equal", "Input should be greater than or equal to 1", "max_tokens")
	case b.Temperature != nil && (*b.Temperature < 0 || *b.Temperature > 1.5):
		return nil, schema("less_than_equal", "Input should be between 0 and 1.5", "temperature")
	case b.ReasoningEffort != nil && !slices.Contains(efforts, *b.ReasoningEffort):
		return nil, schema("enum", "Input should be one of the known efforts", "reasoning_effort")
	}
	if no := validTools(b.Tools, false); no != nil {
		return nil, no
	}
	if no := validOrder(b.Messages); no != nil {
		return nil, no
	}
	for i, m := range b.Messages {
		if no := validMessage(m, i); no != nil {
			return nil, no
		}
	}
	return &b, nil
}

// strict decodes a body and rejects unknown fields.
func strict(body []byte, v any) *Refusal {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if _, field, ok := strings.Cut(err.Error(), "unknown field "); ok {
			return schema("extra_forbidden", "Extra inputs are not permitted", strings.Trim(field, `"`))
		}
		return schema("json_invalid", err.Error(), 0)
	}
	return nil
}

func validTools(tools []toolBody, hosted bool) *Refusal {
	seen := map[string]bool{}
	for i, t := range tools {
		if t.Type != "function" && hosted {
			if !slices.Contains([]string{"web_search", "web_search_premium", "code_interpreter", "image_generation", "document_library", "connector"}, t.Type) {
				return schema("union_tag_invalid", "Input tag found using 'type' does not match any of the expected tags", "tools", i)
			}
			continue
		}
		if t.Type != "function" && t.Type != "" || t.Function == nil {
			return schema("missing", "Field required", "tools", i, "function")
		}
		var params map[string]any
		if json.Unmarshal(t.Function.Parameters, &params) != nil || params == nil {
			return schema("dict_type", "Input should be a valid dictionary", "tools", i, "function", "parameters")
		}
		if !toolName.MatchString(t.Function.Name) {
			return bad("invalid_request_error", "3051", "Function name was %s but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.", t.Function.Name)
		}
		if seen[t.Function.Name] {
			return bad("invalid_request_error", "3051", "Duplicate function name %s", t.Function.Name)
		}
		seen[t.Function.Name] = true
	}
	return nil
}

// follows lists the roles that may come after each role. Most models do not allow a user's
// message after a tool's; the newest do.
var follows = map[string][]string{
	"":          {"system", "user"},
	"system":    {"system", "user", "assistant"},
	"user":      {"user", "system", "assistant"},
	"assistant": {"assistant", "user", "tool"},
	"tool":      {"tool", "assistant"},
}

// maxImages is the limit of https://docs.mistral.ai/capabilities/vision
const maxImages = 8

func validOrder(ms []chatMessage) *Refusal {
	const order = "invalid_request_message_order"
	images := 0
	for i, m := range ms {
		chunks, _ := contentOf(m.Content, i)
		for _, c := range chunks {
			if c.Type == "image_url" {
				images++
			}
		}
	}
	if images > maxImages {
		return bad("invalid_request_error", "3051", "Too many images in request: %d, maximum %d", images, maxImages)
	}
	role := ""
	var open, answered []string
	for _, m := range ms {
		if !slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) {
			return schema("union_tag_invalid", "Input tag found using 'role' does not match any of the expected tags", "messages")
		}
		if !slices.Contains(follows[role], m.Role) {
			if role == "" {
				return bad(order, "3230", "Conversation must start with a user message or system message")
			}
			return bad(order, "3230", "Unexpected role '%s' after role '%s'", m.Role, role)
		}
		if m.Role != "tool" && len(open) != len(answered) {
			return bad(order, "3230", "Not the same number of function calls and responses")
		}
		switch m.Role {
		case "tool":
			id := ""
			if m.ToolCallID != nil {
				id = *m.ToolCallID
			}
			if slices.Contains(answered, id) {
				return bad("invalid_request_error", "3230", "Duplicate tool call id %s in tool results", id)
			}
			if !slices.Contains(open, id) {
				return bad("invalid_request_error", "3230", "Unexpected tool call id %s in tool results", id)
			}
			answered = append(answered, id)
		case "assistant":
			open, answered = nil, nil
			for _, c := range m.ToolCalls {
				if slices.Contains(open, c.ID) {
					return bad("invalid_function_call", "3280", "Duplicate tool call id %s in assistant message", c.ID)
				}
				open = append(open, c.ID)
			}
		}
		role = m.Role
	}
	last := ms[len(ms)-1]
	switch {
	case len(open) != len(answered):
		return bad(order, "3230", "Not the same number of function calls and responses")
	case last.Role == "system" || last.Role == "assistant" && !last.Prefix:
		return bad(order, "3230", "Expected last role User or Tool (or Assistant with prefix True) for serving but got %s", last.Role)
	}
	return nil
}

func validMessage(m chatMessage, at int) *Refusal {
	chunks, no := contentOf(m.Content, at)
	if no != nil {
		return no
	}
	may := map[string][]string{
		"system": {"text", "thinking"}, "user": {"text", "image_url", "document_url", "file", "input_audio"},
		"assistant": {"text", "thinking", "reference"}, "tool": {"text", "image_url", "document_url"},
	}[m.Role]
	said := false
	for _, c := range chunks {
		if !slices.Contains(may, c.Type) {
			return bad("invalid_request_error", "3051", "Unexpected content chunk types in %s message: %s", m.Role, c.Type)
		}
		said = said || c.Type != "text" || c.Text != ""
	}
	switch m.Role {
	case "assistant":
		if !said && len(m.ToolCalls) == 0 {
			return bad("invalid_assistant_message", "3240", "Assistant message must have either content or tool_calls, but not none.")
		}
		for _, c := range m.ToolCalls {
			if !callID.MatchString(c.ID) {
				return bad("invalid_function_call", "3280", "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", c.ID)
			}
			if !toolName.MatchString(c.Function.Name) {
				return bad("invalid_function_call", "3280", "Function name was %s but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.", c.Function.Name)
			}
			if _, ok := arguments(c.Function.Arguments); !ok {
				return bad("invalid_function_call", "3280", "Function arguments are not valid JSON")
			}
		}
	case "tool":
		if m.ToolCallID == nil || !callID.MatchString(*m.ToolCallID) {
			return bad("invalid_function_call", "3280", "Tool call id has to be defined, with a length of 9.")
		}
		if m.Name != nil && !toolName.MatchString(*m.Name) {
			return bad("invalid_request_error", "3051", "Function name was %s", *m.Name)
		}
	default:
		if !said {
			return bad("invalid_request_error", "3051", "%s message must have content", m.Role)
		}
	}
	return nil
}

// arguments returns the arguments of a call, given as an object or as its text.
func arguments(raw json.RawMessage) (json.RawMessage, bool) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	return raw, json.Valid(raw)
}

type chunkBody struct {
	Type         string          `json:"type"`
	Text         string          `json:"text"`
	ImageURL     json.RawMessage `json:"image_url"`
	DocumentURL  string          `json:"document_url"`
	DocumentName *string         `json:"document_name"`
	Thinking     []chunkBody     `json:"thinking"`
	Signature    *string         `json:"signature"`
	Closed       *bool           `json:"closed"`
}

// contentOf parses a content that may be a text, chunks, or absent.
func contentOf(raw json.RawMessage, at int) ([]chunkBody, *Refusal) {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case json.Unmarshal(raw, &text) == nil:
		return []chunkBody{{Type: "text", Text: text}}, nil
	}
	var list []chunkBody
	if no := strict(raw, &list); no != nil {
		no.Loc = append([]any{"messages", at, "content"}, no.Loc...)
		return nil, no
	}
	return list, nil
}
