package claudecli

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
)

// maxPending limits the lines that a turn has not handled yet, in bytes. Each call waits at the gate
// until the lines before it are handled, so that much is not waiting even if the store is slow.
const maxPending = 2 * maxLine

// lines are what the CLI has written for a turn and the turn has not handled yet, in order.
type lines struct {
	came chan struct{} // holds a value when there may be lines

	mu    sync.Mutex
	list  []message
	size  int
	took  int           // lines so far
	done  int           // of these, handled
	moved chan struct{} // closed and replaced when done grows
}

func newLines() *lines { return &lines{came: make(chan struct{}, 1), moved: make(chan struct{})} }

// take adds a line. It does not block: the reader has the answers to our own requests, too. It returns
// false if there are too many.
func (l *lines) take(m message) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+m.size > maxPending {
		return false
	}
	l.list, l.size, l.took = append(l.list, m), l.size+m.size, l.took+1
	select {
	case l.came <- struct{}{}:
	default:
	}
	return true
}

func (l *lines) next() (m message, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		return m, false
	}
	m, l.list[0] = l.list[0], message{} // the array is kept, its contents are not
	l.list, l.size = l.list[1:], l.size-m.size
	return m, true
}

// handled says that the line of the last next is handled.
func (l *lines) handled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done++
	close(l.moved)
	l.moved = make(chan struct{})
}

// flush waits until the lines that the CLI has written so far are handled, so that the log has things in
// the order in which they happened.
func (l *lines) flush(ctx, over context.Context) {
	l.mu.Lock()
	upTo := l.took
	l.mu.Unlock()
	for {
		l.mu.Lock()
		done, moved := l.done >= upTo, l.moved
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		case <-over.Done():
			return
		}
	}
}

// take gets a line of the CLI. It does not block.
func (t *turn) take(m message) {
	if !t.lines.take(m) {
		t.fail(parley.Errorf(parley.CodeTooLarge, "the Claude CLI has written more than %d MiB that are not recorded yet", maxPending>>20).
			WithHint("send the message again; the server's store is slow, or the CLI is broken"))
	}
}

// flush waits until what the CLI has written so far is handled.
func (t *turn) flush(ctx context.Context) { t.lines.flush(ctx, t.ctx) }
