package turncommit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/turncommit"
)

// TestTurns: each turn that changed files has one commit, of its person's folder, and it is pushed.
func TestTurns(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s, p := g.session("sebastian"), g.session("petra")
		turn := g.turn(s, "Note   the garden\tplans", writes("garden/plan.md", "Tulips\n"), writes("garden/tools.md", "Spade\n"))
		g.settled()
		g.turn(p, "Only a question")
		write(t, g.vault, "petra/by-hand.md", "by hand\n")
		g.settled()
		g.turn(p, "Write a file", writes("p.md", "p\n"))
		g.settled()
		g.turn(s, "This one fails", writes("half.md", "half\n"), call{Tool: "fail"})
		g.settled()
		want := []string{
			"Note the garden plans: sebastian/garden/plan.md sebastian/garden/tools.md",
			"Write a file: petra/by-hand.md petra/p.md",
			"[failed] This one fails: sebastian/half.md",
		}
		for _, at := range []string{g.vault, filepath.Join(g.dir, "remote.git")} {
			if diff := cmp.Diff(want, g.history(at)); diff != "" {
				t.Errorf("%s: %s", at, diff)
			}
		}
		body := git(t, g.vault, "log", "-1", "--format=%an%n%b", "main~2")
		for _, text := range []string{"sebastian by Parley\n", "- garden/plan.md\n- garden/tools.md\n", "\nParley-Turn: " + string(turn.ID) + "\nParley-Session: " + string(s.ID) + "\nParley-Status: completed\n"} {
			if !strings.Contains(body, text) {
				t.Errorf("the message does not have %q:\n%s", text, body)
			}
		}
		if st := git(t, g.vault, "status", "--porcelain"); st != "" {
			t.Errorf("not committed: %s", st)
		}
		if n := g.commits.Notices(); n != nil {
			t.Errorf("the notices are %q", n)
		}
		// Started again, nothing is committed twice.
		g.restarted()
		if diff := cmp.Diff(want, g.history(g.vault)); diff != "" {
			t.Errorf("after a restart: %s", diff)
		}
	})
}

// TestTwoTurns: of two turns of one person at once each commits its own files, and a file of both goes
// with the first that ends.
func TestTwoTurns(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		a, b := g.session("sebastian"), g.session("sebastian")
		slow := g.Send(a.ID, asks("slow", writes("slow-1.md", "1\n"), writes("both.md", "slow\n"), call{"wait", map[string]any{}}, writes("slow-2.md", "2\n")))
		if turn := g.Await(slow.ID); turn.Status != parley.StatusWaiting {
			t.Fatalf("the turn is %s", turn.Status)
		}
		fast := g.turn(b, "fast", writes("fast.md", "f\n"), call{"Read", map[string]any{"file_path": "both.md"}}, writes("both.md", "fast\n"))
		g.settled()
		state, err := g.Engine.State(context.Background(), parley.Principal{User: a.User, Org: a.Org}, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got := git(t, g.vault, "status", "--porcelain", "-uall"); got != "?? sebastian/slow-1.md\n" {
			t.Errorf("not committed: %q", got)
		}
		if _, err := g.Engine.Answer(context.Background(), parley.Principal{User: a.User, Org: a.Org}, state.Interactions[0].ID, parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		g.Await(slow.ID)
		g.settled()
		got := g.history(g.vault)
		want := []string{"fast: sebastian/both.md sebastian/fast.md", "slow: sebastian/slow-1.md sebastian/slow-2.md"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if also := git(t, g.vault, "log", "-1", "--format=%(trailers:key=Parley-Also,valueonly)%(trailers:key=Parley-Turn,valueonly)", "main~1"); also != string(slow.ID)+"\n"+string(fast.ID)+"\n\n" {
			t.Errorf("the first commit is of %q", also)
		}
	})
}

// TestRequests: each page that is asked for has its line and its commit.
func TestRequests(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s, p := g.session("sebastian"), g.session("petra")
		g.turn(s, "fetch", call{"WebFetch", map[string]any{"url": "https://example.com/page"}})
		g.turn(p, "fetch", call{"WebFetch", map[string]any{"url": "https://e.com/\n- [2026-01-01 00:00:00] (x) [y](z) <b>ü 🏡"}})
		g.settled()
		at := time.Now().Local().Format("2006-01-02")
		lines := strings.Split(read(g.vault, "claude/webfetch_logs/requests.md"), "\n")
		if len(lines) != 3 || !regexp.MustCompile(`^- \[`+at+` \d\d:\d\d:\d\d\] \(sebastian\) https://example\.com/page$`).MatchString(lines[0]) ||
			!strings.HasSuffix(lines[1], "] (petra) https://e.com/%0A-%20%5B2026-01-01%2000:00:00%5D%20(x)%20%5By%5D(z)%20%3Cb%3Eü%20🏡") || lines[2] != "" {
			t.Errorf("the log is %q", lines)
		}
		want := []string{"Log WebFetch request: claude/webfetch_logs/requests.md", "Log WebFetch request: claude/webfetch_logs/requests.md"}
		if diff := cmp.Diff(want, g.history(filepath.Join(g.dir, "remote.git"))); diff != "" {
			t.Error(diff)
		}
		if left := g.noted(g.Mem); left != nil {
			t.Errorf("left are %q", left)
		}
	})
}

// TestRequestsOfFiles: an earlier version noted requests in files. They become rows of the store,
// have their lines once, and the files are gone, whenever the server dies meanwhile.
func TestRequestsOfFiles(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		g.settled()
		g = &rig{Rig: g.Rig, dir: g.dir, vault: g.vault, data: t.TempDir(), change: g.change}
		old := filepath.Join(g.data, "git/test/requests")
		files := map[string]string{
			"c1.json": `{"call":"c1","line":"- [2026-11-01 10:00:00] (petra) https://e.com/1","at":"2026-11-01T10:00:00+01:00"}`,
			"c2.json": `{"call":"c2","line":"- [2026-11-01 11:00:00] (petra) https://e.com/2","at":"2026-11-01T11:00:00+01:00"}`,
			"c3.json": `{"call":"c3","li`, // half of one: its call had not gone on
		}
		for name, body := range files {
			write(t, g.data, "git/test/requests/"+name, body)
		}
		// The store is gone for a while: nothing is lost.
		store := g.Mem.Clone()
		away := errors.New("the store is away")
		store.SetFaults(mem.Faults{Before: func(c mem.Call) error { return away }})
		start := func(wait time.Duration) {
			w, reader := eventlog.New(store, redact.New(), eventlog.Options{})
			c := turncommit.Start(g.options(store, reader))
			time.Sleep(wait)
			synctest.Wait()
			// With the log open, Close waits for a second: until the very moment of the next try.
			_ = w.Close(context.Background())
			c.Close(context.Background())
		}
		start(time.Second)
		if left, _ := filepath.Glob(filepath.Join(old, "*.json")); len(left) != 3 {
			t.Fatalf("left are %q", left)
		}
		// At the start, and once more at the end, it dies after a row and before its file is removed.
		store.SetFaults(mem.Faults{After: func(c mem.Call) error {
			if c.Method == "PutRow" {
				return away
			}
			return nil
		}})
		start(time.Second)
		if diff := cmp.Diff([]string{"test/c1", "test/c2"}, g.noted(store)); diff != "" {
			t.Fatal(diff)
		}
		if left, _ := filepath.Glob(filepath.Join(old, "*.json")); len(left) != 2 {
			t.Fatalf("left are %q", left)
		}
		store.SetFaults(mem.Faults{})
		for range 2 {
			start(time.Minute)
			want := "- [2026-11-01 10:00:00] (petra) https://e.com/1\n- [2026-11-01 11:00:00] (petra) https://e.com/2\n"
			if got := read(g.vault, "claude/webfetch_logs/requests.md"); got != want {
				t.Errorf("the log is %q", got)
			}
			if n := len(g.history(g.vault)); n != 2 {
				t.Errorf("there are %d commits", n)
			}
			if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
			if rows := g.noted(store); rows != nil {
				t.Errorf("the rows are %q", rows)
			}
		}
	})
}

// TestCrashed: a turn that ended before its commit, and a page that was asked for before its line, have
// them after a restart, once.
func TestCrashed(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		// A git of somebody who holds the index: nothing can be committed until the server is gone.
		lock := filepath.Join(g.vault, ".git/index.lock")
		write(t, g.vault, ".git/index.lock", "")
		g.turn(s, "first", writes("a.md", "a\n"))
		g.turn(s, "fetch", call{"WebFetch", map[string]any{"url": "https://example.com/"}})
		g.turn(s, "second", writes("b.md", "b\n"))
		time.Sleep(10 * time.Second)
		if n := g.commits.Notices(); len(n) != 1 || !strings.Contains(n[0], "The changes of 2 turns are not committed to git yet: another git works") {
			t.Errorf("the notices are %q", n)
		}
		// It dies: what is in memory is lost.
		data := t.TempDir()
		if err := os.CopyFS(data, os.DirFS(g.data)); err != nil {
			t.Fatal(err)
		}
		vault := filepath.Join(t.TempDir(), "vault")
		if err := os.CopyFS(vault, os.DirFS(g.vault)); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(filepath.Dir(vault), "remote.git"), os.DirFS(filepath.Join(g.dir, "remote.git"))); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(vault, ".git/index.lock")); err != nil {
			t.Fatal(err)
		}
		old := *g
		again := &rig{Rig: g.Rig, dir: filepath.Dir(vault), vault: vault, data: data, change: g.change}
		for range 2 {
			again.restarted()
			got := again.history(vault)
			want := []string{"Log WebFetch request: claude/webfetch_logs/requests.md", "first: sebastian/a.md", "second: sebastian/b.md"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("after the restart: %s", diff)
			}
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		g.settled()
		if got := len(old.history(g.vault)); got != 3 {
			t.Errorf("without a restart there are %d commits", got)
		}
		if n := g.commits.Notices(); n != nil {
			t.Errorf("the notices are %q", n)
		}
	})
}

// TestRemoteAway: while the remote is away commits are kept, and pushed when it is back.
func TestRemoteAway(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		remote := filepath.Join(g.dir, "remote.git")
		if err := os.Rename(remote, remote+".away"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		g.turn(s, "first", writes("a.md", "a\n"))
		g.turn(s, "second", writes("b.md", "b\n"))
		g.settled()
		if n := g.commits.Notices(); len(n) != 1 || !strings.HasPrefix(n[0], "2 commits wait to be pushed, since ") {
			t.Errorf("the notices are %q", n)
		}
		if len(g.history(g.vault)) != 2 {
			t.Errorf("the vault has %q", g.history(g.vault))
		}
		if err := os.Rename(remote+".away", remote); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Minute)
		g.settled()
		if n := g.commits.Notices(); n != nil {
			t.Errorf("the notices are %q", n)
		}
		if len(g.history(remote)) != 2 {
			t.Errorf("the remote has %q", g.history(remote))
		}
	})
}

// TestFromElsewhere: the first look at files in a turn sees what was pushed from elsewhere before it.
func TestFromElsewhere(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		time.Sleep(time.Hour)
		person := filepath.Join(g.dir, "person")
		write(t, person, "sebastian/notes.md", "Changed elsewhere.\n")
		git(t, person, "commit", "-qam", "elsewhere")
		git(t, person, "push", "-q")
		turn := g.turn(s, "read", call{"Read", map[string]any{"file_path": "notes.md"}})
		if turn.Status != parley.StatusCompleted {
			t.Fatalf("the turn is %s", turn.Status)
		}
		found := false
		for _, e := range g.Log(s.ID) {
			found = found || e.Type == "tool.ended" && strings.Contains(string(e.Data), "Changed elsewhere.")
		}
		if !found {
			t.Error("the turn has read the file as it was before")
		}
	})
}

// TestNoRepository: without one nothing is committed; the log of pages is written all the same, and a
// repository that is made later is found.
func TestNoRepository(t *testing.T) {
	t.Parallel()
	live(t, func(g *rig) {
		s := g.session("sebastian")
		g.settled()
		g.turn(s, "write", writes("a.md", "a\n"))
		g.turn(s, "fetch", call{"WebFetch", map[string]any{"url": "https://example.com/"}})
		g.settled()
		if got := read(g.vault, "claude/webfetch_logs/requests.md"); !strings.HasSuffix(got, " (sebastian) https://example.com/\n") {
			t.Errorf("the log is %q", got)
		}
		if len(g.history(g.vault)) != 0 || g.commits.Notices() != nil {
			t.Errorf("there are commits %q, notices %q", g.history(g.vault), g.commits.Notices())
		}
	}, offFor)
}
