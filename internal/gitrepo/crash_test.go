package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/gitrepo"
)

var errCrash = errors.New("crash")

// work is a commit, and a push that meets changes from elsewhere: some fit, some do not, one fits a
// change that is not committed.
func (g *rig) prepare() {
	write(g.t, g.vault, "petra/p.md", "1\n2\n3\n")
	write(g.t, g.vault, "petra/old/o.md", "o\n")
	g.commit("second", "petra")
	g.push()
	g.elsewhere("theirs", "petra/p.md", "1\n2\n3!\n", "sebastian/a.md", "uno\ntwo\nthree\n", "petra/old/o.md", "", "petra/new/n.md", "n\n")
	write(g.t, g.vault, "sebastian/a.md", "1\ntwo\nthree\n")
	write(g.t, g.vault, "petra/q.md", "q\n")
	write(g.t, g.vault, "petra/p.md", "1!\n2\n3\n") // not committed
}

func (g *rig) work(ctx context.Context, r *gitrepo.Repo) error {
	if _, err := r.Commit(ctx, plain("kept", "sebastian")); err != nil {
		return err
	}
	if _, err := r.Commit(ctx, plain("fits", "petra/q.md")); err != nil {
		return err
	}
	_, err := r.Push(ctx)
	return err
}

// outcome is all that there is in the end.
func (g *rig) outcome() string {
	var b strings.Builder
	for _, at := range []string{g.vault, g.remote} {
		for ref := range strings.FieldsSeq(git(g.t, at, "for-each-ref", "--format=%(refname:short)", "refs/heads")) {
			name := ref
			if strings.HasPrefix(ref, "parley/kept-") {
				name = "kept"
			}
			fmt.Fprintf(&b, "%s %s: %s\n", filepath.Base(at), name, strings.Join(log(g.t, at, ref), ", "))
		}
	}
	for _, name := range []string{"sebastian/a.md", "petra/p.md", "petra/q.md", "petra/old/o.md", "petra/new/n.md"} {
		fmt.Fprintf(&b, "%s: %q\n", name, read(g.t, g.vault, name))
	}
	b.WriteString(git(g.t, g.vault, "status", "--porcelain"))
	return b.String()
}

// TestCrash: a crash at each point, and one more while the first is recovered from, leave nothing
// behind and lose nothing.
func TestCrash(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.prepare()
	prepared := filepath.Join(memory(t), "prepared")
	if err := os.CopyFS(prepared, os.DirFS(filepath.Dir(g.vault))); err != nil {
		t.Fatal(err)
	}
	var points []string
	g.repo.At(func(p string) error { points = append(points, p); return nil })
	if err := g.work(t.Context(), g.repo); err != nil {
		t.Fatal(err)
	}
	g.clean(" M petra/p.md")
	want := g.outcome()
	t.Logf("%d points: %q\n%s", len(points), points, want)
	if !strings.Contains(want, "main: first, second, theirs, fits\n") || !strings.Contains(want, `petra/p.md: "1!\n2\n3!\n"`) {
		t.Fatal("the outcome is not what the test is about")
	}
	for first := range points {
		for _, second := range []int{-1, 2} {
			t.Run(fmt.Sprintf("%d %s %d", first, points[first], second), func(t *testing.T) {
				t.Parallel()
				g := quickRig(t, prepared)
				private := memory(t)
				for _, at := range []int{first, second} {
					if at < 0 {
						continue
					}
					r, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: g.vault, Private: private})
					if err != nil {
						t.Fatal(err)
					}
					n := 0
					r.At(func(string) error {
						if n++; n > at {
							return errCrash
						}
						return nil
					})
					if err := g.work(t.Context(), r); err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
				}
				// The next one may have another folder of its own.
				g.open()
				if err := g.work(t.Context(), g.repo); err != nil {
					t.Fatal(err)
				}
				g.clean(" M petra/p.md")
				if diff := cmp.Diff(want, g.outcome()); diff != "" {
					t.Error(diff)
				}
				git(t, g.vault, "fsck", "--strict")
			})
		}
	}
}

// TestStaleLocks: locks of refs that a git left behind which was killed are removed after a crash;
// those that somebody holds are waited for.
func TestStaleLocks(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	write(t, g.vault, "sebastian/a.md", "1\n")
	g.repo.At(func(p string) error {
		if p == "staged" {
			return errCrash
		}
		return nil
	})
	if _, err := g.repo.Commit(t.Context(), plain("ours", "sebastian")); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	for _, name := range []string{"refs/heads/main.lock", "HEAD.lock", "packed-refs.lock"} {
		write(t, g.vault, ".git/"+name, "")
	}
	g.open()
	g.commit("ours", "sebastian")
	g.clean()
	// The index that a person's git holds is not taken away.
	write(t, g.vault, ".git/index.lock", "")
	write(t, g.vault, "sebastian/a.md", "2\n")
	_, err := g.repo.Commit(t.Context(), plain("later", "sebastian"))
	if err == nil || !strings.Contains(err.Error(), "another git works") {
		t.Errorf("a commit while a person's git holds the index: %v", err)
	}
	if err := os.Remove(filepath.Join(g.vault, ".git/index.lock")); err != nil {
		t.Fatal(err)
	}
	g.commit("later", "sebastian")
	g.clean()
}
