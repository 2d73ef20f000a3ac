package loop

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/parley-server/parley"
)

// maxAttempts limits how often one step calls a model that is busy or unavailable.
const maxAttempts = 4

// fewAttempts is maxAttempts for a model that has a fallback.
const fewAttempts = 2

const (
	firstWait = 500 * time.Millisecond
	// maxWait: if a provider asks for a longer wait, the turn fails and tells the user so.
	maxWait = 30 * time.Second
	// fallbackWait is maxWait for a model that has a fallback.
	fallbackWait = 5 * time.Second
)

// retryAfter says whether to call the same model again after its n-th failure in a row,
// and how long to wait first. Half of the wait is random, so that turns which failed
// together do not retry together.
func retryAfter(err *parley.Error, n int, fallback bool) (time.Duration, bool) {
	most, longest := maxAttempts, maxWait
	if fallback {
		most, longest = fewAttempts, fallbackWait
	}
	if err.Code != parley.CodeRateLimited && err.Code != parley.CodeUnavailable {
		return 0, false
	}
	if n >= most || err.RetryAfter > longest {
		return 0, false
	}
	d := min(firstWait<<(n-1), maxWait)
	d = d/2 + rand.N(d/2)
	return max(d, err.RetryAfter), true
}

// mayFallBack reports whether another model might succeed. A malformed request is
// malformed for every model.
func mayFallBack(err *parley.Error) bool {
	switch err.Code {
	case parley.CodeInvalid, parley.CodeCancelled, parley.CodeInternal:
		return false
	}
	return true
}

// wait pauses for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
