package userfiles_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// shelf is the workspaces of ana and bob.
func shelf(t *testing.T, notes map[string]string) (*userfiles.Files, userfiles.At) {
	t.Helper()
	dir := t.TempDir()
	folders, err := workspace.New(workspace.Options{Root: dir, Default: "main"})
	if err != nil {
		t.Fatal(err)
	}
	at := userfiles.At{Principal: parley.Principal{User: "ana"}, App: "test", Workspace: "vault"}
	f := userfiles.New(userfiles.Options{Apps: func() []string { return []string{"test"} }, Folders: func(string) (*workspace.Folders, error) { return folders, nil }})
	if _, err := f.Make(at); err != nil {
		t.Fatal(err)
	}
	root, err := folders.Open(at.Principal, at.Workspace)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // nothing was written
	for name, body := range notes {
		full := filepath.Join(root.Name(), name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return f, at
}

// TestBacklinks: which links lead to a note.
func TestBacklinks(t *testing.T) {
	t.Parallel()
	const fence = "```"
	f, at := shelf(t, map[string]string{
		"people/Ana Weiß.md": "I am [[Ana Weiß]]\n",
		"people/list.md":     "- [[ana weiß]], [again](<Ana Weiß.md>)\n- [Bob](bob.md)\n",
		"people/bob.md":      "[my friend](./Ana%20Wei%C3%9F.md#phone)\n",
		"a.md":               "x\n[[people/Ana Weiß|A.]] and [[Ana Weiß#Phone]]\n",
		"b.md":               "[a](people/Ana%20Wei%C3%9F)\n\n[ref]: people/Ana%20Wei%C3%9F.md \"Ana\"\n",
		"c.md":               "`[[Ana Weiß]]`\n" + fence + "\n[[Ana Weiß]]\n" + fence + "\nAna Weiß without a link, [web](https://example.com/Ana%20Wei%C3%9F.md)\n",
		"d.md":               "[elsewhere](Ana%20Wei%C3%9F.md) [out](../../people/Ana%20Wei%C3%9F.md)\n",
		"e.markdown":         "![[Ana Weiß]]\n",
		"f.txt":              "[[Ana Weiß]]\n",
		".hidden/g.md":       "[[Ana Weiß]]\n",
		"old/Ana Weiß.md":    "[[Ana Weiß]]\n",
		"old/near.md":        "[[Ana Weiß]] is the one beside; [not her](../people/Ana%20Wei%C3%9F.md)\n",
		"old/ana weiß.txt":   "",
		"long.md":            strings.Repeat("x", 500) + " [[Ana Weiß]]\n",
		"decomposed.md":      "[[people/A\u006ea Weiß]] [[Cafe\u0301]]\n",
		"Caf\u00e9.md":       "",
		"images/plan.png":    "",
		"with picture.md":    "![plan](images/plan.png) ![[plan.png]]\n",
		"tilde.md":           "~~~\n[[bob]]\n" + fence + "\n[[bob]]\n~~~~\n[[bob]]\n",
	})
	for target, want := range map[string][]string{
		"people/Ana Weiß.md": {"a.md:2", "b.md:1", "b.md:3", "decomposed.md:1", "old/near.md:1", "people/bob.md:1", "people/list.md:1"},
		"old/Ana Weiß.md":    {"a.md:2", "e.markdown:1", "long.md:1", "old/near.md:1"},
		"people/bob.md":      {"people/list.md:2", "tilde.md:6"},
		"Caf\u00e9.md":       {"decomposed.md:1"},
		"images/plan.png":    {"with picture.md:1"},
		"a.md":               nil,
	} {
		got, err := f.Backlinks(t.Context(), at, target)
		var list []string
		for _, l := range got.Links {
			list = append(list, fmt.Sprintf("%s:%d", l.Path, l.Line))
			if len(l.Text) > 210 || l.Text == "" {
				t.Errorf("%s: the text is %q", target, l.Text)
			}
		}
		if diff := cmp.Diff(want, list); diff != "" || err != nil || got.Partial {
			t.Errorf("%s: %v, partial %t: %s", target, err, got.Partial, diff)
		}
	}
	other := at
	other.Principal.User = "bob"
	for _, c := range []struct {
		at   userfiles.At
		path string
		code parley.Code
	}{
		{at, "missing.md", parley.CodeNotFound}, {at, "../vault/a.md", parley.CodeInvalid}, {other, "a.md", parley.CodeNotFound},
	} {
		if got, err := f.Backlinks(t.Context(), c.at, c.path); parley.CodeOf(err) != c.code || len(got.Links) != 0 {
			t.Errorf("%s of %s: %v, %v", c.path, c.at.Principal.User, got, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Backlinks(gone, at, "a.md"); !errors.Is(err, context.Canceled) {
		t.Errorf("who is gone gets %v", err)
	}
}

// TestBacklinks_limits: large notes and many links make the answer partial, and a vault of 2,000 notes
// is quick to look through.
func TestBacklinks_limits(t *testing.T) {
	t.Parallel()
	notes := map[string]string{"target.md": "", "large.md": strings.Repeat("[[other]]\n", 200_000)}
	f, at := shelf(t, notes)
	if got, err := f.Backlinks(t.Context(), at, "target.md"); err != nil || !got.Partial || len(got.Links) != 0 {
		t.Errorf("beside a note that is too large: %+v, %v", got, err)
	}
	f, at = shelf(t, map[string]string{"target.md": "", "many.md": strings.Repeat("[[target]]\n", 300)})
	if got, err := f.Backlinks(t.Context(), at, "target.md"); err != nil || !got.Partial || len(got.Links) != 200 {
		t.Errorf("of a note with 300 links: %d, %t, %v", len(got.Links), got.Partial, err)
	}
	notes = map[string]string{"target.md": ""}
	for i := range 2000 {
		notes[fmt.Sprintf("%d/note %d.md", i%20, i)] = strings.Repeat("Some words of a note that is as long as notes are.\n", 60) + fmt.Sprintf("[[note %d]]\n", i+1)
	}
	notes["7/note 7.md"] += "[[target]]\n"
	f, at = shelf(t, notes)
	began := time.Now()
	got, err := f.Backlinks(t.Context(), at, "target.md")
	if err != nil || got.Partial || len(got.Links) != 1 || got.Links[0] != (parley.Backlink{Path: "7/note 7.md", Line: 62, Text: "[[target]]"}) {
		t.Errorf("in 2,000 notes: %+v, %v", got, err)
	}
	t.Logf("2,000 notes: %s", time.Since(began).Round(time.Millisecond))
}
