package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// tendPage is how many overdue questions are read at once.
	tendPage = 100
	// tendHands is how many questions are closed, or sessions swept, at once, so that
	// they share disk syncs without starving other work. The turn behind a question goes
	// on and is waited for, so ten thousand questions that expire together do not start
	// ten thousand turns at once.
	tendHands = 8
	// tendPatience is how long such a turn is waited for.
	tendPatience = 10 * time.Second
)

// tend periodically applies the apps' TTLs and expires questions that nobody answered. It
// only asks each session to check its clock; the session decides. The two jobs do not
// wait for each other.
func (e *Engine) tend() {
	e.tasks.Go(func() {
		// A session may have been deleted just before the last process was killed.
		if err := e.dropArchives(e.boot); err != nil && e.boot.Err() == nil {
			e.o.Logger.Warn("what deleted sessions have left could not be removed; the next sweep tries again", "err", err)
		}
		e.every(e.o.SweepEvery, func() {
			if done, err := e.Sweep(e.boot, parley.System()); err != nil && e.boot.Err() == nil {
				e.o.Logger.Warn("a sweep left something undone", "done", done, "err", err)
			}
		})
	})
	e.tasks.Go(func() {
		said := false // once for each outage
		e.every(e.o.TendEvery, func() {
			err := e.expireDue(e.boot)
			if err != nil && e.boot.Err() == nil && !said {
				e.o.Logger.Warn("open questions could not be listed; it is tried again", "err", err)
			}
			said = err != nil
		})
	})
}

func (e *Engine) every(d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-e.boot.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// byHands calls do for each row of a page, several at once.
func byHands[T any](page []T, do func(T)) {
	work := make(chan T)
	var hands sync.WaitGroup
	for range min(tendHands, len(page)) {
		hands.Go(func() {
			for row := range work {
				do(row)
			}
		})
	}
	for _, row := range page {
		work <- row
	}
	close(work)
	hands.Wait()
}

// passed converts an error about one session in a pass over many. It returns nil if the session
// no longer concerns the pass: another node drives it and makes such passes itself, or it was
// deleted after it was listed. Any other not-found error is a fault in the session's data, and
// becomes an internal error so that the pass's caller does not mistake it for its own.
func (e *Engine) passed(ctx context.Context, id parley.SessionID, err error) error {
	if errors.Is(err, seam.ErrDriven) {
		return nil
	}
	if isCode(err, parley.CodeNotFound) { // of the session, or of something else in it
		if _, gone := e.o.Store.Session(ctx, parley.System(), id); isCode(gone, parley.CodeNotFound) {
			return nil
		}
		err = parley.Errorf(parley.CodeInternal, "data of session %s is missing: %w", id, err)
	}
	return err
}

// unload evicts a session that nobody else has wanted meanwhile, so that a pass over many
// sessions does not fill the memory.
func (e *Engine) unload(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.refs == 0 && e.sessions[s.id] == s {
		delete(e.sessions, s.id)
	}
}

// expireDue closes overdue questions, page by page. Its cost depends on how many are
// overdue, not on how many are open.
func (e *Engine) expireDue(ctx context.Context) error {
	q := seam.InteractionQuery{Due: e.now(), Limit: tendPage}
	for ctx.Err() == nil {
		page, err := e.o.Store.Interactions(ctx, parley.System(), q)
		if err != nil {
			return err
		}
		byHands(page, func(row seam.InteractionRow) {
			err := e.passed(ctx, row.Session, e.expireInteraction(ctx, row.Interaction))
			if err != nil && ctx.Err() == nil {
				e.o.Logger.Warn("a question could not be closed", "session", row.Session, "interaction", row.ID, "err", err)
			}
		})
		if len(page) == 0 {
			return nil
		}
		q.After = q.Mark(page[len(page)-1]) // one that could not be closed is tried at the next tick
	}
	return nil
}

// expireInteraction closes a question, and waits a while for the turn that continues
// without an answer.
func (e *Engine) expireInteraction(ctx context.Context, in parley.Interaction) error {
	s, err := e.acquire(ctx, parley.System(), in.Session)
	if err != nil {
		return err
	}
	defer e.unload(s)
	at := slices.IndexFunc(s.view.Interactions, func(o parley.Interaction) bool { return o.ID == in.ID })
	if _, off := e.appOf(s.view.App); off != nil {
		at = -1 // the data of an app that is off stays as it is
	}
	if at >= 0 {
		_, err = s.expire(ctx, s.view.Interactions[at])
	}
	run := s.run
	s.release()
	if at < 0 || err != nil || run == nil {
		return err
	}
	patience := time.NewTimer(tendPatience)
	defer patience.Stop()
	select {
	case <-run.done:
	case <-patience.C:
	case <-ctx.Done():
	}
	return nil
}

// expire closes an open interaction if its time is over, and lets the turn continue
// without an answer. It reports whether the time was over.
func (s *session) expire(ctx context.Context, in parley.Interaction) (bool, error) {
	if in.ExpiresAt.IsZero() || !s.e.now().After(in.ExpiresAt) {
		return false, nil
	}
	err := s.commit(ctx, parley.NewEvent(in.Turn, in.Agent, parley.InteractionExpired{ID: in.ID, Reason: "nobody answered in time"}))
	if err == nil {
		s.logged("go on after an expired question", s.goOn())
	}
	return true, err
}
