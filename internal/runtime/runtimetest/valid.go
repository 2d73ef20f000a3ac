package runtimetest

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley"
)

// Validate reports why a provider would refuse messages, nil when none would.
// The rules are the strictest of all providers that we know:
//
//   - it begins with a user message and ends with a user or tool message;
//   - neighbours have different roles;
//   - no message is without parts, no text part is blank;
//   - user messages hold text, images and files; assistant messages hold text,
//     thinking, tool calls and handoffs, and not thinking alone; tool messages
//     hold results, each followed by its images;
//   - an assistant message with calls or handoffs is followed by one tool message
//     with exactly one result for each, and there is no other tool message;
//   - call ids are there and are never used twice.
func Validate(messages []parley.Message) error {
	if len(messages) == 0 {
		return fmt.Errorf("there is no message")
	}
	if r := messages[0].Role; r != parley.RoleUser {
		return fmt.Errorf("message 0 is the %s's, want the user's", r)
	}
	if r := messages[len(messages)-1].Role; r == parley.RoleAssistant {
		return fmt.Errorf("the last message is the assistant's, but the assistant speaks next")
	}
	used := map[parley.CallID]bool{}
	var open []parley.CallID // calls of the message before
	for i, m := range messages {
		if i > 0 && messages[i-1].Role == m.Role {
			return fmt.Errorf("messages %d and %d are both the %s's", i-1, i, m.Role)
		}
		if len(m.Parts) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		for _, p := range m.Parts {
			if err := checkPart(m.Role, p); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		if m.Role == parley.RoleTool {
			if err := checkResults(open, m.Parts); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
			open = nil
			continue
		}
		if open != nil {
			return fmt.Errorf("message %d is the %s's, want the results of %v", i, m.Role, open)
		}
		said := m.Role == parley.RoleUser
		for _, p := range m.Parts {
			said = said || p.Type != parley.PartThinking
			if p.Type != parley.PartToolCall && p.Type != parley.PartHandoff {
				continue
			}
			if p.Call == "" || used[p.Call] {
				return fmt.Errorf("message %d: call id %q is missing or used twice", i, p.Call)
			}
			used[p.Call] = true
			open = append(open, p.Call)
		}
		if !said {
			return fmt.Errorf("message %d holds nothing but thinking", i)
		}
	}
	if open != nil {
		return fmt.Errorf("the calls %v have no result", open)
	}
	return nil
}

func checkPart(role parley.Role, p parley.Part) error {
	ok := false
	switch p.Type {
	case parley.PartText:
		if strings.TrimSpace(p.Text) == "" {
			return fmt.Errorf("a text part is blank")
		}
		ok = role != parley.RoleTool
	case parley.PartImage:
		ok = p.Artifact != "" && (role == parley.RoleUser && p.Call == "" || role == parley.RoleTool && p.Call != "")
	case parley.PartFile:
		ok = role == parley.RoleUser
	case parley.PartThinking, parley.PartToolCall, parley.PartHandoff:
		ok = role == parley.RoleAssistant
	case parley.PartToolResult:
		if strings.TrimSpace(p.Text) == "" && len(p.Input) == 0 {
			return fmt.Errorf("the result of %s is blank", p.Call)
		}
		ok = role == parley.RoleTool
	}
	if !ok {
		return fmt.Errorf("the %s cannot say a part of type %q", role, p.Type)
	}
	return nil
}

func checkResults(open []parley.CallID, parts []parley.Part) error {
	want := map[parley.CallID]bool{}
	for _, c := range open {
		want[c] = true
	}
	for i, p := range parts {
		if p.Type == parley.PartImage {
			if i == 0 || parts[i-1].Call != p.Call {
				return fmt.Errorf("an image of %q does not follow its result", p.Call)
			}
			continue
		}
		if !want[p.Call] {
			return fmt.Errorf("a result for %q, which was not just called or has one already", p.Call)
		}
		delete(want, p.Call)
	}
	if len(want) > 0 {
		return fmt.Errorf("%d calls of the message before have no result", len(want))
	}
	return nil
}
