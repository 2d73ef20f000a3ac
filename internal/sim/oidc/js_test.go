package oidc_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/sim/nodetest"
	"github.com/parley-server/parley/internal/sim/oidc"
)

// TestJS: a certified client of OpenID signs in here, and jose accepts the tokens.
func TestJS(t *testing.T) {
	t.Parallel()
	nodetest.Install(t, "jsclient")
	as := oidc.New(oidc.User{ID: "ana", Name: "Ana", Email: "ana@example.com", Org: "north"})
	as.Auto, as.API = "ana", "parley"
	srv := as.Start()
	t.Cleanup(srv.Close)
	as.Register(oidc.Client{ID: "page", Secret: "secret", Redirects: []string{"http://127.0.0.1/callback"}, After: []string{"http://127.0.0.1:9/"}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "drive.mjs", as.URL)
	cmd.Dir = "jsclient"
	out, err := cmd.CombinedOutput()
	const want = `{"sub":"ana","name":"Ana","again":"invalid_grant","org":"north","alg":"RS256","out":"http://127.0.0.1:9/"}`
	if got := strings.TrimSpace(string(out)); err != nil || got != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
}
