package files_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
)

// folder makes a folder with files, beside a secret that nothing may reach.
func folder(t *testing.T, with map[string]string) (tree files.Tree, dir string) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "vault")
	write(t, filepath.Join(top, "secret"), "SECRET")
	write(t, filepath.Join(top, "other", "secret.md"), "SECRET")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, body := range with {
		write(t, filepath.Join(dir, name), body)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return files.Of(root), dir
}

func write(t *testing.T, name, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}

func code(err error) parley.Code { return parley.Info(err).Code }

func TestClean(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a.md": "a.md", "./a/../b.md": "b.md", "a//b/.": "a/b", "": ".", ".": ".", "a/": "a", "a/..": ".", "ä/ö.md": "ä/ö.md",
		".gitignore": ".gitignore", "notes/.github/x": "notes/.github/x", "a git~1": "a git~1", ".gitx": ".gitx",
	} {
		if got, err := files.Clean(name); err != nil || got != want {
			t.Errorf("Clean(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

// escapes are paths that must reach nothing.
var escapes = []string{
	"..", "../secret", "../../etc/passwd", "a/../../secret", "./../secret", "a/b/../../../secret", "/etc/passwd", "//etc/passwd", "/", "///",
	"~/../../secret\x00", "a\x00b", "..\x00", `..\secret`, `a\..\..\secret`, `\\server\share`, `C:\secret`, "a/./../../secret", "....//../../secret",
	"../vault/../secret", "../vault-evil/x", "a/" + strings.Repeat("../", 40) + "etc/passwd", strings.Repeat("a/", 70) + "x", strings.Repeat("a", 300), strings.Repeat("ab/", 400),
	".git", ".git/config", ".GIT/config", ".Git", "sub/.git/hooks/pre-commit", "sub/.GIT", ".git./config", ".git /config", ".git. . /config", ".git::$INDEX_ALLOCATION/config",
	"git~1/config", "GIT~1", ".g\u200cit/config", ".gi\u200dt", "\ufeff.git/config", ".git\u200e", ".\u202egit", ".gi\u206ft", "a/../.git/config", "./.git", ".git/", ".git/../.git/x",
	"a\nb", "a\tb", "a\x7fb", "\xff\xfe", "a/\xc3\x28", "\x1b[31m", "a/..\x00/b",
	"link", "link/secret.md", "inlink", "inlink/x", "chain", "chain/secret.md", "gitlink/config", "abs", "rel", "loop", "loop/x", "dangling", "sub/up", "sub/up/secret", "sub/deep/link/secret.md",
	"hard.md", "pipe", "socket",
}

// TestEscapes: none of the paths is read, written, deleted or walked, and what is outside stays as it is.
func TestEscapes(t *testing.T) {
	t.Parallel()
	tree, dir := folder(t, map[string]string{"a/b/c.md": "c", "sub/x.md": "x", ".git/config": "[core]", "sub/deep/y.md": "y", "real/z.md": "z"})
	link := func(to, at string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	link("../other", "link")
	link("real", "inlink")
	link("link", "chain")
	link(".git", "gitlink")
	link(filepath.Join(filepath.Dir(dir), "secret"), "abs")
	link("../secret", "rel")
	link("loop", "loop")
	link("nowhere", "dangling")
	link("../..", "sub/up")
	link("../../../other", "sub/deep/link")
	if err := os.Link(filepath.Join(filepath.Dir(dir), "secret"), filepath.Join(dir, "hard.md")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mknod(filepath.Join(dir, "socket"), syscall.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	before := contents(t, filepath.Dir(dir))
	tried := 0
	for _, name := range escapes {
		for what, err := range map[string]error{
			"read": func() error { _, err := tree.Read(name, 1<<20); return err }(),
			"new":  func() error { _, err := tree.Apply(files.Change{Path: name, Body: []byte("EVIL")}); return err }(),
			"change": func() error {
				_, err := tree.Apply(files.Change{Path: name, Body: []byte("EVIL"), Was: files.VersionOf([]byte("SECRET"))})
				return err
			}(),
			"delete": func() error {
				_, err := tree.Apply(files.Change{Path: name, Gone: true, Was: files.VersionOf([]byte("SECRET"))})
				return err
			}(),
			"below": func() error {
				_, err := tree.Apply(files.Change{Path: name + "/new.md", Body: []byte("EVIL")})
				return err
			}(),
		} {
			tried++
			if what == "below" && (name == "hard.md" || name == "pipe" || name == "socket") {
				continue // these are no folders
			}
			if err == nil {
				t.Errorf("%s %q: no error", what, name)
			} else if c := code(err); c == parley.CodeInternal || strings.Contains(err.Error(), dir) {
				t.Errorf("%s %q: %v (%s)", what, name, err, c)
			}
		}
	}
	if after := contents(t, filepath.Dir(dir)); !cmp.Equal(before, after) {
		t.Error("something was changed:", cmp.Diff(before, after))
	}
	var seen []string
	if err := tree.Walk(t.Context(), ".", files.Walk{Ignored: true}, func(e files.Entry) error {
		if f, err := e.Open(); err == nil {
			body, _ := io.ReadAll(f)
			_ = f.Close()
			if strings.Contains(string(body), "SECRET") {
				t.Errorf("the walk reached %s", e.Path)
			}
			seen = append(seen, e.Path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a/b/c.md", "real/z.md", "sub/deep/y.md", "sub/x.md"}; !slices.Equal(seen, want) {
		t.Errorf("the walk saw %q, want %q", seen, want)
	}
	if tried < 300 {
		t.Errorf("only %d attempts", tried)
	}
}

// contents are the files of a folder, with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			body, _ := os.ReadFile(p)
			all[p] = string(body)
		} else if err == nil {
			all[p] = d.Type().String()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRaces: while a folder and a file are swapped for links all the time, nothing outside is read or written.
func TestRaces(t *testing.T) {
	t.Parallel()
	tree, dir := folder(t, map[string]string{"sub/secret.md": "mine", "file.md": "mine"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	swap := func(at, to string) {
		wg.Go(func() {
			real, fake := filepath.Join(dir, at), filepath.Join(dir, at+".fake")
			_ = os.Symlink(to, fake)
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
	swap("sub", "../other")
	swap("file.md", "../secret")
	done := 0
	for n := range 3000 {
		for _, name := range []string{"sub/secret.md", "file.md"} {
			if body, err := tree.Read(name, 1<<20); err == nil {
				done++
				if string(body) == "SECRET" {
					t.Errorf("%s: read what is outside", name)
				}
			}
		}
		if n%10 > 0 {
			continue // a change waits for the disk
		}
		_, _ = tree.Apply(files.Change{Path: "sub/new.md", Body: []byte("EVIL"), Was: ""})
		_, _ = tree.Apply(files.Change{Path: "sub/new.md", Gone: true, Was: files.VersionOf([]byte("EVIL"))})
	}
	close(stop)
	wg.Wait()
	for _, name := range []string{"other/secret.md", "secret"} {
		if body, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), name)); string(body) != "SECRET" {
			t.Errorf("%s is %q", name, body)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "other", "new.md")); err == nil {
		t.Error("a file was made outside")
	}
	if done == 0 {
		t.Error("nothing was ever read")
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	tree, dir := folder(t, map[string]string{"a.md": "one"})
	if err := os.Chmod(filepath.Join(dir, "a.md"), 0o640); err != nil {
		t.Fatal(err)
	}
	one, two := files.VersionOf([]byte("one")), files.VersionOf([]byte("two"))
	apply := func(c files.Change) error { _, err := tree.Apply(c); return err }

	if err := apply(files.Change{Path: "a.md", Body: []byte("two"), Was: one}); err != nil {
		t.Fatal(err)
	}
	if fi, _ := os.Stat(filepath.Join(dir, "a.md")); fi.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v", fi.Mode())
	}
	for what, c := range map[string]files.Change{
		"changed since": {Path: "a.md", Body: []byte("three"), Was: one},
		"there already": {Path: "a.md", Body: []byte("three")},
		"not there":     {Path: "b.md", Body: []byte("three"), Was: one},
		"gone already":  {Path: "b.md", Gone: true, Was: one},
		"other content": {Path: "a.md", Gone: true, Was: one},
	} {
		if err := apply(c); !files.IsChanged(err) || code(err) != parley.CodeConflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	made, err := tree.Apply(files.Change{Path: "x/y/z.md", Body: []byte("new"), Tag: "call-1"})
	if err != nil || !slices.Equal(made, []string{"x", "x/y"}) {
		t.Fatalf("made %q, %v", made, err)
	}
	if err := apply(files.Change{Path: "x/y/z.md", Gone: true, Was: files.VersionOf([]byte("new"))}); err != nil {
		t.Fatal(err)
	}
	tree.RemoveEmpty(made...)
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("the empty folders are still there")
	}
	tree.RemoveEmpty(".")
	if got, _ := tree.Read("a.md", 10); files.VersionOf(got) != two {
		t.Errorf("a.md is %q", got)
	}
	if _, err := tree.Read("a.md", 2); code(err) != parley.CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
	if err := apply(files.Change{Path: "big.md", Body: make([]byte, files.MaxFile+1)}); code(err) != parley.CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
	if left := contents(t, dir); len(left) != 2 {
		t.Errorf("left over: %v", left)
	}
}

// TestApplyAtOnce: of many changes of one version, exactly one is made.
func TestApplyAtOnce(t *testing.T) {
	t.Parallel()
	tree, _ := folder(t, map[string]string{"a.md": "0"})
	for n := range 20 {
		was := files.VersionOf(fmt.Append(nil, n))
		var wg sync.WaitGroup
		won := make(chan int, 8)
		for range 8 {
			wg.Go(func() {
				switch _, err := tree.Apply(files.Change{Path: "a.md", Body: fmt.Append(nil, n+1), Was: was}); {
				case err == nil:
					won <- 1
				case !files.IsChanged(err):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d changes of one version were made", len(won))
		}
	}
}

// TestLeftover: what a crash in the middle of a change leaves is in no walk, and can be removed.
func TestLeftover(t *testing.T) {
	t.Parallel()
	tree, dir := folder(t, map[string]string{"a.md": "one"})
	full := filepath.Join(dir, files.TemporaryName("call-7"))
	write(t, full, "half")
	_ = tree.Walk(t.Context(), ".", files.Walk{Ignored: true}, func(e files.Entry) error {
		if e.Path != "a.md" {
			t.Errorf("the walk saw %s", e.Path)
		}
		return nil
	})
	tree.Tidy("a.md", "call-7")
	if _, err := os.Stat(full); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is still there")
	}
}

// TestIgnore compares the walk with what git lists.
func TestIgnore(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	with := map[string]string{
		".gitignore":     "*.log\n!keep.log\n/build/\nnode_modules/\ndoc/*.txt\n# a comment\n\n\\#hash\n\\!bang\nspace\\ \ntrailing   \n**/deep/x\nabc/**\na/**/z\n[bc].tmp\n?.one\n{x,y}.z\n/only\nfoo/bar/\n*.d/\n",
		"sub/.gitignore": "!again.log\n/here.md\nnested/*\n!nested/yes.md\n",
	}
	for _, name := range []string{
		"a.log", "keep.log", "sub/a.log", "sub/keep.log", "sub/again.log", "build/x", "sub/build/x", "node_modules/p/i.js", "sub/node_modules/q.js", "doc/a.txt", "doc/b/a.txt", "sub/doc/a.txt",
		"#hash", "!bang", "space ", "trailing", "p/deep/x", "deep/x", "deep/y", "abc/d/e", "abc/f", "a/z", "a/b/z", "a/b/c/z", "a/q", "b.tmp", "c.tmp", "d.tmp", "x.one", "xx.one",
		"x.z", "{x,y}.z", "only", "sub/only", "foo/bar/x", "foo/bars", "sub/foo/bar/x", "v.d/x", "v.d2", "sub/here.md", "sub/more/here.md", "sub/nested/no.md", "sub/nested/yes.md", "Ä.md", "sub/Ö/ß.md",
	} {
		with[name] = "x"
	}
	tree, dir := folder(t, with)
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "core.excludesFile=/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	git("init", "-q")
	var want []string
	for name := range strings.SplitSeq(strings.TrimRight(git("ls-files", "-co", "--exclude-standard", "-z"), "\x00"), "\x00") {
		if !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	for _, from := range []string{".", "sub", "sub/nested", "a/b"} {
		var got, some []string
		if err := tree.Walk(context.Background(), from, files.Walk{}, func(e files.Entry) error { got = append(got, e.Path); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, name := range want {
			if from == "." || strings.HasPrefix(name, from+"/") {
				some = append(some, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, some) {
			t.Errorf("from %s: %s", from, cmp.Diff(some, got))
		}
	}
}

func TestGuarded(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		".mcp.json": true, "a/.MCP.json": true, ".claude/settings.json": true, "x/.agents/skills/a/SKILL.md": true, "AGENTS.md": true, "agents.md": true, "sub/CLAUDE.md": true,
		"claude.local.md": true, "CLAUDE.md. ": true, "mcp.json": false, "claude/x.md": false, "AGENTS.md.bak": false, "notes/agents.txt": false,
	} {
		if got := files.Guarded(name); got != want {
			t.Errorf("Guarded(%q) = %v", name, got)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, name := range escapes {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := files.Clean(name)
		if err != nil {
			return
		}
		if again, err := files.Clean(got); err != nil || again != got {
			t.Errorf("Clean(%q) = %q, and again %q, %v", name, got, again, err)
		}
		if !filepath.IsLocal(got) || strings.ContainsAny(got, "\\\x00") || slices.ContainsFunc(strings.Split(got, "/"), files.IsGit) {
			t.Errorf("Clean(%q) = %q", name, got)
		}
	})
}
