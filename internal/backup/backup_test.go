package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/backup"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

var ctx = context.Background()

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put writes files into a folder.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, body := range files {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must(t, os.WriteFile(path, []byte(body), 0o640))
	}
}

// data makes a data folder with a database.
func data(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir)
	storetest.Fill(t, s, 300)
	must(t, s.Close())
	put(t, dir, map[string]string{
		"keys.json": "{}", "lock": "x", "workspaces/ann/notes/a.half": "a", "workspaces/ann/notes/empty": "", "archive/long/1-150.ndjson.gz": "150 events",
		"archive/long/151-160.ndjson.gz.half": "half of one", "archive/short/1-2.ndjson.gz": "2 events", "sessions/x/session.json": "made again",
	})
	must(t, os.Symlink("../elsewhere", filepath.Join(dir, "workspaces/ann/link")))
	must(t, os.Chmod(filepath.Join(dir, "workspaces/ann/notes"), 0o750))
	return dir
}

func open(t testing.TB, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(ctx, dir, sqlite.Options{})
	must(t, err)
	return s
}

func options(dir, target string) backup.Options {
	return backup.Options{
		Data: dir, Target: target, Version: "1.2.3", Now: time.Date(2026, 11, 27, 20, 0, 0, 0, time.UTC),
		Databases: []string{sqlite.FileName, "checkpoints.db"}, Snapshot: sqlite.Snapshot, Archive: "archive", Skip: []string{"lock", "sessions"},
		Forget: func(ctx context.Context, database string, sessions []string) error {
			s, err := sqlite.Open(ctx, filepath.Dir(database), sqlite.Options{Still: true})
			if err != nil {
				return err
			}
			for _, id := range sessions {
				if err := s.Delete(ctx, parley.System(), parley.SessionID(id)); err != nil {
					return errors.Join(err, s.Close())
				}
			}
			return s.Close()
		},
	}
}

// tree lists a folder, without the database.
func tree(t testing.TB, dir string) (out []string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		must(t, err)
		info, err := e.Info()
		must(t, err)
		name, _ := filepath.Rel(dir, path)
		line := fmt.Sprint(name, " ", info.Mode())
		switch {
		case strings.HasPrefix(name, "parley.db"):
			return nil
		case info.Mode().IsRegular():
			body, err := os.ReadFile(path)
			must(t, err)
			line += " " + string(body)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			must(t, err)
			line += " " + to
		}
		out = append(out, line)
		return nil
	}))
	return out
}

// TestThereAndBack: everything comes back, except what is made again or belongs to a process.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	dir := data(t)
	for _, name := range []string{"b.tar", "b.tar.gz"} {
		target := filepath.Join(t.TempDir(), name)
		made, err := backup.Make(ctx, options(dir, target))
		must(t, err)
		if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		back := filepath.Join(t.TempDir(), "back")
		got, err := backup.Restore(ctx, target, back)
		must(t, err)
		if d := cmp.Diff(made, got); d != "" || got.Version != "1.2.3" || len(got.Deleted) != 0 {
			t.Errorf("%+v\n%s", got, d)
		}
		var want []string
		for _, line := range tree(t, dir) {
			if !strings.HasPrefix(line, "lock ") && !strings.HasPrefix(line, "sessions") && !strings.HasPrefix(line, "archive/long/151") {
				want = append(want, line)
			}
		}
		if d := cmp.Diff(want, tree(t, back)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		a, b := open(t, dir), open(t, back)
		if d := cmp.Diff(storetest.Everything(t, a), storetest.Everything(t, b)); d != "" {
			t.Errorf("%s: the database: %s", name, d)
		}
		must(t, errors.Join(a.Close(), b.Close()))

		// Nothing is replaced.
		if _, err := backup.Make(ctx, options(dir, target)); parley.CodeOf(err) != parley.CodeConflict {
			t.Errorf("over an older backup: %v", err)
		}
		if _, err := backup.Restore(ctx, target, back); parley.CodeOf(err) != parley.CodeConflict {
			t.Errorf("into a folder with something: %v", err)
		}
		if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 1 {
			t.Errorf("beside the backup there is %v, %v", left, err)
		}
	}
}

var errKilled = errors.New("killed")

// TestCrashAtEveryPoint: until the last step there is no backup at the target, and what is left of
// one that was killed is removed by the next.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	dir := data(t)
	target := filepath.Join(t.TempDir(), "b.tar.gz")
	for at := 0; ; at++ {
		o, n := options(dir, target), 0
		o.At = func(string) error {
			if n++; n > at {
				return errKilled
			}
			return nil
		}
		_, err := backup.Make(ctx, o)
		if err == nil {
			if at < 8 {
				t.Errorf("there are %d points only", at)
			}
			break
		}
		if !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(filepath.Dir(target)); err != nil || len(list) > 0 {
			t.Fatalf("after point %d there is %v, %v", at, list, err)
		}
		// As kill -9 leaves it, which removes nothing.
		left := filepath.Join(filepath.Dir(target), ".b.tar.gz.partial-left")
		put(t, left, map[string]string{"backup": "half of one"})
	}
	list, err := os.ReadDir(filepath.Dir(target))
	must(t, err)
	if len(list) != 1 || list[0].Name() != "b.tar.gz" {
		t.Errorf("in the end there is %v", list)
	}
}

// TestDeletedMeanwhile: a session that is deleted after the moment of the database, with its
// archive, is deleted in the backup, too.
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := data(t)
	target := filepath.Join(t.TempDir(), "b.tar")
	o := options(dir, target)
	o.At = func(point string) error {
		if point == "database checkpoints.db" {
			return os.RemoveAll(filepath.Join(dir, "archive/short"))
		}
		if point == "file archive/long/1-150.ndjson.gz" {
			put(t, dir, map[string]string{"archive/later/1-2.ndjson.gz": "of a session that was condensed since"})
		}
		return nil
	}
	c, err := backup.Make(ctx, o)
	must(t, err)
	if !slices.Equal(c.Deleted, []string{"short"}) {
		t.Errorf("deleted: %q", c.Deleted)
	}
	back := filepath.Join(t.TempDir(), "back")
	_, err = backup.Restore(ctx, target, back)
	must(t, err)
	s := open(t, back)
	defer s.Close()
	if _, err := s.Session(ctx, parley.System(), "short"); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("the deleted session: %v", err)
	}
	if all, err := s.Sessions(ctx, parley.System(), seam.SessionQuery{Limit: -1}); err != nil || len(all) < 10 {
		t.Errorf("%d sessions, %v", len(all), err)
	}
}

// TestDamaged: a backup that was cut off anywhere, or that has another byte anywhere, restores
// nothing.
func TestDamaged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	put(t, dir, map[string]string{"keys.json": "{}", "workspaces/a/b": strings.Repeat("text ", 50)})
	for _, name := range []string{"b.tar", "b.tar.gz"} {
		target := filepath.Join(t.TempDir(), name)
		_, err := backup.Make(ctx, options(dir, target))
		must(t, err)
		whole, err := os.ReadFile(target)
		must(t, err)
		refused := func(what string, body []byte) {
			t.Helper()
			bad, back := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "back")
			must(t, os.WriteFile(bad, body, 0o600))
			if _, err := backup.Restore(ctx, bad, back); parley.CodeOf(err) != parley.CodeInvalid || !strings.Contains(err.Error(), "damaged or incomplete") {
				t.Errorf("%s, %s: got %v", name, what, err)
			}
			if left, err := os.ReadDir(filepath.Dir(back)); err != nil || len(left) > 0 {
				t.Errorf("%s, %s: it left %v, %v", name, what, left, err)
			}
		}
		end := len(whole)
		if name == "b.tar" {
			end = bytes.LastIndexByte(whole, '}') // zeros follow
		}
		for n := 0; n < end; n += 1 + end/60 {
			refused(fmt.Sprint("cut at ", n), whole[:n])
		}
		at := bytes.Index(whole, []byte("text text"))
		if name != "b.tar" {
			at = len(whole) / 2
		}
		other := bytes.Clone(whole)
		other[at] ^= 1
		refused("another byte", other)
	}
}

// TestHostile: a file that pretends to be a backup writes nothing outside of the folder.
func TestHostile(t *testing.T) {
	t.Parallel()
	for what, entries := range map[string][]tar.Header{
		"a path out":              {{Name: "../out", Typeflag: tar.TypeReg}},
		"an absolute path":        {{Name: "/tmp/out", Typeflag: tar.TypeReg}},
		"through a link":          {{Name: "link", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "link/out", Typeflag: tar.TypeReg}},
		"over a link":             {{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "../out"}, {Name: "link", Typeflag: tar.TypeReg}},
		"a hard link":             {{Name: "out", Typeflag: tar.TypeLink, Linkname: "../out"}},
		"a device":                {{Name: "out", Typeflag: tar.TypeChar}},
		"a folder through a link": {{Name: "link", Typeflag: tar.TypeSymlink, Linkname: ".."}, {Name: "link/out/", Typeflag: tar.TypeDir, Mode: 0o700}},
		"nothing":                 nil,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var body bytes.Buffer
			z := gzip.NewWriter(&body)
			w := tar.NewWriter(z)
			for _, h := range entries {
				must(t, w.WriteHeader(&h))
			}
			must(t, errors.Join(w.Close(), z.Close()))
			dir := t.TempDir()
			file := filepath.Join(t.TempDir(), "b.tar.gz")
			must(t, os.WriteFile(file, body.Bytes(), 0o600))
			if _, err := backup.Restore(ctx, file, filepath.Join(dir, "in", "data")); err == nil {
				t.Error("restored")
			}
			must(t, os.Mkdir(filepath.Join(dir, "in"), 0o700))
			if _, err := backup.Restore(ctx, file, filepath.Join(dir, "in", "data")); err == nil {
				t.Error("restored")
			}
			if got := tree(t, dir); len(got) != 2 {
				t.Errorf("it left %q", got)
			}
		})
	}
}
