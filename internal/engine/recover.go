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

// Recover finds the turns that a crash left open, except those of another node
// that is alive. It returns once they are
// listed; marking them, and resuming those whose app says so, goes on in the
// background and never delays a command: a command that needs such a session
// marks it first. The channel is closed when all are marked and every automatic
// resumption has begun.
func (e *Engine) Recover(ctx context.Context) (<-chan struct{}, error) {
	rows, err := e.o.Store.Turns(ctx, parley.System(), seam.TurnQuery{
		Statuses: []parley.TurnStatus{parley.StatusRunning, parley.StatusInterrupted}, Limit: -1,
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

func (e *Engine) recoverTurn(row parley.TurnInfo) error {
	if e.boot.Err() != nil {
		return nil
	}
	s, err := e.acquire(e.boot, parley.System(), row.SessionID) // loading marks it
	if err != nil {
		return err
	}
	defer s.release()
	t := s.view.Turn
	if t == nil || t.ID != row.ID || t.Status != parley.StatusInterrupted || s.run != nil {
		return nil
	}
	app, err := e.app(s.view.App)
	if err != nil || app.app.Resume != parley.ResumeAuto || t.AutoAttempts >= maxAutoResumes {
		return nil // an app that is switched off is not resumed
	}
	e.tasks.Go(func() { e.resumeLater(row, time.Duration(t.AutoAttempts)*2*time.Second) })
	return nil
}

// resumeLater resumes a turn that is still interrupted, when there is a place.
func (e *Engine) resumeLater(row parley.TurnInfo, wait time.Duration) {
	select {
	case <-time.After(wait):
	case <-e.boot.Done():
		return
	}
	select {
	case e.resuming <- struct{}{}:
		defer func() { <-e.resuming }()
	case <-e.boot.Done():
		return
	}
	s, err := e.acquire(e.boot, parley.System(), row.SessionID)
	if err != nil {
		return
	}
	t := s.view.Turn
	if t == nil || t.ID != row.ID || t.Status != parley.StatusInterrupted {
		s.release()
		return
	}
	r, err := s.resume("", true)
	s.release()
	if err != nil {
		e.o.Logger.Warn("a turn could not be resumed", "session", row.SessionID, "turn", row.ID, "err", err)
		return
	}
	// Its place is free once it is durable that it runs: how long it takes, and
	// whether it waits for a human, is no matter of the others.
	_ = r.durable(e.boot)
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
