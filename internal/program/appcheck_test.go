package program_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
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
	if code, _, errs := p.run("app", "check", "apps/mine", "empty"); code != 2 || !strings.Contains(errs, "check one app, or all in a folder with: parley app check --apps FOLDER") {
		t.Errorf("two folders: exit %d\n%s", code, errs)
	}
	if code, out, errs := p.run("app", "check", "chaos"); code != 0 || !strings.Contains(out, "ok  chaos: ") {
		t.Errorf("by name: exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("app", "check", "--apps", filepath.Dir(dir), "mine"); code != 1 || !strings.Contains(out, app+":1: titel") {
		t.Errorf("one of the operator's own by name: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = p.run("app", "check", "--apps", filepath.Dir(dir), "nope")
	if code != 2 || out != "" || !strings.Contains(errs, `no app "nope"`) || !strings.Contains(errs, "apps here: chaos, home, leads, major, mine") {
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

// TestAppCheck_of_names: the rules of policy and script name tools and agents. What the app does not
// have is a mistake with its line and the nearest name. What may exist while it runs is a warning.
func TestAppCheck_of_names(t *testing.T) {
	t.Parallel()
	const agents = `agents:
  lead: {prompt: lead.md, tools: [read_slack_mock], handoffs: [helper]}
  helper: {prompt: lead.md, tools: [read_notion_mock]}
  other: {prompt: lead.md}
entry: lead
tools: {slack: {}, notion: {}%s}
script: script.yaml
`
	const fine = "agents:\n  lead: [{say: hello}]\n"
	for name, c := range map[string]struct {
		app, script     string
		tools           string // more toolsets
		wrong, warnings []string
	}{
		"what the app has": {
			"policy:\n  rules:\n    - {verdict: deny, tool: read_slack_mock}\n    - {verdict: ask, tool: 'read_notion_mock(*)'}\n    - {verdict: deny, tool: 'nothing_*'}\n    - {verdict: allow, effect: read}\n",
			"agents:\n  memory: [{say: short}]\n  lead: [{call: [{tool: read_slack_mock}]}, {handoff: {to: helper}}]\n", "", nil, nil,
		},
		"rules": {
			"policy:\n  rules:\n    - verdict: deny\n      tool: read_slak_mock\n    - {verdict: deny, tool: 'read_*_mock'}\n    - {verdict: deny, tool: 'write_all(a*)'}\n", fine, "",
			[]string{
				`app.yaml:11: policy.rules[0].tool: there is no tool "read_slak_mock"; did you mean read_slack_mock?`,
				`app.yaml:12: policy.rules[1].tool: there is no tool "read_*_mock"; a * stands for any letters only at the end of a name`,
				`app.yaml:13: policy.rules[2].tool: there is no tool "write_all"; known are read_notion_mock, read_slack_mock`,
			},
			nil,
		},
		"a script": {
			"", `agents:
  lead:
    - when: .Handed
      call: [{tool: read_slack_mock}, {tool: read_slack_mok}]
    - call:
        - tool: read_notion_mock
    - handoff: {to: helpr}
    - {handoff: {to: other}}
  laed:
    - say: hello
`, "", []string{
				`script.yaml:4: agents.lead[0].call[1].tool: there is no tool "read_slack_mok"; did you mean read_slack_mock?`,
				`script.yaml:6: agents.lead[1].call[0].tool: lead does not have the tool read_notion_mock; list it in agents.lead.tools`,
				`script.yaml:7: agents.lead[2].handoff.to: there is no agent "helpr"; did you mean helper?`,
				`script.yaml:8: agents.lead[3].handoff.to: lead cannot hand over to other; list it in agents.lead.handoffs`,
				`script.yaml:9: agents.laed: there is no agent "laed"; did you mean lead?`,
			}, nil,
		},
		"tools of callers": {
			"caller_tools: {}\npolicy: {rules: [{verdict: deny, tool: opn_page}]}\n", fine, "", nil,
			[]string{`app.yaml:9: warning: policy.rules[0].tool: there is no tool "opn_page", unless a caller brings it; known are read_notion_mock, read_slack_mock`},
		},
		"servers of users": {
			"workspaces: {}\npolicy:\n  rules: [{verdict: deny, tool: mcp__x__y}, {verdict: deny, tool: mcp_x}]\n", fine, "",
			[]string{`app.yaml:10: policy.rules[1].tool: there is no tool "mcp_x"; known are Skill, SlashCommand, read_notion_mock, read_slack_mock`},
			[]string{`app.yaml:10: warning: policy.rules[0].tool: whether there is a tool "mcp__x__y" is known only while the app runs`},
		},
		"services": {
			"policy:\n  allowlisted_services: [light.turn_on]\n", fine, "", nil,
			[]string{`app.yaml:9: warning: policy.allowlisted_services: has no effect: no tool of this app acts on such services`},
		},
		"a server where users log in": {
			"# a comment\npolicy: {rules: [{verdict: deny, tool: mcp__crm__delete}]}\n", fine, ", mcp: [{name: crm, url: 'https://crm.example.com/mcp', auth: {login: {}}}]", nil,
			[]string{`app.yaml:9: warning: policy.rules[0].tool: whether there is a tool "mcp__crm__delete" is known only while the app runs`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			dir := filepath.Join(p.dir, "mine")
			p.write(filepath.Join(dir, "app.yaml"), fmt.Sprintf(agents, c.tools)+c.app)
			p.write(filepath.Join(dir, "script.yaml"), c.script)
			p.write(filepath.Join(dir, "lead.md"), "Lead.")
			p.write(filepath.Join(dir, "data", "mock_slack.json"), `{"messages": []}`)
			p.write(filepath.Join(dir, "data", "mock_notion.json"), `{"pages": []}`)
			var want []string
			if len(c.wrong) == 0 {
				want = append(want, "ok  mine: 3 agents, 2 tools, model scripted/mine")
			}
			for _, line := range slices.Concat(c.wrong, c.warnings) {
				want = append(want, dir+"/"+line)
			}
			code, out, errs := p.run("app", "check", dir)
			if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(out), "\n")); diff != "" || code != min(len(c.wrong), 1) {
				t.Errorf("exit %d %s(-want +got):\n%s", code, errs, diff)
			}
			var r struct {
				OK                 bool
				Mistakes, Warnings []struct{ Text string }
			}
			code, out, _ = p.run("app", "check", "--json", dir)
			if err := json.Unmarshal([]byte(out), &r); err != nil || r.OK != (len(c.wrong) == 0) || len(r.Mistakes) != len(c.wrong) || len(r.Warnings) != len(c.warnings) || code != min(len(c.wrong), 1) {
				t.Errorf("--json: exit %d, %v\n%s", code, err, out)
			}
		})
	}
}
