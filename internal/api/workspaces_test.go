package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/userfiles"
	"github.com/parley-server/parley/internal/workspace"
)

// cabinet is the API over workspaces: users' own, one that is shared read-only, and one that is
// granted to ana.
type cabinet struct {
	*world
	root, handbook, vault string
	only                  string // the app that callers are limited to
}

func newCabinet(t *testing.T) *cabinet {
	t.Helper()
	dir := t.TempDir()
	c := &cabinet{root: filepath.Join(dir, "users"), handbook: filepath.Join(dir, "handbook"), vault: filepath.Join(dir, "vault")}
	for _, d := range []string{c.root, c.handbook, filepath.Join(c.vault, "petra"), filepath.Join(c.vault, "sebastian")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := workspace.New(workspace.Options{
		Root: c.root, Default: "main", Shared: map[string]workspace.Shared{"handbook": {Dir: c.handbook, ReadOnly: true}},
		Granted: workspace.Granted{Dir: c.vault, To: map[string][]parley.Principal{"petra": {{User: "ana", Org: "acme"}}, "sebastian": {{User: "bob", Org: "acme"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.world = newWorld(t, enginetest.Echo, enginetest.App(), func(o *api.Options) {
		e := o.Engine
		o.Files = userfiles.New(userfiles.Options{
			Apps: func() []string { return []string{"test"} },
			Folders: func(app string) (*workspace.Folders, error) {
				if app == "test" {
					return folders, nil
				}
				_, err := e.App(app)
				return nil, err
			},
			Repo: func(ctx context.Context, at string) (*gitrepo.Repo, error) {
				return gitrepo.Open(ctx, gitrepo.Options{Dir: at, Private: dir, Remote: gitrepo.None})
			},
		})
		o.Only = func(context.Context) string { return c.only }
	})
	return c
}

// own is the folder of ana's default workspace.
func (c *cabinet) own() string { return filepath.Join(c.root, "ana=acme", "main") }

// at is the path of an operation on a workspace, with pairs of query parameters.
func at(op, ws string, pairs ...string) string {
	q := url.Values{"app": {"test"}, "workspace": {ws}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return "/v1/workspaces/" + op + "?" + q.Encode()
}

func (c *cabinet) put(dir, name, body string) {
	c.t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// write writes a text, and returns what the file is then.
func (c *cabinet) write(want int, ws, path, text string, was parley.Digest) (info parley.FileInfo) {
	c.t.Helper()
	body, err := json.Marshal(parley.WriteFile{Text: &text, Version: was})
	if err != nil {
		c.t.Fatal(err)
	}
	c.call(want, &info, "PUT", at("file", ws, "path", path), string(body), "Content-Type", "application/json")
	return info
}

func (c *cabinet) refusal(want int, method, path, body string, header ...string) parley.ErrorInfo {
	c.t.Helper()
	resp := c.ask(method, path, body, append(header, "Content-Type", "application/json")...)
	got := problem(c.t, resp)
	if resp.StatusCode != want || got.Message == "" {
		c.t.Fatalf("%s %s: got %d %+v, want %d", method, path, resp.StatusCode, got, want)
	}
	return got
}

// TestWorkspaces: a user's list has their own, the shared and the granted ones, and nobody else's.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	list := func(path string, header ...string) []parley.WorkspaceInfo {
		t.Helper()
		var l struct{ Workspaces []parley.WorkspaceInfo }
		c.call(200, &l, "GET", path, "", header...)
		return l.Workspaces
	}
	granted := func(name parley.Workspace) parley.WorkspaceInfo {
		return parley.WorkspaceInfo{App: "test", Name: name, Kind: parley.WorkspaceGranted}
	}
	main := parley.WorkspaceInfo{App: "test", Name: "main", Kind: parley.WorkspaceOwn, Default: true}
	handbook := parley.WorkspaceInfo{App: "test", Name: "shared/handbook", Kind: parley.WorkspaceShared, ReadOnly: true}
	if diff := cmp.Diff([]parley.WorkspaceInfo{main, handbook, granted("shared/petra")}, list("/v1/workspaces?app=test")); diff != "" {
		t.Error("ana's:", diff)
	}
	var made parley.WorkspaceInfo
	c.call(201, &made, "POST", "/v1/workspaces", `{"app":"test","name":"Second Brain"}`, "Content-Type", "application/json")
	if diff := cmp.Diff(parley.WorkspaceInfo{App: "test", Name: "Second Brain", Kind: parley.WorkspaceOwn}, made); diff != "" {
		t.Error("made:", diff)
	}
	if got := list("/v1/workspaces"); len(got) != 4 || got[0].Name != "Second Brain" || got[1] != main {
		t.Errorf("then: %+v", got)
	}
	if diff := cmp.Diff([]parley.WorkspaceInfo{main, handbook, granted("shared/sebastian")}, list("/v1/workspaces?app=test", "Test-User", "bob")); diff != "" {
		t.Error("bob's:", diff)
	}
	for body, status := range map[string]int{
		`{"app":"test","name":"Second Brain"}`: 409, `{"app":"test","name":"../x"}`: 400, `{"app":"test","name":".git"}`: 400, `{"app":"test","name":"shared/x"}`: 403,
		`{"app":"test","name":""}`: 400, `{"app":"nothing","name":"x"}`: 404,
	} {
		if got := c.refusal(status, "POST", "/v1/workspaces", body); status != 404 && got.Field != "workspace" && got.Field != "name" {
			t.Errorf("%s: the field is %q", body, got.Field)
		}
	}
	if got := c.refusal(404, "GET", "/v1/workspaces?app=nothing", ""); !strings.Contains(got.Message, "nothing") {
		t.Errorf("an unknown app: %+v", got)
	}
}

// TestTree: a folder at a time or deep, by pages that join, without what is ignored or with it
// marked.
func TestTree(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	for _, name := range []string{"b.md", "a/z.md", "a/b/c.md", "a.md", ".hidden/x", "skip/x.md", "ä.md", ".git/config", "A.md"} {
		c.put(c.own(), name, name)
	}
	c.put(c.own(), ".gitignore", "skip/\n")
	if err := os.Symlink("b.md", filepath.Join(c.own(), "link")); err != nil {
		t.Fatal(err)
	}
	read := func(pairs ...string) (lines []string) {
		t.Helper()
		for after := ""; ; {
			var page parley.FileTree
			c.call(200, &page, "GET", at("tree", "main", append(pairs, "after", after)...), "")
			for _, e := range page.Entries {
				line := string(e.Kind) + " " + e.Path
				if e.Ignored {
					line += " ignored"
				}
				if (e.Kind == parley.FileRegular) != (e.Size > 0) || e.Modified.IsZero() {
					t.Errorf("%+v", e)
				}
				lines = append(lines, line)
			}
			if after = page.Next; after == "" {
				return lines
			}
		}
	}
	first := []string{"file A.md", "folder a", "file a.md", "file b.md", "link link", "file ä.md"}
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Error("the first level:", diff)
	}
	deep := []string{"file A.md", "folder a", "folder a/b", "file a/b/c.md", "file a/z.md", "file a.md", "file b.md", "link link", "file ä.md"}
	if diff := cmp.Diff(deep, read("depth", "64")); diff != "" {
		t.Error("all levels:", diff)
	}
	marked := []string{
		"file .gitignore ignored", "folder .hidden ignored", "file .hidden/x ignored", "file A.md", "folder a", "folder a/b", "file a/z.md", "file a.md", "file b.md", "link link",
		"folder skip ignored", "file skip/x.md ignored", "file ä.md",
	}
	if diff := cmp.Diff(marked, read("depth", "2", "ignored", "true")); diff != "" {
		t.Error("with what is ignored:", diff)
	}
	for limit := 1; limit < 6; limit++ {
		if diff := cmp.Diff(deep, read("depth", "64", "limit", string(rune('0'+limit)))); diff != "" {
			t.Errorf("in pages of %d: %s", limit, diff)
		}
	}
	if diff := cmp.Diff([]string{"folder a/b", "file a/z.md"}, read("path", "a")); diff != "" {
		t.Error("one folder:", diff)
	}
	if diff := cmp.Diff([]string{"folder a/b", "file a/b/c.md", "file a/z.md"}, read("path", "a", "depth", "2", "limit", "1")); diff != "" {
		t.Error("one folder by pages:", diff)
	}
	for _, q := range [][]string{{"path", "a.md"}, {"path", "../main"}, {"after", "b.md", "path", "a"}, {"after", "../x"}, {"limit", "0"}, {"limit", "2001"}, {"depth", "0"}} {
		c.refusal(400, "GET", at("tree", "main", q...), "")
	}
	c.refusal(404, "GET", at("tree", "main", "path", "nothing"), "")
	for _, p := range []string{".git", "link"} {
		c.refusal(403, "GET", at("tree", "main", "path", p), "")
	}
}

// TestReadFile: a text with its version, whole or by lines; anything else has no text.
func TestReadFile(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	text := "one\r\ntwo\nthree"
	long := strings.Repeat("ä", userfiles.MaxText) + "\nend\n"
	for name, body := range map[string]string{"a.md": text, "empty.md": "", "pic.png": "\x89PNG\r\n\x1a\n\x00", "latin.txt": "caf\xe9", "long.md": long, "many.md": strings.Repeat("0123456789\n", 200_000)} {
		c.put(c.own(), name, body)
	}
	read := func(path string, pairs ...string) (f parley.FileContent) {
		t.Helper()
		c.call(200, &f, "GET", at("file", "main", append(pairs, "path", path)...), "")
		f.Modified = f.Modified.Truncate(0)
		return f
	}
	got := read("./x/../a.md")
	if want := files.VersionOf([]byte(text)); got.Text == nil || *got.Text != text || got.Version != want || got.Lines != 3 || got.NextLine != 0 || got.Path != "a.md" || got.MediaType != "text/plain; charset=utf-8" || got.Size != int64(len(text)) {
		t.Errorf("a.md: %+v", got)
	}
	if got := read("a.md", "line", "2", "lines", "1"); *got.Text != "two\n" || got.Line != 2 || got.NextLine != 3 {
		t.Errorf("line 2: %+v %q", got, *got.Text)
	}
	if got := read("a.md", "line", "3"); *got.Text != "three" || got.NextLine != 0 {
		t.Errorf("line 3: %+v %q", got, *got.Text)
	}
	if got := read("empty.md"); got.Text == nil || *got.Text != "" || got.Lines != 0 || got.NextLine != 0 {
		t.Errorf("empty: %+v", got)
	}
	for name, kind := range map[string]string{"pic.png": "image/png", "latin.txt": "application/octet-stream"} {
		if got := read(name); got.Text != nil || got.MediaType != kind || got.Version == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := read("long.md"); !got.Cut || len(*got.Text) != userfiles.MaxText || got.NextLine != 2 || strings.Trim(*got.Text, "ä") != "" {
		t.Errorf("a long line: %d bytes, cut %v, next %d", len(*got.Text), got.Cut, got.NextLine)
	}
	var all bytes.Buffer
	for line := "1"; ; {
		got := read("many.md", "line", line)
		all.WriteString(*got.Text)
		if len(*got.Text) > userfiles.MaxText || got.Cut || got.Lines != 200_000 {
			t.Fatalf("%d bytes", len(*got.Text))
		}
		if got.NextLine == 0 {
			break
		}
		line = encoded(t, got.NextLine)
	}
	if all.String() != strings.Repeat("0123456789\n", 200_000) {
		t.Error("the parts do not join")
	}
	c.refusal(400, "GET", at("file", "main", "path", "a.md", "line", "4"), "")
	c.refusal(404, "GET", at("file", "main", "path", "b.md"), "")
	c.refusal(400, "GET", at("file", "main", "path", "."), "")
	c.refusal(400, "GET", at("file", "main"), "")
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWriteFile: a write states what it is based on. A stale one says what there is now, and
// changes nothing.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	one := c.write(201, "main", "new/a.md", "one", "")
	if one.Version != files.VersionOf([]byte("one")) || one.Path != "new/a.md" || one.Size != 3 {
		t.Errorf("made: %+v", one)
	}
	two := c.write(200, "main", "new/a.md", "two", one.Version)
	c.write(200, "main", "new/a.md", "two", one.Version) // the answer was lost
	c.write(200, "main", "new/a.md", "two", "")
	stale := func(body string) parley.ErrorInfo {
		return c.refusal(409, "PUT", at("file", "main", "path", "new/a.md"), body)
	}
	for _, body := range []string{`{"text":"three"}`, `{"text":"three","version":"` + string(one.Version) + `"}`} {
		if got := stale(body); got.Code != parley.CodeConflict || got.Current != two.Version || got.Field != "version" {
			t.Errorf("%s: %+v", body, got)
		}
	}
	if err := os.Remove(filepath.Join(c.own(), "new/a.md")); err != nil {
		t.Fatal(err)
	}
	if got := stale(`{"text":"three","version":"` + string(two.Version) + `"}`); got.Current != "" {
		t.Errorf("of a file that is gone: %+v", got)
	}
	var raw parley.FileInfo
	c.call(201, &raw, "PUT", at("file", "main", "path", "pic.png"), `{"base64":"iVBORw0KGgoA"}`, "Content-Type", "application/json")
	if raw.MediaType != "image/png" || raw.Size != 9 {
		t.Errorf("bytes: %+v", raw)
	}
	for body, status := range map[string]int{`{}`: 400, `{"text":"a","base64":"YQ=="}`: 400, `{"text":"a","more":1}`: 400, `{"base64":"%"}`: 400} {
		c.refusal(status, "PUT", at("file", "main", "path", "x.md"), body)
	}
	c.refusal(413, "PUT", at("file", "main", "path", "x.md"), `{"text":"`+strings.Repeat("a", userfiles.MaxWrite+1)+`"}`)
	for path, status := range map[string]int{".git/config": 403, "../x": 400, "/etc/x": 400, "new": 400, ".": 400, "pic.png/x": 403} {
		c.refusal(status, "PUT", at("file", "main", "path", path), `{"text":"a"}`)
	}
	if got := c.refusal(403, "PUT", at("file", "shared/handbook", "path", "x.md"), `{"text":"a"}`); !strings.Contains(got.Message, "read-only") {
		t.Errorf("%+v", got)
	}
}

// TestDeleteAndMove: each states the version; what is there already is not replaced.
func TestDeleteAndMove(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	a := c.write(201, "main", "a.md", "a", "")
	b := c.write(201, "main", "b.md", "b", "")
	move := func(to string, was parley.Digest) string {
		return encoded(t, parley.MoveFile{To: to, Version: was})
	}
	var moved parley.FileInfo
	c.call(200, &moved, "POST", at("file/move", "main", "path", "a.md"), move("x/y/c.md", a.Version), "Content-Type", "application/json")
	if moved.Path != "x/y/c.md" || moved.Version != a.Version {
		t.Errorf("moved: %+v", moved)
	}
	if got := c.refusal(409, "POST", at("file/move", "main", "path", "b.md"), move("x/y/c.md", b.Version)); !strings.Contains(got.Message, "exists") || got.Current != "" || got.Field != "to" {
		t.Errorf("onto a file: %+v", got)
	}
	if got := c.refusal(409, "POST", at("file/move", "main", "path", "b.md"), move("x/new/b.md", a.Version)); got.Current != b.Version {
		t.Errorf("of an old version: %+v", got)
	}
	if _, err := os.Stat(filepath.Join(c.own(), "x/new")); err == nil {
		t.Error("a folder was left behind")
	}
	for to, status := range map[string]int{"../b.md": 400, ".git/b": 403, "x": 400} {
		c.refusal(status, "POST", at("file/move", "main", "path", "b.md"), move(to, b.Version))
	}
	c.refusal(404, "POST", at("file/move", "main", "path", "a.md"), move("z.md", a.Version))
	if got := c.refusal(409, "DELETE", at("file", "main", "path", "b.md", "version", string(a.Version)), ""); got.Current != b.Version {
		t.Errorf("deleting an old version: %+v", got)
	}
	c.refusal(400, "DELETE", at("file", "main", "path", "b.md"), "")
	c.call(204, nil, "DELETE", at("file", "main", "path", "b.md", "version", string(b.Version)), "")
	c.refusal(404, "DELETE", at("file", "main", "path", "b.md", "version", string(b.Version)), "")
	c.refusal(409, "DELETE", at("file", "main", "path", "x"), "")
	c.call(204, nil, "DELETE", at("file", "main", "path", "x/y/c.md", "version", string(a.Version)), "")
	c.call(204, nil, "DELETE", at("file", "main", "path", "x/y"), "")
	c.call(204, nil, "DELETE", at("file", "main", "path", "x"), "")
	c.refusal(400, "DELETE", at("file", "main", "path", "."), "")
	if list, _ := os.ReadDir(c.own()); len(list) != 0 {
		t.Errorf("left: %v", list)
	}
}

// TestFileContent: bytes as they are, by range, and never something that runs.
func TestFileContent(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	page := "<!doctype html><script>alert(1)</script>"
	for name, body := range map[string]string{"a.html": page, "pic.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "pic.png": "\x89PNG\r\n\x1a\n\x00", "no.svg": "text", "x.bin": "\x00\x01"} {
		c.put(c.own(), name, body)
	}
	get := func(want int, path string, header ...string) (string, http.Header) {
		t.Helper()
		resp := c.ask("GET", path, "", header...)
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("%s: %d %s %v", path, resp.StatusCode, raw, err)
		}
		return string(raw), resp.Header
	}
	for name, kind := range map[string]string{"a.html": "text/plain; charset=utf-8", "pic.svg": "image/svg+xml", "pic.png": "image/png", "no.svg": "text/plain; charset=utf-8", "x.bin": "application/octet-stream"} {
		for _, inline := range []string{"false", "true"} {
			_, h := get(200, at("content", "main", "path", name, "inline", inline))
			shown := inline == "true" && name != "x.bin"
			if h.Get("Content-Type") != kind || h.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox;") ||
				h.Get("Cross-Origin-Resource-Policy") != "same-origin" || (h.Get("Content-Disposition") == "") != shown {
				t.Errorf("%s: %v", name, h)
			}
		}
	}
	body, h := get(200, at("content", "main", "path", "a.html"))
	etag := h.Get("ETag")
	if body != page || etag != `"`+string(files.VersionOf([]byte(page)))+`"` || h.Get("Accept-Ranges") != "bytes" {
		t.Errorf("%q %v", body, h)
	}
	if body, _ := get(304, at("content", "main", "path", "a.html"), "If-None-Match", etag); body != "" {
		t.Errorf("304 with %q", body)
	}
	if body, h := get(206, at("content", "main", "path", "a.html"), "Range", "bytes=2-8"); body != page[2:9] || h.Get("Content-Range") == "" {
		t.Errorf("a range: %q %v", body, h)
	}
	resp := c.ask("GET", at("content", "main", "path", "a.html"), "", "Range", "bytes=900-")
	if got := problem(t, resp); resp.StatusCode != 416 || got.Field != "Range" || !strings.Contains(got.Hint, "40") {
		t.Errorf("beyond the end: %d %+v", resp.StatusCode, got)
	}
	if resp := c.ask("HEAD", at("content", "main", "path", "a.html"), ""); resp.StatusCode != 200 || resp.ContentLength != int64(len(page)) {
		t.Errorf("HEAD: %d %d", resp.StatusCode, resp.ContentLength)
	}
}

// TestFilesOfOthers: what is another user's is not there, whatever is asked, and neither is what
// never was.
func TestFilesOfOthers(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	a := c.write(201, "main", "mine.md", "heliotrope", "")
	c.write(201, "shared/petra", "mine.md", "heliotrope", "")
	c.call(201, nil, "POST", "/v1/workspaces", `{"app":"test","name":"only"}`, "Content-Type", "application/json")
	body := encoded(t, parley.MoveFile{To: "x.md", Version: a.Version})
	for _, r := range [][3]string{
		{"GET", "tree", ""}, {"GET", "file", ""}, {"GET", "content", ""}, {"PUT", "file", `{"text":"x"}`}, {"DELETE", "file", ""}, {"POST", "file/move", body},
	} {
		said := func(ws string) string {
			t.Helper()
			resp := c.ask(r[0], at(r[1], ws, "path", "mine.md"), r[2], "Test-User", "bob", "Content-Type", "application/json")
			raw, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 404 || strings.Contains(string(raw), "heliotrope") {
				t.Errorf("%s %s of %s: %d %s", r[0], r[1], ws, resp.StatusCode, raw)
			}
			return strings.ReplaceAll(string(raw), ws, "W")
		}
		for _, ws := range []string{"only", "shared/petra"} {
			if got, never := said(ws), said(ws+"x"); got != never {
				t.Errorf("%s %s: %s\nand of one that never was: %s", r[0], r[1], got, never)
			}
		}
	}
	var list parley.FileTree
	c.call(200, &list, "GET", at("tree", "main"), "", "Test-User", "bob")
	if len(list.Entries) != 0 {
		t.Errorf("bob's own: %+v", list)
	}
}

// TestPagesAndGuardedFiles: a person changes what agents and servers are set up with; a page that an
// app brings does not.
func TestPagesAndGuardedFiles(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	a := c.write(201, "main", "a.md", "a", "")
	for _, name := range []string{".mcp.json", ".claude/settings.json", "sub/AGENTS.md", "claude.MD", "x/.agents/skills/y/SKILL.md"} {
		had := c.write(201, "main", name, "mine", "")
		c.only = "test"
		for _, r := range [][3]string{
			{"PUT", at("file", "main", "path", "./"+name), `{"text":"evil","version":"` + string(had.Version) + `"}`},
			{"DELETE", at("file", "main", "path", name, "version", string(had.Version)), ""},
			{"POST", at("file/move", "main", "path", name), encoded(t, parley.MoveFile{To: "z.md", Version: had.Version})},
			{"POST", at("file/move", "main", "path", "a.md"), encoded(t, parley.MoveFile{To: "new/" + name, Version: a.Version})},
		} {
			if got := c.refusal(403, r[0], r[1], r[2]); got.Code != parley.CodeForbidden {
				t.Errorf("%s: %+v", name, got)
			}
		}
		c.call(200, nil, "GET", at("file", "main", "path", name), "")
		c.only = ""
		c.write(200, "main", name, "mine again", had.Version)
	}
	c.only = "test"
	c.write(200, "main", "a.md", "b", a.Version)
	c.refusal(403, "GET", "/v1/workspaces", "")
	c.only = "other"
	c.refusal(403, "GET", "/v1/workspaces?app=test", "")
	c.refusal(403, "GET", at("tree", "main"), "")
	c.refusal(403, "POST", "/v1/workspaces", `{"app":"test","name":"x"}`)
}

// TestLargeWrites: a user has few large writes at once, since each is in memory. Others and small
// ones do not wait for them.
func TestLargeWrites(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	type held struct {
		body *io.PipeWriter
		done chan int
	}
	hold := func(user, path string) held {
		r, w := io.Pipe()
		h := held{w, make(chan int, 1)}
		req, err := http.NewRequestWithContext(t.Context(), "PUT", c.url+at("file", "main", "path", path), r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Test-User", user)
		req.Header.Set("Content-Type", "application/json")
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				h.done <- 0
				return
			}
			_ = resp.Body.Close()
			h.done <- resp.StatusCode
		}()
		if _, err := io.WriteString(w, `{"text":"`); err != nil { // the transport has read it, so the request is under way
			t.Fatal(err)
		}
		return h
	}
	first, second := hold("ana", "1.md"), hold("ana", "2.md")
	big := `{"text":"` + strings.Repeat("a", 300<<10) + `"}`
	for { // until the server has both
		resp := c.ask("PUT", at("file", "main", "path", "3.md"), big, "Content-Type", "application/json")
		if resp.StatusCode == http.StatusTooManyRequests {
			if got := problem(t, resp); got.RetryAfterMS == 0 || !strings.Contains(got.Message, "large files") {
				t.Errorf("%+v", got)
			}
			break
		}
	}
	c.write(201, "main", "small.md", "a", "")
	c.call(201, nil, "PUT", at("file", "main", "path", "3.md"), big, "Content-Type", "application/json", "Test-User", "bob")
	for _, h := range []held{first, second} {
		if _, err := io.WriteString(h.body, `a"}`); err != nil {
			t.Fatal(err)
		}
		_ = h.body.Close()
		if got := <-h.done; got != 201 {
			t.Errorf("a held write: %d", got)
		}
	}
	c.ask("PUT", at("file", "main", "path", "3.md"), big, "Content-Type", "application/json")
	if resp := c.ask("PUT", at("file", "main", "path", "3.md"), big, "Content-Type", "application/json"); resp.StatusCode >= 300 {
		t.Errorf("then: %s", resp.Status)
	}
}

// TestFileHistory: where there is a repository the versions are its commits, of that file alone; elsewhere
// they are what the user's own sessions have made of it.
func TestFileHistory(t *testing.T) {
	t.Parallel()
	c := newCabinet(t)
	git := func(args ...string) {
		t.Helper()
		run := exec.Command("git", append([]string{"-c", "user.name=Ana", "-c", "user.email=ana@localhost", "-c", "commit.gpgsign=false"}, args...)...)
		run.Dir = c.vault
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	for n, body := range []string{"one", "two", "three"} {
		c.put(c.vault, "petra/a.md", body)
		c.put(c.vault, "sebastian/a.md", "heliotrope "+body)
		git("add", "-A", "petra")
		git("commit", "-q", "-m", "petra "+body)
		git("add", "-A")
		git("commit", "-q", "-m", "heliotrope "+encoded(t, n))
	}
	history := func(ws string, pairs ...string) (h parley.FileHistory) {
		t.Helper()
		c.call(200, &h, "GET", at("history", ws, append(pairs, "path", "a.md")...), "")
		return h
	}
	all := history("shared/petra")
	var subjects []string
	for _, v := range all.Versions {
		subjects = append(subjects, v.Subject)
	}
	if diff := cmp.Diff([]string{"petra three", "petra two", "petra one"}, subjects); diff != "" {
		t.Fatal(diff)
	}
	if got := history("shared/petra", "limit", "2"); len(got.Versions) != 2 || got.Next != got.Versions[1].ID || history("shared/petra", "after", got.Next).Versions[0] != all.Versions[2] {
		t.Errorf("by pages: %+v", got)
	}
	var then parley.FileContent
	c.call(200, &then, "GET", at("history/file", "shared/petra", "path", "a.md", "id", all.Versions[2].ID), "")
	if then.Text == nil || *then.Text != "one" || then.Version != files.VersionOf([]byte("one")) || then.Path != "a.md" {
		t.Errorf("the first: %+v", then)
	}
	for _, path := range []string{"../sebastian/a.md", ".", ".git/config"} {
		for _, op := range []string{"history", "history/file"} {
			if resp := c.ask("GET", at(op, "shared/petra", "path", path, "id", all.Versions[0].ID), ""); resp.StatusCode != 400 && resp.StatusCode != 403 {
				t.Errorf("%s of %s: %s", op, path, resp.Status)
			}
		}
	}
	c.refusal(404, "GET", at("history/file", "shared/petra", "path", "b.md", "id", all.Versions[0].ID), "")
	c.refusal(404, "GET", at("history/file", "shared/petra", "path", "a.md", "id", "HEAD"), "")
	c.refusal(404, "GET", at("history", "shared/sebastian", "path", "a.md"), "")

	// It goes on before a move in the workspace, and not into another one that is in the same repository.
	git("mv", "sebastian/a.md", "petra/from.md")
	git("commit", "-q", "-m", "out of sebastian's")
	git("mv", "petra/from.md", "petra/to.md")
	git("commit", "-q", "-m", "moved")
	var moved parley.FileHistory
	c.call(200, &moved, "GET", at("history", "shared/petra", "path", "to.md"), "")
	if len(moved.Versions) != 2 || moved.Versions[0].MovedFrom != "from.md" || moved.Versions[1].MovedFrom != "" {
		t.Fatalf("moved: %+v", moved)
	}
	c.call(200, &then, "GET", at("history/file", "shared/petra", "path", "to.md", "id", moved.Versions[1].ID), "")
	if then.Text == nil || *then.Text != "heliotrope three" {
		t.Errorf("before it was moved: %+v", then)
	}
	c.refusal(404, "GET", at("history/file", "shared/petra", "path", "to.md", "id", all.Versions[0].ID), "")

	c.write(201, "main", "a.md", "by hand", "")
	if got := history("main"); len(got.Versions) != 0 || got.Next != "" {
		t.Errorf("without a repository, and no session: %+v", got)
	}
}
