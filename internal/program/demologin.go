package program

import (
	"log/slog"
	"maps"

	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// demoLogin adds a simulated OIDC provider to a demo, at which people have to sign in.
func demoLogin(s *config.Settings, log *slog.Logger) (stop func()) {
	as := oidc.New(
		oidc.User{ID: "ana", Name: "Ana Ortiz", Email: "ana@north.example", Org: "north"},
		oidc.User{ID: "bea", Name: "Bea Lang", Email: "bea@north.example", Org: "north"},
		oidc.User{ID: "chris", Name: "Chris Wood", Email: "chris@south.example", Org: "south"},
	)
	provider := as.Start()
	const client, secret = "parley-demo", "a-secret-of-the-demo" //nolint:gosec // of a simulated service
	as.Register(oidc.Client{ID: client, Secret: secret, Redirects: []string{"http://127.0.0.1/v1/signin/demo/callback"}})
	all := map[string]config.Issuer{"demo": {
		Issuer: as.URL, Claims: "oidc", Org: "org_id",
		Login: config.IssuerLogin{ClientID: client, ClientSecret: secret, Title: "the demo's provider"},
	}}
	maps.Copy(all, s.Auth.Issuers)
	s.Auth.Issuers = all
	log.Info("a provider of logins is simulated", "url", as.URL)
	return provider.Close
}
