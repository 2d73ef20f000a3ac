package program

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/vault"
)

// TestVaultAtStart: a new key takes effect at the start. A missing key is reported but does not
// stop the start. A malformed key is a mistake of the settings.
func TestVaultAtStart(t *testing.T) {
	t.Parallel()
	keyOf := func(c byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{c}, 32)) }
	store, ana := mem.New(), parley.Principal{User: "ana"}
	start := func(keys string) (*vault.Vault, string, error) {
		var said strings.Builder
		p := &plan{settings: config.Settings{Vault: config.Vault{Keys: keys}}}
		err := p.openVault(t.Context(), store, slog.New(slog.NewTextHandler(&said, nil)))
		return p.vault.Load(), said.String(), err
	}
	v, _, err := start("")
	if err != nil || v.Put(t.Context(), ana, vault.Scope{App: "crm"}, "token", "x") == nil {
		t.Fatalf("without a key: %v", err)
	}
	if v, _, err = start(keyOf(1)); err != nil {
		t.Fatal(err)
	}
	if err := v.Put(t.Context(), ana, vault.Scope{App: "crm"}, "token", "kept"); err != nil {
		t.Fatal(err)
	}
	if _, said, err := start(keyOf(2)); err != nil || !strings.Contains(said, "vault.keys lacks the key") {
		t.Errorf("with another key: %v, %s", err, said)
	}
	if _, said, err := start(keyOf(2) + "\n" + keyOf(1)); err != nil || !strings.Contains(said, "secrets=1") {
		t.Errorf("with both: %v, %s", err, said)
	}
	if v, _, err = start(keyOf(2)); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Get(t.Context(), ana, vault.Scope{App: "crm"}, "token"); got != "kept" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, _, err := start("hunter2"); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "vault.keys") {
		t.Errorf("no key: %v", err)
	}
}
