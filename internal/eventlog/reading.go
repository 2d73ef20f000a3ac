package eventlog

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
)

// maxReading is how many pages of the store a user's followers may be reading at once.
// Reading a page takes less time than sending it, so more would only use memory. The
// limit is per user: clients that do not read delay nobody else.
const maxReading = 8

// desks limit the reading of pages, per user.
type desks struct {
	mu sync.Mutex
	of map[parley.Principal]*desk
}

type desk struct {
	seats chan struct{} // one element per taken seat
	known int           // how many sit or wait; the last one removes the desk
}

// sit waits for a seat; leave frees it.
func (d *desks) sit(ctx context.Context, p parley.Principal) (leave func(), err error) {
	d.mu.Lock()
	at := d.of[p]
	if at == nil {
		if d.of == nil {
			d.of = map[parley.Principal]*desk{}
		}
		at = &desk{seats: make(chan struct{}, maxReading)}
		d.of[p] = at
	}
	at.known++
	d.mu.Unlock()
	gone := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if at.known--; at.known == 0 {
			delete(d.of, p)
		}
	}
	select {
	case at.seats <- struct{}{}:
		return func() { <-at.seats; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
