package engine

import (
	"context"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// maxGoOn is how often hooks may make an agent continue in one turn instead of ending; other
// agents use the same limit. After that they are not asked any more.
const maxGoOn = 8

// conduct runs the runtime of a turn, again and again while hooks make the turn continue. The
// hooks for the session's start and for the message run first.
func (s *session) conduct(r *run) (seam.Ending, error) {
	h := &host{s: s, r: r}
	if r.opens {
		if blocked, err := h.open(r.ctx); err != nil || blocked != nil {
			return seam.Ending{Failed: blocked}, err
		}
	}
	for {
		ending, err := s.e.o.Runtimes[r.app.Runtime].Run(r.ctx, h)
		if err != nil || ending.Failed != nil || len(h.matching(hook.Stop, "")) == 0 {
			return ending, err
		}
		if again, err := h.goesOn(r.ctx, ending.Response.Message); err != nil || !again {
			return ending, err
		}
	}
}

// opens reports whether hooks must run for the open turn before its runtime does.
func (s *session) opens(in *scope.Resolved) bool {
	source := startSource(s.view)
	return s.view.Turn.PromptDue || s.view.Turn.Prompt.Denied() || source != "" && len(hook.Matching(in.Hooks(), hook.SessionStart, source)) > 0
}

// startSource returns the source that SessionStart hooks receive: the session begins its first
// turn, or resumes one that was interrupted. It returns "" if those hooks need not run.
func startSource(v *parley.Session) string {
	switch t := v.Turn; {
	case t.Request.Origin == parley.OriginCall:
	case t.Resumed:
		return "resume"
	case !v.Opened && len(t.Agents) == 0:
		return "startup"
	}
	return ""
}

// open asks the hooks for the session's start, then those for the turn's message. blocked is
// not nil if the message must not reach a model.
func (h *host) open(ctx context.Context) (blocked *parley.Error, err error) {
	source := ""
	_, err = h.consult(ctx, func(s *session) (a about, ok bool) {
		v := s.view
		if source = startSource(v); source == "" {
			return a, false
		}
		a.in = hook.Input{Event: hook.SessionStart, Subject: source, Fields: toldOf(v, h.r.turn, "")}
		a.in.Fields["source"], a.in.Fields["agent_type"] = source, v.Turn.Request.Entry(h.r.app)
		a.in.Fields["model"], a.in.Fields["session_title"] = v.InForce.Of(*v).Model, v.Title
		a.now = source
		return a, true
	}, false, func(ran []parley.HookRan) []parley.Event {
		if source != "startup" {
			return nil
		}
		told := []string{}
		for _, p := range ran {
			if p.Context != "" {
				told = append(told, p.Context)
			}
		}
		return []parley.Event{parley.NewEvent("", "", parley.MemoryUpdated{Told: &told, By: "hooks"})}
	})
	if err != nil {
		return nil, err
	}
	_, err = h.consult(ctx, func(s *session) (a about, ok bool) {
		t := s.view.Turn
		a.in = aboutPrompt(s.view, t.ID, t.Request.Message)
		return a, t.PromptDue
	}, true)
	if p := h.State().Turn; err == nil && p != nil && p.Prompt.Denied() {
		blocked = errBlocked(p.Prompt.Name, p.Prompt.Reason)
	}
	return blocked, err
}

// aboutPrompt returns the hooks' input about a message: its sender's words, the prompt that
// a slash command stands for, and the texts of its resources.
func aboutPrompt(v *parley.Session, turn parley.TurnID, m parley.Message) hook.Input {
	in := hook.Input{Event: hook.UserPromptSubmit, Fields: toldOf(v, turn, "")}
	in.Fields["prompt"] = m.Text()
	var resources []any
	for _, p := range m.Parts {
		if p.Type == parley.PartCommand {
			in.Fields["command"] = map[string]any{"name": p.Name, "text": p.Text}
		}
		if p.Server != "" {
			resources = append(resources, map[string]any{"server": p.Server, "uri": p.URI, "text": p.Text})
		}
	}
	if resources != nil {
		in.Fields["resources"] = resources
	}
	return in
}

// errBlocked is the error for the sender of a blocked message.
func errBlocked(name, reason string) *parley.Error {
	return parley.Errorf(parley.CodeForbidden, "%s", sentence("The hook "+name+" blocked this message", reason)).
		WithHint("no model has seen it; send another one")
}

// goesOn asks the Stop hooks about a turn that would complete. It reports whether its runtime
// must continue, because a hook says so or because a message has arrived meanwhile.
func (h *host) goesOn(ctx context.Context, said string) (bool, error) {
	asked := false
	_, err := h.consult(ctx, func(s *session) (a about, ok bool) {
		t := s.view.Turn
		in := t.Agent(t.Active)
		if in == nil || !mayGoOn(t, in, &asked) {
			return a, false
		}
		a.agent, a.in = in.Path, aboutEnd(s.view, hook.Stop, in, said)
		return a, true
	}, false)
	if err != nil {
		return false, err
	}
	t := h.State().Turn
	if t == nil || t.ID != h.r.turn {
		return false, nil
	}
	in := t.Agent(t.Active)
	return in != nil && len(t.Pending(in)) > 0, nil
}

// mayGoOn reports whether hooks must be asked about the end of an agent. They are not asked if
// the agent still has something to read, unless that arrived while they were asked.
func mayGoOn(t *parley.Turn, a *parley.Agent, asked *bool) bool {
	ok := a.AtEnd == nil && a.GoneOn < maxGoOn && (*asked || len(t.Pending(a)) == 0)
	*asked = *asked || ok
	return ok
}

// aboutEnd returns the hooks' input about an agent that would end.
func aboutEnd(v *parley.Session, event string, a *parley.Agent, said string) hook.Input {
	in := hook.Input{Event: event, Fields: toldOf(v, v.Turn.ID, a.Path)}
	in.Fields["stop_hook_active"], in.Fields["last_assistant_message"] = a.GoneOn > 0, said
	in.Fields["background_tasks"], in.Fields["session_crons"] = []string{}, []string{} // always empty: a turn with such work does not end
	return in
}

// momentEvents maps the moments that a runtime reports to hook events.
var momentEvents = map[seam.MomentKind]string{
	seam.AgentStarts: hook.SubagentStart, seam.AgentEnds: hook.SubagentStop, seam.ContextParts: hook.PreCompact,
}

// Heeded implements [seam.Host].
func (h *host) Heeded(m seam.Moment) bool {
	return len(h.matching(momentEvents[m.Kind], momentSubject(m))) > 0
}

func momentSubject(m seam.Moment) string {
	if m.Kind == seam.ContextParts {
		return "auto" // no user can ask for it
	}
	return m.Name
}

// Heed implements [seam.Host].
func (h *host) Heed(ctx context.Context, m seam.Moment) (bool, error) {
	if !h.Heeded(m) {
		return false, nil
	}
	asked := false
	moved, err := h.consult(ctx, func(s *session) (a about, ok bool) {
		t := s.view.Turn
		of := t.Agent(m.Agent)
		if of == nil || of.Ended {
			return a, false
		}
		a.agent = m.Agent
		switch event := momentEvents[m.Kind]; m.Kind {
		case seam.AgentStarts:
			a.in, ok = hook.Input{Event: event, Fields: toldOf(s.view, t.ID, m.Agent)}, !of.Heard
		case seam.AgentEnds:
			a.in, ok = aboutEnd(s.view, event, of, m.Text), mayGoOn(t, of, &asked)
		case seam.ContextParts:
			a.in, ok = hook.Input{Event: event, Fields: toldOf(s.view, t.ID, m.Agent)}, t.Compact == nil
			a.in.Fields["trigger"], a.in.Fields["custom_instructions"] = "auto", ""
		}
		a.in.Subject = momentSubject(m)
		return a, ok
	}, false)
	if t := h.State().Turn; err == nil && !moved && m.Kind == seam.AgentEnds && t != nil {
		of := t.Agent(m.Agent)
		moved = of != nil && len(t.Pending(of)) > 0 // a message has arrived for it meanwhile
	}
	return moved, err
}
