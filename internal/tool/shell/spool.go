//go:build unix

package shell

import (
	"fmt"
	"strings"
	"sync"
)

// maxKept is how many bytes of unread output are kept, the first half and the last.
const maxKept = 1 << 20

// spool keeps what a command writes until it is taken: the beginning and, beyond maxKept, the end.
type spool struct {
	mu      sync.Mutex
	head    []byte
	ring    []byte // the end, once the beginning is full; begins at at when it is full, too
	at      int
	dropped int64 // bytes between the two that were not kept
	written int64
}

// Write implements io.Writer. It never fails, so a command never waits for its reader.
func (s *spool) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	s.written += int64(n)
	if room := maxKept/2 - len(s.head); room > 0 {
		take := min(room, len(p))
		s.head, p = append(s.head, p[:take]...), p[take:]
	}
	if over := len(p) - maxKept/2; over > 0 {
		s.dropped += int64(over)
		p = p[over:]
	}
	for len(p) > 0 {
		if len(s.ring) < maxKept/2 {
			take := min(maxKept/2-len(s.ring), len(p))
			s.ring, p = append(s.ring, p[:take]...), p[take:]
			continue
		}
		take := copy(s.ring[s.at:], p)
		s.at, p = (s.at+take)%len(s.ring), p[take:]
		s.dropped += int64(take)
	}
	return n, nil
}

// kept is how many bytes are kept.
func (s *spool) kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.head) + len(s.ring)
}

// end is what is kept after the beginning.
func (s *spool) end() string { return string(s.ring[s.at:]) + string(s.ring[:s.at]) }

// take returns what was written since the last time, as text, and forgets it.
func (s *spool) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.head)
	if s.dropped > 0 {
		text += fmt.Sprintf("\n[%d bytes of output were not kept here]\n", s.dropped)
	}
	text += s.end()
	s.head, s.ring, s.at, s.dropped = nil, nil, 0, 0
	return clean(text)
}

// tail is the last n bytes that are kept, and how much was written.
func (s *spool) tail(n int) (string, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.end()
	if text == "" {
		text = string(s.head)
	}
	return clean(text[max(0, len(text)-n):]), s.written
}

// clean makes text of what a program wrote.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.TrimRight(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\n")
}
