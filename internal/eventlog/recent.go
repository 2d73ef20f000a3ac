package eventlog

import (
	"slices"

	"github.com/parley-server/parley"
)

// recentBytes limits what a hub keeps of a running turn's events: a message of usual length
// and some steps.
const recentBytes = 16 << 10

// recent is the end of the log while a turn runs. Whoever asks for a turn follows it from its first
// event, which has just been committed: those events are here, and the store need not be
// read. It is guarded by its hub's lock.
type recent struct {
	owner  parley.Principal
	events []parley.Event // without gaps, up to the hub's last; shared with its followers
	bytes  int
}

// add appends what was published. Nothing is kept of a turn that has ended, nor of events
// whose owner is not known.
func (r *recent) add(owner parley.Principal, events []parley.Event) {
	if owner.IsSystem() || slices.ContainsFunc(events, func(e parley.Event) bool { return endsTurn(e.Type) }) {
		*r = recent{}
		return
	}
	size := 0
	for _, e := range events {
		size += eventSize + len(e.Data)
	}
	if n := len(r.events); n > 0 && len(events) > 0 && r.events[n-1].Seq+1 != events[0].Seq || r.bytes+size > recentBytes {
		*r = recent{} // another process has appended, or it is too much
	}
	if size <= recentBytes {
		r.owner, r.bytes = owner, r.bytes+size
		r.events = append(r.events, events...)
	}
}

// recent returns the events after the given number, if p may see them and the hub has all of them.
// The store decides about everything else.
func (l *log) recent(p parley.Principal, session parley.SessionID, after int64) []parley.Event {
	h := l.hubs.lock(session, false)
	if h == nil {
		return nil
	}
	defer h.mu.Unlock()
	r := &h.recent
	if len(r.events) == 0 || after < r.events[0].Seq-1 || after >= h.last || !p.Owns(r.owner.User, r.owner.Org) {
		return nil
	}
	return slices.Clip(r.events[after-r.events[0].Seq+1:])
}
