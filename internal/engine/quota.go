package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Limits limit what each user may use, in addition to the budgets of turns. A zero field
// other than MaxMessage sets no limit.
type Limits struct {
	// MaxMessage is the size limit of a message in bytes. 0: parley.MaxMessage.
	MaxMessage int
	// USDPerDay is what the model calls of a user may cost per UTC day. The most a call
	// may cost is reserved before it is sent, so the total stays below the limit. With a
	// quota, models without a known price are refused.
	USDPerDay float64
	// UserUSDPerDay overrides USDPerDay for single users.
	UserUSDPerDay map[string]float64
	// TurnsPerMinute is how many turns a user may begin per minute; all may begin at
	// once.
	TurnsPerMinute int
	// OrgUSDPerDay, OrgsUSDPerDay and OrgTurnsPerMinute are the same for all users of an
	// organisation together. A user without an organisation has no such limit.
	OrgUSDPerDay      float64
	OrgsUSDPerDay     map[string]float64
	OrgTurnsPerMinute int
	// Sessions and Bytes limit what a user may store: the number of sessions, including
	// ended ones, and the bytes of their events and artifacts. They apply to commands,
	// however many come at once, but not to what an accepted turn adds. They do not apply
	// to parley.Local, who shares with nobody.
	Sessions int
	Bytes    int64
}

func (l Limits) usd(user string) float64 {
	if n, ok := l.UserUSDPerDay[user]; ok {
		return n
	}
	return l.USDPerDay
}

func (l Limits) orgUSD(org string) float64 {
	if org == "" {
		return 0
	}
	if n, ok := l.OrgsUSDPerDay[org]; ok {
		return n
	}
	return l.OrgUSDPerDay
}

// afford ensures that the model calls begun by events are within the user's quota for the
// day, and within the organisation's. Until free is called, their cost counts against other
// requests.
func (e *Engine) afford(ctx context.Context, p parley.Principal, events []parley.Event) (free func(), err error) {
	limit, orgLimit := e.o.Limits.usd(p.User), e.o.Limits.orgUSD(p.Org)
	if limit <= 0 && orgLimit <= 0 {
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
			// The user is told whom to ask, and the operator which setting it is.
			e.o.Logger.Warn("a model without a price was refused to a user with a quota; give it one in parley.yaml, where 0 is one", "model", started.Model, "setting", "models.known")
			return nil, parley.Errorf(parley.CodeForbidden, "the model %s has no known price, so it cannot be used with a quota in dollars", started.Model).
				WithHint("choose another model, or ask the operator of this server to set its price")
		}
	}
	if usd <= 0 {
		return func() {}, nil
	}
	mine := func() {}
	if limit > 0 {
		mine, err = e.claims.reserve(ctx, p, amount{usd: usd}, false, func(ctx context.Context, others amount) error {
			spent, err := e.spentToday(ctx, p)
			if err == nil && spent+others.usd+usd > limit {
				err = e.quota("you", spent, limit)
			}
			return err
		})
	}
	if err != nil || orgLimit <= 0 {
		return mine, err
	}
	// A principal without a user is nobody's but the organisation's.
	orgs, err := e.claims.reserve(ctx, parley.Principal{Org: p.Org}, amount{usd: usd}, false, func(ctx context.Context, others amount) error {
		spent, err := e.spentByOrg(ctx, p.Org)
		if err == nil && spent+others.usd+usd > orgLimit {
			err = e.quota("your organisation", spent, orgLimit)
		}
		return err
	})
	if err != nil {
		mine()
		return nil, err
	}
	return func() { mine(); orgs() }, nil
}

func (e *Engine) spentByOrg(ctx context.Context, org string) (float64, error) {
	return e.o.Store.SpentByOrg(ctx, parley.System(), org, day(e.o.Now()))
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
	Days       []seam.Spend `json:"days" nullable:"false"` // one row per day and model
	USD        float64      `json:"usd"`
	QuotaUSD   float64      `json:"quota_usd,omitempty"` // per day; absent if there is no quota
	SpentToday float64      `json:"spent_today_usd"`
}

// maxDays limits the span of one Usage.
const maxDays = 400

// Usage sums the cost of p's calls per day, between two days such as 2026-11-21; empty
// means today.
func (e *Engine) Usage(ctx context.Context, p parley.Principal, from, to string) (UserUsage, error) {
	today := day(e.o.Now())
	u := UserUsage{From: cmp.Or(from, today), To: cmp.Or(to, today), Days: []seam.Spend{}, QuotaUSD: e.o.Limits.usd(p.User)}
	first, err := time.Parse(time.DateOnly, u.From)
	if err != nil {
		return u, parley.Errorf(parley.CodeInvalid, "%q is not a day", u.From).WithField("from").WithHint("write it like 2026-11-21")
	}
	last, err := time.Parse(time.DateOnly, u.To)
	if err != nil {
		return u, parley.Errorf(parley.CodeInvalid, "%q is not a day", u.To).WithField("to").WithHint("write it like 2026-11-21")
	}
	if span := last.Sub(first); span < 0 || span > maxDays*24*time.Hour {
		return u, parley.Errorf(parley.CodeInvalid, "from %s to %s is not a span of 1 to %d days", u.From, u.To, maxDays).WithField("to")
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

func (e *Engine) quota(who string, spent, limit float64) error {
	now := e.o.Now().UTC()
	tomorrow := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
	return parley.Errorf(parley.CodeQuota, "the model calls of today have cost $%.2f of the $%.2f that %s may spend in a day, and the next one could cost more than is left", spent, limit, who).
		WithHint("go on after midnight UTC, choose a cheaper model, or ask the operator of this server").WithRetry(tomorrow.Sub(now))
}

// admit reports whether the user may begin another turn now. The turn counts from then on until its pass is settled.
func (e *Engine) admit(ctx context.Context, p parley.Principal) (*pass, error) {
	if limit := e.o.Limits.usd(p.User); limit > 0 {
		spent, err := e.spentToday(ctx, p)
		if err != nil {
			return nil, err
		}
		if spent >= limit {
			return nil, e.quota("you", spent, limit)
		}
	}
	if limit := e.o.Limits.orgUSD(p.Org); limit > 0 {
		spent, err := e.spentByOrg(ctx, p.Org)
		if err != nil {
			return nil, err
		}
		if spent >= limit {
			return nil, e.quota("your organisation", spent, limit)
		}
	}
	return e.meter.enter(p, e.o.Limits, e.o.Now())
}
