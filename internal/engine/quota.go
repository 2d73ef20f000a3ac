package engine

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits bound what users may use, beside the budgets of turns. Other zero fields
// than MaxMessage bound nothing.
type Limits struct {
	// MaxMessage is the bytes of one message. 0: parley.MaxMessage.
	MaxMessage int
	// USDPerDay is what the model calls of a user may cost in a day, by UTC. What a
	// call may cost at most is reserved before it leaves, so a day ends below it.
	// A model whose price nobody knows is refused where there is a quota.
	USDPerDay float64
	// UserUSDPerDay are other amounts for single users.
	UserUSDPerDay map[string]float64
	// TurnsPerMinute is how many turns a user may begin, of which any number may
	// be at once.
	TurnsPerMinute int
	// Sessions and Bytes bound what a user may keep: sessions, also those that have
	// ended, and the bytes of their events and artifacts. They bind commands, however
	// many come at once, and not what a turn adds that was accepted: it is finished.
	// parley.Local has nobody to share with and is not bound.
	Sessions int
	Bytes    int64
}

func (l Limits) usd(user string) float64 {
	if n, ok := l.UserUSDPerDay[user]; ok {
		return n
	}
	return l.USDPerDay
}

// maxUsers bounds how many users' rates are kept in memory.
const maxUsers = 10_000

// meter is how fast users begin turns.
type meter struct {
	mu    sync.Mutex
	rates map[parley.Principal]*rate.Limiter
}

// afford makes sure that the model calls which events begin are within the
// user's quota for the day. Until free is called, what they may cost counts for
// others that ask at the same time.
func (e *Engine) afford(ctx context.Context, p parley.Principal, events []parley.Event) (free func(), err error) {
	limit := e.o.Limits.usd(p.User)
	if limit <= 0 {
		return func() {}, nil
	}
	var usd float64
	for _, ev := range events {
		if ev.Type != "model.started" {
			continue
		}
		got, err := ev.Payload()
		if err != nil {
			return nil, err
		}
		started := got.(parley.ModelStarted)
		usd += started.Reserved.USD
		if m, err := e.o.Models.Model(started.Model); err == nil && !m.Info().Scripted && m.Info().PricedAt == "" {
			return nil, parley.Errorf(parley.CodeForbidden, "the model %s has no price, so it can not be used where a quota in dollars holds", started.Model).
				WithHint("choose a model with a price, or give it one (models.known in parley.yaml; 0 is one)")
		}
	}
	if usd <= 0 {
		return func() {}, nil
	}
	return e.claims.reserve(ctx, p, amount{usd: usd}, false, func(ctx context.Context, others amount) error {
		spent, err := e.spentToday(ctx, p)
		if err == nil && spent+others.usd+usd > limit {
			err = e.quota(spent, limit)
		}
		return err
	})
}

func (e *Engine) spentToday(ctx context.Context, p parley.Principal) (usd float64, err error) {
	today := day(e.o.Now())
	rows, err := e.o.Store.Spent(ctx, p, today, today)
	for _, r := range rows {
		usd += r.Usage.USD
	}
	return usd, err
}

// UserUsage is what a user's model calls cost.
type UserUsage struct {
	From       string       `json:"from"`
	To         string       `json:"to"`
	Days       []seam.Spend `json:"days" nullable:"false"` // a row for each day and model
	USD        float64      `json:"usd"`
	QuotaUSD   float64      `json:"quota_usd,omitempty"` // a day; absent: there is none
	SpentToday float64      `json:"spent_today_usd"`
}

// maxDays bounds the span of one Usage.
const maxDays = 400

// Usage sums what p's calls cost from day to day, such as 2026-11-21; empty is
// today.
func (e *Engine) Usage(ctx context.Context, p parley.Principal, from, to string) (UserUsage, error) {
	today := day(e.o.Now())
	u := UserUsage{From: cmp.Or(from, today), To: cmp.Or(to, today), Days: []seam.Spend{}, QuotaUSD: e.o.Limits.usd(p.User)}
	first, err := time.Parse(time.DateOnly, u.From)
	if err != nil {
		return u, parley.Errorf(parley.CodeInvalid, "%q is no day", u.From).WithField("from").WithHint("write it like 2026-11-21")
	}
	last, err := time.Parse(time.DateOnly, u.To)
	if err != nil {
		return u, parley.Errorf(parley.CodeInvalid, "%q is no day", u.To).WithField("to").WithHint("write it like 2026-11-21")
	}
	if span := last.Sub(first); span < 0 || span > maxDays*24*time.Hour {
		return u, parley.Errorf(parley.CodeInvalid, "from %s to %s is no span of up to %d days", u.From, u.To, maxDays).WithField("to")
	}
	rows, err := e.o.Store.Spent(ctx, p, u.From, u.To)
	if err != nil {
		return u, err
	}
	for _, r := range rows {
		u.Days = append(u.Days, r)
		u.USD += r.Usage.USD
	}
	u.SpentToday, err = e.spentToday(ctx, p)
	return u, err
}

func (e *Engine) quota(spent, limit float64) error {
	now := e.o.Now().UTC()
	tomorrow := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	return parley.Errorf(parley.CodeQuota, "the model calls of today have cost $%.2f of the $%.2f that you may spend in a day, and the next one could cost more than is left", spent, limit).
		WithHint("go on after midnight UTC, choose a cheaper model, or ask whoever runs this server").WithRetry(tomorrow.Sub(now))
}

// admit says whether the user may begin another turn now.
func (e *Engine) admit(ctx context.Context, p parley.Principal) error {
	if limit := e.o.Limits.usd(p.User); limit > 0 {
		spent, err := e.spentToday(ctx, p)
		if err != nil {
			return err
		}
		if spent >= limit {
			return e.quota(spent, limit)
		}
	}
	n := e.o.Limits.TurnsPerMinute
	if n <= 0 {
		return nil
	}
	m, now := &e.meter, e.o.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rates[p]
	if r == nil {
		m.forget(now)
		r = rate.NewLimiter(rate.Every(time.Minute/time.Duration(n)), n)
		m.rates[p] = r
	}
	turn := r.ReserveN(now, 1)
	if wait := turn.DelayFrom(now); wait > 0 {
		turn.CancelAt(now)
		return parley.Errorf(parley.CodeRateLimited, "you have begun %d turns within a minute, which is the limit", n).
			WithHint("wait a moment").WithRetry(wait)
	}
	return nil
}

// forget makes room for another user: those go whose rate is full again.
func (m *meter) forget(now time.Time) {
	if m.rates == nil {
		m.rates = map[parley.Principal]*rate.Limiter{}
	}
	if len(m.rates) < maxUsers {
		return
	}
	for p, r := range m.rates {
		if r.TokensAt(now) >= float64(r.Burst()) {
			delete(m.rates, p)
		}
	}
	if len(m.rates) >= maxUsers { // all are busy: then nobody's past is remembered
		clear(m.rates)
	}
}
