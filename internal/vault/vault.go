// Package vault keeps secrets of users for longer than a turn, such as the tokens of their
// logins at other services, encrypted in the store.
//
// The key is not in the store, nor in its backup: it is in a file or a variable of the
// operator. [Open] takes a list of keys. The first seals; each of the others opens what it
// has sealed, and that is sealed anew with the first one when it is read. So a key is
// replaced by putting a new one before it, and calling [Vault.Reseal], after which the old
// one can go.
//
// What is kept belongs to a user, in a [Scope]. It is sealed with AES-256-GCM and a random
// nonce, together with its user, scope and name, so that a row which somebody moves in the
// database does not open. Without its key nothing is lost: reading says which key is
// missing, and writing under the same name is refused until it is there or the entry has
// been removed.
//
// Who gives a secret to a call keeps it out of the texts of the call's session, as the engine
// does with credentials.
//
// A Vault is safe for concurrent use. One process has the store.
package vault

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"sync"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// MaxEntries is how many secrets a user may have in all scopes.
	MaxEntries = 100
	// MaxSecret is the most bytes of one.
	MaxSecret = 64 << 10
	// MaxName is the most bytes of its name.
	MaxName = 512
	// keySize is that of AES-256.
	keySize = 32
	// idSize is how many bytes of a key's digest name it.
	idSize = 8
)

// Store is the part of a store that a vault needs.
type Store interface {
	PutSealed(ctx context.Context, p parley.Principal, s seam.Sealed) error
	Sealed(ctx context.Context, p parley.Principal) ([]seam.Sealed, error)
}

// Scope is what a user's secret is for.
type Scope struct {
	App       string
	Workspace parley.Workspace // empty: all of the app
}

// Vault keeps secrets. Make one with [Open].
type Vault struct {
	store Store
	keys  []key // the first one seals

	mu sync.Mutex // one change at a time, so that limits hold
}

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// Open returns a vault over a store. Keys are texts as [ParseKeys] takes them; without any,
// everything that needs one is refused with a hint.
func Open(store Store, keys []string) (*Vault, error) {
	v := &Vault{store: store}
	for i, text := range keys {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != keySize {
			return nil, parley.Errorf(parley.CodeInvalid, "key %d of the vault is not %d bytes in base64", i+1, keySize).WithHint("make one with: %s", makeOne)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		k := key{}
		sum := sha256.Sum256(append([]byte("parley vault key "), raw...))
		copy(k.id[:], sum[:])
		if k.aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
		v.keys = append(v.keys, k)
	}
	return v, nil
}

const makeOne = "openssl rand -base64 32"

// ParseKeys are the keys in a text: one a line, the newest first. Empty lines and those that
// begin with # do not count.
func ParseKeys(text string) (keys []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}

// Ready returns why the vault cannot keep anything, or nil.
func (v *Vault) Ready() error {
	if len(v.keys) == 0 {
		return parley.Errorf(parley.CodeUnavailable, "the server has no key with which to keep secrets").
			WithHint("make one with: %s; put it into a file outside of the data folder and its backup, and name that as vault.keys in parley.yaml: file:/path, or set PARLEY_VAULT_KEYS", makeOne)
	}
	return nil
}

// Put keeps a secret of p's, in place of the one of the same scope and name.
func (v *Vault) Put(ctx context.Context, p parley.Principal, s Scope, name, secret string) error {
	switch {
	case p.User == "" || p.IsSystem():
		return parley.Errorf(parley.CodeForbidden, "a secret needs an owner")
	case name == "" || len(name) > MaxName:
		return parley.Errorf(parley.CodeInvalid, "a secret's name has 1 to %d bytes", MaxName)
	case secret == "" || len(secret) > MaxSecret:
		return parley.Errorf(parley.CodeTooLarge, "the secret %s has no bytes, or more than %d", name, MaxSecret)
	}
	if err := v.Ready(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	have, err := v.store.Sealed(ctx, p)
	if err != nil {
		return err
	}
	row, found := find(have, s, name)
	if found {
		if _, _, err := v.open(row); err != nil {
			return err // what it holds would be lost
		}
	} else if len(have) >= MaxEntries {
		return parley.Errorf(parley.CodeQuota, "%d secrets are kept for you already", len(have)).WithHint("remove some that are not needed any more")
	}
	return v.store.PutSealed(ctx, p, v.seal(seam.Sealed{User: p.User, Org: p.Org, App: s.App, Workspace: string(s.Workspace), Name: name}, secret))
}

// Get returns a secret of p's. It is CodeNotFound if there is none, and CodeUnavailable if it
// was sealed with a key that the vault does not have.
func (v *Vault) Get(ctx context.Context, p parley.Principal, s Scope, name string) (string, error) {
	if p.User == "" || p.IsSystem() {
		return "", notFound(name)
	}
	have, err := v.store.Sealed(ctx, p)
	if err != nil {
		return "", err
	}
	row, found := find(have, s, name)
	if !found {
		return "", notFound(name)
	}
	secret, _, err := v.open(row)
	return secret, err
}

// Entry is a secret without its value.
type Entry struct {
	Scope
	Name string
}

// List returns what is kept for p.
func (v *Vault) List(ctx context.Context, p parley.Principal) ([]Entry, error) {
	have, err := v.store.Sealed(ctx, p)
	if err != nil || p.IsSystem() {
		return nil, err
	}
	list := make([]Entry, 0, len(have))
	for _, row := range have {
		list = append(list, Entry{Scope{row.App, parley.Workspace(row.Workspace)}, row.Name})
	}
	return list, nil
}

// Remove forgets a secret of p's. It needs no key.
func (v *Vault) Remove(ctx context.Context, p parley.Principal, s Scope, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store.PutSealed(ctx, p, seam.Sealed{User: p.User, Org: p.Org, App: s.App, Workspace: string(s.Workspace), Name: name})
}

// Forget removes everything that is kept for p, as when their data is deleted.
func (v *Vault) Forget(ctx context.Context, p parley.Principal) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	have, err := v.store.Sealed(ctx, p)
	if err != nil {
		return err
	}
	for _, row := range have {
		row.Body = nil
		if err := v.store.PutSealed(ctx, p, row); err != nil {
			return err
		}
	}
	return nil
}

// Reseal seals everybody's secrets with the first key. left is how many it could not open,
// which stay as they are.
func (v *Vault) Reseal(ctx context.Context) (done, left int, err error) {
	if err := v.Ready(); err != nil {
		return 0, 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	rows, err := v.store.Sealed(ctx, parley.System())
	if err != nil {
		return 0, 0, err
	}
	for _, row := range rows {
		secret, by, err := v.open(row)
		switch {
		case err != nil:
			left++
			continue
		case by == 0:
			continue
		}
		if err := v.store.PutSealed(ctx, parley.System(), v.seal(row, secret)); err != nil {
			return done, left, err
		}
		done++
	}
	return done, left, nil
}

func find(rows []seam.Sealed, s Scope, name string) (seam.Sealed, bool) {
	for _, row := range rows {
		if row.App == s.App && row.Workspace == string(s.Workspace) && row.Name == name {
			return row, true
		}
	}
	return seam.Sealed{}, false
}

func notFound(name string) error {
	return parley.Errorf(parley.CodeNotFound, "no secret %q is kept", parley.Cut(name, 60))
}

// bound is what a sealed text cannot be separated from.
func bound(s seam.Sealed) []byte {
	raw, err := json.Marshal([]string{s.User, s.Org, s.App, s.Workspace, s.Name})
	if err != nil {
		panic(err) // texts
	}
	return raw
}

// seal puts the key's id before the sealed text.
func (v *Vault) seal(s seam.Sealed, secret string) seam.Sealed {
	k := v.keys[0]
	s.Body = k.aead.Seal(append([]byte{}, k.id[:]...), nil, []byte(secret), bound(s))
	return s
}

// open returns the secret, and which key it is sealed with.
func (v *Vault) open(s seam.Sealed) (secret string, by int, err error) {
	if len(s.Body) < idSize {
		return "", 0, broken(s)
	}
	for i, k := range v.keys {
		if [idSize]byte(s.Body) != k.id {
			continue
		}
		plain, err := k.aead.Open(nil, nil, s.Body[idSize:], bound(s))
		if err != nil {
			return "", i, broken(s)
		}
		return string(plain), i, nil
	}
	return "", 0, parley.Errorf(parley.CodeUnavailable, "the secret %q was sealed with the key %s, which the server does not have", parley.Cut(s.Name, 60), hex.EncodeToString(s.Body[:idSize])).
		WithHint("it is not lost: add that key to vault.keys, behind the present one; or remove the secret")
}

func broken(s seam.Sealed) error {
	return parley.Errorf(parley.CodeInternal, "the secret %q is damaged, or was moved from another user or scope", parley.Cut(s.Name, 60)).
		WithHint("restore the database, or remove the secret")
}
