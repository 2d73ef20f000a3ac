package files_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/files/filestest"
)

// FuzzTree does everything with any path, in a folder with links and other traps: nothing outside
// is read or changed, and nothing in .git.
func FuzzTree(f *testing.F) {
	for _, p := range filestest.Outside {
		f.Add(p, "new.md")
		f.Add("a/b/c.md", p)
	}
	top := f.TempDir()
	vault := filestest.Furnish(f, top)
	root, err := os.OpenRoot(vault)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = root.Close() })
	tree, before := files.Of(root), filestest.Everything(f, top, "")
	secret := files.VersionOf([]byte("SECRET\n"))
	evil := files.VersionOf([]byte("EVIL"))
	f.Fuzz(func(t *testing.T, name, other string) {
		if body, err := tree.Read(name, 1<<20); err == nil && string(body) != "mine\n" {
			t.Errorf("%q reads %q", name, body)
		}
		list, _, err := tree.List(t.Context(), name, files.List{Depth: 64, After: other, Ignored: true, Most: 100, Bytes: 1 << 20})
		if err == nil {
			for _, e := range list {
				if _, err := files.Clean(e.Path); err != nil || strings.Contains(e.Path, "secret") || !strings.HasPrefix(e.Path, prefix(t, name)) {
					t.Errorf("%q lists %q, %v", name, e.Path, err)
				}
			}
		}
		for _, c := range []files.Change{
			{Path: name, Body: []byte("EVIL"), Was: secret},
			{Path: name, Gone: true, Was: secret},
		} {
			if _, err := tree.Apply(c); err == nil {
				t.Errorf("%q was changed", name)
			}
		}
		if _, err := tree.Move(name, other, secret); err == nil {
			t.Errorf("%q was moved to %q", name, other)
		}
		// What may be made is made, moved and deleted again.
		made, err := tree.Apply(files.Change{Path: name, Body: []byte("EVIL")})
		if err == nil {
			more, err := tree.Move(name, other, evil)
			for _, at := range []string{name, other} {
				_, _ = tree.Apply(files.Change{Path: at, Gone: true, Was: evil})
			}
			if err == nil {
				tree.RemoveEmpty(more...)
			}
		}
		tree.RemoveEmpty(made...)
		if err := tree.RemoveFolder(name); err == nil {
			t.Errorf("the folder %q was removed", name)
		}
		if diff := cmp.Diff(before, filestest.Everything(t, top, "")); diff != "" {
			t.Fatalf("%q and %q changed something: %s", name, other, diff)
		}
	})
}

// prefix is what the paths below a folder begin with.
func prefix(t *testing.T, dir string) string {
	clean, err := files.Clean(dir)
	if err != nil {
		t.Fatal(err)
	}
	if clean == "." {
		return ""
	}
	return clean + "/"
}

// FuzzList lists a folder by pages from any entry on, and whatever the rules there say: the pages are in
// order and join to the whole list.
func FuzzList(f *testing.F) {
	f.Add("a/b", 1, "*.md\n!a.md\n")
	f.Add("", 3, "/a\n")
	f.Add("zz", 2, "**/{}[\\\n")
	f.Fuzz(func(t *testing.T, after string, most int, rules string) {
		tree, dir := folder(t, map[string]string{"a/b/c.md": "c", "a/b.md": "b", "a.md": "a", "a-b/x": "x", "z": "z"})
		write(t, dir+"/.gitignore", rules)
		l := files.List{Depth: 64, Most: 1 << 10, Bytes: 1 << 20}
		all, more, err := tree.List(t.Context(), "", l)
		if err != nil || more {
			t.Fatalf("%v, %v", more, err)
		}
		l.Most = max(most%8, 1)
		var joined []parley.FileEntry
		for {
			page, more, err := tree.List(t.Context(), "", l)
			if err != nil || len(page) > l.Most || more && len(page) == 0 {
				t.Fatalf("%d, %v, %v", len(page), more, err)
			}
			joined = append(joined, page...)
			if !more {
				break
			}
			l.After = page[len(page)-1].Path
		}
		if diff := cmp.Diff(all, joined); diff != "" {
			t.Error("the pages do not join:", diff)
		}
		l.After, l.Most = after, 1<<10
		rest, _, err := tree.List(t.Context(), "", l)
		clean, bad := files.Clean(after)
		if bad != nil || clean == "." && after != "" {
			if err == nil {
				t.Errorf("from %q on: no error", after)
			}
			return
		}
		if err != nil || after != "" && len(rest) > 0 && !later(rest[0].Path, clean) {
			t.Errorf("from %q on: %+v, %v", after, rest, err)
		}
		want := 0
		for _, e := range all {
			if after == "" || later(e.Path, clean) {
				want++
			}
		}
		if len(rest) != want {
			t.Errorf("from %q on there are %d, and %d are listed", after, want, len(rest))
		}
	})
}

// later reports whether a path comes after another in a list.
func later(a, b string) bool {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00")) > 0
}
