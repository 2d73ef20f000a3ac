//go:build unix

package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/parley-server/parley"
)

// OAuth gets tokens with the credentials of Parley itself (RFC 6749, section 4.4).
type OAuth struct {
	// Issuer is the authorization server. Empty: the one that the MCP server names, which
	// has to be at the same host or at one of Options.Hosts.
	Issuer       string
	ClientID     string
	ClientSecret string
	Scopes       []string // nil: those that the MCP server asks for
}

// check returns the issuer's address; nil if none is named.
func (o OAuth) check() (*url.URL, error) {
	switch {
	case o.ClientID == "":
		return nil, parley.Errorf(parley.CodeInvalid, "has no client_id").WithField("oauth")
	case o.ClientSecret == "":
		return nil, parley.Errorf(parley.CodeInvalid, "has no client_secret").WithField("oauth")
	case o.Issuer == "":
		return nil, nil
	}
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "is not the address of an authorization server").WithField("oauth.issuer")
	}
	return u, nil
}

// login implements [auth.OAuthHandler]. The SDK's own handler sends no resource, is not
// safe for concurrent use, and trusts the server to name who gets the secret.
type login struct {
	o        OAuth
	resource string
	client   *http.Client

	mu     sync.Mutex
	tokens oauth2.TokenSource // nil: none were asked for yet
	scopes []string           // of tokens
}

// canonical is the address by which an authorization server knows an MCP server (RFC 8707).
func canonical(u url.URL) string {
	u.Fragment, u.RawQuery = "", ""
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return u.String()
}

// TokenSource implements [auth.OAuthHandler].
func (l *login) TokenSource(context.Context) (oauth2.TokenSource, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		return nil, nil //nolint:nilnil // by the contract of the interface
	}
	return l.tokens, nil
}

// Authorize implements [auth.OAuthHandler]: it gets a token after a request was refused.
func (l *login) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxMessage))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens != nil {
		if now, err := l.tokens.Token(); err == nil && req.Header.Get("Authorization") != "Bearer "+now.AccessToken {
			return nil // another request got a new one meanwhile
		}
	}
	challenges, _ := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	issuer, supported, err := l.issuer(ctx, challenges)
	if err != nil {
		return err
	}
	server, err := auth.GetAuthServerMetadata(ctx, issuer, l.client)
	if err != nil {
		return fmt.Errorf("the authorization server %s does not say where tokens are: %w", issuer, err)
	}
	if server == nil || server.TokenEndpoint == "" {
		return fmt.Errorf("the authorization server %s does not say where tokens are", issuer)
	}
	scopes := l.o.Scopes
	if scopes == nil {
		if scopes = asked(challenges); scopes == nil {
			scopes = supported
		}
		for _, s := range l.scopes { // what an earlier request needed is needed still
			if !slices.Contains(scopes, s) {
				scopes = append(scopes, s)
			}
		}
	}
	style := oauth2.AuthStyleInHeader // what a server without a list has (RFC 8414, section 2)
	if list := server.TokenEndpointAuthMethodsSupported; len(list) > 0 && !slices.Contains(list, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	cfg := &clientcredentials.Config{
		ClientID: l.o.ClientID, ClientSecret: l.o.ClientSecret, TokenURL: server.TokenEndpoint, Scopes: scopes, AuthStyle: style,
		EndpointParams: url.Values{"resource": {l.resource}},
	}
	// Tokens are renewed after this request, too.
	source := cfg.TokenSource(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, l.client))
	if _, err := source.Token(); err != nil {
		return fmt.Errorf("the authorization server %s gave no token: %w", issuer, refusalOf(err))
	}
	l.tokens, l.scopes = source, scopes
	return nil
}

// refusalOf is the error without the body of the answer, which may repeat the secret.
func refusalOf(err error) error {
	if e, ok := err.(*oauth2.RetrieveError); ok { //nolint:errorlint // as documented
		return fmt.Errorf("%s %s", e.ErrorCode, clean(e.ErrorDescription, 200))
	}
	return err
}

// issuer is the authorization server, and the scopes that the MCP server knows.
func (l *login) issuer(ctx context.Context, challenges []oauthex.Challenge) (issuer string, scopes []string, err error) {
	var places []string
	for _, c := range challenges {
		if at := c.Params["resource_metadata"]; at != "" {
			places = append(places, at)
		}
	}
	u, err := url.Parse(l.resource)
	if err != nil {
		return "", nil, err
	}
	path := strings.TrimSuffix(u.Path, "/")
	for _, p := range slices.Compact([]string{"/.well-known/oauth-protected-resource" + path, "/.well-known/oauth-protected-resource"}) {
		places = append(places, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: p}).String())
	}
	var failed error
	for _, at := range places {
		meta, err := oauthex.GetProtectedResourceMetadata(ctx, at, l.resource, l.client)
		switch {
		case err != nil:
			failed = err
		case l.o.Issuer != "" && !slices.Contains(meta.AuthorizationServers, l.o.Issuer):
			return "", nil, fmt.Errorf("the MCP server does not take tokens of %s, only of %s", l.o.Issuer, clean(joined(meta.AuthorizationServers), 500))
		case l.o.Issuer != "":
			return l.o.Issuer, meta.ScopesSupported, nil
		case len(meta.AuthorizationServers) > 0:
			return meta.AuthorizationServers[0], meta.ScopesSupported, nil
		}
	}
	if l.o.Issuer != "" {
		return l.o.Issuer, nil, nil
	}
	return "", nil, fmt.Errorf("the MCP server does not name its authorization server; name it under oauth as issuer (%w)", failed)
}

// asked are the scopes of a challenge.
func asked(challenges []oauthex.Challenge) []string {
	for _, c := range challenges {
		if s := strings.Fields(c.Params["scope"]); c.Scheme == "bearer" && len(s) > 0 {
			return s
		}
	}
	return nil
}
