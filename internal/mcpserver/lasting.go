package mcpserver

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/parley-server/parley"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = time.Second // so a host has its result soon after the store is back
)

// lasting calls f, which may be repeated, until the store is available or until passes.
func (a *App) lasting(ctx context.Context, until time.Time, f func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := f()
		left := time.Until(until)
		if left <= 0 || !a.o.Engine.Away(err) {
			return err
		}
		again := time.NewTimer(min(pause, left))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
	}
}

// begun finds out what became of a turn that may have been kept, given what a command
// returned with an error. Without an error it was kept.
func (a *App) begun(ctx context.Context, p parley.Principal, t parley.TurnInfo, until time.Time) error {
	kept := false
	err := a.lasting(ctx, until, func() (err error) {
		kept, err = a.o.Engine.Kept(ctx, p, t)
		return err
	})
	switch {
	case err != nil:
		return a.outOfSight(t.ID, err)
	case !kept:
		return parley.Errorf(parley.CodeUnavailable, "the store failed, and nothing was done").
			WithHint("call again").WithRetry(time.Second)
	}
	return nil
}

// outOfSight is the error of a turn that was made, or may have been, and whose end
// could not be read. It gives no time to try again.
func (a *App) outOfSight(id parley.TurnID, err error) error {
	if _, wire := errors.AsType[*jsonrpc.Error](err); wire {
		return err
	}
	info := refusal(err).info
	if info.Code == parley.CodeUnavailable { // which stands for what may be tried again
		info.Code = parley.CodeTimeout
	}
	info.Message = "it may have been done, and its end could not be read: " + info.Message
	info.Hint = "do not call this again: " + a.name("await_continuation") + " with continuation_id " + string(id) +
		" says what became of it; if there is no such continuation once the server answers, nothing was done"
	info.Field, info.RetryAfterMS = "", 0
	return &toolError{info, err}
}
