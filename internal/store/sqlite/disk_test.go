package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

// mount mounts a small file system, and skips the rest of the test if this process may not. Root
// may; where these tests count, root runs them.
func mount(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getuid() == 0 {
			t.Fatalf("no file system can be mounted, and root can: %v", err)
		}
		t.Skipf("only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: a disk fills up and is freed again. Where a file system can be mounted, the
// disk is real. A limit on the file's pages is tested everywhere.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("pages", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.TempDir())
		fullDisk(t, s, func() { must(t, s.LimitPages(40)) }, func() { must(t, s.LimitPages(0)) })
	})
	dir := mount(t, "8m")
	t.Run("file_system", func(t *testing.T) {
		s := open(t, filepath.Join(dir, "data"))
		ballast := filepath.Join(dir, "ballast")
		fill := func() {
			f, err := os.Create(ballast)
			must(t, err)
			block := make([]byte, 4096)
			for err == nil {
				_, err = f.Write(block)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v, want a full disk", err)
			}
			must(t, f.Close())
		}
		fullDisk(t, s, fill, func() { must(t, os.Remove(ballast)) })
		must(t, s.Close())
	})
}

// TestCheckOnADiskThatIsNearlyFull: a small write that works does not promise room for the next
// one, which may be an ordinary message. This holds after a write that had no room, and on a
// disk with hardly any room.
func TestCheckOnADiskThatIsNearlyFull(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("after_a_refusal", func(t *testing.T) {
		t.Parallel()
		s := open(t, t.TempDir())
		must(t, s.LimitPages(8))
		if err := s.Append(ctx, ann, storetest.Words("S", 0, 1, 64<<10)); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Fatalf("an append without room: got %v", err)
		}
		must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
		for range 2 {
			if err := s.Check(ctx); parley.CodeOf(err) != parley.CodeUnavailable {
				t.Errorf("Check: got %v, want unavailable", err)
			}
		}
		must(t, s.LimitPages(0))
		must(t, s.Check(ctx))
		before := s.Commits()
		must(t, s.Append(ctx, ann, storetest.Words("S", 1, 1, 10)))
		must(t, s.Check(ctx))
		if n := s.Commits() - before; n != 1 {
			t.Errorf("got %d commits of an append and a Check after it, want 1", n)
		}
	})
	dir := mount(t, "8m")
	t.Run("file_system", func(t *testing.T) {
		s := open(t, filepath.Join(dir, "data"))
		free, err := sqlite.Free(dir)
		must(t, err)
		ballast := filepath.Join(dir, "ballast")
		must(t, os.WriteFile(ballast, make([]byte, free-sqlite.MinFree/2), 0o600))
		must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
		e, ok := errors.AsType[*parley.Error](s.Check(ctx))
		if !ok || e.Code != parley.CodeUnavailable || !strings.Contains(e.Message, "room") || e.Hint == "" {
			t.Errorf("Check with %d bytes free: got %v", sqlite.MinFree/2, e)
		}
		must(t, os.Remove(ballast))
		must(t, s.Check(ctx))
		must(t, s.Close())
	})
}

func fullDisk(t *testing.T, s *sqlite.Store, fill, free func()) {
	t.Helper()
	ctx := context.Background()
	const size = 8 << 10
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 2, size)))
	for round := range 3 {
		fill()
		// Many goroutines use up the remaining room; then all of them fail.
		var wg sync.WaitGroup
		for hand := range 4 {
			wg.Go(func() {
				id := parley.SessionID(fmt.Sprintf("S%d-%d", round, hand))
				var told int64
				for {
					err := s.Append(ctx, ann, storetest.Words(id, told, 2, size))
					if err == nil {
						told += 2
						continue
					}
					e, ok := errors.AsType[*parley.Error](err)
					if !ok || e.Code != parley.CodeUnavailable || e.Hint == "" {
						t.Errorf("got %v, want unavailable with a hint", err)
					}
					break
				}
				if told == 0 {
					if _, err := s.Session(ctx, ann, id); !errors.Is(err, parley.ErrNotFound) {
						t.Errorf("%s: got %v, want that nothing was made", id, err)
					}
				} else if n := storetest.Head(t, s, id); n != told {
					t.Errorf("%s: got event %d, want %d as told", id, n, told)
				}
			})
		}
		wg.Wait()
		if err := s.Check(ctx); parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("Check on a full disk: got %v, want unavailable", err)
		}
		if got, err := s.Read(ctx, ann, "S", 0, 0); err != nil || int64(len(got)) != 2*int64(round+1) {
			t.Errorf("reading on a full disk: got %d events, %v, want %d", len(got), err, 2*(round+1))
		}
		free()
		must(t, s.Check(ctx))
		must(t, s.Append(ctx, ann, storetest.Words("S", 2*int64(round+1), 2, size)))
	}
	if got, err := s.Pragma("integrity_check"); err != nil || got != "ok" {
		t.Errorf("integrity: got %q, %v, want ok", got, err)
	}
}

// TestReadOnlyFolder: a folder that cannot be written. Where possible it is a read-only mount;
// missing permissions are tested everywhere.
func TestReadOnlyFolder(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, dir string) {
		t.Helper()
		s, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
		e, ok := errors.AsType[*parley.Error](err)
		if !ok || e.Code != parley.CodeUnavailable || e.Hint == "" {
			t.Errorf("got %v, %v, want unavailable with a hint", s, err)
		}
	}
	t.Run("permissions", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		s := open(t, dir)
		must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 3, 10)))
		must(t, s.Close())
		asNobody(t, func() {
			refused(t, dir)                        // the files belong to another user
			refused(t, filepath.Join(dir, "deep")) // the folder cannot be made
		})
		if n := storetest.Head(t, open(t, dir), "S"); n != 3 {
			t.Errorf("got event %d, want 3", n)
		}
	})
	dir := mount(t, "4m")
	t.Run("mount", func(t *testing.T) {
		s := open(t, dir)
		must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 3, 10)))
		must(t, s.Close())
		must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		refused(t, dir)
		must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
		s = open(t, dir)
		if n := storetest.Head(t, s, "S"); n != 3 {
			t.Errorf("got event %d, want 3", n)
		}
		must(t, s.Close())
	})
}

// asNobody runs f without the right to write to our files. Root changes this thread's file
// system identity; other users remove the right from the files.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		dir, err := filepath.Glob(filepath.Join(t.TempDir(), "..", "*"))
		must(t, err)
		for _, d := range dir {
			must(t, os.Chmod(d, 0o500))
			defer func() { must(t, os.Chmod(d, 0o700)) }()
		}
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must(t, syscall.Setfsuid(65534))
	defer func() { must(t, syscall.Setfsuid(0)) }()
	f()
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "data")
	s := open(t, dir)
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 1, 10)))
	for name, want := range map[string]os.FileMode{
		"": 0o700 | os.ModeDir, "parley.db": 0o600, "parley.db-wal": 0o600, "parley.db-shm": 0o600,
	} {
		st, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if st.Mode() != want {
			t.Errorf("%s: got %v, want %v", name, st.Mode(), want)
		}
	}
}
