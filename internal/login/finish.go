package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/dial"
	"github.com/parley-server/parley/internal/vault"
)

// Finished is the result of a login that has ended.
type Finished struct {
	parley.LoginFinished
	Link string // the link that the person opened
}

func (r *record) info(e vault.Entry) parley.Login {
	in := parley.Login{
		ID: idOf(e.Scope, e.Name), App: e.App, Workspace: e.Workspace, Server: r.Server, Resource: r.Resource, Issuer: r.Issuer.Name,
		Waiting: r.Pending != nil,
	}
	if r.Access != "" {
		in.Scopes, in.Since, in.Until, in.Renews = r.Scopes, r.Since, r.Expires, r.Refresh != ""
	}
	return in
}

// errOver returns the error for an answer that belongs to no open login.
func errOver() error {
	return parley.Errorf(parley.CodeNotFound, "none of your logins waits for this answer: the login is over, was begun again, or is somebody else's").WithField("state").
		WithHint("go back to the conversation and open the link that it shows now")
}

// entry returns p's entry with the given id.
func (l *Logins) entry(ctx context.Context, p parley.Principal, id string) (vault.Entry, error) {
	var list []vault.Entry
	if v, verr := l.vault(); v != nil { // the vault's keys are not needed here
		var err error
		if list, err = v.List(ctx, p); err != nil {
			return vault.Entry{}, err
		}
	} else if l.o.Vault != nil {
		return vault.Entry{}, verr
	}
	i := slices.IndexFunc(list, func(e vault.Entry) bool { return strings.HasPrefix(e.Name, prefix) && idOf(e.Scope, e.Name) == id })
	if i < 0 {
		return vault.Entry{}, parley.Errorf(parley.CodeNotFound, "you have no login %q", parley.Cut(id, 60)).WithField("id").WithHint("parley logins list shows them")
	}
	return list[i], nil
}

// Finish processes the answer to a login that p has begun. It accepts one answer for each
// login. It returns CodeNotFound if no such login is open, CodeForbidden if the answer is not
// from the right authorization server, and CodeUnavailable if that server gives no tokens.
// After the last two the login is over and must be begun again.
func (l *Logins) Finish(ctx context.Context, p parley.Principal, a parley.LoginAnswer) (Finished, error) {
	id, _, _ := strings.Cut(a.State, ".")
	e, err := l.entry(ctx, p, id)
	if err != nil {
		if parley.CodeOf(err) == parley.CodeNotFound {
			err = errOver()
		}
		return Finished{}, err
	}
	at := Place{p, e.Scope}
	var begun *pending
	var rec record
	err = l.change(ctx, at, e.Name, func(now *record) error {
		if now.Pending == nil || now.Pending.State != a.State || l.o.Now().After(now.Pending.Until) {
			return errOver()
		}
		begun, now.Pending = now.Pending, nil // from here on, no other answer is accepted
		rec = *now
		return nil
	})
	if err != nil {
		return Finished{}, err
	}
	done := Finished{Link: begun.Link}
	done.Login = rec.info(e)
	// An answer that names another issuer, or none although it always should, may come from an
	// attacker who got our request (RFC 9207, section 2.4). This holds for errors too.
	if a.Issuer != begun.Issuer.Name && (a.Issuer != "" || begun.Issuer.Says) {
		return done, parley.Errorf(parley.CodeForbidden, "the answer is not from %s, where the login began", begun.Issuer.Name).WithField("iss").
			WithHint("you are not logged in; go back to the conversation and begin again")
	}
	if a.Error != "" || a.Code == "" {
		done.Denied = true
		return done, nil
	}
	c, err := rec.http()
	if err != nil {
		return done, err
	}
	defer c.CloseIdleConnections()
	token, err := begun.Client.config(begun.Issuer, begun.Scopes).Exchange(context.WithValue(ctx, oauth2.HTTPClient, c), a.Code,
		oauth2.VerifierOption(begun.Verifier), oauth2.SetAuthURLParam("resource", begun.Issuer.Resource))
	if err != nil {
		return done, parley.Errorf(parley.CodeUnavailable, "%s gave no token: %w", begun.Issuer.Name, refusal(err)).
			WithHint("go back to the conversation and begin again")
	}
	err = l.change(ctx, at, e.Name, func(now *record) error {
		if now.Server == "" {
			return parley.Errorf(parley.CodeConflict, "the login was removed meanwhile")
		}
		now.Issuer, now.Client, now.Scopes, now.More = begun.Issuer, begun.Client, begun.Scopes, nil
		now.Refresh = "" // it belongs to an earlier login
		now.take(token, l.o.Now())
		now.Since = l.o.Now()
		done.Login = now.info(e)
		return nil
	})
	return done, err
}

// take stores the tokens of an answer in the record.
func (r *record) take(t *oauth2.Token, now time.Time) {
	r.Access, r.Expires = t.AccessToken, time.Time{}
	if t.ExpiresIn > 0 {
		r.Expires = now.Add(time.Duration(t.ExpiresIn) * time.Second)
	}
	if t.RefreshToken != "" { // a server that does not rotate refresh tokens leaves it out
		r.Refresh = t.RefreshToken
	}
}

// http returns an HTTP client for the login's authorization server.
func (r *record) http() (*http.Client, error) {
	guard, err := dial.New(r.Hosts, r.Private)
	if err != nil {
		return nil, err
	}
	c := guard.Client(false)
	c.Timeout = within
	return c, nil
}

// renew exchanges the refresh token for new tokens. If the authorization server refuses, it
// removes the access token and returns CodeUnauthenticated: the person must log in again.
func (l *Login) renew(ctx context.Context, rec *record) error {
	over := func() error {
		rec.logOut()
		return l.none()
	}
	if rec.Refresh == "" {
		return over()
	}
	rec.Hosts, _, _ = l.server.hosts() // as the operator has them now
	rec.Private = l.server.Private
	c, err := rec.http()
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	// The refresh of x/oauth2 cannot name the resource, so we use Exchange with an empty code.
	// Servers that follow RFC 6749, section 3.2 ignore the empty parameter.
	cfg := rec.Client.config(rec.Issuer, nil)
	cfg.RedirectURL = ""
	// Do not cancel: a refresh token may already be used up, so the new one must be received.
	token, err := cfg.Exchange(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, c), "",
		oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", rec.Refresh), oauth2.SetAuthURLParam("resource", rec.Issuer.Resource))
	var e *oauth2.RetrieveError
	switch {
	case err == nil:
		rec.take(token, l.l.o.Now())
		return nil
	case errors.As(err, &e) && (e.ErrorCode == "invalid_client" || e.ErrorCode == "unauthorized_client"):
		rec.Client = client{} // the authorization server no longer knows it
		return over()
	case errors.As(err, &e) && e.Response != nil && e.Response.StatusCode/100 == 4 && e.Response.StatusCode != http.StatusTooManyRequests && e.Response.StatusCode != http.StatusRequestTimeout:
		return over()
	}
	return parley.Errorf(parley.CodeUnavailable, "the login at %s was not renewed: %w", l.server.Name, refusal(err))
}

func (r *record) logOut() {
	r.Access, r.Refresh, r.Expires, r.Since = "", "", time.Time{}, time.Time{}
}

// useless ends a login whose new token the server has refused: the server may have moved to
// another authorization server.
func (l *Login) useless(ctx context.Context, token string) {
	_ = l.l.change(ctx, l.at, l.name(), func(rec *record) error { // if storing fails, the next request tries again
		if rec.Access == token {
			rec.logOut()
		}
		return nil
	})
}

// refusal returns the error of a token request without the body of the answer, which may repeat
// the secrets that were sent.
func refusal(err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !ok:
		if u, ok := errors.AsType[*url.Error](err); ok {
			return u.Err
		}
		return errors.New("its answer has no token")
	case e.ErrorCode != "":
		return errors.New(parley.Cut(e.ErrorCode, 60))
	}
	return fmt.Errorf("it answered %s", e.Response.Status)
}

// List returns p's logins.
func (l *Logins) List(ctx context.Context, p parley.Principal) ([]parley.Login, error) {
	v, _ := l.vault() // listing and removing do not need the key
	if v == nil {
		return nil, nil
	}
	entries, err := v.List(ctx, p)
	if err != nil {
		return nil, err
	}
	list := []parley.Login{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, prefix) {
			continue
		}
		rec, _, err := l.load(ctx, v, Place{p, e.Scope}, e.Name)
		if err != nil {
			rec = record{Server: strings.TrimPrefix(e.Name, prefix)} // its key is missing, but it can still be removed
		}
		list = append(list, rec.info(e))
	}
	return list, nil
}

// Forget removes one of p's logins and asks the authorization server to revoke its tokens.
// revoked reports whether the server did.
func (l *Logins) Forget(ctx context.Context, p parley.Principal, id string) (revoked bool, err error) {
	e, err := l.entry(ctx, p, id)
	if err != nil {
		return false, err
	}
	at := Place{p, e.Scope}
	leave, err := l.enter(ctx, at, e.Name)
	if err != nil {
		return false, err
	}
	defer leave()
	v, verr := l.vault()
	if v == nil {
		return false, verr
	}
	rec, _, lerr := l.load(ctx, v, at, e.Name)
	if err := v.Remove(ctx, p, e.Scope, e.Name); err != nil {
		return false, err
	}
	return lerr == nil && l.revoke(ctx, rec), nil
}

// ForgetAll removes everything that is stored for p.
func (l *Logins) ForgetAll(ctx context.Context, p parley.Principal) error {
	list, err := l.List(ctx, p)
	if err != nil {
		return err
	}
	for _, in := range list {
		if _, err := l.Forget(ctx, p, in.ID); err != nil && parley.CodeOf(err) != parley.CodeNotFound {
			return err
		}
	}
	v, _ := l.vault()
	if v == nil {
		return nil
	}
	return v.Forget(ctx, p)
}

// revoke asks the authorization server to revoke the tokens (RFC 7009).
func (l *Logins) revoke(ctx context.Context, rec record) bool {
	token := rec.Refresh
	if token == "" {
		token = rec.Access
	}
	if token == "" || rec.Issuer.Revoke == "" {
		return false
	}
	c, err := rec.http()
	if err != nil {
		return false
	}
	defer c.CloseIdleConnections()
	form := url.Values{"token": {token}}
	if rec.Client.Style == oauth2.AuthStyleInParams {
		form.Set("client_id", rec.Client.ID)
		if rec.Client.Secret != "" {
			form.Set("client_secret", rec.Client.Secret)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rec.Issuer.Revoke, strings.NewReader(form.Encode()))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if rec.Client.Style == oauth2.AuthStyleInHeader {
		req.SetBasicAuth(url.QueryEscape(rec.Client.ID), url.QueryEscape(rec.Client.Secret))
	}
	resp, err := c.Do(req)
	if err != nil {
		l.o.Logger.Warn("a login was removed, but not revoked", "server", rec.Server, "issuer", rec.Issuer.Name)
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode/100 == 2
}
