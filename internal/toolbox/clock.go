package toolbox

import (
	"context"
	"sync"
	"time"
)

// clock ends a context when a call has used up its time. It stops while the call waits for a
// human or a model.
type clock struct {
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	left  time.Duration
	since time.Time // when the clock last began to run
	timer *time.Timer
	asks  int // number of open questions and model calls
}

func newClock(ctx context.Context, left time.Duration) (context.Context, *clock) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &clock{cancel: cancel, left: left, since: time.Now()}
	c.timer = time.AfterFunc(left, c.over)
	return ctx, c
}

func (c *clock) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asks == 0 { // the clock may have been stopped at the last moment
		c.cancel(errDeadline)
	}
}

func (c *clock) stop() {
	c.timer.Stop()
	c.cancel(context.Canceled)
}

// during returns a function that calls ask while the clock is stopped.
func during[Q, A any](c *clock, ask func(context.Context, Q) (A, error)) func(context.Context, Q) (A, error) {
	return func(ctx context.Context, in Q) (A, error) {
		c.mu.Lock()
		if c.asks++; c.asks == 1 {
			c.timer.Stop()
			c.left -= time.Since(c.since)
		}
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.asks--; c.asks == 0 {
				c.since = time.Now()
				c.timer.Reset(max(0, c.left))
			}
		}()
		return ask(ctx, in)
	}
}
