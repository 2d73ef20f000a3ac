// Package vault stores users' secrets encrypted in the store, such as the tokens of their
// logins at other services. It is for secrets that outlive a turn.
//
// The key is neither in the store nor in its backup: it is in a file or an environment variable
// of the operator. [Open] takes a list of keys. The first one encrypts. The others only decrypt
// what they once encrypted. To replace a key, put the new one in front, call [Vault.Reseal], and
// then remove the old one.
//
// A secret belongs to a user and a [Scope]. It is encrypted with AES-256-GCM and a random
// nonce. User, scope and name are authenticated with it, so a row that somebody moves in the
// database cannot be decrypted. A missing key loses nothing: reading says which key is missing,
// and writing under the same name is refused until the key is back or the entry is removed.
//
// A caller that passes a secret to a tool call must have it redacted from the texts of the
// call's session, as the engine does with credentials.
//
// A Vault is safe for concurrent use. Only one process may use the store.
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
	// MaxEntries limits the number of a user's secrets in all scopes.
	MaxEntries = 100
	// MaxSecret limits one secret, in bytes.
	MaxSecret = 64 << 10
	// MaxName limits the name of a secret, in bytes.
	MaxName = 512
	// keySize is the key size of AES-256, in bytes.
	keySize = 32
	// idSize is how many bytes of a key's digest identify it.
	idSize = 8
)

// Store is the part of a store that a vault needs.
type Store interface {
	PutSealed(ctx context.Context, p parley.Principal, s seam.Sealed) error
	Sealed(ctx context.Context, p parley.Principal) ([]seam.Sealed, error)
}

// Scope says what a user's secret is for.
type Scope struct {
	App       string
	Workspace parley.Workspace // empty: all workspaces of the app
}

// Vault stores secrets. Make one with [Open].
type Vault struct {
	store Store
	keys  []key // the first one encrypts

	mu sync.Mutex // one change at a time, so that limits hold
}

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// Open returns a vault that uses a store. Keys are base64 texts as [ParseKeys] returns them.
// Without keys, every method that needs one returns an error with a hint.
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

// ParseKeys returns the keys in a text: one per line, the newest first. It ignores empty lines
// and lines that begin with #.
func ParseKeys(text string) (keys []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}

// Ready returns an error if the vault has no key to encrypt with.
func (v *Vault) Ready() error {
	if len(v.keys) == 0 {
		return parley.Errorf(parley.CodeUnavailable, "the server has no key for encrypting secrets").
			WithHint("make one with: %s; put it into a file outside the data folder and its backup, and set vault.keys in parley.yaml to file:/path, or set PARLEY_VAULT_KEYS", makeOne)
	}
	return nil
}

// Put stores a secret for p, replacing the one with the same scope and name.
func (v *Vault) Put(ctx context.Context, p parley.Principal, s Scope, name, secret string) error {
	switch {
	case p.User == "" || p.IsSystem():
		return parley.Errorf(parley.CodeForbidden, "a secret needs an owner")
	case name == "" || len(name) > MaxName:
		return parley.Errorf(parley.CodeInvalid, "a secret's name must have 1 to %d bytes", MaxName)
	case secret == "" || len(secret) > MaxSecret:
		return parley.Errorf(parley.CodeTooLarge, "the secret %s is empty or has more than %d bytes", name, MaxSecret)
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
			return err // replacing it would lose the secret that it holds
		}
	} else if len(have) >= MaxEntries {
		return parley.Errorf(parley.CodeQuota, "%d secrets are already stored for you", len(have)).WithHint("remove some that you no longer need")
	}
	return v.store.PutSealed(ctx, p, v.seal(seam.Sealed{User: p.User, Org: p.Org, App: s.App, Workspace: string(s.Workspace), Name: name}, secret))
}

// Get returns one of p's secrets. It returns CodeNotFound if there is none, and CodeUnavailable
// if it was encrypted with a key that the vault does not have.
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

// List returns p's secrets without their values.
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

// Remove removes one of p's secrets. It needs no key.
func (v *Vault) Remove(ctx context.Context, p parley.Principal, s Scope, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.store.PutSealed(ctx, p, seam.Sealed{User: p.User, Org: p.Org, App: s.App, Workspace: string(s.Workspace), Name: name})
}

// Forget removes all of p's secrets, for example when the user's data is deleted.
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

// Reseal encrypts all secrets of all users with the first key. left is the number of secrets
// that it could not decrypt; they stay as they are.
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
	return parley.Errorf(parley.CodeNotFound, "there is no secret %q", parley.Cut(name, 60))
}

// bound returns the data that is authenticated with a secret: its user, scope and name.
func bound(s seam.Sealed) []byte {
	raw, err := json.Marshal([]string{s.User, s.Org, s.App, s.Workspace, s.Name})
	if err != nil {
		panic(err) // strings always encode
	}
	return raw
}

// seal encrypts a secret and puts the key's id in front.
func (v *Vault) seal(s seam.Sealed, secret string) seam.Sealed {
	k := v.keys[0]
	s.Body = k.aead.Seal(append([]byte{}, k.id[:]...), nil, []byte(secret), bound(s))
	return s
}

// open returns the secret, and the index of the key that it was encrypted with.
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
	return "", 0, parley.Errorf(parley.CodeUnavailable, "the secret %q was encrypted with the key %s, which the server does not have", parley.Cut(s.Name, 60), hex.EncodeToString(s.Body[:idSize])).
		WithHint("it is not lost: add that key to vault.keys after the current one, or remove the secret")
}

func broken(s seam.Sealed) error {
	return parley.Errorf(parley.CodeInternal, "the secret %q is damaged, or was moved from another user or scope", parley.Cut(s.Name, 60)).
		WithHint("restore the database, or remove the secret")
}
