package program

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// tokened adds an OIDC provider to a server, whose tokens are for the audience parley.
func (k *keyed) tokened(users ...oidc.User) *oidc.Server {
	k.t.Helper()
	as := oidc.New(users...)
	provider := as.Start()
	k.t.Cleanup(provider.Close)
	s := config.Settings{Auth: config.Auth{Issuers: map[string]config.Issuer{"acme": {Issuer: as.URL, Claims: "oidc", Audience: []string{"parley"}, Org: "org_id", Orgs: "orgs"}}}}
	issuers, err := newIssuers(s, slog.New(slog.DiscardHandler))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(issuers.Close)
	k.entrance.issuers, k.house.plan.issuers = issuers, issuers
	srv := httptest.NewServer(k.house.behind(api.GuardOptions{}, k.entrance.doorOptions(ownNames(config.Settings{}))))
	k.t.Cleanup(srv.Close)
	k.url = srv.URL
	return as
}

// TestTokens_are_users: two tokens are two users, with organisations, and a key with the name of
// one is another user.
func TestTokens_are_users(t *testing.T) {
	t.Parallel()
	k := newKeyed(t)
	as := k.tokened()
	claims := as.Claims("ana", "parley")
	k.keys["token"] = as.Mint(claims)
	claims["org_id"], claims["orgs"] = "north", []string{"south"}
	k.keys["north"] = as.Mint(claims)
	var made parley.SessionInfo
	k.must(&made, "token", "POST", "/v1/sessions", `{"app":"home"}`)
	if made.User != "acme:ana" || made.Org != "" {
		t.Errorf("made by %s of %q", made.User, made.Org)
	}
	for _, other := range []string{"ana", "north", "bea"} {
		if status, _, _ := k.ask(other, "GET", "/v1/sessions/"+string(made.ID), ""); status != http.StatusNotFound {
			t.Errorf("as %s: %d", other, status)
		}
	}
	k.must(&made, "north", "POST", "/v1/sessions", `{"app":"home"}`)
	if made.User != "acme:ana" || made.Org != "acme:north" {
		t.Errorf("made by %s of %q", made.User, made.Org)
	}
	if status, _, _ := k.ask("north", "GET", "/v1/sessions/"+string(made.ID), "", "X-Org-Id", "south"); status != http.StatusNotFound {
		t.Errorf("in her other organisation: %d", status)
	}
	if who, err := k.house.plan.bearer(t.Context(), k.keys["north"]); err != nil || who.Org != "acme:north" || len(who.Orgs) != 2 {
		t.Errorf("in a message: %+v, %v", who, err)
	}
}
