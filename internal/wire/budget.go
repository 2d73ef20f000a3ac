package wire

import (
	"container/list"
	"sync"
)

const (
	// inFlight bounds the bytes that all streams of this process together hold for
	// clients that do not read.
	inFlight = 64 << 20
	// behind is about what a stream holds beside the bytes that it writes: a page
	// of the log.
	behind = 64 << 10
)

// held is the budget of this process: memory is the process's, not a listener's.
var held = newBudget(inFlight)

// budget is a bound on the bytes that streams are writing. A client that reads
// gives its share back within moments. When there is no more, the stream goes
// that has been at its write for longest: its client comes back with the number
// of the last event that it has, and misses nothing. So those who do not read
// delay nobody, and hold no more than this.
type budget struct {
	max int

	mu   sync.Mutex
	used int
	all  *list.List // of *writing, the one that began first in front
}

// writing is one write under way.
type writing struct {
	size int
	cut  func() // makes the write fail; it does not wait
}

func newBudget(max int) *budget { return &budget{max: max, all: list.New()} }

// begin counts a write of so many bytes, until end is called with what it
// returned. It never waits.
func (b *budget) begin(size int, cut func()) *list.Element {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all.PushBack(&writing{size, cut})
	b.used += size
	for b.used > b.max && b.all.Len() > 1 {
		slowest := b.all.Front()
		b.take(slowest)
		slowest.Value.(*writing).cut()
	}
	return e
}

func (b *budget) end(e *list.Element) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(e)
}

func (b *budget) take(e *list.Element) {
	if w := e.Value.(*writing); w.size > 0 {
		b.used -= w.size
		w.size = 0 // it may have been cut before it ends
		b.all.Remove(e)
	}
}
