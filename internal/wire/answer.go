package wire

import (
	"context"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
)

// piece is how much is written to a client at once: a client that reads it makes
// progress, however large the answer is.
const piece = 64 << 10

// Bounded wraps the handlers of a server and counts the bytes that their answers hold for
// clients that do not read. Large writes are counted while they are written; a handler
// that reads something large first announces it with [Reserve]. user says whose the
// request is.
func Bounded(next http.Handler, user func(ctx context.Context) parley.Principal) http.Handler {
	return bounded(next, user, held)
}

func bounded(next http.Handler, user func(ctx context.Context) parley.Principal, b *budget) http.Handler {
	return &bound{next, user, b}
}

type bound struct {
	next http.Handler
	user func(ctx context.Context) parley.Principal
	b    *budget
}

// ServeHTTP has a small frame, since every stream has it on its stack for as long as it is open.
func (h *bound) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, r := h.begin(w, r)
	defer a.end()
	h.next.ServeHTTP(a, r)
}

//go:noinline
func (h *bound) begin(w http.ResponseWriter, r *http.Request) (*answer, *http.Request) {
	a := newAnswer(r.Context(), w, h.user(r.Context()), h.b)
	return a, r.WithContext(context.WithValue(r.Context(), answerKey{}, a))
}

type answerKey struct{}

func answerOf(ctx context.Context) *answer {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a
}

// Reserve counts bytes that a handler is about to read for the answer to the request of
// ctx. They replace what it reserved before, and count until the handler returns. It
// waits until they are available, which cuts answers that nobody reads, and returns the
// error of ctx when the client stops waiting. If something was reserved before, it does
// not wait: a handler first reserves what it may need, and then corrects it to what it
// has. 0 frees what was reserved. It does nothing for requests that did not come through
// [Bounded].
func Reserve(ctx context.Context, bytes int) error {
	if a := answerOf(ctx); a != nil {
		return a.reserve(ctx, bytes)
	}
	return nil
}

// ReserveExport is Reserve for an export, which may take long. It returns [ErrFull] if enough
// exports of the user wait.
func ReserveExport(ctx context.Context, bytes int) error {
	a := answerOf(ctx)
	if a == nil {
		return nil
	}
	if a.b.exports != nil && a.share.Load() == nil {
		a.b = a.b.exports
	}
	return a.reserve(ctx, bytes)
}

// Carried makes the context of a call that may outlive the request that carries it: ctx is
// the call's, and may have the values of an earlier request of the same user; request is
// the carrying one's, or nil if it has ended. What the call reserves counts until the
// request and the call have both ended. done ends the call.
func Carried(ctx, request context.Context) (call context.Context, done func()) {
	var a *answer
	if request != nil {
		a = answerOf(request)
	} else if earlier := answerOf(ctx); earlier != nil {
		a = newAnswer(ctx, nil, earlier.user, earlier.b)
		a.over = true // nobody waits for it
	}
	if a == nil {
		return ctx, func() {}
	}
	a.mu.Lock()
	a.calls++
	a.mu.Unlock()
	return context.WithValue(ctx, answerKey{}, a), a.called
}

// answer is a response that is counted. A stream's timer writes too, but only little.
type answer struct {
	http.ResponseWriter
	rc   *http.ResponseController
	b    *budget
	ctx  context.Context // of the request, as the answer is
	user parley.Principal

	share atomic.Pointer[share] // what is reserved
	given atomic.Int64          // since when the client has data that it has not read, in Unix nanoseconds; 0: none
	gone  atomic.Bool           // the answer was cut

	socket *socket // where it goes after an upgrade; nil: there was none

	mu    sync.Mutex
	over  bool // the handler has returned
	calls int  // that are carried by its request and have not ended
}

func newAnswer(ctx context.Context, w http.ResponseWriter, user parley.Principal, b *budget) *answer {
	return &answer{ResponseWriter: w, rc: http.NewResponseController(w), b: b, ctx: ctx, user: user}
}

func (a *answer) reserve(ctx context.Context, bytes int) error {
	if bytes <= 0 {
		a.release()
		return nil
	}
	if s := a.share.Load(); s != nil {
		s.resize(bytes)
		return nil
	}
	s, err := a.b.begin(ctx, a.user, bytes, a.cut)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over && a.calls == 0 || !a.share.CompareAndSwap(nil, s) {
		s.end() // the client of a call has gone, or the handler reserves twice in one request: one is counted
	}
	return nil
}

// release frees what is counted.
func (a *answer) release() {
	if s := a.share.Swap(nil); s != nil {
		s.end()
	}
}

func (a *answer) end() {
	a.mu.Lock()
	a.over = true
	last := a.calls == 0
	a.mu.Unlock()
	if last {
		a.release()
	}
}

// called ends a call that the request carried.
func (a *answer) called() {
	a.mu.Lock()
	a.calls--
	last := a.over && a.calls == 0
	a.mu.Unlock()
	if last {
		a.release()
	}
}

// Write implements http.ResponseWriter. It also counts what exceeds the reservation.
func (a *answer) Write(p []byte) (int, error) {
	return a.put(p, func(piece []byte) []byte { return piece })
}

// put writes p piece by piece, each in the form that the client gets. Its result counts
// whole pieces.
func (a *answer) put(p []byte, form func(piece []byte) []byte) (int, error) {
	s := a.share.Load()
	switch {
	case len(p) <= kept: // fits into the connection's buffers
	case s == nil:
		var err error
		if s, err = a.b.begin(a.ctx, a.user, 2*len(p), a.cut); err != nil { // including the form made from it
			return 0, err
		}
		defer s.end()
	case s.size < len(p):
		s.resize(len(p))
	}
	done := 0
	for {
		piece := p[done:min(len(p), done+piece)]
		if _, err := a.write(s, form(piece)); err != nil {
			return done, err
		}
		if done += len(piece); done == len(p) {
			return done, nil
		}
	}
}

func (a *answer) write(s *share, p []byte) (int, error) {
	if a.gone.Load() { // a deadline that was set since then has undone the cut
		return 0, os.ErrDeadlineExceeded
	}
	a.wait(s, true)
	defer a.wait(s, false)
	if a.socket != nil {
		return a.socket.Write(p)
	}
	return a.ResponseWriter.Write(p)
}

func (a *answer) wait(s *share, yes bool) {
	at := int64(0)
	if yes {
		at = time.Now().UnixNano()
	}
	a.given.Store(at)
	if s != nil {
		s.given(yes)
	}
}

// FlushError is for http.ResponseController.
func (a *answer) FlushError() error {
	if a.gone.Load() {
		return os.ErrDeadlineExceeded
	}
	if a.socket != nil {
		return nil // every message is sent at once
	}
	s := a.share.Load()
	a.wait(s, true)
	defer a.wait(s, false)
	return a.rc.Flush()
}

// Flush is for those who ask by assertion.
func (a *answer) Flush() { _ = a.FlushError() }

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// slow is how long the client has not read what was written.
func (a *answer) slow(now time.Time) time.Duration {
	if at := a.given.Load(); at != 0 {
		return now.Sub(time.Unix(0, at))
	}
	return 0
}

// cut makes the current write and all later ones fail, and with them the answer.
func (a *answer) cut() {
	a.gone.Store(true)
	_ = a.rc.SetWriteDeadline(time.Unix(1, 0))
}
