package push

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	maxSending     = 256 // at once: those that take 20 s to answer are few of them
	maxUserSending = 8   // of them for one user
	maxUserSlow    = 4   // of these for devices whose last attempt failed: the others are not held up
	// sendWithin is how long a receiver may take to answer.
	sendWithin = 20 * time.Second
	// claimed is how long a message that is being sent is left alone: the server that died
	// over it does not come back.
	claimed = time.Minute
	// scanEvery is how often the store is asked without a reason.
	scanEvery = 30 * time.Second
	// keptFor is how long a message that was given up is kept, and maxDead how many of them of
	// a user: the store has room for a few MiB of a user's messages, which those of a device that
	// does not answer must not take from the others.
	keptFor = 30 * 24 * time.Hour
	maxDead = 100
	// staleAfter is when people are no longer told.
	staleAfter = 24 * time.Hour
)

// waits are the times before each further attempt: three days in all.
var waits = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// sending is what is under way.
type sending struct {
	mu    sync.Mutex
	n     int
	users map[parley.Principal]int
	slow  map[parley.Principal]int // those for devices whose last attempt failed
	busy  map[parley.DeviceID]bool
	times []time.Time // when the store is looked at, the earliest first; at most maxTimes
	hands sync.WaitGroup

	away bool // the store does not answer; only for Run

	lost map[waiter]int // messages for which there was no room
	tell time.Time      // when that is said again

	off    map[parley.DeviceID]int // messages put off since the device's share was looked at
	passed map[waiter]int          // messages passed over, when the device's share was looked at; only for scan
}

// Run sends what is due until ctx ends, and waits for what is under way.
func (p *Push) Run(ctx context.Context) {
	defer p.sends.hands.Wait()
	var swept time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
		now := p.o.Now()
		if now.Sub(swept) > 24*time.Hour && p.sweep(ctx, now) == nil {
			swept = now
		}
		began := time.Now()
		p.tell(ctx, now)
		p.outage(ctx, p.scan(ctx, now))
		breathe(ctx, time.Since(began))
		timer.Reset(p.pause(p.o.Now()))
	}
}

// outage logs the beginning and the end of a time in which the store does not answer.
func (p *Push) outage(ctx context.Context, err error) {
	s := &p.sends
	switch {
	case ctx.Err() != nil || (err != nil) == s.away:
		return
	case err != nil:
		p.o.Logger.WarnContext(ctx, "what is to be sent cannot be read; it is tried again without further words", "error", err)
	default:
		p.o.Logger.InfoContext(ctx, "what is to be sent can be read again")
	}
	s.away = err != nil
}

// pause is how long to wait for the next look at the store.
func (p *Push) pause(now time.Time) time.Duration {
	p.sends.mu.Lock()
	defer p.sends.mu.Unlock()
	if times := p.sends.times; len(times) > 0 {
		return min(max(times[0].Sub(now), time.Millisecond), scanEvery)
	}
	return scanEvery
}

// scan begins to send what is due, as far as there are hands for it.
func (p *Push) scan(ctx context.Context, now time.Time) error {
	p.sends.mu.Lock()
	for len(p.sends.times) > 0 && !p.sends.times[0].After(now) {
		p.sends.times = p.sends.times[1:]
	}
	p.sends.mu.Unlock()
	q := seam.RowQuery{Kind: seam.RowOutbox, Open: true, Due: now.Add(time.Millisecond), Limit: 500}
	passed := map[waiter]int{}
	for {
		rows, err := p.store.Rows(ctx, parley.System(), q)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return p.passedOver(ctx, passed)
		}
		for _, r := range rows {
			if !strings.HasPrefix(r.ID, rowPrefix) {
				continue
			}
			if full, err := p.take(ctx, r, now, passed); full || err != nil {
				return err
			}
		}
		q.After = q.Mark(rows[len(rows)-1])
	}
}

// take begins to send a row, or puts it off, or passes it over while its device is busy. full means that there are no more hands; whoever
// is done rings.
func (p *Push) take(ctx context.Context, r seam.Row, now time.Time, passed map[waiter]int) (full bool, err error) {
	of := parley.Principal{User: r.User, Org: r.Org}
	s := &p.sends
	if to := s.passOver(of, r); to != "" {
		passed[waiter{of, to}]++
		return false, nil
	}
	var n notice
	if err := json.Unmarshal(r.Body, &n); err != nil {
		return false, p.drop(ctx, r)
	}
	d, err := p.device(of, n.Device)
	if err != nil {
		return false, p.drop(ctx, r) // it was removed
	}
	if d.retryAfter.After(now) { // after a failure, what else is for it waits, too
		if s.putOff(d.ID) {
			if err := p.trim(ctx, of, d.ID); err != nil {
				return false, err
			}
		}
		return false, p.later(ctx, r, n, d.retryAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= maxSending {
		return true, nil
	}
	slow := d.Failures > 0
	if s.busy[d.ID] || s.users[of] >= maxUserSending || slow && s.slow[of] >= maxUserSlow {
		passed[waiter{of, d.ID}]++
		return false, nil
	}
	if s.users == nil {
		s.users, s.slow, s.busy = map[parley.Principal]int{}, map[parley.Principal]int{}, map[parley.DeviceID]bool{}
	}
	s.n++
	s.users[of]++
	if slow {
		s.slow[of]++
	}
	s.busy[d.ID] = true
	s.hands.Go(func() {
		defer func() {
			s.mu.Lock()
			s.n--
			if s.users[of]--; s.users[of] == 0 {
				delete(s.users, of)
			}
			if slow {
				if s.slow[of]--; s.slow[of] == 0 {
					delete(s.slow, of)
				}
			}
			delete(s.busy, d.ID)
			s.mu.Unlock()
			p.ring()
		}()
		if err := p.deliver(ctx, of, r, n, d); err != nil && ctx.Err() == nil && !lost(err) {
			p.o.Logger.WarnContext(ctx, "what became of a notification cannot be stored", "device", d.ID, "error", err)
			p.due(p.o.Now().Add(waits[0]))
			p.rest(of, d.ID, p.o.Now().Add(waits[0]))
		}
	})
	return false, nil
}

// deliver makes one attempt, and stores what came of it.
func (p *Push) deliver(ctx context.Context, of parley.Principal, r seam.Row, n notice, d device) error {
	now := p.o.Now()
	if d.Kind.ForPerson() {
		done, until, err := p.forPerson(ctx, of, n, now)
		switch {
		case err != nil:
			return err
		case done:
			return p.drop(ctx, r)
		case !until.IsZero():
			return p.later(ctx, r, n, until)
		}
	}
	// The attempt counts from now on, whatever happens.
	n.Attempts, n.Error = n.Attempts+1, ""
	version, err := p.keep(ctx, r, n, now.Add(claimed), true)
	if err != nil {
		return err
	}
	r.Version = version
	within, stop := context.WithTimeout(ctx, sendWithin)
	err = p.send(within, of, n, d)
	stop()
	if ctx.Err() != nil && err != nil {
		ctx = context.WithoutCancel(ctx) // the server stops: another attempt is made when it starts
		n.Attempts--
		_, err := p.keep(ctx, r, n, now, true)
		return err
	}
	if err == nil {
		if err := p.drop(ctx, r); err != nil {
			return err
		}
		if d.Failures > 0 || p.o.Now().Sub(d.DeliveredAt) > time.Minute {
			p.note(ctx, of, d.ID, func(d *device) {
				d.Failures, d.LastError, d.DeliveredAt, d.retryAfter = 0, "", parley.Now(p.o.Now()), time.Time{}
			})
		}
		return nil
	}
	return p.failed(ctx, of, r, n, d, err)
}

// forPerson decides about a message that a person sees: whether there is nothing left to say,
// or until when it has to wait.
func (p *Push) forPerson(ctx context.Context, of parley.Principal, n notice, now time.Time) (done bool, until time.Time, err error) {
	if now.Sub(n.At) > staleAfter {
		return true, until, nil
	}
	switch n.Type {
	case "interaction.opened":
		in, err := p.store.Interaction(ctx, of, n.Interaction.ID)
		if errors.Is(err, parley.ErrNotFound) || err == nil && !in.Open {
			return true, until, nil
		}
		if err != nil {
			return false, until, err
		}
	case "interaction.answered", "interaction.expired":
		// Where the question has not been shown, there is nothing to close.
		question := seam.RowName{Kind: seam.RowOutbox, User: of.User, Org: of.Org, ID: opened(n.Session, n.Interaction.ID, n.Device)}
		switch err := p.store.DropRow(ctx, parley.System(), question, seam.AnyRow); {
		case err == nil:
			return true, until, nil
		case !lost(err):
			return false, until, err
		}
		return false, until, nil // a notification is closed at any hour
	case "test":
		return false, until, nil
	}
	if w := p.Wishes(of); w.Quiet != nil {
		until, _ = quietUntil(*w.Quiet, now)
	}
	return false, until, nil
}

// failed stores that an attempt failed, and when the next is.
func (p *Push) failed(ctx context.Context, of parley.Principal, r seam.Row, n notice, d device, why error) error {
	f := verdictOf(why)
	n.Error = parley.Cut(f.text, 300)
	now := p.o.Now()
	p.o.Logger.InfoContext(ctx, "a notification did not arrive", "device", d.ID, "kind", d.Kind, "attempt", n.Attempts, "error", n.Error)
	switch {
	case f.gone && d.Kind.ForPerson():
		if err := p.Remove(ctx, of, d.ID); err != nil && !lost(err) {
			return err
		}
		return p.drop(ctx, r)
	case f.gone: // its owner may switch it on again
		p.note(ctx, of, d.ID, func(d *device) { d.Paused, d.LastError = true, n.Error })
		_, err := p.keep(ctx, r, n, time.Time{}, false)
		return err
	case f.never || n.Attempts > len(waits):
		_, err := p.keep(ctx, r, n, time.Time{}, false)
		if err == nil {
			err = p.thin(ctx, of)
		}
		p.note(ctx, of, d.ID, func(d *device) { d.Failures, d.LastError = d.Failures+1, n.Error })
		return err
	}
	wait := waits[n.Attempts-1]
	wait += time.Duration(rand.Int64N(int64(wait)/5 + 1)) // so that all do not come back at once
	wait = max(wait, min(f.after, 24*time.Hour))
	// The device's other messages wait as long as the failures in a row say.
	rest := waits[min(d.Failures, len(waits)-1)]
	p.note(ctx, of, d.ID, func(d *device) {
		d.Failures, d.LastError, d.retryAfter = d.Failures+1, n.Error, now.Add(max(min(rest, wait), f.after))
	})
	_, err := p.keep(ctx, r, n, now.Add(wait), true)
	p.due(now.Add(wait))
	return err
}

// thin removes the oldest messages of a user that were given up, if there are more than maxDead.
func (p *Push) thin(ctx context.Context, of parley.Principal) error {
	rows, err := p.store.Rows(ctx, parley.System(), seam.RowQuery{Kind: seam.RowOutbox, User: of.User, Org: of.Org, Shut: true, Limit: -1})
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r seam.Row) bool { return !strings.HasPrefix(r.ID, rowPrefix) })
	slices.SortFunc(rows, func(a, b seam.Row) int { return cmp.Compare(a.Version, b.Version) })
	for _, r := range rows[:max(0, len(rows)-maxDead)] {
		if err := p.drop(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// rest keeps a device's messages back for a while.
func (p *Push) rest(of parley.Principal, id parley.DeviceID, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.users[of]; u.find(id) >= 0 {
		d := *u.devices[u.find(id)]
		d.retryAfter = until
		u.devices[u.find(id)] = &d
	}
}

// later puts a row off. No attempt was made.
func (p *Push) later(ctx context.Context, r seam.Row, n notice, until time.Time) error {
	_, err := p.keep(ctx, r, n, until, true)
	if lost(err) {
		return nil
	}
	p.due(until)
	return err
}

// keep stores a row at the version that was read.
func (p *Push) keep(ctx context.Context, r seam.Row, n notice, due time.Time, open bool) (int64, error) {
	body, err := json.Marshal(n)
	if err != nil {
		return 0, err
	}
	r.Body, r.Open, r.Due = body, open, due
	if !due.IsZero() {
		r.Due = parley.Now(due)
	}
	return p.store.PutRow(ctx, parley.System(), r)
}

func (p *Push) drop(ctx context.Context, r seam.Row) error {
	if err := p.store.DropRow(ctx, parley.System(), r.RowName, r.Version); err != nil && !lost(err) {
		return err
	}
	return nil
}

// due notes when the store has to be asked.
func (p *Push) due(at time.Time) {
	p.sends.mu.Lock()
	p.sends.at(at)
	p.sends.mu.Unlock()
}

// maxTimes limits how many times are remembered. Without its time a row is sent at one of the looks at the store
// that come anyway.
const maxTimes = 1000

// at notes a time. Callers hold mu.
func (s *sending) at(t time.Time) {
	i, found := slices.BinarySearchFunc(s.times, t, time.Time.Compare)
	if !found {
		s.times = slices.Insert(s.times, i, t)
		s.times = s.times[:min(len(s.times), maxTimes)]
	}
}

// sweep removes what was given up long ago.
func (p *Push) sweep(ctx context.Context, now time.Time) error {
	q := seam.RowQuery{Kind: seam.RowOutbox, Shut: true, Limit: 500}
	for {
		rows, err := p.store.Rows(ctx, parley.System(), q)
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			var n notice
			if strings.HasPrefix(r.ID, rowPrefix) && (json.Unmarshal(r.Body, &n) != nil || now.Sub(n.At) > keptFor) {
				if err := p.drop(ctx, r); err != nil {
					return err
				}
			}
		}
		q.After = q.Mark(rows[len(rows)-1])
	}
}

func (p *Push) send(ctx context.Context, of parley.Principal, n notice, d device) error {
	if err := d.unlocked(); err != nil {
		return &verdict{text: parley.Info(err).Message}
	}
	switch d.Kind {
	case parley.DeviceWebhook:
		return p.sendWebhook(ctx, of, n, d)
	case parley.DeviceWebPush:
		return p.sendWebPush(ctx, n, d)
	case parley.DeviceFCM:
		if p.fcm == nil {
			return &verdict{text: "this server does not use FCM any more", never: true}
		}
		return p.fcm.send(ctx, n, d)
	}
	return &verdict{text: "this kind of devices is not known here", never: true}
}

// verdict is what an answer that is no success means.
type verdict struct {
	text  string
	gone  bool          // the device does not want anything any more
	never bool          // this message will not be accepted
	after time.Duration // the receiver wants no other attempt before
}

func (v *verdict) Error() string { return v.text }

// verdictOf is the verdict about an attempt. An error of the connection is worth another one.
func verdictOf(err error) verdict {
	if v, ok := errors.AsType[*verdict](err); ok {
		return *v
	}
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Code == parley.CodeForbidden {
		return verdict{text: e.Message, never: true} // the guard refuses the address
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // which does not have the address
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return verdict{text: "no answer came within " + sendWithin.String()}
	}
	return verdict{text: "no connection: " + err.Error()}
}

// retryAfter is what an answer says of another attempt.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return time.Duration(min(n, 86400)) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return min(max(t.Sub(now), 0), 24*time.Hour)
	}
	return 0
}

// Test sends a message to a device, without an event.
func (p *Push) Test(ctx context.Context, of parley.Principal, id parley.DeviceID) error {
	d, err := p.device(of, id)
	if err != nil {
		return err
	}
	if d.Paused {
		return parley.Errorf(parley.CodeConflict, "the device is paused").WithHint("switch it on first")
	}
	n := notice{Device: id, Type: "test", At: parley.Now(p.o.Now()), Text: "This is a test."}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = p.store.PutRow(ctx, of, seam.Row{RowName: seam.RowName{Kind: seam.RowOutbox, ID: n.row()}, Due: n.At, Open: true, Body: body})
	p.ring()
	return err
}

// Deliveries lists what has not arrived at of's devices: what was given up if dead, else what
// is still tried.
func (p *Push) Deliveries(ctx context.Context, of parley.Principal, dead bool) ([]parley.Delivery, error) {
	rows, err := p.store.Rows(ctx, of, seam.RowQuery{Kind: seam.RowOutbox, User: of.User, Org: of.Org, Open: !dead, Shut: dead, Limit: 500})
	if err != nil {
		return nil, err
	}
	list := []parley.Delivery{}
	for _, r := range rows {
		id, ours := strings.CutPrefix(r.ID, rowPrefix)
		var n notice
		if !ours || json.Unmarshal(r.Body, &n) != nil {
			continue
		}
		list = append(list, parley.Delivery{
			ID: parley.DeliveryID(id), Device: n.Device, Type: n.Type, Session: n.Session, Turn: n.Turn, At: n.At,
			Dead: !r.Open, Attempts: n.Attempts, NextAt: r.Due, Error: n.Error,
		})
	}
	return list, nil
}

// Again tries a delivery now, also one that was given up.
func (p *Push) Again(ctx context.Context, of parley.Principal, id parley.DeliveryID) error {
	r, err := p.outbox(ctx, of, id)
	if err != nil {
		return err
	}
	var n notice
	if err := json.Unmarshal(r.Body, &n); err != nil {
		return err
	}
	d, err := p.device(of, n.Device)
	if err != nil {
		return err
	}
	if d.Paused {
		return parley.Errorf(parley.CodeConflict, "the device is paused").WithHint("switch it on first")
	}
	p.rest(of, d.ID, time.Time{})
	n.Attempts = 0
	if _, err = p.keep(ctx, r, n, p.o.Now(), true); lost(err) {
		return nil // it is being sent
	}
	p.ring()
	return err
}

// Forget removes a delivery.
func (p *Push) Forget(ctx context.Context, of parley.Principal, id parley.DeliveryID) error {
	r, err := p.outbox(ctx, of, id)
	if err != nil {
		return err
	}
	return p.drop(ctx, r)
}

func (p *Push) outbox(ctx context.Context, of parley.Principal, id parley.DeliveryID) (seam.Row, error) {
	r, err := p.store.Row(ctx, of, seam.RowName{Kind: seam.RowOutbox, User: of.User, Org: of.Org, ID: rowPrefix + string(id)})
	if errors.Is(err, parley.ErrNotFound) {
		err = parley.Errorf(parley.CodeNotFound, "there is no such delivery").WithHint("it has arrived, or was removed")
	}
	return r, err
}
