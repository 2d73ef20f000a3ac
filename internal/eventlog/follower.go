package eventlog

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
)

// follower is one Follow. It reads the store until nothing new is there, then takes from
// its queue, and returns to the store when the queue overflowed.
type follower struct {
	l       *log
	session parley.SessionID
	deltas  bool
	wake    chan struct{} // holds one signal; several followers may share it

	// Used by the goroutine that follows.
	live  bool   // this goroutine's copy of on
	at    int64  // the last event yielded
	asked bool   // the cursor was checked
	batch []item // what was taken from the queue
	slab  []parley.Delta

	// Guarded by the hub's lock.
	h       *hub
	on      bool  // new frames are queued; otherwise they will be read from the store
	pos     int64 // the last event yielded or queued
	fresh   bool  // partials are due once the hub has published pos
	waiting bool  // for a signal
	reset   bool  // the queue overflowed
	queue   []item
	bytes   int
}

// item is a queued frame: an event, or a stretch of a call's text.
type item struct {
	event   *parley.Event
	call    *call
	of      *text
	partial bool
	n       int64
	from    int
	text    string // of from and on
}

// step yields what is ready: a page of the store, or what is queued. It returns idle when
// nothing was ready; the follower is then signalled when something is. more is false when
// the reader wants nothing else.
func (f *follower) step(ctx context.Context, p parley.Principal, yield func(Frame, error) bool) (idle, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, false, context.Cause(ctx)
	}
	if !f.live {
		more, err = f.page(ctx, p, yield)
		return false, more, err
	}
	return f.drain(yield)
}

// page yields one page: of the running turn's events, or else of the store. After the last page
// the follower is live: whatever is published from then on is queued.
//
// Either is read before the follower is in a hub, so a p without access ends here.
func (f *follower) page(ctx context.Context, p parley.Principal, yield func(Frame, error) bool) (more bool, err error) {
	if events := f.l.recent(p, f.session, f.at); len(events) > 0 {
		return f.paged(events, nil, yield)
	}
	leave, err := f.l.reading.sit(ctx, p)
	if err != nil {
		return false, err
	}
	taken := sync.OnceFunc(leave)
	defer taken()
	var events []parley.Event
	aside.Do(func() {
		events, err = f.l.read(ctx, p, f.session, f.at, f.l.o.Page)
		if err == nil && !f.asked && len(events) == 0 {
			err = f.l.checkCursor(ctx, p, f.session, f.at)
		}
	})
	if err != nil {
		return false, err
	}
	return f.paged(events, taken, yield)
}

// paged yields a page.
func (f *follower) paged(events []parley.Event, taken func(), yield func(Frame, error) bool) (more bool, err error) {
	f.asked = true
	for i := range events {
		f.at = events[i].Seq
		if !yield(Frame{Event: &events[i], More: i+1 < len(events), taken: taken}, nil) {
			return false, nil
		}
	}
	f.live, err = f.join(len(events) == 0)
	return err == nil, err
}

// join makes the follower live, unless the hub has published, or may have published,
// something that was not there when the store was read. end says that the store had
// nothing more then.
func (f *follower) join(end bool) (bool, error) {
	h, known := f.h, true
	if h == nil {
		h = f.l.hubs.lock(f.session, true)
		h.followers = append(h.followers, f)
		f.h = h
		known = false // what was published before a hub existed
	} else {
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	if h.gone != nil {
		return false, h.gone
	}
	switch {
	case h.last != 0 && h.last == f.at: // the log ends where the store's page did
	case end && h.last <= f.at && (known || h.last != 0):
	default:
		return false, nil
	}
	f.drop() // left over from an earlier use
	f.on, f.reset, f.pos, f.fresh = true, false, f.at, f.deltas
	f.pushPartials()
	return true, nil
}

// drain yields what is queued.
func (f *follower) drain(yield func(Frame, error) bool) (idle, more bool, err error) {
	idle, reset, err := f.take()
	if idle || err != nil {
		return idle, err == nil, err
	}
	if reset {
		f.live = false
		return false, !f.deltas || yield(Frame{Reset: &ResetInfo{Session: f.session, After: f.at, Reason: "slow reader"}}, nil), nil
	}
	defer clear(f.batch) // the next batch may be long in coming: keep no text alive
	for i := range f.batch {
		it := &f.batch[i]
		fr := Frame{Event: it.event, Partial: it.partial, More: i+1 < len(f.batch)}
		if it.event == nil {
			fr.Delta = f.delta(it)
		} else if it.event.Seq != f.at+1 {
			// Another process has appended: read the log.
			f.live = false
			f.pause()
			return false, true, nil
		} else {
			f.at = it.event.Seq
		}
		if !yield(fr, nil) {
			return false, false, nil
		}
	}
	return false, true, nil
}

// delta makes the delta of an item. Deltas are allocated in blocks and handed out once,
// so the reader may keep them.
func (f *follower) delta(it *item) *parley.Delta {
	if len(f.slab) == 0 {
		f.slab = make([]parley.Delta, 8)
	}
	d := &f.slab[0]
	f.slab = f.slab[1:]
	*d = parley.Delta{
		Session: f.session, Turn: it.call.turn, Agent: it.call.agent, Call: it.call.id,
		Kind: it.of.kind, N: it.n, Text: it.text,
	}
	return d
}

// take moves the queue to the batch. If it is empty it returns idle, and the next queued
// item sends a signal.
func (f *follower) take() (idle, reset bool, err error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.waiting = false
	switch {
	case f.reset:
		f.reset, reset = false, true
	case len(f.queue) > 0:
		f.batch, f.queue, f.bytes = f.queue, f.batch[:0], 0
	case f.h.gone != nil:
		err = f.h.gone
	default:
		f.waiting, idle = true, true
		if cap(f.queue)+cap(f.batch) > keptItems {
			f.queue, f.batch = nil, nil // after a burst, an idle follower is small again
		}
	}
	return idle, reset, err
}

// keptItems is room for two queues of tokens that come one by one.
const keptItems = 16

// pause stops queueing: the store is read next.
func (f *follower) pause() {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	f.drop()
}

// leave ends the follower.
func (f *follower) leave() {
	h := f.h
	if h == nil {
		return
	}
	h.mu.Lock()
	if i := slices.Index(h.followers, f); i >= 0 {
		h.followers = slices.Delete(h.followers, i, i+1)
	}
	idle := h.idle()
	h.mu.Unlock()
	if idle {
		f.l.hubs.free(h)
	}
}

// The following are called under the hub's lock.

func (f *follower) ring() {
	if f.waiting {
		f.waiting = false
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

func (f *follower) drop() {
	clear(f.queue)
	f.queue, f.bytes, f.on = f.queue[:0], 0, false
}

// pushEvent queues a published event unless the follower has it.
func (f *follower) pushEvent(e *parley.Event) {
	if !f.on || e.Seq <= f.pos {
		return
	}
	f.pos = e.Seq
	f.bytes += eventSize + len(e.Data)
	f.push(item{event: e})
}

// eventSize is roughly the overhead of an event besides its data, in bytes.
const eventSize = 256

// pushText queues what t has shown from byte from on, joined with queued text of the same
// call if nothing is between them.
func (f *follower) pushText(c *call, t *text, from int) {
	if !f.on || !f.deltas || f.fresh {
		return
	}
	s := t.out.String()
	if n := len(f.queue); n > 0 {
		if last := &f.queue[n-1]; last.of == t {
			last.n, last.text = c.n, s[last.from:]
			f.ring()
			return
		}
	}
	f.push(item{call: c, of: t, n: c.n, from: from, text: s[from:]})
}

func (f *follower) push(it item) {
	if len(f.queue) >= f.l.o.MaxQueue || f.bytes > f.l.o.MaxQueueBytes && len(f.queue) > 0 {
		f.drop()
		f.reset = true
	} else {
		f.queue = append(f.queue, it)
	}
	f.ring()
}

// pushPartials queues the partials that are due. A follower may have read events from the
// store that the hub has yet to publish; until then the hub's knowledge of calls is older
// than the follower's.
func (f *follower) pushPartials() {
	if !f.on || !f.fresh || f.h.last < f.pos {
		return
	}
	f.fresh = false
	for _, c := range f.h.calls {
		for _, t := range c.kinds {
			if t.out.Len() > 0 {
				f.push(item{call: c, of: t, partial: true, n: c.n, text: t.out.String()})
			}
		}
	}
}
