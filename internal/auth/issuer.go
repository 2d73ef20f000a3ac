package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/strict"
)

const (
	// maxToken limits a token, in bytes. Those of Clerk are smaller than a cookie, 4 KiB; others
	// list the groups of a user.
	maxToken = 16 << 10
	// DefaultLeeway is how far the clocks of an issuer and of this server may differ.
	DefaultLeeway = 30 * time.Second
)

// algorithms are the accepted ones: all have a public key, so no public key can be taken for a
// shared secret (RFC 8725, 2.1).
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Issuer is somebody whose JSON web tokens (RFC 7519) identify users: an OIDC provider.
type Issuer struct {
	// Name begins the names of its users and organisations, as in clerk:user_2abc, so that users of
	// two issuers, or of keys, are never the same by accident. It has no colon.
	Name string
	// URL is what its tokens have as iss, byte for byte.
	URL string
	// Clerk says that its tokens have the claims of Clerk, whose session tokens have no aud.
	Clerk bool
	// Audience are values of aud that are meant for this server. A token without any of them is
	// refused, except for a session token of Clerk.
	Audience []string
	// Parties are the clients whose tokens are accepted: azp, which for Clerk is the origin of the
	// page. Empty: any client, but not for a token without aud.
	Parties []string
	// JWKS is the URL of the public keys. "": the issuer's discovery document names it.
	JWKS string
	// Org and Orgs are the claims with the organisation that the user acts for, and with all that
	// the user is in. "": none; Clerk has one of its own.
	Org, Orgs string
	// NeedsOrg refuses tokens without an organisation.
	NeedsOrg bool
	// Leeway is how far the clocks may differ; 0: DefaultLeeway.
	Leeway time.Duration
	// Login lets browsers sign in; nil: only tokens do. With it, Audience may be empty.
	Login *Login
	// Private are hosts, or hosts with a port, that may be asked for the keys although their
	// addresses are not public.
	Private []string
}

// IssuersOptions of [NewIssuers].
type IssuersOptions struct {
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none
	// Client makes the requests to issuers; nil: one that reaches public addresses only, and
	// the exceptions that each issuer names.
	Client *http.Client
}

// Issuers verify JSON web tokens by the public keys of their issuers.
//
// A token names its issuer, which only selects among the known ones. Its signature, algorithm,
// issuer, audience and times are always checked. Of its header, only the algorithm and the key
// id are used: never a key, or the URL of one.
//
// The keys of an issuer are fetched when the first token comes, and again each hour or when a
// token has an unknown key, but for that reason once a minute at most. While the issuer cannot be
// reached, the keys that are known are used, for up to a day.
type Issuers struct {
	list []*issuer
	end  context.CancelFunc
	work sync.WaitGroup
}

type issuer struct {
	Issuer
	now      func() time.Time
	keys     *keySet
	verifier *oidc.IDTokenVerifier
}

// NewIssuers makes a verifier of the tokens of these issuers. The caller closes it.
func NewIssuers(list []Issuer, o IssuersOptions) (*Issuers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	i := &Issuers{end: end}
	for _, is := range list {
		one, err := i.add(ctx, is, o)
		if err == nil && slices.ContainsFunc(i.list, func(o *issuer) bool { return o.URL == is.URL || o.Name == is.Name }) {
			err = parley.Errorf(parley.CodeInvalid, "the issuer %s is named twice", is.URL)
		}
		if err != nil {
			end()
			return nil, err
		}
		i.list = append(i.list, one)
	}
	return i, nil
}

func (i *Issuers) add(ctx context.Context, is Issuer, o IssuersOptions) (*issuer, error) {
	is.Leeway = cmp.Or(is.Leeway, DefaultLeeway)
	if is.Clerk {
		if len(is.Audience)+len(is.Parties) == 0 && is.Login == nil {
			return nil, parley.Errorf(parley.CodeInvalid, "the issuer %s says neither an audience nor parties, so a token for any application would be accepted", is.Name).
				WithField("parties").WithHint("parties are the origins of the pages, such as https://app.example.com")
		}
	} else if len(is.Audience) == 0 && is.Login == nil {
		return nil, parley.Errorf(parley.CodeInvalid, "the issuer %s says no audience, so a token for any application would be accepted", is.Name).
			WithField("audience").WithHint("name what the issuer writes into aud for this server")
	}
	client := o.Client
	if client == nil {
		allow := slices.Clone(is.Private)
		for _, at := range []string{is.URL, is.JWKS} {
			if here := namedAddress(at); here != "" {
				allow = append(allow, here)
			}
		}
		guard, err := dial.Public(allow, nil)
		if err != nil {
			return nil, err
		}
		client = guard.Client(false)
	}
	one := &issuer{Issuer: is, now: o.Now}
	one.keys = &keySet{
		name: is.Name, url: is.URL, jwks: is.JWKS, client: client, now: o.Now, log: o.Logger, asking: make(chan struct{}, 1),
		start: func(f func(context.Context)) { i.work.Go(func() { f(ctx) }) },
	}
	// The library checks the issuer, the algorithm and the signature. It does not check what
	// bearer tokens need besides, and its leeway for nbf is fixed, so we check the rest.
	one.verifier = oidc.NewVerifier(is.URL, one.keys, &oidc.Config{SupportedSigningAlgs: algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true, Now: o.Now})
	return one, nil
}

// namedAddress is the host with port of a URL that names localhost or an address, which whoever
// wrote the settings has thereby allowed; "" for others.
func namedAddress(at string) string {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" {
		return ""
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil && u.Hostname() != "localhost" {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	return net.JoinHostPort(u.Hostname(), port)
}

// Close ends requests to issuers and waits for them.
func (i *Issuers) Close() {
	i.end()
	i.work.Wait()
}

// Names are the URLs of the issuers, by name.
func (i *Issuers) Names() map[string]string {
	all := map[string]string{}
	for _, one := range i.list {
		all[one.Name] = one.URL
	}
	return all
}

// Outages says of each issuer that cannot be reached since when, and what that means.
func (i *Issuers) Outages() (list []string) {
	for _, one := range i.list {
		if text := one.keys.outage(); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Verify implements [Verifier]. A token of another issuer is unknown.
func (i *Issuers) Verify(ctx context.Context, credential string) (Identity, bool, error) {
	iss, ok := claimedIssuer(credential)
	if !ok {
		return Identity{}, false, nil
	}
	for _, one := range i.list {
		if one.URL == iss {
			who, err := one.verify(ctx, credential)
			return who, err == nil, err
		}
	}
	return Identity{}, false, nil
}

// claimedIssuer returns what a token says of its issuer, which nobody has verified; false if it
// is no token.
func claimedIssuer(token string) (string, bool) {
	head, rest, _ := strings.Cut(token, ".")
	body, sig, two := strings.Cut(rest, ".")
	if !two || strings.Contains(sig, ".") || len(token) > 4*maxToken {
		return "", false
	}
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil || !json.Valid(raw) {
		return "", false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if raw, err = base64.RawURLEncoding.DecodeString(body); err != nil || json.Unmarshal(raw, &claims) != nil {
		return "", false
	}
	return claims.Issuer, claims.Issuer != ""
}

// refusedToken is the error for a token that is not accepted.
func refusedToken(format string, args ...any) *parley.Error {
	return parley.Errorf(parley.CodeUnauthenticated, "the token is refused: "+format, args...).WithHint("log in again for a new one")
}

// expiredToken is refusedToken for a token that was valid. A client with one is no guesser.
type expiredToken struct{ error }

func (e expiredToken) Unwrap() error { return e.error }

// checked returns the claims of a token after all checks that do not depend on what kind of
// token it is.
func (is *issuer) checked(ctx context.Context, token string) (claims, error) {
	var c claims
	typ, err := wellFormed(token)
	if err != nil {
		return c, err
	}
	var cause error // of our key set; the library passes on its text only
	verified, err := is.verifier.Verify(context.WithValue(ctx, causeKey{}, &cause), token)
	if cause != nil {
		return c, cause
	}
	if err != nil {
		return c, refusedToken("%s", strings.TrimPrefix(err.Error(), "oidc: "))
	}
	var raw json.RawMessage
	if err := verified.Claims(&raw); err != nil {
		return c, refusedToken("its claims are no JSON object")
	}
	if c, err = readClaims(raw); err != nil {
		return c, err
	}
	c.typ = typ
	if c.Issuer != is.URL { // the library has an exception for one issuer
		return c, refusedToken("its issuer is another one")
	}
	now := is.now()
	switch {
	case c.expires.IsZero():
		return c, refusedToken("it does not say when it expires (exp)")
	case !now.Before(c.expires.Add(is.Leeway)):
		return c, expiredToken{refusedToken("it expired %s ago", now.Sub(c.expires).Round(time.Second))}
	case !c.notBefore.IsZero() && c.notBefore.After(now.Add(is.Leeway)):
		return c, refusedToken("it is not valid yet (nbf); compare the clock of this server with the issuer's")
	case c.issuedAt.After(now.Add(is.Leeway)):
		return c, refusedToken("it was issued in the future (iat); compare the clock of this server with the issuer's")
	case !plainSubject(c.Subject):
		return c, refusedToken("it names no user (sub)")
	}
	return c, nil
}

// wellFormed checks a token's form and its header before anything is done with it. It returns its
// type, in small letters.
func wellFormed(token string) (typ string, err error) {
	if len(token) > maxToken {
		return "", refusedToken("it is longer than %d KiB", maxToken>>10)
	}
	if strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}) {
		return "", refusedToken("it has characters that no token has")
	}
	head, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return "", refusedToken("its header is not readable")
	}
	if strict.JSON(raw) != nil {
		return "", refusedToken("its header has a field twice")
	}
	var h struct {
		Type string          `json:"typ"`
		Crit json.RawMessage `json:"crit"`
	}
	if json.Unmarshal(raw, &h) != nil {
		return "", refusedToken("its header is not readable")
	}
	if h.Crit != nil {
		return "", refusedToken("its header asks for extensions (crit), of which this server knows none")
	}
	// A token of another kind, such as a logout token, must not log anybody in (RFC 8725, 3.11).
	switch typ = strings.ToLower(strings.TrimPrefix(strings.ToLower(h.Type), "application/")); typ {
	case "", "jwt", "at+jwt":
		return typ, nil
	default:
		return "", refusedToken("it is a token of the type %q", parley.Cut(typ, 40))
	}
}

// plainSubject reports whether a name can be shown and stored: OIDC allows 255 ASCII characters
// (Core 2, sub).
func plainSubject(s string) bool {
	return s != "" && len(s) <= 255 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// verify returns the identity that a bearer token gives.
func (is *issuer) verify(ctx context.Context, token string) (Identity, error) {
	c, err := is.checked(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	if c.Nonce != nil || c.Events != nil {
		return Identity{}, refusedToken("it is an ID token or a logout token, which is for the client that asked for it").
			WithHint("send the access token")
	}
	if err := is.meantForUs(c); err != nil {
		return Identity{}, err
	}
	return is.identity(c)
}

// meantForUs checks the audience.
func (is *issuer) meantForUs(c claims) error {
	ours := func(known, got []string) bool {
		return slices.ContainsFunc(got, func(s string) bool { return slices.Contains(known, s) })
	}
	switch {
	case c.Audience != nil && !ours(is.Audience, c.Audience):
		return refusedToken("it is for another application (aud)")
	case c.Audience == nil && !is.Clerk:
		return refusedToken("it does not say for which application it is (aud)")
	case c.Audience == nil && !slices.Contains(is.Parties, c.Party):
		return refusedToken("it was made for a page that is not listed (azp)")
	case c.Party != "" && len(is.Parties) > 0 && !slices.Contains(is.Parties, c.Party):
		return refusedToken("it was made for a client that is not listed (azp)")
	}
	return nil
}

// identity returns who the user of a verified token is.
func (is *issuer) identity(c claims) (Identity, error) {
	who := Identity{
		Principal: parley.Principal{User: is.Name + ":" + c.Subject}, Name: shownName(cmp.Or(c.text("name"), c.text("preferred_username"), c.text("email"))),
		Issuer: is.Name, Expires: c.expires.Add(is.Leeway), By: c.text("act", "sub"),
	}
	org, orgs := "", []string(nil)
	if is.Clerk {
		if c.text("sts") == "pending" {
			return Identity{}, refusedToken("the user has not finished logging in").WithHint("finish what the login asks for, such as choosing an organisation")
		}
		org = cmp.Or(c.text("o", "id"), c.text("org_id")) // of version 2, and of the one before
	}
	if is.Org != "" {
		if list := c.texts(is.Org); len(list) > 0 {
			org = list[0]
			if len(list) > 1 { // several: none is the active one
				org, orgs = "", list
			}
		}
	}
	if is.Orgs != "" {
		orgs = append(orgs, c.texts(is.Orgs)...)
	}
	if org != "" {
		orgs = append([]string{org}, orgs...)
	}
	orgs = slices.DeleteFunc(orgs, func(s string) bool { return !plainSubject(s) })
	seen := map[string]bool{}
	for _, o := range orgs {
		if !seen[o] {
			seen[o], who.Orgs = true, append(who.Orgs, o)
		}
	}
	switch {
	case org != "" && !plainSubject(org):
		return Identity{}, refusedToken("its organisation has no plain name")
	case org != "":
		who.Org = is.Name + ":" + org
	case is.NeedsOrg && len(who.Orgs) == 0:
		return Identity{}, parley.Errorf(parley.CodeForbidden, "the token is for no organisation, and this server serves organisations only").
			WithHint("choose an organisation where you log in")
	}
	return who, nil
}

// In returns the identity acting for one of the organisations of its token. org is as in the
// token.
func (who Identity) In(org string) (Identity, error) {
	if who.Issuer == "" || !slices.Contains(who.Orgs, org) {
		return Identity{}, parley.Errorf(parley.CodeForbidden, "the token is not for the organisation %q", parley.Cut(org, 100)).WithField("org").
			WithHint("choose one that the login names, or log in again")
	}
	who.Org = who.Issuer + ":" + org
	return who, nil
}
