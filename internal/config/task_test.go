package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
)

// resolve reads an app of the given file and resolves it over a toolset with the tool look.
func resolve(t *testing.T, body string) (parley.App, error) {
	t.Helper()
	got, err := load(t, folder("mine/app.yaml", body, "mine/p.md", "x"), "")
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Resolve([]parley.ToolDecl{{Name: "look"}})
}

func TestAgentsAsTools(t *testing.T) {
	t.Parallel()
	app, err := resolve(t, `
model: scripted/mine
entry: lead
agents:
  lead: {prompt: p.md, tools: [finder, Task, AgentOutputTool, look]}
  finder: {prompt: p.md, description: Finds things., as_tool: true, tools: [look]}
`)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range app.Tools {
		if names = append(names, d.Name); d.Name != "look" && (d.Run != parley.RunRuntime || d.Effect != parley.EffectRead) {
			t.Errorf("%s is run by %q, with effect %q", d.Name, d.Run, d.Effect)
		}
	}
	if diff := cmp.Diff([]string{"look", "AgentOutputTool", "Task", "finder"}, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if !app.Agents["finder"].AsTool {
		t.Error("the agent finder is no tool")
	}
}

func TestMistakesOfTasks(t *testing.T) {
	t.Parallel()
	_, err := resolve(t, `model: scripted/mine
entry: lead
agents:
  lead: {prompt: p.md, tools: [other, AgentOutputTool, finder]}
  other: {prompt: p.md, tools: [Tusk]}
  finder: {prompt: p.md}
  look: {prompt: p.md, as_tool: true}
  memory:
    prompt: p.md
    as_tool: true
`)
	want := []string{
		`10: agents.memory.as_tool: "memory" cannot be a tool; the name is taken`,
		`4: agents.lead.tools[0]: "other" is an agent, which has no as_tool: true`,
		"4: agents.lead.tools[1]: AgentOutputTool is for the tasks of Task, which the agent does not have",
		`4: agents.lead.tools[2]: "finder" is an agent, which has no as_tool: true`,
		`5: agents.other.tools[0]: there is no tool "Tusk"; known are AgentOutputTool, look`,
		`7: agents.look.as_tool: a toolset has a tool "look", too; give the agent another name`,
	}
	if diff := cmp.Diff(want, mistakes(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = resolve(t, "model: scripted/mine\nagents:\n  lead: {prompt: p.md, tools: [Task]}\n")
	if diff := cmp.Diff([]string{"3: agents.lead.tools[0]: Task needs an agent with as_tool: true"}, mistakes(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = resolve(t, "model: scripted/mine\nentry: lead\nagents:\n  lead: {prompt: p.md}\n  sub: {prompt: p.md, as_tool: true}\n")
	if diff := cmp.Diff([]string{`5: agents.sub.as_tool: no agent lists "sub" or Task under tools, so nobody can give it tasks`}, mistakes(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// mistakes are the lines of err, sorted, without the name of the file.
func mistakes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), "built-in apps/mine/app.yaml:", ""), "\n")
	slices.Sort(lines)
	return lines
}
