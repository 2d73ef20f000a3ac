// Package login logs people in at other services with OAuth 2.1, and stores their tokens.
//
// A [Login] is one person's login at one [Server]. [Login.Needed] says whether that person must
// open a link first, and [Login.Transport] adds the token to requests. The authorization server
// redirects the person's browser to a page of ours. That page passes the answer to
// [Logins.Finish] on behalf of the person who is signed in there. So a login works only for the
// person who began it, whoever opens the link, and the link may be in the log.
//
// # What is stored, and where
//
// A login is one entry in the [vault.Vault]: the tokens, the registered client, and a login
// that has begun. So a login that began before a restart can be finished after it. An answer is
// accepted once: its state is removed before the code is sent. The person must log in again if
// the process dies in between, or after a refresh token was used and before the next one is
// stored.
//
// # What is checked
//
// The protected-resource metadata must name exactly the server's URL (RFC 9728), and the
// authorization server's metadata its own (RFC 8414). PKCE with S256 is always used. Every
// request names the resource (RFC 8707). The issuer in an answer must be byte for byte the one
// that was asked (RFC 9207). All connections go through the operator's [dial.Guard].
//
// Tokens are renewed when they are about to expire or were refused. Concurrent requests share
// one renewal. A Logins is safe for concurrent use.
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
	// lasting is how long after its begin a login can be finished.
	lasting = 24 * time.Hour
	// early is how long before it expires a token is renewed. It is longer than a request takes
	// to reach the server.
	early = 30 * time.Second
	// within bounds each request to an authorization server.
	within = 30 * time.Second
	// maxSaid limits an authorization server's text in an error, in bytes.
	maxSaid = 300
	// maxTools limits for how many tools a login remembers that they need more scopes.
	maxTools = 50
	// prefix is put before the names of logins in a user's vault.
	prefix = "login "
	// Page is the path on this server to which browsers are redirected.
	Page = "/login.html"
	// Document is where the server says who it is, below its address.
	Document = "/login-client.json"
)

// Options of [New].
type Options struct {
	Vault func() *vault.Vault // returns nil while there is no store; nil: nothing can be stored
	// Base returns this server's URL for browsers, without a trailing slash. Its error says
	// which setting is missing.
	Base   func() (string, error)
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.Default
}

// Logins are the logins of all people.
type Logins struct {
	o Options

	mu   sync.Mutex
	busy map[string]*turn // by entry; the turn of whoever changes it
}

// turn lets one caller at a time change an entry.
type turn struct {
	held  chan struct{}
	users int
}

// New returns Logins. All state is in the vault.
func New(o Options) *Logins {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Logins{o: o, busy: map[string]*turn{}}
}

// Server is a server at which a person logs in.
type Server struct {
	Name string // for people
	URL  string
	// Hosts and Private are further hosts and networks that requests may go to, besides the
	// hosts of URL and Issuer: see [dial.New].
	Hosts, Private []string

	Issuer       string   // the authorization server; empty: the one that the server names
	ClientID     string   // of a client that the operator has registered; empty: Parley registers one
	ClientSecret string   // of that client; empty: it has none
	Scopes       []string // nil: those that the server asks for

	Clean func(text string) string // removes secrets from texts of the server; nil: there are none
}

// Login is one person's login at one server.
type Login struct {
	l        *Logins
	at       Place
	server   Server
	resource string
	guard    *dial.Guard
}

// Place says whose login it is, and in which app and workspace.
type Place struct {
	parley.Principal
	vault.Scope
}

// At returns a person's login at a server, without beginning one. An error names the option
// that is wrong.
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
	Scopes   []string  `json:"scopes,omitempty"` // the scopes that were requested
	Access   string    `json:"access,omitempty"`
	Refresh  string    `json:"refresh,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Since    time.Time `json:"since,omitzero"` // when the person logged in
	// More holds the scopes that tools need beyond Scopes, by tool name.
	More    map[string][]string `json:"more,omitempty"`
	Pending *pending            `json:"pending,omitempty"`
	// Hosts and Private are those of the server when the login began. They are stored because
	// finishing or revoking a login does not know the app.
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

// name returns the name of the login's entry.
func (l *Login) name() string {
	name := prefix + l.server.Name + " " + l.resource
	if len(name) > vault.MaxName { // replace the end of a long URL by a digest
		sum := sha256.Sum256([]byte(name))
		name = name[:vault.MaxName-2*len(sum)] + hex.EncodeToString(sum[:])
	}
	return name
}

// idOf returns the id by which an entry's owner names it. It is also the first part of a
// login's state.
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
	return nil, parley.Errorf(parley.CodeUnavailable, "the server is not ready to store logins")
}

// change calls f with an entry while nobody else can change it, and stores the entry if f has
// changed it. An entry that has become empty is removed.
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
	// Do not cancel from here on: tokens from an authorization server exist only here.
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
		return record{}, was, nil //nolint:nilerr // written by another version of Parley: the person logs in again
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

// none returns the error for a person who is not logged in.
func (l *Login) none() error {
	return parley.Errorf(parley.CodeUnauthenticated, "nobody is logged in at %s", l.server.Name)
}

// Token returns the access token. It renews a token that is about to expire. It returns
// CodeUnauthenticated if there is none and the person must log in.
func (l *Login) Token(ctx context.Context) (string, error) { return l.token(ctx, "") }

// token is Token, except that refused is a token that the server has refused.
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
			err = nil // the token is still valid; the issuer may be back before it expires
		}
		token = rec.Access
		return err
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// Values returns the secrets of the login, which must be redacted from texts.
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

// clean returns a text of a server without secrets, cut to maxSaid.
func (s Server) clean(text string) string {
	if s.Clean != nil {
		text = s.Clean(text)
	}
	return parley.Cut(strings.Join(strings.Fields(text), " "), maxSaid)
}
