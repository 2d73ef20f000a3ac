package lake_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/lake"
)

// TestFolderLinks: a Markdown link may lead to a folder. It is not broken, and leads there after its page was moved.
func TestFolderLinks(t *testing.T) {
	t.Parallel()
	g := newRig(t, "docs/a.md", "# A\n\n[roles](../roles/), [Roles](/Roles), [all](..), [here](.), [this](<../docs>) [none](../rolex/) [out](../../roles/) [[roles/]]\n", "roles/cfo.md", "# CFO\n")
	check := func(name string) {
		t.Helper()
		var got []string
		for _, l := range g.read(name).Links {
			got = append(got, l.Path)
		}
		if diff := cmp.Diff([]string{"roles/", "roles/", "./", "docs/", "docs/", "", "", ""}, got); diff != "" {
			t.Error(diff)
		}
		v, err := g.Validate(t.Context(), []string{name}, lake.Page{})
		broken := 0
		for _, f := range v.Faults {
			if f.Rule == "broken-link" {
				broken++
			}
		}
		if err != nil || broken != 3 {
			t.Errorf("%s: %+v, %v", name, v.Faults, err)
		}
	}
	check("docs/a.md")
	g.write("docs/b.md", "# B\n")
	if _, err := g.Move(t.Context(), lake.Change{Path: "docs/a.md", To: "lake/deep/a.md", Author: ana}); err != nil {
		t.Fatal(err)
	}
	if want := "# A\n\n[roles](../../roles/), [Roles](/Roles), [all](../..), [here](../../docs), [this](<../../docs>) [none](../rolex/) [out](../../roles/) [[roles/]]\n"; g.file("lake/deep/a.md") != want {
		t.Errorf("moved:\n%s%s", g.file("lake/deep/a.md"), want)
	}
}

// TestFolderLinks_spelling: a link that writes the folder's name in another Unicode form leads to the folder, by its name on disk.
func TestFolderLinks_spelling(t *testing.T) {
	t.Parallel()
	g := newRig(t, "docs/a.md", "# A\n\n[one](../Cafe%CC%81/), [two](../the\u0301/)\n", "caf\u00e9/b.md", "# B\n", "the\u0301/c.md", "# C\n")
	var got []string
	for _, l := range g.read("docs/a.md").Links {
		got = append(got, l.Path)
	}
	if diff := cmp.Diff([]string{"caf\u00e9/", "the\u0301/"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestRandomMoves: whatever is moved where, every link leads afterwards where it led before, also when several entities have one name,
// and each move is one commit.
func TestRandomMoves(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	names := []string{"ana", "Plan", "my note", "zo\u00eb", "a(b)"}
	folders := []string{"", "docs/", "docs/old/", "lake/", "lake/people & more/"}
	var files []string
	for _, f := range folders {
		for _, n := range names {
			if r.IntN(3) > 0 {
				files = append(files, f+n+".md")
			}
		}
	}
	write := func(from string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "---\ntitle: %s\n---\n# A heading\n\n", path.Base(from))
		for i := range 5 {
			to := files[r.IntN(len(files))]
			bare := strings.TrimSuffix(to, ".md")
			up := strings.Repeat("../", strings.Count(from, "/"))
			fmt.Fprint(&b, []string{
				fmt.Sprintf("See [[%s]].\n", path.Base(bare)), fmt.Sprintf("- [[%s#A heading|it]] `[[%s]]`\n", bare, bare), fmt.Sprintf("[text](<%s%s>)\n", up, to),
				fmt.Sprintf("[text](%s%s#a-heading \"title\")\n", up, strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "&", "&amp;").Replace(to)), fmt.Sprintf("| a | [[%s\\|b]] |\n", bare),
			}[(i+r.IntN(5))%5])
		}
		return b.String()
	}
	var all []string
	for _, f := range files {
		all = append(all, f, write(f))
	}
	g := newRig(t, all...)
	state := func() map[string][]string {
		m := map[string][]string{}
		list, err := g.List(t.Context(), lake.Filter{}, lake.Page{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Entities {
			m[e.Path] = []string{}
			for _, l := range g.read(e.Path).Links {
				m[e.Path] = append(m[e.Path], l.Path)
			}
		}
		return m
	}
	before := state()
	for n := range 40 {
		from := files[r.IntN(len(files))]
		to := folders[r.IntN(len(folders))] + names[r.IntN(len(names))] + []string{".md", " 2.md"}[r.IntN(2)]
		if _, taken := before[to]; taken {
			continue
		}
		if _, err := g.Move(t.Context(), lake.Change{Path: from, To: to, Author: ana, Reason: fmt.Sprint("move ", n)}); err != nil {
			t.Fatalf("%s to %s: %v", from, to, err)
		}
		after := state()
		if len(after) != len(before) {
			t.Fatalf("%s to %s: %d entities, were %d", from, to, len(after), len(before))
		}
		now := func(p string) string {
			if p == from {
				return to
			}
			return p
		}
		for p, links := range before {
			got := after[now(p)]
			if len(got) != len(links) {
				t.Fatalf("%s to %s: %s has %d links, had %d:\n%s", from, to, now(p), len(got), len(links), g.file(now(p)))
			}
			for i := range links {
				if links[i] != "" && got[i] != now(links[i]) {
					t.Fatalf("%s to %s: link %d of %s led to %q, and leads to %q:\n%s", from, to, i, now(p), links[i], got[i], g.file(now(p)))
				}
			}
		}
		for i, f := range files {
			files[i] = now(f)
		}
		before = after
	}
	g.clean()
}
