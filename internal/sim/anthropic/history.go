package anthropic

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// checkMessages checks a history against the provider's rules.
func checkMessages(r *request) *Error {
	ms := merged(r.Messages)
	if ms[0].Role != "user" {
		return invalid(`messages: first message must use the "user" role`)
	}
	ids, served, calls := map[string]bool{}, map[string]bool{}, false
	for i, m := range ms {
		var before []string // the calls that this message must answer
		if i > 0 {
			for _, b := range ms[i-1].Blocks {
				if b.Type == "tool_use" {
					before = append(before, b.ID)
				}
			}
		}
		if e := results(i, m, before); e != nil {
			return e
		}
		for j, b := range m.Blocks {
			if e := checkBlock(i, j, m.Role, b); e != nil {
				return e
			}
			switch b.Type {
			case "tool_use":
				if ids[b.ID] {
					return invalid("messages.%d.content.%d: `tool_use` ids must be unique", i, j)
				}
				ids[b.ID], calls = true, true
			case "server_tool_use":
				if served[b.ID] {
					return invalid("messages.%d.content.%d: `server_tool_use` ids must be unique", i, j)
				}
				served[b.ID] = true
			case "web_search_tool_result", "web_fetch_tool_result":
				if !served[b.ToolUseID] {
					return invalid("messages.%d.content.%d: unexpected `tool_use_id` found in `%s` blocks: %s", i, j, b.Type, b.ToolUseID)
				}
			}
		}
	}
	last := ms[len(ms)-1]
	for _, b := range last.Blocks {
		if b.Type == "tool_use" {
			return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", len(ms)-1, b.ID)
		}
	}
	if end := last.Blocks[len(last.Blocks)-1]; last.Role == "assistant" && end.Type == "text" && strings.TrimRight(end.Text, " \t\n") != end.Text {
		return invalid("messages: final assistant content cannot end with trailing whitespace")
	}
	if calls && len(r.Tools) == 0 {
		return invalid("Requests which include `tool_use` or `tool_result` blocks must define tools")
	}
	return nil
}

// results checks that a message answers each call of the previous message, once and before
// anything else.
func results(i int, m message, calls []string) *Error {
	var answered []string
	other := false
	for j, b := range m.Blocks {
		if b.Type != "tool_result" {
			other = true
			continue
		}
		switch {
		case m.Role != "user":
			return invalid("messages.%d: `tool_result` blocks can only be in `user` messages", i)
		case !slices.Contains(calls, b.ToolUseID):
			return invalid("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", i, j, b.ToolUseID)
		case slices.Contains(answered, b.ToolUseID):
			return invalid("messages.%d.content.%d: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", i, j, b.ToolUseID)
		case other:
			return invalid("messages.%d: `tool_result` blocks must come first in the message", i)
		}
		answered = append(answered, b.ToolUseID)
	}
	for _, id := range calls {
		if !slices.Contains(answered, id) {
			return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", i-1, id)
		}
	}
	return nil
}

// allowed lists the roles that may have each type of block.
var allowed = map[string]string{
	"text": "both", "image": "user", "document": "user", "search_result": "user", "tool_result": "user",
	"tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant", "server_tool_use": "assistant",
	"web_search_tool_result": "assistant", "web_fetch_tool_result": "assistant",
}

func checkBlock(i, j int, role string, b content) *Error {
	at := func(format string, args ...any) *Error {
		return invalid("messages.%d.content.%d"+format, append([]any{i, j}, args...)...)
	}
	switch by, known := allowed[b.Type]; {
	case !known:
		return at(": Input tag '%s' found using 'type' does not match any of the expected tags", b.Type)
	case by != "both" && by != role:
		return at(": `%s` blocks can only be in `%s` messages", b.Type, by)
	}
	switch b.Type {
	case "text":
		if strings.TrimSpace(b.Text) == "" {
			return invalid("messages: text content blocks must contain non-whitespace text")
		}
	case "tool_use":
		switch {
		case !useID.MatchString(b.ID):
			return at(".tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
		case !toolName.MatchString(b.Name):
			return at(".tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
		case !isObject(b.Input):
			return at(".tool_use.input: Input should be a valid dictionary")
		}
	case "server_tool_use":
		if !serverID.MatchString(b.ID) || !isObject(b.Input) {
			return at(".server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'")
		}
	case "tool_result":
		if !useID.MatchString(b.ToolUseID) {
			return at(".tool_result.tool_use_id: String should match pattern '^[a-zA-Z0-9_-]+$'")
		}
		inner, e := blocks("tool_result.content", b.Content)
		if e != nil {
			return e
		}
		for k, c := range inner {
			switch {
			case c.Type == "text" && c.Text == "" && b.Content[0] == '[':
				return at(".tool_result: text content blocks must be non-empty")
			case c.Type == "image" || c.Type == "document":
				if e := checkBlock(i, j, "user", c); e != nil {
					return e
				}
			case c.Type != "text" && c.Type != "search_result":
				return at(".tool_result.content.%d: Input tag '%s' found using 'type' does not match any of the expected tags", k, c.Type)
			}
		}
		if b.IsError && len(inner) == 0 {
			return at(".tool_result: content cannot be empty if `is_error` is true")
		}
	case "thinking":
		if b.Signature == "" {
			return at(".thinking.signature: Field required")
		}
	case "redacted_thinking":
		if b.Data == "" {
			return at(".redacted_thinking.data: Field required")
		}
	case "image":
		if !decodable(b, "image/jpeg", "image/png", "image/gif", "image/webp") {
			return at(".image.source.base64: Input should be a valid image")
		}
		if len(b.Source.Data) > 5<<20 {
			return at(".image.source.base64: image exceeds 5 MB maximum: %d bytes > 5242880 bytes", len(b.Source.Data))
		}
		raw, _ := base64.StdEncoding.DecodeString(b.Source.Data)
		if is := http.DetectContentType(raw); is != b.Source.MediaType {
			return at(".image.source.base64.data: The image was specified using the %s media type, but the image appears to be a %s image", b.Source.MediaType, is)
		}
	case "document":
		text := b.Source != nil && b.Source.Type == "text" && b.Source.MediaType == "text/plain" && b.Source.Data != ""
		if !text && !decodable(b, "application/pdf") {
			return at(".document.source: Input should be a valid PDF or text")
		}
	}
	return nil
}

func isObject(raw json.RawMessage) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(raw, &m) == nil && m != nil
}

// sign returns the signature of thinking: a model recognizes its own.
func sign(model, thinking string) string {
	m := hmac.New(sha256.New, []byte("the provider's secret"))
	m.Write([]byte(model + "\x00" + thinking))
	return base64.StdEncoding.EncodeToString(m.Sum(nil))
}

func signed(model string, b content) bool {
	return b.Signature == sign(model, b.Thinking)
}
