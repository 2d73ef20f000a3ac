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

// Finished is a login that is over.
type Finished struct {
	parley.LoginFinished
	Link string // that the person has opened
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

// errOver is the error of an answer to a login that is not open.
func errOver() error {
	return parley.Errorf(parley.CodeNotFound, "no login of yours waits for this answer: it is over, was begun anew, or is somebody else's").WithField("state").
		WithHint("go back to the conversation and open the link that it shows now")
}

// entry is the entry of p's with that id.
func (l *Logins) entry(ctx context.Context, p parley.Principal, id string) (vault.Entry, error) {
	var list []vault.Entry
	if v, verr := l.vault(); v != nil { // its keys are not needed here
		var err error
		if list, err = v.List(ctx, p); err != nil {
			return vault.Entry{}, err
		}
	} else if l.o.Vault != nil {
		return vault.Entry{}, verr
	}
	i := slices.IndexFunc(list, func(e vault.Entry) bool { return strings.HasPrefix(e.Name, prefix) && idOf(e.Scope, e.Name) == id })
	if i < 0 {
		return vault.Entry{}, parley.Errorf(parley.CodeNotFound, "no login of yours is called %q", parley.Cut(id, 60)).WithField("id").WithHint("parley logins list shows them")
	}
	return list[i], nil
}

// Finish takes the answer to a login that p has begun, once. It is CodeNotFound if there is none,
// CodeForbidden if the answer is not the authorization server's, and CodeUnavailable if that gave
// no tokens. After the last two the login is over, and has to begin anew.
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
		begun, now.Pending = now.Pending, nil // from here on, no other answer counts
		rec = *now
		return nil
	})
	if err != nil {
		return Finished{}, err
	}
	done := Finished{Link: begun.Link}
	done.Login = rec.info(e)
	// An answer without the issuer's name, or with another one, may be of somebody who has
	// got our request (RFC 9207, section 2.4). That is so for errors, too.
	if a.Issuer != begun.Issuer.Name && (a.Issuer != "" || begun.Issuer.Says) {
		return done, parley.Errorf(parley.CodeForbidden, "the answer is not from %s, where the login began", begun.Issuer.Name).WithField("iss").
			WithHint("nothing was logged in; go back to the conversation and begin anew")
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
			WithHint("go back to the conversation and begin anew")
	}
	err = l.change(ctx, at, e.Name, func(now *record) error {
		if now.Server == "" {
			return parley.Errorf(parley.CodeConflict, "the login was removed meanwhile")
		}
		now.Issuer, now.Client, now.Scopes, now.More = begun.Issuer, begun.Client, begun.Scopes, nil
		now.Refresh = "" // of an earlier login
		now.take(token, l.o.Now())
		now.Since = l.o.Now()
		done.Login = now.info(e)
		return nil
	})
	return done, err
}

// take keeps the tokens of an answer.
func (r *record) take(t *oauth2.Token, now time.Time) {
	r.Access, r.Expires = t.AccessToken, time.Time{}
	if t.ExpiresIn > 0 {
		r.Expires = now.Add(time.Duration(t.ExpiresIn) * time.Second)
	}
	if t.RefreshToken != "" { // a server that does not rotate leaves it out
		r.Refresh = t.RefreshToken
	}
}

// http is a client for the login's authorization server.
func (r *record) http() (*http.Client, error) {
	guard, err := dial.New(r.Hosts, r.Private)
	if err != nil {
		return nil, err
	}
	c := guard.Client(false)
	c.Timeout = within
	return c, nil
}

// renew gets new tokens for the refresh token. Without them the person has to log in: then there
// is no access token any more, and the error is CodeUnauthenticated.
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
	// A refresh by x/oauth2 itself names no resource. The code, which is empty then, is left out
	// by those who follow RFC 6749, section 3.2.
	cfg := rec.Client.config(rec.Issuer, nil)
	cfg.RedirectURL = ""
	// A token that may have been issued has to arrive, whoever waits for it.
	token, err := cfg.Exchange(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, c), "",
		oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", rec.Refresh), oauth2.SetAuthURLParam("resource", rec.Issuer.Resource))
	var e *oauth2.RetrieveError
	switch {
	case err == nil:
		rec.take(token, l.l.o.Now())
		return nil
	case errors.As(err, &e) && (e.ErrorCode == "invalid_client" || e.ErrorCode == "unauthorized_client"):
		rec.Client = client{} // it was removed there
		return over()
	case errors.As(err, &e) && e.Response != nil && e.Response.StatusCode/100 == 4 && e.Response.StatusCode != http.StatusTooManyRequests && e.Response.StatusCode != http.StatusRequestTimeout:
		return over()
	}
	return parley.Errorf(parley.CodeUnavailable, "the login at %s was not renewed: %w", l.server.Name, refusal(err))
}

func (r *record) logOut() {
	r.Access, r.Refresh, r.Expires, r.Since = "", "", time.Time{}, time.Time{}
}

// useless ends a login whose token the server has refused although it is new: the server may have
// changed to another authorization server.
func (l *Login) useless(ctx context.Context, token string) {
	_ = l.l.change(ctx, l.at, l.name(), func(rec *record) error { // if it is not kept, the next request does it
		if rec.Access == token {
			rec.logOut()
		}
		return nil
	})
}

// refusal is the error of a request for tokens without the body of the answer, which may repeat
// what was sent.
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

// List are p's logins.
func (l *Logins) List(ctx context.Context, p parley.Principal) ([]parley.Login, error) {
	v, _ := l.vault() // it can be listed and removed without its key, too
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
			rec = record{Server: strings.TrimPrefix(e.Name, prefix)} // its key is missing: it can be removed all the same
		}
		list = append(list, rec.info(e))
	}
	return list, nil
}

// Forget removes a login of p's, and asks the authorization server to revoke it. revoked says
// whether that did.
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

// ForgetAll removes everything that is kept for p.
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

// revoke asks the authorization server to end the tokens (RFC 7009).
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
