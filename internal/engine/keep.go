package engine

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
)

// keep reserves what a command adds to what its user keeps, and refuses one that
// would go beyond the limits. The caller must call free once the store counts it,
// or never will. A command that makes sessions waits for others of the user while
// only their success would leave it no room; it must hold no session's lock.
func (e *Engine) keep(ctx context.Context, p parley.Principal, sessions int, bytes int64) (free func(), err error) {
	l := e.o.Limits
	if p == parley.Local || p.IsSystem() || l.Sessions <= 0 && l.Bytes <= 0 {
		return func() {}, nil
	}
	return e.claims.reserve(ctx, p, amount{sessions: sessions, bytes: bytes}, sessions > 0, func(ctx context.Context, others amount) error {
		held, err := e.o.Store.Held(ctx, p, "")
		if err != nil {
			return err
		}
		held.Sessions += others.sessions
		held.Bytes += others.bytes
		switch {
		case sessions > 0 && l.Sessions > 0 && held.Sessions+sessions > l.Sessions:
			return parley.Errorf(parley.CodeQuota, "you have %d sessions of the %d that one user may have", held.Sessions, l.Sessions).
				WithHint("delete some that you need no more, or ask whoever runs this server")
		case l.Bytes > 0 && (held.Bytes >= l.Bytes || held.Bytes+bytes > l.Bytes):
			return parley.Errorf(parley.CodeQuota, "your sessions hold %d bytes of the %d that one user may keep", held.Bytes, l.Bytes).
				WithHint("delete sessions that you need no more, or ask whoever runs this server")
		}
		return nil
	})
}

// claims is what is under way and will count against the limits of users once the
// store has it. It is in this process only, as a store is driven by one.
type claims struct {
	mu sync.Mutex
	by map[parley.Principal]*claim
}

// claim is one user's. Fields but look are guarded by claims.mu.
type claim struct {
	look    chan struct{} // capacity 1: held from a look at the store to the reservation
	taken   amount
	live    int           // how many reservations that is
	changed chan struct{} // closed and replaced when one is freed
	users   int           // of this value: reservations, and calls that look
}

// amount is so much of each limit.
type amount struct {
	sessions int
	bytes    int64
	usd      float64
}

func (a *amount) add(b amount, times int) {
	a.sessions += times * b.sessions
	a.bytes += int64(times) * b.bytes
	a.usd += float64(times) * b.usd
}

// reserve takes want of a user's limits if check finds room for it. check asks the
// store and adds what others have reserved, some of which the store may have by
// then: so nothing is missed that is under way. With wait, a refusal that only the
// others cause is put off until one of them is through.
func (c *claims) reserve(ctx context.Context, p parley.Principal, want amount, wait bool, check func(ctx context.Context, others amount) error) (free func(), err error) {
	c.mu.Lock()
	if c.by == nil {
		c.by = map[parley.Principal]*claim{}
	}
	u := c.by[p]
	if u == nil {
		u = &claim{look: make(chan struct{}, 1), changed: make(chan struct{})}
		c.by[p] = u
	}
	u.users++
	c.mu.Unlock()
	for {
		changed, err := c.try(ctx, u, want, wait, check)
		if err == nil {
			return sync.OnceFunc(func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				u.taken.add(want, -1)
				u.live--
				close(u.changed)
				u.changed = make(chan struct{})
				c.leave(p, u)
			}), nil
		}
		if changed != nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave(p, u)
		return nil, err
	}
}

// try reserves want, or says why not. The channel, unless it is nil, is closed when
// it may be tried again.
func (c *claims) try(ctx context.Context, u *claim, want amount, wait bool, check func(ctx context.Context, others amount) error) (<-chan struct{}, error) {
	select {
	case u.look <- struct{}{}:
		defer func() { <-u.look }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	others, live, changed := u.taken, u.live, u.changed
	c.mu.Unlock()
	err := check(ctx, others)
	if err == nil {
		c.mu.Lock()
		u.taken.add(want, 1)
		u.live++
		c.mu.Unlock()
		return nil, nil
	}
	if !wait || live == 0 || !isCode(err, parley.CodeQuota) {
		return nil, err
	}
	if alone := check(ctx, amount{}); alone != nil {
		return nil, alone
	}
	return changed, err
}

// leave forgets a user of whom nothing is under way. The caller holds mu.
func (c *claims) leave(p parley.Principal, u *claim) {
	if u.users--; u.users == 0 {
		delete(c.by, p)
	}
}
