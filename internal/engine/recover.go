package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxAutoResumes is how often a turn is resumed without anybody asking. A turn
// that brings the process down would otherwise do so for ever.
const maxAutoResumes = 2

// Recover finds the turns that a crash left open or waiting behind one, except
// those of another node that is alive. It returns once they are listed; marking
// them, and going on where the app says so, happens in the background and never
// delays a command: a command that needs such a session marks it first. The
// channel is closed when all are marked and all that goes on by itself is on its
// way.
func (e *Engine) Recover(ctx context.Context) (<-chan struct{}, error) {
	rows, err := e.o.Store.Turns(ctx, parley.System(), seam.TurnQuery{
		Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusInterrupted, parley.StatusPending}, Limit: -1,
	})
	if err != nil {
		return nil, err
	}
	work := make(chan parley.TurnInfo)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range min(len(rows), cap(e.resuming)) {
		wg.Go(func() {
			for row := range work {
				if err := e.recoverTurn(row); err != nil && !errors.Is(err, seam.ErrDriven) && e.boot.Err() == nil {
					e.o.Logger.Warn("a turn could not be recovered", "session", row.SessionID, "turn", row.ID, "err", err)
				}
			}
		})
	}
	e.tasks.Go(func() {
		defer close(done)
		for _, row := range rows {
			select {
			case work <- row:
			case <-e.boot.Done():
			}
		}
		close(work)
		wg.Wait()
	})
	return done, nil
}

// recoverTurn loads the turn's session, which marks the turn and lets the session
// go on. A queued turn behind an open one comes after that; behind none, its
// session is not marked by anything else.
func (e *Engine) recoverTurn(row parley.TurnInfo) error {
	if e.boot.Err() != nil {
		return nil
	}
	if row.Status == parley.StatusPending {
		info, err := e.o.Store.Session(e.boot, parley.System(), row.SessionID)
		if err != nil || info.Turn != nil || !e.resumes(info.App) {
			return err
		}
	}
	s, err := e.acquire(e.boot, parley.System(), row.SessionID)
	if err != nil {
		return err
	}
	s.release()
	return nil
}

// resumes reports whether the app's sessions go on by themselves after a crash.
// Those of an app that is switched off do not.
func (e *Engine) resumes(app string) bool {
	a, err := e.app(app)
	return err == nil && a.app.Resume == parley.ResumeAuto
}

// goOnByItself lets a session go on where its last owner left it, if its app says
// so: the interrupted turn, or the queue when nothing was open. It waits at least
// as long.
func (s *session) goOnByItself(least time.Duration) {
	switch {
	case s.resumesItself():
		s.e.goOnLater(s.id, max(least, time.Duration(s.view.Turn.AutoAttempts)*2*time.Second))
	case s.e.resumes(s.view.App) && s.startsNext():
		s.e.goOnLater(s.id, least)
	}
}

// resumesItself reports whether the session's turn is interrupted and is to be resumed
// without anybody asking.
func (s *session) resumesItself() bool {
	t := s.view.Turn
	return t != nil && t.Status == parley.StatusInterrupted && s.run == nil &&
		s.e.resumes(s.view.App) && t.AutoAttempts < maxAutoResumes && !s.e.triedInVain(t.ID)
}

// triedInVain reports whether this process could not resume the turn: then it is
// left to a human.
func (e *Engine) triedInVain(id parley.TurnID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inVain[id]
}

func (e *Engine) leaveInterrupted(id parley.TurnID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inVain[id] = true
}

// goesOn reports whether the session is about to go on by itself: an interrupted
// turn of it then counts as running.
func (e *Engine) goesOn(id parley.SessionID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.going[id]
}

// goOnLater lets the session go on after a while, when there is a place. It is
// asked for once, however often it is called before that.
func (e *Engine) goOnLater(id parley.SessionID, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing || e.going[id] {
		return
	}
	e.going[id] = true
	e.tasks.Go(func() {
		r := e.goOnAfter(id, wait)
		if r == nil {
			return
		}
		// Its place is free once it is durable that it runs: how long it takes, and
		// whether it waits for a human, is no matter of the others.
		_ = r.durable(e.boot)
		<-e.resuming
	})
}

// goOnAfter waits, takes a place and lets the session go on. The place is held
// when it returns a run.
func (e *Engine) goOnAfter(id parley.SessionID, wait time.Duration) *run {
	over := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.going, id)
	}
	for {
		select {
		case <-time.After(wait):
		case <-e.boot.Done():
			return nil
		}
		select {
		case e.resuming <- struct{}{}:
		case <-e.boot.Done():
			return nil
		}
		r, err := e.goOnNow(id, over)
		if r != nil {
			return r
		}
		<-e.resuming
		if err == nil || !e.awayFor(err) || errors.Is(err, seam.ErrDriven) {
			return nil
		}
		wait = longestPause
	}
}

// goOnNow carries an answered turn forward, resumes an interrupted one that is to be
// resumed by itself, or begins the first queued one. It calls over with the lock held,
// unless it is to be tried again: nobody takes a turn for running that could not be
// resumed.
func (e *Engine) goOnNow(id parley.SessionID, over func()) (*run, error) {
	s, err := e.acquire(e.boot, parley.System(), id)
	if err != nil {
		if !e.awayFor(err) || errors.Is(err, seam.ErrDriven) {
			over()
		}
		return nil, err
	}
	defer s.release()
	if err := s.goOnOnce(); s.e.awayFor(err) {
		return nil, err
	}
	if s.resumesItself() {
		t := s.view.Turn
		_, err := s.resume("", true)
		switch {
		case err != nil && e.awayFor(err):
			return nil, err
		case err != nil:
			e.o.Logger.Warn("a turn could not be resumed", "session", id, "turn", t.ID, "err", err)
			e.leaveInterrupted(t.ID)
		}
	}
	over()
	s.startNext()
	return s.run, nil
}

// interrupt marks the turn that this session's last owner left running: its
// open model calls end with the text that was kept of them, and it is
// interrupted, or cancelled when somebody had asked to stop it. Called once,
// when the session is loaded.
func (s *session) interrupt(ctx context.Context) error {
	t := s.view.Turn
	chunks, err := s.e.o.Store.Chunks(ctx, s.state.Principal(), s.id)
	if err != nil {
		return err
	}
	texts := map[parley.CallID]*strings.Builder{}
	for _, c := range chunks {
		if texts[c.Call] == nil {
			texts[c.Call] = &strings.Builder{}
		}
		texts[c.Call].WriteString(c.Text)
	}
	var events []parley.Event
	for _, c := range t.Calls {
		failed := parley.ModelFailed{
			Call: c.Call, Usage: c.Reserved, Retry: t.Status == parley.StatusWaiting,
			Error: parley.ErrorInfo{Code: "interrupted", Message: "the server stopped while the model was answering"},
		}
		failed.Usage.Estimated = true
		if b := texts[c.Call]; b != nil {
			failed.Partial = b.String()
		}
		events = append(events, parley.NewEvent(t.ID, c.Agent, failed))
	}
	switch {
	case t.Status == parley.StatusWaiting: // what ran beside the question
	case t.Stop != nil:
		events = s.closing(parley.TurnCancelled{Reason: t.Stop.Reason, By: t.Stop.By}, events...)
	default:
		reason := "the server stopped while the turn was running"
		if t.AutoAttempts >= maxAutoResumes {
			reason += "; it was resumed automatically twice and is left for you to resume"
		}
		events = append(events, parley.NewEvent(t.ID, "", parley.TurnInterrupted{Reason: reason, Last: s.state.UpdatedAt}))
	}
	return s.commit(ctx, events...)
}
