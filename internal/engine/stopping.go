package engine

import (
	"context"
	"time"

	"github.com/parley-server/parley"
)

// asks reports whether the session's turn is interrupted, and the outcome of a write that it
// had started can still be learned: from the service, or from the client that runs it. It is
// then not closed at once when somebody stops it: see stopAsking.
func (s *session) asks() bool {
	if !s.cutInWrite() || s.e.triedInVain(s.view.Turn.ID) != "" || !s.resolves() {
		return false
	}
	t := s.view.Turn
	times, _ := t.InVain()
	return s.awaitsReport(t) || times < maxAutoResumes && s.canAsk(t)
}

// awaitsReport reports whether a client has claimed a write of the interrupted turn and may
// still report it. Neither a stop nor a restart takes the claim away, so the turn is not closed
// before: it continues automatically until the report or the deadline. That makes no call, so
// it does not matter how often it was resumed in vain.
func (s *session) awaitsReport(t *parley.Turn) bool {
	for _, c := range t.Tools.All() {
		if c.Effect != parley.EffectRead && c.Claimed() && s.e.now().Before(c.Deadline) {
			return s.mayContinue(t)
		}
	}
	return false
}

// lacksItsEnd reports whether t is a direct call that has its outcome. Only the turn's end is
// missing, and to continue makes no call.
func (s *session) lacksItsEnd(t *parley.Turn) bool {
	if !s.view.Direct || t.Tools.Len() == 0 {
		return false
	}
	for _, c := range t.Tools.All() {
		if c.Status != parley.ToolIsEnded {
			return false
		}
	}
	return s.mayContinue(t)
}

// mayContinue reports whether the turn's app is served, and this process has not failed to
// resume the turn.
func (s *session) mayContinue(t *parley.Turn) bool {
	_, err := s.appOf(t)
	return err == nil && s.e.triedInVain(t.ID) == ""
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
	return startedWrite(t) != nil
}

// startedWrite returns the first write of the turn that was started and has no outcome, or nil.
func startedWrite(t *parley.Turn) *parley.Tool {
	for _, c := range t.Tools.All() {
		if c.Status == parley.ToolIsStarted && c.Effect != parley.EffectRead {
			return c
		}
	}
	return nil
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

// lostCall reports whether t is a direct call in a session of its own, with a started write
// that can neither be asked about nor made again. It is closed as unknown, unless somebody
// resumes it: resuming would learn nothing more, and its session is in no list where somebody
// could find it. undecided says that the scope's tools are not open, so this cannot be
// determined yet.
func (s *session) lostCall(t *parley.Turn) (lost, undecided bool) {
	c := startedWrite(t) // there is only one: a direct call is repeated only after it has ended
	if !s.view.Direct || c == nil || s.awaitsReport(t) {
		return false, false
	}
	open := s.resolves()
	app, err := s.appOf(t)
	if err != nil {
		return false, false // sessions of an app that is off stay as they are
	}
	if !open {
		return false, true
	}
	decl, missing := declared(app, s.box(), t, c)
	again := missing == "" && c.Effect == parley.EffectIdempotent && s.e.now().Sub(c.StartedAt) <= time.Duration(decl.KeyTTL)
	return !again && !s.canAsk(t), false
}

// isLost reports whether t is a lost call that does not continue automatically.
func (s *session) isLost(t *parley.Turn) bool {
	lost, _ := s.lostCall(t)
	return lost && s.leaves(t)
}

// lostEnd ends the turn of a lost call in the same way as a call whose outcome is unknown when
// nobody can be asked.
func lostEnd() parley.TurnCompleted {
	return parley.TurnCompleted{Response: parley.Response{Message: unknownResult("").Output}}
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
