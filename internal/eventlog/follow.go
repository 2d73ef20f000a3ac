package eventlog

import (
	"context"
	"iter"
	"time"

	"github.com/parley-server/parley"
)

// Read returns up to limit events after the given number. Its errors are those of
// [Reader.Follow].
func (r *Reader) Read(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	events, err := r.l.read(ctx, p, session, after, limit)
	if err == nil && len(events) == 0 {
		err = r.l.checkCursor(ctx, p, session, after)
	}
	return events, err
}

// Page is Read for answers to clients. Only a few of a user's readers may hold a page
// that they have not reserved memory for; the others wait. taken says that the memory is
// reserved.
func (r *Reader) Page(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) (events []parley.Event, taken func(), err error) {
	leave, err := r.l.reading.sit(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	events, err = r.Read(ctx, p, session, after, limit)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return events, leave, nil
}

func (l *log) read(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, limit int) ([]parley.Event, error) {
	if after < 0 {
		return nil, badCursor(session, after, -1)
	}
	return l.store.Read(ctx, p, session, after, limit)
}

// checkCursor refuses a cursor beyond the end, which belongs to another session or
// another log.
func (l *log) checkCursor(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) error {
	if after == 0 {
		return nil
	}
	return (&Reader{l}).Check(ctx, p, session, after)
}

func badCursor(session parley.SessionID, after, last int64) error {
	if after < 0 {
		return parley.Errorf(parley.CodeInvalid, "cursor %d is negative", after).WithField("after").
			WithHint("a cursor is the number of the last event you have; 0 means from the beginning")
	}
	return parley.Errorf(parley.CodeInvalid, "stale or foreign cursor: session %s ends at event %d, and the cursor is %d", session, last, after).
		WithField("after").WithHint("a cursor is the number of the last event you have of this session; begin again from 0")
}

// Follow yields the events after the given number, then one partial for each open call,
// then what happens from now on. Events come in order, without gaps or repetition. A
// delta never comes before the event that began its call nor after the one that ended it.
//
// It ends with an error: [parley.ErrNotFound] for a session that p does not have, or that
// was deleted meanwhile; CodeInvalid for a cursor beyond the log's end; CodeUnavailable
// when the server shuts down; ctx's cause when ctx is done; or the store's error. An
// ended session can be followed like any other.
func (r *Reader) Follow(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[Frame, error] {
	return r.l.follow(ctx, p, session, after, true)
}

// FollowEvents is Follow without deltas and resets, which are not even queued.
func (r *Reader) FollowEvents(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) iter.Seq2[Frame, error] {
	return r.l.follow(ctx, p, session, after, false)
}

func (l *log) follow(ctx context.Context, p parley.Principal, session parley.SessionID, after int64, deltas bool) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		f := &follower{l: l, session: session, deltas: deltas, at: after, wake: make(chan struct{}, 1)}
		defer f.leave()
		for {
			idle, more, err := f.step(ctx, p, yield)
			if err != nil {
				yield(Frame{}, err)
			}
			if !more {
				return
			}
			if idle {
				wait(ctx, f.wake)
			}
		}
	}
}

func wait(ctx context.Context, wake <-chan struct{}) {
	select {
	case <-wake:
	case <-ctx.Done():
	}
}

// Await is [Reader.Check] of several sessions that waits as [Reader.Retry] does.
func (r *Reader) Await(ctx context.Context, p parley.Principal, places ...Place) error {
	return r.Retry(ctx, func(ctx context.Context) error {
		for _, at := range places {
			if err := r.Check(ctx, p, at.Session, at.After); err != nil {
				return err
			}
		}
		return nil
	})
}

// Retry repeats ask for as long as it says that the store is unavailable, with longer and longer pauses, and returns what it says
// then. It returns CodeUnavailable when the server shuts down, and ctx's cause when ctx is done.
func (r *Reader) Retry(ctx context.Context, ask func(context.Context) error) error {
	for pause := firstAsk; ; pause = min(2*pause, lastAsk) {
		err := ask(ctx)
		if parley.CodeOf(err) != parley.CodeUnavailable {
			return err
		}
		select {
		case <-time.After(pause):
		case <-r.l.down:
			return shuttingDown()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// firstAsk and lastAsk are the shortest and the longest pause between two attempts to reach a store. With
// the longest one a thousand readers ask 500 times a second.
const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 2 * time.Second
)

// Check returns the error with which [Reader.Follow] would begin, or nil.
func (r *Reader) Check(ctx context.Context, p parley.Principal, session parley.SessionID, after int64) error {
	if after < 0 {
		return badCursor(session, after, -1)
	}
	info, err := r.l.store.Session(ctx, p, session)
	if err == nil && info.Version < after {
		err = badCursor(session, after, info.Version)
	}
	return err
}
