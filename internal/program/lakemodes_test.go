package program_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestLakeModes: the five tools that change a lake are refused in plan mode, asked about by default, and neither in acceptEdits. A file that
// a tool for files writes in the lake is not committed, and a rewind takes it back; a commit stays, and is listed.
func TestLakeModes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	app, users := filepath.Join(p.dir, "apps", "clerk"), filepath.Join(p.dir, "users")
	p.write(filepath.Join(app, "clerk.md"), "Keep the lake.")
	p.write(filepath.Join(app, "app.yaml"), `title: Clerk
script: script.yaml
agents:
  clerk: {prompt: clerk.md, tools: [lake_create, lake_update, lake_move, lake_delete, lake_link, Write]}
tools: {lake: {}, workspace: {}}
workspaces: {root: `+users+`, default: company}
policy: {rules: [{verdict: allow, effect: read}], modes: [acceptEdits, plan]}
`)
	p.write(filepath.Join(app, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: '{{ (index .Results 0).Output }}'
    - {when: eq .Question "create", call: [{tool: lake_create, input: {path: docs/new.md, content: "# New\n\nOf pricing.\n", reason: It is new}}]}
    - {when: eq .Question "update", call: [{tool: lake_update, input: {path: docs/pricing.md, old_string: One price., new_string: Two prices., reason: There are two}}]}
    - {when: eq .Question "link", call: [{tool: lake_link, input: {path: docs/new.md, to: docs/pricing.md, reason: They belong together}}]}
    - {when: eq .Question "move", call: [{tool: lake_move, input: {path: docs/pricing.md, to: docs/prices.md, reason: A shorter name}}]}
    - {when: eq .Question "delete", call: [{tool: lake_delete, input: {path: docs/new.md, reason: It is old}}]}
    - {when: eq .Question "outside", call: [{tool: lake_create, input: {path: ../../x.md, content: x, reason: It is outside}}]}
    - {call: [{tool: Write, input: {file_path: docs/hand.md, content: "# By hand\n"}}]}
`)
	dir := filepath.Join(users, "local", "company")
	p.write(filepath.Join(dir, "docs", "pricing.md"), "# Pricing\n\nOne price.\n")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=Bea", "-c", "user.email=bea@example.com"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-qb", "main")
	git("add", "-A")
	git("commit", "-qm", "The lake")
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=clerk")
	s := p.serve()
	var turns []parley.TurnID
	ask := func(id parley.SessionID, text string) string {
		t.Helper()
		end := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(s.send(id, text).ID)+"/await", `{"timeout_ms":60000}`)
		turns = append(turns, end.ID)
		if end.Response == nil {
			return string(end.Status)
		}
		return end.Response.Message
	}
	in := func(mode parley.PermissionMode) parley.SessionID {
		t.Helper()
		id := s.session("clerk")
		must[parley.SessionInfo](s, "PATCH", "/v1/sessions/"+string(id), object("mode", string(mode)))
		return id
	}
	five := []string{"create", "update", "link", "move", "delete"}
	id := in(parley.ModePlan)
	for _, what := range five {
		if got := ask(id, what); !strings.Contains(got, "plan mode") {
			t.Errorf("%s in plan mode: %q", what, got)
		}
	}
	for _, what := range five {
		if got := ask(in(parley.ModeDefault), what); got != "waiting" {
			t.Errorf("%s by default: %q", what, got)
		}
	}
	if got := ask(in(parley.ModeDefault), "outside"); !strings.Contains(got, "was not made") {
		t.Errorf("a path outside of the lake: %q", got)
	}
	if got := git("log", "--format=%s"); got != "The lake" {
		t.Fatalf("somebody has changed the lake: %s", got)
	}
	id, turns = in(parley.ModeAcceptEdits), nil
	for _, what := range append(five, "write") {
		if got := ask(id, what); got == "waiting" || strings.Contains(got, "not made") {
			t.Errorf("%s in acceptEdits: %q", what, got)
		}
	}
	if got, want := git("log", "--reverse", "--format=%an %s"), "Bea The lake\nlocal It is new\nlocal There are two\nlocal They belong together\nlocal A shorter name\nlocal It is old"; got != want {
		t.Errorf("the history is\n%s", got)
	}
	if got := git("status", "--porcelain"); got != "?? docs/hand.md" {
		t.Errorf("git status says %q", got)
	}
	back := s.ask("POST", "/v1/sessions/"+string(id)+"/rewind", object("turn", string(turns[1])))
	if got := string(back.body); back.status != 200 || !strings.Contains(got, "Change docs/pricing.md") || !strings.Contains(got, "the change is a commit in the lake, which stays") {
		t.Errorf("the rewind: %s", back)
	}
	if _, err := os.Stat(filepath.Join(dir, "docs", "hand.md")); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	if got := git("log", "-1", "--format=%s"); got != "It is old" || git("status", "--porcelain") != "" {
		t.Errorf("the rewind has changed the lake: %s\n%s", got, git("status", "--porcelain"))
	}
}
