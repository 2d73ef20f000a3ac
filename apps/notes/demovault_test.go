package notes_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/apps/notes"
)

// today is the day of the tests with the demo's vault.
var today = time.Date(2026, 3, 10, 15, 30, 0, 0, time.UTC)

// git runs the git program in dir.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, []string{"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// tree are the files below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p != dir: // what git had there only for a moment
			return nil
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		body, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, _ := filepath.Rel(dir, p)
		found[filepath.ToSlash(rel)] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestLayVault: the demo's vault is the same with git and without. It is laid once: what a person
// has made of it since stays, and comes back from the remote repository if the folder is gone.
func TestLayVault(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git here")
	}
	plain, dir := filepath.Join(t.TempDir(), "notes"), filepath.Join(t.TempDir(), "demo", "notes")
	for at, with := range map[string]string{plain: "", dir: program} {
		if err := notes.LayVault(t.Context(), at, with, today); err != nil {
			t.Fatal(err)
		}
	}
	found := tree(t, dir)
	if diff := cmp.Diff(tree(t, plain), found); diff != "" {
		t.Error(diff)
	}
	for _, who := range []string{"petra", "sebastian"} {
		count := map[string]int{}
		for name, body := range found {
			if !strings.HasPrefix(name, who+"/") {
				continue
			}
			count[filepath.Ext(name)]++
			if utf8.ValidString(body) && strings.Contains(body, "{{") {
				t.Errorf("%s has a date that was not filled in", name)
			}
		}
		if count[".md"] < 40 || count[".md"] > 60 || count[".csv"] != 2 || count[".png"] != 1 || count[".pdf"] != 1 || count[".ipynb"] != 1 {
			t.Errorf("the vault of %s has %v", who, count)
		}
	}
	if !strings.Contains(found["petra/Journal/2026-03-09.md"], "# Monday 9 March 2026") {
		t.Error("the journal is not of yesterday")
	}
	if out := git(t, dir, "status", "--porcelain"); out != "" {
		t.Errorf("the vault is not as it was committed: %s", out)
	}
	if out := git(t, dir, "log", "--format=%ad %an %s", "--date=short", "-2"); !strings.Contains(out, "2026-03-09 Petra Lindner Notes of 2026-03-09") {
		t.Errorf("the history begins %s", out)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".laying-*")); left != nil {
		t.Errorf("left: %v", left)
	}

	mine := filepath.Join(dir, "petra", "Home.md")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := notes.LayVault(t.Context(), dir, program, today); err != nil {
		t.Fatal(err)
	}
	if body, _ := os.ReadFile(mine); !bytes.Equal(body, []byte("mine")) {
		t.Error("a note was overwritten")
	}
	git(t, dir, "-c", "user.name=p", "-c", "user.email=p@example.com", "commit", "-qam", "mine")
	git(t, dir, "push", "-q", "origin", "HEAD")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := notes.LayVault(t.Context(), dir, program, today); err != nil {
		t.Fatal(err)
	}
	if body, _ := os.ReadFile(mine); !bytes.Equal(body, []byte("mine")) {
		t.Error("what was pushed did not come back")
	}
}

var wikiLink = regexp.MustCompile(`\[\[([^\]|#]+)`)

// TestDemoLinks: each link between the demo's notes leads to a note.
func TestDemoLinks(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "notes")
	if err := notes.LayVault(t.Context(), dir, "", today); err != nil {
		t.Fatal(err)
	}
	found, links := tree(t, dir), 0
	for name, body := range found {
		if filepath.Ext(name) != ".md" {
			continue
		}
		person, _, _ := strings.Cut(name, "/")
		for _, m := range wikiLink.FindAllStringSubmatch(body, -1) {
			links++
			_, here := found[filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))+".md"]
			if _, root := found[person+"/"+m[1]+".md"]; !here && !root {
				t.Errorf("%s links to [[%s]], which is not there", name, m[1])
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(body, -1) {
			links++
			if _, ok := found[filepath.ToSlash(filepath.Join(filepath.Dir(name), m[1]))]; !ok {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
	if links < 60 {
		t.Errorf("there are only %d links", links)
	}
}
