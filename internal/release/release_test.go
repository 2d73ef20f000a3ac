package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/parley-server/parley/internal/program"
)

const path = "github.com/parley-server/parley"

// TestStrangers: modules of others build and pass their tests against a release as a Go module proxy
// serves it. They are those of examples/, outside of this module, so that nothing of internal and no
// replace line reaches them.
func TestStrangers(t *testing.T) {
	if testing.Short() {
		t.Skip("builds everything anew")
	}
	if _, err := os.Stat("../../web/dist/index.html"); err != nil {
		t.Skip("the pages are not built, which a release has: make build")
	}
	repo, proxy := copied(t), t.TempDir()
	cache := strings.TrimSpace(run(t, repo, nil, "go", "env", "GOMODCACHE"))
	alone(t, filepath.Join(cache, "cache", "parley-"+testVersion+".lock"))
	forget := func() { // the go command takes a version for what never changes
		_ = os.RemoveAll(filepath.Join(cache, path+"@"+testVersion))
		left, _ := filepath.Glob(filepath.Join(cache, "cache/download", path, "@v", testVersion+".*"))
		for _, name := range left {
			_ = os.Remove(name)
		}
	}
	forget() // what a run left that was killed
	t.Cleanup(forget)
	commit, err := tag(repo, testVersion)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, proxy, repo, testVersion)
	if out := run(t, repo, nil, "git", "status", "--porcelain"); out != "" {
		t.Errorf("the release changed the work tree:\n%s", out)
	}
	if out := run(t, repo, nil, "git", "branch", "--contains", commit); out != "" {
		t.Errorf("the release is on a branch: %s", out)
	}

	// goindex=0: of a version that it has seen, the go command would take the list of files and imports
	// from its index in GOCACHE (cmd/go/internal/modindex), not from the folder.
	env := append(
		os.Environ(), "GODEBUG=goindex=0", "GOWORK=off", "GOFLAGS=-modcacherw", "GONOSUMDB="+path,
		"GOPROXY=file://"+filepath.ToSlash(proxy)+","+strings.TrimSpace(run(t, repo, nil, "go", "env", "GOPROXY")),
	)
	list, err := filepath.Glob("../../examples/*/go.mod")
	if err != nil || len(list) < 2 {
		t.Fatalf("the examples are %v, %v", list, err)
	}
	made, err := program.NewApp(t.TempDir(), "my-notes", "go")
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range append(list, filepath.Join(made, "go.mod")) {
		t.Run(filepath.Base(filepath.Dir(mod)), func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(mod))); err != nil {
				t.Fatal(err)
			}
			run(t, dir, env, "go", "mod", "edit", "-require="+path+"@"+testVersion)
			run(t, dir, env, "go", "mod", "tidy")
			if raw, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil || strings.Contains(string(raw), "replace") {
				t.Errorf("%v\n%s", err, raw)
			}
			run(t, dir, env, "go", "vet", "-trimpath", "./...")
			run(t, dir, env, "go", "test", "-trimpath", "-vet=off", "./...") // go vet checks more than go test does
		})
	}
}

// testVersion is the version that is released for a test. It is the same in each run and each clone, so
// that the go command compiles only what has changed since the last one: of a new version it would
// compile everything.
const testVersion = "v" + program.Version + "-test"

// alone waits until no other run of this test has the file, and keeps it.
func alone(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}

// TestReady: what is not ready is not tagged.
func TestReady(t *testing.T) {
	t.Parallel()
	own := "v" + program.Version
	for name, c := range map[string]struct {
		version string
		files   map[string]string
		want    string
	}{
		"no version":           {"1", nil, "is not a version"},
		"another version":      {"v99.0.0", nil, "the program's version is"},
		"no pages":             {own, nil, "the pages are not built"},
		"not committed":        {own, map[string]string{"web/dist/index.html": "", "new.txt": ""}, "new.txt"},
		"with a replaced line": {own, map[string]string{"web/dist/index.html": "", "go.mod": "module a\nreplace b => c v1.0.0\n"}, "go.mod replaces b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module a\n")
			write(t, filepath.Join(dir, ".gitignore"), "dist\n")
			for file, text := range c.files {
				if file != "new.txt" {
					write(t, filepath.Join(dir, file), text)
				}
			}
			commitAll(t, dir)
			if text, ok := c.files["new.txt"]; ok {
				write(t, filepath.Join(dir, "new.txt"), text)
			}
			if _, err := tag(dir, c.version); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// copied is a repository with the files of this one as they are now.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	names := run(t, "../..", nil, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) {
			continue // it is deleted
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(raw))
	}
	commitAll(t, dir)
	if err := os.RemoveAll(filepath.Join(dir, dist)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, dist), os.DirFS(filepath.Join("../..", dist))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// publish puts the tag of a repository into a module proxy, as one made from it would have it.
func publish(t *testing.T, proxy, repo, version string) {
	t.Helper()
	at := filepath.Join(proxy, path, "@v")
	var z bytes.Buffer
	if err := zip.CreateFromVCS(&z, module.Version{Path: path, Version: version}, repo, version, ""); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, version+".zip"), z.String())
	write(t, filepath.Join(at, version+".mod"), run(t, repo, nil, "git", "show", version+":go.mod"))
	write(t, filepath.Join(at, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":%q}`, version, time.Now().UTC().Format(time.RFC3339)))
	write(t, filepath.Join(at, "list"), version+"\n")
}

func commitAll(t *testing.T, dir string) {
	t.Helper()
	run(t, dir, nil, "git", "init", "-q")
	run(t, dir, nil, "git", "config", "user.name", "a")
	run(t, dir, nil, "git", "config", "user.email", "a@example.com")
	run(t, dir, nil, "git", "add", "--all")
	run(t, dir, nil, "git", "commit", "-q", "-m", "a")
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), errs.Bytes())
	}
	return out.String()
}
