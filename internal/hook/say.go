package hook

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// output is the JSON that a hook may write.
type output struct {
	Continue      *bool  `json:"continue"`
	StopReason    string `json:"stopReason"`
	SystemMessage string `json:"systemMessage"`
	Decision      string `json:"decision"` // block; in an older form of PreToolUse also approve
	Reason        string `json:"reason"`
	Specific      struct {
		Event      string          `json:"hookEventName"`
		Permission string          `json:"permissionDecision"` // allow, deny, ask
		Why        string          `json:"permissionDecisionReason"`
		Input      json.RawMessage `json:"updatedInput"`
		Context    string          `json:"additionalContext"`
		Output     json.RawMessage `json:"updatedToolOutput"`
		Decision   *struct {
			Behavior  string          `json:"behavior"` // allow, deny
			Input     json.RawMessage `json:"updatedInput"`
			Message   string          `json:"message"`
			Interrupt bool            `json:"interrupt"`
		} `json:"decision"` // of PermissionRequest
	} `json:"hookSpecificOutput"`
}

// read returns the result of a hook that has ended.
func (h *Hook) read(said Said) (r Result, err error) {
	text := bytes.TrimSpace(said.Out)
	var o output
	isJSON := len(text) > 0 && text[0] == '{'
	if isJSON {
		if err := json.Unmarshal(text, &o); err != nil {
			if said.Code == 2 {
				isJSON, o = false, output{}
			} else {
				return r, parley.Errorf(parley.CodeTool, "its output is not JSON in the form for hooks: %w", err)
			}
		}
	}
	switch {
	case said.Code == 2:
		return h.blocked(said, o), nil
	case said.Code != 0:
		why := ""
		if said.Err != "" {
			why = ": " + parley.Cut(said.Err, 500)
		}
		return r, parley.Errorf(parley.CodeTool, "it ended with exit code %d%s", said.Code, why)
	case !isJSON:
		if h.Event == UserPromptSubmit || h.Event == SessionStart {
			r.Context = cut(string(text))
		}
		return r, nil
	}
	if e := o.Specific.Event; e != "" && e != h.Event {
		return r, parley.Errorf(parley.CodeTool, "it answered about %s, but was asked about %s", parley.Cut(e, 40), h.Event)
	}
	r.Message, r.Context = cut(o.SystemMessage), cut(o.Specific.Context)
	if o.Continue != nil && !*o.Continue {
		r.Halt, r.Reason = true, cut(o.StopReason)
		if r.Reason == "" {
			r.Reason = "the hook " + h.Name + " stopped the turn"
		}
	}
	if err = h.decide(&r, o); err == nil {
		h.settle(&r)
	}
	return r, err
}

// settle removes from a result what its event has no use for.
func (h *Hook) settle(r *Result) {
	switch h.Event {
	case UserPromptSubmit: // stopping the message's own turn means blocking the message
		if r.Halt {
			r.Decision, r.Halt = parley.Deny, false
		}
	case Stop: // the turn ends anyway
		if r.Halt {
			r.Decision, r.Halt = "", false
		}
		r.withReason()
	case SubagentStop:
		if r.Halt {
			r.Decision = ""
		}
		r.withReason()
	case Notification, SessionEnd:
		r.Halt, r.Reason, r.Context = false, "", ""
	case PreCompact:
		r.Context = ""
	}
	if r.Decision == parley.Deny && r.Reason == "" {
		switch h.Event {
		case UserPromptSubmit, PreCompact:
			r.Reason = "the hook " + h.Name + " gave no reason"
		case Stop, SubagentStop:
			r.Reason = "go on"
		}
	}
}

// withReason moves the hook's context into the reason if the hook makes an agent continue,
// because the agent reads only one text. Otherwise nobody reads the context, and it is dropped.
func (r *Result) withReason() {
	if r.Decision == parley.Deny {
		r.Reason = cut(strings.TrimSpace(r.Reason + "\n" + r.Context))
	}
	r.Context = ""
}

// blocked returns the result for exit code 2.
func (h *Hook) blocked(said Said, o output) Result {
	r := Result{Reason: cut(said.Err), Message: cut(o.SystemMessage)}
	for _, why := range []string{o.Reason, o.Specific.Why} {
		if r.Reason == "" {
			r.Reason = cut(why)
		}
	}
	switch h.Event {
	case PreToolUse:
		r.Decision = parley.Deny
		if r.Reason == "" {
			r.Reason = "the hook " + h.Name + " denied it"
		}
	case UserPromptSubmit, Stop, SubagentStop, PreCompact:
		r.Decision = parley.Deny
		h.settle(&r)
	case PermissionRequest, Notification: // exit code 2 has no meaning for these events
		r.Reason = ""
	case SessionStart, SessionEnd, SubagentStart: // shown to people only
		r.Message, r.Reason = strings.TrimSpace(r.Message+"\n"+r.Reason), ""
	default:
		r.Context, r.Reason = r.Reason, ""
	}
	return r
}

// decide reads the decision from the JSON output.
func (h *Hook) decide(r *Result, o output) error {
	verdict := func(text string, known map[string]parley.Verdict) error {
		v, ok := known[text]
		if !ok {
			return parley.Errorf(parley.CodeTool, "it decided %q, which is not a decision for %s", parley.Cut(text, 40), h.Event)
		}
		r.Decision = v
		return nil
	}
	var err error
	switch h.Event {
	case PreToolUse:
		why := o.Specific.Why
		switch {
		case o.Specific.Permission != "":
			err = verdict(o.Specific.Permission, map[string]parley.Verdict{"allow": parley.Allow, "ask": parley.Ask, "deny": parley.Deny})
		case o.Decision != "":
			why = o.Reason
			err = verdict(o.Decision, map[string]parley.Verdict{"approve": parley.Allow, "block": parley.Deny})
		}
		if !r.Halt {
			r.Reason = cut(why)
		}
		if err == nil {
			r.Input, err = changed(o.Specific.Input)
		}
	case PermissionRequest:
		d := o.Specific.Decision
		if d == nil {
			return nil
		}
		if err = verdict(d.Behavior, map[string]parley.Verdict{"allow": parley.Allow, "deny": parley.Deny}); err != nil {
			return err
		}
		if r.Decision == parley.Allow {
			r.Input, err = changed(d.Input)
			return err
		}
		r.Reason, r.Halt = cut(d.Message), r.Halt || d.Interrupt
	case UserPromptSubmit, Stop, SubagentStop, PreCompact:
		if o.Decision == "" {
			return nil
		}
		if err = verdict(o.Decision, map[string]parley.Verdict{"block": parley.Deny}); err == nil && !r.Halt {
			r.Reason = cut(o.Reason)
		}
	case SessionStart, SessionEnd, SubagentStart, Notification: // they decide nothing
	default:
		if o.Decision != "" {
			if err = verdict(o.Decision, map[string]parley.Verdict{"block": parley.Deny}); err != nil {
				return err
			}
			r.Decision = "" // the call is over and cannot be blocked; only the reason is used
			r.Context = strings.TrimSpace(cut(o.Reason) + "\n" + r.Context)
		}
		if len(o.Specific.Output) > 0 && string(o.Specific.Output) != "null" {
			out := string(o.Specific.Output)
			_ = json.Unmarshal(o.Specific.Output, &out) // a string as it is, anything else as JSON
			out = cut(out)
			r.Output = &out
		}
	}
	return err
}

// changed returns an input that a hook has changed.
func changed(raw json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] != '{':
		return nil, parley.Errorf(parley.CodeTool, "its changed input is not a JSON object")
	case len(raw) > MaxInput:
		return nil, parley.Errorf(parley.CodeTool, "its changed input has more than %d bytes", MaxInput)
	}
	return raw, nil
}

func cut(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return parley.Cut(strings.TrimSpace(text), MaxText)
}
