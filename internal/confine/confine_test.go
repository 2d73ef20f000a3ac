//go:build linux && (amd64 || arm64)

package confine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/proc"
)

// TestMain is also the attacker of TestWaysOut.
func TestMain(m *testing.M) {
	if name := os.Getenv("CONFINE_ATTACK"); name != "" {
		attack(name)
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// box is a workspace beside something that nobody in it may reach.
type box struct {
	t      *testing.T
	dir    string // of everything
	space  string // the workspace
	secret string // a file outside
	job    confine.Job
}

func newBox(t *testing.T) *box {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if by, err := confine.Probe(t.Context(), dir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("commands cannot be confined here: ", err)
	} else if !strings.Contains(by, "Landlock") {
		t.Fatal(by)
	}
	b := &box{t: t, dir: dir, space: filepath.Join(dir, "workspace"), secret: filepath.Join(dir, "secret")}
	for _, name := range []string{"workspace", "root", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(b.secret, []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	work, err := confine.FolderAt(b.space)
	if err != nil {
		t.Fatal(err)
	}
	b.job = confine.Job{
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"}, Root: filepath.Join(dir, "root"), Workspace: work, Temporary: filepath.Join(dir, "tmp"),
		Guarded: []string{".mcp.json", ".claude", ".agents", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"},
		Limits:  confine.Limits{Memory: 256 << 20, Processes: 64, Disk: 64 << 20},
	}
	return b
}

// run runs a script in the sandbox.
func (b *box) run(script string) (string, confine.End) {
	b.t.Helper()
	j := b.job
	j.Args = []string{"/bin/sh", "-c", script}
	return b.do(b.t.Context(), j)
}

func (b *box) do(ctx context.Context, j confine.Job) (string, confine.End) {
	b.t.Helper()
	out, e, err := b.begin(ctx, j)()
	if err != nil {
		b.t.Fatal(err, out)
	}
	return out, e
}

// begin starts a command, and returns what waits for it.
func (b *box) begin(ctx context.Context, j confine.Job) func() (string, confine.End, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	spec, err := j.Spec()
	if err != nil {
		b.t.Fatal(err)
	}
	var out, said bytes.Buffer
	spec.Stdout, spec.Stderr = &out, &said
	p, err := proc.Start(ctx, spec)
	if err != nil {
		b.t.Fatal(err)
	}
	return func() (string, confine.End, error) {
		defer cancel()
		_ = p.Wait()
		e, err := j.Result(said.String())
		return out.String(), e, err
	}
}

// pipe makes a pipe with a name in the temporary folder, and returns what waits until somebody writes a line
// to it.
func (b *box) pipe(name string) func() {
	b.t.Helper()
	path := filepath.Join(b.job.Temporary, name)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		b.t.Helper()
		if _, err := os.ReadFile(path); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestNice runs a command for a server that has a low priority itself, as under nice or in a service with Nice=.
func TestNice(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	runtime.LockOSThread() // for good: the thread, whose priority cannot be raised again, ends with the test
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	if out, e := b.run("nice"); out != "19\n" || e != (confine.End{}) {
		t.Errorf("got %q, %+v", out, e)
	}
}

// TestCommand: a command works in its workspace and its temporary folder, with the programs of the
// system, and its exit code is known.
func TestCommand(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	out, e := b.run(`pwd; echo one > one.txt; mkdir -p a/b; mv one.txt a/b/; ln a/b/one.txt two; cat a/b/one.txt; echo x > /tmp/x; cat /tmp/x; (echo sub; cat <&0) | cat; echo err >&2; id -u; exit 7`)
	if want := "/workspace\none\nx\nsub\nerr\n"; !strings.HasPrefix(out, want) || e != (confine.End{Code: 7}) {
		t.Errorf("got %q, %+v", out, e)
	}
	if body, err := os.ReadFile(filepath.Join(b.space, "a/b/one.txt")); err != nil || string(body) != "one\n" {
		t.Errorf("the file has %q, %v", body, err)
	}
	if out, e := b.run(`git init -q . && git config user.email a@b.c && git config user.name a; git add -A && git commit -qm one && git log --oneline | wc -l`); strings.TrimSpace(out) != "1" || e.Code != 0 {
		t.Errorf("git: %q, %+v", out, e)
	}
	// A repository that a command makes is as good as any, unless it has programs.
	if out, e := b.run(`git init -q own && cd own && git config user.email a@b.c && git config user.name a; echo x > x; git add x && git commit -qm one && git branch two && cd .. && git clone -q own copy && git -C copy worktree add -q ../tree && git -C tree log --oneline | wc -l`); strings.TrimSpace(out) != "1" || e != (confine.End{}) {
		t.Errorf("a repository of its own: %q, %+v", out, e)
	}
	if out, e := b.run(`cd tree && git commit -q --allow-empty -m two --author 'a <a@b.c>' && git log --oneline | wc -l; git config user.name b && echo changed`); strings.Contains(out, "changed") || e.Limit != "" {
		t.Errorf("its settings by the next command: %q, %+v", out, e)
	}
	if out, e := b.run(`kill -KILL $$`); e.Code != 137 {
		t.Errorf("a signal: %q, %+v", out, e)
	}
	if os.Getuid() == 0 { // a folder of somebody else, as a database in a container makes one
		other := filepath.Join(b.space, "other")
		if err := errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if out, e := b.run(`ls other 2>/dev/null || echo hidden`); out != "hidden\n" || e != (confine.End{}) {
			t.Errorf("a folder of somebody else: %q, %+v", out, e)
		}
	}
	b.job.Workspace.ReadOnly = true
	if out, e := b.run(`cat a/b/one.txt; echo no > no; rm -f a/b/one.txt; git status --short; echo yes > /tmp/yes && cat /tmp/yes`); !strings.HasPrefix(out, "one\n") || !strings.HasSuffix(out, "yes\n") || e.Code != 0 {
		t.Errorf("a read-only workspace: %q, %+v", out, e)
	}
	if _, err := os.Stat(filepath.Join(b.space, "no")); err == nil {
		t.Error("a read-only workspace was changed")
	}
}
