package engine

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-server/parley"
)

// maxUsers bounds how many users' rates are kept in memory.
const maxUsers = 10_000

// meter measures how fast users begin turns. A message that is refused begins none: it takes a place while
// it is decided about, and gives it back.
type meter struct {
	mu    sync.Mutex
	rates map[parley.Principal]*pace
}

// pace is the rate of a user, or of an organisation.
type pace struct {
	*rate.Limiter
	held int // by messages that are being decided about
}

// pass is a place for a turn. Nil is one too, of which nothing is counted.
type pass struct {
	m     *meter
	paces []*pace
	now   time.Time
}

// enter takes a place for a turn of a user, and of the user's organisation.
func (m *meter) enter(p parley.Principal, l Limits, now time.Time) (*pass, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := &pass{m: m, now: now}
	for _, of := range []struct {
		p    parley.Principal
		n    int
		said string
	}{{p, l.TurnsPerMinute, "you have"}, {parley.Principal{Org: p.Org}, l.OrgTurnsPerMinute, "your organisation has"}} {
		if of.n <= 0 || of.p == (parley.Principal{}) {
			continue
		}
		r := m.of(of.p, of.n, now)
		if left := r.TokensAt(now) - float64(r.held); left < 1 {
			wait := time.Duration((1 - left) / float64(r.Limit()) * float64(time.Second))
			return nil, parley.Errorf(parley.CodeRateLimited, "%s begun %d turns within a minute, which is the limit", of.said, of.n).
				WithHint("wait a moment").WithRetry(wait)
		}
		in.paces = append(in.paces, r)
	}
	for _, r := range in.paces {
		r.held++
	}
	return in, nil
}

// settle gives the place back. If the turn begins, it counts. Later calls do nothing.
func (in *pass) settle(begins bool) {
	if in == nil {
		return
	}
	in.m.mu.Lock()
	defer in.m.mu.Unlock()
	for _, r := range in.paces {
		r.held--
		if begins {
			r.AllowN(in.now, 1)
		}
	}
	in.paces = nil
}

// of returns the pace of a user or an organisation, for n turns in a minute. m.mu is held.
func (m *meter) of(p parley.Principal, n int, now time.Time) *pace {
	r := m.rates[p]
	if r == nil {
		m.forget(now)
		r = &pace{Limiter: rate.NewLimiter(rate.Every(time.Minute/time.Duration(n)), n)}
		m.rates[p] = r
	}
	return r
}

// forget removes users whose rate is fully restored, to make room for another.
func (m *meter) forget(now time.Time) {
	if m.rates == nil {
		m.rates = map[parley.Principal]*pace{}
	}
	if len(m.rates) < maxUsers {
		return
	}
	for p, r := range m.rates {
		if r.held == 0 && r.TokensAt(now) >= float64(r.Burst()) {
			delete(m.rates, p)
		}
	}
	if len(m.rates) >= maxUsers { // all are active: then the past of all is dropped
		clear(m.rates)
	}
}
