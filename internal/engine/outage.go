package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
)

// The store can be unavailable for a while, because of a full disk or a database restart.
// Commands are refused then. A durable turn waits, within its time budget, and appends
// later what it was about to append.

const (
	firstPause = 100 * time.Millisecond
	// longestPause is the longest pause between attempts. With it a turn goes on soon
	// after the store is back, and a thousand waiting turns make 500 attempts a second.
	longestPause = 2 * time.Second
)

// doubt is an append whose outcome is unknown. Until it is settled the session makes no
// other append, and commands to it are refused.
type doubt struct {
	batch  seam.Batch
	events eventlog.Clean
	view   *parley.Session // the state if the append took place
	stored int             // bytes of the fold in the batch, or -1
	err    error           // the error of the append; nil once it is known to have taken place
}

// doubtful is the reason for a doubt.
type doubtful struct {
	d   *doubt
	err error
}

func (e *doubtful) Error() string { return e.err.Error() }
func (e *doubtful) Unwrap() error { return e.err }

// notKnown is the error of a command whose commit is in doubt, and of commands after it.
func notKnown(err error) error {
	e := parley.Errorf(parley.CodeUnavailable, "it is not known whether the store kept the last change: %w", err).WithRetry(time.Second)
	e.Message, e.Hint = "it is not known whether the store kept the last change", "the server goes on by itself once the store can be asked; then send the request again with the same key"
	return e
}

// told is the error of an append as returned to its caller. An error without a code
// leaves open whether the append took place.
func told(err error) error {
	if _, known := errors.AsType[*parley.Error](err); err == nil || known {
		return err
	}
	return notKnown(err)
}

// toldMade returns the error for a command that creates a session when the store's answer is
// lost. If the same request would find the session again, by a key or an outside id, the caller
// can simply repeat it. Otherwise the caller must look for the session before creating another
// one.
func toldMade(err error, id parley.SessionID, again bool) error {
	if _, known := errors.AsType[*parley.Error](err); err == nil || known || again {
		return told(err)
	}
	e := parley.Errorf(parley.CodeTimeout, "the store did not confirm in time whether it has saved the new session").
		WithHint("do not create another before you have looked for session %s, which exists if it was saved; a request with an idempotency key can simply be sent again", id)
	e.Err = err
	return e
}

// perhaps is what the sender of a turn gets that failed to become durable. If the turn
// may be in the log all the same, the turn is returned, too. Without a key it must then
// not be sent again, or it may be there twice.
func perhaps(ctx context.Context, t parley.TurnInfo, err error, again bool) (parley.TurnInfo, error) {
	_, inDoubt := errors.AsType[*doubtful](err)
	switch {
	case inDoubt && !again:
		e := parley.Errorf(parley.CodeTimeout, "the store did not confirm in time whether it has saved this").
			WithHint("do not send it again before you have looked: turn %s has it, if it was kept", t.ID)
		e.Err = err
		return t, e
	case inDoubt, ctx.Err() != nil:
		return t, err
	}
	return parley.TurnInfo{}, err
}

// Kept reports whether the store has kept a turn that a command returned together with an
// error; false is final. Its own error is the store's while the outcome is unknown, or
// ctx's cause.
func (e *Engine) Kept(ctx context.Context, p parley.Principal, t parley.TurnInfo) (bool, error) {
	for {
		s, err := e.acquire(ctx, p, t.SessionID) // which asks the store
		if err != nil {
			return false, err
		}
		v, r := s.state, s.run
		here := v.Turn != nil && v.Turn.ID == t.ID || slices.ContainsFunc(v.Queue, func(q parley.QueuedTurn) bool { return q.ID == t.ID })
		s.release()
		if here {
			return true, nil
		}
		if r != nil && r.turn == t.ID && !r.decided() {
			if _ = r.durable(ctx); ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			continue
		}
		_, err = e.o.Store.Turn(ctx, p, t.ID)
		if isCode(err, parley.CodeNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// settle asks once whether an append in doubt took place. If it returns nil there is no
// doubt any more, and the state is that of the log. Callers hold the lock.
func (s *session) settle(ctx context.Context) error {
	d := s.doubt
	if d == nil {
		return nil
	}
	err := s.e.o.Log.Settle(context.WithoutCancel(ctx), s.state.Principal(), d.batch, d.events, d.err)
	known, ok := errors.AsType[*parley.Error](err)
	if err != nil && !ok {
		return notKnown(err)
	}
	s.doubt, d.err = nil, err
	switch {
	case err == nil:
		s.advance(d.view, d.events, d.stored)
	case known.Code != parley.CodeUnavailable:
		s.evict() // another process has written
		return err
	case s.run != nil && !s.runsDurably(s.run):
		s.run.lost = err // the turn's start was part of it
	}
	return nil // nothing of it was appended; earlier staged events are still staged
}

// staging is the state to return to when a commit fails.
type staging struct {
	view   *parley.Session
	staged eventlog.Clean
	index  seam.Index
}

func (s *session) staging() *staging {
	ix := s.index // its rows are changed in place
	ix.Turns, ix.Interactions, ix.Keys = slices.Clone(ix.Turns), slices.Clone(ix.Interactions), slices.Clone(ix.Keys)
	ix.Artifacts, ix.Blobs, ix.Spend, ix.DropChunks = slices.Clone(ix.Artifacts), slices.Clone(ix.Blobs), slices.Clone(ix.Spend), slices.Clone(ix.DropChunks)
	return &staging{s.view, s.staged, ix}
}

// undo returns to the state before a commit that the store refused for now. What a
// durable turn has staged stays staged: it was paid for and is appended later. Everything
// else is discarded, and its sender gets the error.
func (s *session) undo(before *staging) {
	if !s.runsDurably(s.run) {
		s.discard()
		return
	}
	s.view, s.staged, s.index = before.view, before.staged, before.index
}

// runsDurably reports whether r is this session's run of a turn that is in the log.
func (s *session) runsDurably(r *run) bool {
	return r != nil && s.run == r && s.state.Turn != nil && s.state.Turn.ID == r.turn
}

// Away reports whether err means that the store is unavailable now, so that a retry may
// succeed later, rather than that the server is stopping.
func (e *Engine) Away(err error) bool { return e.awayFor(err) && !e.isClosing() }

// awayFor reports whether err means that the store is unavailable now, rather than that
// the server is stopping.
func (e *Engine) awayFor(err error) bool {
	return isCode(err, parley.CodeUnavailable) && !errors.Is(err, errShutdown) && e.boot.Err() == nil
}

// lasting repeats f while the store is unavailable, if the turn is durable and may wait,
// until ctx ends.
func (h *host) lasting(ctx context.Context, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f()
		if !h.s.e.awayFor(err) {
			return err
		}
		h.r.kept(err) // who waits for the turn to become durable does not wait for this
		if !h.waits() {
			return err
		}
		if pause == firstPause {
			h.s.e.o.Logger.Warn("a turn waits for the store", "session", h.s.id, "turn", h.r.turn, "err", err)
		}
		if err := h.s.e.rest(ctx, pause); err != nil {
			return err
		}
	}
}

// waits reports whether the run may wait for the store: its turn is in the log, or may
// be.
func (h *host) waits() bool {
	s := h.s
	s.lock <- struct{}{}
	defer s.unlock()
	if s.gone || s.run != h.r {
		return false
	}
	d := s.doubt
	return s.runsDurably(h.r) || d != nil && d.view.Turn != nil && d.view.Turn.ID == h.r.turn
}

// rest waits for a while, unless ctx or the engine ends.
func (e *Engine) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-e.boot.Done():
		return context.Cause(e.boot)
	}
}

// commit commits events of the run. If the outcome is in doubt, it releases the lock and
// waits until it is known: a started call must not be started again because of the doubt.
// The caller holds the lock, and must not rely on anything it knew about the session
// before.
func (h *host) commit(ctx context.Context, s *session, events ...parley.Event) error {
	err := s.commit(ctx, events...)
	in, ok := errors.AsType[*doubtful](err)
	for pause := firstPause; ok && s.doubt == in.d && !s.gone; pause = min(2*pause, longestPause) {
		h.r.kept(err)
		s.unlock()
		rested := s.e.rest(ctx, pause)
		s.lock <- struct{}{}
		if rested != nil {
			return rested
		}
		_ = s.settle(ctx) // asked again
	}
	switch {
	case !ok:
	case s.gone || s.run != h.r:
		return errNotHere
	default:
		err = in.d.err
	}
	switch {
	case err == nil:
		h.r.kept(nil)
	case !s.runsDurably(h.r):
		h.r.lost = err // the turn's start was part of it
	}
	return err
}
