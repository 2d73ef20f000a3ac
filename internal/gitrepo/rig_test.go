package gitrepo_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/gitrepo"
)

// rig is a vault with a remote, and a clone in which a person works.
type rig struct {
	t                     *testing.T
	folder                func() string // makes one
	vault, remote, person string
	repo                  *gitrepo.Repo
}

var parley = gitrepo.Ident{Name: "Parley", Email: "parley@localhost"}

// day is when the commits of tests are made.
var day = time.Date(2026, 11, 27, 9, 30, 0, 0, time.FixedZone("", 3600))

// newRig makes a vault with a first commit, which the remote has.
func newRig(t *testing.T, change ...func(*gitrepo.Options)) *rig {
	t.Helper()
	return copyRig(t, first(t), change...)
}

// copyRig makes a rig of the folders of another.
func copyRig(t *testing.T, from string, change ...func(*gitrepo.Options)) *rig {
	t.Helper()
	return rigIn(t, t.TempDir, from, change...)
}

// quickRig is copyRig in memory, where the system has a place for files there. git syncs what it
// writes, which costs the disk most of the time of a test; the tests with many cases are not about
// that, and the others are on the disk.
func quickRig(t *testing.T, from string, change ...func(*gitrepo.Options)) *rig {
	t.Helper()
	return rigIn(t, func() string { return memory(t) }, from, change...)
}

// memory is a folder in memory, or a temporary one.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gitrepo-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func rigIn(t *testing.T, folder func() string, from string, change ...func(*gitrepo.Options)) *rig {
	t.Helper()
	dir := folder()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	g := &rig{t: t, folder: folder, vault: filepath.Join(dir, "vault"), remote: filepath.Join(dir, "remote.git"), person: filepath.Join(dir, "person")}
	g.open(change...)
	return g
}

// first makes the folders of a rig once.
var first = func() func(t *testing.T) string {
	var once sync.Once
	var dir string
	return func(t *testing.T) string {
		once.Do(func() {
			dir = filepath.Join(shared, "first")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			vault := filepath.Join(dir, "vault")
			git(t, dir, "init", "-q", "--bare", "-b", "main", "remote.git")
			git(t, dir, "init", "-q", "-b", "main", "vault")
			git(t, vault, "remote", "add", "origin", "../remote.git")
			write(t, vault, "sebastian/a.md", "one\ntwo\nthree\n")
			write(t, vault, "petra/p.md", "p\n")
			git(t, vault, "add", ".")
			git(t, vault, "commit", "-q", "-m", "first")
			git(t, vault, "push", "-q", "-u", "origin", "main")
			git(t, dir, "clone", "-q", "remote.git", "person")
			git(t, filepath.Join(dir, "person"), "remote", "set-url", "origin", "../remote.git")
		})
		return dir
	}
}()

// theirs makes the folders of a rig once in which somebody has pushed from elsewhere.
var theirs = func() func(t *testing.T) string {
	var once sync.Once
	var dir string
	return func(t *testing.T) string {
		from := first(t)
		once.Do(func() {
			dir = filepath.Join(shared, "theirs")
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			g := &rig{t: t, vault: filepath.Join(dir, "vault"), remote: filepath.Join(dir, "remote.git"), person: filepath.Join(dir, "person")}
			g.elsewhere("theirs", "sebastian/a.md", "one\ntwo\nthree\nfour\n", "petra/p.md", "p\nq\n")
		})
		return dir
	}
}()

// shared is a folder of all tests.
var shared string

func TestMain(m *testing.M) {
	if spec := os.Getenv(serverVariable); spec != "" {
		os.Exit(server(spec))
	}
	var err error
	if shared, err = os.MkdirTemp("", "gitrepo-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

func (g *rig) open(change ...func(*gitrepo.Options)) {
	g.t.Helper()
	o := gitrepo.Options{Dir: g.vault, Private: g.folder()}
	for _, f := range change {
		f(&o)
	}
	r, err := gitrepo.Open(g.t.Context(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.repo = r
}

// commit commits folders, and returns the files that the commit has.
func (g *rig) commit(message string, paths ...string) []string {
	g.t.Helper()
	made, err := g.repo.Commit(g.t.Context(), plain(message, paths...))
	if err != nil {
		g.t.Fatal(err)
	}
	return made.Files
}

func plain(message string, paths ...string) gitrepo.Commit {
	return gitrepo.Commit{Paths: paths, Message: func([]string) string { return message + "\n\nParley-Turn: " + message }, Author: parley, When: day}
}

func (g *rig) pull() gitrepo.Synced {
	g.t.Helper()
	s, err := g.repo.Pull(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *rig) push() gitrepo.Synced {
	g.t.Helper()
	s, err := g.repo.Push(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// clean checks that nothing is left over in the vault: no lock, and no change that nobody made.
func (g *rig) clean(want ...string) {
	g.t.Helper()
	var got []string
	for l := range strings.Lines(git(g.t, g.vault, "status", "--porcelain", "-uall")) {
		got = append(got, strings.TrimRight(l, "\n"))
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("git status of the vault says %q, want %q", got, want)
	}
	for _, name := range leftovers(g.t, g.vault) {
		g.t.Errorf("%s is left over", name)
	}
}

// leftovers are locks and files of an unfinished piece of work.
func leftovers(t *testing.T, vault string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(vault, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case name == "parley.lock" || name == "parley-remote.lock":
			if body, err := os.ReadFile(path); err != nil || len(body) > 0 {
				list = append(list, path+" which is not empty")
			}
		case strings.HasSuffix(name, ".lock"), strings.HasPrefix(name, ".parley-new-"), name == "parley-advance", name == "parley-index", strings.HasPrefix(name, "rebase-"), name == "MERGE_HEAD":
			list = append(list, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// git runs a person's git, with none of this machine's configuration.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ana", "GIT_AUTHOR_EMAIL=ana@example.com", "GIT_COMMITTER_NAME=Ana", "GIT_COMMITTER_EMAIL=ana@example.com",
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(errs.String()))
	}
	return string(out), err
}

// log is the subjects of a branch, oldest first.
func log(t testing.TB, dir, ref string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(git(t, dir, "log", "--reverse", "--format=%s", ref, "--")), "\n")
}

func write(t testing.TB, dir, name, body string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(body), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return "(none)"
	}
	return string(body)
}

// elsewhere has the person change files in the clone, commit and push.
func (g *rig) elsewhere(message string, files ...string) {
	g.t.Helper()
	git(g.t, g.person, "pull", "-q", "--rebase")
	for i := 0; i < len(files); i += 2 {
		if files[i+1] == "" {
			git(g.t, g.person, "rm", "-q", files[i])
			continue
		}
		write(g.t, g.person, files[i], files[i+1])
	}
	git(g.t, g.person, "add", "-A")
	git(g.t, g.person, "commit", "-q", "-m", message)
	git(g.t, g.person, "push", "-q", "origin", "HEAD:main")
}
