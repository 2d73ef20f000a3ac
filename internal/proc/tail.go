package proc

import (
	"strings"
	"sync"
)

// longest is the most bytes of a secret that are expected in one piece: an RSA key of 4096
// bits in PEM has 3.3 KiB.
const longest = 4 << 10

// Tail keeps the last Max bytes that are written to it, such as what a program says before
// it fails. It is safe for concurrent use.
type Tail struct {
	Max   int
	Clean func(text string) string // removes secrets; nil: there are none

	mu  sync.Mutex
	buf []byte // and longest bytes before them
	cut bool   // more was written
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

// String is what was kept, as valid text. No part of a secret is in it, even where it
// begins.
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

// clean removes secrets, and if there was more before text, what may be the rest of one:
// nothing recognises that. It cuts in such a way that it cuts no secret.
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
