package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/parley-server/parley"
)

// Workspaces lists the workspaces that the user may work in, of one app or, when app is "", of all.
func (c *Client) Workspaces(ctx context.Context, app string) ([]parley.WorkspaceInfo, error) {
	q := url.Values{}
	if app != "" {
		q.Set("app", app)
	}
	list, err := get[struct {
		Workspaces []parley.WorkspaceInfo `json:"workspaces"`
	}](ctx, c, call{method: http.MethodGet, path: "/v1/workspaces", query: q})
	return list.Workspaces, err
}

// CreateWorkspace makes a workspace of the user's own. It returns CodeConflict if there is one of
// that name.
func (c *Client) CreateWorkspace(ctx context.Context, w parley.CreateWorkspace) (parley.WorkspaceInfo, error) {
	return get[parley.WorkspaceInfo](ctx, c, call{method: http.MethodPost, path: "/v1/workspaces", body: w})
}

// Files returns the files of a workspace of an app.
func (c *Client) Files(app string, w parley.Workspace) Files { return Files{c, app, w} }

// Files are the files of a workspace. Paths are relative to it, with slashes. A change states the
// version of the file that it is based on; when the file has another one, it is refused with
// CodeConflict, and the error's Current says which.
type Files struct {
	c   *Client
	app string
	w   parley.Workspace
}

// TreeQuery is what [Files.Tree] lists.
type TreeQuery struct {
	Path    string // the folder; empty: the whole workspace
	Depth   int    // how deep; 0 means 1, what is in the folder itself
	After   string // what Next says on the page before
	Limit   int    // entries, at most 2,000; 0 means 500
	Ignored bool   // also what .gitignore and .ignore files name, and what is hidden
}

// Tree lists a page of files and folders.
func (f Files) Tree(ctx context.Context, t TreeQuery) (parley.FileTree, error) {
	q := f.query(t.Path)
	if t.Depth > 0 {
		q.Set("depth", strconv.Itoa(t.Depth))
	}
	if t.After != "" {
		q.Set("after", t.After)
	}
	if t.Limit > 0 {
		q.Set("limit", strconv.Itoa(t.Limit))
	}
	if t.Ignored {
		q.Set("ignored", "true")
	}
	return get[parley.FileTree](ctx, f.c, call{method: http.MethodGet, path: "/v1/workspaces/tree", query: q})
}

// Read reads a text file from a line on, at most 1 MiB; 0 is the beginning. NextLine says where to
// go on.
func (f Files) Read(ctx context.Context, path string, line int) (parley.FileContent, error) {
	q := f.query(path)
	if line > 0 {
		q.Set("line", strconv.Itoa(line))
	}
	return get[parley.FileContent](ctx, f.c, call{method: http.MethodGet, path: filePath, query: q})
}

// History lists versions of a file, the newest first: at most 200, or 50 when limit is 0. After is
// what Next says on the page before.
func (f Files) History(ctx context.Context, path, after string, limit int) (parley.FileHistory, error) {
	q := f.query(path)
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return get[parley.FileHistory](ctx, f.c, call{method: http.MethodGet, path: "/v1/workspaces/history", query: q})
}

// Backlinks lists the notes that link to a file.
func (f Files) Backlinks(ctx context.Context, path string) (parley.Backlinks, error) {
	return get[parley.Backlinks](ctx, f.c, call{method: http.MethodGet, path: "/v1/workspaces/backlinks", query: f.query(path)})
}

// ReadVersion is Read for a version of its history.
func (f Files) ReadVersion(ctx context.Context, path, id string, line int) (parley.FileContent, error) {
	q := f.query(path)
	q.Set("id", id)
	if line > 0 {
		q.Set("line", strconv.Itoa(line))
	}
	return get[parley.FileContent](ctx, f.c, call{method: http.MethodGet, path: "/v1/workspaces/history/file", query: q})
}

// Open reads the bytes of a file. The caller closes it.
func (f Files) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	resp, err := f.c.do(ctx, call{method: http.MethodGet, path: "/v1/workspaces/content", query: f.query(path)})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Write writes a file. Without a version there must be no such file yet.
func (f Files) Write(ctx context.Context, path string, w parley.WriteFile) (parley.FileInfo, error) {
	return get[parley.FileInfo](ctx, f.c, call{method: http.MethodPut, path: filePath, query: f.query(path), body: w})
}

// Delete deletes a file, or an empty folder, which has no version.
func (f Files) Delete(ctx context.Context, path string, version parley.Digest) error {
	q := f.query(path)
	if version != "" {
		q.Set("version", string(version))
	}
	_, err := get[struct{}](ctx, f.c, call{method: http.MethodDelete, path: filePath, query: q})
	return err
}

// Move gives a file another path.
func (f Files) Move(ctx context.Context, path string, m parley.MoveFile) (parley.FileInfo, error) {
	return get[parley.FileInfo](ctx, f.c, call{method: http.MethodPost, path: filePath + "/move", query: f.query(path), body: m})
}

const filePath = "/v1/workspaces/file"

func (f Files) query(path string) url.Values {
	q := url.Values{"app": {f.app}, "workspace": {string(f.w)}}
	if path != "" {
		q.Set("path", path)
	}
	return q
}
