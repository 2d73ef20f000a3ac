package claudecli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A shape says which fields an object has. A field's types are letters: s text, b bool, n number, o
// object, l list, 0 null. A "?" before them says that it may be left out.
type shape map[string]string

func (s shape) check(where string, v any) error {
	o, ok := v.(Line)
	if !ok {
		return fmt.Errorf("%s is %s, not an object", where, kindOf(v))
	}
	for name, v := range o {
		types, known := s[name]
		if !known {
			return fmt.Errorf("%s has the field %q, which the protocol does not have", where, name)
		}
		if k := kindOf(v); !strings.Contains(types, k) {
			return fmt.Errorf("%s.%s is %q, not one of %q", where, name, k, types)
		}
	}
	for name, types := range s {
		if _, ok := o[name]; !ok && !strings.HasPrefix(types, "?") {
			return fmt.Errorf("%s has no %q", where, name)
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "0"
	case string:
		return "s"
	case bool:
		return "b"
	case json.Number, float64:
		return "n"
	case Line:
		return "o"
	case []any:
		return "l"
	}
	return "?"
}

// requests are what a host may ask for.
var requests = map[string]shape{
	"initialize": {
		"hooks": "?o0", "sdkMcpServers": "?l", "agents": "?o", "skills": "?ls", "systemPrompt": "?ls", "appendSystemPrompt": "?s",
		"excludeDynamicSections": "?b", "forwardSubagentText": "?b", "mcpServers": "?o", "plugins": "?l", "title": "?s",
		"planModeInstructions": "?s", "toolAliases": "?o", "jsonSchema": "?o", "promptSuggestions": "?b", "supportedDialogKinds": "?l", "perTaskStopAffordance": "?b",
	},
	"interrupt":               {"cancel_queued": "?b"},
	"set_permission_mode":     {"mode": "s"},
	"set_model":               {"model": "?s0"},
	"set_max_thinking_tokens": {"max_thinking_tokens": "?n0"},
	"rewind_files":            {"user_message_id": "s", "dry_run": "?b"},
	"mcp_message":             {"server_name": "s", "message": "o"},
	"mcp_status":              {},
	"mcp_set_servers":         {"servers": "o"},
	"mcp_reconnect":           {"serverName": "s"},
	"mcp_toggle":              {"serverName": "s", "enabled": "b"},
	"stop_task":               {"task_id": "s"},
	"background_tasks":        {"tool_use_id": "?s"},
	"get_task_output":         {"task_id": "s"},
	"cancel_async_message":    {"message_uuid": "s"},
	"end_session":             {},
	"get_settings":            {},
	"apply_flag_settings":     {"settings": "o"},
	"list_permission_rules":   {},
	"get_context_usage":       {"detail": "?sb"},
	"get_session_cost":        {},
	"get_usage":               {"skip_behaviors": "?b"},
	"get_binary_version":      {},
	"list_models":             {},
	"read_file":               {"path": "s", "max_bytes": "?n", "encoding": "?s"},
	"file_suggestions":        {"query": "s"},
	"rename_session":          {"title": "s", "source": "?s"},
	"generate_session_title":  {"description": "s", "persist": "?b"},
	"side_question":           {"question": "s"},
	"reload_skills":           {},
	"reload_plugins":          {},
	"get_hooks_listing":       {},
	"seed_read_state":         {"path": "s", "mtime": "n"},
	"set_has_subscribers":     {"has_subscribers": "b"},
}

var (
	message  = shape{"type": "s", "message": "o", "uuid": "?s", "session_id": "?s", "parent_tool_use_id": "?s0", "priority": "?s", "shouldQuery": "?b", "client_composed": "?b", "isSynthetic": "?b"}
	allow    = shape{"behavior": "s", "updatedInput": "?o", "updatedPermissions": "?l"}
	deny     = shape{"behavior": "s", "message": "s", "interrupt": "?b"}
	verdict  = shape{"continue": "?b", "stopReason": "?s", "suppressOutput": "?b", "systemMessage": "?s", "decision": "?s", "reason": "?s", "hookSpecificOutput": "?o"}
	specific = map[string]shape{
		"PreToolUse":       {"hookEventName": "s", "permissionDecision": "?s", "permissionDecisionReason": "?s", "updatedInput": "?o", "additionalContext": "?s"},
		"PostToolUse":      {"hookEventName": "s", "additionalContext": "?s", "updatedToolOutput": "?osl", "updatedMCPToolOutput": "?osl"},
		"UserPromptSubmit": {"hookEventName": "s", "additionalContext": "?s"},
		"SubagentStart":    {"hookEventName": "s", "additionalContext": "?s"},
	}
	permissionModes = []string{"default", "manual", "acceptEdits", "plan", "dontAsk", "auto", "bypassPermissions"}
)

// checkHost says what is wrong with a line of a host. asked are the requests to it by their ids.
func checkHost(l Line, asked map[string]Line) error {
	switch l["type"] {
	case "keep_alive":
		return nil
	case "user":
		if err := message.check("message", l); err != nil {
			return err
		}
		if err := (shape{"role": "s", "content": "sl"}).check("message.message", l["message"]); err != nil {
			return err
		}
		if role := text(l, "message", "role"); role != "user" {
			return fmt.Errorf("expected message role 'user', got '%s'", role)
		}
		for _, part := range list(l, "message", "content") {
			if text(part, "type") == "" {
				return fmt.Errorf("a part of a message has no type")
			}
		}
		return nil
	case "control_cancel_request":
		return shape{"type": "s", "request_id": "s"}.check("control_cancel_request", l)
	case "control_request":
		return checkRequest(l)
	case "control_response":
		return checkAnswer(l, asked)
	}
	return fmt.Errorf("the protocol has no type %q", text(l, "type"))
}

func checkRequest(l Line) error {
	if err := (shape{"type": "s", "request_id": "s", "request": "o"}).check("control_request", l); err != nil {
		return err
	}
	subtype := text(l, "request", "subtype")
	s, ok := requests[subtype]
	if !ok {
		return fmt.Errorf("the protocol has no request %q", subtype)
	}
	if err := s.check(subtype, with(object(l, "request"), Line{"subtype": nil})); err != nil {
		return err
	}
	switch subtype {
	case "set_permission_mode":
		if mode := text(l, "request", "mode"); !slices.Contains(permissionModes, mode) {
			return fmt.Errorf("there is no permission mode %q", mode)
		}
	case "initialize":
		for event, matchers := range object(l, "request", "hooks") {
			all, ok := matchers.([]any)
			if !ok {
				return fmt.Errorf("hooks.%s is no list", event)
			}
			for _, m := range all {
				if err := (shape{"matcher": "?s0", "hookCallbackIds": "l", "timeout": "?n", "onFailure": "?s"}).check("hooks."+event, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func checkAnswer(l Line, asked map[string]Line) error {
	if err := (shape{"type": "s", "response": "o"}).check("control_response", l); err != nil {
		return err
	}
	if err := (shape{"subtype": "s", "request_id": "s", "response": "?o", "error": "?s", "error_code": "?s"}).check("control_response.response", l["response"]); err != nil {
		return err
	}
	request, ok := asked[text(l, "response", "request_id")]
	if !ok {
		return fmt.Errorf("an answer to a request that was never made: %q", text(l, "response", "request_id"))
	}
	if text(l, "response", "subtype") == "error" {
		return shape{"subtype": "s", "request_id": "s", "error": "s", "error_code": "?s"}.check("control_response.response", l["response"])
	}
	payload := get(l, "response", "response")
	switch text(request, "subtype") {
	case "can_use_tool":
		s := allow
		switch behavior := text(payload, "behavior"); behavior {
		case "allow":
		case "deny":
			s = deny
		default:
			return fmt.Errorf("a permission is answered with behavior %q", behavior)
		}
		return s.check("the answer to can_use_tool", payload)
	case "hook_callback":
		if err := verdict.check("the answer to a hook", payload); err != nil {
			return err
		}
		own := get(payload, "hookSpecificOutput")
		if own == nil {
			return nil
		}
		event := text(request, "input", "hook_event_name")
		if text(own, "hookEventName") != event {
			return fmt.Errorf("the answer to the hook %s is for %q", event, text(own, "hookEventName"))
		}
		if s, ok := specific[event]; ok {
			if err := s.check("hookSpecificOutput", own); err != nil {
				return err
			}
		}
		if d, ok := get(own, "permissionDecision").(string); ok && !slices.Contains([]string{"allow", "deny", "ask"}, d) {
			return fmt.Errorf("a hook decides %q", d)
		}
		return nil
	case "mcp_message":
		return shape{"mcp_response": "o"}.check("the answer to an MCP message", payload)
	}
	return nil
}
