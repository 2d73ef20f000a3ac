package homeassistant

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// Each query holds its tables in memory, some 40 MB at most.
	maxAnalyses = 2
	// A query runs for a few seconds, and a call of the tool for a minute at most:
	// what stands further back would not be served in time.
	maxQueued = 16
)

// turns lets some calls run at once and the others wait, so that each user is
// served: one call of a user runs at a time, and when it ends, the user's next one
// stands behind the first ones of all others. Its zero value, with the numbers set,
// is ready. It is safe for concurrent use.
type turns struct {
	slots  int           // calls that run at once
	queued int           // calls of one user that wait at most
	each   time.Duration // that a call takes at most, for advice

	mu      sync.Mutex
	running map[parley.Principal]bool
	waiting map[parley.Principal][]chan struct{} // of each user the first to run first
	next    []parley.Principal                   // who waits and has none running, the first to be served first
}

// enter waits until who may run a call, and returns what ends it. Errors: CodeBusy
// at once when too many calls of who wait, and the cause of ctx when that ends first.
func (t *turns) enter(ctx context.Context, who parley.Principal) (leave func(), err error) {
	leave = sync.OnceFunc(func() { t.leave(who) })
	t.mu.Lock()
	if n := len(t.waiting[who]); n >= t.queued {
		t.mu.Unlock()
		return nil, parley.Errorf(parley.CodeBusy, "%d of your queries wait already, which is as many as may", n).
			WithHint("ask again when one has been answered, or ask for more in one query").WithRetry(t.each)
	}
	in := make(chan struct{})
	if t.waiting == nil {
		t.waiting, t.running = map[parley.Principal][]chan struct{}{}, map[parley.Principal]bool{}
	}
	if len(t.waiting[who]) == 0 && !t.running[who] {
		t.next = append(t.next, who)
	}
	t.waiting[who] = append(t.waiting[who], in)
	t.admit()
	t.mu.Unlock()
	select {
	case <-in:
		return leave, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	at := slices.Index(t.waiting[who], in)
	if at >= 0 {
		t.drop(who, at)
	}
	t.mu.Unlock()
	if at < 0 { // it was let in at the same moment
		leave()
	}
	return nil, context.Cause(ctx)
}

// stillWaits puts into words that a call was not let in before ctx ended. Home
// Assistant has no part in it.
func stillWaits(ctx context.Context, d time.Duration) *parley.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &parley.Error{Code: parley.CodeCancelled, Message: "the query was cancelled while others ran", Err: context.Cause(ctx)}
	}
	e := parley.Errorf(parley.CodeTimeout, "the query did not begin within %s, as others ran before it", d.Round(time.Millisecond)).
		WithHint("try again; queries of one user run one after the other, so ask for more in one query")
	e.Err = context.Cause(ctx)
	return e
}

// leave ends a user's call. What else they ask stands behind all who wait by now.
func (t *turns) leave(who parley.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, who)
	if len(t.waiting[who]) > 0 {
		t.next = append(t.next, who)
	}
	t.admit()
}

// admit lets in the first call of who is next.
func (t *turns) admit() {
	for len(t.running) < t.slots && len(t.next) > 0 {
		who := t.next[0]
		t.running[who] = true
		close(t.waiting[who][0])
		t.next = slices.Delete(t.next, 0, 1)
		t.drop(who, 0)
	}
}

// drop takes a call off a user's queue, and the user with the last of them.
func (t *turns) drop(who parley.Principal, at int) {
	t.waiting[who] = slices.Delete(t.waiting[who], at, at+1)
	if len(t.waiting[who]) == 0 {
		delete(t.waiting, who)
		t.next = slices.DeleteFunc(t.next, func(p parley.Principal) bool { return p == who })
	}
}
