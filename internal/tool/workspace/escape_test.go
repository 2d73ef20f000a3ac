package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/files/filestest"
)

// TestEscapes tries each path as each argument of each tool that takes one. Nothing outside is read,
// listed or changed, and nothing in .git.
func TestEscapes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	top := d.dir
	d.dir = filestest.Furnish(t, top)
	before := filestest.Everything(t, top, "")
	distinct, tried := map[string]bool{}, 0
	for _, p := range filestest.Outside {
		distinct[p] = true
		for _, c := range []struct {
			tool  string
			input in
		}{
			{"Read", in{"file_path": p}},
			{"Write", in{"file_path": p, "content": "EVIL"}},
			{"Write", in{"file_path": p + "/new.md", "content": "EVIL"}},
			{"Edit", in{"file_path": p, "old_string": "SECRET", "new_string": "EVIL"}},
			{"Edit", in{"file_path": p, "old_string": "", "new_string": "EVIL"}},
			{"NotebookEdit", in{"notebook_path": p, "cell_id": "a", "new_source": "EVIL"}},
			{"Grep", in{"pattern": "SECRET|root:", "path": p, "output_mode": "content"}},
			{"Grep", in{"pattern": "SECRET|root:", "glob": p, "output_mode": "content"}},
			{"Glob", in{"pattern": "*", "path": p}},
			{"Glob", in{"pattern": p}},
			{"Glob", in{"pattern": p + "/**"}},
		} {
			tried++
			res := d.run(c.tool, c.input)
			// A refusal and a list may name the path that was asked for, and nothing else of it.
			said := strings.ReplaceAll(res.Output, "secret", "")
			if strings.Contains(said, "SECRET") || strings.Contains(said, "root:") || strings.Contains(said, top) || res.Output == "secret" || strings.Contains(res.Output, "secret.md\n") {
				t.Errorf("%s %q: %q", c.tool, c.input, res.Output)
			}
		}
	}
	// What has an odd name, and no more, may be made inside.
	if diff := cmp.Diff(before, filestest.Everything(t, top, d.dir)); diff != "" {
		t.Error("something outside, or in .git, has changed:", diff)
	}
	if len(distinct) < 100 {
		t.Errorf("only %d paths", len(distinct))
	}
	t.Logf("%d paths, %d attempts", len(distinct), tried)
}

// TestEscapeRaces: while a folder and a file are swapped for links to the outside all the time, no tool
// reads or changes anything there.
func TestEscapeRaces(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	top := d.dir
	d.dir = filepath.Join(top, "vault")
	for at, body := range map[string]string{"other/note.md": "SECRET\n", "secret.md": "SECRET\n", "vault/sub/note.md": "mine\n", "vault/file.md": "mine\n"} {
		full := filepath.Join(top, at)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for at, to := range map[string]string{"sub": "../other", "file.md": "../secret.md"} {
		real, fake := filepath.Join(d.dir, at), filepath.Join(d.dir, at+".fake")
		if err := os.Symlink(to, fake); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Rename(real, real+".kept")
				_ = os.Rename(fake, real)
				_ = os.Rename(real, fake)
				_ = os.Rename(real+".kept", real)
			}
		})
	}
	for n := range 60 {
		name := []string{"sub/note.md", "file.md"}[n%2]
		for _, res := range []string{
			d.run("Read", in{"file_path": name}).Output,
			d.run("Grep", in{"pattern": "SECRET|mine", "output_mode": "content", "path": []string{".", "sub", name}[n%3]}).Output,
			d.run("Write", in{"file_path": name, "content": "mine\n"}).Output,
			d.run("Edit", in{"file_path": name, "old_string": "SECRET", "new_string": "EVIL"}).Output,
			d.run("Write", in{"file_path": "sub/new.md", "content": "mine\n"}).Output,
		} {
			if strings.Contains(res, "SECRET") {
				t.Errorf("%s: %s", name, res)
			}
		}
	}
	close(stop)
	wg.Wait()
	for _, at := range []string{"other/note.md", "secret.md"} {
		if body, err := os.ReadFile(filepath.Join(top, at)); err != nil || string(body) != "SECRET\n" {
			t.Errorf("%s is %q, %v", at, body, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(top, "other", "new.md")); err == nil {
		t.Error("a file was made outside")
	}
}
