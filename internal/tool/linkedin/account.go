package linkedin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/vault"
)

const (
	// lasting is how long somebody has to finish a login.
	lasting = time.Hour
	// fresh is how long a link must still last to be shown again.
	fresh = 20 * time.Minute
	// early is how long before its expiry a token is renewed. It is longer than a call may take.
	early = 2 * time.Minute
	// within bounds each request to the authorization server.
	within = 30 * time.Second

	accountName = "linkedin account" // of a vault's entry
	pendingName = "linkedin login"
)

// account is a person's login at LinkedIn, as the vault has it.
type account struct {
	Access  string    `json:"access"`
	Expires time.Time `json:"expires,omitzero"`
	Refresh string    `json:"refresh,omitempty"`
	Renews  time.Time `json:"renews,omitzero"` // until when Refresh is valid
	Scopes  []string  `json:"scopes"`
	Member  string    `json:"member,omitempty"` // its id at LinkedIn; "": not asked yet
	Since   time.Time `json:"since"`
	By      string    `json:"by"` // the user who logged in
}

func (a account) urn() string { return "urn:li:person:" + a.Member }

// reads reports whether the login may read posts and comments of its member.
func (a account) reads() bool { return slices.Contains(a.Scopes, "r_member_social") }

// pending is a login that a user has begun for a person.
type pending struct {
	State string    `json:"state"`
	Link  string    `json:"link"`
	Back  string    `json:"back"` // the redirect URI
	Until time.Time `json:"until"`
}

// owner is the owner of a person's account in the vault. All users to whom the person's workspace
// is granted act with the one account. No user can have such a name, since a control character
// cannot be in one.
func (t *Toolset) owner(w parley.Workspace) parley.Principal {
	return parley.Principal{User: "workspace\x1f" + t.o.App + "\x1f" + string(w)}
}

func (t *Toolset) scope(w parley.Workspace) vault.Scope {
	return vault.Scope{App: t.o.App, Workspace: w}
}

func (t *Toolset) vault() (*vault.Vault, error) {
	if t.o.Vault != nil {
		if v := t.o.Vault(); v != nil {
			return v, v.Ready()
		}
	}
	return nil, parley.Errorf(parley.CodeUnavailable, "the server is not ready to store logins")
}

// enter waits until no other caller holds the key.
func (t *Toolset) enter(ctx context.Context, what string, w parley.Workspace) (leave func(), err error) {
	key := what + " " + string(w)
	t.mu.Lock()
	c := t.busy[key]
	if c == nil {
		c = &gate{held: make(chan struct{}, 1)}
		t.busy[key] = c
	}
	c.users++
	t.mu.Unlock()
	done := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(t.busy, key)
		}
	}
	select {
	case c.held <- struct{}{}:
		return func() { <-c.held; done() }, nil
	case <-ctx.Done():
		done()
		return nil, context.Cause(ctx)
	}
}

// gate lets one caller in at a time.
type gate struct {
	held  chan struct{}
	users int
}

// errNobody says that a person has no account.
var errNobody = errors.New("nobody is logged in at LinkedIn")

// account returns a person's account with a valid token. refused is a token that LinkedIn has
// refused. Without an account the error is errNobody.
func (t *Toolset) account(ctx context.Context, w parley.Workspace, refused string) (account, error) {
	leave, err := t.enter(ctx, "account", w)
	if err != nil {
		return account{}, err
	}
	defer leave()
	v, err := t.vault()
	if err != nil {
		return account{}, err
	}
	a, err := t.load(ctx, v, w)
	if err != nil {
		return account{}, err
	}
	now := t.o.Now()
	due := a.Access == refused || !a.Expires.IsZero() && now.After(a.Expires.Add(-early))
	if due {
		// Not cancelled: what LinkedIn gives out exists only here.
		lastingly := context.WithoutCancel(ctx)
		switch renewed, rerr := t.renew(lastingly, a); {
		case rerr == nil:
			a = renewed
			if err := t.store(lastingly, v, w, a); err != nil {
				return account{}, err
			}
		case a.Access != refused && now.Before(a.Expires): // it lasts a little longer
		case errors.Is(rerr, errNobody):
			if err := v.Remove(lastingly, t.owner(w), t.scope(w), accountName); err != nil {
				return account{}, err
			}
			return account{}, errNobody
		default:
			return account{}, rerr
		}
	}
	if a.Member == "" {
		if a.Member, err = t.member(ctx, a.Access); err != nil {
			return account{}, err
		}
		if err := t.store(context.WithoutCancel(ctx), v, w, a); err != nil {
			return account{}, err
		}
	}
	return a, nil
}

func (t *Toolset) load(ctx context.Context, v *vault.Vault, w parley.Workspace) (a account, err error) {
	raw, err := v.Get(ctx, t.owner(w), t.scope(w), accountName)
	switch {
	case parley.CodeOf(err) == parley.CodeNotFound:
		return a, errNobody
	case err != nil:
		return a, err
	}
	if json.Unmarshal([]byte(raw), &a) != nil || a.Access == "" {
		return a, errNobody
	}
	return a, nil
}

func (t *Toolset) store(ctx context.Context, v *vault.Vault, w parley.Workspace, a account) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return v.Put(ctx, t.owner(w), t.scope(w), accountName, string(raw))
}

// grant is what the token endpoint answers.
type grant struct {
	Access      string `json:"access_token"`
	Expires     int64  `json:"expires_in"`
	Refresh     string `json:"refresh_token"`
	RefreshEnds int64  `json:"refresh_token_expires_in"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
}

// token asks the token endpoint. What it says is not repeated, since it may hold what was sent.
func (t *Toolset) token(ctx context.Context, form url.Values) (g grant, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	form.Set("client_id", t.o.ClientID)
	form.Set("client_secret", t.o.ClientSecret)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.www+"/oauth/v2/accessToken", strings.NewReader(form.Encode()))
	if err != nil {
		return g, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return g, parley.Errorf(parley.CodeUnavailable, "LinkedIn's login service cannot be reached").WithHint("try again later")
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return g, parley.Errorf(parley.CodeUnavailable, "LinkedIn's login service did not answer completely").WithHint("try again later")
	}
	_ = json.Unmarshal(raw, &g)
	switch {
	case resp.StatusCode/100 == 2 && g.Access != "":
		return g, nil
	case g.Error == "invalid_client" || g.Error == "unauthorized_client":
		return g, parley.Errorf(parley.CodeUnavailable, "LinkedIn does not accept this server as its client").WithHint("the operator must check LINKEDIN_CLIENT_ID and LINKEDIN_CLIENT_SECRET")
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusRequestTimeout:
		return g, errNobody
	}
	return g, parley.Errorf(parley.CodeUnavailable, "LinkedIn's login service answered %d", resp.StatusCode).WithHint("try again later")
}

// take stores a grant in the account.
func (a *account) take(g grant, now time.Time) {
	a.Access, a.Expires = g.Access, time.Time{}
	if g.Expires > 0 {
		a.Expires = now.Add(time.Duration(min(g.Expires, 10*365*86400)) * time.Second)
	}
	if g.Refresh != "" {
		a.Refresh, a.Renews = g.Refresh, time.Time{}
		if g.RefreshEnds > 0 {
			a.Renews = now.Add(time.Duration(min(g.RefreshEnds, 10*365*86400)) * time.Second)
		}
	}
	if g.Scope != "" {
		a.Scopes = strings.FieldsFunc(g.Scope, func(c rune) bool { return c == ',' || c == ' ' })
	}
}

// renew exchanges the refresh token, which only some apps get. errNobody: the person has to log in
// again.
func (t *Toolset) renew(ctx context.Context, a account) (account, error) {
	now := t.o.Now()
	if a.Refresh == "" || !a.Renews.IsZero() && now.After(a.Renews) {
		return a, errNobody
	}
	g, err := t.token(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh}})
	if err != nil {
		return a, err
	}
	a.take(g, now)
	return a, nil
}

// member asks whose a token is.
func (t *Toolset) member(ctx context.Context, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a, err := t.send(ctx, http.MethodGet, t.api+"/v2/userinfo", http.Header{"Authorization": {"Bearer " + token}}, nil)
	if err != nil {
		return "", err
	}
	var who struct{ Sub string }
	if json.Unmarshal(a.body, &who) != nil || who.Sub == "" || len(who.Sub) > 200 || strings.ContainsAny(who.Sub, " :(),\"\\") {
		return "", parley.Errorf(parley.CodeUnavailable, "LinkedIn does not say whose login it is")
	}
	return who.Sub, nil
}

// Login begins a login of user p for the person of w, and returns the link to open. While it is
// open, every call returns the same link for some time. The caller must have checked that p may
// use w.
func (t *Toolset) Login(ctx context.Context, p parley.Principal, w parley.Workspace) (link string, err error) {
	if err := t.ready(); err != nil {
		return "", err
	}
	if _, err := t.person(w); err != nil {
		return "", err
	}
	leave, err := t.enter(ctx, "login", w)
	if err != nil {
		return "", err
	}
	defer leave()
	v, err := t.vault()
	if err != nil {
		return "", err
	}
	back, err := t.redirect()
	if err != nil {
		return "", err
	}
	now := t.o.Now()
	var open pending
	if raw, err := v.Get(ctx, p, t.scope(w), pendingName); err == nil && json.Unmarshal([]byte(raw), &open) == nil &&
		now.Add(fresh).Before(open.Until) && open.Back == back && strings.HasPrefix(open.Link, t.www+"/") {
		return open.Link, nil
	}
	open = pending{State: rand.Text() + rand.Text(), Back: back, Until: now.Add(lasting)}
	q := url.Values{"response_type": {"code"}, "client_id": {t.o.ClientID}, "redirect_uri": {back}, "state": {open.State}, "scope": {strings.Join(t.o.Scopes, " ")}}
	open.Link = t.www + "/oauth/v2/authorization?" + strings.ReplaceAll(q.Encode(), "+", "%20")
	raw, err := json.Marshal(open)
	if err != nil {
		return "", err
	}
	return open.Link, v.Put(ctx, p, t.scope(w), pendingName, string(raw))
}

// Answer is what LinkedIn's redirect brings back.
type Answer struct{ State, Code, Error string }

// LoggedIn is a login that succeeded.
type LoggedIn struct {
	Workspace parley.Workspace
	Link      string // that began it
	Expires   int64  // in seconds
}

func errOver() error {
	return parley.Errorf(parley.CodeNotFound, "none of your logins at LinkedIn waits for this answer: the login is over, has expired, or is somebody else's").WithField("state").
		WithHint("go back to the conversation and ask again, for a new link")
}

// Finish ends a login that p has begun. Its state is accepted once. may checks that p may still use
// the workspace; nil: it is not checked.
func (t *Toolset) Finish(ctx context.Context, p parley.Principal, a Answer, may func(parley.Principal, parley.Workspace) error) (LoggedIn, error) {
	v, err := t.vault()
	if err != nil {
		return LoggedIn{}, err
	}
	w, begun, err := t.begun(ctx, v, p, a.State)
	if err != nil {
		return LoggedIn{}, err
	}
	if may != nil {
		if err := may(p, w); err != nil {
			return LoggedIn{}, err
		}
	}
	switch {
	case a.Error == "unauthorized_scope_error":
		return LoggedIn{}, parley.Errorf(parley.CodeForbidden, "the app at LinkedIn may not ask for all of: %s", strings.Join(t.o.Scopes, " ")).
			WithHint("add the products to the app in LinkedIn's developer portal, or set LINKEDIN_SCOPES")
	case a.Error != "" || a.Code == "":
		return LoggedIn{}, parley.Errorf(parley.CodeForbidden, "the login at LinkedIn was cancelled").WithHint("begin it again, and allow the access")
	}
	// Not cancelled: the code can be used once.
	ctx = context.WithoutCancel(ctx)
	g, err := t.token(ctx, url.Values{"grant_type": {"authorization_code"}, "code": {a.Code}, "redirect_uri": {begun.Back}})
	switch {
	case errors.Is(err, errNobody):
		return LoggedIn{}, parley.Errorf(parley.CodeForbidden, "LinkedIn does not accept the answer").WithHint("go back to the conversation and ask again, for a new link")
	case err != nil:
		return LoggedIn{}, err
	}
	now := t.o.Now()
	acc := account{Since: now, By: p.User}
	acc.take(g, now)
	if id, err := t.member(ctx, acc.Access); err == nil {
		acc.Member = id // else it is asked for by the first call
	}
	leave, err := t.enter(ctx, "account", w)
	if err != nil {
		return LoggedIn{}, err
	}
	defer leave()
	return LoggedIn{w, begun.Link, g.Expires}, t.store(ctx, v, w, acc)
}

// begun finds the login with a state, and ends it: no other answer is accepted.
func (t *Toolset) begun(ctx context.Context, v *vault.Vault, p parley.Principal, state string) (parley.Workspace, pending, error) {
	list, err := v.List(ctx, p)
	if err != nil {
		return "", pending{}, err
	}
	for _, e := range list {
		if e.Name != pendingName || e.App != t.o.App || state == "" {
			continue
		}
		open, err := t.end(ctx, v, p, e.Workspace, state)
		switch {
		case err != nil:
			return "", pending{}, err
		case open.State != "" && t.o.Now().Before(open.Until):
			return e.Workspace, open, nil
		case open.State != "":
			return "", pending{}, errOver()
		}
	}
	return "", pending{}, errOver()
}

// end removes a login that has begun, if it has the state. Otherwise it returns the zero value.
func (t *Toolset) end(ctx context.Context, v *vault.Vault, p parley.Principal, w parley.Workspace, state string) (open pending, err error) {
	leave, err := t.enter(ctx, "login", w)
	if err != nil {
		return open, err
	}
	defer leave()
	raw, err := v.Get(ctx, p, t.scope(w), pendingName)
	if err != nil {
		if parley.CodeOf(err) == parley.CodeNotFound {
			err = nil
		}
		return open, err
	}
	if json.Unmarshal([]byte(raw), &open) != nil || open.State != state {
		return pending{}, nil
	}
	return open, v.Remove(ctx, p, t.scope(w), pendingName)
}

// Account is what is known of a person's login.
type Account struct {
	In      bool      // somebody is logged in
	Since   time.Time // zero: nobody is
	Expires time.Time // zero: it is not known
	By      string    // the user who logged in
}

// Account says whether a person is logged in, without asking LinkedIn. The caller must have
// checked that the user may know it.
func (t *Toolset) Account(ctx context.Context, w parley.Workspace) (Account, error) {
	if err := t.ready(); err != nil {
		return Account{}, err
	}
	if _, err := t.person(w); err != nil {
		return Account{}, err
	}
	v, err := t.vault()
	if err != nil {
		return Account{}, err
	}
	switch a, err := t.load(ctx, v, w); {
	case errors.Is(err, errNobody):
		return Account{}, nil
	case err != nil:
		return Account{}, err
	case a.Expires.IsZero() || t.o.Now().Before(a.Expires) || a.Refresh != "":
		return Account{true, a.Since, a.Expires, a.By}, nil
	}
	return Account{}, nil
}

// Logout forgets the account of a person. LinkedIn cannot be asked to revoke it; the member does
// that in LinkedIn's settings.
func (t *Toolset) Logout(ctx context.Context, w parley.Workspace) error {
	leave, err := t.enter(ctx, "account", w)
	if err != nil {
		return err
	}
	defer leave()
	if t.o.Vault == nil || t.o.Vault() == nil {
		return parley.Errorf(parley.CodeUnavailable, "the server is not ready")
	}
	return t.o.Vault().Remove(ctx, t.owner(w), t.scope(w), accountName)
}

// with calls f with the person's account, and once more with a renewed token if LinkedIn refused the
// first.
func (t *Toolset) with(ctx context.Context, r seam.Run, f func(account) error) error {
	refused := ""
	for {
		a, err := t.account(ctx, r.Space, refused)
		switch {
		case errors.Is(err, errNobody):
			person, _ := t.person(r.Space)
			return seam.NotSent(loginOver(person))
		case err != nil:
			return seam.NotSent(err)
		}
		if r.Hide != nil {
			if err := r.Hide(a.secrets()...); err != nil {
				return seam.NotSent(err)
			}
		}
		err = f(a)
		ref, ok := errors.AsType[*refusal](err)
		if !ok || ref.status != http.StatusUnauthorized || refused != "" {
			return err
		}
		refused = a.Access
	}
}

func (a account) secrets() []string {
	list := []string{a.Access}
	if a.Refresh != "" {
		list = append(list, a.Refresh)
	}
	return list
}
