package eventlog

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/parley-server/parley"
)

// hub is the live end of one session: its followers, and what its open calls have shown.
// It exists while there is either.
//
// Order matters most. Everything that happens to a session in this process happens under
// its hub's lock, and goes into every follower's queue in that order; a reader that has
// caught up with the hub cannot be overtaken.
type hub struct {
	id parley.SessionID

	mu        sync.Mutex
	epoch     int64 // of the last published events
	last      int64 // number of the last published event; 0: none since the hub was made
	recent    recent
	calls     []*call
	followers []*follower
	gone      error         // why followers end
	dead      bool          // no longer in the table: look it up again
	dirty     bool          // the keeper knows that there is new text
	saving    chan struct{} // closed when the running save is over
}

// hubs is the table of hubs, sharded so that sessions do not wait for one another. Locks
// are taken in the order shard, hub, keeper.
type hubs struct {
	seed  maphash.Seed
	shard [32]struct {
		mu   sync.Mutex
		m    map[parley.SessionID]*hub
		down error // ends all current and later followers
	}
}

func (t *hubs) init() {
	t.seed = maphash.MakeSeed()
	for i := range t.shard {
		t.shard[i].m = map[parley.SessionID]*hub{}
	}
}

// find returns the session's hub; nil if there is none and make is false.
func (t *hubs) find(id parley.SessionID, make bool) *hub {
	s := &t.shard[maphash.String(t.seed, string(id))%uint64(len(t.shard))]
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.m[id]
	if h == nil && make {
		h = &hub{id: id, gone: s.down}
		s.m[id] = h
	}
	return h
}

// lock returns the session's hub locked, or nil.
func (t *hubs) lock(id parley.SessionID, make bool) *hub {
	for {
		h := t.find(id, make)
		if h == nil {
			return nil
		}
		h.mu.Lock()
		if !h.dead {
			return h
		}
		h.mu.Unlock()
	}
}

// free removes h from the table if nothing needs it.
func (t *hubs) free(h *hub) {
	s := &t.shard[maphash.String(t.seed, string(h.id))%uint64(len(t.shard))]
	s.mu.Lock()
	defer s.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.dead && h.idle() {
		h.dead = true
		delete(s.m, h.id)
	}
}

// end removes the session's hub from the table and ends its followers.
func (t *hubs) end(id parley.SessionID, why error) {
	s := &t.shard[maphash.String(t.seed, string(id))%uint64(len(t.shard))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.m[id]; h != nil {
		h.mu.Lock()
		h.dead, h.gone, h.calls = true, why, nil
		h.wakeAll()
		h.mu.Unlock()
		delete(s.m, id)
	}
}

// endAll ends all current and later followers.
func (t *hubs) endAll(why error) {
	for i := range t.shard {
		s := &t.shard[i]
		s.mu.Lock()
		s.down = why
		for _, h := range s.m {
			h.mu.Lock()
			h.gone = why
			h.wakeAll()
			h.mu.Unlock()
		}
		s.mu.Unlock()
	}
}

func (h *hub) idle() bool {
	if len(h.followers) > 0 {
		return false
	}
	return !slices.ContainsFunc(h.calls, func(c *call) bool { return c.started || c.n > 0 })
}

func (h *hub) wakeAll() {
	for _, f := range h.followers {
		f.ring()
	}
}

func (h *hub) call(id parley.CallID) *call {
	for _, c := range h.calls {
		if c.id == id {
			return c
		}
	}
	return nil
}

// show adds to what a call has shown and passes it on.
func (h *hub) show(c *call, t *text, fragment string) {
	from := t.out.Len()
	t.out.WriteString(fragment)
	c.size += len(fragment)
	for _, f := range h.followers {
		f.pushText(c, t, from)
	}
}

// event passes on one committed event and applies it to the calls.
func (l *log) event(h *hub, e *parley.Event) {
	if id, tail := ends(*e); id != "" {
		if c := h.call(id); c != nil {
			if tail {
				l.showTails(h, c)
			}
			h.calls = slices.DeleteFunc(h.calls, func(x *call) bool { return x == c })
		}
	}
	for _, f := range h.followers {
		f.pushEvent(e)
	}
	h.last = e.Seq
	if endsTurn(e.Type) {
		h.calls = slices.DeleteFunc(h.calls, func(c *call) bool { return c.turn == e.Turn })
	}
	if id, started := begins(*e); id != "" {
		if c := h.call(id); c != nil {
			c.started = c.started || started
		} else if len(h.calls) < l.o.MaxCalls {
			h.calls = append(h.calls, &call{id: id, turn: e.Turn, agent: e.Agent, started: started})
		}
	}
}

func (l *log) showTails(h *hub, c *call) {
	for _, t := range c.kinds {
		if tail := t.in.Close(); tail != "" && c.size+len(tail) <= l.o.MaxText {
			// A number of its own, so that the numbers shown only grow.
			c.n++
			h.show(c, t, tail)
		}
	}
}

// publish passes on a committed batch of owner's.
func (l *log) publish(owner parley.Principal, id parley.SessionID, epoch int64, events []parley.Event) {
	begin := slices.ContainsFunc(events, func(e parley.Event) bool { id, _ := begins(e); return id != "" })
	h := l.hubs.lock(id, begin)
	if h == nil {
		return
	}
	h.epoch = epoch
	for i := range events {
		l.event(h, &events[i])
	}
	h.recent.add(owner, events)
	for _, f := range h.followers {
		f.pushPartials()
	}
	idle := h.idle()
	h.mu.Unlock()
	if idle {
		l.hubs.free(h)
	}
}

// Publish shows a redacted fragment of text to the followers of its session. It sets the
// delta's N, and never blocks. A fragment is dropped if its call is not open or its text
// exceeds Options.MaxText.
func (w *Writer) Publish(d parley.Delta) {
	l := w.l
	h := l.hubs.lock(d.Session, false)
	if h == nil {
		return
	}
	defer h.mu.Unlock()
	c := h.call(d.Call)
	if c == nil || c.size+len(d.Text) > l.o.MaxText {
		if c != nil {
			c.size = l.o.MaxText // show no more: text with a gap is useless
		}
		return
	}
	c.n++
	t := c.text(d.Kind, l.redactor(d.Session))
	safe := t.in.Write(d.Text)
	if safe == "" {
		return
	}
	h.show(c, t, safe)
	if d.Kind == parley.DeltaText && !h.dirty {
		h.dirty = true
		l.keep.add(h)
	}
}

// Partial returns the answer's text that an open call has shown so far, and how many
// fragments it took. ok is false if the call is not open.
func (w *Writer) Partial(session parley.SessionID, id parley.CallID) (shown string, n int64, ok bool) {
	h := w.l.hubs.lock(session, false)
	if h == nil {
		return "", 0, false
	}
	defer h.mu.Unlock()
	c := h.call(id)
	if c == nil {
		return "", 0, false
	}
	return c.answer(), c.n, true
}

// Forget ends the followers of a deleted session with [parley.ErrNotFound].
func (w *Writer) Forget(session parley.SessionID) {
	w.l.hubs.end(session, notFound(session))
}

func notFound(session parley.SessionID) error {
	return parley.Errorf(parley.CodeNotFound, "session %s does not exist", session).
		WithHint("it was deleted, or is another user's; do not ask for it again")
}

// Streaming reports whether text of a turn is arriving now.
func (r *Reader) Streaming(session parley.SessionID, turn parley.TurnID) bool {
	h := r.l.hubs.lock(session, false)
	if h == nil {
		return false
	}
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.calls, func(c *call) bool { return c.turn == turn && c.answer() != "" })
}
