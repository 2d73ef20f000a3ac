package lake_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// rig is a lake and the person who works in its folder.
type rig struct {
	*lake.Lake
	t   testing.TB
	dir string
}

var ana = lake.Author{Name: "Ana", Email: "ana@example.com"}

// day is when commits of tests are made.
var day = time.Date(2026, 11, 27, 9, 30, 0, 0, time.UTC)

// memory is a folder in memory, or a temporary one: git syncs what it writes.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "lake-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func newRig(t testing.TB, files ...string) *rig {
	t.Helper()
	g := &rig{t: t, dir: memory(t)}
	for i := 0; i < len(files); i += 2 {
		g.write(files[i], files[i+1])
	}
	g.open(lake.Options{})
	return g
}

// open opens the lake, as another process would.
func (g *rig) open(o lake.Options) {
	g.t.Helper()
	if o.Private == "" {
		o.Private = memory(g.t)
	}
	if o.Fresh == 0 {
		o.Fresh = -1
	}
	o.Now = func() time.Time { return day }
	l, err := lake.Open(g.t.Context(), g.dir, o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if err := l.Close(); err != nil {
			g.t.Error(err)
		}
	})
	g.Lake = l
}

func (g *rig) write(name, body string) {
	g.t.Helper()
	at := filepath.Join(g.dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(body), 0o644)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) file(name string) string {
	body, err := os.ReadFile(filepath.Join(g.dir, filepath.FromSlash(name)))
	if err != nil {
		return "(none)"
	}
	return string(body)
}

func (g *rig) read(name string) lake.Entity {
	g.t.Helper()
	e, err := g.Read(g.t.Context(), name)
	if err != nil {
		g.t.Fatal(err)
	}
	return e
}

// git runs a person's git in the lake's folder.
func (g *rig) git(args ...string) string { g.t.Helper(); return git(g.t, g.dir, args...) }

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := tryGit(dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Bo", "GIT_AUTHOR_EMAIL=bo@example.com", "GIT_COMMITTER_NAME=Bo", "GIT_COMMITTER_EMAIL=bo@example.com",
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(err, errors.New(errs.String()))
	}
	return string(out), err
}

// log is the subjects of the branch, oldest first, with their authors.
func (g *rig) log() []string {
	g.t.Helper()
	return strings.Split(strings.TrimSpace(g.git("log", "--reverse", "--format=%an: %s")), "\n")
}

// clean checks what git says of the working tree.
func (g *rig) clean(want ...string) {
	g.t.Helper()
	var got []string
	for l := range strings.Lines(g.git("status", "--porcelain", "-uall")) {
		got = append(got, strings.TrimRight(l, "\n"))
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("git status says %q, want %q", got, want)
	}
}

func code(err error) parley.Code { return parley.CodeOf(err) }

func TestChanges(t *testing.T) {
	t.Parallel()
	g := newRig(t, "README.md", "# The lake\n\nSee [[Pricing]] and [the role](roles/cfo.md).\n", "docs/pricing.md", "---\ntitle: Pricing\ntags: [money, sales]\nstatus: draft\n---\n\nOne price.\n", "roles/cfo.md", "---\nkind: role\n---\n# CFO\n")
	ctx := t.Context()
	made, err := g.Create(ctx, lake.Change{Path: "lake/ana.md", Body: "# Ana\n\nWrites [[pricing|prices]].\n", Author: ana, Reason: "Add Ana", Key: "k1"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.Create(ctx, lake.Change{Path: "lake/ana.md", Body: "# Ana\n\nWrites [[pricing|prices]].\n", Author: ana, Reason: "Add Ana", Key: "k1"})
	made.Repeated = true
	if diff := cmp.Diff(made, again); err != nil || diff != "" {
		t.Fatalf("the same change again: %v\n%s", err, diff)
	}
	if _, err := g.Create(ctx, lake.Change{Path: "lake/b.md", Body: "b", Key: "k1"}); code(err) != parley.CodeKeyReused {
		t.Errorf("another change with the key: %v", err)
	}
	for _, reason := range []string{"Parley-Key: k2", "Tidy\n\n parley-change: x"} {
		if _, err := g.Create(ctx, lake.Change{Path: "lake/c.md", Body: "c", Reason: reason, Key: "k3"}); code(err) != parley.CodeInvalid {
			t.Errorf("a reason that looks like a key, %q: %v", reason, err)
		}
	}
	e := g.read("docs/pricing.md")
	if e.Title != "Pricing" || e.Status != "draft" || e.Kind != "doc" || !slices.Equal(e.Tags, []string{"money", "sales"}) {
		t.Errorf("got %+v", e)
	}
	_, err = g.Update(ctx, lake.Change{Path: "docs/pricing", Body: e.Body + "\nTwo prices.\n", Base: e.Version, Author: ana, Reason: "Say more\n\nBecause."})
	if err != nil {
		t.Fatal(err)
	}
	// Somebody who has read the first version changes another part.
	other, err := g.Update(ctx, lake.Change{Path: "docs/pricing.md", Body: strings.Replace(e.Body, "draft", "final", 1), Base: e.Version, Author: ana, Reason: "Decide"})
	if err != nil || !other.Merged {
		t.Fatalf("a change that fits: %+v %v", other, err)
	}
	// And the same part.
	_, err = g.Update(ctx, lake.Change{Path: "docs/pricing.md", Body: strings.Replace(e.Body, "draft", "rejected", 1), Base: e.Version, Author: ana})
	c, is := errors.AsType[*lake.Conflict](err)
	if !is || !slices.Equal(c.Lines, []lake.Lines{{From: 4, To: 4}}) {
		t.Errorf("a change that does not fit: %v", err)
	}
	moved, err := g.Move(ctx, lake.Change{Path: "docs/pricing.md", To: "docs/money/prices.md", Author: ana, Reason: "Sort"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"README.md", "lake/ana.md"}; !slices.Equal(moved.Rewritten, want) {
		t.Errorf("links were changed in %v, want %v", moved.Rewritten, want)
	}
	if got, want := g.file("README.md")+g.file("lake/ana.md"), "# The lake\n\nSee [[prices]] and [the role](roles/cfo.md).\n# Ana\n\nWrites [[prices|prices]].\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	back, err := g.Backlinks(ctx, "docs/money/prices.md", lake.Page{})
	want := []lake.Backlink{{Path: "README.md", Title: "The lake", Line: 3, Text: "See [[prices]] and [the role](roles/cfo.md)."}, {Path: "lake/ana.md", Title: "Ana", Line: 3, Text: "Writes [[prices|prices]]."}}
	if diff := cmp.Diff(want, back.Links); err != nil || diff != "" {
		t.Errorf("backlinks: %v\n%s", err, diff)
	}
	hits, err := g.Search(ctx, lake.Query{Text: "pric"}, lake.Page{})
	if err != nil || len(hits.Hits) != 3 || hits.Hits[0].Path != "docs/money/prices.md" {
		t.Errorf("search: %v %+v", err, hits)
	}
	if _, err := g.Delete(ctx, lake.Change{Path: "roles/cfo.md", Author: ana, Reason: "Nobody is"}); err != nil {
		t.Fatal(err)
	}
	v, err := g.Validate(ctx, nil, lake.Page{})
	faults := []lake.Fault{
		{Path: "README.md", Line: 3, Rule: "broken-link", Message: "the link roles/cfo.md leads to no file"},
		{Path: "lake/ana.md", Line: 1, Rule: "front-matter", Message: "it has no front matter with a kind and a title"},
	}
	if diff := cmp.Diff(faults, v.Faults); err != nil || diff != "" {
		t.Errorf("faults: %v\n%s", err, diff)
	}
	g.clean()
	log := []string{"Somebody: Begin with the files as found", "Ana: Add Ana", "Ana: Say more", "Ana: Decide", "Ana: Sort", "Ana: Nobody is"}
	if diff := cmp.Diff(log, g.log()); diff != "" {
		t.Error(diff)
	}
	feed, err := g.Changes(ctx, "", lake.Page{})
	if err != nil || len(feed.Changes) != len(log) || feed.Cursor != strings.TrimSpace(g.git("rev-parse", "HEAD")) {
		t.Fatalf("the feed: %v %+v", err, feed)
	}
	touched := []parley.LakeTouched{{Path: "README.md", What: "updated"}, {Path: "docs/money/prices.md", What: "created"}, {Path: "docs/pricing.md", What: "deleted"}, {Path: "lake/ana.md", What: "updated"}}
	if diff := cmp.Diff(touched, feed.Changes[4].Changed); diff != "" {
		t.Error(diff)
	}
	if is, ok, err := g.Made(ctx, "k1"); err != nil || !ok || is.Commit != made.Commit || is.Path != "lake/ana.md" {
		t.Errorf("made: %+v %v %v", is, ok, err)
	}
	diff, err := g.Diff(ctx, "lake/ana.md", made.Commit, "")
	if err != nil || !strings.Contains(diff, "+Writes [[prices|prices]].") {
		t.Errorf("diff: %v\n%s", err, diff)
	}
	h, err := g.History(ctx, "lake/ana.md", lake.Page{Limit: 1})
	if err != nil || len(h.Revisions) != 1 || h.Revisions[0].Reason != "Sort" || h.Next == "" {
		t.Errorf("history: %v %+v", err, h)
	}
	tree, err := g.Tree(ctx, "docs", lake.Page{})
	if err != nil || len(tree.Folders) != 1 || tree.Folders[0] != (lake.Folder{Path: "docs/money", Entities: 1}) {
		t.Errorf("tree: %v %+v", err, tree)
	}
	graph, err := g.Graph(ctx, lake.Filter{})
	if err != nil || len(graph.Nodes) != 3 || len(graph.Edges) != 2 || graph.Broken != 1 {
		t.Errorf("graph: %v %+v", err, graph)
	}
}
