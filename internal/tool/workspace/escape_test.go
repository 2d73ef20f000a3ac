package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outside are paths from a workspace to what is not in it, or is git's. SECRET is in all files there.
var outside = []string{
	"..", "../secret", "../other/secret.md", "./../secret", "a/../../secret", "a/b/../../../secret", "a/./../../secret", "a/../a/../../secret", "missing/../../secret", "a//..//..//secret", "../vault/../secret", "../vault-evil/secret.md",
	"a/" + strings.Repeat("../", 40) + "etc/passwd", "..//secret", ".././secret", "../secret/", "../secret/.", "../../../../../../../../etc/hostname",
	"/etc/passwd", "//etc/passwd", "///etc/passwd", "/", "/proc/self/environ", "/proc/self/cwd/../secret", "/dev/stdin", "/..", "/../etc/passwd", "/./etc/passwd", "~/secret", "~root/secret", "$HOME/secret", "${HOME}/secret", "%2e%2e/secret", "%2e%2e%2fsecret", "..%2fsecret",
	"..%c0%afsecret", "..%252fsecret", "file:///etc/passwd", "file:../secret", "....//secret", "..././secret", "..;/secret", ".. /secret", ". ./secret", "..\u200b/secret", "\u2024\u2024/secret", "\uff0e\uff0e/secret", "..\u2215secret", "..\uff0fsecret", "..\u2044secret", "\u202e../secret",
	`..\secret`, `a\..\..\secret`, `\\server\share\secret`, `C:\secret`, "C:/secret", "C:secret", `\\?\C:\secret`, `//?/C:/secret`, "NUL", "CON/../../secret", "secret::$DATA", "../secret\x00.md", "a\x00/../../secret", "..\x00/secret", "..\n/secret", "..\r/secret", "..\t/secret", "\x1b[A../secret", "\xff/../../secret", "..\xc0\xafsecret", "\xed\xa0\x80/../secret",
	".git", ".git/config", ".GIT/config", ".Git/config", "sub/.git/config", ".git./config", ".git /config", ".git. . /config", ".git::$INDEX_ALLOCATION/config", "git~1/config", "GIT~1/config", ".g\u200cit/config", ".gi\u200dt/config", "\ufeff.git/config", ".git\u200e/config", ".\u202egit/config", "a/../.git/config", "./.git/config", ".git//config", ".git/../.git/config",
	"link", "link/secret.md", "chain", "chain/secret.md", "abs", "rel", "loop", "loop/x", "dangling", "sub/up", "sub/up/secret", "sub/deep/link/secret.md", "gitlink/config", "inlink/../../secret", "inlink/c.md", "procroot/etc/passwd", "self", "hard.md", "pipe", "socket", "A/B/C.md/../../../../secret", "link/../../secret", "link/./secret.md", "sub/deep/../up/secret",
	strings.Repeat("a/", 70) + "../secret", strings.Repeat("a", 300), strings.Repeat("ab/", 400) + "x",
}

// TestEscapes tries each path as each argument of each tool that takes one. Nothing outside is read,
// listed or changed, and nothing in .git.
func TestEscapes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	top := d.dir
	d.dir = filepath.Join(top, "vault")
	for _, at := range []string{"secret", "other/secret.md", "vault-evil/secret.md", "vault/.git/config", "vault/sub/.git/config"} {
		full := filepath.Join(top, at)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte("SECRET\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{"a/b/c.md", "sub/x.md", "sub/deep/y.md", "real/c.md"} {
		d.put(at, "mine\n")
	}
	for at, to := range map[string]string{
		"link": "../other", "inlink": "real", "chain": "link", "gitlink": ".git", "abs": filepath.Join(top, "secret"), "rel": "../secret", "loop": "loop", "dangling": "../nowhere",
		"sub/up": "../..", "sub/deep/link": "../../../other", "procroot": "/proc/self/root", "self": "/proc/self/environ",
	} {
		if err := os.Symlink(to, filepath.Join(d.dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{os.Link(filepath.Join(top, "secret"), filepath.Join(d.dir, "hard.md")), syscall.Mkfifo(filepath.Join(d.dir, "pipe"), 0o600), syscall.Mknod(filepath.Join(d.dir, "socket"), syscall.S_IFSOCK|0o600, 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := everything(t, top, "")
	distinct, tried := map[string]bool{}, 0
	for _, p := range outside {
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
	if diff := cmp.Diff(before, everything(t, top, d.dir)); diff != "" {
		t.Error("something outside, or in .git, has changed:", diff)
	}
	if len(distinct) < 100 {
		t.Errorf("only %d paths", len(distinct))
	}
	t.Logf("%d paths, %d attempts", len(distinct), tried)
}

// everything is what is below a folder: but for what is new below inside and neither git's nor a link's.
func everything(t *testing.T, dir, inside string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body := e.Type().String()
		if e.Type().IsRegular() {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if body = string(b); body == "EVIL" && inside != "" && strings.HasPrefix(p, inside+"/") && !strings.Contains(p, "/.git/") {
				return nil
			}
		}
		all[p] = body
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
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
