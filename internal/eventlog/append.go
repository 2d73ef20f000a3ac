package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// settleTime limits how long an append with an unknown outcome is settled from the
	// log: longer than a database takes to restart. Only its session waits for it.
	settleTime = 10 * time.Second
	// settleEvery is the first pause between two attempts; it doubles up to a second.
	settleEvery = 50 * time.Millisecond
)

// Append adds a batch to its session's log and then shows it to followers. The events are
// passed separately, with session, number and time set; b.Events is ignored. The rows of
// b.Index must be made from these events, or from texts that passed [Writer.RedactText].
//
// The errors are the store's. CodeUnavailable means that nothing was appended. An error
// that is not a parley.Error means that the outcome is unknown, because the log could not
// be read either. Once begun, an append continues even if ctx ends.
func (w *Writer) Append(ctx context.Context, p parley.Principal, b seam.Batch, events Clean) error {
	return w.l.append(ctx, p, b, events, w.l.store.Append)
}

// Fork copies the events of from up to at into the session of b and appends the given
// ones after them; otherwise it is like Append.
func (w *Writer) Fork(ctx context.Context, p parley.Principal, from parley.SessionID, at int64, b seam.Batch, events Clean) error {
	return w.l.append(ctx, p, b, events, func(ctx context.Context, p parley.Principal, b seam.Batch) error {
		return w.l.store.Fork(ctx, p, from, at, b)
	})
}

func (l *log) append(ctx context.Context, p parley.Principal, b seam.Batch, events Clean, to func(context.Context, parley.Principal, seam.Batch) error) error {
	if ctx.Err() != nil {
		return notBegun(ctx)
	}
	b.Events = events.Events()
	ended := endedCalls(b)
	if err := l.seal(ctx, b.Session, ended); err != nil {
		return err
	}
	b.Index.DropChunks = l.withText(b.Session, b.Index.DropChunks)
	ctx = context.WithoutCancel(ctx)
	if err := to(ctx, p, b); err != nil {
		if err = l.settle(ctx, p, b, err); err != nil {
			if _, known := errors.AsType[*parley.Error](err); known {
				l.unseal(b.Session, ended)
			}
			return err
		}
	}
	l.shown(p, b)
	return nil
}

// shown passes what was appended to followers.
func (l *log) shown(p parley.Principal, b seam.Batch) {
	epoch := b.Epoch
	if b.Create {
		epoch = 1
	}
	l.publish(p, b.Session, epoch, b.Events)
	l.bells.ring(p, b)
}

// notBegun is the error of an append whose ctx ended before it began.
func notBegun(ctx context.Context) error {
	cause := context.Cause(ctx)
	if _, ok := errors.AsType[*parley.Error](cause); ok {
		return cause
	}
	return &parley.Error{Code: parley.CodeCancelled, Message: "nothing was appended: the request was cancelled", Err: cause}
}

// Settle checks once more whether an append took place whose error was not a
// parley.Error. If it did, Settle shows it to followers and returns nil. Otherwise the
// error is like Append's. Nothing may be appended to the session before the outcome is
// known.
func (w *Writer) Settle(ctx context.Context, p parley.Principal, b seam.Batch, events Clean, err error) error {
	b.Events = events.Events()
	err = w.l.look(ctx, p, b, err)
	if err == nil {
		w.l.shown(p, b)
	} else if _, known := errors.AsType[*parley.Error](err); known {
		w.l.unseal(b.Session, endedCalls(b))
	}
	return err
}

// settle finds out whether an append that returned err took place, and returns nil if it
// did.
func (l *log) settle(ctx context.Context, p parley.Principal, b seam.Batch, err error) error {
	if _, ok := errors.AsType[*parley.Error](err); ok || len(b.Events) == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for wait := settleEvery; ; wait = min(2*wait, time.Second) {
		found := l.look(ctx, p, b, err)
		if _, known := errors.AsType[*parley.Error](found); known || found == nil || l.keep.isClosed() {
			return found
		}
		select {
		case <-ctx.Done():
			return found
		case <-time.After(wait):
		}
	}
}

// look reads the log at the place of an append that returned err.
func (l *log) look(ctx context.Context, p parley.Principal, b seam.Batch, err error) error {
	there, rerr := l.written(ctx, p, b)
	switch {
	case errors.Is(rerr, parley.ErrNotFound):
		// Not even the session exists.
	case rerr != nil:
		// No %w for the second error: the first one decides the kind of this error.
		return fmt.Errorf("session %s: whether events after %d were appended is unknown: %w; reading the log: %v", b.Session, b.After, err, rerr)
	case slices.EqualFunc(there, b.Events, parley.Event.Equal):
		return nil
	case len(there) > 0:
		return &parley.Error{
			Code: parley.CodeConflict, Err: err,
			Message: fmt.Sprintf("session %s: another event %d was appended meanwhile", b.Session, there[0].Seq),
		}
	}
	return &parley.Error{
		Code: parley.CodeUnavailable, Err: err, RetryAfter: time.Second,
		Message: "the store failed, and nothing was appended",
		Hint:    "the server's log says why; then send the command again",
	}
}

// written reads what the log has where b's events belong.
func (l *log) written(ctx context.Context, p parley.Principal, b seam.Batch) (there []parley.Event, err error) {
	for len(there) < len(b.Events) {
		page, err := l.store.Read(ctx, p, b.Session, b.After+int64(len(there)), len(b.Events)-len(there))
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			break
		}
		there = append(there, page...)
	}
	return there, nil
}

func endedCalls(b seam.Batch) []parley.CallID {
	ids := b.Index.DropChunks
	for _, e := range b.Events {
		if id, _ := ends(e); id != "" && !slices.Contains(ids, id) {
			ids = append(slices.Clip(ids), id)
		}
	}
	return ids
}
