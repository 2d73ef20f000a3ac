package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
)

const housed = `
model: a/b
agents: {one: {prompt: p.md}}
tools: {notion: {url: "http://app:8123", token: "${APP_TOKEN}"}}
policy: {allow_actuation: false, allowlisted_services: [light.turn_on]}
`

// TestServiceOfAnApp: an operator sets the address of the service behind an app's tools, and
// what is allowed there, without changing the app.
func TestServiceOfAnApp(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	type got struct {
		Toolset config.Toolset
		Act     *bool
		Listed  []string
		Modes   []parley.PermissionMode
	}
	for name, c := range map[string]struct {
		body string
		want got
	}{
		"the app's": {"", got{config.Toolset{Kind: "notion", URL: "http://app:8123", Token: "secret-1"}, &no, []string{"light.turn_on"}, nil}},
		"the owner's": {
			`app: {mine: {url: "http://own:8123", token: "${OWN_TOKEN}", allow_actuation: true, allowlisted_services: [switch.*], modes: [plan]}}`,
			got{config.Toolset{Kind: "notion", URL: "http://own:8123", Token: "secret-2"}, &yes, []string{"switch.*"}, []parley.PermissionMode{parley.ModePlan}},
		},
		"the owner's without a token": { // the app's token must not go to another address
			`app: {mine: {url: "http://own:8123"}}`,
			got{config.Toolset{Kind: "notion", URL: "http://own:8123"}, &no, []string{"light.turn_on"}, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, err := load(t, folder("mine/app.yaml", housed, "mine/p.md", "Be kind."), c.body, "APP_TOKEN=secret-1", "OWN_TOKEN=secret-2")
			if err != nil {
				t.Fatal(err)
			}
			a := list[0]
			a.Toolsets[0].Data = config.Folder{}
			if diff := cmp.Diff(c.want, got{a.Toolsets[0], a.Policy.AllowActuation, a.Policy.AllowlistedServices, a.Policy.Modes}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
