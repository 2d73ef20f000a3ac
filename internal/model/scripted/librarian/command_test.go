package librarian_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/model/scripted/librarian"
)

// TestMajorRuns: a command in quotes or backticks is run as it is, and what it wrote is said.
func TestMajorRuns(t *testing.T) {
	t.Parallel()
	tools := []string{"lake_search", "lake_list", "lake_read", "Bash"}
	for request, command := range map[string]string{
		`run "wc -l docs/*.md"`:                            "wc -l docs/*.md",
		"Please run `grep -c \"a\" x.md | sort`, thanks!":  `grep -c "a" x.md | sort`,
		"could you execute the command 'git status'?":      "git status",
		"Run this shell command: “ls lake”":                "ls lake",
		"run in bash: `ls\nls docs`":                       "ls\nls docs",
		"run the numbers":                                  "",
		`who runs "the ferry"`:                             "",
		`run "a" and then "b"`:                             "",
		`In rime, change "run" to "race"`:                  "",
		"What does the decision say about `wc -l` in runs": "",
	} {
		r := librarian.Answer(librarian.Turn{Question: request, Tools: tools})
		at := slices.IndexFunc(r.Calls, func(c librarian.Call) bool { return c.Tool == "Bash" })
		if got := at >= 0; got != (command != "") || got && (len(r.Calls) != 1 || len(r.Calls[0].Input) != 1 || r.Calls[0].Input["command"] != command) {
			t.Errorf("%s: got %+v, want the command %q", request, r, command)
		}
	}
	ask := librarian.Turn{Question: "run `ls`", Tools: tools}
	call := librarian.Answer(ask).Calls[0]
	for _, c := range []struct {
		output string
		failed bool
		want   string
	}{
		{" 12 docs/a.md\n 30 total\n", false, "It writes:\n\n```\n 12 docs/a.md\n 30 total\n```"},
		{"", false, "The command ran, and wrote nothing."},
		{"a ``` b", false, "It writes:\n\n````\na ``` b\n````"},
		{"ls: no such file\nexit code 2", true, "The command failed:\n\n```\nls: no such file\nexit code 2\n```"},
		{"The user declined this call.", true, "You said no, so it was not run. (The user declined this call.)"},
		{strings.Repeat("ä", 3000), false, "It writes:\n\n```\n" + strings.Repeat("ä", 2048) + "\n```\n\nThat is the beginning: the call has the rest."},
	} {
		ask.Results = []librarian.Result{{Tool: call.Tool, Input: call.Input, Output: c.output, Failed: c.failed}}
		if r := librarian.Answer(ask); len(r.Calls) > 0 || r.Say != c.want {
			t.Errorf("%q: got %+v, want %q", c.output, r, c.want)
		}
	}
	without := librarian.Answer(librarian.Turn{Question: "run `ls`", Tools: []string{"lake_search"}})
	if want := "I cannot do that: the tool Bash is not available here."; len(without.Calls) > 0 || without.Say != want {
		t.Errorf("without the tool: %+v, want %q", without, want)
	}
	fork := librarian.Answer(librarian.Turn{Question: "run `ls`", Tools: []string{"lake_search", "ExitPlanMode"}, Withheld: func(tool string) string { return tool + " is for others" }})
	if want := "I cannot do that here: Bash is for others."; len(fork.Calls) > 0 || fork.Say != want {
		t.Errorf("where the prompt says why: %+v", fork)
	}
	plan := librarian.Answer(librarian.Turn{Question: "run `ls`", Tools: []string{"lake_search", "ExitPlanMode"}})
	if len(plan.Calls) != 1 || plan.Calls[0].Tool != "ExitPlanMode" || !strings.Contains(plan.Calls[0].Input["plan"].(string), "command: ls") {
		t.Errorf("in plan mode: %+v", plan)
	}
}
