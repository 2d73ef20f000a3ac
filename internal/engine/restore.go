package engine

import (
	"context"
	"errors"

	"github.com/parley-server/parley"
)

// finishRewind lets a rewind that has begun go on, if there is one and it does not: after its
// beginning was committed, and after a crash. The caller holds the lock.
func (s *session) finishRewind() {
	if s.view.Rewinding == nil || s.restoring != nil || s.gone || s.e.o.Files == nil {
		return
	}
	if _, err := s.e.appOf(s.view.App); err != nil {
		return // it goes on when the app is served again
	}
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return
	}
	done := make(chan struct{})
	s.restoring = done
	s.refs++ // it stays in memory
	e.tasks.Go(func() {
		defer e.leave(s)
		s.restore()
		s.lock <- struct{}{}
		s.restoring = nil
		close(done)
		s.unlock()
	})
}

// restore restores the files of a rewind and commits it. While the store or the disk of the
// checkpoints is unavailable, it tries again.
func (s *session) restore() {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		over, err := s.restoreOnce(s.e.boot)
		if over || s.e.boot.Err() != nil {
			return
		}
		s.lock <- struct{}{}
		s.waits("a rewind could not be finished and is tried again", err)
		s.unlock()
		if s.e.rest(s.e.boot, pause) != nil {
			return
		}
	}
}

// restoreOnce reports whether there is nothing more to do here.
func (s *session) restoreOnce(ctx context.Context) (over bool, err error) {
	e := s.e
	s.lock <- struct{}{}
	err = s.settle(ctx)
	st, gone := *s.view.Clone(), s.gone
	s.unlock()
	if gone || err == nil && st.Rewinding == nil {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	r, p := *st.Rewinding, st.Principal()
	plan := rewindPlan{}
	if plan.passage, err = e.passage(ctx, p, st, r); err != nil {
		return false, err
	}
	if r.What.Conversation() {
		if plan.then, err = e.stateAt(ctx, p, st.ID, r.To); err != nil {
			return false, err
		}
		if plan.then.History, err = e.mended(ctx, p, st.ID, plan.then.History); err != nil {
			return false, err
		}
	}
	of, end, err := e.restoration(st, r, plan.changes)
	if err != nil {
		return true, err // its app is off
	}
	defer end()
	files, err := e.o.Files.Restore(ctx, of)
	if err != nil {
		return false, err
	}
	if err := e.describe(st, &plan, files); err != nil {
		return true, err
	}
	s.lock <- struct{}{}
	defer s.unlock()
	if s.gone {
		return true, nil
	}
	if err := s.settle(ctx); err != nil {
		return s.gone, err
	}
	if s.view.Rewinding == nil || s.view.Rewinding.ID != r.ID {
		return true, nil
	}
	if err := s.commit(ctx, plan.event(*s.view, r)); err != nil {
		return s.gone || errors.Is(err, parley.ErrFenced), err
	}
	if err := e.o.Files.Done(context.WithoutCancel(ctx), s.id); err != nil {
		e.o.Logger.Warn("that a rewind has ended could not be noted", "session", s.id, "err", err)
	}
	s.startNext()
	return true, nil
}

// recoverRewinds lets the sessions go on whose rewind a crash ended.
func (e *Engine) recoverRewinds(ctx context.Context) error {
	if e.o.Files == nil {
		return nil
	}
	list, err := e.o.Files.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, id := range list {
		s, err := e.acquire(ctx, parley.System(), id)
		if err != nil {
			if err := e.passed(ctx, id, err); err != nil {
				e.o.Logger.Warn("a rewind could not be recovered", "session", id, "err", err)
			}
			continue
		}
		begun := s.view.Rewinding != nil
		s.release()
		if !begun { // its beginning was not committed
			if err := e.o.Files.Done(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}
