package notes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/workspace"
)

// TestVault_git: the settings of git are checked, and doctor hears what stands in the way.
func TestVault_git(t *testing.T) {
	dir := t.TempDir()
	open := func(g config.GitFile) (app.Service, error) {
		a := &config.App{Git: g, Workspaces: &workspace.Options{Granted: workspace.Granted{Dir: dir}}}
		a.Name = "notes"
		return notes.App().Tools["vault"](app.ToolDeps{App: a})
	}
	says := func(s app.Service) string {
		var list []string
		for _, f := range s.Inspect(t.Context()) {
			if f.Warn != nil {
				f.Says = "warn: " + f.Warn.Error()
			}
			list = append(list, f.Says)
		}
		return strings.ReplaceAll(strings.Join(list, "; "), dir, "DIR")
	}
	s, err := open(config.GitFile{Author: "{person} by Parley <{person}@example.com>", Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Secrets) != 1 || s.Secrets[0] != "t0ken" || s.Notices() != nil {
		t.Errorf("the secrets are %q, the notices %q", s.Secrets, s.Notices())
	}
	if got := says(s); got != "DIR is no git repository, so changes are not committed" {
		t.Errorf("doctor says %q", got)
	}
	s.Close() // it was never started
	if s, err = open(config.GitFile{Off: true}); err != nil {
		t.Fatal(err)
	}
	if got := says(s); got != "changes in DIR are not committed, as the settings say" {
		t.Errorf("doctor says %q", got)
	}
	t.Setenv("PATH", t.TempDir())
	makeRepository(t, dir)
	if s, err = open(config.GitFile{}); err != nil {
		t.Fatal(err)
	}
	if got := says(s); !strings.HasPrefix(got, "warn: the program git is missing: ") {
		t.Errorf("doctor says %q", got)
	}
}

// makeRepository makes as much of one as is looked at before the program git is needed.
func makeRepository(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}
