// Package auth finds out who asks, once, before every door of a listener.
//
// [Door] stands before all that a listener serves. It puts an [Identity] into
// the request's context or answers 401; the doors behind it read the identity
// with [Principal], which refuses where nobody has looked. So a door that is
// forgotten is closed, not open.
//
// Who asks is found out in one of three ways. [ModeNone]: everybody who gets
// here is the user local, as on loopback. [ModeKeys]: a key, sent as a bearer
// token or as X-API-Key, names the user. [ModeIngress]: the Supervisor of a
// Home Assistant has logged the user in and says who it is; it is recognised by
// its address, and everybody else needs a key. A key is understood in each mode,
// and a wrong one is refused in each, so that nobody acts as another by mistake.
//
// Wrong keys are slowed: after a few from an address, or of one beginning, each is
// answered with 429 and how long to wait. Right ones pass all the same.
//
// A [Verifier] turns what a client shows into an identity. [Keys] is one; one
// for JSON web tokens takes its place beside it.
//
// It holds no session and makes no decision beyond who it is: what belongs to
// whom is for the store and the engine. All of it is safe for concurrent use.
package auth

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Mode is how those are known who show no key.
type Mode string

// The modes.
const (
	ModeNone    Mode = "none"    // everybody is parley.Local
	ModeKeys    Mode = "keys"    // nobody
	ModeIngress Mode = "ingress" // the Supervisor's word
)

// Supervisor is where the Supervisor of a Home Assistant speaks from
// (https://developers.home-assistant.io/docs/add-ons/presentation#ingress).
var Supervisor = netip.AddrFrom4([4]byte{172, 30, 32, 2})

// Identity is who asks.
type Identity struct {
	parley.Principal
	Name string // for people; empty when nobody said
	Key  string // the name of the key that was shown, if one was

	// Metrics: that key may read how much the server is used, by everybody.
	Metrics bool

	until context.Context // ends when the key is revoked
}

// Verifier knows a kind of credential.
type Verifier interface {
	// Verify says whose credential this is. Of a credential that is not of its
	// kind, or not known, it returns false. An error means that it can not tell.
	Verify(ctx context.Context, credential string) (Identity, bool, error)
}

// Options of [Door]. Fail is needed.
type Options struct {
	Mode       Mode
	Supervisor netip.Addr // whose word counts in ModeIngress; zero: Supervisor
	Verifiers  []Verifier // asked in order
	// Open reports whether a request needs no identity, such as one for a page,
	// which holds no data. Nil: none is so.
	Open func(*http.Request) bool
	// Now is the clock that wrong keys are slowed by; nil: time.Now.
	Now func() time.Time
	// Fail answers with an error in the server's one shape.
	Fail func(http.ResponseWriter, error)
}

// Door stands before next.
func Door(next http.Handler, o Options) http.Handler {
	if !o.Supervisor.IsValid() {
		o.Supervisor = Supervisor
	}
	if o.Open == nil {
		o.Open = func(*http.Request) bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &door{next: next, o: o}
}

type door struct {
	next  http.Handler
	o     Options
	wrong wrongs
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trusted := d.o.Mode == ModeIngress && from(r, d.o.Supervisor)
	who, err := d.who(r, trusted)
	if err != nil && !d.o.Open(r) {
		refuse(w, d.o.Fail, err)
		return
	}
	ctx := context.WithValue(r.Context(), identityKey{}, found{who, err})
	if who.until != nil {
		// What is open under a key ends with it.
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(who.until, func() { cancel(errRevoked) })()
	}
	r = r.WithContext(ctx)
	if trusted {
		w = below(w, r.Header.Get(pathHeader))
	} else {
		// Nobody behind this door may take a stranger's word.
		r.Header = r.Header.Clone()
		for _, name := range supervisorHeaders {
			r.Header.Del(name)
		}
	}
	d.next.ServeHTTP(w, r)
}

func (d *door) who(r *http.Request, trusted bool) (Identity, error) {
	if trusted {
		return fromIngress(r.Header)
	}
	shown, err := credential(r.Header)
	if err != nil {
		return Identity{}, err
	}
	if shown != "" {
		for _, v := range d.o.Verifiers {
			if who, ok, err := v.Verify(r.Context(), shown); ok || err != nil {
				return who, err
			}
		}
		// Without a login, what is no key of ours may be meant for somebody else:
		// clients send a token that they were told to send, whoever listens.
		if d.o.Mode != ModeNone || strings.HasPrefix(shown, keyPrefix) {
			return Identity{}, d.refused(r, shown, parley.Errorf(parley.CodeUnauthenticated, "this key is not known, or was revoked").
				WithHint("`parley keys list` shows those that are, and `parley keys create` makes one"))
		}
	}
	if d.o.Mode == ModeNone {
		return Identity{Principal: parley.Local}, nil
	}
	return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "this server asks for a key").
		WithHint("send it as \"Authorization: Bearer %s…\"; `parley keys create` makes one", keyPrefix)
}

// credential is what a client shows: a bearer token (RFC 6750) or X-API-Key.
func credential(h http.Header) (string, error) {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	token = strings.TrimSpace(token)
	own := strings.TrimSpace(h.Get("X-API-Key"))
	if token != "" && own != "" && token != own {
		return "", parley.Errorf(parley.CodeUnauthenticated, "Authorization and X-API-Key show two different keys").WithHint("send one of them")
	}
	return cmp.Or(token, own), nil
}

// refuse answers 401 with the challenge that belongs to it (RFC 9110, 11.6.1).
func refuse(w http.ResponseWriter, fail func(http.ResponseWriter, error), err error) {
	if parley.CodeOf(err) == parley.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="parley"`)
	}
	fail(w, err)
}

// from reports whether a connection comes from addr. What headers say about
// that does not count.
func from(r *http.Request, addr netip.Addr) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().WithZone("") == addr.Unmap()
}

type identityKey struct{}

type found struct {
	who Identity
	err error
}

var errRevoked = parley.Errorf(parley.CodeUnauthenticated, "the key was revoked")

// Of returns who made the request of a context, or why that is not known.
func Of(ctx context.Context) (Identity, error) {
	f, ok := ctx.Value(identityKey{}).(found)
	if !ok {
		return Identity{}, parley.Errorf(parley.CodeUnauthenticated, "nobody has found out who asks")
	}
	return f.who, f.err
}

// Principal is [Of], for the doors.
func Principal(ctx context.Context) (parley.Principal, error) {
	who, err := Of(ctx)
	return who.Principal, err
}

// Metrics returns nil for who may read how much the server is used, by everybody: the
// holder of a key that was made for it, and where nobody has to log in, whoever is
// there.
func Metrics(ctx context.Context) error {
	who, err := Of(ctx)
	switch {
	case err != nil:
		return err
	case who.Metrics, who.Key == "" && who.Principal == parley.Local:
		return nil
	}
	return parley.Errorf(parley.CodeForbidden, "metrics are of all users, and this login is of one").
		WithHint("make a key for them with `parley keys create NAME --metrics`")
}
