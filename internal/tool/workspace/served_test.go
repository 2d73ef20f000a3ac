package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// vault is an app over one folder of files. Its script does what the message says: "write PATH"
// after reading it, or "read PATH".
func vault(t *testing.T, policy string) (*servertest.Server, string) {
	t.Helper()
	root := t.TempDir()
	app := fstest.MapFS{
		"app.yaml": {Data: []byte(`name: vault
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [Read, Write, Edit, Grep]}}
tools: {workspace: {}}
workspaces: {root: ` + root + `, default: main}
policy:
` + policy)},
		"clerk.md": {Data: []byte("Keep the notes.")},
		"script.yaml": {Data: []byte(`agents:
  clerk:
    - when: eq (len .Results) 2
      say: '{{ (index .Results 1).Output }}'
    - when: and (eq (len .Results) 1) (eq (slice .Question 0 4) "read")
      say: '{{ (index .Results 0).Output }}'
    - when: and (eq (len .Results) 1) (eq (slice .Question 0 5) "write")
      call: [{tool: Write, input: {file_path: '{{ slice .Question 6 }}', content: new}}]
    - when: eq (slice .Question 0 4) "read"
      call: [{tool: Read, input: {file_path: '{{ slice .Question 5 }}'}}]
    - call: [{tool: Read, input: {file_path: '{{ slice .Question 6 }}'}}]
`)},
	}
	s := servertest.Start(t, server.App(app))
	return s, filepath.Join(root, "local", "main")
}

func put(t *testing.T, dir, name, body string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestServed: a change is announced and saved in the log, with its diff.
func TestServed(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  rules: [{verdict: allow, effect: write}]\n")
	chat := s.Session("vault")
	put(t, dir, "a.md", "old")
	if got := chat.Send("write ./x/../a.md"); got.Response.Message != "a.md was written." {
		t.Fatalf("%+v", got)
	}
	page, err := s.Events(t.Context(), chat.ID, 0, client.EventFilter{Types: []string{"files.announced", "files.saved", "tool.ended"}})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range page.Events {
		types = append(types, string(e.Type))
		if p, _ := e.Payload(); p != nil {
			if saved, ok := p.(parley.FilesSaved); ok && (len(saved.Files) != 1 || saved.Files[0].Path != "a.md" || !strings.Contains(saved.Files[0].Diff, "-old\n") || saved.Files[0].Removed != 1) {
				t.Errorf("saved %+v", saved)
			}
		}
	}
	if got, want := strings.Join(types, " "), "tool.ended files.announced files.saved tool.ended"; got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// TestHistoryOfSessions: a user finds over the API what the user's sessions have made of a file. Other files
// and workspaces have a history of their own.
func TestHistoryOfSessions(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  rules: [{verdict: allow, effect: write}]\n")
	chat := s.Session("vault")
	put(t, dir, "a.md", "old")
	chat.Send("write a.md") // new
	f := s.Files("vault", "main")
	now, err := f.Read(t.Context(), "a.md", 0)
	if err != nil || *now.Text != "new" {
		t.Fatalf("%+v, %v", now, err)
	}
	mine := "mine"
	if _, err := f.Write(t.Context(), "a.md", parley.WriteFile{Text: &mine, Version: now.Version}); err != nil {
		t.Fatal(err)
	}
	if got := chat.Send("write a.md"); got.Response.Message != "a.md was written." { // the script reads it again
		t.Fatalf("%+v", got)
	}
	all, err := f.History(t.Context(), "a.md", "", 0)
	if err != nil || len(all.Versions) != 2 || all.Next != "" {
		t.Fatalf("%+v, %v", all, err)
	}
	for n, v := range all.Versions {
		got, err := f.ReadVersion(t.Context(), "a.md", v.ID, 0)
		if v.Session != chat.ID || v.Turn == "" || v.At.IsZero() || err != nil && n == 0 || n == 0 && *got.Text != "new" {
			t.Errorf("%d: %+v, %+v, %v", n, v, got, err)
		}
	}
	// A page of one, and then the rest.
	first, err := f.History(t.Context(), "a.md", "", 1)
	if err != nil || len(first.Versions) != 1 || first.Next != all.Versions[0].ID {
		t.Errorf("%+v, %v", first, err)
	}
	if rest, err := f.History(t.Context(), "a.md", first.Next, 1); err != nil || len(rest.Versions) != 1 || rest.Versions[0] != all.Versions[1] || rest.Next != "" {
		t.Errorf("%+v, %v", rest, err)
	}
	if other, err := f.History(t.Context(), "b.md", "", 0); err != nil || len(other.Versions) != 0 {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := s.CreateWorkspace(t.Context(), parley.CreateWorkspace{App: "vault", Name: "other"}); err != nil {
		t.Fatal(err)
	}
	if other, err := s.Files("vault", "other").History(t.Context(), "a.md", "", 0); err != nil || len(other.Versions) != 0 {
		t.Errorf("in another workspace: %+v, %v", other, err)
	}
	if _, err := s.Files("vault", "other").ReadVersion(t.Context(), "a.md", all.Versions[0].ID, 0); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("in another workspace: %v", err)
	}
}

// TestRules: a rule is about the file that is reached, however its path is written.
func TestRules(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  rules: [{verdict: allow, effect: write}, {verdict: deny, tool: 'Read(private/*)'}, {verdict: deny, tool: 'Write(private/*)'}]\n")
	chat := s.Session("vault")
	put(t, dir, "private/a.md", "SECRET")
	for _, name := range []string{"private/a.md", "./private/a.md", "x/../private/a.md", "private//a.md", "private/./a.md"} {
		if got := chat.Send("read " + name); !strings.Contains(got.Response.Message, "not allowed") {
			t.Errorf("read %s: %q", name, got.Response.Message)
		}
		if got := chat.Send("write " + name); !strings.Contains(got.Response.Message, "not allowed") {
			t.Errorf("write %s: %q", name, got.Response.Message)
		}
	}
}

// TestModes: what each mode lets a change of a file do, in one session whose mode is changed again and
// again. What agents and servers are set up with is confirmed in every mode, and a deny holds in
// every mode.
func TestModes(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  modes: [acceptEdits, plan, bypassPermissions]\n  rules: [{verdict: deny, tool: 'Write(private/*)', reason: it is private}]\n")
	chat := s.Session("vault")
	n := 0
	for _, c := range []struct {
		mode            parley.PermissionMode
		file            string
		waits, denied   bool
		kind            parley.InteractionKind
		choices         int
		allowForSession bool
	}{
		{mode: parley.ModeDefault, file: "a.md", waits: true, kind: parley.KindPermission, choices: 3},
		{mode: parley.ModeAcceptEdits, file: "b.md"},
		{mode: parley.ModeAcceptEdits, file: "sub/../c.md"},
		{mode: parley.ModeAcceptEdits, file: ".mcp.json", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: "x/.claude/settings.json", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: ".agents/skills/a/SKILL.md", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: "./AGENTS.md", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: "notes/../claude.md", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: "{dir}/CLAUDE.md", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeAcceptEdits, file: "x/../private/a.md", denied: true},
		{mode: parley.ModeAcceptEdits, file: "{dir}/private/a.md", denied: true},
		{mode: parley.ModePlan, file: "d.md", denied: true},
		{mode: parley.ModePlan, file: "CLAUDE.md", denied: true},
		{mode: parley.ModeBypassPermissions, file: "e.md"},
		{mode: parley.ModeBypassPermissions, file: ".mcp.json", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeBypassPermissions, file: "private/a.md", denied: true},
		{mode: parley.ModeDefault, file: "f.md", waits: true, kind: parley.KindPermission, choices: 3, allowForSession: true},
		{mode: parley.ModeDefault, file: "f.md"}, // it was allowed for the session
		{mode: parley.ModeDefault, file: "AGENTS.md", waits: true, kind: parley.KindConfirmation, choices: 2},
		{mode: parley.ModeDefault, file: "private/f.md", denied: true},
	} {
		n++
		if _, err := s.UpdateSession(t.Context(), chat.ID, parley.UpdateSession{Mode: &c.mode}); err != nil {
			t.Fatal(err)
		}
		file := strings.Replace(c.file, "{dir}", dir, 1)
		got := chat.Send("write " + file)
		if (got.Status == parley.StatusWaiting) != c.waits {
			t.Fatalf("%d: %s in %s: %+v %+v", n, file, c.mode, got.Status, got.Response)
		}
		if c.waits {
			open := chat.Open()
			if len(open) != 1 || open[0].Kind != c.kind || len(open[0].Choices) != c.choices {
				t.Fatalf("%d: %s in %s: open is %+v", n, file, c.mode, open)
			}
			choice := parley.ChoiceDeny
			if c.allowForSession {
				choice = parley.ChoiceAllowSession
			}
			chat.Answer(choice)
			continue
		}
		said := got.Response.Message // in plan mode the model is not offered the tool
		if (strings.Contains(said, "not allowed") || strings.Contains(said, "nothing is changed")) != c.denied {
			t.Errorf("%d: %s in %s: %s", n, file, c.mode, got.Response.Message)
		}
	}
	var made []string
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		made = append(made, e.Name())
	}
	if got, want := strings.Join(made, " "), "b.md c.md e.md f.md"; got != want {
		t.Errorf("in the end there are %s, want %s", got, want)
	}
}

// TestGuarded: what decides what agents are told, or what runs, is confirmed each time.
func TestGuarded(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  modes: [bypassPermissions]\n  rules: [{verdict: allow, effect: write}]\n")
	chat := s.Session("vault")
	mode := parley.ModeBypassPermissions
	if _, err := s.UpdateSession(t.Context(), chat.ID, parley.UpdateSession{Mode: &mode}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".mcp.json", "sub/../.claude/settings.json", "notes/agents.md"} {
		if got := chat.Send("write " + name); got.Status != parley.StatusWaiting {
			t.Fatalf("write %s: %+v", name, got)
		}
		open := chat.Open()
		if len(open) != 1 || open[0].Kind != parley.KindConfirmation || len(open[0].Choices) != 2 {
			t.Fatalf("%s: open is %+v", name, open)
		}
		chat.Answer(parley.ChoiceDeny)
	}
	if list, _ := os.ReadDir(dir); len(list) != 0 {
		t.Errorf("files were written: %v", list)
	}
}

// TestAbsolute: an absolute path inside the workspace's folder means the file of the relative one, also
// to rules, guards and the reader of the log. Any other absolute path is refused.
func TestAbsolute(t *testing.T) {
	t.Parallel()
	s, dir := vault(t, "  rules: [{verdict: allow, effect: write}, {verdict: deny, tool: 'Read(private/*)'}, {verdict: deny, tool: 'Write(private/*)'}]\n")
	chat := s.Session("vault")
	put(t, dir, "a.md", "old")
	put(t, dir, "private/a.md", "SECRET")
	put(t, dir+"-evil", "a.md", "SECRET")
	put(t, filepath.Dir(dir), "secret.md", "SECRET")
	if got := chat.Send("read " + dir + "/a.md"); !strings.Contains(got.Response.Message, "old") {
		t.Errorf("read: %q", got.Response.Message)
	}
	if got := chat.Send("write " + dir + "/x/..//a.md"); got.Response.Message != "a.md was written." {
		t.Errorf("write: %q", got.Response.Message)
	}
	for _, name := range []string{"/private/a.md", "/./private/a.md", "//private//a.md", "/x/../private/a.md"} {
		for _, verb := range []string{"read ", "write "} {
			if got := chat.Send(verb + dir + name); !strings.Contains(got.Response.Message, "not allowed") {
				t.Errorf("%s%s: %q", verb, name, got.Response.Message)
			}
		}
	}
	for _, name := range []string{
		dir + "/../secret.md", dir + "/x/../../secret.md", dir + "-evil/a.md", filepath.Dir(dir) + "/secret.md", dir + "/..", filepath.Dir(dir) + "//main/a.md", "/private/a.md", "//" + dir + "/a.md",
		"/proc/self/cwd", "/etc/passwd", dir + "/.git/config", strings.ToUpper(dir) + "/a.md", filepath.Dir(dir) + "/./main/a.md",
	} {
		for _, verb := range []string{"read ", "write "} {
			if got := chat.Send(verb + name); strings.Contains(got.Response.Message, "SECRET") || strings.Contains(got.Response.Message, "was written") || strings.Contains(got.Response.Message, "created") {
				t.Errorf("%s%s: %q", verb, name, got.Response.Message)
			}
		}
	}
	if got := chat.Send("write " + dir + "/CLAUDE.md"); got.Status != parley.StatusWaiting {
		t.Fatalf("a guarded file: %+v", got)
	}
	if open := chat.Open(); len(open) != 1 || open[0].Kind != parley.KindConfirmation || open[0].Title != "Write CLAUDE.md?" {
		t.Errorf("open is %+v", open)
	}
}
