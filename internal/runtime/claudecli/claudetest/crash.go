package claudetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// dying is a store that takes a number of appends and then nothing any more, as when the process ends.
type dying struct {
	*enginetest.Cut
	after bool // the last append is stored, but nobody learns of it

	mu   sync.Mutex
	left int
	dead chan struct{}
}

var errDying = errors.New("the process has ended")

// Append implements seam.Store.
func (d *dying) Append(ctx context.Context, p parley.Principal, b seam.Batch) error {
	d.mu.Lock()
	d.left--
	last := d.left == 0
	if last && !d.after {
		d.Off()
	}
	d.mu.Unlock()
	err := d.Cut.Append(ctx, p, b)
	if last {
		d.Off()
		close(d.dead)
		return errDying
	}
	return err
}

// auto makes interrupted turns go on by themselves.
func auto(a *parley.App, _ *claudecli.Options, _ *engine.Options) { a.Resume = parley.ResumeAuto }

// later is when as far as a new owner knows no write is under way any more.
func later(_ *parley.App, _ *claudecli.Options, e *engine.Options) {
	e.Now = func() time.Time { return time.Now().Add(time.Hour) }
}

// work is a turn with writes by tools of the CLI and of the app.
func work(r *Rig) string {
	return Script(
		Step{Text: "I write.", Use: []Use{write(r, "a.txt", "hello")}}, Step{Use: []Use{bash("echo once >> log.txt")}},
		Step{Use: []Use{{"mcp__parley__count", map[string]any{"what": "x"}}}}, Step{Text: "All done."},
	)
}

// goOn recovers, and answers what is asked about writes with what the world shows.
func (r *Rig) goOn(t testing.TB, turn parley.TurnID, at string) {
	t.Helper()
	done, err := r.Engine.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	for range 20 {
		got, err := r.Engine.Turn(ctx, enginetest.User, turn)
		if parley.CodeOf(err) == parley.CodeNotFound {
			return // it was never stored
		}
		got = r.Await(turn)
		switch got.Status {
		case parley.StatusCompleted:
			if got.Response.Message != "All done." {
				t.Errorf("%s: %q", at, got.Response.Message)
			}
			return
		case parley.StatusInterrupted:
			if _, err := r.Engine.Resume(ctx, enginetest.User, turn); err != nil {
				t.Fatal(at, err)
			}
		case parley.StatusWaiting:
			st, err := r.Engine.State(ctx, enginetest.User, got.SessionID)
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range st.Interactions {
				choice := parley.ChoiceDidNot
				if in.Tool == "Write" && r.File("a.txt") == "hello" || in.Tool == "Bash" && r.File("log.txt") != "no file" {
					choice = parley.ChoiceHappened
				}
				r.answer(t, in, parley.Answer{Choice: choice})
			}
			time.Sleep(10 * time.Millisecond)
		default:
			t.Errorf("%s: %s %+v\n%s", at, got.Status, got.Error, Told(r.Log(got.SessionID)))
			return
		}
	}
	t.Errorf("%s: the turn does not end", at)
}

// crashes: the server ends before and after each of its commits. Nothing is done twice, and the turn
// comes to its end.
func crashes(t *testing.T, c CLI) {
	path := c.Path(t)
	every := 1
	if c.Real {
		every = 3 // each takes seconds of a processor
	}
	for i, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "after"}[after], func(t *testing.T) {
			t.Parallel()
			for n := 2 + i; ; n += every {
				at := map[bool]string{false: "before", true: "after"}[after] + " commit " + string(rune('0'+n/10)) + string(rune('0'+n%10))
				dir, disk := t.TempDir(), mem.New()
				d := &dying{Cut: &enginetest.Cut{Store: disk}, after: after, left: n, dead: make(chan struct{})}
				r := New(t, path, dir, d, auto)
				s := r.Session()
				turn, err := r.Engine.Send(ctx, enginetest.User, s.ID, parley.Send{Message: work(r)})
				whole := false
				if err == nil {
					over := make(chan struct{})
					go func() {
						defer close(over)
						_, _ = r.Engine.Await(ctx, enginetest.User, turn.ID, time.Minute)
					}()
					select {
					case <-d.dead:
					case <-over:
						whole = true
					}
				}
				r.Kill()
				_ = r.Runtime.Close()
				r = New(t, path, dir, disk, auto, later)
				if err == nil {
					r.goOn(t, turn.ID, at)
				}
				if got := r.File("log.txt"); strings.Count(got, "once") > 1 {
					t.Errorf("%s: done twice: %q\n%s", at, got, Told(r.Log(s.ID)))
				}
				if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
					t.Errorf("%s: %v\n%s", at, err, Told(r.Log(s.ID)))
				}
				r.Stop()
				if whole || t.Failed() {
					break
				}
			}
		})
	}
}

// Variables of the processes that [Killed] kills.
const (
	serverIn  = "CLAUDETEST_SERVER" // the folder in which a server works
	serverCLI = "CLAUDETEST_CLI"    // its CLI
)

// Main makes this process a server that is to be killed, if it is meant to be one.
func Main() {
	dir := os.Getenv(serverIn)
	if dir == "" {
		return
	}
	testing.Init()
	testing.Benchmark(func(b *testing.B) {
		store, err := sqlite.Open(ctx, filepath.Join(dir, "data"), sqlite.Options{})
		if err != nil {
			panic(err)
		}
		r := New(b, os.Getenv(serverCLI), dir, store, auto)
		r.Send(r.Session().ID, hanging(r))
		select {}
	})
}

// hanging is a turn in which a command hangs after it took effect.
func hanging(r *Rig) string {
	return Script(Step{Use: []Use{write(r, "a.txt", "hello")}}, Step{Use: []Use{bash("echo once >> log.txt; while true; do date +%s%N > alive; sleep 0.05; done")}}, Step{Text: "All done."})
}

// Killed: kill -9 of the server while its CLI runs a command, and of both, leaves nothing running. The
// next server asks what became of the command, and does not make it again.
func Killed(t *testing.T, c CLI) {
	for _, both := range []bool{false, true} {
		dir := t.TempDir()
		path := c.Path(t)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		server := exec.Command(self)
		server.Env = append(os.Environ(), serverIn+"="+dir, serverCLI+"="+path)
		server.Stderr = os.Stderr
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Process.Kill() }()
		world := &Rig{Work: filepath.Join(dir, "workspaces", "shared"), Data: filepath.Join(dir, "claude")}
		within(t, "the command", func() bool { return world.File("alive") != "no file" })
		if both {
			for _, pid := range running(t, world.Data) {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill()
				}
			}
		}
		if err := server.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = server.Wait()
		within(t, "everything ends", func() bool { return len(running(t, world.Data)) == 0 })
		alive := world.File("alive")
		world.pause()
		if now := world.File("alive"); now != alive {
			t.Error("the command goes on")
		}
		store, err := sqlite.Open(ctx, filepath.Join(dir, "data"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := New(t, path, dir, store, auto, later)
		list, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{})
		if err != nil || len(list) != 1 || list[0].Turn == nil {
			t.Fatalf("%+v %v", list, err)
		}
		r.goOn(t, list[0].Turn.ID, "killed")
		if got := r.File("log.txt"); got != "once\n" {
			t.Errorf("%q\n%s", got, Told(r.Log(list[0].ID)))
		}
		r.Stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// running lists the processes that have a folder in their environment.
func running(t testing.TB, dir string) (pids []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		env, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(env), dir) || strings.Contains(string(env), serverIn+"=") {
			continue
		}
		pid := 0
		for _, c := range strings.TrimSuffix(strings.TrimPrefix(file, "/proc/"), "/environ") {
			pid = 10*pid + int(c-'0')
		}
		pids = append(pids, pid)
	}
	return pids
}
