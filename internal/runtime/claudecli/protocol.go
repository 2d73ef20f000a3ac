package claudecli

import (
	"encoding/json"
	"strings"
)

// message is a line that the CLI writes. Only the fields that the runtime uses are read.
type message struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	UUID    string `json:"uuid"`
	size    int    // of the line, in bytes

	// Of control_request, control_cancel_request and control_response.
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
	Response  struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response"`
		Error     string          `json:"error"`
	} `json:"response"`

	// Of assistant and user.
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Parent string `json:"parent_tool_use_id"`
	Agent  string `json:"agent_id"`

	// Of command_lifecycle.
	CommandUUID string `json:"command_uuid"`
	State       string `json:"state"`

	// Of system.
	TaskID       string `json:"task_id"`
	TaskType     string `json:"task_type"`
	ToolUseID    string `json:"tool_use_id"`
	AgentType    string `json:"subagent_type"`
	Backgrounded bool   `json:"is_backgrounded"`
	Prompt       string `json:"prompt"`
	Description  string `json:"description"`
	Status       string `json:"status"`
	Summary      string `json:"summary"`
	Tasks        []struct {
		ID   string `json:"task_id"`
		Type string `json:"task_type"`
	} `json:"tasks"`
	Compact struct {
		Trigger string `json:"trigger"`
		Pre     int64  `json:"pre_tokens"`
		Post    int64  `json:"post_tokens"`
	} `json:"compact_metadata"`
	Tool    string `json:"tool_name"`
	Content string `json:"content"`

	// Of result.
	IsError        bool     `json:"is_error"`
	Result         string   `json:"result"`
	Errors         []string `json:"errors"`
	TerminalReason string   `json:"terminal_reason"`
	UserUUIDs      []string `json:"user_message_uuids"`
	UserUUID       string   `json:"user_message_uuid"`
	Queued         int      `json:"queued_turn_count"`
	Origin         *struct {
		Kind string `json:"kind"`
	} `json:"origin"`
}

// control is a request of the CLI.
type control struct {
	Subtype  string `json:"subtype"`
	Callback string `json:"callback_id"`
	Input    struct {
		Event     string          `json:"hook_event_name"`
		Tool      string          `json:"tool_name"`
		ToolInput json.RawMessage `json:"tool_input"`
		ToolUseID string          `json:"tool_use_id"`
		Agent     string          `json:"agent_id"`
		AgentType string          `json:"agent_type"`
		Last      string          `json:"last_assistant_message"`
	} `json:"-"`
	RawInput  json.RawMessage `json:"input"`
	Tool      string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	Agent     string          `json:"agent_id"`
	Server    string          `json:"server_name"`
	Message   json.RawMessage `json:"message"`
}

// UnmarshalJSON also reads the input of hook_callback.
func (c *control) UnmarshalJSON(b []byte) error {
	type plain control
	if err := json.Unmarshal(b, (*plain)(c)); err != nil {
		return err
	}
	if c.Subtype == "hook_callback" {
		return json.Unmarshal(c.RawInput, &c.Input)
	}
	return nil
}

// answer is the line that answers a request of the CLI.
func answer(id string, response any, err error) any {
	inner := map[string]any{"subtype": "success", "request_id": id, "response": response}
	if err != nil {
		inner = map[string]any{"subtype": "error", "request_id": id, "error": err.Error()}
	}
	return map[string]any{"type": "control_response", "response": inner}
}

// decision is the answer to a PreToolUse callback.
func decision(allow bool, why string, input json.RawMessage) any {
	out := map[string]any{"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
	if allow {
		out = map[string]any{"hookEventName": "PreToolUse", "permissionDecision": "allow"}
		if input != nil {
			out["updatedInput"] = input
		}
	}
	return map[string]any{"hookSpecificOutput": out}
}

// block is a content block of a message, as far as the runtime reads it.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// blocks reads content, which is a string or a list.
func blocks(raw json.RawMessage) []block {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}
	}
	var list []block
	_ = json.Unmarshal(raw, &list) // content of an unknown form has nothing for us
	return list
}

// text is the text of the content of a tool's result.
func text(raw json.RawMessage) string {
	var texts []string
	for _, b := range blocks(raw) {
		switch b.Type {
		case "text":
			texts = append(texts, b.Text)
		case "image":
			texts = append(texts, "[image]")
		}
	}
	return strings.Join(texts, "\n")
}
