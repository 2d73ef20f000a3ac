package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

const (
	// keyPrefix tells a key from other secrets, for people and for scanners of leaked
	// secrets.
	keyPrefix = "pk_"
	// minKey is the minimum length of a key that an owner sets. Keys made here have 26
	// letters and digits after the prefix, 130 bits.
	minKey = 20
	// maxKeys limits how many keys each request is compared with.
	maxKeys = 1000
)

// Key is what is stored about a key. The key itself is not stored.
type Key struct {
	Name    string    `json:"name"`
	User    string    `json:"user"`
	Org     string    `json:"org,omitempty"`
	Begins  string    `json:"begins,omitempty"` // its first characters, to recognise it
	Created time.Time `json:"created_at"`
	Metrics bool      `json:"metrics,omitempty"` // it opens the metrics, which cover all users, and nothing else
	App     string    `json:"app,omitempty"`     // it opens the page of this app at its own address, and nothing else
	Scopes  []Scope   `json:"scopes,omitempty"`  // what it may do; none: everything
	Expires time.Time `json:"expires_at,omitzero"`
	Used    time.Time `json:"used_at,omitzero"` // to the minute; zero: never, or not since the server started if it is of the settings

	// Hash is the SHA-256 of the key, in hex. A plain hash is enough, because a random key
	// cannot be guessed.
	Hash parley.Digest `json:"sha256"`
}

// Fixed is a key from the settings.
type Fixed struct {
	Name, Secret string
	User, Org    string // User empty: Name; both empty with Metrics
	Metrics      bool
	App          string
	Scopes       []Scope
	Expires      time.Time
}

// Scope is what a key may do.
type Scope string

// The scopes. None includes another.
const (
	ScopeRead   Scope = "read"   // look at sessions, and follow them
	ScopeSend   Scope = "send"   // begin sessions, send messages, answer, change files
	ScopeManage Scope = "manage" // delete, and see and revoke keys and sign-ins
)

// Scopes are all scopes.
var Scopes = []Scope{ScopeRead, ScopeSend, ScopeManage}

// Keys are the keys of a file and of the settings. The file is read again when it changes.
type Keys struct {
	// Now is the clock; nil: time.Now. It is set before the first use.
	Now func() time.Time

	file  string
	fixed []held

	mu    sync.Mutex
	seen  os.FileInfo // the file as it was last read; nil: there was none
	read  bool
	known []held
	noted time.Time // when the last uses were last stored
	dirty bool      // one is not stored yet
}

// held is a key that is valid until its context ends.
type held struct {
	Key
	sum   [sha256.Size]byte
	until context.Context
	end   context.CancelFunc
}

// OpenKeys reads the keys of a file, which need not exist, and adds those of the settings.
func OpenKeys(file string, fixed []Fixed) (*Keys, error) {
	k := &Keys{file: file}
	for _, f := range fixed {
		key, err := newKey(Key{Name: f.Name, User: f.User, Org: f.Org, Metrics: f.Metrics, App: f.App, Scopes: f.Scopes, Expires: f.Expires}, f.Secret)
		if err != nil {
			return nil, err
		}
		if len(f.Secret) < minKey {
			return nil, parley.Errorf(parley.CodeInvalid, "the key %s has fewer than %d characters", f.Name, minKey).
				WithHint("`parley keys create` makes one that nobody can guess")
		}
		k.fixed = append(k.fixed, hold(key))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k, k.refresh()
}

// Verify implements [Verifier].
func (k *Keys) Verify(_ context.Context, credential string) (Identity, bool, error) {
	sum := sha256.Sum256([]byte(credential))
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return Identity{}, false, err
	}
	// Every key is compared, in constant time, so that the duration does not reveal a near
	// match.
	var is *held
	for _, list := range [][]held{k.known, k.fixed} {
		for i := range list {
			if subtle.ConstantTimeCompare(list[i].sum[:], sum[:]) == 1 {
				is = &list[i]
			}
		}
	}
	if is == nil {
		return Identity{}, false, nil
	}
	now := k.clock()
	if !is.Expires.IsZero() && !now.Before(is.Expires) {
		return Identity{}, false, expiredToken{parley.Errorf(parley.CodeUnauthenticated, "this key expired on %s", is.Expires.UTC().Format(time.DateOnly)).
			WithHint("`parley keys create` makes another one")}
	}
	if now.Sub(is.Used) >= usedEvery {
		is.Used, k.dirty = parley.Now(now), true
	}
	return Identity{
		Principal: parley.Principal{User: is.User, Org: is.Org}, Key: is.Name, Metrics: is.Metrics, App: is.App,
		Scopes: is.Scopes, Expires: is.Expires, until: is.until,
	}, true, nil
}

// List returns all keys, those of the settings last.
func (k *Keys) List() ([]Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(); err != nil {
		return nil, err
	}
	list := []Key{}
	for _, h := range slices.Concat(k.known, k.fixed) {
		list = append(list, h.Key)
	}
	return list, nil
}

// Watch reads the file again at this interval until ctx ends, so that streams under a
// revoked key end even when no request comes. It stores the last uses, at the end, too.
func (k *Keys) Watch(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			k.mu.Lock()
			due := k.dirty
			k.mu.Unlock()
			if due {
				_ = k.Note() // nothing is lost but the time of a use
			}
			return
		case <-tick.C:
			k.mu.Lock()
			_ = k.refresh() // the next request reports the error
			due := k.dirty && k.clock().Sub(k.noted) >= usedEvery
			k.mu.Unlock()
			if due {
				_ = k.Note() // the next attempt comes in a minute
			}
		}
	}
}

// Note stores when the keys of the file were last used.
func (k *Keys) Note() error {
	k.mu.Lock()
	used := map[parley.Digest]time.Time{}
	for _, h := range k.known {
		used[h.Hash] = h.Used
	}
	k.noted, k.dirty = k.clock(), false
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	err := k.change(func(list []Key) ([]Key, error) {
		list = slices.Clone(list)
		for i := range list {
			if at := used[list[i].Hash]; at.After(list[i].Used) {
				list[i].Used = at
			}
		}
		return list, nil
	})
	if err != nil {
		k.mu.Lock()
		k.dirty = true
		k.mu.Unlock()
	}
	return err
}

func (k *Keys) clock() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}

// Of lists the keys that act as a user.
func (k *Keys) Of(p parley.Principal) ([]Key, error) {
	list, err := k.List()
	return slices.DeleteFunc(list, func(key Key) bool { return key.Metrics || !p.Owns(key.User, key.Org) }), err
}

// RevokeOf deletes a key that acts as a user.
func (k *Keys) RevokeOf(p parley.Principal, name string) error {
	list, err := k.Of(p)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(key Key) bool { return key.Name == name }) {
		return parley.Errorf(parley.CodeNotFound, "you have no key %q", parley.Cut(name, 60)).WithHint("GET /v1/me/keys lists yours")
	}
	return k.Revoke(name)
}

// Create makes a key with a name, and what of User, Org, Metrics and App is set in of, and returns
// it. A key for the metrics acts as no user, so none may be named. Only its hash is stored.
func (k *Keys) Create(of Key, now time.Time) (secret string, key Key, err error) {
	secret = keyPrefix + strings.ToLower(rand.Text())
	if key, err = newKey(of, secret); err != nil {
		return "", Key{}, err
	}
	key.Created = parley.Now(now)
	name := key.Name
	err = k.change(func(list []Key) ([]Key, error) {
		if slices.ContainsFunc(list, func(o Key) bool { return o.Name == name }) || slices.ContainsFunc(k.fixed, func(h held) bool { return h.Name == name }) {
			return nil, parley.Errorf(parley.CodeConflict, "there is already a key %q", name).WithHint("revoke it first, or choose another name")
		}
		if len(list) >= maxKeys {
			return nil, parley.Errorf(parley.CodeTooLarge, "there are already %d keys", len(list)).WithHint("revoke some")
		}
		return append(list, key), nil
	})
	if err != nil {
		return "", Key{}, err
	}
	return secret, key, nil
}

// Revoke deletes a key. Requests and streams that use it end.
func (k *Keys) Revoke(name string) error {
	if slices.ContainsFunc(k.fixed, func(h held) bool { return h.Name == name }) {
		return parley.Errorf(parley.CodeInvalid, "the key %q comes from the settings", name).WithHint("remove it there, and restart the server")
	}
	return k.change(func(list []Key) ([]Key, error) {
		rest := slices.DeleteFunc(slices.Clone(list), func(o Key) bool { return o.Name == name })
		if len(rest) == len(list) {
			return nil, parley.Errorf(parley.CodeNotFound, "there is no key %q", name).WithHint("`parley keys list` shows all")
		}
		return rest, nil
	})
}

// named matches a valid key or user name: names are shown, typed, and used in settings.
var named = pattern.New(`^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$`)

// issued matches the name of a user or organisation of an issuer, for a key that acts as the same.
var issued = pattern.New(`^[a-z][a-z0-9-]{0,31}:[!-~]{1,255}$`)

func checkUser(user string) error {
	if !named.MatchString(user) && !issued.MatchString(user) {
		return parley.Errorf(parley.CodeInvalid, "%q is not a name for a user; begin with a letter or digit, and use letters, digits and . _ @ + -", parley.Cut(user, 60)).WithField("user")
	}
	if user == parley.System().User {
		return parley.Errorf(parley.CodeInvalid, "%q is the server itself", user).WithField("user")
	}
	return nil
}

// newKey makes a key. Without a user it gets the key's name as its user, so that two keys
// share nothing unless somebody says so.
func newKey(of Key, secret string) (Key, error) {
	name, user, org, metrics := of.Name, of.User, of.Org, of.Metrics
	if !named.MatchString(name) {
		return Key{}, parley.Errorf(parley.CodeInvalid, "%q is not a name for a key; begin with a letter or digit, and use letters, digits and . _ @ + -", parley.Cut(name, 60)).WithField("name")
	}
	if metrics && user+org != "" {
		return Key{}, parley.Errorf(parley.CodeInvalid, "the key %s is for the metrics, so it acts as no user and for no organisation", name).WithField("user").
			WithHint("make two keys: one for the metrics, without a user, and one for the user")
	}
	if metrics && of.App != "" {
		return Key{}, parley.Errorf(parley.CodeInvalid, "the key %s is for the metrics, so it is for no app", name).WithField("app").
			WithHint("make two keys: one for the metrics, and one for the page of the app")
	}
	if user == "" {
		user = name
	}
	if err := checkUser(user); err != nil {
		return Key{}, err
	}
	if org != "" && !named.MatchString(org) && !issued.MatchString(org) {
		return Key{}, parley.Errorf(parley.CodeInvalid, "%q is not a name for an organisation", parley.Cut(org, 60)).WithField("org")
	}
	if of.App != "" && !named.MatchString(of.App) {
		return Key{}, parley.Errorf(parley.CodeInvalid, "%q is not the name of an app", parley.Cut(of.App, 60)).WithField("app")
	}
	if metrics && len(of.Scopes) > 0 {
		return Key{}, parley.Errorf(parley.CodeInvalid, "the key %s is for the metrics, so it has no scopes", name).WithField("scopes")
	}
	for _, s := range of.Scopes {
		if !slices.Contains(Scopes, s) {
			return Key{}, parley.Errorf(parley.CodeInvalid, "there is no scope %q", parley.Cut(string(s), 60)).WithField("scopes").WithHint("scopes are read, send and manage")
		}
	}
	key := Key{Name: name, User: user, Org: org, Metrics: metrics, App: of.App, Scopes: of.Scopes, Expires: of.Expires, Hash: digest(secret)}
	if strings.HasPrefix(secret, keyPrefix) && len(secret) >= minKey {
		key.Begins = secret[:len(keyPrefix)+4]
	}
	return key, nil
}

func digest(secret string) parley.Digest {
	sum := sha256.Sum256([]byte(secret))
	return parley.Digest(hex.EncodeToString(sum[:]))
}

func hold(key Key) held {
	h := held{Key: key}
	_, _ = hex.Decode(h.sum[:], []byte(key.Hash)) // checked when it was read
	h.until, h.end = context.WithCancel(context.Background())
	return h
}
