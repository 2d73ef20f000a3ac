package transport

import (
	"io"
	"time"
)

const (
	// maxRest is more than what follows the end marker of a stream.
	maxRest = 4 << 10
	// restWithin limits the wait for that rest: it comes with the end marker or shortly after,
	// and a caller that stops in the middle should not be delayed.
	restWithin = 25 * time.Millisecond
)

// answered is the body of a provider's answer. Readers of a stream stop at its end marker,
// before the end of the response, and a connection closed at that point cannot be reused. So
// Close reads the rest, if it is short and arrives at once. Close must be called by the reading
// goroutine.
type answered struct {
	io.ReadCloser
	over bool
}

func (b *answered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.over = b.over || err != nil
	return n, err
}

func (b *answered) Close() error {
	if !b.over {
		b.over = true
		late := time.AfterFunc(restWithin, func() { _ = b.ReadCloser.Close() })
		defer late.Stop()
		_, _ = io.CopyN(io.Discard, b.ReadCloser, maxRest)
	}
	return b.ReadCloser.Close()
}
