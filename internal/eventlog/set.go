package eventlog

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/parley-server/parley"
)

// Place is a session and the number of the last event that a reader has.
type Place struct {
	Session parley.SessionID
	After   int64
}

// SessionError ends one session among several that are followed.
type SessionError struct {
	Session parley.SessionID
	Err     error
}

func (e *SessionError) Error() string { return "session " + string(e.Session) + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *SessionError) Unwrap() error { return e.Err }

// FollowMany checks all places, and returns the error of one that is wrong. The returned
// function, which may be called once, follows them at once, in turns of at most a page or
// a queue each; there is no order between sessions. A session that fails yields a
// [*SessionError], and the others continue. It ends when all have failed.
func (r *Reader) FollowMany(ctx context.Context, p parley.Principal, places []Place, deltas bool) (func(context.Context) iter.Seq2[Frame, error], error) {
	s := r.Set(p, deltas)
	for _, at := range places {
		if err := s.Add(ctx, at, len(places)); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) iter.Seq2[Frame, error] {
		return func(yield func(Frame, error) bool) {
			defer s.leave()
			s.follow(ctx, yield, true)
		}
	}, nil
}

// Set is the sessions that one reader follows, which may change while it does. Its
// methods are safe for concurrent use.
type Set struct {
	l      *log
	p      parley.Principal
	deltas bool
	wake   chan struct{}

	mu   sync.Mutex // held while frames are yielded
	fs   []*follower
	left bool // nobody follows any more
}

// Set returns an empty set of sessions of p.
func (r *Reader) Set(p parley.Principal, deltas bool) *Set {
	return &Set{l: r.l, p: p, deltas: deltas, wake: make(chan struct{}, 1)}
}

// Add has the set follow one more session. Its errors are those of [Reader.Check],
// CodeConflict for a session that is in the set, and CodeInvalid for more than most
// sessions.
func (s *Set) Add(ctx context.Context, at Place, most int) error {
	if err := (&Reader{s.l}).Check(ctx, s.p, at.Session, at.After); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.find(at.Session) >= 0:
		return parley.Errorf(parley.CodeConflict, "session %s is followed already", at.Session)
	case len(s.fs) >= most:
		return parley.Errorf(parley.CodeInvalid, "more than %d sessions cannot be followed at once", most).WithField("session")
	case s.left:
		return parley.Errorf(parley.CodeUnavailable, "the connection is closed")
	}
	s.fs = append(s.fs, &follower{l: s.l, session: at.Session, deltas: s.deltas, at: at.After, asked: true, wake: s.wake})
	s.changed()
	return nil
}

// Remove has the set follow a session no longer: no frame of it is yielded afterwards. It
// reports whether the session was in the set.
func (s *Set) Remove(session parley.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(session)
	if i < 0 {
		return false
	}
	s.fs[i].leave()
	s.fs = slices.Delete(s.fs, i, i+1)
	return true
}

// Follow yields the frames of the sessions in the set, as [Reader.FollowMany] does. It
// goes on when the set is empty, and ends with CodeUnavailable when the server shuts
// down. It may be called once.
func (s *Set) Follow(ctx context.Context) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		defer s.leave()
		s.l.sets.add(s)
		defer s.l.sets.remove(s)
		s.follow(ctx, yield, false)
	}
}

func (s *Set) follow(ctx context.Context, yield func(Frame, error) bool, ends bool) {
	for {
		idle, more := s.round(ctx, yield, ends)
		if !more || ends && s.empty() {
			return
		}
		if idle {
			wait(ctx, s.wake)
		}
	}
}

// round gives each session a turn. It returns idle when none had anything.
func (s *Set) round(ctx context.Context, yield func(Frame, error) bool, ends bool) (idle, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		yield(Frame{}, context.Cause(ctx))
		return false, false
	}
	if why := s.l.sets.gone.Load(); why != nil && !ends {
		yield(Frame{}, *why)
		return false, false
	}
	idle = true
	for i := 0; i < len(s.fs); i++ {
		f := s.fs[i]
		nothing, more, err := f.step(ctx, s.p, yield)
		idle = idle && nothing
		switch {
		case err != nil && ctx.Err() != nil:
			yield(Frame{}, context.Cause(ctx))
			return false, false
		case err != nil:
			if !yield(Frame{}, &SessionError{f.session, err}) {
				return false, false
			}
			f.leave()
			s.fs = slices.Delete(s.fs, i, i+1)
			i--
		case !more:
			return false, false
		}
	}
	return idle, true
}

func (s *Set) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.fs) == 0
}

// leave ends the set.
func (s *Set) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.fs {
		f.leave()
	}
	s.fs, s.left = nil, true
}

// The following are called under the lock.

func (s *Set) find(session parley.SessionID) int {
	return slices.IndexFunc(s.fs, func(f *follower) bool { return f.session == session })
}

func (s *Set) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sets holds the sets that are followed, which end when the server shuts down even if
// they are empty.
type sets struct {
	gone atomic.Pointer[error]
	mu   sync.Mutex
	open map[*Set]struct{}
}

func (ss *sets) add(s *Set) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.open == nil {
		ss.open = map[*Set]struct{}{}
	}
	ss.open[s] = struct{}{}
}

func (ss *sets) remove(s *Set) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.open, s)
}

func (ss *sets) endAll(why error) {
	ss.gone.Store(&why)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for s := range ss.open {
		s.changed()
	}
}
