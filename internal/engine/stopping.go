package engine

import (
	"context"

	"github.com/parley-server/parley"
)

// asks reports whether the session's turn is interrupted, and its tools can ask what
// became of a write that it had started. It is then not closed at once when somebody
// stops it: see stopAsking.
func (s *session) asks() bool {
	if !s.cutInWrite() || s.e.triedInVain(s.view.Turn.ID) != "" {
		return false
	}
	t := s.view.Turn
	times, _ := t.InVain()
	return times < maxAutoResumes && s.resolves() && s.canAsk(t)
}

// acquireToStop is acquire for commands that may stop a turn. Where an interrupted one has
// writes to ask about, the session comes with its tools, if these can be opened.
func (e *Engine) acquireToStop(ctx context.Context, p parley.Principal, id parley.SessionID) (*session, error) {
	s, err := e.acquire(ctx, p, id)
	if err != nil || !s.cutInWrite() || s.resolves() {
		return s, err
	}
	s.release()
	if s, err = e.ready(ctx, p, id); err == nil {
		return s, nil
	}
	return e.acquire(ctx, p, id)
}

// cutInWrite reports whether the session's turn is interrupted and had started a write.
func (s *session) cutInWrite() bool {
	t := s.view.Turn
	if t == nil || t.Status != parley.StatusInterrupted || s.run != nil {
		return false
	}
	for _, c := range t.Tools.All() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			return true
		}
	}
	return false
}

// canAsk reports whether a started write of the turn has a tool that can ask what became
// of it. While the scope's tools are not open, one may: who goes on with the turn opens
// them and judges again.
func (s *session) canAsk(t *parley.Turn) bool {
	open := s.resolves()
	app, err := s.appOf(t)
	if err != nil {
		return false
	}
	box := s.box()
	for _, c := range t.Tools.All() {
		if c.Status != parley.ToolIsStarted || c.Effect == parley.EffectRead {
			continue
		}
		if !open {
			return true
		}
		if _, missing := declared(app, box, t, c); missing == "" && box.CanReconcile(c.Name) {
			return true
		}
	}
	return false
}

// stopAsking stops an interrupted turn, and appends the given events. The turn runs until
// its writes have outcomes, like a running turn that is stopped, and ends then.
func (s *session) stopAsking(ctx context.Context, stop parley.TurnStopRequested, events ...parley.Event) error {
	t := s.view.Turn
	app, err := s.appOf(t)
	if err != nil {
		return err
	}
	all := append([]parley.Event{
		parley.NewEvent(t.ID, "", stop),
		parley.NewEvent(t.ID, "", parley.TurnResumed{Attempt: t.Attempts + 1, By: stop.By}),
	}, events...)
	r, err := s.begin(app, t.ID, true, all...)
	if err != nil {
		return err
	}
	err = s.commit(ctx)
	r.kept(err)
	return err
}

func cancelled(stop parley.TurnStopRequested) parley.TurnCancelled {
	return parley.TurnCancelled{Reason: stop.Reason, By: stop.By}
}
