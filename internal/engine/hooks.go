package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
)

// Hooks are asked without the session's lock. What they decide is committed as hook.ran
// events, and the fold says from then on what they decided: nobody asks them again. The
// server may stop between the two. Then they are asked once more.

// about is a question to hooks.
type about struct {
	in    hook.Input
	agent parley.AgentPath
	call  parley.CallID // empty: it is about no call
	now   string        // what it depends on; while they are asked this may become something else
}

// asker says what is due for hooks now; false: nothing is. It is called with the lock held.
type asker func(s *session) (about, bool)

// matching are the hooks of the turn's scope for an event about a subject, such as a tool.
// Some of them may be off.
func (h *host) matching(event, subject string) []*hook.Hook {
	if event == "" {
		return nil
	}
	return hook.Matching(h.r.tools.Hooks(), event, subject)
}

// hasHooks reports whether hooks are to hear of an event about a subject, in the scope of the
// command that has the lock, or of the turn that runs.
func (s *session) hasHooks(event, subject string) bool {
	in := s.tools
	if in == nil && s.run != nil {
		in = s.run.tools
	}
	return in != nil && event != "" && len(hook.Matching(in.Hooks(), event, subject)) > 0
}

// endEvent is the event of hooks for a call that has ended so.
func endEvent(o parley.Outcome) string {
	switch o {
	case parley.OutcomeOK:
		return hook.PostToolUse
	case parley.OutcomeError:
		return hook.PostToolUseFailure
	}
	return ""
}

// guard asks the hooks before a call that is about to be judged, unless they have decided
// about its input.
func (h *host) guard(ctx context.Context, call parley.CallID) error {
	_, err := h.consult(ctx, h.aboutCall(call, func(c *parley.Tool) string {
		if c.Status != parley.ToolIsRequested || c.Hook != nil {
			return ""
		}
		return hook.PreToolUse
	}), false)
	return err
}

// represent asks the hooks that may decide in place of a human.
func (h *host) represent(ctx context.Context, call parley.CallID) error {
	_, err := h.consult(ctx, h.aboutCall(call, func(c *parley.Tool) string {
		if c.Status != parley.ToolIsRequested || c.HookAsked != nil {
			return ""
		}
		return hook.PermissionRequest
	}), false)
	return err
}

// Hear implements [seam.Host].
func (h *host) Hear(ctx context.Context, call parley.CallID) error {
	_, err := h.consult(ctx, h.aboutCall(call, func(c *parley.Tool) string {
		if !c.HookDue {
			return ""
		}
		return endEvent(c.Outcome)
	}), true)
	return err
}

// aboutCall asks about a call. due is the event that hooks are to hear of; empty: none.
func (h *host) aboutCall(call parley.CallID, due func(c *parley.Tool) string) asker {
	any := false // of them there are, or were when they were asked
	return func(s *session) (a about, ok bool) {
		c := s.view.Turn.Tool(call)
		if c == nil || due(c) == "" {
			return a, false
		}
		a.in.Event, a.in.Subject, a.agent, a.call = due(c), c.Name, c.Agent, call
		if any = any || len(h.matching(a.in.Event, c.Name)) > 0; !any {
			return a, true
		}
		decl, missing := h.declared(s.view.Turn, c)
		input := s.inputOf(c, decl.WorkspaceOwn)
		if c.Status == parley.ToolIsEnded {
			input = c.Input
		} else if missing != "" || input == nil {
			return a, false // it is refused anyway
		}
		a.in.Input, a.in.Fields = input, h.told(s, c)
		if c.Status == parley.ToolIsRequested {
			a.now = string(input)
		}
		return a, true
	}
}

// consult asks the hooks about what is due, and commits what they decide with the events that
// more makes of it. It reports whether the log has grown. If none of the hooks is on, nothing is
// committed, except where something waits for them.
func (h *host) consult(ctx context.Context, due asker, waits bool, more ...func([]parley.HookRan) []parley.Event) (moved bool, err error) {
	var a about
	var matching []*hook.Hook
	err = h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			is, ok := due(s)
			if a = (about{}); ok {
				a, matching = is, h.matching(is.in.Event, is.in.Subject)
			}
			return nil
		})
	})
	if err != nil || a.in.Event == "" || len(matching) == 0 && !waits {
		return false, err
	}
	var results []hook.Result
	if on := hook.On(ctx, matching); len(on) > 0 {
		// What is staged is not held back meanwhile: they may take long.
		if err = h.lasting(ctx, func() error {
			return h.step(ctx, func(s *session) error { return h.commit(ctx, s) })
		}); err != nil {
			return false, err
		}
		if results, err = hook.Run(ctx, on, a.in); err != nil {
			return false, err
		}
	}
	var halt *parley.TurnStopRequested
	var ran []parley.HookRan
	for _, r := range results {
		ran = append(ran, h.ran(a, r))
		if r.Halt && halt == nil {
			halt = &parley.TurnStopRequested{Reason: ran[len(ran)-1].Reason, By: "the hook " + r.Hook.Name}
		}
	}
	if len(ran) == 0 && waits {
		// What waits for hooks does not wait for those that are gone or off.
		ran = append(ran, parley.HookRan{Event: a.in.Event, Name: "none", From: "engine", Call: a.call})
	}
	if len(ran) == 0 {
		return false, nil
	}
	err = h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			is, ok := due(s)
			if moved = ok && is.in.Event == a.in.Event && is.now == a.now; !moved {
				return nil // it is not what they were asked about any more
			}
			kept := within(maxHooked-s.view.Turn.HookBytes, ran)
			events := make([]parley.Event, 0, len(kept)+1)
			for _, p := range kept {
				events = append(events, parley.NewEvent(h.r.turn, a.agent, p))
			}
			for _, f := range more {
				events = append(events, f(kept)...)
			}
			if halt != nil && s.view.Turn.Stop == nil {
				events = append(events, parley.NewEvent(h.r.turn, "", *halt))
			}
			return h.commit(ctx, s, events...)
		})
	})
	if err == nil && moved && halt != nil {
		h.r.cancel(&stopped{by: halt.By, reason: halt.Reason})
		return true, context.Cause(h.r.ctx)
	}
	return moved && err == nil, err
}

const (
	// maxHooked limits what the hooks of a turn may say in its log, in bytes. Beyond it only
	// what they decide is kept, in one short event each time.
	maxHooked = 1 << 20
	// maxBrief limits the texts of such an event, in characters.
	maxBrief = 200
)

// within is what the log keeps of hooks that ran at once while there is room for so many
// bytes. Beyond that, it is one event, with the strictest of the decisions: a changed input is
// denied instead, and a replaced result says that it was.
func within(room int, ran []parley.HookRan) []parley.HookRan {
	for _, p := range ran {
		raw, err := json.Marshal(p)
		if room -= len(raw); err != nil || room < 0 {
			return []parley.HookRan{brief(ran)}
		}
	}
	return ran
}

func brief(ran []parley.HookRan) parley.HookRan {
	rank := func(p parley.HookRan) int {
		switch {
		case p.Decision == parley.Deny:
			return 4
		case len(p.Input) > 0 || p.Output != nil:
			return 3
		case p.Decision == parley.Ask:
			return 2
		case p.Decision == parley.Allow:
			return 1
		}
		return 0
	}
	out := slices.MaxFunc(ran, func(a, b parley.HookRan) int { return rank(a) - rank(b) })
	const full = "the hooks of this turn have said more than its log takes"
	if len(out.Input) > 0 && out.Event == hook.PreToolUse {
		out.Decision, out.Reason = parley.Deny, "the hook "+out.Name+" changed the input, but "+full
	} else if len(out.Input) > 0 {
		out.Decision, out.Reason = "", full
	}
	if out.Output != nil {
		text := "(The hook " + out.Name + " replaced this result, but " + full + ".)"
		out.Output = &text
	}
	if out.Context != "" || out.Message != "" || len(out.Input) > 0 {
		out.Error = &parley.ErrorInfo{Code: parley.CodeTooLarge, Message: full}
	}
	out.Input, out.Context, out.Message, out.Reason = nil, "", "", parley.Cut(out.Reason, maxBrief)
	if out.Error != nil {
		out.Error = &parley.ErrorInfo{Code: out.Error.Code, Message: parley.Cut(out.Error.Message, maxBrief)}
	}
	return out
}

// told is what hooks are told of a call, in the names that hooks of others know.
func (h *host) told(s *session, c *parley.Tool) map[string]any {
	f := toldOf(&s.view, h.r.turn, c.Agent)
	f["tool_name"], f["tool_use_id"] = c.Name, c.Call
	if c.Status != parley.ToolIsEnded {
		return f
	}
	f["duration_ms"] = max(0, s.e.now().Sub(c.StartedAt).Milliseconds())
	if c.Outcome == parley.OutcomeError {
		f["error"] = c.Output
		if c.Error != nil && c.Error.Message != "" {
			f["error"] = c.Error.Message
		}
		f["is_interrupt"] = false
		return f
	}
	f["tool_response"] = c.Output
	if len(c.Data) > 0 {
		f["tool_response"] = c.Data
	}
	return f
}

// toldOf is what hooks are told of whatever happens in a session. Turn and agent may be empty.
func toldOf(v *parley.Session, turn parley.TurnID, agent parley.AgentPath) map[string]any {
	f := map[string]any{"session_id": v.ID, "permission_mode": string(cmp.Or(v.Mode, parley.ModeDefault)), "app": v.App, "user": v.User}
	if turn != "" {
		f["prompt_id"] = turn
	}
	if v.Workspace != "" {
		f["workspace"] = v.Workspace
	}
	if t := v.Turn; t != nil && t.ID == turn {
		if a := t.Agent(agent); a != nil && a.IsSub() {
			f["agent_id"], f["agent_type"] = a.Path, a.Name
		}
	}
	return f
}

// ran is the event of what came of a hook. An input that the log would not keep as it is, or
// that the tool does not take, is no decision.
func (h *host) ran(a about, r hook.Result) parley.HookRan {
	in, out := a.in, ranOf(a.in, r)
	if out.Call = a.call; len(r.Input) == 0 {
		return out
	}
	wrong := ""
	if _, found := h.s.e.o.Log.RedactTextOf(h.s.id, string(r.Input)); found {
		wrong = "it put something that looks like a secret into the input"
	} else if bad := h.r.box.Check(in.Subject, r.Input); bad != nil && runtimeTool(h.r.app, in.Subject) == nil {
		wrong = "it changed the input to one that does not fit: " + bad.Message
	}
	if wrong != "" {
		out.Input, out.Error = nil, &parley.ErrorInfo{Code: parley.CodeTool, Message: wrong}
		out.Decision, out.Reason = "", ""
		if in.Event == hook.PreToolUse {
			out.Decision, out.Reason = parley.Deny, fmt.Sprintf("the hook %s of the %s could not be asked: %s", r.Hook.Name, r.Hook.Level, wrong)
		}
	}
	return out
}

// ranOf is the event of what came of a hook that is asked about no call.
func ranOf(in hook.Input, r hook.Result) parley.HookRan {
	out := parley.HookRan{
		Event: in.Event, Name: r.Hook.Name, From: r.Hook.Level, Decision: r.Decision, Reason: r.Reason,
		Input: r.Input, Output: r.Output, Context: r.Context, Message: r.Message, TookMS: r.Took.Round(time.Millisecond).Milliseconds(),
	}
	if _, isTool := in.Fields["tool_name"]; !isTool {
		out.Subject, out.Input, out.Output = in.Subject, nil, nil
	}
	if r.Err != nil {
		info := parley.Info(r.Err)
		out.Error = &info
	}
	return out
}

// hooked is the verdict of the policy with that of the hooks before the call. A hook can deny
// what the policy allows, and wants a human to be asked; what it allows need not be asked for.
// It lifts neither a denial nor what a human has to confirm each time.
func hooked(verdict parley.Verdict, reason string, h *parley.Hooked) (parley.Verdict, string) {
	switch {
	case verdict == parley.Deny:
	case h.Verdict == parley.Deny:
		return parley.Deny, h.Reason // which names the hook, or is its own word
	case h.Verdict == parley.Ask && verdict == parley.Allow:
		return parley.Ask, h.Reason
	case h.Verdict == parley.Allow && verdict == parley.Ask:
		return parley.Allow, ""
	}
	return verdict, reason
}
