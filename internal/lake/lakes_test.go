package lake_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/lake"
)

// open are the files and folders below a folder that this process has open.
func open(t *testing.T, below string) (list []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not say what is open")
	}
	for _, e := range all {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, below) {
			list = append(list, to)
		}
	}
	return list
}

// TestManyLakes: of many lakes only the last that were used have anything open; each can be used all the same, also by those who have
// had it for long.
func TestManyLakes(t *testing.T) {
	t.Parallel()
	dir, private := memory(t), memory(t)
	all := lake.New(lake.Options{Private: private, Fresh: -1})
	var lakes []*lake.Lake
	read := func(i int) {
		t.Helper()
		if e, err := lakes[i].Read(t.Context(), "a.md"); err != nil || e.Title != fmt.Sprint("Lake ", i) {
			t.Errorf("lake %d: got %q, %v", i, e.Title, err)
		}
	}
	const n = 60
	for i := range n {
		one := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(one, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(one, "a.md"), fmt.Appendf(nil, "# Lake %d\n", i), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := all.In(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		lakes = append(lakes, l)
		read(i)
	}
	if folders := open(t, dir); len(folders) > 16 {
		t.Errorf("%d folders are open", len(folders))
	}
	for i := range n {
		read(i)
	}
	if folders := open(t, dir); len(folders) > 16 {
		t.Errorf("%d folders are open after all were used again", len(folders))
	}
	if err := all.Close(); err != nil {
		t.Error(err)
	}
	if left := append(open(t, dir), open(t, private)...); len(left) > 0 {
		t.Errorf("left open: %q", left)
	}
}

// TestReplaced: who has a lake whose folder was replaced by another one is told so, and does not read or change the other; who asks for it
// again gets the other.
func TestReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(memory(t), "lake")
	lay := func(title string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("# "+title+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lay("One")
	all := lake.New(lake.Options{Private: memory(t), Fresh: -1})
	defer all.Close() //nolint:errcheck // the test is over
	one, err := all.In(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // the test is over
	if l, err := all.At(t.Context(), root); err != nil || l != one {
		t.Errorf("got %v", err)
	}
	if err := os.Rename(dir, dir+"-before"); err != nil {
		t.Fatal(err)
	}
	lay("Two")
	two, err := all.In(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := two.Read(t.Context(), "a.md"); err != nil || e.Title != "Two" {
		t.Errorf("got %q, %v", e.Title, err)
	}
	if e, err := one.Read(t.Context(), "a.md"); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %q, %v", e.Title, err)
	}
	if _, err := all.At(t.Context(), root); parley.CodeOf(err) != parley.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// TestLakesApart: while a lake that was replaced is waited for, since somebody still uses it, others are opened. Whoever asks for it gets
// the other folder's, all the same one.
func TestLakesApart(t *testing.T) {
	t.Parallel()
	dir := memory(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, one := range []string{a, b} {
		if err := os.Mkdir(one, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	all := lake.New(lake.Options{Private: memory(t), Fresh: -1})
	defer all.Close() //nolint:errcheck // the test is over
	old, err := all.In(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	letGo, err := old.Hold()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(a, a+"-before"), os.Mkdir(a, 0o755)); err != nil {
		t.Fatal(err)
	}
	got := make(chan *lake.Lake)
	for range 3 {
		go func() {
			l, err := all.In(context.WithoutCancel(t.Context()), a)
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
	}
	for { // until it is being closed
		again, err := old.Hold()
		if err != nil {
			break
		}
		again()
		runtime.Gosched()
	}
	if _, err := all.In(t.Context(), b); err != nil {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := all.In(gone, a); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone waits for it: %v", err)
	}
	letGo()
	first := <-got
	if second, third := <-got, <-got; first == nil || first == old || second != first || third != first {
		t.Errorf("got %p, %p and %p in the place of %p", first, second, third, old)
	}
}
