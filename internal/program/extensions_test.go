//go:build unix

package program_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestExtensions: an app with workspaces gets the skills, instructions and commands of the
// platform, the app, the user and the workspace from the real server. It does not get those of
// another user.
func TestExtensions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	app := filepath.Join(p.dir, "apps", "notes")
	p.write(filepath.Join(app, "app.yaml"), "script: script.yaml\nworkspaces: {default: main}\nagents:\n  one: {prompt: one.md, tools: [Skill]}\n")
	p.write(filepath.Join(app, "one.md"), "Help.")
	p.write(filepath.Join(app, "script.yaml"), `agents:
  one:
    - when: eq (len .Results) 0
      call: [{tool: Skill, input: {skill: "{{.Question}}"}}]
    - say: "{{(index .Results 0).Output}}"
`)
	p.write(filepath.Join(app, ".claude/skills/ours/SKILL.md"), "---\ndescription: The app's.\n---\nThe app's way.")
	data := filepath.Join(p.dir, "data")
	users, platform := filepath.Join(p.dir, "users"), filepath.Join(p.dir, "platform")
	p.write(filepath.Join(platform, ".agents/skills/everybody/SKILL.md"), "---\ndescription: For all.\n---\nThe way of all.")
	p.write(filepath.Join(users, "local/.agents/skills/mine/SKILL.md"), "---\ndescription: Mine.\n---\nMy way.")
	p.write(filepath.Join(users, "local/vault/.claude/commands/do.md"), "---\ndescription: Does it.\n---\nmine")
	p.write(filepath.Join(users, "bob/.agents/skills/his/SKILL.md"), "---\ndescription: His.\n---\nHis way.")
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(app), "PARLEY_ENABLED=notes", "PARLEY_DATA="+data, "PARLEY_WORKSPACES_DIR="+users, "PARLEY_PLATFORM_DIR="+platform)
	s := p.serve()
	in := func(w string) parley.SessionID {
		return must[parley.SessionInfo](s, "POST", "/v1/sessions", object("app", "notes", "workspace", w)).ID
	}
	vault := in("vault")
	for skill, want := range map[string]string{
		"ours": "The app's way.", "everybody": "The way of all.", "mine": "My way.", "his": `there is no skill "his"`,
	} {
		turn := s.settle(s.send(vault, skill).ID)
		if !strings.Contains(turn.Response.Message, want) {
			t.Errorf("%s: %q", skill, turn.Response.Message)
		}
	}
	list := must[struct{ Commands []parley.SlashCommand }](s, "GET", "/v1/sessions/"+string(vault)+"/commands", "").Commands
	var names []string
	for _, c := range list {
		names = append(names, c.Name+"@"+c.From)
	}
	if got := strings.Join(names, " "); got != "do@workspace everybody@platform mine@user ours@app" {
		t.Errorf("commands: %s", got)
	}
	// The commands of a new session can be listed before there is one.
	p.write(filepath.Join(users, "local/main/.claude/commands/usual.md"), "---\ndescription: As ever.\n---\nusual")
	for query, want := range map[string]string{
		"": "everybody@platform mine@user ours@app usual@workspace", "?workspace=vault": "do@workspace everybody@platform mine@user ours@app",
	} {
		names = nil
		for _, c := range must[struct{ Commands []parley.SlashCommand }](s, "GET", "/v1/apps/notes/commands"+query, "").Commands {
			names = append(names, c.Name+"@"+c.From)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("commands of a new session%s: %s", query, got)
		}
	}
	if got := s.ask("GET", "/v1/apps/notes/commands?workspace=nowhere", ""); got.status != 404 {
		t.Errorf("commands in no workspace: %d %s", got.status, got.body)
	}
	if all := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions", "").Sessions; len(all) != 1 || all[0].ID != vault {
		t.Errorf("sessions: %+v", all)
	}
	if got := s.ask("GET", "/v1/apps/nobodys/commands", ""); got.status != 404 {
		t.Errorf("commands of no app: %d %s", got.status, got.body)
	}
	if code, out, errs := p.run("app", "check", filepath.Join(p.dir, "apps", "notes")); code != 0 {
		t.Error(out, errs)
	}
}
