package program

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/config"
)

// cliTools are the tools of the Claude CLI that the native loop offers, with the fields of their inputs;
// those that are required have a "!".
var cliTools = map[string]string{
	"Task":            "description! prompt! subagent_type! run_in_background",
	"AgentOutputTool": "agentId! block wait_up_to",
	"Bash":            "command! timeout description run_in_background",
	"BashOutput":      "bash_id! filter",
	"KillShell":       "shell_id!",
	"Read":            "file_path! offset limit pages",
	"Edit":            "file_path! old_string! new_string! replace_all",
	"Write":           "file_path! content!",
	"NotebookEdit":    "notebook_path! new_source! cell_id cell_type edit_mode",
	"Glob":            "pattern! path",
	"Grep":            "pattern! path glob type output_mode -A -B -C -n -i multiline head_limit offset",
	"WebFetch":        "url! prompt", // the CLI requires a prompt
	"WebSearch":       "query! allowed_domains blocked_domains",
	"TodoWrite":       "todos!",
	"Skill":           "skill! args",
	"SlashCommand":    "command!",
	"EnterPlanMode":   "",
	"ExitPlanMode":    "plan!",
	"AskUserQuestion": "questions!",
}

// TestToolNames_of_the_Claude_CLI: an app of the native loop can have every tool of the CLI under its name,
// and each takes the CLI's fields.
func TestToolNames_of_the_Claude_CLI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	app := filepath.Join(dir, "apps", "all")
	if err := os.MkdirAll(app, 0o700); err != nil {
		t.Fatal(err)
	}
	names := names(cliTools)
	for name, text := range map[string]string{
		"p.md": "Work.",
		"app.yaml": `model: scripted/all
script: script.yaml
entry: lead
agents:
  lead: {prompt: p.md, tools: [` + strings.Join(names, ", ") + `]}
  worker: {prompt: p.md, as_tool: true}
tools: {workspace: {}, bash: {}, web: {}, plan: {}, ask: {}}
workspaces: {default: main}
extensions: [workspace]
`,
		"script.yaml": "agents: {lead: [{say: hello}], worker: [{say: hello}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, err := newKit()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PARLEY_APPS": filepath.Dir(app), "PARLEY_ENABLED": "all", "PARLEY_DATA": filepath.Join(dir, "data"), "HOME": dir}
	s, err := config.Load(config.From{Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	fine, wrong, unsure, err := k.check(s, slog.New(slog.DiscardHandler))
	if err != nil || len(wrong)+len(unsure) > 0 || len(fine) != 1 {
		t.Fatalf("%v, %v, %v, %d apps", err, wrong, unsure, len(fine))
	}
	var have []string
	for _, d := range fine[0].Tools {
		have = append(have, d.Name)
		var schema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
		if err := json.Unmarshal(d.InputSchema, &schema); err != nil {
			t.Fatal(d.Name, err)
		}
		for _, field := range strings.Fields(cliTools[d.Name]) {
			field, required := strings.CutSuffix(field, "!")
			if schema.Properties[field] == nil || required && !slices.Contains(schema.Required, field) {
				t.Errorf("%s: the field %s is missing, or not required", d.Name, field)
			}
		}
		for _, field := range schema.Required {
			if !strings.Contains(" "+cliTools[d.Name]+" ", " "+field+"! ") {
				t.Errorf("%s requires the field %s, which the CLI does not", d.Name, field)
			}
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, names) {
		t.Errorf("the app has %q, want %q", have, names)
	}
}
