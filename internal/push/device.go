package push

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// MaxDevices is the most devices that a user has.
const MaxDevices = 20

// device is a device with its secrets, as it is stored.
type device struct {
	parley.Device
	secrets
	Sealed     []byte    `json:"sealed,omitempty"` // the secrets, as they are stored
	locked     error     // why they cannot be decrypted
	retryAfter time.Time // after a failure nothing is sent before this; in memory only
}

// secret signs the messages to a webhook.
type secret struct {
	Text  string    `json:"text"`
	Until time.Time `json:"until,omitzero"` // zero: always
}

// shown is a device without its secrets.
func (d device) shown() parley.Device {
	d.Device.Secret = ""
	if err := d.unlocked(); err != nil {
		d.LastError = parley.Info(err).Message
	}
	return d.Device
}

// Devices lists of's devices, the oldest first.
func (p *Push) Devices(of parley.Principal) []parley.Device {
	p.mu.RLock()
	defer p.mu.RUnlock()
	list := []parley.Device{}
	if u := p.users[of]; u != nil {
		for _, d := range u.devices {
			list = append(list, d.shown())
		}
	}
	return list
}

// Device returns one of of's devices.
func (p *Push) Device(of parley.Principal, id parley.DeviceID) (parley.Device, error) {
	d, err := p.device(of, id)
	return d.shown(), err
}

// Add registers a device of of. A browser or an app that is registered already keeps its
// entry, which is changed. One that another user has registered is no longer that user's:
// somebody else sits in front of it now.
func (p *Push) Add(ctx context.Context, of parley.Principal, a parley.AddDevice) (parley.Device, error) {
	if of.User == "" {
		return parley.Device{}, parley.Errorf(parley.CodeForbidden, "devices belong to users")
	}
	d := device{Device: parley.Device{
		ID: parley.DeviceID(ulid.Make().String()), Kind: a.Kind, Name: a.Name, Events: a.Events, Apps: a.Apps, CreatedAt: parley.Now(p.o.Now()),
	}}
	if err := d.check(); err != nil {
		return parley.Device{}, err
	}
	shown := ""
	switch a.Kind {
	case parley.DeviceWebhook:
		at, err := p.target("url", a.URL)
		if err != nil {
			return parley.Device{}, err
		}
		text := a.Secret
		if text == "" {
			text = newSecret()
		} else if err := checkSecret(text); err != nil {
			return parley.Device{}, err
		}
		d.URL, d.Signs, shown = at.String(), []secret{{Text: text}}, text
	case parley.DeviceWebPush:
		if a.Subscription == nil {
			return parley.Device{}, parley.Errorf(parley.CodeInvalid, "a browser needs its subscription").WithField("subscription").WithHint("PushSubscription.toJSON() in the page's script")
		}
		at, err := p.target("subscription.endpoint", a.Subscription.Endpoint)
		if err != nil {
			return parley.Device{}, err
		}
		d.Endpoint, d.URL = at.String(), at.Scheme+"://"+at.Host
		if d.P256DH, err = decode64("subscription.keys.p256dh", a.Subscription.Keys.P256DH, 65); err != nil {
			return parley.Device{}, err
		}
		if _, err := ecdh.P256().NewPublicKey(d.P256DH); err != nil {
			return parley.Device{}, parley.Errorf(parley.CodeInvalid, "p256dh is not a point of the curve P-256").WithField("subscription.keys.p256dh")
		}
		if d.Auth, err = decode64("subscription.keys.auth", a.Subscription.Keys.Auth, 16); err != nil {
			return parley.Device{}, err
		}
	case parley.DeviceFCM:
		if p.fcm == nil {
			return parley.Device{}, parley.Errorf(parley.CodeInvalid, "this server does not use FCM").WithField("kind").WithHint("the operator sets push.fcm")
		}
		if a.Token == "" || strings.ContainsFunc(a.Token, unicode.IsSpace) {
			return parley.Device{}, parley.Errorf(parley.CodeInvalid, "an app on a phone needs its registration token").WithField("token")
		}
		d.Token = a.Token
	default:
		return parley.Device{}, parley.Errorf(parley.CodeInvalid, "there is no kind of devices %q", parley.Cut(string(a.Kind), 20)).WithField("kind").WithHint("webhook, webpush or fcm")
	}
	p.change.Lock()
	defer p.change.Unlock()
	p.mu.RLock()
	u, n, known := p.users[of], 0, false
	if u != nil {
		n = len(u.devices)
		for _, have := range u.devices {
			if have.Kind == d.Kind && (d.Endpoint != "" && have.Endpoint == d.Endpoint || d.Token != "" && have.Token == d.Token) {
				d.ID, d.CreatedAt, known = have.ID, have.CreatedAt, true
			}
		}
	}
	former := p.others(of, d)
	p.mu.RUnlock()
	if !known && n >= MaxDevices {
		return parley.Device{}, parley.Errorf(parley.CodeQuota, "a user has at most %d devices", MaxDevices).WithHint("remove one that is no longer used")
	}
	for who, id := range former {
		if err := p.remove(ctx, who, id); err != nil {
			return parley.Device{}, err
		}
	}
	if err := p.put(ctx, of, d); err != nil {
		return parley.Device{}, err
	}
	out := d.shown()
	out.Secret = shown
	return out, nil
}

// Update changes a device.
func (p *Push) Update(ctx context.Context, of parley.Principal, id parley.DeviceID, c parley.UpdateDevice) (parley.Device, error) {
	p.change.Lock()
	defer p.change.Unlock()
	d, err := p.device(of, id)
	if err != nil {
		return parley.Device{}, err
	}
	if c.Name != nil {
		d.Name = *c.Name
	}
	if c.Events != nil {
		d.Events = *c.Events
	}
	if c.Apps != nil {
		d.Apps = *c.Apps
	}
	if c.Paused != nil {
		if d.Paused && !*c.Paused {
			d.Failures, d.LastError, d.retryAfter = 0, "", time.Time{}
		}
		d.Paused = *c.Paused
	}
	shown := ""
	if c.NewSecret {
		if err := d.unlocked(); err != nil {
			return parley.Device{}, err
		}
		if d.Kind != parley.DeviceWebhook {
			return parley.Device{}, parley.Errorf(parley.CodeInvalid, "only webhooks have a secret").WithField("new_secret")
		}
		shown = newSecret()
		old := d.Signs[0]
		old.Until = parley.Now(p.o.Now()).Add(24 * time.Hour)
		d.Signs = []secret{{Text: shown}, old}
	}
	if err := d.check(); err != nil {
		return parley.Device{}, err
	}
	if err := p.put(ctx, of, d); err != nil {
		return parley.Device{}, err
	}
	out := d.shown()
	out.Secret = shown
	return out, nil
}

// Remove forgets a device. What was still to be sent to it is not sent.
func (p *Push) Remove(ctx context.Context, of parley.Principal, id parley.DeviceID) error {
	p.change.Lock()
	defer p.change.Unlock()
	if _, err := p.device(of, id); err != nil {
		return err
	}
	return p.remove(ctx, of, id)
}

// others are the entries that other users have of the same browser or app. Whoever registers
// it has its keys, which nobody but the browser gives away. p.mu is held.
func (p *Push) others(of parley.Principal, d device) map[parley.Principal]parley.DeviceID {
	same := func(o *device) bool {
		return o.Kind == d.Kind && (d.Token != "" && o.Token == d.Token ||
			d.Endpoint != "" && o.Endpoint == d.Endpoint && bytes.Equal(o.P256DH, d.P256DH) && bytes.Equal(o.Auth, d.Auth))
	}
	if !d.Kind.ForPerson() {
		return nil
	}
	list := map[parley.Principal]parley.DeviceID{}
	for who, u := range p.users {
		if i := slices.IndexFunc(u.devices, same); i >= 0 && who.User != of.User {
			list[who] = u.devices[i].ID
		}
	}
	return list
}

// remove forgets a device that is there. p.change is held.
func (p *Push) remove(ctx context.Context, of parley.Principal, id parley.DeviceID) error {
	if err := p.store.DropRow(ctx, of, seam.RowName{Kind: seam.RowDevice, User: of.User, Org: of.Org, ID: string(id)}, seam.AnyRow); err != nil && !lost(err) {
		return err
	}
	p.sends.mu.Lock()
	delete(p.sends.off, id)
	p.sends.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[of]
	u.devices = slices.Delete(slices.Clone(u.devices), u.find(id), u.find(id)+1)
	return nil
}

// put stores a device, and then shows it to who asks. p.change is held. What is in memory is the
// truth, so what the store has is replaced whatever its version is: a put that failed may have
// been stored all the same.
func (p *Push) put(ctx context.Context, of parley.Principal, d device) error {
	body, err := p.encoded(of, d)
	if err != nil {
		return err
	}
	as := of
	if as.User != "" && as.IsSystem() {
		return parley.Errorf(parley.CodeInternal, "the system has no devices")
	}
	if _, err = p.store.PutRow(ctx, as, seam.Row{RowName: seam.RowName{Kind: seam.RowDevice, ID: string(d.ID)}, Body: body}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.userOf(of)
	u.devices = slices.Clone(u.devices)
	if i := u.find(d.ID); i >= 0 {
		u.devices[i] = &d
	} else {
		u.devices = append(u.devices, &d)
	}
	return nil
}

// note changes what is known of a device's deliveries.
func (p *Push) note(ctx context.Context, of parley.Principal, id parley.DeviceID, change func(d *device)) {
	p.change.Lock()
	defer p.change.Unlock()
	d, err := p.device(of, id)
	if err != nil {
		return // it was removed meanwhile
	}
	change(&d)
	if err := p.put(ctx, of, d); err != nil && ctx.Err() == nil {
		p.o.Logger.WarnContext(ctx, "what is known of a device cannot be stored", "device", id, "error", err)
	}
}

// told are the types of events that devices are told of.
var told = []string{
	"turn.completed", "turn.failed", "turn.cancelled", "turn.expired", "turn.interrupted",
	"interaction.opened", "interaction.answered", "interaction.expired",
}

func (d *device) check() error {
	if d.Name == "" {
		d.Name = string(d.Kind)
	}
	if len(d.Name) > 100 || strings.ContainsFunc(d.Name, unicode.IsControl) {
		return parley.Errorf(parley.CodeInvalid, "a device's name has at most 100 bytes, in one line").WithField("name")
	}
	if len(d.Events) > 20 || len(d.Apps) > 50 {
		return parley.Errorf(parley.CodeInvalid, "a device names at most 20 events and 50 apps").WithField("events")
	}
	for _, e := range d.Events {
		if !slices.ContainsFunc(told, func(t string) bool { return matches(e, t) }) {
			return parley.Errorf(parley.CodeInvalid, "devices are not told of %q", parley.Cut(e, 40)).WithField("events").WithHint("%s, turn.*, interaction.*", strings.Join(told, ", "))
		}
	}
	for _, a := range d.Apps {
		if a == "" || len(a) > 64 {
			return parley.Errorf(parley.CodeInvalid, "%q is not an app", parley.Cut(a, 64)).WithField("apps")
		}
	}
	return nil
}

func matches(pattern, event string) bool {
	family, ok := strings.CutSuffix(pattern, "*")
	return pattern == event || ok && strings.HasSuffix(family, ".") && strings.HasPrefix(event, family)
}

// wants reports whether the device is to be told of an event.
func (d *device) wants(event, app string) bool {
	return !d.Paused && (len(d.Apps) == 0 || slices.Contains(d.Apps, app)) &&
		(len(d.Events) == 0 || slices.ContainsFunc(d.Events, func(e string) bool { return matches(e, event) }))
}

// target checks an address that a user gives.
func (p *Push) target(field, text string) (*url.URL, error) {
	bad := func(why string) (*url.URL, error) {
		return nil, parley.Errorf(parley.CodeInvalid, "this is no address to send to: %s", why).WithField(field).WithHint("https://host/path, with a public address")
	}
	if len(text) > 2000 {
		return bad("it has more than 2000 bytes")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "" || strings.ContainsFunc(text, unicode.IsControl):
		return bad("it is not a URL")
	case u.User != nil:
		return bad("it has a user")
	case u.Fragment != "":
		return bad("it has a fragment")
	case u.Scheme == "https", u.Scheme == "http" && p.allowed(u):
		return u, nil
	}
	return bad("it does not begin with https://")
}

// allowed reports whether the operator names the host of an address.
func (p *Push) allowed(u *url.URL) bool {
	host, port := u.Hostname(), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return slices.ContainsFunc(p.o.Allow, func(entry string) bool {
		return strings.EqualFold(entry, host) || strings.EqualFold(entry, net.JoinHostPort(host, port))
	})
}

const secretPrefix = "whsec_"

func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(b)
}

func checkSecret(text string) error {
	if key := keyOf(text); len(key) < 24 || len(key) > 64 {
		return parley.Errorf(parley.CodeInvalid, "a secret is whsec_ and 24 to 64 bytes in base64").WithField("secret").WithHint("leave it out, and one is made")
	}
	return nil
}

// keyOf is the key that a secret stands for, or nil.
func keyOf(text string) []byte {
	rest, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(rest)
	if !ok || err != nil {
		return nil
	}
	return key
}

// decode64 reads base64url, with or without padding, of a number of bytes.
func decode64(field, text string, size int) ([]byte, error) {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil || len(b) != size {
		return nil, parley.Errorf(parley.CodeInvalid, "this is not a key of %d bytes in base64url", size).WithField(field)
	}
	return b, nil
}
