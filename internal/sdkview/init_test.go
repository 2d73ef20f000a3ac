package sdkview_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sdkview"
)

// TestInitTools: system/init lists the tools that the agent of the message has, and those that the caller offers.
func TestInitTools(t *testing.T) {
	t.Parallel()
	app := parley.App{
		Entry: "lead", Model: "test/model",
		Agents: map[string]parley.AgentDef{
			"lead":   {Tools: []string{"Read", "Task"}},
			"helper": {Tools: []string{"Write", "mcp__crm__find"}, AsTool: true},
			"clerk":  {Tools: []string{"Write"}, Model: "test/small"},
		},
		Tools: []parley.ToolDecl{{Name: "Read"}, {Name: "Write"}, {Name: "mcp__crm__find"}, {Name: "Task"}},
	}
	hello := parley.Text(parley.RoleUser, "Hello.")
	for name, c := range map[string]struct {
		request parley.TurnRequest
		tools   []any
		model   string
	}{
		"entry":     {parley.TurnRequest{Message: hello}, []any{"Read", "Task"}, "test/model"},
		"offered":   {parley.TurnRequest{Message: hello, Tools: []parley.ToolDecl{{Name: "theirs"}}}, []any{"Read", "Task", "theirs"}, "test/model"},
		"no tools":  {parley.TurnRequest{Message: hello, NoTools: true, Tools: []parley.ToolDecl{{Name: "theirs"}}}, []any{}, "test/model"},
		"scheduled": {parley.TurnRequest{Message: hello, Schedule: &parley.Scheduled{Agent: "clerk"}}, []any{"Write"}, "test/small"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := sdkview.NewSDK(sdkview.Options{Session: "s", App: func(parley.Digest) (parley.App, error) { return app, nil }})
			e := parley.NewEvent("t", "", parley.TurnStarted{TurnRequest: c.request})
			e.Seq = 1
			for _, m := range shown(view, []eventlog.Frame{{Event: &e}}) {
				d := decoded(t, m.Data)
				if nameOf(d) != "system.init" {
					continue
				}
				if diff := cmp.Diff(c.tools, d["tools"]); diff != "" {
					t.Errorf("tools (-want +got):\n%s", diff)
				}
				if servers := d["mcp_servers"].([]any); d["model"] != c.model || len(servers) != 1 {
					t.Errorf("model %v of %v, want %v; servers %v, want the app's one", d["model"], name, c.model, servers)
				}
				return
			}
			t.Error("no system.init")
		})
	}
}
