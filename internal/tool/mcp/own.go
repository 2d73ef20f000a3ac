//go:build unix

package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/login"
)

// OAuth obtains tokens with Parley's own credentials (RFC 6749, section 4.4).
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

// own implements auth.OAuthHandler of the SDK with Parley's own credentials. The SDK's handler
// sends no resource, is not safe for concurrent use, and lets the server name who receives the
// secret.
type own struct {
	o      OAuth
	clean  func(text string, n int) string // see Options.clean
	search login.Search
	client *http.Client
	busy   chan struct{} // holds one element while a token is requested

	mu     sync.Mutex
	issued issuer        // the source of tokens; zero: not known yet
	token  *oauth2.Token // the last one
}

// issuer is an authorization server, with the request that gets a token from it.
type issuer struct {
	name string
	cfg  *clientcredentials.Config
}

func newOwn(o OAuth, clean func(string, int) string, search login.Search) *own {
	return &own{o: o, clean: clean, search: search, client: search.Client, busy: make(chan struct{}, 1)}
}

// enter waits until nobody else is requesting a token.
func (l *own) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.busy <- struct{}{}:
		return func() { <-l.busy }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (l *own) now() (issuer, *oauth2.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.issued, l.token
}

// renew requests a token. The caller has entered.
func (l *own) renew(ctx context.Context, from issuer) (*oauth2.Token, error) {
	token, err := from.cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, l.client))
	if err != nil {
		return nil, fmt.Errorf("the authorization server %s gave no token: %w", from.name, l.refusal(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.issued, l.token = from, token
	return token, nil
}

// tokens implements [oauth2.TokenSource] for one request.
type tokens struct {
	*own
	ctx context.Context // of the same request
}

// Token returns the token, or a new one when it has expired.
func (t tokens) Token() (*oauth2.Token, error) {
	if _, token := t.now(); token.Valid() {
		return token, nil
	}
	leave, err := t.enter(t.ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	from, token := t.now()
	if token.Valid() {
		return token, nil // another request has obtained it
	}
	return t.renew(t.ctx, from)
}

// TokenSource implements auth.OAuthHandler of the SDK.
func (l *own) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	if from, _ := l.now(); from.cfg == nil {
		return nil, nil //nolint:nilnil // by the contract of the interface
	}
	return tokens{l, ctx}, nil
}

// Authorize implements auth.OAuthHandler of the SDK: it obtains a token after a request was
// refused.
func (l *own) Authorize(ctx context.Context, req *http.Request, resp *http.Response) error {
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxMessage))
	leave, err := l.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	was, token := l.now()
	if token.Valid() && req.Header.Get("Authorization") != "Bearer "+token.AccessToken {
		return nil // another request got a new one meanwhile
	}
	challenges, _ := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	found, err := l.search.Find(ctx, challenges)
	if err != nil {
		return err
	}
	scopes := l.o.Scopes
	if scopes == nil {
		scopes = found.Scopes
		if was.cfg != nil {
			for _, s := range was.cfg.Scopes { // keep the scopes that earlier requests needed
				if !slices.Contains(scopes, s) {
					scopes = append(scopes, s)
				}
			}
		}
	}
	style := oauth2.AuthStyleInHeader // the default of a server that lists none (RFC 8414, section 2)
	if list := found.Meta.TokenEndpointAuthMethodsSupported; len(list) > 0 && !slices.Contains(list, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	_, err = l.renew(ctx, issuer{found.Issuer, &clientcredentials.Config{
		ClientID: l.o.ClientID, ClientSecret: l.o.ClientSecret, TokenURL: found.Meta.TokenEndpoint, Scopes: scopes, AuthStyle: style,
		EndpointParams: url.Values{"resource": {found.Resource}},
	}})
	return err
}

// refusal returns the error without the body of the answer, which may repeat the secret.
func (l *own) refusal(err error) error {
	e, ok := err.(*oauth2.RetrieveError) //nolint:errorlint // as documented
	switch {
	case !ok:
		return err
	case e.ErrorCode != "":
		return errors.New(l.clean(e.ErrorCode+" "+e.ErrorDescription, 200))
	}
	return fmt.Errorf("it answered %s", e.Response.Status)
}
