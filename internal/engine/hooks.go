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

// Hooks run without the session's lock. Their decisions are committed as hook.ran events. From
// then on the fold holds the decisions, and the hooks are not asked again. If the server stops
// between the run and the commit, they are asked once more after the restart.

// about is a question for hooks.
type about struct {
	in    hook.Input
	agent parley.AgentPath
	call  parley.CallID // empty: the question is not about a call
	now   string        // the state that the question depends on; it may change while the hooks run
}

// asker returns the question that hooks must be asked now; false: there is none. It is called
// with the lock held.
type asker func(s *session) (about, bool)

// matching returns the hooks in the turn's scope for an event about a subject, such as a tool.
// Some of them may be off.
func (h *host) matching(event, subject string) []*hook.Hook {
	if event == "" {
		return nil
	}
	return hook.Matching(h.r.tools.Hooks(), event, subject)
}

// hasHooks reports whether there are hooks for an event about a subject. It looks in the scope
// of the command that holds the lock, or else of the running turn.
func (s *session) hasHooks(event, subject string) bool {
	in := s.tools
	if in == nil && s.run != nil {
		in = s.run.tools
	}
	return in != nil && event != "" && len(hook.Matching(in.Hooks(), event, subject)) > 0
}

// endEvent returns the hook event for a call that ended with outcome o.
func endEvent(o parley.Outcome) string {
	switch o {
	case parley.OutcomeOK:
		return hook.PostToolUse
	case parley.OutcomeError:
		return hook.PostToolUseFailure
	}
	return ""
}

// guard asks the PreToolUse hooks about a call before the policy judges it, unless they have
// already decided about its input.
func (h *host) guard(ctx context.Context, call parley.CallID) error {
	_, err := h.consult(ctx, h.aboutCall(call, func(c *parley.Tool) string {
		if c.Status != parley.ToolIsRequested || c.Hook != nil {
			return ""
		}
		return hook.PreToolUse
	}), false)
	return err
}

// represent asks the PermissionRequest hooks, which may decide in place of a human.
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

// aboutCall returns the asker for a call. due returns the hook event to ask about; empty: none.
func (h *host) aboutCall(call parley.CallID, due func(c *parley.Tool) string) asker {
	any := false // there are matching hooks, or were when they were asked
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
			return a, false // the call is refused anyway
		}
		a.in.Input, a.in.Fields = input, h.told(s, c)
		if c.Status == parley.ToolIsRequested {
			a.now = string(input)
		}
		return a, true
	}
}

// consult asks the hooks the question that due returns. It commits their decisions together
// with the events that more derives from them, and reports whether the log has grown. If all of
// the hooks are off it commits nothing, unless waits says that something waits for a hook.ran
// event.
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
		// Commit what is staged first: the hooks may take long.
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
		// All hooks are gone or off. This event releases what waits for them.
		ran = append(ran, parley.HookRan{Event: a.in.Event, Name: "none", From: "engine", Call: a.call})
	}
	if len(ran) == 0 {
		return false, nil
	}
	err = h.lasting(ctx, func() error {
		return h.with(ctx, func(s *session) error {
			is, ok := due(s)
			if moved = ok && is.in.Event == a.in.Event && is.now == a.now; !moved {
				return nil // the question has changed since they were asked
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
	// maxHooked limits the bytes that hooks may add to the log of a turn. Beyond it only their
	// decision is kept, in one short event for each question.
	maxHooked = 1 << 20
	// maxBrief limits the texts of such an event, in characters.
	maxBrief = 200
)

// within returns the events to keep of hooks that ran together, given the bytes that are left
// for them. If they do not fit, it returns one event with the strictest decision. In that event
// a changed input becomes a denial, and a replaced result becomes a sentence that says so.
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
	const full = "the hooks of this turn have written more than its log may hold"
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

// told returns the fields that hooks receive about a call. The names are those that hooks
// written for other agents expect.
func (h *host) told(s *session, c *parley.Tool) map[string]any {
	f := toldOf(s.view, h.r.turn, c.Agent)
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

// toldOf returns the fields that hooks receive for every event in a session. Turn and agent may
// be empty.
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

// ran returns the event for a hook's result about a call. A changed input is rejected as an
// error of the hook if the log would have to redact it or if it does not fit the tool's schema.
func (h *host) ran(a about, r hook.Result) parley.HookRan {
	in, out := a.in, ranOf(a.in, r)
	if out.Call = a.call; len(r.Input) == 0 {
		return out
	}
	wrong := ""
	if _, found := h.s.e.o.Log.RedactTextOf(h.s.id, string(r.Input)); found {
		wrong = "it put a value that looks like a secret into the input"
	} else if bad := h.r.box.Check(in.Subject, r.Input); bad != nil && runtimeTool(h.r.app, in.Subject) == nil {
		wrong = "it changed the input to one that does not fit the tool: " + bad.Message
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

// ranOf returns the event for a hook's result that is not about a call.
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

// hooked combines the policy's verdict with that of the PreToolUse hooks. A hook can deny a
// call that the policy allows, or have a human asked about it. It can allow a call that the
// policy would ask about. It cannot lift a denial or a confirmation that is needed each time.
func hooked(verdict parley.Verdict, reason string, h *parley.Hooked) (parley.Verdict, string) {
	switch {
	case verdict == parley.Deny:
	case h.Verdict == parley.Deny:
		return parley.Deny, h.Reason // the reason names the hook, or is the hook's own
	case h.Verdict == parley.Ask && verdict == parley.Allow:
		return parley.Ask, h.Reason
	case h.Verdict == parley.Allow && verdict == parley.Ask:
		return parley.Allow, ""
	}
	return verdict, reason
}
