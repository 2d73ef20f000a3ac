package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
)

// Hooks implements hook.Source. For each event it has one hook, which makes the combined
// decision of the recorded hooks.
func (s *stage) Hooks() []hook.Hook {
	t := s.now()
	if t == nil {
		return nil
	}
	var list []hook.Hook
	for _, event := range hook.Events {
		if i := slices.IndexFunc(t.heard, func(h *hearing) bool { return h.event == event }); i >= 0 {
			list = append(list, hook.Hook{
				Entry: hook.Entry{Event: event, Name: t.heard[i].names[0], Timeout: hook.MaxTimeout}, Level: "recorded",
				Do: func(_ context.Context, message []byte) (hook.Said, error) { return s.saidOf(event, message) },
			})
		}
		for _, ran := range t.hooks {
			if ran.Event == event {
				list = append(list, hook.Hook{
					Entry: hook.Entry{Event: event, Name: ran.Name, Timeout: hook.MaxTimeout}, Level: ran.From,
					Do: func(ctx context.Context, message []byte) (hook.Said, error) { return s.said(ctx, event, message) },
				})
				break
			}
		}
		if event == hook.PreToolUse && (len(t.began) > 1 || slices.ContainsFunc(t.tools, func(c *toolCall) bool { return c.cut && c.input == nil })) {
			// A call that never started is held here until the turn is cancelled, and one that
			// starts a sub-agent until it is next.
			list = append(list, hook.Hook{
				Entry: hook.Entry{Event: event, Name: "(held)", Timeout: hook.MaxTimeout}, Level: "recorded",
				Do: func(ctx context.Context, message []byte) (hook.Said, error) { return s.said(ctx, event, message) },
			})
		}
	}
	return list
}

// hearing is the combined answer of the recorded hooks to one question that was not about a call.
type hearing struct {
	event  string
	agent  parley.AgentPath // the sub-agent, or empty
	steers bool
	names  []string
	block  string // the reason for blocking
	blocks bool
	told   []string
	used   bool
}

// hear adds a recorded hook's answer. A message that was blocked before a turn accepted it is
// not in the recording. Hooks decide nothing about what a human is asked.
func (t *turn) hear(agent parley.AgentPath, p parley.HookRan) {
	if p.Event == hook.Notification || p.Steers && p.Decision == parley.Deny {
		return
	}
	if p.Event != hook.SubagentStart && p.Event != hook.SubagentStop {
		agent = ""
	}
	var h *hearing
	if n := len(t.heard); n > 0 {
		h = t.heard[n-1]
	}
	if h == nil || h.event != p.Event || h.agent != agent || h.steers != p.Steers || slices.Contains(h.names, p.Name) {
		h = &hearing{event: p.Event, agent: agent, steers: p.Steers}
		t.heard = append(t.heard, h)
	}
	h.names = append(h.names, p.Name)
	if p.Decision == parley.Deny {
		h.blocks = true
		h.block = strings.TrimSpace(h.block + "\n" + p.Reason)
	}
	if p.Context != "" {
		h.told = append(h.told, p.Context)
	}
}

// saidOf returns the next recorded answer of the hooks to a question of this kind.
func (s *stage) saidOf(event string, message []byte) (said hook.Said, err error) {
	var m struct {
		Agent parley.AgentPath `json:"agent_id"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return said, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.turn.heard {
		if h.used || h.event != event || h.agent != m.Agent && h.agent != "" {
			continue
		}
		h.used = true
		out := map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": event, "additionalContext": strings.Join(h.told, "\n")}}
		if h.blocks {
			out["decision"], out["reason"] = "block", h.block
		}
		raw, err := json.Marshal(out)
		said.Out = []byte(s.ids.text(string(raw)))
		return said, err
	}
	return said, nil
}

// said returns the combined recorded answer of the hooks about the call in a message.
func (s *stage) said(ctx context.Context, event string, message []byte) (said hook.Said, err error) {
	var m struct {
		Name  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
		Call  parley.CallID   `json:"tool_use_id"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return said, err
	}
	if event == hook.PreToolUse {
		if c := s.held(m.Name, m.Input, m.Call); c != nil {
			s.stop(ctx, c)
			<-ctx.Done()
			return said, ctx.Err()
		}
		s.behind(ctx, m.Name, m.Input, m.Call)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var of parley.CallID
	for _, c := range s.turn.tools {
		same := s.ids.same(c.asked, m.Input) || s.ids.same(c.input, m.Input)
		if c.name == m.Name && same && (c.again == "" || c.again == m.Call) {
			c.again, of = m.Call, c.call
			break
		}
	}
	var all parley.HookRan
	rank := map[parley.Verdict]int{parley.Allow: 1, parley.Ask: 2, parley.Deny: 3}
	failed := ""
	var told []string
	for _, ran := range s.turn.hooks {
		if of == "" || ran.Call != of || ran.Event != event {
			continue
		}
		if rank[ran.Decision] > rank[all.Decision] {
			all.Decision, all.Reason = ran.Decision, ran.Reason
		}
		if len(ran.Input) > 0 {
			all.Input = ran.Input
		}
		if ran.Output != nil {
			all.Output = ran.Output
		}
		if ran.Context != "" {
			told = append(told, ran.Context)
		}
		if ran.Error != nil {
			failed = ran.Error.Message
		}
	}
	specific := map[string]any{"hookEventName": event, "additionalContext": strings.Join(told, "\n")}
	switch event {
	case hook.PreToolUse:
		specific["permissionDecision"], specific["permissionDecisionReason"], specific["updatedInput"] = all.Decision, cmp.Or(all.Reason, failed), all.Input
	case hook.PermissionRequest:
		if all.Decision != "" {
			specific["decision"] = map[string]any{"behavior": all.Decision, "message": all.Reason, "updatedInput": all.Input}
		}
	default:
		specific["updatedToolOutput"] = all.Output
	}
	out, err := json.Marshal(map[string]any{"hookSpecificOutput": specific})
	said.Out = []byte(s.ids.text(string(out)))
	return said, err
}

// held finds the recorded call that now repeats, if the turn was cancelled before it started.
func (s *stage) held(name string, input json.RawMessage, now parley.CallID) *toolCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.turn.tools {
		if c.name == name && s.ids.same(c.asked, input) && (c.again == "" || c.again == now) {
			if !c.cut || c.input != nil {
				return nil
			}
			c.again, c.here = now, true
			return c
		}
	}
	return nil
}

// stop cancels the turn in which a call was cut off, as soon as the turn's other calls are as far
// as they were.
func (s *stage) stop(ctx context.Context, c *toolCall) {
	wait(ctx, s.abreast)
	for _, cmd := range c.during {
		s.do(cmd)
	}
}

// abreast reports whether all calls of the turn are as far as in the recording.
func (s *stage) abreast() bool {
	s.mu.Lock()
	var over []parley.CallID
	for _, c := range s.turn.tools {
		switch {
		case c.input == nil || c.ended == nil:
		case c.cut && !c.here:
			s.mu.Unlock()
			return false
		case !c.cut:
			over = append(over, c.call)
		}
	}
	s.mu.Unlock()
	return s.over(over)
}
