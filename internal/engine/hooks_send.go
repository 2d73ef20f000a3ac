package engine

import (
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
)

// A message to a running turn has no turn of its own that a hook could end. So the hooks are
// asked before the message is accepted, and its sender gets an error if they block it. Nothing
// of a blocked message is in the log.

// askFirst says that hooks must be asked about a message before it is accepted.
type askFirst struct {
	heard
	tools *scope.Resolved
	in    hook.Input
	pass  *pass
}

func (*askFirst) Error() string { return "hooks must be asked about the message first" }

// heard holds what hooks said about a message to a running turn.
type heard struct {
	turn  parley.TurnID
	agent parley.AgentPath
	ran   []parley.HookRan
}

// askFirst returns the question for hooks about a message to the open turn, or nil if there is
// none. The caller holds the lock.
func (s *session) askFirst(c asked, m parley.Message) *askFirst {
	t := s.view.Turn
	if c.heard != nil && c.heard.turn == t.ID || !s.hasHooks(hook.UserPromptSubmit, "") {
		return nil
	}
	clean := parley.Message{Role: m.Role, Parts: slices.Clone(m.Parts)} // it is not in the log yet
	for i, p := range clean.Parts {
		clean.Parts[i].Text, _ = s.e.o.Log.RedactTextOf(s.id, p.Text)
	}
	ask := &askFirst{heard: heard{turn: t.ID, agent: c.Agent}, tools: s.tools.Share(), in: aboutPrompt(s.view, t.ID, clean)}
	return ask
}

// ask runs the hooks. It is called once, without the lock.
func (a *askFirst) ask(ctx context.Context) (*heard, error) {
	defer a.tools.Release()
	results, err := hook.Run(ctx, hook.On(ctx, hook.Matching(a.tools.Hooks(), a.in.Event, "")), a.in)
	if err != nil {
		return nil, err
	}
	for _, r := range results {
		p := ranOf(a.in, r)
		p.Steers = true
		a.ran = append(a.ran, p)
	}
	return &a.heard, nil
}

// events returns what the hooks said as events for the log of the open turn.
func (h *heard) events(s *session) (list []parley.Event) {
	if h == nil || len(h.ran) == 0 {
		return nil
	}
	for _, p := range within(maxHooked-s.view.Turn.HookBytes, h.ran) {
		list = append(list, parley.NewEvent(h.turn, h.agent, p))
	}
	return list
}

// blocked reports whether hooks have blocked the message, and returns the error for its sender.
// It records this in the log of the turn. If that turn has ended meanwhile, the message is not
// blocked here: it begins a turn of its own, in which hooks are asked again. The caller holds
// the lock.
func (s *session) blocked(ctx context.Context, h *heard) (bool, error) {
	at := slices.IndexFunc(h.ran, func(p parley.HookRan) bool { return p.Decision == parley.Deny })
	if t := s.view.Turn; at < 0 || t == nil || t.ID != h.turn {
		return false, nil
	}
	for i := range h.ran {
		h.ran[i].Context = "" // it belongs to a message that is not delivered
	}
	if err := s.commit(ctx, h.events(s)...); err != nil {
		return true, err
	}
	return true, errBlocked(h.ran[at].Name, h.ran[at].Reason)
}
