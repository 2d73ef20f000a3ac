package program

import (
	"cmp"
	"strings"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/linkedin"
)

// newLinkedIn makes the tools of LinkedIn, with the variables of the server. The app may name
// another server in url, for a simulation.
func newLinkedIn(d app.ToolDeps) (app.Service, error) {
	o := linkedin.Options{
		App: d.App.Name, ClientID: d.Env("LINKEDIN_CLIENT_ID"), ClientSecret: d.Env("LINKEDIN_CLIENT_SECRET"), RedirectURI: d.Env("LINKEDIN_REDIRECT_URI"),
		Version: d.Env("LINKEDIN_VERSION"), URL: cmp.Or(d.Toolset.URL, d.Env("LINKEDIN_URL")), Base: d.Base, Vault: d.Vault, Logger: d.Logger,
	}
	if scopes := strings.Fields(d.Env("LINKEDIN_SCOPES")); len(scopes) > 0 {
		o.Scopes = scopes
	}
	tools, err := linkedin.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	s := app.Service{Toolset: tools, Close: tools.Close}
	if o.ClientSecret != "" {
		s.Secrets = []string{o.ClientSecret}
	}
	return s, nil
}
