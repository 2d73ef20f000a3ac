package proc

import (
	"strings"
	"sync"
)

// Tail keeps the last Max bytes that are written to it, such as what a program says before
// it fails. It is safe for concurrent use.
type Tail struct {
	Max int

	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-t.Max):]...)
	t.buf = t.buf[max(0, len(t.buf)-t.Max):]
	return len(p), nil
}

// String is what was kept, as valid text.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(strings.TrimSpace(string(t.buf)), "\uFFFD")
}
