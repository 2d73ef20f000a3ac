// Package fair lets work that takes a processor be done by turns of users: some of it
// runs at once, the rest waits, and nobody's queue keeps the others waiting.
package fair

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/parley-server/parley"
)

// ErrFull refuses work of a user who has as much waiting as one may.
var ErrFull = errors.New("too much of this user waits already")

// Turns lets some calls run at once and the others wait, so that each user is
// served: of those who wait, the one who has the fewest calls running is next, and
// when a call ends, its user's next one stands behind the first ones of all others.
// Its zero value, with the numbers set, is ready. It is safe for concurrent use.
type Turns struct {
	Slots  int // calls that run at once
	Each   int // of these, calls of one user at most; 0: 1
	Queued int // calls of one user that wait at most

	mu      sync.Mutex
	all     int // that run
	running map[parley.Principal]int
	waiting map[parley.Principal][]chan struct{} // of each user the first to run first
	next    []parley.Principal                   // who waits and may have another running, the first to be served first
}

// Enter waits until who may run a call, and returns what ends it. Errors: [ErrFull]
// at once when too many calls of who wait, and the cause of ctx when that ends first.
func (t *Turns) Enter(ctx context.Context, who parley.Principal) (leave func(), err error) {
	return t.enter(ctx, who, t.Queued)
}

// Again is Enter for a call that was let in before and has left to wait for something
// else: it is not refused for being one too many.
func (t *Turns) Again(ctx context.Context, who parley.Principal) (leave func(), err error) {
	return t.enter(ctx, who, math.MaxInt)
}

func (t *Turns) enter(ctx context.Context, who parley.Principal, most int) (leave func(), err error) {
	leave = sync.OnceFunc(func() { t.leave(who) })
	t.mu.Lock()
	if len(t.waiting[who]) >= most {
		t.mu.Unlock()
		return nil, ErrFull
	}
	in := make(chan struct{})
	if t.waiting == nil {
		t.waiting, t.running = map[parley.Principal][]chan struct{}{}, map[parley.Principal]int{}
	}
	t.waiting[who] = append(t.waiting[who], in)
	t.lineUp(who)
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

// leave ends a user's call. What else they ask stands behind all who wait by now.
func (t *Turns) leave(who parley.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.running[who]--; t.running[who] == 0 {
		delete(t.running, who)
	}
	t.lineUp(who)
	t.admit()
}

// lineUp puts who waits behind all others that do, unless they stand there already or
// have as many running as may.
func (t *Turns) lineUp(who parley.Principal) {
	if len(t.waiting[who]) > 0 && t.running[who] < max(t.Each, 1) && !slices.Contains(t.next, who) {
		t.next = append(t.next, who)
	}
}

// admit lets in the first calls of those who are next.
func (t *Turns) admit() {
	for t.all < t.Slots && len(t.next) > 0 {
		at := 0
		for i, who := range t.next {
			if t.running[who] < t.running[t.next[at]] {
				at = i
			}
		}
		who := t.next[at]
		t.all++
		t.running[who]++
		close(t.waiting[who][0])
		t.next = slices.Delete(t.next, at, at+1)
		t.drop(who, 0)
		t.lineUp(who)
	}
}

// drop takes a call off a user's queue, and the user with the last of them.
func (t *Turns) drop(who parley.Principal, at int) {
	t.waiting[who] = slices.Delete(t.waiting[who], at, at+1)
	if len(t.waiting[who]) == 0 {
		delete(t.waiting, who)
		t.next = slices.DeleteFunc(t.next, func(p parley.Principal) bool { return p == who })
	}
}
