package eventlog

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
)

// maxReading is how many pages of the store may be on their way to a user's
// followers. A page takes less time to read than a client's network does, so more
// would only take memory. Each user has as many: one whose clients do not read
// makes nobody else wait.
const maxReading = 8

// desks are where pages are read.
type desks struct {
	mu sync.Mutex
	of map[parley.Principal]*desk
}

type desk struct {
	seats chan struct{} // holds one for each that is taken
	known int           // who sits or waits; the last one takes the desk away
}

// sit waits for a seat; leave gives it back.
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
