package gitrepo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/gitrepo"
)

// edits is a change of some files: an edit of one, a new one, and one that is deleted. Made again it changes nothing.
func edits(r *gitrepo.Repo) gitrepo.Change {
	return gitrepo.Change{
		Author: parley, When: day, Message: func([]string) string { return "edits" },
		Plan: func(ctx context.Context, b gitrepo.Base) (p gitrepo.Plan, err error) {
			body, ok, err := b.Read(ctx, "petra/p.md", nil, 1<<20)
			if err != nil || !ok {
				return p, errors.Join(err, errors.New("petra/p.md is not there"))
			}
			now := strings.Replace(string(body), "\n3\n", "\n3!\n", 1)
			p.Edits = []gitrepo.Edit{{Path: "petra/p.md", Body: []byte(now)}, {Path: "new/deep/n.md", Body: []byte("n\n")}, {Path: "petra/old/o.md", Gone: true}}
			return p, nil
		},
	}
}

// begun has files with changes that are not committed: one that is changed as well, one that is staged, and an unknown one.
func (g *rig) begun() {
	write(g.t, g.vault, "petra/p.md", "1\n2\n3\n")
	write(g.t, g.vault, "petra/old/o.md", "o\n")
	g.commit("second", "petra")
	write(g.t, g.vault, "petra/p.md", "1!\n2\n3\n")
	write(g.t, g.vault, "sebastian/a.md", "staged\n")
	git(g.t, g.vault, "add", "sebastian/a.md")
	write(g.t, g.vault, "petra/q.md", "unknown\n")
}

func (g *rig) edited() string {
	var b strings.Builder
	fmt.Fprintln(&b, log(g.t, g.vault, "main"))
	for _, name := range []string{"petra/p.md", "petra/q.md", "petra/old/o.md", "new/deep/n.md", "sebastian/a.md"} {
		fmt.Fprintf(&b, "%s: %q\n", name, read(g.t, g.vault, name))
	}
	fmt.Fprintf(&b, "committed: %q\n", git(g.t, g.vault, "show", "main:petra/p.md"))
	b.WriteString(git(g.t, g.vault, "status", "--porcelain", "-uall"))
	return b.String()
}

// points makes a change, and returns the points at which a crash can leave something behind, with a copy of the folders as they were before.
func (g *rig) points(change func(*gitrepo.Repo) gitrepo.Change) (prepared string, points []string) {
	g.t.Helper()
	prepared = filepath.Join(memory(g.t), "begun")
	if err := os.CopyFS(prepared, os.DirFS(filepath.Dir(g.vault))); err != nil {
		g.t.Fatal(err)
	}
	g.repo.At(func(p string) error { points = append(points, p); return nil })
	if made, err := g.repo.Change(g.t.Context(), change(g.repo)); err != nil || len(made.Files) == 0 {
		g.t.Fatal(made, err)
	}
	return prepared, points
}

// crashed calls each with a copy of the folders after a crash at each point of a change. The lock of git's index is gone: git takes it for one
// of a git that crashed, as its message says.
func (g *rig) crashed(change func(*gitrepo.Repo) gitrepo.Change, each func(g *rig, point string)) (points []string) {
	g.t.Helper()
	prepared, points := g.points(change)
	for at, point := range points {
		g := quickRig(g.t, prepared)
		n := 0
		g.repo.At(func(string) error {
			if n++; n > at {
				return errCrash
			}
			return nil
		})
		if _, err := g.repo.Change(g.t.Context(), change(g.repo)); err != nil && !errors.Is(err, errCrash) {
			g.t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(g.vault, ".git/index.lock"))
		each(g, fmt.Sprintf("%d %s", at, point))
	}
	return points
}

// use has the repository used by somebody else, who completes or undoes what is left of a crash.
func (g *rig) use() {
	g.t.Helper()
	g.open()
	nothing := func(context.Context, gitrepo.Base) (gitrepo.Plan, error) { return gitrepo.Plan{}, nil }
	if _, err := g.repo.Change(g.t.Context(), gitrepo.Change{Author: parley, When: day, Plan: nothing}); err != nil {
		g.t.Fatal(err)
	}
}

// TestChangeCrash: a crash at each point of a change, and one more while the first is recovered from, leave it made or not, and
// nothing of it half.
func TestChangeCrash(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	prepared, points := g.points(edits)
	want := g.edited()
	t.Logf("%d points: %q\n%s", len(points), points, want)
	if !strings.Contains(want, "[first second edits]") || !strings.Contains(want, `petra/p.md: "1!\n2\n3!\n"`) || !strings.Contains(want, `committed: "1\n2\n3!\n"`) || !strings.Contains(want, " M petra/p.md\nM  sebastian/a.md\n?? petra/q.md\n") {
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
					if _, err := r.Change(t.Context(), edits(r)); err != nil && !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
				}
				g.open()
				if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, g.edited()); diff != "" {
					t.Error(diff)
				}
				for _, name := range leftovers(t, g.vault) {
					t.Errorf("%s is left over", name)
				}
			})
		}
	}
}

// TestChangeOvertaken: a crash at each point of a change, after which somebody else commits before the change is completed. Of the change
// nothing is left, unless it was made, and whoever repeats it makes it on top of their commit.
func TestChangeOvertaken(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	want := strings.Replace(g.edited(), "[first second]", "[first second theirs]", 1)
	seen := 0
	points := g.crashed(edits, func(g *rig, point string) {
		made := len(log(t, g.vault, "main")) == 3
		write(t, g.vault, "sebastian/theirs.md", "theirs\n")
		git(t, g.vault, "add", "sebastian/theirs.md")
		git(t, g.vault, "commit", "-q", "-m", "theirs", "--", "sebastian/theirs.md")
		g.use()
		if made {
			seen++
		} else if diff := cmp.Diff(want, g.edited()); diff != "" {
			t.Errorf("%s: %s", point, diff)
		}
		if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil && !made {
			t.Errorf("%s: %v", point, err)
		}
		if now := log(t, g.vault, "main"); !made && fmt.Sprint(now) != "[first second theirs edits]" || made && fmt.Sprint(now) != "[first second edits theirs]" {
			t.Errorf("%s: the history is %q", point, now)
		}
		g.clean("?? petra/q.md")
	})
	if seen == 0 || seen == len(points) {
		t.Errorf("made %d times at %q: the test is about both", seen, points)
	}
}

// TestChangeLeftBehind: a crash at each point of a change, after which somebody checks out another branch. Of the change nothing is left
// there, unless it was made, and whoever repeats it makes it on their branch.
func TestChangeLeftBehind(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	g.crashed(edits, func(g *rig, point string) {
		made := len(log(t, g.vault, "main")) == 3
		git(t, g.vault, "checkout", "-q", "-b", "side")
		g.use()
		g.clean("?? petra/q.md")
		if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil && !made {
			t.Errorf("%s: %v", point, err)
		}
		if now := log(t, g.vault, "side"); fmt.Sprint(now) != "[first second edits]" {
			t.Errorf("%s: the history is %q", point, now)
		}
		g.clean("?? petra/q.md")
	})
}

// TestChangeLeftDetached: a crash at each point of a change, after which somebody checks out a commit and no branch. Of the change nothing is
// left there, unless it was made, and it is made on the branch once they are back.
func TestChangeLeftDetached(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	g.crashed(edits, func(g *rig, point string) {
		git(t, g.vault, "checkout", "-q", "--detach")
		g.open()
		if _, err := g.repo.Change(t.Context(), edits(g.repo)); !strings.Contains(fmt.Sprint(err), "no branch is checked out") {
			t.Errorf("%s: got %v", point, err)
		}
		g.clean("?? petra/q.md")
		git(t, g.vault, "checkout", "-q", "main")
		if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil && len(log(t, g.vault, "main")) != 3 {
			t.Errorf("%s: %v", point, err)
		}
		if now := log(t, g.vault, "main"); fmt.Sprint(now) != "[first second edits]" {
			t.Errorf("%s: the history is %q", point, now)
		}
		g.clean("?? petra/q.md")
	})
}

// TestChangeLeftInAMerge: a crash at each point of a change, after which somebody begins a merge that stays unfinished for a while. The change waits
// for it; then it is made or not, and nothing of it half, whether the merge is committed or undone.
func TestChangeLeftInAMerge(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	git(t, g.vault, "checkout", "-q", "-b", "side", "main~1")
	write(t, g.vault, "sebastian/side.md", "side\n")
	g.commit("side", "sebastian/side.md")
	git(t, g.vault, "checkout", "-q", "main")
	base := filepath.Join(memory(t), "base")
	if err := os.CopyFS(base, os.DirFS(filepath.Dir(g.vault))); err != nil {
		t.Fatal(err)
	}
	for _, end := range [][]string{{"commit", "-q", "-m", "merged"}, {"merge", "--abort"}} {
		merged := 0
		points := quickRig(t, base).crashed(edits, func(g *rig, point string) {
			point += " " + end[0]
			if _, err := tryGit(g.vault, "merge", "-q", "--no-ff", "--no-commit", "side"); err != nil {
				return // what is left of the change is in the way
			}
			merged++
			g.open()
			if _, err := g.repo.Change(t.Context(), edits(g.repo)); !strings.Contains(fmt.Sprint(err), "in the middle of a merge") {
				t.Errorf("%s: got %v", point, err)
			}
			git(t, g.vault, end...)
			g.use()
			g.clean("?? petra/q.md")
			if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil && !strings.Contains(fmt.Sprint(log(t, g.vault, "main")), "edits") {
				t.Errorf("%s: %v", point, err)
			}
			if now := fmt.Sprint(log(t, g.vault, "main")); strings.Count(now, "edits") != 1 || strings.Contains(now, "merged") != (end[0] == "commit") {
				t.Errorf("%s: the history is %q", point, now)
			}
			g.clean("?? petra/q.md")
		})
		if merged < 3 || merged > len(points) {
			t.Errorf("merged %d times at %d points", merged, len(points))
		}
	}
}

// TestChangeOnAnOlderBranch: the same where the branch is one of before, which is as if it had the change: it never had the file that is deleted.
// It gets nothing of what was done since.
func TestChangeOnAnOlderBranch(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	deletes := func(*gitrepo.Repo) gitrepo.Change {
		return gitrepo.Change{
			Author: parley, When: day, Message: func([]string) string { return "edits" },
			Plan: func(ctx context.Context, b gitrepo.Base) (p gitrepo.Plan, err error) {
				_, is, err := b.Read(ctx, "petra/old/o.md", nil, 1<<20)
				if is {
					p.Edits = []gitrepo.Edit{{Path: "petra/old/o.md", Gone: true}}
				}
				return p, err
			},
		}
	}
	g.crashed(deletes, func(g *rig, point string) {
		git(t, g.vault, "checkout", "-q", "-b", "old", "main~"+fmt.Sprint(len(log(t, g.vault, "main"))-1))
		g.use()
		if now := log(t, g.vault, "old"); fmt.Sprint(now) != "[first]" {
			t.Errorf("%s: the history is %q", point, now)
		}
		g.clean("?? petra/q.md")
		git(t, g.vault, "checkout", "-q", "main")
		if _, err := g.repo.Change(t.Context(), deletes(g.repo)); err != nil {
			t.Errorf("%s: %v", point, err)
		}
		if now := log(t, g.vault, "main"); fmt.Sprint(now) != "[first second edits]" {
			t.Errorf("%s: after it was made again the history is %q", point, now)
		}
		g.clean("?? petra/q.md")
	})
}

// TestChangeTakenAlong: a crash at each point of a change, after which somebody commits all that is changed. The change is in the history
// once, with its author, its reason and its key, also where all of it is in their commit.
func TestChangeTakenAlong(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	keyed := func(r *gitrepo.Repo) gitrepo.Change {
		c := edits(r)
		plan := c.Plan
		c.Message = func([]string) string { return "edits\n\nParley-Key: one" }
		c.Plan = func(ctx context.Context, b gitrepo.Base) (gitrepo.Plan, error) {
			if k, err := b.Keyed(ctx, "Parley-Key", "one"); err != nil || k.Hash != "" {
				return gitrepo.Plan{}, err
			}
			return plan(ctx, b)
		}
		return c
	}
	joined := 0
	points := g.crashed(keyed, func(g *rig, point string) {
		git(t, g.vault, "commit", "-q", "-a", "-m", "theirs")
		// A crash while it is joined to theirs.
		if _, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: g.vault, Private: memory(t), At: func(p string) error {
			if p == "joined" {
				return errCrash
			}
			return nil
		}}); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		g.open()
		if _, err := g.repo.Change(t.Context(), keyed(g.repo)); err != nil {
			t.Errorf("%s: %v", point, err)
		}
		history := log(t, g.vault, "main")
		if c := strings.Count(fmt.Sprint(history), "edits"); c != 1 || !slices.Contains(history, "theirs") {
			t.Errorf("%s: the history is %q", point, history)
		}
		if strings.Contains(fmt.Sprint(history), "Join") {
			joined++
		}
		k, err := g.repo.Keyed(t.Context(), "Parley-Key", "one")
		if err != nil || len(k.Files) == 0 {
			t.Errorf("%s: its commit is %+v, %v", point, k, err)
		}
		if read(t, g.vault, "new/deep/n.md") != "n\n" || read(t, g.vault, "petra/old/o.md") != "(none)" || read(t, g.vault, "petra/p.md") != "1\n2\n3!\n" {
			t.Errorf("%s: the files are not as the change leaves them", point)
		}
		g.clean("?? petra/q.md")
		git(t, g.vault, "fsck", "--strict")
	})
	if joined == 0 || joined == len(points) {
		t.Errorf("joined %d times at %d points: the test is about both", joined, len(points))
	}
}

// TestChangeCutWhileWriting: a process that is killed while it writes a file leaves half of it beside the file. It is gone after the next use,
// whether the change is completed or undone.
func TestChangeCutWhileWriting(t *testing.T) {
	t.Parallel()
	for _, theirs := range []bool{false, true} {
		g := newRig(t)
		g.begun()
		git(t, g.vault, "reset", "-q", "sebastian/a.md")
		git(t, g.vault, "checkout", "-q", ".")
		g.repo.At(func(p string) error {
			if p == "noted" {
				return errCrash
			}
			return nil
		})
		if _, err := g.repo.Change(t.Context(), edits(g.repo)); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		for _, name := range []string{"petra/p.md", "new/deep/n.md"} {
			write(t, g.vault, filepath.Join(filepath.Dir(name), gitrepo.Half(name)), "ha")
		}
		if theirs {
			_ = os.Remove(filepath.Join(g.vault, ".git/index.lock"))
			git(t, g.vault, "commit", "-q", "--allow-empty", "-m", "theirs")
		}
		g.open()
		g.clean("?? petra/q.md")
	}
}

// TestChangeRefused: a change that does not fit what is not committed changes nothing.
func TestChangeRefused(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	write(t, g.vault, "petra/p.md", "1\n2\n3 mine\n")
	before := g.edited()
	_, err := g.repo.Change(t.Context(), edits(g.repo))
	if list := gitrepo.Uncommitted(err); len(list) != 1 || list[0] != "petra/p.md" {
		t.Errorf("got %v, about %v", err, list)
	}
	if diff := cmp.Diff(before, g.edited()); diff != "" {
		t.Error(diff)
	}
	// Somebody else has made the file that is to be new, and has not committed it.
	write(t, g.vault, "petra/p.md", "1\n2\n3\n")
	write(t, g.vault, "new/deep/n.md", "theirs\n")
	if _, err := g.repo.Change(t.Context(), edits(g.repo)); len(gitrepo.Uncommitted(err)) != 1 || read(t, g.vault, "new/deep/n.md") != "theirs\n" {
		t.Errorf("got %v", err)
	}
}

// TestChangeWhileOthersCommit: somebody moves the branch with a git that holds no lock of ours, right before it is moved by us. The change
// is made on top of theirs.
func TestChangeWhileOthersCommit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	git(t, g.vault, "reset", "-q", "sebastian/a.md")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\nthree\n")
	once := false
	g.repo.At(func(p string) error {
		if p == "index put" && !once {
			once = true
			// As a push into the folder does, after it has brought the working tree along.
			tree := strings.TrimSpace(git(t, g.vault, "rev-parse", "main^{tree}"))
			commit := strings.TrimSpace(git(t, g.vault, "commit-tree", "-p", "main", "-m", "theirs", tree))
			git(t, g.vault, "update-ref", "refs/heads/main", commit)
		}
		return nil
	})
	if _, err := g.repo.Change(t.Context(), edits(g.repo)); err != nil || !once {
		t.Fatal(err)
	}
	got := g.edited()
	if !strings.Contains(got, "[first second theirs edits]") || !strings.Contains(got, `petra/p.md: "1!\n2\n3!\n"`) || !strings.Contains(got, `committed: "1\n2\n3!\n"`) {
		t.Error(got)
	}
}

// TestChangeInANewRepository: the first commit of a branch, and a folder that belongs to a repository around it.
func TestChangeInANewRepository(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	o := gitrepo.Options{Dir: filepath.Join(t.TempDir(), "new"), Private: t.TempDir()}
	if err := os.Mkdir(o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := gitrepo.Make(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r, err := gitrepo.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c := gitrepo.Change{Author: parley, When: day, Message: func([]string) string { return "one" }, Plan: func(_ context.Context, b gitrepo.Base) (gitrepo.Plan, error) {
		return gitrepo.Plan{Edits: []gitrepo.Edit{{Path: "a.md", Body: []byte("a\n")}}}, nil
	}}
	if made, err := r.Change(t.Context(), c); err != nil || made.Hash == "" {
		t.Fatal(made, err)
	}
	if got := log(t, o.Dir, "main"); len(got) != 1 || got[0] != "one" || git(t, o.Dir, "status", "--porcelain") != "" {
		t.Errorf("got %q", got)
	}
	o.Dir = filepath.Join(g.vault, "petra")
	if err := gitrepo.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is a part of the repository in") {
		t.Errorf("a folder of another repository: %v", err)
	}
}

// TestChangeNotStarved: a person who commits each time while a change is planned does not keep it from being made.
func TestChangeNotStarved(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.begun()
	c := edits(g.repo)
	plan, plans := c.Plan, 0
	c.Plan = func(ctx context.Context, b gitrepo.Base) (gitrepo.Plan, error) {
		plans++
		_, _ = tryGit(g.vault, "commit", "-q", "--allow-empty", "-m", "a person commits") // it fails where git's lock is held
		return plan(ctx, b)
	}
	if made, err := g.repo.Change(t.Context(), c); err != nil || len(made.Files) != 3 || plans > 5 {
		t.Errorf("got %+v, %v after %d plans", made, err, plans)
	}
	for _, name := range leftovers(t, g.vault) {
		t.Errorf("%s is left over", name)
	}
}
