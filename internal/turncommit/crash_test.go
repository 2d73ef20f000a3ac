package turncommit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/turncommit"
)

// TestCrashEverywhere: turns with a file, a post and a page have ended; others have pushed something that
// fits, and something that does not. The server dies at each point of what comes then. In the end there
// are the same commits, and no others.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s, p := g.session("sebastian"), g.session("petra")
		g.settled()
		write(t, g.vault, ".git/index.lock", "") // of somebody's git, so that nothing is committed yet
		g.turn(s, "write and post", writes("a.md", "a\n"), call{"post", map[string]any{}}, call{"WebFetch", map[string]any{"url": "https://example.com/"}})
		g.turn(p, "does not fit", call{"Read", map[string]any{"file_path": "notes.md"}}, writes("notes.md", "Here.\n"))
		g.turn(p, "fails", writes("b.md", "b\n"), call{Tool: "fail"})
		person := filepath.Join(g.dir, "person")
		write(t, person, "petra/notes.md", "Elsewhere.\n")
		write(t, person, "sebastian/c.md", "c\n")
		git(t, person, "add", "-A")
		git(t, person, "commit", "-qm", "elsewhere")
		git(t, person, "push", "-q")
		outcome := func(points func(string) error) (*rig, string) {
			dir := t.TempDir()
			data := filepath.Join(dir, "data")
			for from, to := range map[string]string{g.vault: "vault", filepath.Join(g.dir, "remote.git"): "remote.git", g.data: "data"} {
				if err := os.CopyFS(filepath.Join(dir, to), os.DirFS(from)); err != nil {
					t.Fatal(err)
				}
			}
			vault := filepath.Join(dir, "vault")
			if err := os.Remove(filepath.Join(vault, ".git/index.lock")); err != nil {
				t.Fatal(err)
			}
			again := &rig{Rig: g.Rig, dir: dir, vault: vault, data: data, change: func(o *turncommit.Options) { o.At = points }}
			again.restarted()
			again.change = func(*turncommit.Options) {}
			again.restarted()
			text := ""
			for _, at := range []string{vault, filepath.Join(dir, "remote.git")} {
				text += fmt.Sprintf("%q %q\n", filepath.Base(at), again.history(at))
				for branch := range strings.FieldsSeq(git(t, at, "for-each-ref", "--format=%(refname:short)", "refs/heads/parley")) {
					text += fmt.Sprintf("kept, with the change: %t\n", git(t, at, "show", branch+":petra/notes.md") == "Here.\n")
				}
			}
			for _, name := range []string{"sebastian/a.md", "sebastian/c.md", "sebastian/linkedin/posts.csv", "petra/notes.md", "petra/b.md"} {
				text += fmt.Sprintf("%s: %q\n", name, read(vault, name))
			}
			left, _ := filepath.Glob(filepath.Join(vault, ".git", "*.lock"))
			for _, name := range left {
				if fi, err := os.Stat(name); err != nil || fi.Size() > 0 {
					text += "left: " + filepath.Base(name) + "\n"
				}
			}
			return again, text + git(t, vault, "status", "--porcelain", "-uall")
		}
		var points []string
		_, want := outcome(func(p string) error { points = append(points, p); return nil })
		t.Logf("%d points: %q\n%s", len(points), points, want)
		for k := range points {
			if testing.Short() && k%4 != 0 {
				continue
			}
			n := 0
			_, got := outcome(func(string) error {
				if n++; n > k {
					return errors.New("dead")
				}
				return nil
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("dead at %d %s: %s", k, points[k], diff)
			}
		}
		if err := os.Remove(filepath.Join(g.vault, ".git/index.lock")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
	})
}
