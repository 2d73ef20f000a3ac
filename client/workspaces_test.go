package client_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// TestFiles: a workspace is made, and its files are written, read, listed, moved and deleted.
func TestFiles(t *testing.T) {
	t.Parallel()
	folders, err := workspace.New(workspace.Options{Root: t.TempDir(), Default: "main"})
	if err != nil {
		t.Fatal(err)
	}
	rig := enginetest.New(t, enginetest.Echo, enginetest.App())
	srv := httptest.NewServer(api.New(api.Options{Engine: rig.Engine, Reader: rig.Reader, Files: userfiles.New(userfiles.Options{
		Apps: func() []string { return []string{"test"} }, Folders: func(string) (*workspace.Folders, error) { return folders, nil },
	})}))
	t.Cleanup(func() { rig.Close(); srv.Close() })
	c, ctx := client.New(client.Options{BaseURL: srv.URL}), t.Context()

	if w, err := c.CreateWorkspace(ctx, parley.CreateWorkspace{App: "test", Name: "Second Brain"}); err != nil || w.Name != "Second Brain" || w.Kind != parley.WorkspaceOwn {
		t.Fatalf("%+v, %v", w, err)
	}
	if list, err := c.Workspaces(ctx, "test"); err != nil || len(list) != 2 || !list[1].Default {
		t.Errorf("%+v, %v", list, err)
	}
	f := c.Files("test", "Second Brain")
	text := "one\ntwo\n"
	made, err := f.Write(ctx, "a/b & c?.md", parley.WriteFile{Text: &text})
	if err != nil || made.Path != "a/b & c?.md" {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = f.Write(ctx, made.Path, parley.WriteFile{Base64: []byte("x")})
	if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeConflict || e.Current != made.Version {
		t.Errorf("%+v", err)
	}
	if got, err := f.Read(ctx, made.Path, 2); err != nil || *got.Text != "two\n" || got.Version != made.Version {
		t.Errorf("%+v, %v", got, err)
	}
	r, err := f.Open(ctx, made.Path)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != text {
		t.Errorf("%q, %v", body, err)
	}
	_ = r.Close()
	if tree, err := f.Tree(ctx, client.TreeQuery{Depth: 2, Limit: 1}); err != nil || len(tree.Entries) != 1 || tree.Next != "a" {
		t.Errorf("%+v, %v", tree, err)
	}
	if tree, err := f.Tree(ctx, client.TreeQuery{Depth: 2, After: "a", Ignored: true}); err != nil || len(tree.Entries) != 1 || tree.Entries[0].Path != made.Path || tree.Next != "" {
		t.Errorf("%+v, %v", tree, err)
	}
	if tree, err := f.Tree(ctx, client.TreeQuery{Path: "a"}); err != nil || len(tree.Entries) != 1 {
		t.Errorf("%+v, %v", tree, err)
	}
	if links, err := f.Backlinks(ctx, made.Path); err != nil || len(links.Links) != 0 || links.Partial {
		t.Errorf("%+v, %v", links, err)
	}
	linking, err := f.Write(ctx, "linking.md", parley.WriteFile{Base64: []byte("see\n[[b & c?]]\n")})
	if err != nil {
		t.Fatal(err)
	}
	if links, err := f.Backlinks(ctx, made.Path); err != nil || len(links.Links) != 1 || links.Links[0] != (parley.Backlink{Path: "linking.md", Line: 2, Text: "[[b & c?]]"}) {
		t.Errorf("%+v, %v", links, err)
	}
	if err := f.Delete(ctx, "linking.md", linking.Version); err != nil {
		t.Error(err)
	}
	if moved, err := f.Move(ctx, made.Path, parley.MoveFile{To: "c.md", Version: made.Version}); err != nil || moved.Path != "c.md" {
		t.Errorf("%+v, %v", moved, err)
	}
	if err := errors.Join(f.Delete(ctx, "c.md", made.Version), f.Delete(ctx, "a", "")); err != nil {
		t.Error(err)
	}
	if _, err := f.Read(ctx, "c.md", 0); !errors.Is(err, parley.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
