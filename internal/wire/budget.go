package wire

import (
	"container/list"
	"sync"
)

const (
	// inFlight bounds the bytes that all streams of this process together hold for
	// clients that do not read. The collector lets a heap grow to twice of what is
	// held.
	inFlight = 32 << 20
	// behind is about what a stream holds beside what it has encoded: a page of the
	// log.
	behind = 64 << 10
)

// held is the budget of this process: memory is the process's, not a listener's.
var held = newBudget(inFlight)

// budget is a bound on the bytes that streams hold. A client that reads gives its
// share back within moments. When there is no more, the stream goes that has held
// its share for longest: its client comes back with the number of the last event
// that it has, and misses nothing. So those who do not read hold no more than
// this, and delay others for no longer than a connection takes to be closed.
type budget struct {
	max int

	mu      sync.Mutex
	freed   sync.Cond
	used    int
	leaving int        // of used, by streams that were cut and have yet to end
	all     *list.List // of *share that were not cut, the one that began first in front
}

// share is what one stream holds.
type share struct {
	size int
	at   *list.Element // nil once it was cut
	cut  func()        // makes the stream's writes fail; it does not wait
}

func newBudget(max int) *budget {
	b := &budget{max: max, all: list.New()}
	b.freed.L = &b.mu
	return b
}

// begin counts so many bytes until end is called. It waits until there is room,
// which those who were cut make. Something larger than the whole budget is alone.
func (b *budget) begin(size int, cut func()) *share {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.used > 0 && b.used+size > b.max {
		for b.used-b.leaving+size > b.max && b.all.Len() > 0 {
			slowest := b.all.Remove(b.all.Front()).(*share)
			slowest.at = nil
			b.leaving += slowest.size
			slowest.cut()
		}
		b.freed.Wait()
	}
	s := &share{size: size, cut: cut}
	s.at = b.all.PushBack(s)
	b.used += size
	return s
}

func (b *budget) end(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= s.size; s.at == nil {
		b.leaving -= s.size
	} else {
		b.all.Remove(s.at)
	}
	b.freed.Broadcast()
}
