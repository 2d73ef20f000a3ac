package workspace_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/workspace"
)

// tree is everything below the desk's folder: the content of files, and "/" for folders.
func (d *desk) tree() map[string]string {
	d.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(d.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == d.dir {
			return err
		}
		rel, _ := filepath.Rel(d.dir, name)
		if all[rel] = "/"; e.Type().IsRegular() {
			body, err := os.ReadFile(name)
			all[rel] = string(body)
			return err
		}
		return nil
	})
	if err != nil {
		d.Fatal(err)
	}
	return all
}

func (d *desk) same(what string, want map[string]string) {
	d.Helper()
	if diff := cmp.Diff(want, d.tree()); diff != "" {
		d.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// back is a request to take back the changes of calls, which are numbered from 1, or of rewinds.
func (d *desk) back(id string, by ...any) seam.Restoration {
	d.Helper()
	root, err := os.OpenRoot(d.dir)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = root.Close() })
	of := seam.Restoration{Session: "s1", ID: parley.RewindID(id), Root: root}
	for _, b := range by {
		name := fmt.Sprint(b)
		if _, ok := b.(int); ok {
			name = fmt.Sprint("c", b)
		}
		of.Changes = append(of.Changes, seam.FileChange{By: parley.CallID(name)})
	}
	return of
}

func (d *desk) restorer() *workspace.Restorer { return workspace.NewRestorer(d.checks, nil) }

func (d *desk) restore(of seam.Restoration) seam.Restored {
	d.Helper()
	plan, err := d.restorer().Plan(d.Context(), of)
	if err != nil {
		d.Fatal(err)
	}
	got, err := d.restorer().Restore(d.Context(), of)
	if err != nil {
		d.Fatal(err)
	}
	if diff := cmp.Diff(plan, got); diff != "" {
		d.Errorf("it was planned otherwise (-plan +done):\n%s", diff)
	}
	return got
}

// outcomes says in a word or two what became of each file.
func outcomes(r seam.Restored) map[string]string {
	all := map[string]string{}
	for _, f := range r.Files {
		all[f.Path] = strings.TrimSuffix(string(f.Outcome)+": "+f.Why, ": ")
	}
	return all
}

// TestRestore takes changes of files back to the byte, takes that back to the byte, and once more.
func TestRestore(t *testing.T) {
	t.Parallel()
	var dot bytes.Buffer
	if err := png.Encode(&dot, image.NewRGBA(image.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	binary := dot.String() + "\x00\xff\r\n\x80"
	d := newDesk(t, map[string]string{"a.md": "one\r\ntwo", "bin": binary, "keep.md": "k", "empty": "", "old/b.md": "b"})
	before := d.tree()
	for _, name := range []string{"a.md", "bin", "empty", "old/b.md", "keep.md"} {
		_ = d.run("Read", in{"file_path": name})
	}
	first := d.calls + 1
	d.ok("Edit", in{"file_path": "a.md", "old_string": "one", "new_string": "1"})
	d.ok("Edit", in{"file_path": "a.md", "old_string": "two", "new_string": "2"})
	d.ok("Write", in{"file_path": "bin", "content": "text"})
	d.ok("Write", in{"file_path": "empty", "content": "x"})
	d.ok("Write", in{"file_path": "old/b.md", "content": ""})
	d.ok("Write", in{"file_path": "new/deep/c.md", "content": "c"})
	d.ok("Write", in{"file_path": "new/deep/d.md", "content": "d"})
	d.ok("Write", in{"file_path": "new/deep/d.md", "content": "dd"})
	if err := os.Chmod(filepath.Join(d.dir, "new/deep/d.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	after := d.tree()
	var calls []any
	for c := first; c <= d.calls; c++ {
		calls = append(calls, c)
	}
	of := d.back("r1", calls...)
	of.Diffs = true
	plan, err := d.restorer().Plan(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	d.same("a plan changes nothing", after)
	want := parley.FileRewound{
		Path: "a.md", Outcome: parley.FileRestored, Before: files.VersionOf([]byte("1\r\n2")), After: files.VersionOf([]byte("one\r\ntwo")),
		Diff: "--- a/a.md\n+++ b/a.md\n@@ -1,2 +1,2 @@\n-1\r\n-2\n\\ No newline at end of file\n+one\r\n+two\n\\ No newline at end of file\n", Added: 2, Removed: 2,
	}
	if diff := cmp.Diff(want, plan.Files[0]); diff != "" || len(plan.Files) != 6 || len(plan.Known) != len(calls) {
		t.Errorf("%d files, known %v (-want +got):\n%s", len(plan.Files), plan.Known, diff)
	}
	got := d.restore(d.back("r1", calls...))
	d.same("restored", before)
	for path, what := range outcomes(got) {
		if what != "restored" {
			t.Errorf("%s: %s", path, what)
		}
	}
	d.refused("Edit", in{"file_path": "a.md", "old_string": "one", "new_string": "x"}, "has not been read yet")

	if again, err := d.restorer().Restore(t.Context(), d.back("r1", calls...)); err != nil || len(again.Files) != 6 || again.Files[0].Outcome != parley.FileRestored {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	d.same("asked again", before)
	d.restore(d.back("r2", "r1"))
	d.same("undone", after)
	if fi, err := os.Stat(filepath.Join(d.dir, "new/deep/d.md")); err != nil || fi.Mode().Perm() != 0o755 {
		t.Errorf("the file that comes back has mode %v, %v", fi.Mode(), err)
	}
	d.restore(d.back("r3", "r2"))
	d.same("done again", before)
	all := append(append([]any{}, calls...), "r1", "r2", "r3")
	if got := outcomes(d.restore(d.back("r4", all...))); len(got) != 6 || got["a.md"] != "same" {
		t.Errorf("nothing is left to do: %v", got)
	}
	d.restore(d.back("r5", calls[1:]...)) // the first edit stays, and what came before it
	d.has("a.md", "1\r\ntwo")
}

// TestRestoreLeaves: what is not as the session left it is not touched, and it is said why.
func TestRestoreLeaves(t *testing.T) {
	t.Parallel()
	limit := func(d *desk) { // for a store that keeps hardly anything
		d.checks = checkpoint.New(checkpoint.Options{Data: datafolder.New(d.TempDir(), nil), Most: 8})
		d.Cleanup(func() { _ = d.checks.Close() })
		d.start()
	}
	full := func(d *desk, name string) string { return filepath.Join(d.dir, name) }
	check := func(d *desk, err error) {
		d.Helper()
		if err != nil {
			d.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		begin  func(d *desk)
		change func(d *desk) // after a.md was changed from "one" to "two"
		of     func(of *seam.Restoration)
		want   string
		has    string
	}{
		"changed since": {change: func(d *desk) { d.put("a.md", "mine") }, want: "left: somebody else has changed it since", has: "mine"},
		"deleted since": {change: func(d *desk) { check(d, os.Remove(full(d, "a.md"))) }, want: "left: somebody else has changed it since"},
		"changed back":  {change: func(d *desk) { d.put("a.md", "one") }, want: "same", has: "one"},
		"changed in between": {
			change: func(d *desk) {
				d.put("a.md", "mine")
				d.ok("Read", in{"file_path": "a.md"})
				d.ok("Write", in{"file_path": "a.md", "content": "three"})
			},
			of:   func(of *seam.Restoration) { of.Changes = append(of.Changes, seam.FileChange{By: "c4"}) },
			want: "left: somebody else changed it in between", has: "three",
		},
		"changed by another session": {
			change: func(d *desk) {
				r := d.call("Read", in{"file_path": "a.md"})
				r.Session = "s2"
				_, err := d.tools.Run(d.Context(), r)
				check(d, err)
				r = d.call("Write", in{"file_path": "a.md", "content": "theirs"})
				r.Session = "s2"
				_, err = d.tools.Run(d.Context(), r)
				check(d, err)
			},
			want: "left: somebody else has changed it since", has: "theirs",
		},
		"not kept any more": {
			begin: limit,
			change: func(d *desk) {
				d.ok("Write", in{"file_path": "b.md", "content": "12345678"})
				d.ok("Write", in{"file_path": "b.md", "content": "x"}) // keeps 8 bytes, so the 3 of a.md go
			},
			want: "left: what it contained before is not kept any more", has: "two",
		},
		"not recorded here": {of: func(of *seam.Restoration) { of.Changes = []seam.FileChange{{By: "other", Paths: []string{"a.md"}}} }, change: func(*desk) {}, want: "left: what it contained before is not kept here", has: "two"},
		"not to be taken back": {of: func(of *seam.Restoration) {
			of.Changes = append([]seam.FileChange{{By: "other", Paths: []string{"a.md"}, Stays: "it is a commit"}}, of.Changes...)
		}, change: func(*desk) {}, want: "left: it is a commit", has: "two"},
		"recorded in part": {of: func(of *seam.Restoration) {
			of.Changes = append([]seam.FileChange{{By: "other", Paths: []string{"a.md"}}}, of.Changes...)
		}, change: func(*desk) {}, want: "left: what it contained before is not kept here", has: "two"},
		"a link now": {
			change: func(d *desk) {
				check(d, os.Remove(full(d, "a.md")))
				d.put("b.md", "two")
				check(d, os.Symlink("b.md", full(d, "a.md")))
			},
			want: `left: "a.md" is a symbolic link; links are not followed here`, has: "two",
		},
		"a second name now": {change: func(d *desk) { check(d, os.Link(full(d, "a.md"), full(d, "b.md"))) }, want: `left: "a.md" is not read or changed, because the file has a second name (a hard link), which may be elsewhere`, has: "two"},
		"a folder now": {
			change: func(d *desk) {
				check(d, os.Remove(full(d, "a.md")))
				d.put("a.md/x", "x")
			},
			want: `left: "a.md" is a folder, not a file`,
		},
		"no workspace": {change: func(*desk) {}, of: func(of *seam.Restoration) { of.Root, of.Why = nil, "the workspace is read-only" }, want: "left: the workspace is read-only", has: "two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{"a.md": "one"})
			if c.begin != nil {
				c.begin(d)
			}
			d.ok("Read", in{"file_path": "a.md"})
			d.ok("Write", in{"file_path": "a.md", "content": "two"})
			c.change(d)
			of := d.back("r1", 2)
			if c.of != nil {
				c.of(&of)
			}
			was := d.tree()
			if got := outcomes(d.restore(of))["a.md"]; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			d.same("left", was)
			if c.has != "" {
				d.has("a.md", c.has)
			}
			if recs, err := d.checks.Changes(t.Context(), "s1", "r1"); err != nil || len(recs) != 0 {
				t.Errorf("recorded are %+v, %v", recs, err)
			}
		})
	}
}

// TestRestoreRace: a file that somebody else changes after it was looked at is not overwritten. What
// cannot be written is left, and so are the folders that were made for it.
func TestRestoreRace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(d *desk)
		want      string
	}{
		"it is changed": {func(d *desk) { d.put("sub/a.md", "mine") }, "left: somebody else has changed it since"},
		"it is deleted": {func(d *desk) { _ = os.RemoveAll(filepath.Join(d.dir, "sub")) }, `left: there is no folder "sub"`},
		"a file is there": {func(d *desk) {
			_ = os.RemoveAll(filepath.Join(d.dir, "sub"))
			d.put("sub", "mine")
		}, `left: the folder "sub" is a link or not a folder; links are not followed here`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, map[string]string{"sub/a.md": "one"})
			d.ok("Read", in{"file_path": "sub/a.md"})
			d.ok("Write", in{"file_path": "sub/a.md", "content": "two"})
			r := workspace.NewRestorer(d.checks, func() time.Time { c.meanwhile(d); return time.Now() }) // asked between the look and the change
			got, err := r.Restore(t.Context(), d.back("r1", 2))
			if err != nil || outcomes(got)["sub/a.md"] != c.want {
				t.Errorf("got %v, %v; want %q", outcomes(got), err, c.want)
			}
			if recs, err := d.checks.Changes(t.Context(), "s1", "r1"); err != nil || len(recs) != 0 {
				t.Errorf("recorded are %+v, %v", recs, err)
			}
			for path := range d.tree() {
				if strings.Contains(path, ".parley-new-") {
					t.Errorf("left over: %s", path)
				}
			}
		})
	}
}

// TestRestoreKeepsWhatItNeeds: what a rewind keeps of the files as they are does not take the place of
// the contents that it still has to restore. Afterwards the limit holds again.
func TestRestoreKeepsWhatItNeeds(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	d.checks = checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil), Most: 40})
	t.Cleanup(func() { _ = d.checks.Close() })
	d.start()
	var calls []any
	for i := range 4 {
		d.put(fmt.Sprint(i), fmt.Sprint("before", i))
		d.ok("Read", in{"file_path": fmt.Sprint(i)})
		d.ok("Write", in{"file_path": fmt.Sprint(i), "content": fmt.Sprint("and then it was ", i)})
		calls = append(calls, d.calls)
	}
	r := d.restorer()
	if err := r.Begin(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	d.restore(d.back("r1", calls...))
	for i := range 4 {
		d.has(fmt.Sprint(i), fmt.Sprint("before", i))
	}
	if list, err := r.Unfinished(t.Context()); err != nil || len(list) != 1 || list[0] != "s1" {
		t.Errorf("unfinished: %v, %v", list, err)
	}
	if err := r.Done(t.Context(), "s1"); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Unfinished(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("unfinished: %v, %v", list, err)
	}
	left, restored := 0, 0
	for _, what := range outcomes(d.restore(d.back("r2", "r1"))) {
		switch what {
		case "left: what it contained before is not kept any more":
			left++
		case "restored":
			restored++
		}
	}
	if left != 2 || restored != 2 { // 18 bytes each of 40
		t.Errorf("%d are restored and %d left", restored, left)
	}
}

// TestRestoreCrash ends the process at each step of a restoration. The next one goes on with it, and
// does not touch what somebody has changed in between.
func TestRestoreCrash(t *testing.T) {
	t.Parallel()
	// The files a, b and c are restored in this order.
	begin := func(t *testing.T) (*desk, seam.Restoration) {
		t.Helper()
		d := newDesk(t, map[string]string{"a": "one", "b": "one"})
		var calls []any
		for _, name := range []string{"a", "b", "new/c"} {
			if name != "new/c" {
				d.ok("Read", in{"file_path": name})
			}
			d.ok("Write", in{"file_path": name, "content": "two"})
			calls = append(calls, d.calls)
		}
		return d, d.back("r1", calls...)
	}
	record := func(d *desk, name string, done bool) {
		d.Helper()
		rec := checkpoint.Record{Call: "r1", Path: name, Before: files.VersionOf([]byte("two")), At: time.Now()}
		if name != "new/c" {
			rec.After = files.VersionOf([]byte("one"))
		}
		err := d.checks.BeginRewind(d.Context(), "s1", rec, []byte("two"))
		if err == nil && done {
			err = d.checks.Rewound(d.Context(), "s1", rec)
		}
		if err != nil {
			d.Fatal(err)
		}
	}
	gone := func(d *desk, name string) { _ = os.Remove(filepath.Join(d.dir, name)) }
	for name, c := range map[string]struct {
		at   func(d *desk)
		want map[string]string // what is then on disk
		says map[string]string // of files that are not restored
	}{
		"before the first file": {at: func(*desk) {}},
		"a record is there":     {at: func(d *desk) { record(d, "a", false) }},
		"a file is restored":    {at: func(d *desk) { record(d, "a", false); d.put("a", "one") }},
		"and it was noted":      {at: func(d *desk) { record(d, "a", true); d.put("a", "one") }},
		"with a temporary file": {at: func(d *desk) { record(d, "a", false); d.put(".parley-new-"+tagOf("r1"), "on") }},
		"a new file is deleted": {at: func(d *desk) { record(d, "new/c", false); gone(d, "new/c") }},
		"and that was noted":    {at: func(d *desk) { record(d, "new/c", true); gone(d, "new/c") }},
		"somebody edits a restored one": {
			at:   func(d *desk) { record(d, "a", true); d.put("a", "mine") },
			want: map[string]string{"a": "mine", "b": "one"},
		},
		"somebody puts a restored one back": {
			at:   func(d *desk) { record(d, "a", true); d.put("a", "two") },
			want: map[string]string{"a": "two", "b": "one"},
		},
		"somebody edits one that was not noted": {
			at:   func(d *desk) { record(d, "a", false); d.put("a", "mine") },
			want: map[string]string{"a": "mine", "b": "one"}, says: map[string]string{"a": "left: somebody else has changed it since"},
		},
		"somebody edits one to come": {
			at:   func(d *desk) { record(d, "a", true); d.put("a", "one"); d.put("b", "mine") },
			want: map[string]string{"a": "one", "b": "mine"}, says: map[string]string{"b": "left: somebody else has changed it since"},
		},
		"somebody uses the folder": {
			at:   func(d *desk) { record(d, "new/c", true); gone(d, "new/c"); d.put("new/mine", "mine") },
			want: map[string]string{"a": "one", "b": "one", "new": "/", "new/mine": "mine"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, of := begin(t)
			c.at(d)
			got := outcomes(d.restore(of))
			want := c.want
			if want == nil {
				want = map[string]string{"a": "one", "b": "one"}
			}
			d.same("then", want)
			for path, what := range got {
				expect := c.says[path]
				if expect == "" {
					expect = "restored"
				}
				if what != expect {
					t.Errorf("%s is %q, want %q", path, what, expect)
				}
			}
			if len(got) != 3 {
				t.Errorf("got %v", got)
			}
			again := outcomes(d.restore(of))
			d.same("asked again", want)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("asked again:\n%s", diff)
			}
		})
	}
	t.Run("it is told to stop", func(t *testing.T) {
		t.Parallel()
		d, of := begin(t)
		ctx, stop := context.WithCancel(t.Context())
		begun := 0
		r := workspace.NewRestorer(d.checks, func() time.Time {
			if begun++; begun == 2 {
				stop()
			}
			return time.Now()
		})
		if _, err := r.Restore(ctx, of); err == nil {
			t.Error("it went on")
		}
		d.has("a", "one")
		d.has("b", "two")
		d.restore(of)
		d.same("in the next process", map[string]string{"a": "one", "b": "one"})
	})
}

// tagOf is what the name of the temporary file of a change with a tag ends in.
func tagOf(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return hex.EncodeToString(sum[:8])
}
