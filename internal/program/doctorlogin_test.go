package program

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/oidc"
	"github.com/parley-server/parley/internal/tui"
)

// TestDoctor_of_logins: doctor says what would keep people out.
func TestDoctor_of_logins(t *testing.T) {
	t.Parallel()
	as := oidc.New()
	provider := as.Start()
	t.Cleanup(provider.Close)
	login := config.IssuerLogin{ClientID: "parley"}
	for name, c := range map[string]struct {
		is   config.Issuer
		addr string
		want []string
	}{
		"in order":           {config.Issuer{Issuer: as.URL, Claims: "oidc", Audience: []string{"parley"}, Login: login}, "127.0.0.1:8000", []string{"ok    login", "http://127.0.0.1:8000/v1/signin/acme/callback"}},
		"of another name":    {config.Issuer{Issuer: as.URL + "/", Claims: "oidc", Audience: []string{"parley"}}, "127.0.0.1:8000", []string{"fail  login", "is of the issuer", "auth.issuers.acme.issuer"}},
		"gone":               {config.Issuer{Issuer: "http://127.0.0.1:1", Claims: "oidc", Audience: []string{"parley"}}, "127.0.0.1:8000", []string{"fail  login", "cannot be had"}},
		"without an address": {config.Issuer{Issuer: as.URL, Claims: "oidc", Audience: []string{"parley"}, Login: login}, "0.0.0.0:8000", []string{"fail  login", "public_url"}},
		"for pages only":     {config.Issuer{Issuer: as.URL, Claims: "oidc", Login: login}, "127.0.0.1:8000", []string{"warn  login", "no audience"}},
	} {
		var out bytes.Buffer
		d := &doctor{out: &out, style: tui.Style{}}
		d.issuers(t.Context(), config.Settings{Addr: c.addr, Auth: config.Auth{Issuers: map[string]config.Issuer{"acme": c.is}}})
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: it says\n%swithout %q", name, out.String(), want)
			}
		}
	}
}
