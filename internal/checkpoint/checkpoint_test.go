package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
)

func open(t *testing.T, dir string, most int64) *checkpoint.Store {
	t.Helper()
	s := checkpoint.New(checkpoint.Options{Data: datafolder.New(dir, nil), Most: most, Seen: 3})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRecords: what was begun is there after the process died, and belongs to its session only.
func TestRecords(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	s := open(t, dir, 0)
	at := time.UnixMilli(1_790_000_000_123).UTC()
	made := checkpoint.Record{Call: "c1", Turn: "t1", Path: "a.md", After: "d1", Dirs: []string{"x"}, At: at}
	edited := checkpoint.Record{Call: "c2", Turn: "t1", Path: "a.md", Before: "d1", After: "d2", At: at}
	must(t, s.Begin(ctx, "s1", made, nil))
	must(t, s.End(ctx, "s1", made))
	must(t, s.Begin(ctx, "s1", edited, []byte("one")))
	must(t, s.Begin(ctx, "s2", checkpoint.Record{Call: "c9", Turn: "t9", Path: "a.md", Before: "d1", At: at}, []byte("other")))

	again := open(t, dir, 0)
	made.Done = true
	got, err := again.Changes(ctx, "s1", "")
	if want := []checkpoint.Record{made, edited}; err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v %s", err, cmp.Diff(want, got))
	}
	if got, err := again.Changes(ctx, "s1", "c2"); err != nil || len(got) != 1 || got[0].Call != "c2" {
		t.Errorf("of one call: %+v, %v", got, err)
	}
	for id, want := range map[parley.SessionID]string{"s1": "one", "s2": "other"} {
		if body, ok, err := again.Content(ctx, id, "d1"); err != nil || !ok || string(body) != want {
			t.Errorf("%s: %q, %v, %v", id, body, ok, err)
		}
	}
	if v, ok, err := again.Seen(ctx, "s1", "a.md"); err != nil || !ok || v != "d1" {
		t.Errorf("seen %q, %v, %v", v, ok, err)
	}
	must(t, again.Drop(ctx, "s1"))
	if got, err := again.Changes(ctx, "s1", ""); err != nil || len(got) != 0 {
		t.Errorf("after Drop: %+v, %v", got, err)
	}
	if _, ok, _ := again.Content(ctx, "s1", "d1"); ok {
		t.Error("a content is there after Drop")
	}
	if _, ok, _ := again.Content(ctx, "s2", "d1"); !ok {
		t.Error("Drop took another session's content")
	}
	for _, e := range entries(t, dir) {
		if fi, err := os.Stat(filepath.Join(dir, e)); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v, %v", e, fi.Mode(), err)
		}
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// TestLimits: the oldest contents and the files seen longest ago go first.
func TestLimits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := open(t, t.TempDir(), 100)
	for n := range 5 {
		must(t, s.Begin(ctx, "s1", checkpoint.Record{Call: parley.CallID(fmt.Sprint("c", n)), Path: "a.md", Before: parley.Digest(fmt.Sprint("d", n))}, []byte(strings.Repeat("x", 40))))
		must(t, s.Saw(ctx, "s1", fmt.Sprint(n, ".md"), "v"))
	}
	for n, want := range []bool{false, false, false, true, true} {
		if _, ok, err := s.Content(ctx, "s1", parley.Digest(fmt.Sprint("d", n))); ok != want || err != nil {
			t.Errorf("content %d: %v, %v", n, ok, err)
		}
	}
	for n, want := range []bool{false, false, true, true, true} {
		if _, ok, err := s.Seen(ctx, "s1", fmt.Sprint(n, ".md")); ok != want || err != nil {
			t.Errorf("seen %d: %v, %v", n, ok, err)
		}
	}
	if all, err := s.Changes(ctx, "s1", ""); len(all) != 5 || err != nil {
		t.Errorf("%d records, %v", len(all), err)
	}
	if err := s.Begin(ctx, "s1", checkpoint.Record{Path: "a.md", Before: "d"}, make([]byte, 101)); parley.CodeOf(err) != parley.CodeTooLarge {
		t.Errorf("too large: %v", err)
	}
}

// TestFolderGone: where the data folder was taken away, nothing is made in its place.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(dir, 0o700))
	s := open(t, dir, 0)
	must(t, os.Rename(dir, dir+".away"))
	if err := s.Saw(t.Context(), "s1", "a.md", "v"); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("Saw: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made again")
	}
}

func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), 0)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			id := parley.SessionID(fmt.Sprint("s", n%3))
			r := checkpoint.Record{Call: parley.CallID(fmt.Sprint("c", n)), Path: "a.md", Before: "d"}
			if err := s.Begin(t.Context(), id, r, []byte("x")); err != nil {
				t.Error(err)
			}
			if err := s.End(t.Context(), id, r); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for n := range 3 {
		list, err := s.Changes(t.Context(), parley.SessionID(fmt.Sprint("s", n)), "")
		for _, r := range list {
			if !r.Done {
				t.Errorf("%+v is not done", r)
			}
		}
		if err != nil || len(list) < 6 {
			t.Errorf("%d records, %v", len(list), err)
		}
	}
}
