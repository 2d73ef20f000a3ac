// Package push tells users' devices when a turn ends or waits for a person: programs by
// signed webhooks, browsers by web push, apps on phones by Firebase Cloud Messaging.
//
// [Push.Store] stands before a store. Each append of a session whose owner has devices
// gets a row for each device and event, in the same transaction: nothing is sent for an
// event that was not committed, and what was committed is sent, also after a crash.
// Nothing else in the server knows of devices. [Push.Run] sends what is due, several
// messages at once, one per device and a few per user, so that a device that does not
// answer delays nobody else. What fails is tried again for three days and then kept as
// dead for thirty, where its owner sees it and may send it again.
//
// A message is sent once, unless the server dies, or its answer is lost, after it was
// sent: it then comes again with the same id. The removal of a session removes what was
// still to be sent about it.
//
// Users decide where webhooks go, so they reach public addresses only, except for those
// that the operator allows. Endpoints, tokens and secrets are in the rows of devices,
// encrypted if there is a [Sealer], and nowhere else: no log, error or event has them.
//
// A message for which the outbox has no room is dropped. The device counts it and says so,
// and so do the log and [Options.Dropped].
//
// Only one process may use the store. Methods are safe for concurrent use.
package push

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/seam"
)

// Store is the part of a store that is used.
type Store interface {
	PutRow(ctx context.Context, p parley.Principal, r seam.Row) (int64, error)
	DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error
	Row(ctx context.Context, p parley.Principal, name seam.RowName) (seam.Row, error)
	Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error)
	Interaction(ctx context.Context, p parley.Principal, id parley.InteractionID) (seam.InteractionRow, error)
}

// Options of [Open].
type Options struct {
	// Allow are hosts that webhooks and push services may have although they are not public,
	// as [dial.Public] takes them. http is allowed for these alone.
	Allow []string
	// Contact is how a push service reaches the operator: mailto: or an https URL.
	Contact string
	// VAPID is the private key for browsers, 32 bytes in base64url. Empty: one is made, and
	// kept in the store.
	VAPID string
	// Sealer encrypts the secrets of devices, and the key that was made for browsers, in the store. Nil: they are
	// stored as they are.
	Sealer Sealer
	// FCM are the credentials of a service account, as JSON; nil: there is no FCM.
	FCM []byte
	// FCMURL replaces the address of FCM.
	FCMURL string
	// Resolver looks up names; nil: the system's.
	Resolver *net.Resolver
	// Client replaces the one that reaches receivers. Nil: one that reaches public addresses, and those of Allow.
	Client *http.Client
	// Dropped is told of messages for which there was no room. Nil: nobody is.
	Dropped func(messages int)
	Now     func() time.Time // nil: time.Now
	Logger  *slog.Logger     // nil: discarded
}

// Push notifies devices. Make one with [Open].
type Push struct {
	o      Options
	store  Store
	client *http.Client
	fcm    *fcm // nil: there is none
	wake   chan struct{}

	keyMu sync.Mutex
	key   *vapid // nil: nobody needed it so far

	change sync.Mutex // one change of devices at a time
	mu     sync.RWMutex
	users  map[parley.Principal]*user

	sends sending
}

// user is what is known of a user. A user without devices and wishes has none.
type user struct {
	devices []*device
	notify  parley.Notify
}

// Open reads the devices from the store.
func Open(ctx context.Context, store Store, o Options) (*Push, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	guard, err := dial.Public(o.Allow, o.Resolver)
	if err != nil {
		return nil, err
	}
	client := o.Client
	if client == nil {
		client = guard.Client(false)
	}
	p := &Push{o: o, store: store, client: client, wake: make(chan struct{}, 1), users: map[parley.Principal]*user{}}
	if o.VAPID != "" {
		if _, err := p.vapid(ctx); err != nil {
			return nil, err
		}
	}
	if o.FCM != nil {
		if p.fcm, err = newFCM(o); err != nil {
			return nil, err
		}
	}
	rows, err := store.Rows(ctx, parley.System(), seam.RowQuery{Kind: seam.RowDevice, Limit: -1})
	if err != nil {
		return nil, err
	}
	if err := p.read(ctx, rows); err != nil {
		return nil, err
	}
	rows, err = store.Rows(ctx, parley.System(), seam.RowQuery{Kind: seam.RowNotify, Limit: -1})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if r.User == "" {
			continue // the server's own
		}
		u := p.userOf(parley.Principal{User: r.User, Org: r.Org})
		if err := json.Unmarshal(r.Body, &u.notify); err != nil {
			u.notify = byDefault
		}
	}
	return p, nil
}

// byDefault is what users want who have not said it.
var byDefault = parley.Notify{Waits: true, Ends: true, After: 20}

// userOf returns what is known of a user, and makes it. p.mu is held, or p is not shared yet.
func (p *Push) userOf(of parley.Principal) *user {
	u := p.users[of]
	if u == nil {
		u = &user{notify: byDefault}
		p.users[of] = u
	}
	return u
}

// Info says how devices can be notified.
func (p *Push) Info(ctx context.Context) (parley.PushInfo, error) {
	key, err := p.vapid(ctx)
	if err != nil {
		return parley.PushInfo{}, err
	}
	i := parley.PushInfo{Kinds: []parley.DeviceKind{parley.DeviceWebhook, parley.DeviceWebPush}, Key: key.public}
	if p.fcm != nil {
		i.Kinds = append(i.Kinds, parley.DeviceFCM)
	}
	return i, nil
}

// Wishes returns what of wants to be told.
func (p *Push) Wishes(of parley.Principal) parley.Notify {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if u := p.users[of]; u != nil {
		return u.notify
	}
	return byDefault
}

// Wish changes what of wants to be told.
func (p *Push) Wish(ctx context.Context, of parley.Principal, n parley.Notify) (parley.Notify, error) {
	if n.Quiet != nil {
		if _, err := quietUntil(*n.Quiet, p.o.Now()); err != nil {
			return n, err
		}
	}
	if n.After < 0 || n.After > 86400 {
		return n, parley.Errorf(parley.CodeInvalid, "after_seconds is 0 to 86400").WithField("after_seconds")
	}
	body, err := json.Marshal(n)
	if err != nil {
		return n, err
	}
	p.change.Lock()
	defer p.change.Unlock()
	if _, err := p.store.PutRow(ctx, of, seam.Row{RowName: seam.RowName{Kind: seam.RowNotify, ID: "wishes"}, Body: body}); err != nil {
		return n, err
	}
	p.mu.Lock()
	p.userOf(of).notify = n
	p.mu.Unlock()
	p.ring()
	return n, nil
}

// quietUntil returns when quiet hours end in which now is, or the zero time.
func quietUntil(q parley.QuietHours, now time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(cmp.Or(q.Zone, "UTC"))
	if err != nil || q.Zone == "Local" {
		return time.Time{}, parley.Errorf(parley.CodeInvalid, "there is no time zone %q", parley.Cut(q.Zone, 60)).WithField("quiet.time_zone").
			WithHint("such as Europe/Zurich")
	}
	minute := func(field, text string) (int, error) {
		t, err := time.Parse("15:04", text)
		if err != nil {
			return 0, parley.Errorf(parley.CodeInvalid, "%q is not a time of day", parley.Cut(text, 20)).WithField("quiet." + field).WithHint("such as 22:00")
		}
		return t.Hour()*60 + t.Minute(), nil
	}
	from, err := minute("from", q.From)
	if err != nil {
		return time.Time{}, err
	}
	to, err := minute("to", q.To)
	if err != nil || from == to {
		return time.Time{}, err
	}
	here := now.In(zone)
	at, days := here.Hour()*60+here.Minute(), 0
	switch {
	case from < to && (at < from || at >= to), from > to && at < from && at >= to:
		return time.Time{}, nil
	case from > to && at >= from:
		days = 1
	}
	// Where clocks are set forward over this time, Date returns one that exists.
	return time.Date(here.Year(), here.Month(), here.Day()+days, to/60, to%60, 0, 0, zone), nil
}

func (p *Push) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// find returns the index of a device of u, or -1.
func (u *user) find(id parley.DeviceID) int {
	if u == nil {
		return -1
	}
	return slices.IndexFunc(u.devices, func(d *device) bool { return d.ID == id })
}

// device returns a copy of a device.
func (p *Push) device(of parley.Principal, id parley.DeviceID) (device, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	u := p.users[of]
	if i := u.find(id); i >= 0 {
		return *u.devices[i], nil
	}
	return device{}, errNoDevice
}

var errNoDevice = parley.Errorf(parley.CodeNotFound, "there is no such device")

// lost reports whether err says that a row has changed or gone.
func lost(err error) bool {
	return parley.CodeOf(err) == parley.CodeConflict || errors.Is(err, parley.ErrNotFound)
}
