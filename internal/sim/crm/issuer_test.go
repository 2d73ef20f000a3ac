package crm_test

import (
	"testing"
	"time"

	"github.com/parley-server/parley/internal/sim/crm"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// TestIssuer: tokens of an issuer that the server trusts are logins of the user with the same email.
func TestIssuer(t *testing.T) {
	t.Parallel()
	issuer := oidc.New(oidc.User{ID: "u1", Name: "Mara", Email: "Mara@fieldnote.example"}, oidc.User{ID: "u2", Name: "Eve", Email: "eve@elsewhere.example"})
	web := issuer.Start()
	t.Cleanup(web.Close)
	trust, err := crm.Issuer(t.Context(), web.URL, "crm")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, crm.Options{Trust: trust})
	with := func(claims map[string]any) as { return as{r, issuer.Mint(claims), crm.Fieldnote} }
	good := func(user string) map[string]any {
		c := issuer.Claims(user, "crm")
		for _, u := range issuer.Users {
			if u.ID == user {
				c["email"] = u.Email
			}
		}
		return c
	}
	mara := with(good("u1"))
	me := mara.want(200, "GET", "/api/me", "").json(t)
	if me["id"] != "user_mara" || me["expires_at"] != nil {
		t.Errorf("%v", me)
	}
	mara.want(201, "POST", "/api/leads", `{"name":"Ana Ruiz"}`)
	with(good("u2")).want(401, "GET", "/api/me", "") // who has no account
	for what, change := range map[string]func(map[string]any){
		"another audience": func(c map[string]any) { c["aud"] = "other" },
		"another issuer":   func(c map[string]any) { c["iss"] = "http://127.0.0.1:1" },
		"expired":          func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no email":         func(c map[string]any) { delete(c, "email") },
	} {
		c := good("u1")
		change(c)
		if got := with(c).do("GET", "/api/me", ""); got.status != 401 {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	// Its own tokens are accepted all the same.
	r.as("jonas", "").want(200, "GET", "/api/me", "")
}
