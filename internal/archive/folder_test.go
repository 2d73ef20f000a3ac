package archive_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/datafolder"
)

func steps(from, to int64) []parley.Event {
	var list []parley.Event
	for seq := from; seq <= to; seq++ {
		e := parley.NewEvent("T1", "", parley.TurnCancelled{Reason: strings.Repeat("word ", 20)})
		e.Seq = seq
		list = append(list, e)
	}
	return list
}

func keep(t *testing.T, a *archive.Folder, from, to int64) string {
	t.Helper()
	name, err := a.Keep(t.Context(), "S1", steps(from, to))
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// files lists the files under a folder with their permissions.
func files(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	got := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(dir, path)
		got[rel] = info.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestFolder_keeps_events_whole_and_drops_them(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	a := archive.NewFolder(datafolder.New(data, nil))
	want := []string{"archive/S1/1-3.ndjson.gz", "archive/S1/4-9.ndjson.gz"}
	if diff := cmp.Diff(want, []string{keep(t, a, 1, 3), keep(t, a, 4, 9)}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]fs.FileMode{want[0]: 0o600, want[1]: 0o600}, files(t, data)); diff != "" {
		t.Error(diff)
	}
	f, err := os.Open(filepath.Join(data, want[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(z); lines.Scan(); n++ {
		var e parley.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if !e.Equal(steps(4, 9)[n]) {
			t.Errorf("line %d is %s", n, lines.Bytes())
		}
	}
	if n != 6 {
		t.Errorf("got %d events, want 6", n)
	}
	for range 2 { // a deletion may be repeated
		if err := a.Drop(t.Context(), "S1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := files(t, data); len(got) != 0 {
		t.Errorf("dropped data is there: %v", got)
	}
}

// TestFolder_after_a_crash: a crash leaves half a file, or a whole file whose condensation was not
// committed.
func TestFolder_after_a_crash(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	a := archive.NewFolder(datafolder.New(data, nil))
	keep(t, a, 1, 10)
	keep(t, a, 11, 20) // after this the process crashes
	if err := os.WriteFile(filepath.Join(data, "archive/S1/11-30.ndjson.gz.half"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	keep(t, a, 11, 40)
	keep(t, a, 11, 40)
	want := map[string]fs.FileMode{"archive/S1/1-10.ndjson.gz": 0o600, "archive/S1/11-40.ndjson.gz": 0o600}
	if diff := cmp.Diff(want, files(t, data)); diff != "" {
		t.Error(diff)
	}
}

// TestFolder_that_went_away: the data folder is renamed, and another server starts at its path, even
// with a copy of the archive. Nothing is changed there, and the folder is not made again.
func TestFolder_that_went_away(t *testing.T) {
	t.Parallel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(t.TempDir(), "data")
	must(os.Mkdir(data, 0o700))
	a := archive.NewFolder(datafolder.New(data, nil))
	blob := func(letter string) parley.Digest { return parley.Digest(strings.Repeat(letter, 64)) }
	keep(t, a, 1, 10)
	must(a.KeepBlob(t.Context(), "S1", blob("a"), []byte("x")))
	refused := func(when string, err error) {
		t.Helper()
		if parley.CodeOf(err) != parley.CodeUnavailable || !strings.Contains(parley.Info(err).Hint, "put back") {
			t.Errorf("%s: got %v", when, err)
		}
	}
	all := func(when string) {
		t.Helper()
		_, err := a.Keep(t.Context(), "S1", steps(11, 20))
		refused(when+", Keep", err)
		_, err = a.Keep(t.Context(), "S2", steps(1, 2))
		refused(when+", Keep of a new session", err)
		refused(when+", KeepBlob", a.KeepBlob(t.Context(), "S1", blob("b"), []byte("x")))
		refused(when+", KeepBlob of one that is there", a.KeepBlob(t.Context(), "S1", blob("a"), []byte("x")))
		refused(when+", Share", a.Share(t.Context(), "S1", "S3", 10))
		refused(when+", Drop", a.Drop(t.Context(), "S1"))
	}
	must(os.Rename(data, data+"-aside"))
	all("renamed")
	if _, err := os.Lstat(data); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the folder was made again: %v", err)
	}
	must(os.CopyFS(data, os.DirFS(data+"-aside")))
	before := files(t, data)
	all("a copy is in its place")
	if diff := cmp.Diff(before, files(t, data)); diff != "" {
		t.Errorf("the other folder has changed: %s", diff)
	}
	must(errors.Join(os.RemoveAll(data), os.Rename(data+"-aside", data)))

	// It is replaced while it is written to. The archive moves to the other folder, so that
	// all writes succeed.
	ctx := &during{Context: t.Context(), do: func() {
		must(os.Rename(data, data+"-aside"))
		must(os.Mkdir(data, 0o700))
		must(os.Rename(filepath.Join(data+"-aside", "archive"), filepath.Join(data, "archive")))
	}}
	_, err := a.Keep(ctx, "S1", steps(11, 20))
	refused("replaced meanwhile", err)
	must(os.Rename(filepath.Join(data, "archive"), filepath.Join(data+"-aside", "archive")))
	must(errors.Join(os.Remove(data), os.Rename(data+"-aside", data)))
	keep(t, a, 11, 20)

	// It disappears right after each of the checks.
	for n := 1; ; n++ {
		calls := 0
		a := archive.NewFolder(datafolder.New(data, func() error {
			if calls++; calls == n {
				must(os.Rename(data, data+"-aside"))
			}
			return nil
		}))
		_, err := a.Keep(t.Context(), parley.SessionID(fmt.Sprint("N", n)), steps(1, 2))
		if calls < n {
			break
		}
		if _, there := os.Lstat(data); !errors.Is(there, fs.ErrNotExist) {
			t.Fatalf("after check %d the folder was made again: %v", n, there)
		}
		if must(os.Rename(data+"-aside", data)); err != nil {
			refused(fmt.Sprint("after check ", n), err)
		}
	}
}

// during is a context that calls do when it is first asked whether it has ended.
type during struct {
	context.Context
	once sync.Once
	do   func()
}

func (d *during) Err() error {
	d.once.Do(d.do)
	return d.Context.Err()
}

func TestFolder_a_disk_without_room(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		// Without the right to mount, a path that cannot be written stands for the full disk.
		if err := os.WriteFile(filepath.Join(dir, "archive"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Error(err)
			}
		})
		f, err := os.Create(filepath.Join(dir, "ballast"))
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) || f.Close() != nil {
			t.Fatalf("got %v, want a full disk", err)
		}
		if err := os.Truncate(f.Name(), 52<<10); err != nil { // room for folders only
			t.Fatal(err)
		}
	}
	a := archive.NewFolder(datafolder.New(dir, nil))
	big := steps(1, 40)
	for i := range big {
		big[i] = parley.NewEvent("T1", "", parley.TurnCancelled{Reason: rubbish(4<<10, i)})
		big[i].Seq = int64(i) + 1
	}
	_, err := a.Keep(t.Context(), "S1", big)
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != parley.CodeUnavailable || e.Hint == "" {
		t.Errorf("got %v, want unavailable with a hint", err)
	}
	for name := range files(t, dir) {
		if strings.HasPrefix(name, "archive/S1/") {
			t.Errorf("%s was left behind", name)
		}
	}
}

// rubbish is text that does not compress well.
func rubbish(n, seed int) string {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = 'a' + byte(x>>27)%26
	}
	return string(b)
}

func TestFolder_refuses_what_it_must_not_write(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	a := archive.NewFolder(datafolder.New(filepath.Join(data, "in"), nil))
	for _, id := range []parley.SessionID{"", ".", "..", "../x", "a/b", "/etc"} {
		if _, err := a.Keep(t.Context(), id, steps(1, 2)); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("Keep %q: got %v, want invalid", id, err)
		}
		if err := a.Drop(t.Context(), id); parley.CodeOf(err) != parley.CodeInvalid {
			t.Errorf("Drop %q: got %v, want invalid", id, err)
		}
	}
	gap := append(steps(1, 2), steps(4, 5)...)
	if _, err := a.Keep(t.Context(), "S1", gap); parley.CodeOf(err) != parley.CodeInternal {
		t.Errorf("a gap: got %v, want an internal error", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Keep(ended, "S1", steps(1, 2)); parley.CodeOf(err) != parley.CodeCancelled {
		t.Errorf("a context that ended: got %v, want cancelled", err)
	}
	if got := files(t, data); len(got) != 0 {
		t.Errorf("there are files: %v", got)
	}
}
