package claudecli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// moments are the hook events of the CLI, besides those of the gate, about which the app's hooks are asked.
var moments = []string{"SubagentStart", "SubagentStop", "PreCompact"}

// heed asks the hooks of the turn that the process works for.
func (p *process) heed(ctx context.Context, c control) (any, error) {
	t, err := p.await(ctx, nil)
	if err != nil {
		return nil, err
	}
	v, err := t.heed(ctx, c)
	if err != nil {
		t.withhold(ctx)
	}
	return v, err
}

// heed asks the hooks about what an agent of the CLI is about to do. What they have decided before, in an
// earlier attempt at the turn, they are not asked again.
func (t *turn) heed(ctx context.Context, c control) (any, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	none := map[string]any{}
	if c.Input.Event == "PreCompact" {
		if _, err := t.h.Heed(ctx, seam.Moment{Kind: seam.ContextParts, Agent: t.entry}); err != nil {
			return nil, err
		}
		if now := t.h.State().Turn; now != nil && now.Compact.Denied() {
			return blocked(now.Compact.Reason), nil
		}
		return none, nil
	}
	if c.Input.AgentType == "" {
		return none, nil // it has summarized the conversation
	}
	t.flush(ctx) // the agent's start was said before
	path, now := t.calls.agent(c.Input.Agent), t.h.State().Turn
	if now == nil || path == "" || now.Agent(path) == nil {
		return none, nil // it is none of this turn
	}
	m := seam.Moment{Kind: seam.AgentStarts, Agent: path, Name: now.Agent(path).Name}
	replies := 0 // which the CLI has had of the agent's model
	if c.Input.Event == "SubagentStop" {
		m.Kind, m.Text = seam.AgentEnds, c.Input.Last
		for _, it := range now.Agent(path).Items {
			if it.Kind == parley.ItemReply {
				replies++
			}
		}
		t.mu.Lock()
		replies -= len(t.again[path])
		t.mu.Unlock()
	}
	text := hooksSaid(now, path, replies)
	if text == "" {
		if _, err := t.h.Heed(ctx, m); err != nil {
			return nil, err
		}
		if now = t.h.State().Turn; now == nil {
			return nil, errGone
		}
		text = hooksSaid(now, path, replies)
	}
	switch {
	case text == "":
		return none, nil
	case m.Kind == seam.AgentStarts:
		return map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": c.Input.Event, "additionalContext": text}}, nil
	}
	return blocked(text), nil
}

// blocked is the answer to a callback about something that is not to happen.
func blocked(why string) any { return map[string]any{"decision": "block", "reason": why} }

// hooksSaid is what hooks have told an agent between its n-th reply and the next one.
func hooksSaid(t *parley.Turn, path parley.AgentPath, n int) string {
	a := t.Agent(path)
	if a == nil {
		return ""
	}
	var texts []string
	for _, it := range slices.Concat(a.Items, t.Pending(a)) {
		switch {
		case it.Kind == parley.ItemReply:
			n--
		case it.Kind == parley.ItemHook && n == 0:
			texts = append(texts, parley.HookSays(it.Text))
		}
	}
	return strings.Join(texts, "\n")
}

// blockingLimit is why the CLI ends a turn whose conversation it may not summarize, and which no longer fits.
const blockingLimit = "blocking_limit"

// errAnew ends an attempt whose conversation has no more room, because a hook keeps it from being summarized.
// The next attempt begins another conversation, which is told of earlier turns what the log has.
var errAnew = errors.New("the conversation no longer fits the model")

// noRoom says why a turn fails whose own steps no longer fit.
func noRoom(h *parley.Hooked) *parley.Error {
	e := parley.Errorf(parley.CodeTooLarge, "the turn no longer fits the model's context, and the hook %s keeps it from being summarized", h.Name)
	if h.Reason != "" {
		e.Message += ": " + parley.Cut(h.Reason, 300)
	}
	return e.WithHint("give the task in smaller parts, or let the hook allow it")
}
