package auth

import (
	"context"
	"net/http"
	"time"

	"github.com/parley-server/parley"
)

// Access is what users may see and change of their own ways in: sign-ins and keys. Its fields may be
// nil.
type Access struct {
	Keys    *Keys
	SignIns *SignIns
	Flow    *Flow
}

// Me is how a request was identified, as its caller may see it.
type Me struct {
	User    string     `json:"user"`
	Org     string     `json:"org,omitempty"`
	Name    string     `json:"name,omitempty" doc:"For people."`
	How     string     `json:"how" enum:"none,ingress,key,token,signin" doc:"none: this server asks nobody here. ingress: Home Assistant named the user."`
	Key     string     `json:"key,omitempty" doc:"The name of the key."`
	SignIn  string     `json:"sign_in,omitempty" doc:"The id of the sign-in."`
	Issuer  string     `json:"issuer,omitempty" doc:"Who identified the user, by its name in the settings."`
	Orgs    []string   `json:"orgs,omitempty" doc:"The organisations that the caller may act for, with the header X-Org-Id."`
	By      string     `json:"by,omitempty" doc:"Who acts as the user, as the issuer says."`
	Scopes  []Scope    `json:"scopes,omitempty" doc:"What the key may do; everything if there are none."`
	Expires *time.Time `json:"expires_at,omitempty"`
}

// Me returns how the request of a context was identified.
func (a *Access) Me(ctx context.Context) (Me, error) {
	who, err := Of(ctx)
	if err != nil {
		return Me{}, err
	}
	me := Me{User: who.User, Org: who.Org, Name: who.Name, How: "ingress", Key: who.Key, SignIn: who.SignIn, Issuer: who.Issuer, Orgs: who.Orgs, By: who.By, Scopes: who.Scopes}
	switch {
	case who.SignIn != "":
		me.How = "signin"
	case who.Key != "":
		me.How = "key"
	case who.Issuer != "":
		me.How = "token"
	case who.Principal == parley.Local:
		me.How = "none"
	}
	if !who.Expires.IsZero() {
		at := parley.Now(who.Expires)
		me.Expires = &at
	}
	return me, nil
}

// OwnSignIn is a sign-in as its user sees it.
type OwnSignIn struct {
	ID      string    `json:"id"`
	Issuer  string    `json:"issuer"`
	Browser string    `json:"browser,omitempty" doc:"As the browser calls itself."`
	Created time.Time `json:"created_at"`
	Used    time.Time `json:"used_at" doc:"To the minute."`
	Until   time.Time `json:"expires_at" doc:"When it ends at the latest."`
	Current bool      `json:"current" doc:"This request was made with it."`
}

// OwnSignIns lists the sign-ins of the caller.
func (a *Access) OwnSignIns(ctx context.Context, p parley.Principal) []OwnSignIn {
	list := []OwnSignIn{}
	if a.SignIns == nil {
		return list
	}
	who, _ := Of(ctx)
	for _, s := range a.SignIns.Of(p) {
		list = append(list, OwnSignIn{s.ID, s.Issuer, s.Browser, s.Created, s.Used, s.Until, s.ID == who.SignIn})
	}
	return list
}

// EndSignIn ends a sign-in of the caller.
func (a *Access) EndSignIn(p parley.Principal, id string) error {
	if a.SignIns == nil {
		return parley.Errorf(parley.CodeNotFound, "there is no sign-in %q", parley.Cut(id, 60)).WithHint("GET /v1/me/signins lists yours")
	}
	return a.SignIns.Revoke(p, id)
}

// OwnKey is a key as its user sees it.
type OwnKey struct {
	Name    string     `json:"name"`
	Begins  string     `json:"begins,omitempty" doc:"Its first characters."`
	App     string     `json:"app,omitempty" doc:"It is for the page of this app only."`
	Scopes  []Scope    `json:"scopes,omitempty" doc:"What it may do; everything if there are none."`
	Created *time.Time `json:"created_at,omitempty" doc:"Left out for a key of the settings, which only the operator can remove."`
	Used    *time.Time `json:"used_at,omitempty" doc:"To the minute; left out if it was not used yet."`
	Expires *time.Time `json:"expires_at,omitempty"`
	Current bool       `json:"current" doc:"This request was made with it."`
}

// OwnKeys lists the keys that act as the caller.
func (a *Access) OwnKeys(ctx context.Context, p parley.Principal) ([]OwnKey, error) {
	out := []OwnKey{}
	if a.Keys == nil {
		return out, nil
	}
	all, err := a.Keys.Of(p)
	if err != nil {
		return nil, err
	}
	who, _ := Of(ctx)
	some := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	for _, k := range all {
		out = append(out, OwnKey{k.Name, k.Begins, k.App, k.Scopes, some(k.Created), some(k.Used), some(k.Expires), k.Name == who.Key})
	}
	return out, nil
}

// RevokeKey revokes a key that acts as the caller.
func (a *Access) RevokeKey(p parley.Principal, name string) error {
	if a.Keys == nil {
		return parley.Errorf(parley.CodeNotFound, "you have no key %q", parley.Cut(name, 60)).WithHint("GET /v1/me/keys lists yours")
	}
	return a.Keys.RevokeOf(p, name)
}

// SignOut is [Flow.SignOut].
func (a *Access) SignOut(ctx context.Context) (next string, gone http.Cookie, err error) {
	if a.Flow == nil {
		return "", gone, parley.Errorf(parley.CodeInvalid, "nobody signs in at this server").WithHint("DELETE /v1/me/keys/{name} revokes a key")
	}
	return a.Flow.SignOut(ctx)
}
