package datafolder_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
)

// TestFolder makes folders below one that goes away and comes back.
func TestFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(path, 0o700))
	f := datafolder.New(path, nil)
	must(f.Check())
	must(f.Make("a", "b"))
	must(f.Make("a", "b"))
	must(os.Rename(path, path+"-aside"))
	gone := func(when string) {
		t.Helper()
		for _, err := range []error{f.Check(), f.Make("a", "b"), f.Make("a", "b", "c"), f.Make("d")} {
			if e := parley.Info(err); e.Code != parley.CodeUnavailable || e.Hint == "" {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	gone("renamed")
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made anew: %v", err)
	}
	must(os.CopyFS(path, os.DirFS(path+"-aside")))
	gone("a copy is there")
	must(os.RemoveAll(path))
	must(os.Rename(path+"-aside", path))
	must(f.Check())
	must(f.Make("a", "b", "c"))
	if err := f.Make("..", "elsewhere"); err == nil {
		t.Error("a folder beside it could be made")
	}

	g := datafolder.New(path, func() error { return os.Rename(path, path+"-aside") })
	if err := g.Make("after", "the", "check"); err == nil {
		t.Error("a folder was made in one that is gone")
	}
	must(os.Rename(path+"-aside", path)) // which fails if it was made again

	must(os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	if err := f.Make("file", "x"); err == nil || f.Make("file") == nil {
		t.Errorf("a file became a folder: %v", err)
	}
	lost := errors.New("the lock is lost")
	if err := datafolder.New(path, func() error { return lost }).Check(); !errors.Is(err, lost) {
		t.Errorf("without its lock: %v", err)
	}
	late := datafolder.New(path+"-none", nil)
	for range 2 {
		if err := late.Check(); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("a folder that was not there: %v", err)
		}
		_ = os.Mkdir(path+"-none", 0o700)
	}
	if err := datafolder.New(path, nil, filepath.Join(path, "file")).Check(); err != nil {
		t.Error(err)
	}
	g = datafolder.New(path, nil, filepath.Join(path, "file"))
	must(os.Remove(filepath.Join(path, "file")))
	if g.Check() == nil {
		t.Error("a file that is gone is not missed")
	}
}
