package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
)

// flushAfter is the longest that a staged event waits to join another commit. It is too
// short to be noticed by a person, but longer than a fast read tool takes, so a tool's
// start, its end and the next model call become one append.
const flushAfter = 20 * time.Millisecond

// session is a loaded session. Everything but refs and used is guarded by lock.
type session struct {
	e    *Engine
	id   parley.SessionID
	lock chan struct{} // capacity 1; unlike a mutex, waiting for it can be cancelled by a context

	refs int       // commands and turns that hold it; guarded by Engine.mu
	used time.Time // last time refs fell to 0; guarded by Engine.mu

	loaded bool
	gone   bool // deleted, or owned by another node: load it again through the engine
	epoch  int64
	state  *parley.Session // the fold at the last commit

	// view is state with the staged events applied. Neither is ever changed in place, so whoever has
	// one may keep it and read it without the lock.
	view   *parley.Session
	staged eventlog.Clean
	index  seam.Index // rows to store with the staged events
	flush  *time.Timer

	appKept   parley.Digest // the app whose body the stored session refers to, as far as is known here
	condense  int64         // the next commit condenses the steps up to this number
	stateSize int           // bytes of the stored fold
	logBytes  int           // bytes appended since

	doubt *doubt // an append whose outcome is unknown, or nil
	told  bool   // logged that something waits for the store; nothing was kept since

	tools     *scope.Resolved // what its scope resolves to, for the command that has the lock; nil: not needed so far
	run       *run            // the turn that runs in this process
	restoring chan struct{}   // closed when the rewind has ended whose files are being restored here; nil: there is none
	changed   chan struct{}   // closed and replaced at every commit
}

// blank is a session that is not loaded. What it is made of is changed in place only until others see it.
func (e *Engine) blank(id parley.SessionID) *session {
	nothing := &parley.Session{}
	return &session{e: e, id: id, lock: make(chan struct{}, 1), changed: make(chan struct{}), state: nothing, view: nothing}
}

// acquire returns the session with its lock held. The caller must release it.
func (e *Engine) acquire(ctx context.Context, p parley.Principal, id parley.SessionID) (*session, error) {
	for {
		s, err := e.enter(id)
		if err != nil {
			return nil, err
		}
		select {
		case s.lock <- struct{}{}:
		case <-ctx.Done():
			e.leave(s)
			return nil, context.Cause(ctx)
		}
		if s.gone {
			s.release()
			continue
		}
		err = s.load(ctx, p)
		if err == nil {
			err = s.settle(ctx)
		}
		if s.gone {
			s.release()
			continue
		}
		if err != nil {
			s.release()
			return nil, err
		}
		s.finishRewind()
		return s, nil
	}
}

// enter counts a holder, so that the session stays in memory.
func (e *Engine) enter(id parley.SessionID) (*session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing && e.sessions[id] == nil {
		return nil, errShutdown
	}
	s := e.sessions[id]
	if s == nil {
		s = e.blank(id)
		e.sessions[id] = s
	}
	s.refs++
	return s, nil
}

func (e *Engine) leave(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.refs--
	s.used = e.o.Now()
	if s.refs == 0 && !s.loadedHint() && e.sessions[s.id] == s {
		delete(e.sessions, s.id) // never loaded: a wrong id must leave nothing behind
	}
}

// unlock gives up the lock, and what was resolved under it. Whoever took the lock gives it
// up so: any of them may have come to judge a turn by its tools.
func (s *session) unlock() {
	if s.tools != nil {
		s.tools.Release()
		s.tools = nil
	}
	<-s.lock
}

// loadedHint is read under Engine.mu when nobody holds the session.
func (s *session) loadedHint() bool { return s.loaded && !s.gone }

func (s *session) release() {
	s.unlock()
	s.e.leave(s)
}

// evict removes a session that no longer belongs to this process from memory.
func (s *session) evict() {
	s.gone = true
	s.e.inputs.drop(s.id, func(*heldInput) bool { return true })
	s.e.credentials.drop(s.id, "")
	if s.run != nil {
		s.run.cancel(parley.Errorf(parley.CodeFenced, "session %s is driven elsewhere now", s.id))
	}
	s.e.mu.Lock()
	if s.e.sessions[s.id] == s {
		delete(s.e.sessions, s.id)
	}
	s.e.mu.Unlock()
	s.wake()
}

// load ensures that p may use the session and that its state is loaded.
func (s *session) load(ctx context.Context, p parley.Principal) error {
	if s.loaded {
		if !p.Owns(s.state.User, s.state.Org) {
			return notFound("session", s.id)
		}
		return nil
	}
	store := s.e.o.Store
	if _, err := store.Session(ctx, p, s.id); err != nil {
		if isCode(err, parley.CodeNotFound) {
			return notFound("session", s.id)
		}
		return err
	}
	epoch, err := store.Claim(ctx, p, s.id, s.e.o.Node)
	if err != nil {
		return err
	}
	st, stored, err := s.e.fold(ctx, p, s.id)
	if err != nil {
		return err
	}
	s.state, s.view, s.epoch, s.loaded = &st, &st, epoch, true
	// Count the log's growth so far. Otherwise the fold of a session that is evicted
	// after every turn would never be stored again.
	s.stateSize, s.logBytes = len(stored.Body), int(st.Seq-stored.Seq)*typicalEvent
	if t := s.state.Turn; t != nil && (t.Status == parley.StatusRunning || t.Status == parley.StatusWaiting && (len(t.Calls) > 0 || len(s.lostQuestions()) > 0)) {
		if err := s.interrupt(ctx); err != nil {
			s.loaded = false
			return err
		}
	}
	if err := s.takeBack(ctx); err != nil {
		s.loaded = false
		return err
	}
	s.goOnByItself(0)
	return nil
}

// typicalEvent is roughly how many bytes an event adds to a log: most turns are short,
// and most events other than messages and replies have few fields.
const typicalEvent = 250

// fold reads a session's state: the stored one, if this fold version wrote it, plus the
// events since. It also returns the stored state it began with.
func (e *Engine) fold(ctx context.Context, p parley.Principal, id parley.SessionID) (parley.Session, seam.State, error) {
	var st parley.Session
	var began seam.State
	row, err := e.o.Store.State(ctx, p, id)
	switch {
	case err == nil && row.Version == parley.FoldVersion:
		if err := json.Unmarshal(row.Body, &st); err != nil {
			e.o.Logger.Warn("stored state is unreadable and is rebuilt", "session", id, "err", err)
			st = parley.Session{}
		} else {
			began = row
		}
	case err != nil && !isCode(err, parley.CodeNotFound):
		return st, began, err
	}
	info, err := e.o.Store.Session(ctx, p, id)
	if err != nil {
		return st, began, err
	}
	st, err = e.replay(ctx, p, id, info.Version, st)
	return st, began, err
}

// stage records events for the next commit. They are visible in view at once. Callers
// hold the lock.
func (s *session) stage(events ...parley.Event) error {
	next := s.view.Clone()
	prepared, err := s.prepare(next, &s.index, events)
	if err != nil {
		return err
	}
	s.view = next
	s.staged = s.staged.With(prepared)
	return nil
}

// stageSoon stages events and ensures that they are committed within flushAfter.
func (s *session) stageSoon(events ...parley.Event) error {
	if err := s.stage(events...); err != nil {
		return err
	}
	if s.flush == nil {
		if _, err := s.e.enter(s.id); err != nil {
			return s.commit(context.Background())
		}
		s.flushIn(flushAfter)
	}
	return nil
}

// flushIn commits what is staged after a while. The caller has called enter.
func (s *session) flushIn(d time.Duration) {
	s.flush = time.AfterFunc(d, func() {
		s.lock <- struct{}{}
		s.flush = nil
		if s.staged.Len() > 0 && !s.gone {
			err := s.commit(context.Background())
			if s.run != nil {
				s.run.kept(err) // the turn's start may have been among them
				if s.staged.Len() == 0 {
					s.run.lost = err
				}
			}
			switch {
			case err != nil && s.staged.Len() == 0:
				s.e.o.Logger.Warn("staged events were not kept", "session", s.id, "err", err)
			case err != nil:
				s.waits("staged events were not kept and are tried again", err)
			}
			if err != nil && s.staged.Len() > 0 && !s.gone && s.e.boot.Err() == nil {
				s.flushIn(longestPause)
				s.unlock()
				return
			}
		}
		s.release()
	})
}

// commit appends the staged and the given events in one batch and advances the state.
// After an error nothing was appended, except that a doubtful error leaves the session in
// doubt. The given events are then discarded, and the staged ones too unless a durable
// turn runs, which tries again: a staged event never stands for an effect that must not
// be repeated.
func (s *session) commit(ctx context.Context, events ...parley.Event) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	before := s.staging()
	if err := s.stage(events...); err != nil {
		s.discard()
		return err
	}
	if s.staged.Len() == 0 {
		return nil
	}
	batch := &seam.Batch{Session: s.id, Epoch: s.epoch, After: s.state.Seq, Index: s.index, Condense: s.condense}
	if slices.Contains(batch.Index.Release, s.appKept) {
		s.appKept = ""
	}
	if at := slices.Index(batch.Index.Blobs, s.appKept); at >= 0 {
		batch.Index.Blobs = slices.Delete(slices.Clone(batch.Index.Blobs), at, at+1)
	}
	stored := s.storeState(batch)
	if err := s.e.o.Log.Append(context.WithoutCancel(ctx), s.state.Principal(), *batch, s.staged); err != nil {
		return s.notAppended(batch, stored, before, err)
	}
	s.advance(s.view, s.staged, stored)
	return nil
}

// notAppended says what becomes of what is staged when an append has failed.
func (s *session) notAppended(batch *seam.Batch, stored int, before *staging, err error) error {
	_, known := errors.AsType[*parley.Error](err)
	switch {
	case !known:
		s.doubt = &doubt{batch: *batch, events: s.staged, view: s.view, stored: stored, err: err}
		err = notKnown(&doubtful{s.doubt, err})
		s.undo(before)
		if s.run == nil { // nobody else settles the doubt and continues what depends on it
			s.e.goOnLater(s.id, firstPause)
		}
	case errors.Is(err, parley.ErrFenced) || errors.Is(err, parley.ErrConflict) || isCode(err, parley.CodeNotFound):
		s.discard()
		s.evict() // another process owns it now
	case isCode(err, parley.CodeUnavailable):
		s.undo(before)
	default:
		s.discard() // it would be refused again
	}
	if known && s.run != nil && !s.runsDurably(s.run) {
		s.run.lost = err // the turn's start was not committed, so the run cannot continue
	}
	return err
}

// advance makes view, with the events that were appended, the state.
func (s *session) advance(view *parley.Session, events eventlog.Clean, stored int) {
	if stored >= 0 {
		s.stateSize, s.logBytes = stored, 0
	} else {
		for _, ev := range events.Events() {
			s.logBytes += len(ev.Data) + 100
		}
	}
	s.state, s.told = view, false
	if t := view.Turn; t != nil {
		s.appKept = t.App // its turn.started was appended with the reference
	}
	s.letGo(events.Events())
	s.tells(events.Events())
	s.discard()
	if s.run != nil && s.state.Turn != nil && s.state.Turn.ID == s.run.turn {
		s.run.lost = nil
	}
	s.pace()
	s.wake()
}

// waits logs that something is retried until the store takes it: once, and again when
// something was kept since.
func (s *session) waits(what string, err error) {
	if !s.told {
		s.told = true
		s.e.o.Logger.Warn(what, "session", s.id, "err", err)
	}
}

// discard drops what is staged. View and state are then the same.
func (s *session) discard() {
	s.staged, s.index, s.view = eventlog.Clean{}, seam.Index{}, s.state
}

// storeEvery is how much a log grows at least, in bytes, before its fold is stored again: so
// much is read and folded within a millisecond.
const storeEvery = 8 << 10

// storeState adds the fold to a batch that leaves no turn running, unless the log has
// grown by less than storeEvery, or the fold's own size, since it was last stored. So
// storing the fold never writes more than the log does. It returns the stored size, or -1.
func (s *session) storeState(b *seam.Batch) int {
	if s.view.Turn != nil && s.view.Turn.Status == parley.StatusRunning || b.Index.Session == nil {
		return -1
	}
	if s.logBytes < max(storeEvery, s.stateSize) {
		return -1
	}
	body, err := json.Marshal(s.view)
	if err != nil {
		s.e.o.Logger.Error("state cannot be stored", "session", s.id, "err", err)
		return -1
	}
	b.Index.State = &seam.State{Seq: s.view.Seq, Version: parley.FoldVersion, Body: body}
	return len(body)
}

// prepare numbers, stamps and redacts events, applies them to next and derives the index
// rows that change with them. The fold sees the redacted form, so decisions are the same
// live and after a restart.
func (s *session) prepare(next *parley.Session, ix *seam.Index, events []parley.Event) (eventlog.Clean, error) {
	if len(events) == 0 {
		return eventlog.Clean{}, nil
	}
	events = slices.Clone(events)
	now := s.e.now()
	if last := next.LastAt(); now.Before(last) {
		now = last // a log's times never run backwards, even if the clock does
	}
	for i := range events {
		events[i].Session, events[i].Seq, events[i].Time = s.id, next.Seq+1+int64(i), now
	}
	clean := s.e.o.Log.Redact(events...)
	for i, ev := range clean.Events() {
		s.hold(events[i], ev)
		if err := applyIndexed(next, ix, ev); err != nil {
			return eventlog.Clean{}, err
		}
	}
	return clean, nil
}

// wake makes those waiting in Await look again.
func (s *session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
