//go:build linux && (amd64 || arm64)

package confine_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/parley-server/parley/internal/confine"
)

// script is a job that runs a script.
func (b *box) script(text string) confine.Job {
	j := b.job
	j.Args = []string{"/bin/sh", "-c", text}
	return j
}

// TestEnds: whatever ends a command, even if it is the helper's death, nothing that git would run is left.
func TestEnds(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	const plant = `git init -q $at && printf '[core]\n\tfsmonitor = ./x\n' >> $at/.git/config`
	left := func(at string) {
		t.Helper()
		if text, _ := os.ReadFile(filepath.Join(b.space, at, ".git/config")); strings.Contains(string(text), "fsmonitor") {
			t.Errorf("%s is left", at)
		}
		if n := b.running(); len(n) > 0 {
			t.Errorf("it left running %q", n)
		}
	}
	t.Run("told to, and ignores it", func(t *testing.T) {
		b.t = t
		ctx, cancel := context.WithCancel(t.Context())
		up := b.pipe("up")
		wait := b.begin(ctx, b.script(`plant() { at=told; `+plant+`; }; trap plant TERM; echo > /tmp/up; while :; do sleep 1; done`))
		up()
		cancel()
		if out, e, err := wait(); err != nil || e.Limit != confine.LimitGuarded || e.Moved != "told/.git/config.refused" && e.Moved != "told/git/config.refused" {
			t.Errorf("%q, %+v, %v", out, e, err)
		}
		left("told")
	})
	t.Run("the helper is killed", func(t *testing.T) {
		b.t = t
		up := b.pipe("killed")
		// A folder that the helper does not watch: nothing ends the command at once.
		wait := b.begin(t.Context(), b.script(`at=killed; mkdir k; `+plant+`; mv killed k; echo > /tmp/killed; sleep 1000`))
		up()
		helper, err := strconv.Atoi(b.pids()[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []unix.Signal{unix.SIGQUIT, unix.SIGHUP, unix.SIGINT, unix.SIGABRT, unix.SIGSEGV, unix.SIGUSR1} {
			if err := unix.Kill(helper, s); err != nil { // none of them ends it
				t.Error(err)
			}
		}
		if err := unix.Kill(helper, unix.SIGKILL); err != nil {
			t.Error(err)
		}
		if out, e, err := wait(); err != nil || e.Limit != confine.LimitGuarded || e.Name != "k/killed/.git/config" {
			t.Errorf("%q, %+v, %v", out, e, err)
		}
		left("k/killed")
	})
	t.Run("signals", func(t *testing.T) {
		b.t = t
		up := b.pipe("signals")
		wait := b.begin(t.Context(), b.script(`echo > /tmp/signals; read x < /tmp/signals; exit 7`))
		up()
		helper, err := strconv.Atoi(b.pids()[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []unix.Signal{unix.SIGQUIT, unix.SIGHUP, unix.SIGINT, unix.SIGABRT, unix.SIGSEGV, unix.SIGUSR1} {
			if err := unix.Kill(helper, s); err != nil {
				t.Error(err)
			}
		}
		if err := os.WriteFile(filepath.Join(b.job.Temporary, "signals"), []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, e, err := wait(); err != nil || e != (confine.End{Code: 7}) {
			t.Errorf("%q, %+v, %v", out, e, err)
		}
	})
}

// TestGitOfAPerson: whatever a command leaves behind, git runs no program of it outside.
func TestGitOfAPerson(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	marker := filepath.Join(b.dir, "marker")
	b.job.Env = append(b.job.Env, "PROGRAM=touch "+marker)
	git := func(dir string, args ...string) error {
		c := exec.Command("git", args...)
		c.Dir, c.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b.c", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b.c"}
		return c.Run()
	}
	// The person's own settings name files of the workspace.
	fresh := func(t *testing.T) {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(b.space, "*"))
		for _, path := range append(list, filepath.Join(b.space, ".git"), filepath.Join(b.space, ".githooks")) {
			err = errors.Join(err, os.RemoveAll(path))
		}
		if err = errors.Join(err, git(b.space, "init", "-q", ".")); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			".git/config": "[core]\n\trepositoryformatversion = 0\n\thooksPath = .githooks\n[include]\n\tpath = ../.gitsettings\n[alias]\n\tst = !sh tools/st.sh\n[includeIf \"gitdir:" +
				b.space + "/\"]\n\tpath = " + filepath.Join(b.space, "more/settings") + "\n",
			".gitsettings": "[user]\n\tname = a\n[include]\n\tpath = third\n", "third": "", "tools/st.sh": "true", "sub/x": "",
		} {
			path := filepath.Join(b.space, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	const monitor = `printf '[core]\n\tfsmonitor = "%s; false"\n' "$PROGRAM"`
	for name, script := range map[string]string{
		"commondir":       `mkdir -p evil/objects evil/refs; ` + monitor + ` > evil/config; echo ../evil > .git/commondir`,
		"settings":        monitor + ` >> .git/config`,
		"work tree":       monitor + ` > .git/config.worktree; git config extensions.worktreeConfig true`,
		"below":           `git init -q sub; ` + monitor + ` >> sub/.git/config`,
		"below, included": `git init -q sub; ` + monitor + ` > sub/more; git -C sub config include.path ../more`,
		"a file":          `git init -q other; mv other/.git sub/hidden; ` + monitor + ` >> sub/hidden/config; echo 'gitdir: hidden' > sub/.git`,
		"a link":          `git init -q other; mv other/.git sub/hidden; ` + monitor + ` >> sub/hidden/config; ln -s hidden sub/.git`,
		"bare":            `git init -q --bare b; mv b/* sub; ` + monitor + ` >> sub/config; git -C sub config core.bare false; git -C sub config core.worktree .`,
		"bare and apart":  `git init -q --bare b; mv b/HEAD sub; mkdir b2; mv b/objects b/refs b2; printf '[alias]\n\tst = !%s\n' "$PROGRAM" > b2/config; echo ../b2 > sub/commondir`,
		"a module":        `git init -q --bare .git/modules/sub; ` + monitor + ` >> .git/modules/sub/config; printf '\tbare = false\n\tworktree = ../../../sub\n' >> .git/modules/sub/config; echo 'gitdir: ../.git/modules/sub' > sub/.git`,
		"hooks":           `git init -q sub; for h in post-index-change pre-commit post-checkout reference-transaction; do printf '#!/bin/sh\n%s\n' "$PROGRAM" > sub/.git/hooks/$h; chmod +x sub/.git/hooks/$h; done`,
		"hooks, linked":   `git init -q sub; rm -rf sub/.git/hooks; mkdir h; printf '#!/bin/sh\n%s\n' "$PROGRAM" > h/pre-commit; chmod +x h/pre-commit; ln -s ../../h sub/.git/hooks`,
		"named hooks":     `mkdir .githooks; printf '#!/bin/sh\n%s\n' "$PROGRAM" > .githooks/pre-commit; chmod +x .githooks/pre-commit`,
		"named settings":  monitor + ` >> .gitsettings; ` + monitor + ` >> third`,
		"missing":         `mkdir more; ` + monitor + ` > more/settings`,
		"a named program": `echo "$PROGRAM" > tools/st.sh; rm -f tools/st.sh; mv tools tools2; mkdir tools; echo "$PROGRAM" > tools/st.sh`,
		"taken names":     `git init -q sub; ` + monitor + ` >> sub/.git/config; cd sub/.git; touch config.refused; for i in $(seq 150); do touch config.refused$i; done`,
		"too many":        `git init -q sub; ` + monitor + ` >> sub/.git/config; mkdir many; cd many; seq 1100 | xargs mkdir; for i in *; do echo x > $i/.git; done`,
		"too deep":        `git init -q sub; ` + monitor + ` >> sub/.git/config; mkdir -p $(printf 'a/%.0s' $(seq 600))`,
		"many programs":   `for i in 1 2 3 4 5 6 7 8 9; do git init -q sub/$i; ` + monitor + ` >> sub/$i/.git/config; done; rm -f sub/1/.git/HEAD; cp -r sub/9/. sub`,
		"a filter":        `git init -q sub; printf '* filter=x\n' > sub/.gitattributes; git -C sub config filter.x.clean "$PROGRAM; cat"`,
		"rebase":          `c='git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m'; $c a; $c b; git checkout -q --detach; mkdir -p .git/rebase-merge; cd .git/rebase-merge; echo "exec $PROGRAM" > git-rebase-todo; git rev-parse HEAD > onto; git rev-parse HEAD > orig-head; echo refs/heads/master > head-name; : > interactive; : > done; echo 0 > msgnum; echo 1 > end`,
		"odd spelling":    `git init -q sub; printf '[core]fsmonitor=%s\n' "$PROGRAM" >> sub/.git/config; printf '[core "x"] \n[CORE]\n\tFSMonitor = \\\n%s' "$PROGRAM" >> sub/.git/config`,
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			fresh(t)
			out, e := b.run(script)
			if e.Failed != "" || e.Limit == confine.LimitWatch {
				t.Errorf("%+v: %s", e, out)
			}
			for _, dir := range []string{".", "sub", "sub/5"} {
				at := filepath.Join(b.space, dir)
				if info, err := os.Stat(at); err != nil || !info.IsDir() {
					continue
				}
				for _, args := range [][]string{{"status"}, {"add", "-A", "."}, {"commit", "-q", "--allow-empty", "-m", "x"}, {"st"}, {"rebase", "--continue"}, {"checkout", "-q", "-B", "x"}} {
					_ = git(at, args...)
				}
			}
			if _, err := os.Stat(marker); err == nil {
				t.Errorf("git ran its program; the command ended with %+v: %s", e, out)
			}
			_ = os.Remove(marker)
		})
	}
}

// TestDisk: the folders of a workspace and a session have a limit together, whatever number of commands
// fill them. Then a command can only read and remove. What others write does not count.
func TestDisk(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.job.Limits.Disk = 16 << 20
	if out, e := b.run(`head -c 10M /dev/zero > one`); e != (confine.End{}) {
		t.Fatal(out, e)
	}
	up := b.pipe("up")
	wait := b.begin(t.Context(), b.script(`echo > /tmp/up; read x < /tmp/up; head -c 3M /dev/zero > two`))
	up()
	ballast, err := os.Create(filepath.Join(b.dir, "ballast"))
	if err == nil {
		defer ballast.Close()
		err = unix.Fallocate(int(ballast.Fd()), 0, 0, 256<<20)
	}
	if err != nil && err != unix.EOPNOTSUPP {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(filepath.Join(b.job.Temporary, "up"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := pipe.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if out, e, err := wait(); err != nil || e != (confine.End{}) {
		t.Errorf("beside another's file: %q, %+v, %v", out, e, err)
	}
	if out, e := b.run(`head -c 5M /dev/zero > /tmp/three; sleep 30`); e.Limit != confine.LimitDisk {
		t.Errorf("the second command: %q, %+v", out, e)
	}
	if out, e := b.run(`echo more > four; echo more >> one; echo > /tmp/x; mkdir /tmp/y; mv one five; cat two | wc -c; rm two /tmp/three`); e != (confine.End{Full: true}) || !strings.HasSuffix(out, "3145728\n") {
		t.Errorf("full: %q, %+v", out, e)
	}
	if list, _ := os.ReadDir(b.space); len(list) != 1 || list[0].Name() != "one" {
		t.Errorf("a command in full folders left %v", list)
	}
	if out, e := b.run(`echo again > six; cat six`); out != "again\n" || e != (confine.End{}) {
		t.Errorf("after the removal: %q, %+v", out, e)
	}
}
