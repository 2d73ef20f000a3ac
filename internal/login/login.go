// Package login logs people in at services by OAuth 2.1, and keeps their tokens.
//
// A [Login] is one person's login at one [Server]. [Login.Needed] says whether that person has to
// open a link first, and [Login.Transport] adds the token to requests. The person's browser comes
// back to a page of ours, which hands what it brings to [Logins.Finish], as the person whom it
// identifies. So a link that somebody passes on logs nobody else in, and it does no harm that it
// is in the log.
//
// # What is kept, and where
//
// Everything is one entry in the [vault.Vault]: the tokens, the client that was registered, and a
// login that has begun. So a login that began before a restart is finished after it. An answer
// is taken once: its state is forgotten before the code is sent. If the process dies in between,
// or after a refresh token was used and before its successor is kept, the person logs in again.
//
// # What is checked
//
// The protected-resource metadata has to name exactly the server's address (RFC 9728), the
// authorization server's metadata its own (RFC 8414). PKCE is S256 and always on, every request
// names the resource (RFC 8707), and the issuer in the answer is compared with the one that was
// asked, byte for byte (RFC 9207). All connections are made by the operator's [dial.Guard].
//
// Tokens are renewed when they are about to expire or were refused, once for all who wait.
// A Logins is safe for concurrent use.
package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/vault"
)

const (
	// lasting is how long a login that has begun can be finished.
	lasting = 24 * time.Hour
	// early is how long before its end a token is renewed: longer than a request is under way
	// before the server looks at it.
	early = 30 * time.Second
	// within bounds each request to an authorization server.
	within = 30 * time.Second
	// maxSaid is the most bytes of an authorization server's words in an error.
	maxSaid = 300
	// maxTools is for how many tools a login remembers that they need more scopes.
	maxTools = 50
	// prefix begins the names of logins among the secrets of a user.
	prefix = "login "
	// Page is where browsers come back to, below the server's address.
	Page = "/login.html"
	// Document is where the server says who it is, below its address.
	Document = "/login-client.json"
)

// Options of [New].
type Options struct {
	Vault func() *vault.Vault // returns nil while there is no store; nil: nothing can be kept
	// Base is the server's address for browsers, without a slash at the end. An error says what
	// has to be set so that there is one.
	Base   func() (string, error)
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
}

// Logins are the logins of all people.
type Logins struct {
	o Options

	mu   sync.Mutex
	busy map[string]*turn // by entry
}

// turn lets one at a time change an entry.
type turn struct {
	held  chan struct{}
	users int
}

// New makes logins. It keeps nothing itself.
func New(o Options) *Logins {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Logins{o: o, busy: map[string]*turn{}}
}

// Server is what a person logs in at.
type Server struct {
	Name string // for people
	URL  string
	// Hosts and Private are where requests may go, besides the host of URL and of Issuer: see
	// [dial.New].
	Hosts, Private []string

	Issuer       string   // the authorization server; empty: the one that the server names
	ClientID     string   // of a client that is registered there; empty: one is registered
	ClientSecret string   // of that client; empty: it has none
	Scopes       []string // nil: those that the server asks for

	Clean func(text string) string // removes secrets from what a server says; nil: there are none
}

// Login is one person's login at one server.
type Login struct {
	l        *Logins
	at       Place
	server   Server
	resource string
	guard    *dial.Guard
}

// Place is whose login it is, and for what.
type Place struct {
	parley.Principal
	vault.Scope
}

// At is the login of a person at a server. It begins nothing. An error names the option that is
// wrong.
func (l *Logins) At(at Place, s Server) (*Login, error) {
	hosts, resource, err := s.hosts()
	if err != nil {
		return nil, err
	}
	guard, err := dial.New(hosts, s.Private)
	if err != nil {
		return nil, parley.Errorf(parley.CodeInvalid, "%w", err).WithField("private")
	}
	return &Login{l, at, s, resource, guard}, nil
}

// record is an entry of the vault.
type record struct {
	Server   string    `json:"server"`
	Resource string    `json:"resource"`
	Issuer   issuer    `json:"issuer"`
	Client   client    `json:"client"`
	Scopes   []string  `json:"scopes,omitempty"` // that were asked for
	Access   string    `json:"access,omitempty"`
	Refresh  string    `json:"refresh,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Since    time.Time `json:"since,omitzero"` // of the login
	// More are scopes that a tool needs beyond Scopes, by its name.
	More    map[string][]string `json:"more,omitempty"`
	Pending *pending            `json:"pending,omitempty"`
	// Hosts and Private are those of the server when the login began, since who finishes or
	// revokes it does not know the app.
	Hosts   []string `json:"hosts"`
	Private []string `json:"private,omitempty"`
}

// pending is a login that has begun.
type pending struct {
	State    string    `json:"state"`
	Verifier string    `json:"verifier"`
	Link     string    `json:"link"`
	Issuer   issuer    `json:"issuer"`
	Client   client    `json:"client"`
	Scopes   []string  `json:"scopes,omitempty"`
	Until    time.Time `json:"until"`
}

// name is that of the login's entry.
func (l *Login) name() string {
	name := prefix + l.server.Name + " " + l.resource
	if len(name) > vault.MaxName { // the end of a long address
		sum := sha256.Sum256([]byte(name))
		name = name[:vault.MaxName-2*len(sum)] + hex.EncodeToString(sum[:])
	}
	return name
}

// idOf names an entry to its owner, and begins the state of a login.
func idOf(s vault.Scope, name string) string {
	raw, err := json.Marshal([]string{s.App, string(s.Workspace), name})
	if err != nil {
		panic(err) // texts
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

func (l *Logins) vault() (*vault.Vault, error) {
	if l.o.Vault != nil {
		if v := l.o.Vault(); v != nil {
			return v, v.Ready()
		}
	}
	return nil, parley.Errorf(parley.CodeUnavailable, "the server is not ready to keep logins")
}

// change gives f an entry, which nobody else changes meanwhile, and keeps it if f has changed
// it. An entry without a trace is removed.
func (l *Logins) change(ctx context.Context, at Place, name string, f func(*record) error) error {
	v, err := l.vault()
	if err != nil {
		return err
	}
	leave, err := l.enter(ctx, at, name)
	if err != nil {
		return err
	}
	defer leave()
	rec, was, err := l.load(ctx, v, at, name)
	if err != nil {
		return err
	}
	ferr := f(&rec)
	raw, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if string(raw) == was {
		return ferr
	}
	// What was got from an authorization server exists only here.
	ctx = context.WithoutCancel(ctx)
	if err := v.Put(ctx, at.Principal, at.Scope, name, string(raw)); err != nil {
		return err
	}
	return ferr
}

func (l *Logins) load(ctx context.Context, v *vault.Vault, at Place, name string) (rec record, was string, err error) {
	was, err = v.Get(ctx, at.Principal, at.Scope, name)
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound:
		raw, err := json.Marshal(rec)
		return rec, string(raw), err
	case err != nil:
		return rec, "", err
	}
	if err := json.Unmarshal([]byte(was), &rec); err != nil {
		return record{}, was, nil //nolint:nilerr // of another version of Parley: the person logs in again
	}
	return rec, was, nil
}

// enter waits until nobody else changes an entry.
func (l *Logins) enter(ctx context.Context, at Place, name string) (leave func(), err error) {
	key := strings.Join([]string{at.User, at.Org, at.App, string(at.Workspace), name}, "\x00")
	l.mu.Lock()
	t := l.busy[key]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		l.busy[key] = t
	}
	t.users++
	l.mu.Unlock()
	done := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(l.busy, key)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; done() }, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}

// none is the error of a person who is not logged in.
func (l *Login) none() error {
	return parley.Errorf(parley.CodeUnauthenticated, "nobody is logged in at %s", l.server.Name)
}

// Token is the access token, renewed if it is about to expire. CodeUnauthenticated: there is
// none, so the person has to log in.
func (l *Login) Token(ctx context.Context) (string, error) { return l.token(ctx, "") }

// token is Token; the server has refused the given one.
func (l *Login) token(ctx context.Context, refused string) (token string, err error) {
	err = l.l.change(ctx, l.at, l.name(), func(rec *record) error {
		now := l.l.o.Now()
		if rec.Access == "" {
			return l.none()
		}
		due := !rec.Expires.IsZero() && now.After(rec.Expires.Add(-early))
		if rec.Access != refused && !due {
			token = rec.Access
			return nil
		}
		err := l.renew(ctx, rec)
		if err != nil && rec.Access != "" && rec.Access != refused && now.Before(rec.Expires) {
			err = nil // it is still good, and its issuer may be there again when it no longer is
		}
		token = rec.Access
		return err
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Values are what has to be kept out of texts.
func (l *Login) Values(ctx context.Context) []string {
	v, err := l.l.vault()
	if err != nil {
		return nil
	}
	rec, _, err := l.l.load(ctx, v, l.at, l.name())
	if err != nil {
		return nil
	}
	return rec.values()
}

func (r *record) values() (list []string) {
	for _, v := range []string{r.Access, r.Refresh, r.Client.Secret} {
		if v != "" {
			list = append(list, v)
		}
	}
	return list
}

// clean is a text of a server without secrets, cut.
func (s Server) clean(text string) string {
	if s.Clean != nil {
		text = s.Clean(text)
	}
	return parley.Cut(strings.Join(strings.Fields(text), " "), maxSaid)
}
