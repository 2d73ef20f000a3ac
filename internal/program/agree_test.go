//go:build unix

package program_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// TestHome_policy_is_one: session.json, get_session and the native API report the same policy
// and model for a session, whatever was requested. By default no service may be called.
func TestHome_policy_is_one(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		settings string
		policy   map[string]any
		on       bool
		services []any
	}{
		"by default":            {"", nil, false, []any{}},
		"as the settings allow": {mayAct, nil, true, []any{"light.turn_on"}},
		"narrowed":              {mayAct, map[string]any{"allowActuation": false}, false, []any{"light.turn_on"}},
		"an empty list":         {mayAct, map[string]any{"allowlistedServices": []string{}}, true, []any{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := atHome(t, "", c.settings)
			s := p.serve()
			ctx, done := context.WithTimeout(t.Context(), time.Minute)
			defer done()
			host, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", MaxRetries: -1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			call := func(tool string, in map[string]any) map[string]any {
				t.Helper()
				res, err := host.CallTool(ctx, &mcp.CallToolParams{Name: "ha_agent." + tool, Arguments: in})
				if err != nil || res.IsError {
					t.Fatalf("%s: %+v, %v", tool, res, err)
				}
				return res.StructuredContent.(map[string]any)
			}
			in := map[string]any{}
			if c.policy != nil {
				in["policy"] = c.policy
			}
			id := call("start_session", in)["session_id"].(string)
			seed := call("get_session", map[string]any{"session_id": id})["session"].(map[string]any)
			policy := map[string]any{"allowActuation": c.on, "allowlistedServices": c.services, "enforceFixedModel": false}
			model := map[string]any{"provider": "scripted", "model": "home"}
			if diff := cmp.Diff([]any{policy, model}, []any{seed["policy"], seed["model"]}); diff != "" {
				t.Errorf("get_session (-want +got):\n%s", diff)
			}
			p.becomes(s, "made", parley.SessionID(id))
			var file map[string]any
			if err := json.Unmarshal([]byte(p.live()["sessions/"+id+"/session.json"]), &file); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{policy, model}, []any{file["policy"], file["model"]}); diff != "" {
				t.Errorf("session.json (-want +got):\n%s", diff)
			}
			body := s.ask("GET", "/v1/sessions/"+id, "").body
			var native struct {
				Model  string
				Policy map[string]any
			}
			if err := json.Unmarshal([]byte(body), &native); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]any{"scripted/home", c.on, c.services}, []any{native.Model, native.Policy["allow_actuation"], native.Policy["allowlisted_services"]}); diff != "" {
				t.Errorf("native (-want +got):\n%s", diff)
			}
		})
	}
}
