package parley

import "slices"

// maxTold limits the text that hooks add for the model at the start of a session, in bytes.
const maxTold = 32 << 10

// Hooked is the combined decision of several hooks: the strictest of their verdicts.
type Hooked struct {
	Verdict Verdict `json:"verdict,omitempty"` // allow, ask or deny; empty: no verdict
	Name    string  `json:"name,omitempty"`    // the hook that gave the verdict
	Reason  string  `json:"reason,omitempty"`
	Changed string  `json:"changed,omitempty"` // the hook that changed the input
}

// Denied reports whether hooks were asked and one of them denied.
func (h *Hooked) Denied() bool { return h != nil && h.Verdict == Deny }

// strictness orders the verdicts of hooks; the highest wins.
var strictness = map[Verdict]int{Allow: 1, Ask: 2, Deny: 3}

// with returns the decision combined with that of another hook.
func (h *Hooked) with(p HookRan) *Hooked {
	out := Hooked{}
	if h != nil {
		out = *h
	}
	if strictness[p.Decision] > strictness[out.Verdict] {
		out.Verdict, out.Name, out.Reason = p.Decision, p.Name, p.Reason
	}
	if len(p.Input) > 0 {
		out.Changed = p.Name
	}
	return &out
}

// hooked applies the decision of a hook that the engine ran.
func (t *Turn) hooked(e Event, p HookRan) {
	t.HookBytes += len(e.Data)
	switch p.Event {
	case "UserPromptSubmit":
		if p.Steers { // the hook was asked before the message was accepted
			t.tell(e.Agent, p.Context)
			return
		}
		t.PromptDue, t.Prompt = false, t.Prompt.with(p)
		if p.Context != "" {
			t.Told = append(slices.Clip(t.Told), p.Context)
		}
	case "SessionStart":
		if t.Resumed {
			t.Resumed = false
			t.tell(t.Active, p.Context)
		}
	case "SubagentStart":
		if a := t.Agent(e.Agent); a != nil {
			a.Heard = true
		}
		t.tell(e.Agent, p.Context)
	case "Stop", "SubagentStop":
		a := t.Agent(e.Agent)
		if a == nil || a.Ended {
			return
		}
		if !a.AtEnd.Denied() && p.Decision == Deny {
			a.GoneOn++
		}
		a.AtEnd = a.AtEnd.with(p)
		if p.Decision == Deny {
			t.tell(e.Agent, p.Reason)
		}
	case "PreCompact":
		t.Compact = t.Compact.with(p)
	default:
		t.hookedCall(p)
	}
}

// tell adds a hook's text to the next step of the agent at path. If there is no such agent, it
// goes to the agent in charge.
func (t *Turn) tell(path AgentPath, text string) {
	a := t.Agent(path)
	if a == nil || a.Ended {
		a = t.Agent(t.Active)
	}
	switch {
	case text == "":
	case a == nil: // no agent has started yet
		t.Told = append(slices.Clip(t.Told), text)
	default:
		a.Steers = append(slices.Clip(a.Steers), Item{Kind: ItemHook, Text: text})
	}
}

// unread reports whether no model may see the turn's message, because hooks have blocked it or
// have not decided yet.
func (t *Turn) unread() bool { return t.PromptDue || t.Prompt.Denied() }

// hookedCall applies a hook's decision about a call.
func (t *Turn) hookedCall(p HookRan) {
	c := t.edit(p.Call)
	if c == nil {
		return
	}
	switch p.Event {
	case "PreToolUse":
		c.Hook = c.Hook.with(p)
		if len(p.Input) > 0 && c.HookAsked != nil {
			c.HookAsked = &Hooked{} // their earlier decision was about another input
		}
	case "PermissionRequest":
		c.HookAsked = c.HookAsked.with(p)
	default:
		c.HookDue = false
		if p.Output != nil {
			r := ToolResult{Call: c.Call, Outcome: c.Outcome}.Replaced(*p.Output)
			c.Output, c.Data, c.Error, c.Artifact, c.Images, c.About = r.Output, r.Data, r.Error, r.Artifact, r.Images, r.About
		}
	}
	if p.Event == "PermissionRequest" && len(p.Input) > 0 {
		c.Hook = nil // PreToolUse hooks have not seen this input
	}
	if p.Context != "" {
		c.HookSays = append(slices.Clip(c.HookSays), p.Context)
	}
	if len(p.Input) > 0 && c.Status == ToolIsRequested {
		// The human allowed the previous input, not this one.
		c.Input, c.Redacted, c.Answer, c.Asked, c.Granted, c.EditCut = p.Input, false, nil, "", false, false
	}
}

// WithHooks returns a text for a model, followed by what hooks say about it.
func WithHooks(text string, says []string) string {
	for _, said := range says {
		text += "\n" + HookSays(said)
	}
	return text
}

// HookSays returns a hook's text in the form in which a model reads it.
func HookSays(text string) string { return "[a hook says: " + text + "]" }
