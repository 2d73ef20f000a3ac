package engine

import (
	"context"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// maxGoOn is how often hooks may have an agent go on in a turn instead of ending, as elsewhere.
// Then they are not asked any more.
const maxGoOn = 8

// conduct runs the runtime of a turn, and has it go on for as long as hooks say so. The hooks of
// the session's start and of the message come first.
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

// opens reports whether hooks are to hear of the open turn before its runtime goes on.
func (s *session) opens(in *scope.Resolved) bool {
	source := startSource(&s.view)
	return s.view.Turn.PromptDue || s.view.Turn.Prompt.Denied() || source != "" && len(hook.Matching(in.Hooks(), hook.SessionStart, source)) > 0
}

// startSource is what hooks are told of a session's start: it begins its first turn, or goes on
// with one that was interrupted. It is empty if they need not hear of it.
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

// open asks the hooks of the session's start, and those of the turn's message. blocked says that
// the message reaches no model.
func (h *host) open(ctx context.Context) (blocked *parley.Error, err error) {
	source := ""
	_, err = h.consult(ctx, func(s *session) (a about, ok bool) {
		v := &s.view
		if source = startSource(v); source == "" {
			return a, false
		}
		a.in = hook.Input{Event: hook.SessionStart, Subject: source, Fields: toldOf(v, h.r.turn, "")}
		a.in.Fields["source"], a.in.Fields["agent_type"] = source, h.r.app.Entry
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
		a.in = aboutPrompt(&s.view, t.ID, t.Request.Message)
		return a, t.PromptDue
	}, true)
	if p := h.State().Turn; err == nil && p != nil && p.Prompt.Denied() {
		blocked = errBlocked(p.Prompt.Name, p.Prompt.Reason)
	}
	return blocked, err
}

// aboutPrompt is what hooks are told of a message: the words of its sender, and what a slash
// command makes of them.
func aboutPrompt(v *parley.Session, turn parley.TurnID, m parley.Message) hook.Input {
	in := hook.Input{Event: hook.UserPromptSubmit, Fields: toldOf(v, turn, "")}
	in.Fields["prompt"] = m.Text()
	for _, p := range m.Parts {
		if p.Type == parley.PartCommand {
			in.Fields["command"] = map[string]any{"name": p.Name, "text": p.Text}
		}
	}
	return in
}

// errBlocked tells the sender of a message why no model reads it.
func errBlocked(name, reason string) *parley.Error {
	return parley.Errorf(parley.CodeForbidden, "%s", sentence("The hook "+name+" blocked this message", reason)).
		WithHint("no model has seen it; send another one")
}

// goesOn asks the hooks about the end of a turn that would complete. It reports whether its
// runtime has more to do: a hook says so, or somebody has sent a message meanwhile.
func (h *host) goesOn(ctx context.Context, said string) (bool, error) {
	asked := false
	_, err := h.consult(ctx, func(s *session) (a about, ok bool) {
		t := s.view.Turn
		in := t.Agent(t.Active)
		if in == nil || !mayGoOn(t, in, &asked) {
			return a, false
		}
		a.agent, a.in = in.Path, aboutEnd(&s.view, hook.Stop, in, said)
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

// mayGoOn reports whether hooks are to hear of the end of an agent: nothing has come for it that it
// has not read, unless that was while they were asked.
func mayGoOn(t *parley.Turn, a *parley.Agent, asked *bool) bool {
	ok := a.AtEnd == nil && a.GoneOn < maxGoOn && (*asked || len(t.Pending(a)) == 0)
	*asked = *asked || ok
	return ok
}

// aboutEnd is what hooks are told of an agent that would end.
func aboutEnd(v *parley.Session, event string, a *parley.Agent, said string) hook.Input {
	in := hook.Input{Event: event, Fields: toldOf(v, v.Turn.ID, a.Path)}
	in.Fields["stop_hook_active"], in.Fields["last_assistant_message"] = a.GoneOn > 0, said
	in.Fields["background_tasks"], in.Fields["session_crons"] = []string{}, []string{} // a turn with such work does not end
	return in
}

// momentEvents are the events of hooks for what a runtime tells.
var momentEvents = map[seam.MomentKind]string{
	seam.AgentStarts: hook.SubagentStart, seam.AgentEnds: hook.SubagentStop, seam.ContextParts: hook.PreCompact,
}

// Heeded implements [seam.Host].
func (h *host) Heeded(m seam.Moment) bool {
	return len(h.matching(momentEvents[m.Kind], momentSubject(m))) > 0
}

func momentSubject(m seam.Moment) string {
	if m.Kind == seam.ContextParts {
		return "auto" // nobody asks for it
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
			a.in, ok = hook.Input{Event: event, Fields: toldOf(&s.view, t.ID, m.Agent)}, !of.Heard
		case seam.AgentEnds:
			a.in, ok = aboutEnd(&s.view, event, of, m.Text), mayGoOn(t, of, &asked)
		case seam.ContextParts:
			a.in, ok = hook.Input{Event: event, Fields: toldOf(&s.view, t.ID, m.Agent)}, t.Compact == nil
			a.in.Fields["trigger"], a.in.Fields["custom_instructions"] = "auto", ""
		}
		a.in.Subject = momentSubject(m)
		return a, ok
	}, false)
	if t := h.State().Turn; err == nil && !moved && m.Kind == seam.AgentEnds && t != nil {
		of := t.Agent(m.Agent)
		moved = of != nil && len(t.Pending(of)) > 0 // somebody has sent it a message meanwhile
	}
	return moved, err
}
