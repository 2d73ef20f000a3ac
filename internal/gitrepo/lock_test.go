package gitrepo

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestReleased: a lock that was given back is free at once, also while a child of this process, which
// has not begun its program yet, still has its file.
func TestReleased(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	for name, back := range map[string]func(*held){"release": (*held).release, "abandon": (*held).abandon} {
		h, err := newLock(path).take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		child, err := syscall.Dup(int(h.f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		back(h)
		if f, err := newLock(path).try(); err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			_ = f.Close()
		}
		_ = syscall.Close(child)
	}
}
