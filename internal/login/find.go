package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/parley-server/parley"
)

// Search says where to look for a server's authorization server.
type Search struct {
	Client   *http.Client
	Hosts    []string // hosts that may be asked; the client connects to no others
	Resource string   // the URL of the protected server
	Issuer   string   // the only authorization server to accept; empty: any that the server names
	Clean    func(text string) string
}

// Found is the authorization server of a protected server, and what it requires.
type Found struct {
	Issuer   string
	Resource string // the protected server, as its metadata names it
	Meta     *oauthex.AuthServerMeta
	Scopes   []string // scopes that requests need; nil: the server does not say
}

// Find finds the authorization server of a server that has refused a request with challenges.
func (s Search) Find(ctx context.Context, challenges []oauthex.Challenge) (Found, error) {
	f, err := s.find(ctx, challenges)
	if err != nil {
		return f, err
	}
	c, clean := s.Client, s.Clean
	if err := s.named("the authorization server", f.Issuer); err != nil {
		return f, err
	}
	if asked := Asked(challenges); asked != nil {
		f.Scopes = asked
	}
	if f.Meta, err = auth.GetAuthServerMetadata(ctx, f.Issuer, c); err != nil {
		return f, fmt.Errorf("the metadata of the authorization server %s has no token endpoint: %w", clean(f.Issuer), err)
	}
	if f.Meta == nil || f.Meta.TokenEndpoint == "" {
		return f, fmt.Errorf("the metadata of the authorization server %s has no token endpoint", clean(f.Issuer))
	}
	return f, s.named("the token endpoint of "+clean(f.Issuer), f.Meta.TokenEndpoint)
}

// named returns an error if the host of a URL is not among Hosts. The client would refuse it
// too, but without telling the operator what to do.
func (s Search) named(what, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.EqualFold(strings.Trim(h, "[]"), u.Hostname()) }) {
		return nil
	}
	host := s.Clean(u.Hostname())
	return parley.Errorf(parley.CodeForbidden, "%s is at %s, and %s is not among the hosts that the app's file names; "+
		"if it should be asked, write hosts: [%s] next to the server's url in app.yaml", what, host, host, host)
}

// find returns the authorization server, and the scopes that the protected server names.
func (s Search) find(ctx context.Context, challenges []oauthex.Challenge) (Found, error) {
	resource, issuer, clean := s.Resource, s.Issuer, s.Clean
	u, err := url.Parse(resource)
	if err != nil {
		return Found{}, err
	}
	// Metadata at the root describe the whole host, so their resource is the root.
	type place struct{ at, of string }
	var places []place
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; at != "" {
			places = append(places, place{at, resource})
		}
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	known := root.JoinPath("/.well-known/oauth-protected-resource")
	if path := strings.TrimSuffix(u.Path, "/"); path != "" {
		places = append(places, place{known.String() + path, resource})
	}
	places = append(places, place{known.String(), resource}, place{known.String(), root.String()})
	var failed error
	for _, p := range places {
		if err := s.named("the server's metadata", p.at); err != nil {
			return Found{}, err
		}
		meta, err := oauthex.GetProtectedResourceMetadata(ctx, p.at, p.of, s.Client)
		switch {
		case err != nil:
			if failed == nil {
				failed = err
			}
		case issuer != "" && !slices.Contains(meta.AuthorizationServers, issuer):
			return Found{}, fmt.Errorf("the server does not take tokens of %s, only of %s", issuer, clean(strings.Join(meta.AuthorizationServers, ", ")))
		case issuer != "":
			return Found{Issuer: issuer, Resource: p.of, Scopes: meta.ScopesSupported}, nil
		case len(meta.AuthorizationServers) > 0:
			return Found{Issuer: meta.AuthorizationServers[0], Resource: p.of, Scopes: meta.ScopesSupported}, nil
		}
	}
	if issuer != "" {
		return Found{Issuer: issuer, Resource: resource}, nil
	}
	if failed == nil {
		failed = errors.New("its metadata has no authorization_servers")
	}
	return Found{}, fmt.Errorf("the server does not name its authorization server; set it as issuer (%s)", clean(failed.Error()))
}

// Asked returns the scopes that challenges ask for.
func Asked(challenges []oauthex.Challenge) []string {
	for _, c := range challenges {
		if s := strings.Fields(c.Params["scope"]); c.Scheme == "bearer" && len(s) > 0 {
			return s
		}
	}
	return nil
}

// Canonical returns the URL by which an authorization server identifies a protected server (RFC
// 8707).
func Canonical(u url.URL) string {
	u.Fragment, u.RawQuery = "", ""
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return u.String()
}

// hosts returns the hosts that a login may connect to, and the resource that tokens are for.
func (s Server) hosts() (hosts []string, resource string, err error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, "", parley.Errorf(parley.CodeInvalid, "is not a valid server URL").WithField("url")
	}
	hosts = append([]string{u.Hostname()}, s.Hosts...)
	if s.Issuer != "" {
		at, err := url.Parse(s.Issuer)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
			return nil, "", parley.Errorf(parley.CodeInvalid, "is not a valid URL of an authorization server").WithField("auth.login.issuer")
		}
		hosts = append(hosts, at.Hostname())
	}
	return hosts, Canonical(*u), nil
}
