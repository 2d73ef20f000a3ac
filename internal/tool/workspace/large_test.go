package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/tool/workspace"
)

// TestLargeFilesTakeTurns: a user's calls hold only a few large files at once, those of others are
// not kept waiting by them, and small files wait for nothing.
func TestLargeFilesTakeTurns(t *testing.T) {
	d := newDesk(t, map[string]string{"large.md": strings.Repeat("line\n", 100_000), "small.md": "one"})
	d.ok("Read", in{"file_path": "small.md"}) // opens the database
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var holding []string
		gate := make(chan struct{})
		tools := workspace.New(workspace.Options{NoRipgrep: true, Checkpoints: func() *checkpoint.Store { // asked for while a file is held
			mu.Lock()
			holding = append(holding, "read")
			mu.Unlock()
			<-gate
			return d.checks
		}})
		var calls sync.WaitGroup
		read := func(user, name string) {
			r := d.call("Read", in{"file_path": name})
			r.Principal = parley.Principal{User: user}
			calls.Go(func() {
				if res, err := tools.Run(t.Context(), r); err != nil || res.Outcome == parley.OutcomeError {
					t.Errorf("%s %s: %v %s", user, name, err, res.Output)
				}
			})
		}
		held := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(holding) != want {
				t.Errorf("%s: %d calls hold a file, want %d", when, len(holding), want)
			}
		}
		for range 10 {
			read("ana", "large.md")
		}
		held(2, "ten large files of one user")
		read("ben", "large.md")
		held(3, "and one of another")
		for range 5 {
			read("ana", "small.md")
		}
		held(8, "and five small ones")
		close(gate)
		calls.Wait()
	})
}

// TestToolsetsTakeTurns: the toolsets of a server, one for each app and version of it, share the turns.
func TestToolsetsTakeTurns(t *testing.T) {
	d := newDesk(t, map[string]string{"large.md": strings.Repeat("line\n", 100_000)})
	d.ok("Read", in{"file_path": "large.md"})
	synctest.Test(t, func(t *testing.T) {
		var holding atomic.Int32
		gate := make(chan struct{})
		turns := workspace.NewTurns()
		var calls sync.WaitGroup
		for range 6 {
			tools := workspace.New(workspace.Options{NoRipgrep: true, Turns: turns, Checkpoints: func() *checkpoint.Store {
				holding.Add(1)
				<-gate
				return d.checks
			}})
			r := d.call("Read", in{"file_path": "large.md"})
			calls.Go(func() {
				if res, err := tools.Run(t.Context(), r); err != nil || res.Outcome == parley.OutcomeError {
					t.Errorf("%v %s", err, res.Output)
				}
			})
		}
		synctest.Wait()
		if n := holding.Load(); n != 2 {
			t.Errorf("%d calls of one user hold a large file, want 2", n)
		}
		close(gate)
		calls.Wait()
	})
}

// TestTooManyLargeFilesWait: calls that wait for a turn are limited, too.
func TestTooManyLargeFilesWait(t *testing.T) {
	d := newDesk(t, map[string]string{"large.md": strings.Repeat("line\n", 100_000), "small.md": "one"})
	d.ok("Read", in{"file_path": "small.md"})
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		tools := workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { <-gate; return d.checks }})
		var calls sync.WaitGroup
		refused := make(chan string, 200)
		for range 110 {
			r := d.call("Read", in{"file_path": "large.md"})
			calls.Go(func() {
				if res, _ := tools.Run(t.Context(), r); res.Outcome == parley.OutcomeError {
					refused <- string(res.Error.Code)
				}
			})
		}
		synctest.Wait()
		close(gate)
		calls.Wait()
		close(refused)
		var got []string
		for code := range refused {
			got = append(got, code)
		}
		if want := slices.Repeat([]string{string(parley.CodeRateLimited)}, 8); !slices.Equal(got, want) {
			t.Errorf("refused were %q, want %d", got, len(want))
		}
	})
}

// TestEditThatGrows: an Edit that would make a file too large is refused before it is made. What
// this one would make has 3.6 GB.
func TestEditThatGrows(t *testing.T) {
	d := newDesk(t, map[string]string{"a.md": strings.Repeat("a", 60_000)})
	d.ok("Read", in{"file_path": "a.md"})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	d.refused("Edit", in{"file_path": "a.md", "old_string": "a", "new_string": strings.Repeat("b", 60_000), "replace_all": true}, "would have 3433 MB; the limit is 32 MB")
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
		t.Errorf("it took %d MB", (after.TotalAlloc-before.TotalAlloc)>>20)
	}
	d.ok("Edit", in{"file_path": "a.md", "old_string": "a", "new_string": "bb", "replace_all": true})
	d.has("a.md", strings.Repeat("b", 120_000))
}

// TestGrepSaysWhatItDoesNotSearch: a model is told of files that are too large to be searched, also
// where nothing matches in the others.
func TestGrepSaysWhatItDoesNotSearch(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.md": "needle\n"})
	large := func(name string) {
		f, err := os.Create(filepath.Join(d.dir, name))
		if err == nil {
			_, err = f.WriteString("needle\n")
		}
		if err == nil {
			err = f.Truncate(10<<20 + 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	large("large.txt")
	d.refused("Grep", in{"pattern": "needle", "path": "large.txt"}, "large.txt has more than 10 MB")
	for i, want := range []string{
		"a.md\n(large.txt was not searched, because it has more than 10 MB.)",
		"a.md\n(2 files were not searched, because they have more than 10 MB, such as b.txt.)",
	} {
		d.tools = workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return d.checks }, NoRipgrep: true})
		if got := d.ok("Grep", in{"pattern": "needle"}).Output; got != want {
			t.Errorf("%d: got %q, want %q", i, got, want)
		}
		large("b.txt")
	}
	if got := d.ok("Grep", in{"pattern": "needle", "glob": "*.none"}).Output; got != "Nothing matches." {
		t.Errorf("got %q", got)
	}
}

// TestDirectCalls: each direct call has a session of its own, so what another one of the same user
// has read counts. What others have read does not, nor an older version.
func TestDirectCalls(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"a.md": "one"})
	direct := func(user, app string, space parley.Workspace, tool string, input in) parley.ToolResult {
		r := d.call(tool, input)
		r.Principal, r.App, r.Space, r.Direct, r.Session = parley.Principal{User: user}, app, space, true, parley.SessionID(fmt.Sprint("direct", d.calls))
		res, err := d.tools.Run(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	edit := func(user, app string, space parley.Workspace, from, to, because string) {
		t.Helper()
		if res := direct(user, app, space, "Edit", in{"file_path": "a.md", "old_string": from, "new_string": to}); !strings.Contains(res.Output, because) {
			t.Errorf("got %s %q, want %q", res.Outcome, res.Output, because)
		}
	}
	edit("ana", "notes", "main", "one", "two", "has not been read")
	direct("ana", "notes", "main", "Read", in{"file_path": "a.md"})
	edit("ben", "notes", "main", "one", "two", "has not been read")
	edit("ana", "other", "main", "one", "two", "has not been read")
	edit("ana", "notes", "other", "one", "two", "has not been read")
	edit("ana", "notes", "main", "one", "two", "was changed")
	edit("ana", "notes", "main", "two", "three", "was changed")
	d.put("a.md", "four")
	edit("ana", "notes", "main", "four", "five", "has changed since it was read")
	d.refused("Edit", in{"file_path": "a.md", "old_string": "four", "new_string": "five"}, "has not been read") // a conversation
	d.has("a.md", "four")
}

// TestNotShownIsNotRead: a file of which nothing could be shown is not overwritten.
func TestNotShownIsNotRead(t *testing.T) {
	t.Parallel()
	d := newDesk(t, map[string]string{"bin": "a\x00b", "bad.ipynb": "no notebook"})
	for name, why := range map[string]string{"bin": "is not text", "bad.ipynb": "is not a notebook"} {
		d.refused("Read", in{"file_path": name}, why)
		d.refused("Write", in{"file_path": name, "content": "x"}, "has not been read yet")
	}
}
