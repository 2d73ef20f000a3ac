package runtimetest

import (
	"fmt"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// together are the scenarios of agents that have others do something for them.
func together() []*scenario {
	leads := func(a *parley.App) { a.Entry = "lead" }
	all := []*scenario{
		{
			name: "two_agents_work_at_once",
			script: team(Use("", Task("worker", "look at a", false), Task("worker", "look at b", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message: "a: done; b: done", outcomes: []string{"look ok", "look ok", "Task ok", "Task ok"},
		},
		{
			name: "one_asks_and_the_other_goes_on", tools: map[string]WorldTool{"add": {Ask: true}},
			script: team(Use("", Task("worker", "add a", false), Task("worker", "look at b", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message: "a: done; b: done", outcomes: []string{"add ok", "look ok", "Task ok", "Task ok"}, loose: true,
			lost: "a: The answer of this call was lost, but a person has confirmed that it took effect. Do not repeat it.; b: done",
		},
		{
			name: "one_fails_and_the_other_does_not",
			script: team(Use("", Task("worker", "fail at a", false), Task("worker", "look at b", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message: "Failed: no such thing; b: done", outcomes: []string{"look ok", "Task error", "Task ok"}, loose: true,
		},
		{
			name: "an_agent_below_an_agent",
			script: team(Use("", Task("worker", "pass on a", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message: "passed: a: done", outcomes: []string{"look ok", "Task ok", "worker ok"},
		},
		{
			name: "agents_that_call_each_other_for_ever",
			script: team(Use("", Task("worker", "dig a", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message:  "dug: dug: dug: dug: Failed: agents may not start others more than 4 deep; do it yourself",
			outcomes: []string{"Task ok", "worker error", "worker ok", "worker ok", "worker ok"},
		},
		{
			name: "a_task_that_is_none",
			script: team(Use("", Task("judge", "judge", false), Task("worker", " ", false)), func(results []string) seam.Reply {
				return Say(strings.Join(results, "; "))
			}),
			message: `Failed: there is no agent "judge" for tasks; Failed: prompt is empty`, outcomes: []string{"Task error", "Task error"},
		},
		{
			name: "work_in_the_background_is_told",
			script: team(Use("", Task("worker", "look at a", true)), func(results []string) seam.Reply {
				return Say("Told: " + results[len(results)-1])
			}),
			message: "Told: a: done", outcomes: []string{"look ok", "Task ok"}, loose: true,
		},
		{
			name: "work_in_the_background_is_asked_for",
			script: team(Use("", Task("worker", "look at a", true), Tool("AgentOutputTool", `{"agentId":"lead/worker"}`)), func(results []string) seam.Reply {
				return Say("Told: " + results[len(results)-1])
			}),
			message: "Told: status: completed\n\na: done", outcomes: []string{"look ok", "Task ok", "AgentOutputTool ok"}, loose: true,
			lost: "Told: a: done",
		},
	}
	for _, sc := range all {
		sc.change = leads
	}
	return all
}

// Task is a part that gives a task to an agent.
func Task(agent, prompt string, background bool) parley.Part {
	return Tool("Task", fmt.Sprintf(`{"description":"%s","prompt":"%s","subagent_type":"%s","run_in_background":%v}`, "a task", prompt, agent, background))
}

// team is the script of a team. The agent lead begins with begin, and answers with what came of it.
// A worker does what the first word of its prompt says.
func team(begin seam.Reply, answer func(results []string) seam.Reply) func(int) Script {
	return func(int) Script {
		return func(r seam.Request) (seam.Reply, error) {
			var results []string
			for _, p := range Results(r) {
				results = append(results, p.Text)
			}
			for _, m := range r.Messages {
				for _, p := range m.Parts {
					if _, text, ok := strings.Cut(p.Text, "has ended: completed]\n"); ok {
						results = append(results, text)
					}
				}
			}
			if r.Agent == "lead" {
				if results == nil {
					return begin, nil
				}
				return answer(results), nil
			}
			words := strings.Fields(r.Messages[0].Parts[0].Text)
			what := words[len(words)-1]
			if len(r.Handoffs) > 0 {
				return Say("a sub-agent is offered handoffs"), nil
			}
			if results != nil {
				switch words[0] {
				case "pass":
					return Say("passed: " + results[0]), nil
				case "dig":
					return Say("dug: " + results[0]), nil
				}
				return Say(what + ": " + results[0]), nil
			}
			switch words[0] {
			case "add":
				return Use("", Tool("add", `{}`)), nil
			case "fail":
				return seam.Reply{}, parley.Errorf(parley.CodeModel, "no such thing")
			case "pass":
				return Use("", Tool("worker", `{"prompt":"look at `+what+`"}`)), nil
			case "dig":
				return Use("", Tool("worker", `{"prompt":"dig `+what+`"}`)), nil
			}
			return Use("", Tool("look", `{}`)), nil
		}
	}
}
