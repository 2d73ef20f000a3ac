package engine

import (
	"context"
	"sync"

	"github.com/parley-server/parley"
)

// keep reserves what a command adds to its user's storage. It refuses a command that
// would exceed the limits. The caller must call free once the store counts the addition
// or never will. A command that makes sessions waits for the user's other commands if
// only their success would leave it no room; it must not hold a session's lock.
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
			return parley.Errorf(parley.CodeQuota, "you have %d sessions, and the limit is %d", held.Sessions, l.Sessions).
				WithHint("delete sessions you no longer need, or ask the operator of this server")
		case l.Bytes > 0 && (held.Bytes >= l.Bytes || held.Bytes+bytes > l.Bytes):
			return parley.Errorf(parley.CodeQuota, "your sessions hold %d bytes, and the limit is %d", held.Bytes, l.Bytes).
				WithHint("delete sessions you no longer need, or ask the operator of this server")
		}
		return nil
	})
}

// claims counts what is under way and will count against users' limits once it is stored.
// It is kept in this process only, since one process drives a store.
type claims struct {
	mu sync.Mutex
	by map[parley.Principal]*claim
}

// claim is one user's. Its fields except look are guarded by claims.mu.
type claim struct {
	look    chan struct{} // capacity 1: held from reading the store until the reservation
	taken   amount
	live    int           // number of reservations
	changed chan struct{} // closed and replaced when one is freed
	users   int           // users of this value: reservations, and calls reading the store
}

// amount counts against each of the limits.
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

// reserve reserves want from a user's limits if check finds room. check reads the store
// and adds what others have reserved; some of that may already be stored, so nothing
// under way is missed. With wait, a refusal caused only by reservations is put off until
// one of them is freed.
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

// try reserves want, or returns why not. The channel, unless nil, is closed when trying
// again makes sense.
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

// leave removes the entry of a user with nothing under way. The caller holds mu.
func (c *claims) leave(p parley.Principal, u *claim) {
	if u.users--; u.users == 0 {
		delete(c.by, p)
	}
}
