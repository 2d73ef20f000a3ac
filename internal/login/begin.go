package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/parley-server/parley"
)

// issuer is what a login needs to know about an authorization server.
type issuer struct {
	Name   string `json:"name"`
	Auth   string `json:"auth"`
	Token  string `json:"token"`
	Revoke string `json:"revoke,omitempty"`
	Says   bool   `json:"says,omitempty"` // it always names itself in its answers (RFC 9207)
	// Resource is the name of the protected server in token requests.
	Resource string `json:"resource"`
}

// client is our OAuth client at an authorization server.
type client struct {
	ID       string           `json:"id"`
	Secret   string           `json:"secret,omitempty"`
	Redirect string           `json:"redirect"`
	Style    oauth2.AuthStyle `json:"style"`
	Made     bool             `json:"made,omitempty"` // registered by us
}

// config returns client and issuer in the form of x/oauth2.
func (c client) config(is issuer, scopes []string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: c.Redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: is.Auth, TokenURL: is.Token, AuthStyle: c.Style},
	}
}

// Needed checks whether the person must log in before a tool of the server can be called. It
// returns the link to open, or "" if no login is needed. While a login is open, every call
// returns the same link.
func (l *Login) Needed(ctx context.Context, tool string) (link string, err error) {
	more, err := l.lacks(ctx, tool)
	if err != nil {
		return "", err
	}
	switch _, err := l.Token(ctx); {
	case err == nil && more == nil:
		return "", nil
	case err != nil && parley.CodeOf(err) != parley.CodeUnauthenticated:
		return "", err
	}
	challenges, refused, err := l.probe(ctx)
	if err != nil {
		return "", err
	}
	if !refused && more == nil {
		return "", nil
	}
	base, err := l.l.o.Base()
	if err != nil {
		return "", err
	}
	err = l.l.change(ctx, l.at, l.name(), func(rec *record) (err error) {
		if rec.Access != "" && more == nil {
			return nil // the person has logged in meanwhile
		}
		link, err = l.begin(ctx, rec, challenges, more, base+Page)
		return err
	})
	return link, err
}

// lacks returns the scopes that a tool needs and the login does not have.
func (l *Login) lacks(ctx context.Context, tool string) (more []string, err error) {
	v, err := l.l.vault()
	if err != nil {
		return nil, err
	}
	rec, _, err := l.l.load(ctx, v, l.at, l.name())
	for _, s := range rec.More[tool] {
		if !slices.Contains(rec.Scopes, s) {
			more = append(more, s)
		}
	}
	return more, err
}

// probes are requests without effect, one for each era of the protocol. A server that requires
// a login refuses at least one of them with 401. It may refuse the other only because it does
// not know its form.
var probes = []struct{ version, method string }{{"2026-07-28", "server/discover"}, {"2025-11-25", "ping"}}

// probe sends the probes without a token and reports whether the server requires a login.
func (l *Login) probe(ctx context.Context) (challenges []oauthex.Challenge, refused bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c := l.guard.Client(false)
	defer c.CloseIdleConnections()
	for _, p := range probes {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.server.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+p.method+`","params":{}}`))
		if err != nil {
			return nil, false, err
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": p.version, "Mcp-Method": p.method,
		} {
			req.Header.Set(name, value)
		}
		resp, err := c.Do(req)
		if err != nil {
			return nil, false, parley.Errorf(parley.CodeUnavailable, "%s does not answer: %w", l.server.Name, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized {
			challenges, _ = oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
			return challenges, true, nil
		}
	}
	return nil, false, nil
}

// begin begins a login and returns its link. If one is already open, it returns that one's link.
func (l *Login) begin(ctx context.Context, rec *record, challenges []oauthex.Challenge, more []string, redirect string) (string, error) {
	c := l.guard.Client(false)
	c.Timeout = within
	defer c.CloseIdleConnections()
	hosts, _, err := l.server.hosts()
	if err != nil {
		return "", err
	}
	s := Search{Client: c, Hosts: hosts, Resource: l.resource, Issuer: l.server.Issuer, Clean: l.server.clean}
	found, err := s.Find(ctx, challenges)
	if err != nil {
		return "", parley.Errorf(parley.CodeOf(err), "nobody can log in at %s: %w", l.server.Name, err).WithHint("%s", parley.Info(err).Hint)
	}
	m := found.Meta
	switch {
	case m.AuthorizationEndpoint == "" || !slices.Contains(m.CodeChallengeMethodsSupported, "S256"):
		return "", parley.Errorf(parley.CodeUnavailable, "nobody can log in at %s: its authorization server has no login page, or does not support PKCE with S256", l.server.Name)
	case m.RevocationEndpoint != "" && s.named("", m.RevocationEndpoint) != nil:
		m.RevocationEndpoint = ""
	}
	is := issuer{Name: m.Issuer, Auth: m.AuthorizationEndpoint, Token: m.TokenEndpoint, Revoke: m.RevocationEndpoint, Says: m.AuthorizationResponseIssParameterSupported, Resource: found.Resource}
	scopes := l.scopes(found, more, rec)
	now := l.l.o.Now()
	if p := rec.Pending; p != nil && now.Before(p.Until) && p.Issuer == is && p.Client.Redirect == redirect && slices.Equal(p.Scopes, scopes) {
		return p.Link, nil
	}
	who, err := l.client(ctx, c, s, m, rec, is, redirect, scopes)
	if err != nil {
		return "", err
	}
	p := &pending{
		State: idOf(l.at.Scope, l.name()) + "." + oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(),
		Issuer: is, Client: who, Scopes: scopes, Until: now.Add(lasting),
	}
	p.Link = who.config(is, scopes).AuthCodeURL(p.State, oauth2.S256ChallengeOption(p.Verifier), oauth2.SetAuthURLParam("resource", is.Resource))
	rec.Server, rec.Resource, rec.Pending = l.server.Name, l.resource, p
	rec.Hosts, rec.Private = hosts, l.server.Private
	return p.Link, nil
}

// scopes returns the scopes to request. These are the operator's, or else the server's,
// together with those that the login already has.
func (l *Login) scopes(found Found, more []string, rec *record) (scopes []string) {
	if l.server.Scopes != nil {
		scopes = slices.Clone(l.server.Scopes)
	} else {
		scopes = slices.Clone(found.Scopes)
		if len(scopes) > 0 && slices.Contains(found.Meta.ScopesSupported, "offline_access") {
			more = append(slices.Clip(more), "offline_access") // some servers give a refresh token only with this scope
		}
	}
	if rec.Access != "" {
		more = append(slices.Clip(rec.Scopes), more...)
	}
	for _, s := range more {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// client returns our OAuth client at the authorization server. It is the operator's, or the one
// that was registered for this person before, or a newly registered one. An authorization server
// without registration may look up the document at our public address instead. Registration is
// tried first, because it needs no connection from there to here: a public address may belong to
// a private home.
func (l *Login) client(ctx context.Context, c *http.Client, s Search, m *oauthex.AuthServerMeta, rec *record, is issuer, redirect string, scopes []string) (client, error) {
	ways := m.TokenEndpointAuthMethodsSupported
	if l.server.ClientID != "" {
		return client{ID: l.server.ClientID, Secret: l.server.ClientSecret, Redirect: redirect, Style: style(ways, l.server.ClientSecret, "")}, nil
	}
	if rec.Client.Made && rec.Issuer.Name == is.Name && rec.Client.Redirect == redirect {
		return rec.Client, nil
	}
	if m.RegistrationEndpoint == "" {
		looksUp := m.ClientIDMetadataDocumentSupported
		if who, ok := documented(redirect); ok && looksUp {
			return who, nil
		}
		hint := "register Parley there with the redirect URI %s, and write login: {client_id: ...} under auth of the server in app.yaml"
		if looksUp {
			hint += "; or set public_url to an https address where it can look Parley up"
		}
		return client{}, parley.Errorf(parley.CodeInvalid, "%s, the authorization server of %s, does not offer automatic registration of clients", is.Name, l.server.Name).WithHint(hint, redirect)
	}
	if err := s.named("a client", m.RegistrationEndpoint); err != nil {
		return client{}, err
	}
	way := "none"
	if len(ways) > 0 && !slices.Contains(ways, way) {
		way = ways[0]
		for _, w := range []string{"client_secret_basic", "client_secret_post"} {
			if slices.Contains(ways, w) {
				way = w
				break
			}
		}
	}
	kind := "web"
	if u, err := url.Parse(redirect); err == nil && u.Scheme == "http" {
		kind = "native" // a loopback address (RFC 8252, section 7.3)
	}
	about := metadata(redirect, way, kind, scopes)
	made, err := registered(ctx, m.RegistrationEndpoint, &about, c)
	if err != nil {
		return client{}, parley.Errorf(parley.CodeUnavailable, "%s does not let Parley register: %s", is.Name, l.server.clean(err.Error()))
	}
	return client{ID: made.ClientID, Secret: made.ClientSecret, Redirect: redirect, Style: style(ways, made.ClientSecret, made.TokenEndpointAuthMethod), Made: true}, nil
}

// registered registers a client. The SDK panics when it reads some answers, such as null.
func registered(ctx context.Context, at string, about *oauthex.ClientRegistrationMetadata, c *http.Client) (made *oauthex.ClientRegistrationResponse, err error) {
	defer func() {
		if recover() != nil {
			made, err = nil, errors.New("its answer cannot be read")
		}
	}()
	return oauthex.RegisterClient(ctx, at, about, c)
}

// style returns how a client authenticates, chosen from the methods that its authorization
// server supports.
func style(ways []string, secret, way string) oauth2.AuthStyle {
	switch {
	case secret == "", way == "client_secret_post":
		return oauth2.AuthStyleInParams
	case way == "client_secret_basic", len(ways) == 0, slices.Contains(ways, "client_secret_basic"):
		return oauth2.AuthStyleInHeader // the default of a server without a list (RFC 8414, section 2)
	}
	return oauth2.AuthStyleInParams
}

// Title is the heading of the request to log in.
func (l *Login) Title() string { return fmt.Sprintf("Log in at %s", l.server.Name) }

// Text tells the person why to log in, and where the link leads.
func (l *Login) Text(link string) string {
	host := ""
	if u, err := url.Parse(link); err == nil {
		host = u.Host
	}
	return fmt.Sprintf("The tools of %s need your login. Open the page of %s; what you enter there does not go through Parley. "+
		"Your login is stored encrypted until you remove it with: parley logins forget.\n%s", l.server.Name, host, link)
}
