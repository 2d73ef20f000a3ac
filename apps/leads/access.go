package leads

import (
	"context"
	"net/http"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/rest"
)

// access says whose the tokens of chats are.
type access struct {
	app       string
	api       *rest.Toolset // nil: the app has none
	bearer    func(ctx context.Context, token string) (app.Identity, error)
	principal func(ctx context.Context) (parley.Principal, error)
}

// whose identifies the sender of a chat by its token: one that the app's API accepts, or one of an
// issuer in the settings. Where the server asks nobody for a login, everybody is the one user.
func (a access) whose(ctx context.Context, r *http.Request, token, org string) (parley.Principal, error) {
	none := parley.Principal{}
	if token == "" {
		return none, parley.Errorf(parley.CodeUnauthenticated, "Your login is missing: each chat brings a token.")
	}
	if err := (parley.Credentials{rest.Credential: token}).Check(); err != nil {
		return none, parley.Errorf(parley.CodeUnauthenticated, "Your login cannot be read.")
	}
	if a.api != nil && a.api.Identities() != nil {
		p, ok, err := a.api.Identities().WhoseFrom(ctx, app.Network(r), token)
		if err != nil {
			return none, err
		}
		if ok {
			return p.Principal(a.app, org)
		}
	}
	who, err := a.bearer(ctx, token)
	if err == nil && org != "" {
		who, err = who.In(org)
	}
	if err == nil {
		return who.Principal, nil
	}
	if parley.CodeOf(err) != parley.CodeUnauthenticated {
		return none, err
	}
	if a.api == nil || a.api.Identities() == nil {
		if p, perr := a.principal(r.Context()); perr == nil && p == parley.Local {
			p.Org = rest.KeptOrg(org) // there is one person, and the API knows the organisations
			return p, nil
		}
	}
	return none, refused()
}

func refused() error {
	return parley.Errorf(parley.CodeUnauthenticated, "Your login has expired, or is not accepted. Log in again.")
}

// apiOf returns the API of an app's tools; nil: it has none.
func apiOf(d app.Deps, of string) *rest.Toolset {
	for _, t := range d.Toolsets[of] {
		if api, ok := t.(*rest.Toolset); ok {
			return api
		}
	}
	return nil
}
