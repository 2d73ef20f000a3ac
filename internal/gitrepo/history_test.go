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
	all, err := g.repo.History(t.Context(), odd, "", 10)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []string{"delete it", "change  it", "make it"} {
		if got := all[i]; got.Subject != want && got.Subject != strings.ReplaceAll(want, "  ", " ") || got.Gone != (i == 0) || got.At.IsZero() || got.Author == "" {
			t.Errorf("%d: %+v", i, got)
		}
	}
	for i, want := range []string{"", "two", "one"} {
		body, err := g.repo.Content(t.Context(), all[i].Hash, odd, 10)
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
	second, err := g.repo.History(t.Context(), odd, all[0].Hash, 1)
	if err != nil || len(second) != 1 || second[0] != all[1] {
		t.Errorf("the second page: %+v, %v", second, err)
	}
	if list, err := g.repo.History(t.Context(), "sebastian/*", "", 10); err != nil || len(list) != 0 {
		t.Errorf("a pattern is a name: %+v, %v", list, err)
	}
	if _, err := g.repo.Content(t.Context(), all[1].Hash, odd, 2); core.CodeOf(err) != core.CodeTooLarge {
		t.Errorf("a large one: %v", err)
	}
	for _, bad := range []string{"--all", "HEAD", strings.Repeat("a", 40), all[0].Hash[:10]} {
		if list, err := g.repo.History(t.Context(), odd, bad, 1); err == nil {
			t.Errorf("after %q: %+v", bad, list)
		}
		if body, err := g.repo.Content(t.Context(), bad, odd, 10); core.CodeOf(err) != core.CodeNotFound {
			t.Errorf("of %q: %q, %v", bad, body, err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(g.vault, "sebastian/link.md")); err != nil {
		t.Fatal(err)
	}
	git(t, g.vault, "add", "-A")
	git(t, g.vault, "commit", "-q", "-m", "a link")
	list, err := g.repo.History(t.Context(), "sebastian/link.md", "", 1)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	for _, path := range []string{"sebastian/link.md", "sebastian", "petra/../sebastian/link.md"} {
		if body, err := g.repo.Content(t.Context(), list[0].Hash, path, 100); err == nil {
			t.Errorf("%s: %q", path, body)
		}
	}
}
