package login

import (
	"io"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/parley-server/parley"
)

// maxDrained limits how much of a refusal's body is read, in bytes. Reading it lets the
// connection be reused.
const maxDrained = 64 << 10

// Transport adds the person's token to each request. If the server refuses the token, it renews
// it and repeats the request once. For a person who is not logged in, it adds nothing.
func (l *Login) Transport(base http.RoundTripper) http.RoundTripper { return &transport{l, base} }

type transport struct {
	*Login
	base http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	token, err := t.Token(ctx)
	if err != nil && parley.CodeOf(err) != parley.CodeUnauthenticated {
		return nil, err
	}
	for again := false; ; again = true {
		sent := req.Clone(ctx)
		if token != "" {
			sent.Header.Set("Authorization", "Bearer "+token)
		}
		if again && req.GetBody != nil {
			if sent.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		resp, err := t.base.RoundTrip(sent)
		if err == nil && again && resp.StatusCode == http.StatusUnauthorized {
			t.useless(ctx, token)
		}
		if err != nil || token == "" || again || resp.StatusCode != http.StatusUnauthorized || req.Body != nil && req.GetBody == nil {
			return resp, err
		}
		next, err := t.token(ctx, token)
		if err != nil || next == token {
			return resp, nil //nolint:nilerr // return the server's refusal, which says what is wrong
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxDrained))
		_ = resp.Body.Close()
		token = next
	}
}

// Insufficient reports whether a refusal says that a tool needs more scopes than the login has.
// If so, it notes those scopes.
func (l *Login) Insufficient(req *http.Request, resp *http.Response, tool string) bool {
	if resp.StatusCode != http.StatusForbidden {
		return false
	}
	challenges, _ := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	i := slices.IndexFunc(challenges, func(c oauthex.Challenge) bool { return c.Params["error"] == "insufficient_scope" })
	scopes := Asked(challenges)
	if i < 0 || scopes == nil {
		return false
	}
	err := l.l.change(req.Context(), l.at, l.name(), func(rec *record) error {
		if rec.Access == "" || rec.More[tool] == nil && len(rec.More) >= maxTools {
			return nil
		}
		if rec.More == nil {
			rec.More = map[string][]string{}
		}
		rec.More[tool] = scopes
		return nil
	})
	return err == nil
}
