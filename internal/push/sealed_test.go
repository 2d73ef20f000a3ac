package push_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/vault"
)

// keysOf makes a vault of keys that are each one letter, the newest first.
func keysOf(t *testing.T, letters string) push.Sealer {
	t.Helper()
	var keys []string
	for _, l := range letters {
		keys = append(keys, base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(l), 32))))
	}
	v, err := vault.Open(mem.New(), keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// kept is what the rows of a store have, also where it is encoded again.
func kept(t *testing.T, store seam.Store) string {
	t.Helper()
	rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, r := range rows {
		all.Write(r.Body)
		all.WriteByte('\n')
	}
	return all.String()
}

// TestSealed: with a key the store has no secret of a device as it is, nor the server's own for browsers. What is there
// already is encrypted at the next start, or with the newest key. A key that is missing loses nothing.
func TestSealed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		to, b := newReceiver(t), newBrowser(t)
		g := newGoogle(t)
		with := func(s push.Sealer) func(o *push.Options) {
			return func(o *push.Options) { o.Sealer, o.FCM, o.FCMURL = s, g.account(t), g.url }
		}
		start := func(s push.Sealer) *desk { return newDesk(t, store, enginetest.Echo, enginetest.App(), with(s)) }
		d := start(nil)
		hook := d.webhook(to.url + "/hooks?token=url-secret")
		for _, a := range []parley.AddDevice{b.subscription(), {Kind: parley.DeviceFCM, Token: "phone-token"}} {
			if _, err := d.p.Add(t.Context(), enginetest.User, a); err != nil {
				t.Fatal(err)
			}
		}
		key, devices := keyOf(t, d.p), d.p.Devices(enginetest.User)
		d.quiet()
		shown := kept(t, store)
		secrets := []string{
			hook.Secret, "url-secret", "secret-endpoint", "phone-token",
			base64.StdEncoding.EncodeToString(b.auth), base64.StdEncoding.EncodeToString(b.key.PublicKey().Bytes()),
		}
		vapid, err := store.Row(t.Context(), parley.System(), seam.RowName{Kind: seam.RowNotify, ID: "vapid"})
		if err != nil {
			t.Fatal(err)
		}
		var private string
		if err := json.Unmarshal(vapid.Body, &private); err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, private)
		for _, s := range secrets {
			if !strings.Contains(shown, s) {
				t.Fatalf("this test looks for %q in vain", s)
			}
		}
		works := func(d *desk, what string) {
			t.Helper()
			if got := keyOf(t, d.p); got != key {
				t.Errorf("%s: another key for browsers", what)
			}
			if diff := cmp.Diff(devices, d.p.Devices(enginetest.User), cmpDelivered); diff != "" {
				t.Errorf("%s: (-before +after)\n%s", what, diff)
			}
			for _, one := range devices {
				if err := d.p.Test(t.Context(), enginetest.User, one.ID); err != nil {
					t.Error(err)
				}
			}
			verify(t, to.next(), hook.Secret)
			if got := b.open(b.next()); got.Type != "test" {
				t.Errorf("%s: %+v", what, got)
			}
			if m := <-g.got; m["token"] != "phone-token" {
				t.Errorf("%s: %v", what, m)
			}
			d.quiet()
			now := kept(t, store)
			for _, s := range secrets {
				if strings.Contains(now, s) || strings.Contains(now, hex.EncodeToString([]byte(s))) {
					t.Errorf("%s: the store has %q", what, s)
				}
			}
		}
		works(start(keysOf(t, "a")), "encrypted at a start")
		first := kept(t, store)
		works(start(keysOf(t, "ba")), "with a newer key")
		if kept(t, store) == first {
			t.Error("nothing was encrypted with the newer key")
		}
		for name, s := range map[string]push.Sealer{"no key": nil, "another key": keysOf(t, "c")} {
			d := start(s)
			if _, err := d.p.Info(t.Context()); parley.CodeOf(err) != parley.CodeUnavailable {
				t.Errorf("%s: the key for browsers: %v", name, err)
			}
			list := d.p.Devices(enginetest.User)
			if len(list) != len(devices) || !strings.Contains(list[0].LastError, "cannot decrypt") {
				t.Errorf("%s: %+v", name, list)
			}
			yes, no, called := true, false, "renamed"
			if _, err := d.p.Update(t.Context(), enginetest.User, hook.ID, parley.UpdateDevice{NewSecret: true}); parley.CodeOf(err) != parley.CodeUnavailable {
				t.Errorf("%s: a new secret: %v", name, err)
			}
			for _, c := range []parley.UpdateDevice{{Name: &called, Paused: &yes}, {Name: &devices[0].Name, Paused: &no}} {
				if _, err := d.p.Update(t.Context(), enginetest.User, hook.ID, c); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := d.p.Test(t.Context(), enginetest.User, hook.ID); err != nil {
				t.Error(err)
			}
			d.until(name, func() bool {
				l := d.waiting(false)
				return len(l) == 1 && strings.Contains(l[0].Error, "cannot decrypt")
			})
			if err := d.p.Forget(t.Context(), enginetest.User, d.waiting(false)[0].ID); err != nil {
				t.Error(err)
			}
			d.quiet()
		}
		works(start(keysOf(t, "cb")), "when the key is back")

		// A row that somebody moves to another user is not theirs to use.
		rows, err := store.Rows(t.Context(), parley.System(), seam.RowQuery{Kind: seam.RowDevice, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		moved := rows[0]
		moved.User, moved.Version = "bob", seam.NoRow
		if _, err := store.PutRow(t.Context(), parley.System(), moved); err != nil {
			t.Fatal(err)
		}
		d = start(keysOf(t, "cb"))
		if list := d.p.Devices(parley.Principal{User: "bob", Org: moved.Org}); len(list) != 1 || !strings.Contains(list[0].LastError, "cannot decrypt") {
			t.Errorf("a row that was moved: %+v", list)
		}
	})
}

// cmpDelivered ignores what deliveries change.
var cmpDelivered = cmp.Transformer("device", func(d parley.Device) parley.Device {
	d.DeliveredAt, d.Failures, d.LastError = d.CreatedAt, 0, ""
	return d
})
