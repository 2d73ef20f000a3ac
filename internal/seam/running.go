package seam

import (
	"sync"

	"github.com/parley-server/parley"
)

// Running are the calls that are under way in a toolset of this process. Its Over is that of [Local]. The zero value has none.
type Running struct {
	mu  sync.Mutex
	all map[parley.CallID]bool
}

// Begin notes that a call is under way until over is called.
func (r *Running) Begin(c parley.CallID) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[parley.CallID]bool{}
	}
	r.all[c] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, c)
	}
}

// Over implements Local.
func (r *Running) Over(_ string, c parley.CallID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.all[c]
}
