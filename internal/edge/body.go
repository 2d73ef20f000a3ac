package edge

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/parley-server/parley"
)

const (
	// slack is how much time a fast upload can gather for a pause, in Graces.
	slack = 3
	// linger is how long the server waits for the rest of a body that its handler did not read,
	// so that the connection can be used again.
	linger = time.Second
)

// bodies stands before every handler: it gives the request's body its deadlines,
// and knows when it is there.
type bodies struct {
	next http.Handler
	o    Options
}

// ServeHTTP has a small frame, since every stream has it on its stack for as long as it is open.
func (h *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, b := h.begin(w, r)
	if b != nil {
		defer b.end()
	}
	h.next.ServeHTTP(w, r)
}

// begin returns the request for the handlers, and its body; nil: it has none.
//
//go:noinline
func (h *bodies) begin(w http.ResponseWriter, r *http.Request) (*http.Request, *body) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok { // a request without a connection, as from a recorder
		return r, nil
	}
	c.handled.Store(true)
	if r.Body == nil || r.Body == http.NoBody {
		return r, nil
	}
	if len(r.TransferEncoding) > 0 {
		// Where there was a Content-Length, too, which net/http drops, a proxy may
		// see another end of this request than we do: what follows it on the
		// connection is not to be trusted (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	b := &body{ReadCloser: r.Body, c: c, o: h.o, left: h.o.Grace}
	c.of.change(c, func() { c.body = true })
	b.wait()  // net/http drains what the handler did not read, when its answer begins
	own := *r // net/http looks at the body of the request that it made
	own.Body = b
	return &own, b
}

// body is a request's body that has to keep coming. Time counts while it is
// waited for, not while the handler does something else.
type body struct {
	io.ReadCloser
	c    *conn
	o    Options
	left time.Duration
	done bool // it is there
}

func (b *body) wait() { _ = b.c.SetReadDeadline(time.Now().Add(b.left)) }

func (b *body) Read(p []byte) (int, error) {
	if b.done {
		return b.ReadCloser.Read(p)
	}
	b.wait()
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.left -= time.Since(began)
	b.left += time.Duration(n) * time.Second / time.Duration(b.o.UploadRate)
	b.left = min(max(b.left, 0), slack*b.o.Grace)
	if err == io.EOF {
		b.done = true // net/http takes the deadline away
		b.c.of.change(b.c, func() { b.c.body = false })
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
		err = slowError{parley.Errorf(parley.CodeTimeout, "the body stopped, or came too slowly").
			WithHint("send at least %d bytes a second, without a pause of %s", b.o.UploadRate, b.o.Grace)}
	}
	return n, err
}

// slowError is the error for the reader of a body that did not arrive in time.
type slowError struct{ err *parley.Error }

func (e slowError) Error() string { return e.err.Error() }
func (e slowError) Unwrap() error { return e.err }

// Timeout makes it a net.Error.
func (slowError) Timeout() bool { return true }

// Temporary is for net.Error, which asks for it still.
func (slowError) Temporary() bool { return false }

// HTTPStatus returns the status for the handler's answer.
func (slowError) HTTPStatus() int { return http.StatusRequestTimeout }

// end is called when the handler has returned.
func (b *body) end() {
	if !b.done {
		_ = b.c.SetReadDeadline(time.Now().Add(min(linger, b.o.Grace)))
	}
}
