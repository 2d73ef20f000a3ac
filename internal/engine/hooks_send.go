package engine

import (
	"context"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
)

// A message to a turn that runs is no turn of its own that could end. So the hooks are asked
// before it is accepted, and its sender is refused if they block it. Nothing of a blocked
// message is in the log.

// askFirst says that hooks are to be asked about a message before it is accepted.
type askFirst struct {
	heard
	tools *scope.Resolved
	in    hook.Input
}

func (*askFirst) Error() string { return "the hooks are to be asked about the message" }

// heard is what hooks said about a message to a running turn.
type heard struct {
	turn  parley.TurnID
	agent parley.AgentPath
	ran   []parley.HookRan
}

// askFirst returns what the hooks are to be asked about a message to the open turn, or nil. The
// caller has the lock.
func (s *session) askFirst(c asked, m parley.Message) *askFirst {
	t := s.view.Turn
	if c.heard != nil && c.heard.turn == t.ID || !s.hasHooks(hook.UserPromptSubmit, "") {
		return nil
	}
	ask := &askFirst{heard: heard{turn: t.ID, agent: c.Agent}, tools: s.tools.Share(), in: aboutPrompt(&s.view, t.ID, m)}
	ask.in.Fields["prompt"], _ = s.e.o.Log.RedactTextOf(s.id, m.Text())
	return ask
}

// ask asks the hooks. It is called without the lock, once.
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

// events are what the hooks said, for the log of the open turn.
func (h *heard) events(s *session) (list []parley.Event) {
	if h == nil || len(h.ran) == 0 {
		return nil
	}
	for _, p := range within(maxHooked-s.view.Turn.HookBytes, h.ran) {
		list = append(list, parley.NewEvent(h.turn, h.agent, p))
	}
	return list
}

// blocked reports whether hooks have blocked the message, with the error for its sender. The
// log of the turn says so. If that turn has ended meanwhile, the message begins one of its own,
// where hooks are asked. The caller has the lock.
func (s *session) blocked(ctx context.Context, h *heard) (bool, error) {
	at := slices.IndexFunc(h.ran, func(p parley.HookRan) bool { return p.Decision == parley.Deny })
	if t := s.view.Turn; at < 0 || t == nil || t.ID != h.turn {
		return false, nil
	}
	for i := range h.ran {
		h.ran[i].Context = "" // it would come with a message that never does
	}
	if err := s.commit(ctx, h.events(s)...); err != nil {
		return true, err
	}
	return true, errBlocked(h.ran[at].Name, h.ran[at].Reason)
}
