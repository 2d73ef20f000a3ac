// Package fair lets users take turns at work that needs a processor: some of it runs at
// once, the rest waits, and no user's queue delays the others.
package fair

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/parley-server/parley"
)

// ErrFull refuses a call of a user who already has too many waiting.
var ErrFull = errors.New("too much of this user waits already")

// Turns runs a limited number of calls at once and shares them fairly among users. The
// next call is that of the waiting user with the fewest running. When a call ends, its
// user's next one goes behind the first ones of all others. The zero value, with the
// numbers set, is ready to use. It is safe for concurrent use.
type Turns struct {
	Slots  int // calls that run at once
	Each   int // how many of them may be one user's; 0: 1
	Queued int // how many calls of one user may wait; 0: none, so that a call runs at once or is refused

	mu      sync.Mutex
	all     int // how many run
	running map[parley.Principal]int
	waiting map[parley.Principal][]chan struct{} // each user's waiting calls, in order
	next    []parley.Principal                   // users who wait and may have another call running, in order
}

// Enter waits until who may run a call, and returns the function that ends the call.
// Errors: [ErrFull] at once when too many calls of who wait; the cause of ctx when it ends
// first.
func (t *Turns) Enter(ctx context.Context, who parley.Principal) (leave func(), err error) {
	return t.enter(ctx, who, t.Queued)
}

// Again is Enter for a call that ran before and gave up its turn to wait for something
// else. It is never refused with ErrFull.
func (t *Turns) Again(ctx context.Context, who parley.Principal) (leave func(), err error) {
	return t.enter(ctx, who, math.MaxInt)
}

func (t *Turns) enter(ctx context.Context, who parley.Principal, most int) (leave func(), err error) {
	leave = sync.OnceFunc(func() { t.leave(who) })
	t.mu.Lock()
	// A call that is admitted at once does not wait.
	now := t.all < t.Slots && t.running[who] < max(t.Each, 1) && len(t.waiting[who]) == 0
	if !now && len(t.waiting[who]) >= most {
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
	if at < 0 { // it was admitted at the same moment
		leave()
	}
	return nil, context.Cause(ctx)
}

// leave ends a user's call. The user's next call goes behind all users who wait now.
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

// lineUp puts who behind all other waiting users, unless they are already in line or have
// as many calls running as allowed.
func (t *Turns) lineUp(who parley.Principal) {
	if len(t.waiting[who]) > 0 && t.running[who] < max(t.Each, 1) && !slices.Contains(t.next, who) {
		t.next = append(t.next, who)
	}
}

// admit starts the next calls while there are free slots.
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

// drop removes a call from a user's queue, and the user when it was the last.
func (t *Turns) drop(who parley.Principal, at int) {
	t.waiting[who] = slices.Delete(t.waiting[who], at, at+1)
	if len(t.waiting[who]) == 0 {
		delete(t.waiting, who)
		t.next = slices.DeleteFunc(t.next, func(p parley.Principal) bool { return p == who })
	}
}
