package wire

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

const (
	// inFlight limits the bytes that all answers of this process together hold for
	// clients that do not read. The garbage collector lets the heap grow to twice that.
	inFlight = 32 << 20
	// perUser is the share of one user, if there are several.
	perUser = inFlight / 4
	// small is the size of answers that have a budget of their own, so that a user's lists,
	// logs and exports never hold up that user's small requests.
	small         = 64 << 10
	inFlightSmall = 4 << 20 // for the small answers of all users together
	smallPerUser  = inFlightSmall / 4
	// Exports have a budget of their own, too, since one waits for its turn while it holds its
	// share. A user may have a few under way and a few waiting.
	inFlightExports = 8 << 20
	exportsPerUser  = inFlightExports / 4
	exportsWaiting  = 8
	// grace is how long a client may leave data unread before its answer is cut in favour
	// of another. A client that reads needs less for a piece; one that does not delays
	// others by no more.
	grace = 250 * time.Millisecond
)

// held is the budget of this process, since memory belongs to the process, not to a
// listener.
var held = newBudgets()

func newBudgets() *budget {
	b := newBudget(inFlight, perUser)
	b.small = newBudget(inFlightSmall, smallPerUser)
	b.exports = newBudget(inFlightExports, exportsPerUser)
	b.exports.line = exportsWaiting
	return b
}

// ErrFull refuses an export when too many exports of the same user are waiting already.
var ErrFull = errors.New("too many of this user's exports are waiting already")

// budget limits the bytes that answers hold. A client that reads frees its share within
// moments. When nothing is left, new answers wait, and an answer whose client has not
// read for longest is cut, after grace: one of the same user if the user's share is used
// up, otherwise one of the user with the most. So answers that one user does not read
// never use up another's share.
type budget struct {
	max, each int     // in bytes, for all and for one user
	line      int     // how many claims of one user may wait; 0: any number
	small     *budget // of shares that begin small; nil: this one
	exports   *budget // of exports; nil: this one

	mu      sync.Mutex
	used    int
	users   map[parley.Principal]*account
	waiting []*claim // in order of arrival
	timer   *time.Timer
}

// account is what one user has.
type account struct {
	used    int
	leaving int // part of used, held by answers that were cut and have not ended yet
	shares  []*share
}

// share is what one answer holds.
type share struct {
	b      *budget // where it counts
	user   parley.Principal
	size   int
	since  time.Time // since when its client has not read what was written; zero: it has read all
	cut    func()    // makes the answer's writes fail; does not wait
	leaves bool      // it was cut
}

// claim is a request waiting for a share.
type claim struct {
	*share
	ready chan struct{} // closed when the share is granted
}

func newBudget(max, each int) *budget {
	return &budget{max: max, each: each, users: map[parley.Principal]*account{}}
}

// begin counts bytes for a user until end is called. It waits until there is room, or
// returns the error of ctx, or ErrFull if too many of the user's claims wait. A share larger than the whole budget is granted when nothing
// else is held. parley.Local shares with nobody. Whoever has a share must not wait for
// anything that is held by those who wait for one.
func (b *budget) begin(ctx context.Context, user parley.Principal, size int, cut func()) (*share, error) {
	if b.small != nil && size <= small {
		b = b.small
	}
	b.mu.Lock()
	c := &claim{&share{b: b, user: user, size: size, cut: cut}, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.serve()
	if b.full(c) {
		b.waiting = b.waiting[:len(b.waiting)-1]
		b.mu.Unlock()
		return nil, ErrFull
	}
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

// resize changes the size of a share. It does not wait: if those who hold a share waited,
// all might wait for one another. Later claims wait instead.
func (s *share) resize(size int) {
	b := s.b
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

// given records that a client was given data, or with false that it has read it.
func (s *share) given(yes bool) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.since = (time.Time{}); yes {
		s.since = time.Now()
	}
}

// end frees what the share counts.
func (s *share) end() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.free(s)
	s.b.serve()
}

// The following are called under the lock.

// full reports whether the last claim waits behind too many of its user.
func (b *budget) full(c *claim) bool {
	if b.line == 0 || len(b.waiting) == 0 || b.waiting[len(b.waiting)-1] != c {
		return false
	}
	n := 0
	for _, w := range b.waiting {
		if w.user == c.user {
			n++
		}
	}
	return n > b.line
}

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

// serve grants waiting claims in order, as far as there is room. A claim that waits only
// for its own user's shares does not hold up other users. A claim that waits for everyone
// does, or a large one would never be granted.
func (b *budget) serve() {
	left := b.waiting[:0]
	var wanted map[parley.Principal]int // bytes, by users whose own share is used up
	all := 0                            // bytes that are wanted of everyone
	for _, c := range b.waiting {
		u := b.users[c.user]
		_, full := wanted[c.user]
		switch {
		case all > 0:
			all += c.size
		case full || u != nil && c.user != parley.Local && u.used > 0 && u.used+c.size > b.each:
			if wanted == nil {
				wanted = map[parley.Principal]int{}
			}
			wanted[c.user] += c.size
		case b.used > 0 && b.used+c.size > b.max:
			all = c.size
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
	for user, bytes := range wanted {
		u := b.users[user]
		b.press(u, u.used-u.leaving+bytes-b.each)
	}
	if all > 0 {
		b.pressMost(all)
	}
	if b.waiting = left; len(left) > 0 {
		b.again()
	}
}

// pressMost cuts answers of the user with the most until bytes are being freed for
// everyone.
func (b *budget) pressMost(bytes int) {
	leaving := 0
	var most *account
	for _, u := range b.users {
		leaving += u.leaving
		if most == nil || u.used-u.leaving > most.used-most.leaving {
			most = u
		}
	}
	b.press(most, b.used-leaving+bytes-b.max)
}

// press cuts the slowest answers of a user, as far as their grace is over, until enough
// bytes are being freed.
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

// again calls serve once more after a while, when more clients have used up their grace.
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
