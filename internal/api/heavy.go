package api

import (
	"context"
	"errors"
	"io"
	"runtime"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/wire"
)

// An export reads a whole log, and so does a fork from the middle of a session. The state of a session that is not in
// memory is made from its log. They run by turns of users, on some of the processors, so that others' requests find one.

const (
	// maxUserWaiting is how many of them one user may have waiting.
	maxUserWaiting = 8
	// heavyWait is how long one may wait to begin.
	heavyWait = 15 * time.Second
	// heavyRetry is when it is worth asking again: a large session takes a second.
	heavyRetry = 5 * time.Second
)

func heavySlots() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// heavily waits until p may do something that takes a processor for long, and
// returns what ends it. Errors: CodeRateLimited at once when p has enough waiting,
// CodeUnavailable when others came before for too long, and CodeCancelled.
func (s *Server) heavily(ctx context.Context, p parley.Principal) (leave func(), err error) {
	wait, stop := context.WithTimeout(ctx, heavyWait)
	defer stop()
	if leave, err = s.heavy.Enter(wait, p); err != nil {
		return nil, notBegun(ctx, err)
	}
	return leave, nil
}

// reserveExport waits until the user of ctx may hold what an export does. It comes before
// heavily, and holds no turn while it waits: exports that are under way need one to go on.
// For the errors, see heavily.
func reserveExport(ctx context.Context) error {
	wait, stop := context.WithTimeout(ctx, heavyWait)
	defer stop()
	if err := wire.ReserveExport(wait, heldExport); err != nil {
		return notBegun(ctx, err)
	}
	return nil
}

// notBegun is the error of a request that did not get its turn.
func notBegun(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, fair.ErrFull), errors.Is(err, wire.ErrFull):
		return parley.Errorf(parley.CodeRateLimited, "%d exports, forks and readings of sessions of yours are waiting already, which is the limit", maxUserWaiting).
			WithHint("ask for one after the other").WithRetry(heavyRetry)
	case ctx.Err() != nil:
		return parley.Errorf(parley.CodeCancelled, "the request was given up while others ran before it")
	}
	return parley.Errorf(parley.CodeUnavailable, "the request did not begin within %s, as others ran before it", heavyWait).
		WithHint("try again in a moment").WithRetry(heavyRetry)
}

// inTurn runs f, which takes a processor for long, when p may. See heavily for the errors.
func inTurn[T any](ctx context.Context, s *Server, p parley.Principal, f func() (T, error)) (out T, err error) {
	leave, err := s.heavily(ctx, p)
	if err != nil {
		return out, err
	}
	defer leave()
	return f()
}

// heavyWriter gives up its user's turn while it waits for a client: a client that reads slowly
// does not keep others from a processor.
type heavyWriter struct {
	io.Writer
	ctx   context.Context // of the request, as the writer is
	s     *Server
	p     parley.Principal
	leave func()
	began bool // something was written
}

func (w *heavyWriter) Write(b []byte) (int, error) {
	w.began = true
	w.leave()
	n, err := w.Writer.Write(b)
	if err != nil {
		return n, err
	}
	leave, err := w.s.heavy.Again(w.ctx, w.p)
	if err != nil {
		return n, err
	}
	w.leave = leave
	return n, nil
}
