package client_test

import (
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// TestLake: what the API says of a lake, and does to it, the client says and does.
func TestLake(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git program")
	}
	root, private := t.TempDir(), t.TempDir()
	folders, err := workspace.New(workspace.Options{Root: filepath.Join(root, "users"), Default: "main"})
	if err != nil {
		t.Fatal(err)
	}
	lakes := lake.New(lake.Options{Private: private, Fresh: -1})
	rig := enginetest.New(t, enginetest.Echo, enginetest.App())
	srv := httptest.NewServer(api.New(api.Options{Engine: rig.Engine, Reader: rig.Reader, Files: userfiles.New(userfiles.Options{
		Apps: func() []string { return []string{"test"} }, Folders: func(string) (*workspace.Folders, error) { return folders, nil },
		Lakes: userfiles.Lakes{Of: func(string) bool { return true }, Open: lakes.In},
	})}))
	t.Cleanup(func() { rig.Close(); srv.Close(); _ = lakes.Close() })
	l, ctx := client.New(client.Options{BaseURL: srv.URL}).Lake("", ""), t.Context()

	made, err := l.Create(ctx, parley.WriteEntity{Path: "docs/tea.md", Body: "---\ntitle: Tea\nkind: doc\n---\nHot.\n", Reason: "Tea"}, "k")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Create(ctx, parley.WriteEntity{Path: "docs/tea.md", Body: "---\ntitle: Tea\nkind: doc\n---\nHot.\n", Reason: "Tea"}, "k"); err != nil || !again.Repeated {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := l.Create(ctx, parley.WriteEntity{Path: "docs/day.md", Body: "---\ntitle: Day\nkind: doc\n---\n[[tea]] [[none]]\n"}, ""); err != nil {
		t.Fatal(err)
	}
	next, err := l.Update(ctx, "docs/tea.md", parley.WriteEntity{Body: "---\ntitle: Tea\nkind: doc\n---\nCold.\n", Version: made.Version}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Update(ctx, "docs/tea.md", parley.WriteEntity{Body: "---\ntitle: Tea\nkind: doc\n---\nWarm.\n", Version: made.Version}, ""); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("a change that does not fit: %v", err)
	}
	check := func(what string, ok bool, err error) {
		t.Helper()
		if !ok || err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	e, err := l.Read(ctx, "docs/tea")
	check("read", e.Version == next.Version && strings.Contains(e.Body, "Cold."), err)
	list, err := l.List(ctx, client.EntityQuery{Kind: "doc", Limit: 1})
	check("list", len(list.Entities) == 1 && list.Next == "docs/day.md", err)
	hits, err := l.Search(ctx, "cold", client.EntityQuery{})
	check("search", len(hits.Hits) == 1 && hits.Hits[0].Path == "docs/tea.md", err)
	back, err := l.Backlinks(ctx, "docs/tea.md", "", 0)
	check("backlinks", len(back.Links) == 1 && back.Links[0].Path == "docs/day.md", err)
	hist, err := l.History(ctx, "docs/tea.md", "", 0)
	check("history", len(hist.Revisions) == 2, err)
	diff, err := l.Diff(ctx, "docs/tea.md", "", next.Commit)
	check("diff", strings.Contains(diff, "-Hot.\n+Cold."), err)
	faults, err := l.Validate(ctx, []string{"docs"}, "", 0)
	check("validate", len(faults.Faults) == 1 && faults.Faults[0].Rule == "broken-link", err)
	tree, err := l.Tree(ctx, "", "", 0)
	check("tree", len(tree.Folders) == 1 && tree.Folders[0].Entities == 2, err)
	graph, err := l.Graph(ctx, client.EntityQuery{})
	check("graph", len(graph.Nodes) == 2 && len(graph.Edges) == 1 && graph.Broken == 1, err)
	moved, err := l.Move(ctx, "docs/tea.md", parley.MoveEntity{To: "tea.md", Version: next.Version}, "")
	check("move", moved.Path == "tea.md", err)
	gone, err := l.Delete(ctx, "tea.md", moved.Version, "", "")
	check("delete", gone.Version == "", err)
	feed, err := l.Changes(ctx, "", 0)
	check("changes", len(feed.Changes) >= 5 && feed.Cursor != "", err)
}
