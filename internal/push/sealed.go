package push

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Sealer encrypts what the store has of secrets, as package vault does.
type Sealer interface {
	Seal(about []string, plain []byte) ([]byte, error)
	// Unseal decrypts; newest is false if that took an older key.
	Unseal(about []string, sealed []byte) (plain []byte, newest bool, err error)
}

// secrets are what somebody could send messages with, or read them.
type secrets struct {
	Signs    []secret `json:"signs,omitempty"`    // of a webhook: the newest first
	Endpoint string   `json:"endpoint,omitempty"` // of a browser
	P256DH   []byte   `json:"p256dh,omitempty"`
	Auth     []byte   `json:"auth,omitempty"`
	Token    string   `json:"token,omitempty"`
	Whole    string   `json:"whole,omitempty"` // the URL of a webhook, where the device shows its origin alone
}

func aboutDevice(of parley.Principal, id parley.DeviceID) []string {
	return []string{"device", of.User, of.Org, string(id)}
}

// encoded is a device as it is stored. Without a sealer its secrets are as they are.
func (p *Push) encoded(of parley.Principal, d device) ([]byte, error) {
	switch {
	case d.locked != nil: // Sealed still has them
		d.URL = originOf(d.URL)
	case p.o.Sealer != nil:
		s := d.secrets
		if d.Kind == parley.DeviceWebhook {
			s.Whole = d.URL
			d.URL = originOf(d.URL)
		}
		plain, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if d.Sealed, err = p.o.Sealer.Seal(aboutDevice(of, d.ID), plain); err != nil {
			return nil, err
		}
		d.secrets = secrets{}
	}
	return json.Marshal(d)
}

func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// decoded reads a device. stale means that it should be stored anew: it is not encrypted, or with an older key.
func (p *Push) decoded(r seam.Row) (d *device, stale bool, err error) {
	d = &device{}
	if err := json.Unmarshal(r.Body, d); err != nil {
		return nil, false, err
	}
	if len(d.Sealed) == 0 {
		return d, p.o.Sealer != nil, nil
	}
	plain, newest, err := p.unseal(aboutDevice(parley.Principal{User: r.User, Org: r.Org}, d.ID), d.Sealed)
	if err == nil {
		err = json.Unmarshal(plain, &d.secrets)
	}
	if err != nil { // it is kept for when the key is back
		d.locked = err
		return d, false, nil //nolint:nilerr // the device says so
	}
	if d.Whole != "" {
		d.URL, d.Whole = d.Whole, ""
	}
	d.Sealed = nil
	return d, !newest, nil
}

func (p *Push) unseal(about []string, sealed []byte) (plain []byte, newest bool, err error) {
	if p.o.Sealer == nil {
		return nil, false, parley.Errorf(parley.CodeUnavailable, "it is encrypted, and the server has no key").
			WithHint("it is not lost: set vault.keys to the key that it was encrypted with")
	}
	return p.o.Sealer.Unseal(about, sealed)
}

// read takes the devices out of rows, and stores those anew that are not encrypted with the newest key.
func (p *Push) read(ctx context.Context, rows []seam.Row) error {
	sealed, locked, plain := 0, 0, 0
	for _, r := range rows {
		d, stale, err := p.decoded(r)
		if err != nil {
			p.o.Logger.WarnContext(ctx, "a device cannot be read", "device", r.ID, "error", err)
			continue
		}
		of := parley.Principal{User: r.User, Org: r.Org}
		switch {
		case d.locked != nil:
			locked++
		case p.o.Sealer == nil:
			plain++
		case stale:
			if r.Body, err = p.encoded(of, *d); err != nil {
				return err
			}
			if _, err := p.store.PutRow(ctx, parley.System(), r); err != nil {
				return err
			}
			sealed++
		}
		u := p.userOf(of)
		u.devices = append(u.devices, d)
	}
	if sealed > 0 {
		p.o.Logger.InfoContext(ctx, "the secrets of devices were encrypted with the newest key of the vault", "devices", sealed)
	}
	if locked > 0 {
		p.o.Logger.WarnContext(ctx, "the secrets of devices cannot be decrypted: vault.keys lacks their key; nothing is sent to them until it is back", "devices", locked)
	}
	if plain > 0 {
		p.o.Logger.InfoContext(ctx, "the store has the secrets of devices as they are, since vault.keys is not set", "devices", plain)
	}
	return nil
}

// unlocked returns an error for a device whose secrets cannot be decrypted.
func (d *device) unlocked() error {
	if d.locked == nil {
		return nil
	}
	return parley.Errorf(parley.CodeUnavailable, "the server cannot decrypt the secrets of this device").
		WithHint("the operator adds the key to vault.keys; or remove the device, and register it again")
}
