package eventlog

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// keeper stores new text: one ticker for all sessions, which stops while nothing is new.
//
// Text of a call must not be stored after the append that ended it, or it would stay for
// ever. So that append first seals the call, and waits for a running save of its session.
type keeper struct {
	l *log

	run sync.Mutex // one save at a time

	mu     sync.Mutex
	dirty  []*hub
	timer  *time.Timer
	closed bool
	failed bool // the last save failed; avoids logging it again
}

// Chunks saved in one call of the store.
const chunksAtOnce = 512

func (k *keeper) init(l *log) { k.l = l }

// add records that h has new text. It is called under the lock of h.
func (k *keeper) add(h *hub) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dirty = append(k.dirty, h)
	if k.timer == nil && !k.closed {
		k.timer = time.AfterFunc(k.l.o.FlushEvery, k.tick)
	}
}

func (k *keeper) tick() {
	// Close must not wait for a store that does not come back.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	k.run.Lock()
	defer k.run.Unlock()
	k.mu.Lock()
	k.timer = nil
	closed := k.closed
	k.mu.Unlock()
	if !closed {
		k.save(ctx)
	}
}

// saved is how far a save has come with one call.
type saved struct {
	h    *hub
	c    *call
	upTo int
}

// save stores all new text. k.run is held.
func (k *keeper) save(ctx context.Context) error {
	k.mu.Lock()
	hubs := k.dirty
	k.dirty = nil
	k.mu.Unlock()

	done := make(chan struct{})
	var chunks []seam.Chunk
	var calls []saved
	for _, h := range hubs {
		h.mu.Lock()
		h.dirty = false
		if h.dead {
			h.mu.Unlock()
			continue
		}
		for _, c := range h.calls {
			if s := c.answer(); !c.sealed && len(s) > c.saved {
				chunks = append(chunks, seam.Chunk{Session: h.id, Epoch: h.epoch, Call: c.id, N: c.n, Text: s[c.saved:]})
				calls = append(calls, saved{h, c, len(s)})
				c.stored = true
				h.saving = done
			}
		}
		h.mu.Unlock()
	}
	var err error
	kept := 0
	for kept < len(chunks) && err == nil {
		n := min(len(chunks)-kept, chunksAtOnce)
		if err = k.l.store.SaveChunks(ctx, parley.System(), chunks[kept:kept+n]); err == nil {
			kept += n
		}
	}
	for i, s := range calls {
		s.h.mu.Lock()
		s.h.saving = nil
		if i < kept {
			s.c.saved = s.upTo
		} else if !s.h.dirty && !s.h.dead {
			s.h.dirty = true
			k.add(s.h)
		}
		s.h.mu.Unlock()
	}
	close(done)
	if err != nil && !k.failed {
		k.l.o.Logger.Warn("text in flight cannot be stored; it will be tried again", "err", err)
	}
	k.failed = err != nil
	return err
}

// seal stops storing text of calls that an append is about to end, and waits for a
// running save; unseal reverts that.
func (l *log) seal(ctx context.Context, session parley.SessionID, ids []parley.CallID) error {
	if len(ids) == 0 {
		return nil
	}
	h := l.hubs.lock(session, false)
	if h == nil {
		return nil
	}
	for _, id := range ids {
		if c := h.call(id); c != nil {
			c.sealed = true
		}
	}
	saving := h.saving
	h.mu.Unlock()
	if saving != nil {
		select {
		case <-saving:
		case <-ctx.Done():
			l.unseal(session, ids)
			return notBegun(ctx)
		}
	}
	return nil
}

// withText returns those of sealed calls of whose text something may be in the store: all but the calls
// that began here and of which nothing was saved, as most replies are over before the first save.
func (l *log) withText(session parley.SessionID, ids []parley.CallID) []parley.CallID {
	if len(ids) == 0 {
		return nil
	}
	h := l.hubs.lock(session, false)
	if h == nil {
		return ids
	}
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id parley.CallID) bool {
		c := h.call(id)
		return c != nil && !c.stored
	})
}

// unseal lets text of calls be stored again, after a failed append.
func (l *log) unseal(session parley.SessionID, ids []parley.CallID) {
	if len(ids) == 0 {
		return
	}
	h := l.hubs.lock(session, false)
	if h == nil {
		return
	}
	defer h.mu.Unlock()
	for _, id := range ids {
		if c := h.call(id); c != nil {
			c.sealed = false
		}
	}
	if !h.dirty {
		h.dirty = true
		l.keep.add(h)
	}
}

// isClosed reports whether the log is closing.
func (k *keeper) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// Close stores what is new and ends all followers. Nothing is stored after it.
func (w *Writer) Close(ctx context.Context) error {
	k := &w.l.keep
	k.mu.Lock()
	k.closed = true
	if k.timer != nil {
		k.timer.Stop()
	}
	k.mu.Unlock()
	k.run.Lock() // waits for a running save
	defer k.run.Unlock()
	err := k.save(ctx)
	(&Reader{w.l}).Hangup()
	return err
}

// Hangup ends every current and later Follow and Watch with CodeUnavailable, for a server
// that is about to stop while its turns still run.
func (r *Reader) Hangup() {
	why := shuttingDown()
	r.l.hubs.endAll(why)
	r.l.bells.endAll(why)
	r.l.sets.endAll(why)
	r.l.hangup()
}

// shuttingDown is what followers are told when the server stops.
func shuttingDown() error {
	return parley.Errorf(parley.CodeUnavailable, "the server is shutting down").
		WithHint("connect again with the last number you have").WithRetry(time.Second)
}
