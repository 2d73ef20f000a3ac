package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/extract"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/workspace"
)

// desk is a workspace with the tools.
type desk struct {
	*testing.T
	dir     string
	checks  *checkpoint.Store
	tools   *workspace.Toolset
	calls   int
	changes func(ctx context.Context, paths ...string) error
	kept    []seam.File
}

func newDesk(t *testing.T, with map[string]string) *desk {
	t.Helper()
	d := &desk{T: t, dir: t.TempDir()}
	for name, body := range with {
		d.put(name, body)
	}
	d.checks = checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
	t.Cleanup(func() { _ = d.checks.Close() })
	d.start()
	return d
}

// start is a new process over the same files.
func (d *desk) start() {
	d.tools = workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return d.checks }, Now: func() time.Time { return time.UnixMilli(0).UTC() }})
}

func (d *desk) put(name, body string) {
	d.Helper()
	full := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) has(name, want string) {
	d.Helper()
	if got, err := os.ReadFile(filepath.Join(d.dir, name)); err != nil || string(got) != want {
		d.Errorf("%s is %q (%v), want %q", name, got, err, want)
	}
}

func (d *desk) call(tool string, input any) seam.Run {
	d.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		d.Fatal(err)
	}
	d.calls++
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = root.Close() })
	return seam.Run{
		Call: parley.CallID(fmt.Sprint("c", d.calls)), Turn: "t1", Session: "s1", Name: tool, Input: raw,
		Workspace: func() (*os.Root, error) { return root, nil },
		Changes: func(ctx context.Context, paths ...string) error {
			if d.changes != nil {
				return d.changes(ctx, paths...)
			}
			return nil
		},
		Keep: func(f seam.File) error { d.kept = append(d.kept, f); return nil },
	}
}

func (d *desk) run(tool string, input any) parley.ToolResult {
	d.Helper()
	res, err := d.tools.Run(d.Context(), d.call(tool, input))
	if err != nil {
		d.Errorf("%s: %v", tool, err)
	}
	return res
}

func (d *desk) ok(tool string, input any) parley.ToolResult {
	d.Helper()
	res := d.run(tool, input)
	if res.Outcome == parley.OutcomeError {
		d.Errorf("%s %v: %s", tool, input, res.Output)
	}
	return res
}

func (d *desk) refused(tool string, input any, because string) {
	d.Helper()
	if res := d.run(tool, input); res.Outcome != parley.OutcomeError || !strings.Contains(res.Output, because) {
		d.Errorf("%s %v: %s %q, want a refusal with %q", tool, input, res.Outcome, res.Output, because)
	}
}

type in map[string]any

func TestReadAndEdit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.md": "one\ntwo\nthree\n", "crlf.md": "one\r\ntwo\r\n", "bin": "a\x00b", "empty.md": "", "long.md": strings.Repeat("x", 5000)})
	if got, want := d.ok("Read", in{"file_path": "./x/../a.md"}).Output, "     1\tone\n     2\ttwo\n     3\tthree"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	if got, want := d.ok("Read", in{"file_path": "a.md", "offset": 2, "limit": 1}).Output, "     2\ttwo\n(a.md has 3 lines; these are 2 to 2. Read more with offset 3.)"; got != want {
		t.Errorf("read %q, want %q", got, want)
	}
	d.refused("Read", in{"file_path": "a.md", "offset": 4}, "beyond its end")
	d.refused("Read", in{"file_path": "bin"}, "not text")
	d.refused("Read", in{"file_path": "../x"}, "leads out")
	d.refused("Read", in{"file_path": "none.md"}, "there is no")
	if got := d.ok("Read", in{"file_path": "empty.md"}).Output; got != "(empty.md is empty.)" {
		t.Errorf("read %q", got)
	}
	if got := d.ok("Read", in{"file_path": "long.md"}).Output; !strings.HasSuffix(got, "(1000 more bytes in this line)") {
		t.Errorf("read %q", got)
	}

	res := d.ok("Edit", in{"file_path": "a.md", "old_string": "two", "new_string": "2"})
	if want := "a.md was changed. It now has:\n     1\tone\n     2\t2\n     3\tthree"; res.Output != want {
		t.Errorf("said %q, want %q", res.Output, want)
	}
	want := []parley.FileSaved{{
		Path: "a.md", Before: files.VersionOf([]byte("one\ntwo\nthree\n")), After: files.VersionOf([]byte("one\n2\nthree\n")),
		Diff: "--- a/a.md\n+++ b/a.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n", Added: 1, Removed: 1,
	}}
	if !cmp.Equal(want, res.Saved) {
		t.Error(cmp.Diff(want, res.Saved))
	}
	d.has("a.md", "one\n2\nthree\n")
	d.ok("Edit", in{"file_path": "a.md", "old_string": "e", "new_string": "E", "replace_all": true}) // what it made itself it need not read
	d.has("a.md", "onE\n2\nthrEE\n")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "E", "new_string": "e"}, "3 times")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "nowhere", "new_string": "e"}, "is not in a.md")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "x", "new_string": "x"}, "the same")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "", "new_string": "x"}, "is empty")
	d.ok("Read", in{"file_path": "crlf.md"})
	d.ok("Edit", in{"file_path": "crlf.md", "old_string": "one\ntwo\n", "new_string": "1\n2\n"})
	d.has("crlf.md", "1\r\n2\r\n")
}

// TestUnread: what the session has not read, or somebody else changed, is not overwritten.
func TestUnread(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.md": "one"})
	d.refused("Write", in{"file_path": "a.md", "content": "x"}, "has not been read yet")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "one", "new_string": "x"}, "has not been read yet")
	d.ok("Read", in{"file_path": "a.md"})
	d.put("a.md", "somebody else's")
	d.refused("Write", in{"file_path": "a.md", "content": "x"}, "has changed since it was read")
	d.has("a.md", "somebody else's")
	d.ok("Read", in{"file_path": "a.md"})
	d.start() // another process knows it, too
	d.ok("Write", in{"file_path": "a.md", "content": "x"})
	d.ok("Write", in{"file_path": "new/b.md", "content": "y"})
	d.has("new/b.md", "y")
	d.put("c.md", "")
	d.refused("Write", in{"file_path": "c.md", "content": "y"}, "has not been read yet")
	if err := os.Symlink("a.md", filepath.Join(d.dir, "link.md")); err != nil {
		t.Fatal(err)
	}
	d.refused("Write", in{"file_path": "link.md", "content": "y"}, "symbolic link")
	d.refused("Write", in{"file_path": ".git/config", "content": "y"}, "git's own")
}

// TestCrash stops the server at each step of a change. The next one finds out what happened.
func TestCrash(t *testing.T) {
	t.Parallel()
	crashed := errors.New("crash")
	for _, tc := range []struct {
		name    string
		at      func(d *desk, r *seam.Run)
		made    bool
		unknown bool
	}{
		{name: "before the announcement", at: func(d *desk, _ *seam.Run) { d.changes = func(context.Context, ...string) error { return crashed } }},
		{name: "after the announcement", at: func(d *desk, _ *seam.Run) { d.changes = func(context.Context, ...string) error { panic(crashed) } }},
		{name: "before the file is replaced", at: func(d *desk, r *seam.Run) {
			if err := d.checks.Begin(d.Context(), "s1", checkpoint.Record{Call: r.Call, Path: "a.md", Before: files.VersionOf([]byte("one")), After: files.VersionOf([]byte("two"))}, []byte("one")); err != nil {
				d.Fatal(err)
			}
			d.changes = func(context.Context, ...string) error { return crashed }
		}},
		{name: "after the file was replaced", made: true, at: func(d *desk, r *seam.Run) {
			if err := d.checks.Begin(d.Context(), "s1", checkpoint.Record{Call: r.Call, Path: "a.md", Before: files.VersionOf([]byte("one")), After: files.VersionOf([]byte("two"))}, []byte("one")); err != nil {
				d.Fatal(err)
			}
			d.put("a.md", "two")
			d.changes = func(context.Context, ...string) error { return crashed }
		}},
		{name: "before its result is in the log", made: true, at: func(*desk, *seam.Run) {}},
		{name: "and somebody else changed the file", unknown: true, at: func(d *desk, r *seam.Run) {
			if err := d.checks.Begin(d.Context(), "s1", checkpoint.Record{Call: r.Call, Path: "a.md", Before: files.VersionOf([]byte("one")), After: files.VersionOf([]byte("two"))}, []byte("one")); err != nil {
				d.Fatal(err)
			}
			d.put("a.md", "other")
			d.changes = func(context.Context, ...string) error { return crashed }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{"a.md": "one"})
			d.ok("Read", in{"file_path": "a.md"})
			r := d.call("Write", in{"file_path": "a.md", "content": "two"})
			tc.at(d, &r)
			func() {
				defer func() { _ = recover() }()
				_, _ = d.tools.Run(t.Context(), r)
			}()
			d.changes = nil
			d.start()
			if !d.tools.Over("Write", r.Call) {
				t.Fatal("the call counts as running in a new process")
			}
			res, known, err := d.tools.Reconcile(t.Context(), r)
			if err != nil || known == tc.unknown || known && (res.Outcome == parley.OutcomeOK) != tc.made {
				t.Errorf("%+v, %v, %v", res, known, err)
			}
			if tc.made && (len(res.Saved) != 1 || res.Saved[0].Added != 1) {
				t.Errorf("saved %+v", res.Saved)
			}
			if !tc.unknown && !tc.made {
				d.ok("Write", in{"file_path": "a.md", "content": "two"})
			}
			if !tc.unknown {
				d.has("a.md", "two")
				d.ok("Edit", in{"file_path": "a.md", "old_string": "two", "new_string": "three"})
			}
			if list, err := os.ReadDir(d.dir); err != nil || len(list) != 1 {
				t.Errorf("left over: %v %v", list, err)
			}
		})
	}
}

// TestRunning: a call is not over while it runs.
func TestRunning(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	r := d.call("Write", in{"file_path": "a.md", "content": "x"})
	d.changes = func(context.Context, ...string) error {
		if d.tools.Over("Write", r.Call) {
			t.Error("it counts as over")
		}
		if _, known, _ := d.tools.Reconcile(t.Context(), r); known {
			t.Error("its outcome counts as known")
		}
		return nil
	}
	if _, err := d.tools.Run(t.Context(), r); err != nil || !d.tools.Over("Write", r.Call) {
		t.Error(err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	r := d.call("Write", in{"file_path": "a.md", "content": "x"})
	r.ReadOnly = true
	if res, err := d.tools.Run(t.Context(), r); err != nil || res.Outcome != parley.OutcomeError {
		t.Errorf("%+v %v", res, err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{
		"a.md": "alpha\nBeta beta\ngamma\ndelta\n", "sub/b.md": "beta\r\n", "sub/c.txt": "beta\n", ".hidden.md": "beta", "node/x.md": "beta", ".gitignore": "node/\n", "bin": "beta\x00",
		"utf.md": "Größe: 5 €\n",
	})
	old := time.Unix(1_700_000_000, 0)
	for _, name := range []string{"a.md", "sub/b.md", "sub/c.txt"} {
		at := old
		if name != "a.md" {
			at = old.Add(time.Hour)
		}
		if err := os.Chtimes(filepath.Join(d.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	no := false
	for _, tc := range []struct {
		tool  string
		input in
		want  string
	}{
		{"Glob", in{"pattern": "*.txt"}, "sub/c.txt"},
		{"Glob", in{"pattern": "sub/*.{md,txt}", "path": "."}, "sub/b.md\nsub/c.txt"},
		{"Glob", in{"pattern": "*.md", "path": "sub"}, "sub/b.md"},
		{"Glob", in{"pattern": ".*.md"}, ".hidden.md"},
		{"Glob", in{"pattern": "none*"}, "No file has such a name."},
		{"Grep", in{"pattern": "beta"}, "a.md\nsub/b.md\nsub/c.txt"},
		{"Grep", in{"pattern": "beta", "type": "md"}, "a.md\nsub/b.md"},
		{"Grep", in{"pattern": "beta", "glob": "!*.md"}, "sub/c.txt"},
		{"Grep", in{"pattern": "^beta$", "output_mode": "content"}, "sub/b.md:1:beta\nsub/c.txt:1:beta"},
		{"Grep", in{"pattern": "^beta", "-i": true, "output_mode": "content", "path": "a.md", "-C": 1}, "a.md-1-alpha\na.md:2:Beta beta\na.md-3-gamma"},
		{"Grep", in{"pattern": "a$", "output_mode": "content", "-A": 1, "-n": no, "glob": "a.md"}, "a.md:alpha\na.md:Beta beta\na.md:gamma\na.md:delta"},
		{"Grep", in{"pattern": "beta", "output_mode": "count"}, "a.md:1\nsub/b.md:1\nsub/c.txt:1\n(3 matches in 3 files)"},
		{"Grep", in{"pattern": "alpha.*gamma", "multiline": true, "output_mode": "content"}, "a.md:1:alpha\na.md:2:Beta beta\na.md:3:gamma"},
		{"Grep", in{"pattern": "alpha.*gamma"}, "Nothing matches."},
		{"Grep", in{"pattern": `alpha\s+Beta`}, "Nothing matches."},
		{"Grep", in{"pattern": "größe", "-i": true, "output_mode": "content"}, "utf.md:1:Größe: 5 €"},
		{"Grep", in{"pattern": "beta", "head_limit": 1}, "a.md\n(Rows 1 to 1 of 3. More with offset 1.)"},
		{"Grep", in{"pattern": "beta", "offset": 1, "head_limit": 0}, "sub/b.md\nsub/c.txt\n(Rows 2 to 3 of 3. More with offset 3.)"},
	} {
		if got := d.ok(tc.tool, tc.input).Output; got != tc.want {
			t.Errorf("%s %v:\n%s\nwant\n%s", tc.tool, tc.input, got, tc.want)
		}
	}
	if got := d.ok("Glob", in{"pattern": "**/*.md"}).Output; !strings.HasSuffix(got, "\na.md") || strings.Contains(got, "node") {
		t.Errorf("the oldest is not last: %q", got)
	}
	d.refused("Grep", in{"pattern": "("}, "missing closing )")
	d.refused("Grep", in{"pattern": "x", "type": "klingon"}, "no type")
	d.refused("Glob", in{"pattern": "../*"}, "leads out")
	d.refused("Glob", in{"pattern": "[a"}, "not a valid pattern")
	d.refused("Grep", in{"pattern": "x", "path": "nowhere"}, "there is no")
}

func TestNotebook(t *testing.T) {
	t.Parallel()
	const before = `{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "aa",
   "metadata": {},
   "source": [
    "# Title"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "bb",
   "metadata": {},
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "5 < 6\n"
     ]
    }
   ],
   "source": [
    "x = 5\n",
    "print(x)"
   ]
  }
 ],
 "metadata": {},
 "nbformat": 4,
 "nbformat_minor": 5
}
`
	d := newDesk(t, map[string]string{"n.ipynb": before})
	if got, want := d.ok("Read", in{"file_path": "n.ipynb"}).Output, "[aa, markdown]\n# Title\n\n[bb, code]\nx = 5\nprint(x)\n[output of bb]\n5 < 6"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d.ok("NotebookEdit", in{"notebook_path": "n.ipynb", "cell_id": "aa", "new_source": "# Other <b>"})
	d.has("n.ipynb", strings.Replace(before, "# Title", "# Other <b>", 1))
	d.ok("NotebookEdit", in{"notebook_path": "n.ipynb", "cell_id": "bb", "new_source": "y\nz", "edit_mode": "replace"})
	if got, _ := os.ReadFile(filepath.Join(d.dir, "n.ipynb")); strings.Contains(string(got), "5 < 6") || !strings.Contains(string(got), `"execution_count": null`) {
		t.Errorf("the old output is still there:\n%s", got)
	}
	d.ok("NotebookEdit", in{"notebook_path": "n.ipynb", "cell_id": "aa", "new_source": "new", "edit_mode": "insert", "cell_type": "code"})
	d.ok("NotebookEdit", in{"notebook_path": "n.ipynb", "cell_id": "bb", "new_source": "", "edit_mode": "delete"})
	if got := d.ok("Read", in{"file_path": "n.ipynb"}).Output; strings.Count(got, "\n\n") != 1 || !strings.Contains(got, "code]\nnew") {
		t.Errorf("%q", got)
	}
	d.refused("NotebookEdit", in{"notebook_path": "n.ipynb", "cell_id": "zz", "new_source": "x"}, "no cell")
	d.refused("NotebookEdit", in{"notebook_path": "n.ipynb", "new_source": "x"}, "which cell")
	d.refused("NotebookEdit", in{"notebook_path": "n.md", "new_source": "x"}, "not a notebook")
}

// TestImage: an image is kept for the user and the model, a large one in a smaller version. One that
// cannot be shown is refused, and counts as not read.
func TestImage(t *testing.T) {
	t.Parallel()
	drawn := func(w, h int) string {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, w, h))); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var moving bytes.Buffer
	if err := gif.Encode(&moving, image.NewPaletted(image.Rect(0, 0, 8, 6), []color.Color{color.White}), nil); err != nil {
		t.Fatal(err)
	}
	small := drawn(40, 30)
	d := newDesk(t, map[string]string{
		"p.png": small, "sub/large.png": drawn(3000, 1000), "a.gif": moving.String(), "named.txt": small,
		"cut.png": small[:len(small)-30], "empty.png": "\x89PNG\r\n\x1a\n0000",
	})
	for name, want := range map[string]string{
		"p.png":         fmt.Sprintf("p.png is an image (image/png, 40 x 30 pixels, %d bytes).", len(small)),
		"sub/large.png": "3000 x 1000 pixels",
		"a.gif":         "a.gif is an image (image/gif, 8 x 6 pixels, ",
		"named.txt":     "named.txt is an image (image/png",
	} {
		d.kept = nil
		if got := d.ok("Read", in{"file_path": name}).Output; !strings.Contains(got, want) || strings.Contains(got, "smaller") != (name == "sub/large.png") {
			t.Errorf("the model is told %q", got)
		}
		if len(d.kept) != 1 || !d.kept[0].Show || len(d.kept[0].Body) == 0 {
			t.Fatalf("kept %+v", d.kept)
		}
		got := d.kept[0].Name + " " + d.kept[0].MediaType
		if want := map[string]string{"p.png": "p.png image/png", "sub/large.png": "large.png image/png", "a.gif": "a.png image/png", "named.txt": "named.txt image/png"}[name]; got != want {
			t.Errorf("kept %s, want %s", got, want)
		}
	}
	d.kept = nil
	for name, why := range map[string]string{"cut.png": "damaged", "empty.png": "damaged"} {
		d.refused("Read", in{"file_path": name}, why)
		d.refused("Write", in{"file_path": name, "content": "x"}, "read")
	}
	if d.kept != nil {
		t.Errorf("kept %+v", d.kept)
	}
}

// TestReadOnlyFile: a file that nobody may write is refused, and stays as it is.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.md": "one\n", "n.ipynb": `{"cells":[],"metadata":{},"nbformat":4,"nbformat_minor":5}`})
	for _, name := range []string{"a.md", "n.ipynb"} {
		d.ok("Read", in{"file_path": name})
		if err := os.Chmod(filepath.Join(d.dir, name), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	d.refused("Edit", in{"file_path": "a.md", "old_string": "one", "new_string": "two"}, "a.md is read-only (its mode is 0444)")
	d.refused("Write", in{"file_path": "a.md", "content": "two"}, "read-only")
	d.refused("NotebookEdit", in{"notebook_path": "n.ipynb", "new_source": "x", "cell_type": "code", "edit_mode": "insert"}, "read-only")
	d.has("a.md", "one\n")
	if err := os.Chmod(filepath.Join(d.dir, "a.md"), 0o464); err != nil { // its group may
		t.Fatal(err)
	}
	d.ok("Edit", in{"file_path": "a.md", "old_string": "one", "new_string": "two"})
	if info, err := os.Stat(filepath.Join(d.dir, "a.md")); err != nil || info.Mode().Perm() != 0o464 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// TestReadOutlastsAPDF: Read may take longer than a PDF does.
func TestReadOutlastsAPDF(t *testing.T) {
	t.Parallel()
	tools, err := workspace.New(workspace.Options{}).Tools(t.Context())
	if err != nil || tools[0].Name != "Read" || time.Duration(tools[0].Timeout) <= extract.Longest {
		t.Errorf("%s may take %v, a PDF %s; %v", tools[0].Name, tools[0].Timeout, extract.Longest, err)
	}
}

func TestTodo(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	todo := func(status ...string) in {
		var list []in
		for _, s := range status {
			list = append(list, in{"content": "x", "status": s})
		}
		return in{"todos": list}
	}
	if got, want := d.ok("TodoWrite", todo("completed", "in_progress", "pending", "pending")).Output, "The list is kept: 1 done, 1 in progress, 2 to do."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	d.refused("TodoWrite", todo("in_progress", "in_progress"), "at most one")
}

// TestDeclarations: every tool has a schema, and those that change files say so.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	decls, err := workspace.New(workspace.Options{}).Tools(t.Context())
	if err != nil || len(decls) != 7 {
		t.Fatalf("%d tools, %v", len(decls), err)
	}
	for _, d := range decls {
		var s struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(d.InputSchema, &s); err != nil || s.Type != "object" || d.Path != "" && s.Properties[d.Path] == nil || d.Description == "" {
			t.Errorf("%s: %v", d.Name, err)
		}
		if workspace.Changes(d.Name) != d.Edits || d.Edits != d.WorkspaceOwn || d.Edits == (d.Effect == parley.EffectRead) {
			t.Errorf("%s: %+v", d.Name, d)
		}
	}
}
