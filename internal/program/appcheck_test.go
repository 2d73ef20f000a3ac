package program_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAppCheck_names_every_mistake: all mistakes are reported at once, each with its file and
// line. They may be in the file's form, in its values, in the tools and models that it names,
// or in its script.
func TestAppCheck_names_every_mistake(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := filepath.Join(p.dir, "apps", "mine")
	p.write(filepath.Join(dir, "app.yaml"), `titel: Mine
entry: boss
model: nobody/knows
agents:
  lead:
    prompt: missing.md
    tools: [read_slack_mok]
    handoffs: [helper]
    temperature: hot
  other:
    promt: other.md
tools:
  slack: {}
  telefax: {}
script: script.yaml
busy: maybe
policy:
  rules:
    - {effect: reed}
budgets:
  max_steps: -1
`)
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  lead:
    - when: "{{"
      say: hello
    - {}
`)
	app, script := filepath.Join(dir, "app.yaml"), filepath.Join(dir, "script.yaml")
	want := []string{
		app + ":1: titel", app + ":2: entry", app + ":3: model", app + ":6: agents.lead.prompt", app + ":7: agents.lead.tools[0]",
		app + ":8: agents.lead.handoffs[0]", app + ":9: agents.lead.temperature", app + ":11: agents.other.promt", app + ":14: tools.telefax",
		app + ":16: busy", app + ":19: policy.rules[0]", app + ":19: policy.rules[0].effect", app + ":21: budgets.max_steps",
		script + ":3: agents.lead[0]", script + ":5: agents.lead[1]",
	}
	code, out, errs := p.run("app", "check", dir)
	var got []string
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		parts := strings.SplitN(line, ": ", 3)
		got = append(got, strings.Join(parts[:min(2, len(parts))], ": "))
	}
	if diff := cmp.Diff(want, got); diff != "" || code != 1 || !strings.Contains(errs, "15 mistakes") {
		t.Errorf("exit %d %s(-want +got):\n%s\n%s", code, errs, diff, out)
	}

	code, out, _ = p.run("app", "check", "--json", dir)
	var r struct {
		OK       bool
		Apps     []string
		Mistakes []struct {
			File, Text string
			Line       int
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.OK || len(r.Mistakes) != len(want) || r.Mistakes[0].File != app || r.Mistakes[0].Line != 1 {
		t.Errorf("--json: exit %d, %v\n%s", code, err, out)
	}
	// An app may be given by its name, as the settings know it.
	if code, out, errs := p.run("app", "check", "chaos"); code != 0 || !strings.Contains(out, "ok  chaos: ") {
		t.Errorf("by name: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("app", "check", "--apps", filepath.Dir(dir), "mine"); code != 1 || !strings.Contains(out, app+":1: titel") {
		t.Errorf("one of the operator's own by name: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = p.run("app", "check", "--apps", filepath.Dir(dir), "nope")
	if code != 2 || out != "" || !strings.Contains(errs, `no app "nope"`) || !strings.Contains(errs, "apps here: chaos, home, mine") {
		t.Errorf("an unknown name: exit %d\n%s%s", code, out, errs)
	}
	// Correct settings are still printed.
	if code, out, errs := p.run("app", "check", "--apps", filepath.Dir(dir)); code != 0 || !strings.Contains(out, "ok  chaos: 3 agents, 2 tools, model scripted/chaos, wires chat") {
		t.Errorf("the enabled app: exit %d\n%s%s", code, out, errs)
	}
}

// TestAppCheck_of_what_is_no_app: a folder of apps, an empty folder and a file are told apart.
// A folder that only has the name of an app does not hide it.
func TestAppCheck_of_what_is_no_app(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write(filepath.Join(p.dir, "apps", "mine", "app.yaml"), "agents:\n  lead: {prompt: lead.md}\nscript: script.yaml\n")
	p.write(filepath.Join(p.dir, "apps", "mine", "lead.md"), "Lead.")
	p.write(filepath.Join(p.dir, "empty", "notes.txt"), "")
	p.write(filepath.Join(p.dir, "chaos", "notes.txt"), "")
	for arg, want := range map[string]string{
		"apps":               "check one of them, or all with parley app check --apps apps",
		"empty":              "empty has no app.yaml\n  give the folder of an app.yaml",
		"apps/mine/app.yaml": "is a file\n  give the folder of an app.yaml",
	} {
		if code, out, errs := p.run("app", "check", arg); code != 2 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d\n%s%s", arg, code, out, errs)
		}
	}
	if code, out, errs := p.run("app", "check", "chaos"); code != 0 || !strings.Contains(out, "ok  chaos: ") {
		t.Errorf("an app beside a folder of its name: exit %d\n%s%s", code, out, errs)
	}
	// A missing script is one mistake. That its model is missing is not reported as another.
	code, out, errs := p.run("app", "check", filepath.Join(p.dir, "apps", "mine"))
	if code != 1 || !strings.Contains(out, "script: script.yaml is missing") || strings.Count(out, "\n") != 1 {
		t.Errorf("a missing script: exit %d\n%s%s", code, out, errs)
	}
}
