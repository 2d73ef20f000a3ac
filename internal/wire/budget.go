package wire

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// inFlight bounds the bytes that all answers of this process together hold for
	// clients that do not read. The collector lets a heap grow to twice of what is
	// held.
	inFlight = 32 << 20
	// perUser is the part of it that one user may have, where there are several.
	perUser = inFlight / 4
	// grace is how long a client may leave what was written to it before it is cut
	// for another. Whoever reads takes a piece in less, whoever does not delays
	// others by no more.
	grace = 250 * time.Millisecond
)

// held is the budget of this process: memory is the process's, not a listener's.
var held = newBudget(inFlight, perUser)

// budget is a bound on the bytes that answers hold. A client that reads gives its
// share back within moments. When there is no more, whoever comes waits, and the
// answer is cut that has waited for its client for longest, once that is grace: of
// the same user when the user has no more, else of the one who has most. So one
// user's answers that nobody reads never take the part of another.
type budget struct {
	max, each int // in bytes, of all and of one user

	mu      sync.Mutex
	used    int
	users   map[parley.Principal]*account
	waiting []*claim // in the order in which they came
	timer   *time.Timer
}

// account is what one user has.
type account struct {
	used    int
	leaving int // of used, by answers that were cut and have yet to end
	shares  []*share
}

// share is what one answer holds.
type share struct {
	user   parley.Principal
	size   int
	since  time.Time // when its client was given something that it has not taken; zero: it waits for nobody
	cut    func()    // makes the answer's writes fail; it does not wait
	leaves bool      // it was cut
}

// claim is somebody who waits for a share.
type claim struct {
	*share
	ready chan struct{} // closed when it is had
}

func newBudget(max, each int) *budget {
	return &budget{max: max, each: each, users: map[parley.Principal]*account{}}
}

// begin counts so many bytes for a user until end is called. It waits until there
// is room, or returns the error of ctx. What is larger than all there is is alone.
// parley.Local has nobody to share with.
func (b *budget) begin(ctx context.Context, user parley.Principal, size int, cut func()) (*share, error) {
	b.mu.Lock()
	c := &claim{&share{user: user, size: size, cut: cut}, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.serve()
	b.mu.Unlock()
	select {
	case <-c.ready:
		return c.share, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-c.ready:
		b.free(c.share)
	default:
		b.waiting = slices.DeleteFunc(b.waiting, func(w *claim) bool { return w == c })
	}
	b.serve()
	return nil, context.Cause(ctx)
}

// resize changes what a share counts. It does not wait: who holds something must
// not, or all would wait for one another. Those who come later do.
func (b *budget) resize(s *share, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, more := b.users[s.user], size-s.size
	s.size = size
	b.used += more
	if u.used += more; s.leaves {
		u.leaving += more
	}
	if more < 0 {
		b.serve()
	}
}

// given says that a client is given something, or with false that it took it.
func (b *budget) given(s *share, yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.since = (time.Time{}); yes {
		s.since = time.Now()
	}
}

func (b *budget) end(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(s)
	b.serve()
}

// What follows is called under the lock.

func (b *budget) free(s *share) {
	u := b.users[s.user]
	b.used -= s.size
	if u.used -= s.size; s.leaves {
		u.leaving -= s.size
	}
	u.shares = slices.DeleteFunc(u.shares, func(o *share) bool { return o == s })
	if len(u.shares) == 0 {
		delete(b.users, s.user)
	}
}

// serve gives those who wait what there is, in their order. Who waits for the
// others of the same user only does not hold up other users; who waits for all
// does, or something large would never have its turn.
func (b *budget) serve() {
	left := b.waiting[:0]
	var full map[parley.Principal]bool // users who have to wait for themselves
	all := false
	for _, c := range b.waiting {
		u := b.users[c.user]
		switch {
		case all || full[c.user]:
		case u != nil && c.user != parley.Local && u.used > 0 && u.used+c.size > b.each:
			if full == nil {
				full = map[parley.Principal]bool{}
			}
			full[c.user] = true
			b.press(u, u.used-u.leaving+c.size-b.each)
		case b.used > 0 && b.used+c.size > b.max:
			all = true
			leaving := 0
			most := u
			for _, o := range b.users {
				leaving += o.leaving
				if most == nil || o.used-o.leaving > most.used-most.leaving {
					most = o
				}
			}
			b.press(most, b.used-leaving+c.size-b.max)
		default:
			if u == nil {
				u = &account{}
				b.users[c.user] = u
			}
			u.shares = append(u.shares, c.share)
			u.used += c.size
			b.used += c.size
			close(c.ready)
			continue
		}
		left = append(left, c)
	}
	clear(b.waiting[len(left):])
	if b.waiting = left; len(left) > 0 {
		b.again()
	}
}

// press cuts the slowest of a user until so many bytes are on their way out, as
// far as their clients had their time.
func (b *budget) press(u *account, bytes int) {
	for bytes > 0 {
		var slowest *share
		for _, s := range u.shares {
			if !s.leaves && !s.since.IsZero() && (slowest == nil || s.since.Before(slowest.since)) {
				slowest = s
			}
		}
		if slowest == nil || time.Since(slowest.since) < grace {
			return
		}
		slowest.leaves = true
		u.leaving += slowest.size
		bytes -= slowest.size
		slowest.cut()
	}
}

// again looks once more in a while, for those who have had their time by then.
func (b *budget) again() {
	if b.timer != nil {
		return
	}
	b.timer = time.AfterFunc(grace/5, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.timer = nil
		b.serve()
	})
}
