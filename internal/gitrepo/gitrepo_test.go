package gitrepo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCommit: a commit has what was changed in the folders that are named, and nothing else.
func TestCommit(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	write(t, g.vault, "sebastian/a.md", "one\n2\nthree\n")
	write(t, g.vault, "sebastian/new/b.md", "b\n")
	write(t, g.vault, "sebastian/new/ü \"x\".md", "c\n")
	write(t, g.vault, "sebastian/.parley-new-0123", "half\n")
	write(t, g.vault, "sebastian/nested/n.md", "of another repository\n")
	git(t, filepath.Join(g.vault, "sebastian/nested"), "init", "-q")
	git(t, filepath.Join(g.vault, "sebastian/nested"), "add", ".")
	git(t, filepath.Join(g.vault, "sebastian/nested"), "commit", "-q", "-m", "nested")
	write(t, g.vault, "petra/p.md", "P\n")
	write(t, g.vault, "petra/q.md", "Q\n")
	git(t, g.vault, "add", "petra/q.md") // somebody is about to commit it
	want := []string{"sebastian/a.md", "sebastian/new/b.md", "sebastian/new/ü \"x\".md"}
	if diff := cmp.Diff(want, g.commit("write", "sebastian")); diff != "" {
		t.Errorf("the commit's files: %s", diff)
	}
	if err := os.RemoveAll(filepath.Join(g.vault, "sebastian/.parley-new-0123")); err != nil {
		t.Fatal(err)
	}
	g.clean(" M petra/p.md", "A  petra/q.md", "?? sebastian/nested/")
	if got := g.commit("again", "sebastian"); got != nil {
		t.Errorf("without a change the files %q are committed", got)
	}
	if err := os.RemoveAll(filepath.Join(g.vault, "sebastian/new")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], g.commit("remove", "sebastian", "nobody")); diff != "" {
		t.Errorf("the second commit's files: %s", diff)
	}
	if diff := cmp.Diff([]string{"first", "write", "remove"}, log(t, g.vault, "main")); diff != "" {
		t.Error(diff)
	}
	if got := git(t, g.vault, "log", "-1", "--format=%an <%ae> %ad|%cn|%(trailers:key=Parley-Turn,valueonly)", "--date=iso"); got != "Parley <parley@localhost> 2026-11-27 09:30:00 +0100|Parley|remove\n\n" {
		t.Errorf("the commit is %q", got)
	}
	g.push()
	if diff := cmp.Diff([]string{"first", "write", "remove"}, log(t, g.remote, "main")); diff != "" {
		t.Errorf("at the remote: %s", diff)
	}
	git(t, g.vault, "fsck", "--strict")
}

// TestPull: what was pushed from elsewhere comes into the working tree; local commits come on top.
func TestPull(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.elsewhere("theirs", "sebastian/a.md", "one\ntwo\n3\n", "sebastian/deep/er/n.md", "new\n", "petra/p.md", "", "run.sh", "#!/bin/sh\n")
	write(t, g.vault, "sebastian/a.md", "1\ntwo\nthree\n")
	g.commit("ours", "sebastian")
	write(t, g.vault, "sebastian/open.md", "not committed\n")
	if s := g.push(); !s.Pulled || !s.Pushed || s.Left != nil {
		t.Errorf("the push says %+v", s)
	}
	g.clean("?? sebastian/open.md")
	if got := read(t, g.vault, "sebastian/a.md") + read(t, g.vault, "sebastian/deep/er/n.md") + read(t, g.vault, "petra/p.md"); got != "1\ntwo\n3\nnew\n(none)" {
		t.Errorf("the files have %q", got)
	}
	for _, at := range []string{g.vault, g.remote} {
		if diff := cmp.Diff([]string{"first", "theirs", "ours"}, log(t, at, "main")); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
	}
	git(t, g.vault, "fsck", "--strict")
}

// TestPull_dirty: a change from elsewhere meets changes here that are not committed.
func TestPull_dirty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		here, theirs []string // file, content; "" removes it
		want         []string // file, content; nil: the pull waits
		status       []string
	}{
		"other lines":    {here: []string{"sebastian/a.md", "1\ntwo\nthree\n"}, theirs: []string{"sebastian/a.md", "one\ntwo\n3\n"}, want: []string{"sebastian/a.md", "1\ntwo\n3\n"}, status: []string{" M sebastian/a.md"}},
		"same line":      {here: []string{"sebastian/a.md", "1\ntwo\nthree\n"}, theirs: []string{"sebastian/a.md", "uno\ntwo\nthree\n"}, status: []string{" M sebastian/a.md"}},
		"same change":    {here: []string{"sebastian/a.md", "1\n"}, theirs: []string{"sebastian/a.md", "1\n"}, want: []string{"sebastian/a.md", "1\n"}},
		"removed there":  {here: []string{"sebastian/a.md", "1\n"}, theirs: []string{"sebastian/a.md", ""}, status: []string{" M sebastian/a.md"}},
		"removed here":   {here: []string{"sebastian/a.md", ""}, theirs: []string{"sebastian/a.md", "1\n"}, status: []string{" D sebastian/a.md"}},
		"removed twice":  {here: []string{"sebastian/a.md", ""}, theirs: []string{"sebastian/a.md", ""}, want: []string{"sebastian/a.md", "(none)"}},
		"made twice":     {here: []string{"sebastian/n.md", "1\n"}, theirs: []string{"sebastian/n.md", "2\n"}, status: []string{"?? sebastian/n.md"}},
		"made alike":     {here: []string{"sebastian/n.md", "1\n"}, theirs: []string{"sebastian/n.md", "1\n"}, want: []string{"sebastian/n.md", "1\n"}},
		"file for full":  {here: []string{"sebastian/d/n.md", "1\n"}, theirs: []string{"sebastian/d", "2\n"}, status: []string{"?? sebastian/d/n.md"}},
		"log lines":      {here: []string{"claude/webfetch_logs/requests.md", "- a\n"}, theirs: []string{"claude/webfetch_logs/requests.md", "- b\n"}, want: []string{"claude/webfetch_logs/requests.md", "- a\n- b\n"}, status: []string{" M claude/webfetch_logs/requests.md"}},
		"other file":     {here: []string{"petra/p.md", "1\n"}, theirs: []string{"sebastian/a.md", "2\n"}, want: []string{"petra/p.md", "1\n", "sebastian/a.md", "2\n"}, status: []string{" M petra/p.md"}},
		"one of several": {here: []string{"petra/p.md", "1\n"}, theirs: []string{"sebastian/a.md", "2\n", "petra/p.md", "3\n"}, status: []string{" M petra/p.md"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.elsewhere("theirs", c.theirs...)
			for i := 0; i < len(c.here); i += 2 {
				if c.here[i+1] != "" {
					write(t, g.vault, c.here[i], c.here[i+1])
				} else if err := os.Remove(filepath.Join(g.vault, c.here[i])); err != nil {
					t.Fatal(err)
				}
			}
			_, err := g.repo.Pull(t.Context())
			if (err != nil) != (c.want == nil) {
				t.Errorf("the pull says %v", err)
			}
			for i := 0; i < len(c.want); i += 2 {
				if got := read(t, g.vault, c.want[i]); got != c.want[i+1] {
					t.Errorf("%s has %q, want %q", c.want[i], got, c.want[i+1])
				}
			}
			g.clean(c.status...)
			// Whatever was waited for: once it is committed, both changes are somewhere.
			g.commit("ours", "sebastian", "petra", "claude")
			s := g.push()
			g.clean()
			if s.Branch == "" {
				return
			}
			t.Log(s.Left)
			if got := log(t, g.remote, s.Branch); got[len(got)-1] != "ours" {
				t.Errorf("the branch %s at the remote has %q", s.Branch, got)
			}
			if diff := cmp.Diff([]string{"first", "theirs"}, log(t, g.remote, "main")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPull_conflicts: commits that do not fit are kept on a branch, others are not.
func TestPull_conflicts(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.elsewhere("theirs", "sebastian/a.md", "uno\ntwo\nthree\n")
	write(t, g.vault, "sebastian/a.md", "1\ntwo\nthree\n")
	write(t, g.vault, "sebastian/b.md", "b\n")
	g.commit("one", "sebastian")
	write(t, g.vault, "petra/p.md", "P\n")
	g.commit("two", "petra")
	write(t, g.vault, "sebastian/a.md", "1\n2\nthree\n")
	g.commit("three", "sebastian")
	s := g.push()
	if len(s.Left) != 2 || s.Left[0].Subject != "one" || s.Left[1].Subject != "three" || s.Left[0].Files[0] != "sebastian/a.md" || s.Left[0].Trailers["Parley-Turn"] != "one" {
		t.Errorf("left are %+v", s.Left)
	}
	for _, at := range []string{g.vault, g.remote} {
		if diff := cmp.Diff([]string{"first", "theirs", "two"}, log(t, at, "main")); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
		if diff := cmp.Diff([]string{"first", "one", "two", "three"}, log(t, at, s.Branch)); diff != "" {
			t.Errorf("%s: %s", at, diff)
		}
	}
	g.clean()
	if got := read(t, g.vault, "sebastian/a.md") + read(t, g.vault, "sebastian/b.md"); got != "uno\ntwo\nthree\n(none)" {
		t.Errorf("the files have %q", got)
	}
	state, err := g.repo.State(t.Context())
	if err != nil || state.Ahead != 0 || len(state.Kept) != 1 || state.Kept[0] != s.Branch {
		t.Errorf("the state is %+v, %v", state, err)
	}
	found, err := g.repo.Trailers(t.Context(), "Parley-Turn", day.Add(-1e9))
	if err != nil || !found["one"] || !found["two"] || !found["three"] {
		t.Errorf("found are %v, %v", found, err)
	}
	// A person brings it in, and it is not shown any more.
	git(t, g.vault, "cherry-pick", "-Xtheirs", s.Branch+"~2", s.Branch)
	git(t, g.vault, "branch", "-q", "-D", s.Branch)
	g.push()
	if state, err = g.repo.State(t.Context()); err != nil || state.Kept != nil {
		t.Errorf("the state is %+v, %v", state, err)
	}
}

// TestPull_of_a_person: commits of a person in the vault are put on top as well, but not set aside.
func TestPull_of_a_person(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.elsewhere("theirs", "sebastian/a.md", "uno\ntwo\nthree\n")
	write(t, g.vault, "sebastian/a.md", "one\ntwo\ndrei\n")
	git(t, g.vault, "commit", "-q", "-am", "by hand")
	g.push()
	if diff := cmp.Diff([]string{"first", "theirs", "by hand"}, log(t, g.remote, "main")); diff != "" {
		t.Error(diff)
	}
	if got := git(t, g.vault, "log", "-1", "--format=%an %cn"); got != "Ana Ana\n" {
		t.Errorf("it is by %q now", got)
	}
	g.elsewhere("theirs again", "sebastian/a.md", "1\ntwo\nthree\n")
	write(t, g.vault, "sebastian/a.md", "uno!\ntwo\ndrei\n")
	git(t, g.vault, "commit", "-q", "-am", "by hand again")
	if _, err := g.repo.Push(t.Context()); err == nil {
		t.Error("a commit of a person's that does not fit was pushed")
	} else {
		t.Log(err)
	}
	if diff := cmp.Diff([]string{"first", "theirs", "by hand", "by hand again"}, log(t, g.vault, "main")); diff != "" {
		t.Error(diff)
	}
	g.clean()
	// The person merges: merges are not put on top of anything, but merged.
	git(t, g.vault, "pull", "-q", "--no-rebase", "-Xours", "--no-edit")
	g.elsewhere("theirs at last", "petra/p.md", "p!\n")
	g.push()
	if got := read(t, g.vault, "petra/p.md") + read(t, g.vault, "sebastian/a.md"); got != "p!\nuno!\ntwo\nthree\n" {
		t.Errorf("the files have %q", got)
	}
	g.clean()
	git(t, g.vault, "fsck", "--strict")
	if here, there := git(t, g.vault, "rev-parse", "main"), git(t, g.remote, "rev-parse", "main"); here != there {
		t.Errorf("the remote has %s, here is %s", there, here)
	}
}
