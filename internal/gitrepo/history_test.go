package gitrepo_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "github.com/parley-server/parley"
)

// TestHistory: the commits of one file, by pages, with what it had in each; and of no other.
func TestHistory(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	commit := func(name, body, subject string) {
		t.Helper()
		write(t, g.vault, name, body)
		git(t, g.vault, "add", "-A")
		git(t, g.vault, "commit", "-q", "-m", subject)
	}
	const odd = "sebastian/ä * [x] \"y\".md"
	commit(odd, "one", "make it\n\nand say why")
	commit("sebastian/other.md", "other", "another file")
	commit(odd, "two", "change\x1f it")
	if err := os.Remove(filepath.Join(g.vault, odd)); err != nil {
		t.Fatal(err)
	}
	git(t, g.vault, "commit", "-q", "-am", "delete it")
	all, err := g.repo.History(t.Context(), odd, "", 10, nil)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []string{"delete it", "change  it", "make it"} {
		if got := all[i]; got.Subject != want && got.Subject != strings.ReplaceAll(want, "  ", " ") || got.Gone != (i == 0) || got.At.IsZero() || got.Author == "" {
			t.Errorf("%d: %+v", i, got)
		}
	}
	for i, want := range []string{"", "two", "one"} {
		body, err := g.repo.Content(t.Context(), all[i].Hash, odd, 10, nil)
		if i == 0 {
			if core.CodeOf(err) != core.CodeNotFound {
				t.Errorf("where it is deleted: %q, %v", body, err)
			}
			continue
		}
		if err != nil || string(body) != want {
			t.Errorf("%d: %q, %v", i, body, err)
		}
	}
	second, err := g.repo.History(t.Context(), odd, all[0].Hash, 1, nil)
	if err != nil || len(second) != 1 || second[0] != all[1] {
		t.Errorf("the second page: %+v, %v", second, err)
	}
	if list, err := g.repo.History(t.Context(), "sebastian/*", "", 10, nil); err != nil || len(list) != 0 {
		t.Errorf("a pattern is a name: %+v, %v", list, err)
	}
	if _, err := g.repo.Content(t.Context(), all[1].Hash, odd, 2, nil); core.CodeOf(err) != core.CodeTooLarge {
		t.Errorf("a large one: %v", err)
	}
	for _, bad := range []string{"--all", "HEAD", strings.Repeat("a", 40), all[0].Hash[:10]} {
		if list, err := g.repo.History(t.Context(), odd, bad, 1, nil); err == nil {
			t.Errorf("after %q: %+v", bad, list)
		}
		if body, err := g.repo.Content(t.Context(), bad, odd, 10, nil); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("of %q: %q, %v", bad, body, err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(g.vault, "sebastian/link.md")); err != nil {
		t.Fatal(err)
	}
	git(t, g.vault, "add", "-A")
	git(t, g.vault, "commit", "-q", "-m", "a link")
	list, err := g.repo.History(t.Context(), "sebastian/link.md", "", 1, nil)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for _, path := range []string{"sebastian/link.md", "sebastian", "petra/../sebastian/link.md"} {
		if body, err := g.repo.Content(t.Context(), list[0].Hash, path, 100, nil); err == nil {
			t.Errorf("%s: %q", path, body)
		}
	}
}

// TestHistoryFollows: the history goes on before a commit that moved the file, also one that changed it, by pages of any length; not into what may
// not be followed, and not into what it is only a copy of. What was at its path before is another file's.
func TestHistoryFollows(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	long := strings.Repeat("a line that stays\n", 20)
	commit := func(subject string, args ...string) {
		t.Helper()
		for i := 0; i < len(args); i += 2 {
			if write(t, g.vault, args[i], args[i+1]); args[i+1] == "" {
				if err := os.Remove(filepath.Join(g.vault, args[i])); err != nil {
					t.Fatal(err)
				}
			}
		}
		git(t, g.vault, "add", "-A")
		git(t, g.vault, "commit", "-q", "-m", subject)
	}
	commit("other", "docs/c.md", "another file\n")
	commit("other gone", "docs/c.md", "")
	commit("secret", "hidden/s.md", "secret "+long)
	commit("out", "docs/a.md", "secret "+long, "hidden/s.md", "")
	commit("edit a", "docs/a.md", "one\n"+long)
	commit("move", "docs/b.md", "one!\n"+long, "docs/a.md", "")
	commit("copy", "docs/copy.md", "one!\n"+long)
	commit("edit b", "docs/b.md", "two\n"+long)
	commit("move on", "docs/c.md", "two\n"+long, "docs/b.md", "")
	commit("edit c", "docs/c.md", "three\n"+long)
	follow := func(old string) bool { return strings.HasPrefix(old, "docs/") }
	for _, most := range []int{1, 2, 3, 10} {
		var got []string
		for after := ""; ; {
			list, err := g.repo.History(t.Context(), "docs/c.md", after, most, follow)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				got = append(got, strings.TrimSpace(r.Subject+" "+r.From))
				if body, err := g.repo.Content(t.Context(), r.Hash, "docs/c.md", 1<<20, follow); err != nil || !strings.HasSuffix(string(body), long) {
					t.Errorf("%s: %q, %v", r.Subject, body, err)
				}
				after = r.Hash
			}
			if len(list) < most {
				break
			}
		}
		if want := "edit c, move on docs/b.md, edit b, move docs/a.md, edit a, out"; strings.Join(got, ", ") != want {
			t.Errorf("by %d: %q, want %s", most, got, want)
		}
	}
	if list, err := g.repo.History(t.Context(), "docs/copy.md", "", 10, follow); err != nil || len(list) != 1 {
		t.Errorf("a copy: %+v, %v", list, err)
	}
	if list, err := g.repo.History(t.Context(), "docs/b.md", "", 10, follow); err != nil || len(list) != 5 || !list[0].Gone {
		t.Errorf("the old path: %+v, %v", list, err)
	}
	secret := strings.TrimSpace(git(t, g.vault, "rev-parse", "HEAD~7"))
	if body, err := g.repo.Content(t.Context(), secret, "docs/c.md", 1<<20, follow); core.CodeOf(err) != core.CodeNotFound {
		t.Errorf("what may not be followed: %q, %v", body, err)
	}
}
