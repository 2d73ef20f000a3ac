package proc

import (
	"strings"
	"sync"
)

// longest is the length of the longest expected secret, in bytes: an RSA key of 4096 bits in
// PEM has 3.3 KiB.
const longest = 4 << 10

// Tail keeps the last Max bytes that are written to it, such as what a program says before
// it fails. It is safe for concurrent use.
type Tail struct {
	Max   int
	Clean func(text string) string // removes secrets; nil: there are none

	mu  sync.Mutex
	buf []byte // the last bytes, and up to longest bytes before them
	cut bool   // more was written before these bytes
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := t.Max + longest
	t.cut = t.cut || len(t.buf)+len(p) > most
	t.buf = append(t.buf, p[max(0, len(p)-most):]...)
	t.buf = t.buf[max(0, len(t.buf)-most):]
	return len(p), nil
}

// String returns the kept text as valid UTF-8. It contains no part of a secret, not even at its
// beginning.
func (t *Tail) String() string {
	t.mu.Lock()
	text, cut := string(t.buf), t.cut
	t.mu.Unlock()
	text = strings.ToValidUTF8(text, "\uFFFD")
	if t.Clean != nil {
		text = t.clean(text, cut)
	}
	text = text[max(0, len(text)-t.Max):]
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}

// clean removes secrets. If text was cut at its beginning, it also removes what could be the
// end of a secret, which cannot be recognized. It never cuts inside a secret.
func (t *Tail) clean(text string, cut bool) string {
	whole := t.Clean(text)
	if !cut {
		return whole
	}
	for at := longest; at < min(len(text), 2*longest+1); at += longest / 8 {
		if end := t.Clean(text[at:]); strings.HasSuffix(whole, end) {
			return end
		}
	}
	return ""
}
