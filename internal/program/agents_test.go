package program_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestExample_agents runs the example of agents that work for one another: two readers at once, one
// of which asks a person, and then a checker. The terminal names each agent by its path.
func TestExample_agents(t *testing.T) {
	t.Parallel()
	apps, err := filepath.Abs("../../examples/agents/apps")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "PARLEY_ENABLED=desk", "PARLEY_APPS="+apps)
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "3 agents, 5 tools") {
		t.Errorf("app check: exit %d\n%s%s", code, out, errs)
	}
	p.serve()
	code, _, errs := p.run("run", "What has been decided about the login?")
	session := regexp.MustCompile(`session (\S+),`).FindStringSubmatch(errs)
	if code == 0 || session == nil {
		t.Fatalf("exit %d, want a turn that waits\n%s", code, errs)
	}
	hasLines(t, "run", errs,
		"▶ editor", "▶ editor/reader: Read Slack") // the other reader begins at the same time, before or after the question ends this
	_, out, _ := p.run("session", "why", session[1])
	hasLines(t, "session why of a turn that waits", out,
		"agent editor/reader: Read Slack: waits for a person, 1 model call, ",
		"editor/reader permission: Allow read_slack_mock?",
	)
	code, out, errs = p.run("session", "answer", waitingIn(t, errs), "allow")
	if code != 0 || !strings.HasPrefix(out, "Slack of 2026-02-27 holds: ") {
		t.Errorf("allowed: exit %d\n%s%s", code, out, errs)
	}
	hasLines(t, "session answer", errs, `editor/reader → read_slack_mock {"query":"login"}`, "▶ editor/checker: ")
	_, out, _ = p.run("session", "why", session[1])
	hasLines(t, "session why", out, "agent editor/reader: Read Slack: ok, 2 model calls, ", "agent editor/reader#2: Read Notion, in the background: ok, 2 model calls, ", "agent editor/checker: ")
	_, out, _ = p.run("session", "show", session[1])
	hasLines(t, "session show", out, "editor/reader → read_slack_mock ", `editor/reader#2 → read_notion_mock {"query":"authentication"}`, "editor/reader ← ok: ")
}

// hasLines checks that out has lines that begin as wanted, apart from space, in any order.
func hasLines(t *testing.T, what, out string, want ...string) {
	t.Helper()
	lines := strings.Split(out, "\n")
	for _, w := range want {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), w) }) {
			t.Errorf("%s has no line %q:\n%s", what, w, out)
		}
	}
}
