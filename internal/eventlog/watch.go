package eventlog

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Bell says that a session has reached an event. A Bell without a Session says that too
// much has changed to list: read the lists again.
type Bell struct {
	Session parley.SessionID `json:"session,omitempty"`
	Seq     int64            `json:"seq,omitempty"`
}

// maxBells is the most sessions remembered for one watcher.
const maxBells = 256

// Watch yields a Bell when a session of p has new events, for lists that stay live. While
// the watcher is busy, Bells of a session are merged, and one may be lost: lists are read
// from the index. Watch ends with ctx's cause, or with CodeUnavailable when the server
// shuts down.
func (r *Reader) Watch(ctx context.Context, p parley.Principal) iter.Seq2[Bell, error] {
	return func(yield func(Bell, error) bool) {
		w := &watcher{seqs: map[parley.SessionID]int64{}, wake: make(chan struct{}, 1)}
		bs := &r.l.bells
		bs.add(p, w)
		defer bs.remove(p, w)
		for {
			select {
			case <-w.wake:
			case <-ctx.Done():
				yield(Bell{}, context.Cause(ctx))
				return
			}
			rung, gone := bs.take(w)
			for _, b := range rung {
				if !yield(b, nil) {
					return
				}
			}
			if gone != nil {
				yield(Bell{}, gone)
				return
			}
		}
	}
}

// bells holds the watchers, by the principal they watch for.
type bells struct {
	any  atomic.Int64 // number of watchers; appends look no further when it is 0
	mu   sync.Mutex
	of   map[parley.Principal]map[*watcher]struct{}
	gone error
}

type watcher struct {
	wake chan struct{} // holds one signal
	seqs map[parley.SessionID]int64
	more bool // there were too many
}

func (bs *bells) init() { bs.of = map[parley.Principal]map[*watcher]struct{}{} }

func (bs *bells) add(p parley.Principal, w *watcher) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.of[p] == nil {
		bs.of[p] = map[*watcher]struct{}{}
	}
	bs.of[p][w] = struct{}{}
	bs.any.Add(1)
	if bs.gone != nil {
		w.wake <- struct{}{}
	}
}

func (bs *bells) remove(p parley.Principal, w *watcher) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	delete(bs.of[p], w)
	if len(bs.of[p]) == 0 {
		delete(bs.of, p)
	}
	bs.any.Add(-1)
}

// ring signals the watchers of the batch's owner, and those that see everything.
func (bs *bells) ring(p parley.Principal, b seam.Batch) {
	if bs.any.Load() == 0 {
		return
	}
	owner := p
	if s := b.Index.Session; s != nil {
		owner = parley.Principal{User: s.User, Org: s.Org}
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	seq := b.After + int64(len(b.Events))
	for w := range bs.of[owner] {
		w.ring(b.Session, seq)
	}
	if !owner.IsSystem() {
		for w := range bs.of[parley.System()] {
			w.ring(b.Session, seq)
		}
	}
}

func (bs *bells) endAll(why error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.gone = why
	for _, ws := range bs.of {
		for w := range ws {
			w.nudge()
		}
	}
}

// take returns the bells since the last call.
func (bs *bells) take(w *watcher) ([]Bell, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var rung []Bell
	if w.more {
		rung = []Bell{{}}
	} else {
		for id, seq := range w.seqs {
			rung = append(rung, Bell{id, seq})
		}
	}
	clear(w.seqs)
	w.more = false
	return rung, bs.gone
}

func (w *watcher) ring(id parley.SessionID, seq int64) {
	if _, ok := w.seqs[id]; !ok && len(w.seqs) == maxBells {
		w.more = true
	} else {
		w.seqs[id] = max(seq, w.seqs[id])
	}
	w.nudge()
}

func (w *watcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
