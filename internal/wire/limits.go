package wire

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/parley-server/parley"
)

// Limits hold for the routes of all doors. A server has one value of them, which each door gets. A
// field that is 0 has its default.
type Limits struct {
	MaxBody    int64 // bytes of a request's body, and of a message over a WebSocket; default 1 MiB
	MaxMessage int   // bytes of a user's message; default [parley.MaxMessage]
	MaxImport  int64 // bytes of an archive; default 64 MiB
	MaxStreams int   // open at once, of all clients, whatever carries them; default 1,000
	// MaxUserStreams is how many of them one user may have, except parley.Local; default a
	// quarter, and at least one.
	MaxUserStreams int
}

// Defaults returns l with the defaults of its fields that are 0.
func (l Limits) Defaults() Limits {
	l.MaxBody = cmp.Or(l.MaxBody, 1<<20)
	l.MaxMessage = cmp.Or(l.MaxMessage, parley.MaxMessage)
	l.MaxImport = cmp.Or(l.MaxImport, 64<<20)
	l.MaxStreams = cmp.Or(l.MaxStreams, 1000)
	l.MaxUserStreams = cmp.Or(l.MaxUserStreams, max(l.MaxStreams/4, 1))
	return l
}

// Bound limits the body of a request before a handler gets it. Its error, with CodeTooLarge, is for
// a body that declares itself too large: it is not waited for. Reading beyond the limit of another
// one fails with a [*http.MaxBytesError].
func (l Limits) Bound(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > l.MaxBody {
		return tooLarge(l.MaxBody)
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = http.MaxBytesReader(w, r.Body, l.MaxBody)
	}
	return nil
}

// ReadBody reads the whole body of a request. It returns CodeTooLarge for one beyond the limit.
func (l Limits) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if err := l.Bound(w, r); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(r.Body)
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = tooLarge(big.Limit)
	}
	return raw, err
}

func tooLarge(most int64) error {
	return parley.Errorf(parley.CodeTooLarge, "the body has more than %d bytes", most).WithHint("send less at once")
}
