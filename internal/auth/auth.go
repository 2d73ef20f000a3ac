// Package auth identifies callers, once, before every door of a listener.
//
// [Door] stands before everything that a listener serves. It puts an [Identity] into the
// request's context or answers 401. The doors behind it read the identity with
// [Principal], which returns an error when there is none. So a door that nobody protected
// is closed, not open.
//
// There are three modes. [ModeNone]: every caller is the user local, as on loopback.
// [ModeKeys]: a key, sent as a bearer token or as X-API-Key, names the user.
// [ModeIngress]: the Supervisor of a Home Assistant has logged the user in and names them;
// it is recognised by its address, and everybody else needs a key. Each mode accepts keys,
// and each refuses wrong ones, so that nobody acts as another user by mistake.
//
// Guessing is slowed down: after a few wrong keys from one address, or with the same first
// characters, further wrong ones are answered with 429 and a time to wait. Right keys
// still pass.
//
// A [Verifier] turns a credential into an identity. [Keys] is one; [Issuers], for JSON web tokens,
// is another. [Bearer] asks several, for a token that comes in a message.
//
// The package holds no session and decides nothing but who the caller is: the store and
// the engine decide what belongs to whom. Everything is safe for concurrent use.
package auth

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Mode says how callers without a key are identified.
type Mode string

// The modes.
const (
	ModeNone    Mode = "none"    // everybody is parley.Local
	ModeKeys    Mode = "keys"    // they are refused
	ModeIngress Mode = "ingress" // the Supervisor names them
)

// Supervisor is the address of a Home Assistant's Supervisor
// (https://developers.home-assistant.io/docs/add-ons/presentation#ingress).
var Supervisor = netip.AddrFrom4([4]byte{172, 30, 32, 2})

// Identity is who made a request.
type Identity struct {
	parley.Principal
	Name string // for people; empty when unknown
	Key  string // the name of the key that was shown, if one was

	// Metrics: the key is for the metrics, which cover all users, and for nothing else.
	Metrics bool
	// App is the only app that the caller may reach; "": all. It is set by a key that was made
	// for one app, and by the app's own origin.
	App string

	// Issuer is the name of the issuer of the token that was shown; "": none was. Orgs are all
	// organisations that the token names, in its own words, the active one first: see
	// [Identity.In]. By is the person who acts as the user, if the token says so.
	Issuer string
	Orgs   []string
	By     string
	// Scopes are what the caller may do; none: everything.
	Scopes []Scope
	// SignIn is the id of the sign-in whose cookie was sent; "": none was.
	SignIn string
	// Expires is when the identity ends by itself; zero: never.
	Expires time.Time

	until context.Context // ends when the key is revoked
}

// Verifier checks one kind of credential.
type Verifier interface {
	// Verify returns the owner of a credential. It returns false for a credential that is
	// of another kind or unknown, and an error when it cannot tell.
	Verify(ctx context.Context, credential string) (Identity, bool, error)
}

// Bearer returns the owner of a token that did not come in a request's header, such as one in a
// message. The verifiers are asked in order. The error is of CodeUnauthenticated for a token that
// none of them accepts.
func Bearer(ctx context.Context, token string, verifiers ...Verifier) (Identity, error) {
	token = strings.TrimSpace(token)
	if token == "" {
		return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "a token is required").WithField("token")
	}
	for _, v := range verifiers {
		if who, ok, err := v.Verify(ctx, token); ok || err != nil {
			return who, err
		}
	}
	return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "the token is unknown, or of an issuer that this server does not accept").WithField("token").
		WithHint("auth.issuers in parley.yaml names the issuers")
}

// Options of [Door]. Fail is required.
type Options struct {
	Mode       Mode
	Supervisor netip.Addr // the address that may name users in ModeIngress; zero: Supervisor
	Verifiers  []Verifier // asked in order
	// Open reports whether a request needs no identity, such as one for a page, which
	// holds no data. Nil: every request needs one.
	Open func(*http.Request) bool
	// Metrics reports whether a request is for the metrics. A key that was made for them is
	// refused elsewhere. Nil: no request is.
	Metrics func(*http.Request) bool
	// Own returns the app to whose own origin a request came, where a page that others wrote is
	// served; false: it came to ours. The two are kept apart: at an app's origin a caller
	// reaches that app alone, and only with a key that was made for it, since the page sees the
	// key. Such a key is refused elsewhere. Nil: there is no such origin.
	Own func(*http.Request) (app string, own bool)
	// Scope is what a request does, for keys that may not do everything. Nil: such keys are refused.
	Scope func(*http.Request) Scope
	// SignIns are accepted by their cookie, from pages of this server, where no other credential is
	// sent; nil: there are none. Cookie is its name.
	SignIns *SignIns
	Cookie  func() string
	// Now is the clock for slowing down wrong keys; nil: time.Now.
	Now func() time.Time
	// Known is called with the context of a request whose caller has been identified; nil: nobody is told.
	Known func(context.Context)
	// Fail answers with an error in the server's one format.
	Fail func(http.ResponseWriter, error)
}

// Door wraps next so that it only sees requests with an identity, and those that Open
// admits.
func Door(next http.Handler, o Options) http.Handler {
	if !o.Supervisor.IsValid() {
		o.Supervisor = Supervisor
	}
	if o.Open == nil {
		o.Open = func(*http.Request) bool { return false }
	}
	if o.Metrics == nil {
		o.Metrics = func(*http.Request) bool { return false }
	}
	if o.Own == nil {
		o.Own = func(*http.Request) (string, bool) { return "", false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Known == nil {
		o.Known = func(context.Context) {}
	}
	return &door{next: next, o: o}
}

type door struct {
	next  http.Handler
	o     Options
	wrong wrongs
}

// ServeHTTP has a small frame, since every stream has it on its stack for as long as it is open.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w, r, done := d.admit(w, r)
	for _, do := range done {
		defer do()
	}
	if r != nil {
		d.next.ServeHTTP(w, r)
	}
}

// admit finds out who asks. It returns the request for the handlers behind the door, or nil if it has
// refused it, and what has to be done when it is over.
//
//go:noinline
func (d *door) admit(w http.ResponseWriter, r *http.Request) (_ http.ResponseWriter, _ *http.Request, over []func()) {
	trusted := d.o.Mode == ModeIngress && from(r, d.o.Supervisor)
	app, own := d.o.Own(r)
	who, done, err := d.who(r, trusted, own)
	if done != nil {
		over = append(over, done)
	}
	if err == nil && who.Metrics && !d.o.Metrics(r) {
		who, err = Identity{}, parley.Errorf(parley.CodeForbidden, "this key opens /metrics and nothing else").
			WithHint("make a key for a user with `parley keys create NAME`")
	}
	if err == nil {
		err = apart(who, app, own)
	}
	if err == nil && len(who.Scopes) > 0 {
		err = d.within(who, r)
	}
	if err != nil {
		who = Identity{}
	} else if own {
		who.App = app
	}
	if err != nil && !d.o.Open(r) {
		refuse(w, d.o.Fail, err)
		return w, nil, over
	}
	if err == nil {
		d.o.Known(r.Context())
	}
	ctx := context.WithValue(r.Context(), identityKey{}, found{who, err})
	if who.until != nil {
		// When the key is revoked, the requests and streams that use it end. So they do with the
		// sign-in, which says why.
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		stop := context.AfterFunc(who.until, func() {
			why := context.Cause(who.until)
			if errors.Is(why, context.Canceled) {
				why = errRevoked
			}
			cancel(why)
		})
		over = append(over, func() { stop(); cancel(nil) })
	}
	if !who.Expires.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, who.Expires.Sub(d.o.Now()), errExpired)
		over = append(over, cancel)
	}
	r = r.WithContext(ctx)
	if trusted {
		w = below(w, r.Header.Get(pathHeader))
	} else {
		// Handlers must not trust these headers from anybody but the Supervisor.
		r.Header = r.Header.Clone()
		for _, name := range supervisorHeaders {
			r.Header.Del(name)
		}
	}
	return w, r, over
}

// within refuses what a key has no scope for.
func (d *door) within(who Identity, r *http.Request) error {
	var needs Scope
	if d.o.Scope != nil {
		needs = d.o.Scope(r)
	}
	if needs != "" && slices.Contains(who.Scopes, needs) {
		return nil
	}
	return parley.Errorf(parley.CodeForbidden, "this needs a key with the scope %s, and this key has %s", cmp.Or(needs, ScopeManage), joined(who.Scopes)).
		WithHint("make another key with `parley keys create NAME --scope %s`", joined(append(slices.Clone(who.Scopes), cmp.Or(needs, ScopeManage))))
}

func joined(scopes []Scope) string {
	var names []string
	for _, s := range scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, ",")
}

// apart keeps the keys of one app's page and those of everything else from each other's
// origins.
func apart(who Identity, app string, own bool) error {
	switch {
	case who.App != "" && (own && who.App != app || !own && who.Key != ""):
		return parley.Errorf(parley.CodeForbidden, "this key opens the page of the app %s at its own address and nothing else", who.App).
			WithHint("make a key for a user with `parley keys create NAME`")
	case own && who.Key != "" && who.App == "":
		return parley.Errorf(parley.CodeForbidden, "this key opens everything of its user, and is not for a page that sees it").
			WithHint("revoke it if you do not trust the page of %s, and make a key for that page with `parley keys create NAME --app %s`", app, app)
	}
	return nil
}

// who identifies the caller. done, unless it is nil, is called when the request ends.
func (d *door) who(r *http.Request, trusted, own bool) (_ Identity, done func(), err error) {
	if trusted {
		who, err := fromIngress(r.Header)
		return who, nil, err
	}
	shown, err := credential(r.Header)
	if err != nil {
		return Identity{}, nil, err
	}
	// The cookie also goes to the pages that others wrote, at other ports of this machine.
	if cookie := d.cookie(r); shown == "" && cookie != "" && !own {
		if err := sameSite(r); err != nil {
			return Identity{}, nil, err
		}
		h, done, err := d.o.SignIns.find(cookie)
		if err == nil {
			who, err := forOrg(h.identity(), r.Header)
			return who, done, err
		}
		if d.o.Mode != ModeNone {
			return Identity{}, nil, err
		}
	}
	who, err := d.shown(r, shown)
	return who, nil, err
}

// cookie is that of a sign-in, or "".
func (d *door) cookie(r *http.Request) string {
	if d.o.SignIns == nil {
		return ""
	}
	return one(r, d.o.Cookie())
}

// shown identifies the caller by a credential, or without one.
func (d *door) shown(r *http.Request, shown string) (Identity, error) {
	if shown != "" {
		for _, v := range d.o.Verifiers {
			who, ok, err := v.Verify(context.WithValue(r.Context(), networkKey{}, Network(r)), shown)
			if ok && err == nil {
				return forOrg(who, r.Header)
			}
			if wrong, refused := errors.AsType[*parley.Error](err); refused && wrong.Code == parley.CodeUnauthenticated && !isExpired(err) {
				return Identity{}, d.refused(r, shown, wrong)
			}
			if ok || err != nil {
				return Identity{}, err
			}
		}
		// Without a login, an unknown token may be meant for another server: some clients
		// send the token they were configured with to any server.
		if d.o.Mode != ModeNone || strings.HasPrefix(shown, keyPrefix) {
			wrong := parley.Errorf(parley.CodeUnauthenticated, "this key is unknown or was revoked").
				WithHint("`parley keys list` shows the valid ones, and `parley keys create` makes one")
			if _, token := claimedIssuer(shown); token {
				wrong = parley.Errorf(parley.CodeUnauthenticated, "this token is of an issuer that this server does not accept").
					WithHint("auth.issuers in parley.yaml names the issuers")
			}
			return Identity{}, d.refused(r, shown, wrong)
		}
	}
	if d.o.Mode == ModeNone {
		return Identity{Principal: parley.Local}, nil
	}
	return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "this server asks for a key").
		WithHint("send it as \"Authorization: Bearer %s…\"; `parley keys create` makes one", keyPrefix)
}

// credential returns what the client sent: a bearer token (RFC 6750) or X-API-Key. It may
// be sent several times, but not two different ones: whoever chose one of them, a proxy or
// this server, would choose the user. That is a malformed request (RFC 6750, 3.1).
func credential(h http.Header) (string, error) {
	shown := h.Values("X-API-Key")
	for _, value := range h.Values("Authorization") {
		if scheme, token, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "Bearer") {
			shown = append(shown[:len(shown):len(shown)], token)
		}
	}
	one := ""
	for _, key := range shown {
		switch key = strings.TrimSpace(key); {
		case key == "" || key == one:
		case one != "":
			return "", parley.Errorf(parley.CodeInvalid, "the request shows two different keys").WithField("Authorization").
				WithHint("send one key, as Authorization or as X-API-Key")
		default:
			one = key
		}
	}
	return one, nil
}

// refuse answers 401 with the matching challenge (RFC 9110, 11.6.1).
func refuse(w http.ResponseWriter, fail func(http.ResponseWriter, error), err error) {
	if parley.CodeOf(err) == parley.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
	}
	fail(w, err)
}

// from reports whether a connection comes from addr. Headers that claim an address do not
// count.
func from(r *http.Request, addr netip.Addr) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().WithZone("") == addr.Unmap()
}

type identityKey struct{}

type found struct {
	who Identity
	err error
}

// orgHeader chooses among the organisations of a token.
const orgHeader = "X-Org-Id"

// forOrg lets a caller with a token act for another of its organisations.
func forOrg(who Identity, h http.Header) (Identity, error) {
	asked := h.Values(orgHeader)
	switch {
	case who.Issuer == "" || len(asked) == 0:
		return who, nil
	case len(asked) > 1:
		return Identity{}, parley.Errorf(parley.CodeInvalid, "the header %s is given twice", orgHeader).WithField(orgHeader).WithHint("send it once")
	}
	return who.In(asked[0])
}

var (
	errExpired = parley.Errorf(parley.CodeUnauthenticated, "the token expired").WithHint("reconnect with a new one")
	errRevoked = parley.Errorf(parley.CodeUnauthenticated, "the key was revoked")
)

func isExpired(err error) bool {
	_, is := errors.AsType[expiredToken](err)
	return is
}

// Of returns who made the request of a context, or an error when that is not known.
func Of(ctx context.Context) (Identity, error) {
	f, ok := ctx.Value(identityKey{}).(found)
	if !ok {
		return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "the caller was not identified")
	}
	return f.who, f.err
}

// Principal is [Of], for the doors behind [Door].
func Principal(ctx context.Context) (parley.Principal, error) {
	who, err := Of(ctx)
	return who.Principal, err
}

// App is the only app that the caller may reach; "": all.
func App(ctx context.Context) string {
	who, _ := Of(ctx)
	return who.App
}

// Metrics returns nil if the caller may read the metrics, which cover all users: with a
// key that was made for them, or on a server without a login.
func Metrics(ctx context.Context) error {
	who, err := Of(ctx)
	switch {
	case err != nil:
		return err
	case who.Metrics, who.Key == "" && who.Principal == parley.Local:
		return nil
	}
	return parley.Errorf(parley.CodeForbidden, "metrics cover all users, and this login is for one").
		WithHint("make a key for them with `parley keys create NAME --metrics`")
}
