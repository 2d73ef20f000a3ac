package extension_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/parley-server/parley/server"
	"github.com/parley-server/parley/server/servertest"
)

// TestSlashCommandServed: an agent that lists SlashCommand calls a command of its workspace.
func TestSlashCommandServed(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := servertest.Start(t, server.App(fstest.MapFS{
		"app.yaml": {Data: []byte(`name: desk
script: script.yaml
agents: {clerk: {prompt: clerk.md, tools: [SlashCommand]}}
workspaces: {root: ` + root + `, default: main}
`)},
		"clerk.md": {Data: []byte("Keep the notes.")},
		"script.yaml": {Data: []byte(`agents:
  clerk:
    - when: eq (len .Results) 1
      say: '{{ (index .Results 0).Output }}'
    - call: [{tool: SlashCommand, input: {command: /review a.md}}]
`)},
	}))
	file := filepath.Join(root, "local", "main", ".claude", "commands", "review.md")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("---\ndescription: Reviews a note\n---\nLook at $1 twice."), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.Session("desk").Send("look at a.md"); got.Response == nil || got.Response.Message != "Look at a.md twice." {
		t.Errorf("%+v %+v", got, got.Response)
	}
}
