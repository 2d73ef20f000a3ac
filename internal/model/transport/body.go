package transport

import (
	"io"
	"time"
)

const (
	// maxRest is more than what stands behind the end that a stream says itself.
	maxRest = 4 << 10
	// restWithin bounds the wait for it: it comes with the end or hardly later, and
	// who stops in the middle is not to be held up.
	restWithin = 25 * time.Millisecond
)

// answered is what a provider answers. Readers of a stream stop at the end that it
// says itself, which is before the end of the response, and a connection that is
// closed there cannot be used again. So Close reads the rest, when that is short
// and comes at once; it is for who reads, not for another goroutine.
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
