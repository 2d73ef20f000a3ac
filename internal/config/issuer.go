package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/pattern"
)

// Issuer is an OIDC provider whose tokens identify users.
type Issuer struct {
	// Issuer is its URL, exactly as its tokens have it in iss. Required.
	Issuer string `yaml:"issuer,ref"`
	// Claims is oidc, or clerk for the session tokens of Clerk, which have no audience and
	// name an organisation in their own way. Default oidc.
	Claims string `yaml:"claims"`
	// Audience are the values of aud that mean this server. Required, except for clerk.
	Audience []string `yaml:"audience"`
	// Parties are the clients whose tokens are accepted (azp); for clerk the origins of the
	// pages, such as https://app.example.com. Default: any client; for clerk required unless
	// there is an audience.
	Parties []string `yaml:"parties"`
	// JWKS is the URL of the public keys. Default: as the issuer's discovery document says.
	JWKS string `yaml:"jwks,ref"`
	// Org and Orgs are the claims with the active organisation and with all of the user's.
	// Each may be a path, such as realm.tenant. Default: none; clerk has its own.
	Org  string `yaml:"org"`
	Orgs string `yaml:"orgs"`
	// RequireOrg refuses tokens without an organisation. Default: false.
	RequireOrg bool `yaml:"require_org"`
	// Leeway is how far the clocks may differ, up to 5m. Default 30s.
	Leeway parley.Duration `yaml:"leeway"`
	// Login lets browsers sign in on the pages, by OIDC's code flow. Default: they do not, and
	// only tokens identify users. Audience may be left out with it.
	Login IssuerLogin `yaml:"login"`
	// Private are hosts of the issuer, or hosts with a port, that may be reached although
	// their addresses are not public. Default: none, but an address that a URL here names.
	Private []string `yaml:"private"`
}

// IssuerLogin is this server as a client of an issuer, which knows it under ClientID and with the
// redirect address <public_url>/v1/signin/<name>/callback.
type IssuerLogin struct {
	ClientID string `yaml:"client_id,ref"`
	// ClientSecret authenticates the server. Default: none, for a public client.
	ClientSecret string `yaml:"client_secret,ref"`
	// Scopes are asked for. Default [openid, profile, email].
	Scopes []string `yaml:"scopes"`
	// Title is on the button of the page. Default: the name.
	Title string `yaml:"title"`
	// EndSession signs a browser that signs out also out at the issuer, which has to know
	// <public_url>/ as an address to return to. Default: false.
	EndSession bool `yaml:"end_session"`
}

// issuerName matches the name of an issuer. It has no colon, which ends it in the names of users.
var issuerName = pattern.New(`^[a-z][a-z0-9-]{0,31}$`)

// maxLeeway is the largest difference of clocks that may be allowed: a token lives so much longer.
const maxLeeway = 5 * time.Minute

func (o *overrides) issuers() {
	by := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(o.s.Auth.Issuers)) {
		at, is := "auth.issuers."+name, o.s.Auth.Issuers[name]
		if !issuerName.MatchString(name) {
			o.bad(at, "is no name for an issuer; begin with a letter, and use small letters, digits and -")
		}
		if is.Claims == "" {
			is.Claims = "oidc"
		}
		o.oneOf(at+".claims", is.Claims, "oidc", "clerk")
		switch {
		case is.Issuer == "":
			o.d.lacks(at, "issuer", "it has no issuer; name its URL, exactly as its tokens have it in iss")
		case !reachable(is.Issuer):
			o.bad(at+".issuer", "%q is no URL of an issuer; write it like https://login.example.com; http:// is only allowed for localhost and for addresses", is.Issuer)
		case by[is.Issuer] != "":
			o.bad(at+".issuer", "is that of %s, too", by[is.Issuer])
		}
		by[is.Issuer] = name
		if is.JWKS != "" && !reachable(is.JWKS) {
			o.bad(at+".jwks", "%q is no URL of keys; write it like https://login.example.com/jwks", is.JWKS)
		}
		login := o.login(at+".login", is.Login)
		if is.Claims == "oidc" && len(is.Audience) == 0 && !login {
			o.d.lacks(at, "audience", "it has no audience, so a token for any application would be accepted; name what the issuer writes into aud for this server")
		}
		if is.Claims == "clerk" && len(is.Audience)+len(is.Parties) == 0 && !login {
			o.d.lacks(at, "parties", "it has no parties, so a token for any page would be accepted; name the origins of the pages, such as https://app.example.com")
		}
		if d := time.Duration(is.Leeway); d < 0 || d > maxLeeway {
			o.bad(at+".leeway", "cannot be negative or more than 5m")
		}
		o.s.Auth.Issuers[name] = is
	}
}

// login checks how browsers sign in, and reports whether they do.
func (o *overrides) login(at string, in IssuerLogin) bool {
	set := in.ClientID != "" || in.ClientSecret != "" || in.Title != "" || in.EndSession || len(in.Scopes) > 0
	if set && in.ClientID == "" {
		o.d.lacks(at, "client_id", "it has no client_id, under which the issuer knows this server")
	}
	return set
}

// signIns checks how long browsers stay signed in, and what keys may do.
func (o *overrides) signIns() {
	last := o.s.Auth.SignIns
	for path, d := range map[string]parley.Duration{"auth.signins.idle": last.Idle, "auth.signins.max": last.Max} {
		if d < 0 || d > 0 && time.Duration(d) < time.Minute {
			o.bad(path, "has to be 1m or more")
		}
	}
	for name, k := range o.s.Keys {
		for i, scope := range k.Scopes {
			o.oneOf(fmt.Sprintf("keys.%s.scopes[%d]", name, i), scope, "read", "send", "manage")
		}
		if _, err := Until(k.Expires); err != nil {
			o.bad("keys."+name+".expires", "%s", says(err))
		}
	}
}

// Until reads when a key ends: a day, which ends it at its beginning in UTC, or a time; "" is never.
func Until(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(form, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, parley.Errorf(parley.CodeInvalid, "%q is not a day", parley.Cut(text, 60)).WithHint("write it like 2027-01-31, or 2027-01-31T18:00:00Z")
}

// reachable reports whether a URL is one of an issuer: without https only on this machine or at an
// address.
func reachable(at string) bool {
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()) != nil)
}
