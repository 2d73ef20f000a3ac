package program

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/auth"
	resttool "github.com/parley-server/parley/internal/tool/rest"
)

// newREST makes the tool for the API that the app names under tools.rest.
func newREST(d app.ToolDeps) (app.Service, error) {
	c := d.Toolset.REST
	if len(c.BaseURLs) == 0 {
		if !d.Check {
			return app.Service{}, &app.Off{Why: "no API is set up: set PLG_API_BASE_URL, or base_urls under tools.rest in its app.yaml"}
		}
		c.BaseURLs = []string{"http://127.0.0.1"} // only the declaration of the tool is read
	}
	o := resttool.Options{
		BaseURLs: c.BaseURLs, Private: c.Private, PlainHTTP: c.PlainHTTP, OrgHeader: c.OrgHeader, Writes: c.Writes, Idempotent: c.Idempotent,
		KeyTTL: c.KeyTTL, Timeout: c.Timeout, Clean: d.Clean,
	}
	var wrong []error
	if c.IdentityURL != "" {
		who, err := resttool.NewIdentities(c.IdentityURL, c.Private, c.PlainHTTP, nil)
		if err != nil {
			wrong = append(wrong, err)
		}
		if who != nil {
			who.Logger = d.Logger
		}
		o.Identities = who
	}
	tools, err := resttool.New(o)
	if err != nil {
		if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // what New returns
			wrong = append(wrong, joined.Unwrap()...)
		} else {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return app.Service{}, d.Mistakes(errors.Join(wrong...))
	}
	s := app.Service{Toolset: tools, Close: tools.Close}
	if o.Identities != nil {
		s.Verify = verifier(d.App.Name, o.Identities)
	}
	return s, nil
}

// verifier identifies users of an app by the tokens that its API accepts.
func verifier(of string, ids *resttool.Identities) func(ctx context.Context, token string) (app.Identity, bool, error) {
	return func(ctx context.Context, token string) (app.Identity, bool, error) {
		p, ok, err := ids.WhoseFrom(ctx, auth.NetworkOf(ctx), token)
		if !ok || err != nil {
			return app.Identity{}, false, err
		}
		who, err := p.Principal(of, "")
		return app.Identity{Principal: who, Name: p.Name, Issuer: of, Orgs: p.Orgs}, err == nil, err
	}
}

// tokens verifies the tokens that apps accept from their own clients. Such a token reaches one app.
type tokens struct{ p *plan }

// Verify implements [auth.Verifier]. Of several apps that accept a token it is for the first by name.
// An API that cannot be asked locks out nobody else's users.
func (t tokens) Verify(ctx context.Context, token string) (auth.Identity, bool, error) {
	var apps []string
	for of := range t.p.accepted.Range {
		apps = append(apps, of.(string))
	}
	slices.Sort(apps)
	var failed error
	for _, of := range apps {
		verify, there := t.p.accepted.Load(of)
		if !there {
			continue // it was switched off meanwhile
		}
		who, ok, err := verify.(accept)(ctx, token)
		if ok && err == nil {
			who.App = of
			return who, true, nil
		}
		if failed == nil {
			failed = err
		}
	}
	return auth.Identity{}, false, failed
}

// accept is [app.Service.Verify].
type accept func(ctx context.Context, token string) (app.Identity, bool, error)

// accepts notes which tokens an app accepts from now on.
func (p *plan) accepts(of string, sets []*opened) {
	for _, s := range sets {
		if s.Verify != nil {
			p.accepted.Store(of, accept(s.Verify))
			return
		}
	}
	p.accepted.Delete(of)
}

// within returns an error if a caller who may reach one app only asks for something else. What the
// native API does for them it decides itself, and a route of an app when it knows whose it is.
func (h *house) within(r *http.Request) error {
	only := auth.App(r.Context())
	if only == "" || h.table.IsOpen(r) {
		return nil
	}
	pattern := h.table.At(r)
	if by, _ := h.table.Owner(pattern); by != "" || slices.Contains(api.Patterns(), pattern) {
		return nil
	}
	return beyond(only)
}

func beyond(only string) error {
	return parley.Errorf(parley.CodeForbidden, "this token is for the app %s only", only).
		WithHint("use the app's own paths, or the native API for its sessions")
}
