package lake_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

const plan = "one\ntwo\nthree\nfour\nfive\n"

// TestUncommitted: what others have changed and not committed is neither lost nor committed by the way.
func TestUncommitted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		theirs string // what the file has, uncommitted
		ours   func(body string) string
		stale  bool // we have not seen theirs
		want   string
		log    []string // after the first commit
		status []string
		lines  string // of the refusal
	}{
		{
			name: "another part", theirs: "one!\ntwo\nthree\nfour\nfive\n", ours: func(b string) string { return strings.Replace(b, "five", "5", 1) },
			want: "one!\ntwo\nthree\nfour\n5\n", log: []string{"Ana: ours"}, status: []string{" M docs/plan.md"},
		},
		{
			name: "another part, unseen", theirs: "one!\ntwo\nthree\nfour\nfive\n", ours: func(string) string { return strings.Replace(plan, "five", "5", 1) }, stale: true,
			want: "one!\ntwo\nthree\nfour\n5\n", log: []string{"Ana: ours"}, status: []string{" M docs/plan.md"},
		},
		{
			name: "the same lines", theirs: "one\ntwo!\nthree\nfour\nfive\n", ours: func(b string) string { return strings.Replace(b, "two!", "2", 1) },
			want: "one\n2\nthree\nfour\nfive\n", log: []string{"Somebody: Take in docs/plan.md as found", "Ana: ours"},
		},
		{
			name: "the same lines, unseen", theirs: "one\ntwo!\nthree\nfour\nfive\n", ours: func(string) string { return strings.Replace(plan, "two", "2", 1) }, stale: true,
			want: "one\ntwo!\nthree\nfour\nfive\n", status: []string{" M docs/plan.md"}, lines: "line 2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, "docs/plan.md", plan)
			if _, err := g.Create(t.Context(), lake.Change{Path: "first.md", Body: "x", Author: ana}); err != nil {
				t.Fatal(err)
			}
			n := len(g.log())
			seen := g.read("docs/plan.md")
			g.write("docs/plan.md", c.theirs)
			if !c.stale {
				seen = g.read("docs/plan.md")
			}
			_, err := g.Update(t.Context(), lake.Change{Path: "docs/plan.md", Body: c.ours(seen.Body), Base: seen.Version, Author: ana, Reason: "ours"})
			if c.lines == "" && err != nil || c.lines != "" && (code(err) != parley.CodeConflict || !strings.Contains(err.Error(), c.lines)) {
				t.Errorf("got %v", err)
			}
			if got := g.file("docs/plan.md"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := g.log()[n:]; !slices.Equal(got, c.log) {
				t.Errorf("committed %q, want %q", got, c.log)
			}
			g.clean(c.status...)
			if e := g.read("docs/plan.md"); e.Body != c.want || e.Version != lake.VersionOf([]byte(c.want)) {
				t.Errorf("the index has %+v", e)
			}
		})
	}
}

// TestUnknownFiles: a file that git does not know yet is committed as it was found before it is changed; what is staged, and the
// other files of the folder, stay as they are.
func TestUnknownFiles(t *testing.T) {
	t.Parallel()
	g := newRig(t, "docs/plan.md", plan, ".gitignore", "private/\n")
	if _, err := g.Create(t.Context(), lake.Change{Path: "first.md", Body: "x", Author: ana}); err != nil {
		t.Fatal(err)
	}
	g.write("docs/plan.md", "staged\n")
	g.git("add", "docs/plan.md")
	g.write("docs/new.md", "new\n")
	g.write("docs/other.md", "[[new]]\n")
	g.write("private/p.md", "secret")
	e := g.read("docs/new.md")
	if _, err := g.Update(t.Context(), lake.Change{Path: "docs/new.md", Body: "newer\n", Base: e.Version, Author: ana, Reason: "ours"}); err != nil {
		t.Fatal(err)
	}
	if got, want := g.log()[2:], []string{"Somebody: Take in docs/new.md as found", "Ana: ours"}; !slices.Equal(got, want) {
		t.Errorf("committed %q, want %q", got, want)
	}
	g.clean("M  docs/plan.md", "?? docs/other.md")
	if _, err := g.Read(t.Context(), "private/p.md"); code(err) != parley.CodeNotFound {
		t.Errorf("a file that git ignores: %v", err)
	}
	// The links in a file that is not committed are rewritten by a move, too.
	if _, err := g.Move(t.Context(), lake.Change{Path: "docs/new.md", To: "docs/newest.md", Author: ana, Reason: "move"}); err != nil {
		t.Fatal(err)
	}
	if got := g.file("docs/other.md"); got != "[[newest]]\n" {
		t.Errorf("got %q", got)
	}
	// Somebody has removed an entity and not committed that.
	if err := os.Remove(filepath.Join(g.dir, "first.md")); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Create(t.Context(), lake.Change{Path: "first.md", Body: "y", Author: ana}); code(err) != parley.CodeConflict {
		t.Errorf("in the place of a removed one: %v", err)
	}
	if _, err := g.Delete(t.Context(), lake.Change{Path: "first.md", Author: ana}); code(err) != parley.CodeConflict && code(err) != parley.CodeNotFound {
		t.Errorf("a removed one: %v", err)
	}
}

// TestStates: in each state of a repository a lake can be read. It says why it cannot be changed.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		make  func(g *rig)
		o     lake.Options
		wrong string // why nothing can be changed; "": it can be
	}{
		{"no repository", func(*rig) {}, lake.Options{}, ""},
		{"no commit", func(g *rig) { g.git("init", "-q", "-b", "trunk"); g.git("add", ".") }, lake.Options{}, ""},
		{"no git", func(*rig) {}, lake.Options{Git: "no-such-git"}, "git is missing"},
		{"a merge", func(g *rig) {
			g.git("init", "-q", "-b", "main")
			g.git("add", ".")
			g.git("commit", "-q", "-m", "one")
			g.write(".git/MERGE_HEAD", strings.TrimSpace(g.git("rev-parse", "HEAD"))+"\n")
		}, lake.Options{}, "in the middle of a merge"},
		{"no branch", func(g *rig) {
			g.git("init", "-q", "-b", "main")
			g.git("add", ".")
			g.git("commit", "-q", "-m", "one")
			g.git("checkout", "-q", "--detach")
		}, lake.Options{}, "no branch is checked out"},
		{"half a repository", func(g *rig) { g.write(".git/HEAD", "ref: refs/heads/main\n") }, lake.Options{}, "is not a whole repository"},
		{"a second working tree", func(g *rig) { g.write(".git", "gitdir: /elsewhere\n") }, lake.Options{}, "the repository is elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := &rig{t: t, dir: memory(t)}
			g.write("docs/plan.md", "# Plan\n")
			c.make(g)
			g.open(c.o)
			if e := g.read("docs/plan.md"); e.Title != "Plan" {
				t.Errorf("got %+v", e)
			}
			hits, err := g.Search(t.Context(), lake.Query{Text: "plan"}, lake.Page{})
			if err != nil || len(hits.Hits) != 1 {
				t.Errorf("search: %v %+v", err, hits)
			}
			_, err = g.Create(t.Context(), lake.Change{Path: "lake/new.md", Body: "x", Author: ana})
			switch {
			case c.wrong == "" && err != nil, c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)):
				t.Errorf("a change: %v, want %q", err, c.wrong)
			case c.wrong != "" && g.file("lake/new.md") != "(none)":
				t.Error("a file was left over")
			}
			switch {
			case c.name == "no commit":
				g.clean("A  docs/plan.md") // what was staged is still
			case c.wrong == "":
				g.clean()
			}
		})
	}
	if _, err := lake.Open(t.Context(), filepath.Join(t.TempDir(), "none"), lake.Options{Private: t.TempDir()}); code(err) != parley.CodeNotFound {
		t.Errorf("no folder: %v", err)
	}
}

// TestFollow: the index is what a new one would be after whatever others do to the files, and after it was deleted or damaged.
func TestFollow(t *testing.T) {
	t.Parallel()
	g := newRig(t, "docs/a.md", "# A\n\n[[b]] [[c]]\n", "docs/b.md", "# B\n", "picture.png", "x")
	if _, err := g.Create(t.Context(), lake.Change{Path: "first.md", Body: "x", Author: ana}); err != nil {
		t.Fatal(err)
	}
	g.git("branch", "old")
	private := memory(t)
	g.open(lake.Options{Private: private})
	steps := []struct {
		name string
		do   func()
	}{
		{"a new file", func() { g.write("docs/c.md", "---\ntags: [x]\n---\n# C\n") }},
		{"the same size", func() { g.write("docs/c.md", "---\ntags: [y]\n---\n# D\n") }},
		{"at once again", func() { g.write("docs/c.md", "---\ntags: [z]\n---\n# E\n") }},
		{"renamed", func() { g.rename("docs/b.md", "lake/b.md") }},
		{"a folder renamed", func() { g.rename("docs", "papers") }},
		{"an editor that replaces", func() { g.write("papers/.c.swp", "# F"); g.rename("papers/.c.swp", "papers/c.md") }},
		{"a link in the place of a file", func() {
			if err := errors.Join(os.Remove(filepath.Join(g.dir, "papers/c.md")), os.Symlink("a.md", filepath.Join(g.dir, "papers/c.md"))); err != nil {
				t.Fatal(err)
			}
		}},
		{"ignored", func() { g.write(".gitignore", "lake/\n") }},
		{"another branch", func() { g.git("add", "-A"); g.git("commit", "-q", "-m", "all"); g.git("checkout", "-q", "old") }},
		{"too large", func() { g.write("docs/large.md", strings.Repeat("x", lake.MaxEntity+1)) }},
		{"not text", func() { g.write("docs/bytes.md", "\xff\x00") }},
		{"a folder with the name of a note", func() { g.write("docs/folder.md/x.md", "# X") }},
		{"removed", func() {
			if err := os.RemoveAll(filepath.Join(g.dir, "docs")); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, s := range steps {
		s.do()
		g.sameAsNew(s.name)
	}
	g.write("docs/a.md", "# A\n\n[[b]]\n")
	file := filepath.Join(private, g.indexDir(private), "lake.db")
	for name, damage := range map[string]func() error{
		"deleted": func() error { return os.Remove(file) },
		"damaged": func() error { return os.WriteFile(file, []byte(strings.Repeat("garbage ", 9000)), 0o600) },
		"emptied": func() error { return os.Truncate(file, 0) },
	} {
		if err := errors.Join(g.Close(), damage()); err != nil {
			t.Fatal(err)
		}
		g.open(lake.Options{Private: private})
		g.sameAsNew(name)
	}
}

func (g *rig) rename(from, to string) {
	g.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(g.dir, to)), 0o755), os.Rename(filepath.Join(g.dir, from), filepath.Join(g.dir, to))); err != nil {
		g.t.Fatal(err)
	}
}

// indexDir is the folder of the index, which is the one with a database.
func (g *rig) indexDir(private string) string {
	list, err := filepath.Glob(filepath.Join(private, "*", "lake.db"))
	if err != nil || len(list) != 1 {
		g.t.Fatal(list, err)
	}
	return filepath.Base(filepath.Dir(list[0]))
}

// sameAsNew compares the index with a new one.
func (g *rig) sameAsNew(when string) {
	g.t.Helper()
	l, err := lake.Open(g.t.Context(), g.dir, lake.Options{Private: memory(g.t), Fresh: -1})
	if err != nil {
		g.t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a copy
	if diff := cmp.Diff(everything(g.t, l), everything(g.t, g.Lake)); diff != "" {
		g.t.Errorf("%s: the index differs from a new one (-new +ours):\n%s", when, diff)
	}
}

// everything is all that an index says.
func everything(t testing.TB, l *lake.Lake) map[string]any {
	t.Helper()
	all := map[string]any{}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for after := ""; ; {
		p, err := l.List(ctx, lake.Filter{}, lake.Page{After: after, Limit: 500})
		must(err)
		for _, e := range p.Entities {
			paths = append(paths, e.Path)
			all["entity "+e.Path] = e
		}
		if after = p.Next; after == "" {
			break
		}
	}
	g, err := l.Graph(ctx, lake.Filter{})
	must(err)
	all["graph"] = g
	tags, err := l.Tags(ctx)
	must(err)
	all["tags"] = tags
	for after := ""; ; {
		v, err := l.Validate(ctx, nil, lake.Page{After: after, Limit: 500})
		must(err)
		all["faults after "+after] = v.Faults
		if after = v.Next; after == "" {
			break
		}
	}
	for _, word := range []string{"a", "b", "x", "price", "change"} {
		h, err := l.Search(ctx, lake.Query{Text: word}, lake.Page{Limit: 100})
		must(err)
		var found []string
		for _, hit := range h.Hits {
			found = append(found, hit.Path)
		}
		slices.Sort(found)
		if len(found) < 100 { // of more, which are best depends on how the database has them
			all["search "+word] = found
		}
	}
	if len(paths) > 0 {
		b, err := l.Backlinks(ctx, paths[len(paths)/2], lake.Page{Limit: 500})
		must(err)
		all["backlinks"] = b
	}
	return all
}

// TestChangedSince: what people and other turns change counts, committed by whatever; what a turn of one's own has changed does not, nor
// what was applied of a proposal.
func TestChangedSince(t *testing.T) {
	t.Parallel()
	g := newRig(t, "a.md", "# A\n")
	since := func(commit string, own ...parley.TurnID) (string, bool) {
		t.Helper()
		head, others, err := g.ChangedSince(t.Context(), commit, own)
		if err != nil {
			t.Fatal(err)
		}
		return head, others
	}
	if head, others := since("c0"); head != "" || others {
		t.Errorf("without a repository: %q, %v", head, others)
	}
	if _, err := g.Create(t.Context(), lake.Change{Path: "b.md", Body: "# B\n", Author: ana, Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	at, others := since("")
	if at != strings.TrimSpace(g.git("rev-parse", "HEAD")) || others {
		t.Errorf("got %q, %v", at, others)
	}
	if _, err := g.Create(t.Context(), lake.Change{Path: "c.md", Body: "# C\n", Author: ana, Reason: "r", Key: "k1", Turn: "t1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Apply(t.Context(), lake.Patch{
		Author: ana, Reason: "r", Key: "tachikoma/p/f",
		Edits: []lake.PatchEdit{{Path: "c.md", Versions: []string{lake.VersionOf([]byte("# C\n"))}, On: func(string) (string, bool, error) { return "# See\n", false, nil }}},
	}); err != nil {
		t.Fatal(err)
	}
	if head, others := since(at, "t0", "t1"); others || head == at {
		t.Errorf("its own: %v", others)
	}
	if _, others := since(at, "t0"); !others {
		t.Error("another turn's change is overlooked")
	}
	mid, _ := since("")
	g.write("d.md", "# D\n")
	g.git("add", "d.md")
	g.git("commit", "-q", "-m", "a person")
	if _, others := since(mid, "t1"); !others {
		t.Error("a person's commit is overlooked")
	}
	g.git("reset", "-q", "--hard", at)
	if head, others := since(mid); !others || head != at {
		t.Errorf("after a history that was rewritten: %q, %v", head, others)
	}
	if _, others := since("0123456789012345678901234567890123456789"); !others {
		t.Error("after a commit that nobody knows there are none")
	}
}
