package livefiles

import (
	"context"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// known is a bounded set of sessions that are not ours. It forgets all at once,
// and is asked again then.
type known struct {
	mu  sync.Mutex
	set map[parley.SessionID]struct{}
}

const maxKnown = 4096

func (k *known) has(id parley.SessionID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.set[id]
	return ok
}

func (k *known) add(id parley.SessionID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil || len(k.set) >= maxKnown {
		k.set = map[parley.SessionID]struct{}{}
	}
	k.set[id] = struct{}{}
}

// run writes until it is told to end.
func (f *Files) run() {
	w := &f.w
	ctx := f.life
	retry := firstRetry
	var (
		notBefore time.Time // the next try after a failure
		whole     = true    // all sessions have to be looked at, and not those of the last minutes
		lookAt    time.Time
		looked    = time.Now().Add(-lookMargin) // all that changed before has been looked at, but for whole
		metaAt    time.Time
	)
	for {
		quitting := isClosed(f.quit)
		now := time.Now()
		if failing := now.Before(notBefore); !failing || quitting {
			there := f.o.Data.Check()
			ok, lost := there == nil, false
			if ok {
				ok, lost = w.flush(ctx, f.take(quitting)), f.takeLost()
			}
			switch {
			case there != nil:
				w.failed("", there)
			case quitting:
				ok = ok && w.look(ctx, looked, false, nil)
			case whole:
				if ok = ok && w.look(ctx, looked, true, f.quit); ok {
					whole = false
				}
				lookAt = now.Add(f.o.Every) // for what happened before we listened
			case lost || !now.Before(lookAt):
				if ok = ok && w.look(ctx, looked, false, f.quit); ok {
					looked = now.Add(-lookMargin)
				}
				lookAt = now.Add(lookEvery)
			}
			if f.o.Meta != nil && there == nil && (!now.Before(metaAt) || quitting) {
				ok = w.meta() && ok
				metaAt = now.Add(metaEvery)
			}
			w.forget(now)
			if ok {
				retry, notBefore = firstRetry, time.Time{}
				w.recovered()
			} else {
				notBefore, retry = now.Add(retry), min(2*retry, lastRetry)
				f.o.Behind(max(1, f.waiting()))
			}
		}
		if quitting || ctx.Err() != nil {
			return
		}
		next, wake := f.next(), f.wake
		if next.IsZero() || lookAt.Before(next) {
			next = lookAt
		}
		if f.o.Meta != nil && metaAt.Before(next) {
			next = metaAt
		}
		if !notBefore.IsZero() {
			next, wake = notBefore, nil // what comes meanwhile waits too
		}
		t := time.NewTimer(time.Until(next))
		select {
		case <-wake:
		case <-t.C:
		case <-f.quit:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// flush writes what is marked, and reports whether all of it could be written.
func (w *writer) flush(ctx context.Context, ready map[parley.SessionID]mark) bool {
	ok := true
	for id, m := range ready {
		if !ok || ctx.Err() != nil {
			w.f.again(id, m) // one failure is enough: the others would wait for the same disk
			continue
		}
		written, err := w.refresh(ctx, id, !m.now)
		switch {
		case err != nil && !w.failed(id, err):
			ok = false
			w.f.again(id, m)
		case err == nil && !written:
			w.f.again(id, m)
		}
	}
	return ok
}

// look brings the files of all sessions up to date that changed since a time,
// newest first; with all, those of every session, and removes what belongs to
// none. It stops when the server does: the next start goes on.
func (w *writer) look(ctx context.Context, since time.Time, all bool, quit <-chan struct{}) bool {
	flushed := time.Now()
	for app, on := range w.f.o.Apps {
		if !on {
			continue
		}
		q := seam.SessionQuery{App: app, Limit: pageOf(all), Direct: true}
		for more := true; more; {
			page, err := w.f.o.Store.Sessions(ctx, parley.System(), q)
			if err != nil {
				return w.failed("", err)
			}
			for _, s := range page {
				if isClosed(quit) || ctx.Err() != nil {
					return true
				}
				if !all && s.UpdatedAt.Before(since) {
					more = false
					break
				}
				if w.upToDate(s.ID, s.Version) {
					continue
				}
				if now := time.Now(); now.Sub(flushed) > w.f.o.Every { // turns go on while many files are written
					flushed = now
					if !w.flush(ctx, w.f.take(false)) {
						return false
					}
				}
				if _, err := w.refresh(ctx, s.ID, true); err != nil && !w.failed(s.ID, err) {
					return false
				}
				if have := w.open[s.ID]; have != nil && !have.files.Running() {
					w.drop(s.ID)
				}
			}
			if len(page) < q.Limit {
				break
			}
			q.After = q.Mark(page[len(page)-1])
		}
	}
	if !all {
		return true
	}
	if err := w.sweep(ctx, quit); err != nil {
		return w.failed("", err)
	}
	if isClosed(quit) || ctx.Err() != nil {
		return true
	}
	if err := w.setForm(); err != nil {
		return w.failed("", err)
	}
	return true
}

func pageOf(all bool) int {
	if all {
		return 500
	}
	return 50
}
