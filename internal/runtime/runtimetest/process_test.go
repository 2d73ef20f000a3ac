//go:build unix

package runtimetest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/runtime/runtimetest"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
)

// The test binary is also the program, and a server that is killed.
const (
	programIn = "RUNTIMETEST_PROGRAM" // the folder in which the program works
	serverIn  = "RUNTIMETEST_SERVER"  // the folder in which the server works
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(programIn) != "":
		beProgram(os.Getenv(programIn))
	case os.Getenv(serverIn) != "":
		beServer(os.Getenv(serverIn))
	default:
		os.Exit(m.Run())
	}
}

// beProgram is the program. It holds the file alive open. What it does is in world.txt. The
// effect "hang" takes place and never returns; "crash" takes place and kills it.
func beProgram(dir string) {
	alive, err := os.OpenFile(filepath.Join(dir, "alive"), os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer alive.Close()
	err = runtimetest.Program(os.Stdin, os.Stdout, runtimetest.Effects{
		Add: func(what string) error {
			f, err := os.OpenFile(filepath.Join(dir, "world.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err := fmt.Fprintln(f, what); err != nil {
				return err
			}
			switch what {
			case "hang":
				fmt.Fprintln(alive, "hangs")
				select {}
			case "crash":
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return nil
		},
		Die: func() bool {
			return os.Mkdir(filepath.Join(dir, "died"), 0o700) == nil
		},
	})
	if err != io.EOF { //nolint:errorlint // that very value
		os.Exit(3)
	}
}

// processes is a runtime whose programs are processes.
func processes(dir string) (*runtimetest.CLI, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &runtimetest.CLI{Start: func(ctx context.Context, in io.Reader, out io.Writer) (<-chan struct{}, error) {
		p, err := proc.Start(ctx, proc.Spec{
			Args: []string{self}, Dir: dir, Env: proc.Env(map[string]string{programIn: dir}), Stdin: in, Stdout: out, Grace: time.Second,
		})
		if err != nil {
			return nil, err
		}
		return p.Done(), nil
	}}, nil
}

// onDisk is an engine over a database in dir.
func onDisk(t testing.TB, dir string, later time.Duration, change ...func(*parley.App)) (*enginetest.Rig, func()) {
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "data"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := processes(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := enginetest.Over(t, store, &enginetest.Service{}, enginetest.Echo, app(change...), func(o *engine.Options) {
		o.Runtimes["cli"], o.Now = c, func() time.Time { return time.Now().Add(later) }
	})
	return r, func() {
		r.Close()
		c.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}

// beServer begins a turn in which the program hangs in a write, and waits to be killed.
func beServer(dir string) {
	testing.Init()
	testing.Benchmark(func(b *testing.B) {
		r, _ := onDisk(b, dir, 0)
		r.Send(r.Session().ID, "add one; add hang; add two")
		select {}
	})
}

// folder is where programs and servers work. They hold its file alive open while they run.
func folder(t *testing.T) (dir, alive string) {
	t.Helper()
	dir = t.TempDir()
	alive = filepath.Join(dir, "alive")
	if err := syscall.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, alive
}

// drainOf reads a file until nobody writes to it.
func drainOf(fifo string) {
	if f, err := os.Open(fifo); err == nil {
		_, _ = io.Copy(io.Discard, f)
		f.Close()
	}
}

func lines(t *testing.T, dir string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, "world.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(body)), " ")
}

// TestProcess: a real program makes turns, dies in the middle of a turn and of a write, and
// leaves nothing behind.
func TestProcess(t *testing.T) {
	t.Parallel()
	dir, alive := folder(t)
	go func() {
		for range 4 { // as many programs
			drainOf(alive)
		}
	}()
	r, stop := onDisk(t, dir, 0)
	s := r.Session()
	if got := r.Await(r.Send(s.ID, "add a & look b; task add c; die; add d").ID); got.Response == nil || got.Response.Message != "done: added a, saw b, task: added c, added d" {
		t.Errorf("%s %+v %+v", got.Status, got.Response, got.Error)
	}
	turn := r.Send(s.ID, "add crash; add e")
	if got := r.Await(turn.ID); got.Status != parley.StatusWaiting {
		t.Fatalf("%s %+v", got.Status, got.Error)
	}
	answerAll(t, r, parley.ChoiceHappened)
	if got := r.Await(turn.ID); got.Response == nil || got.Response.Message != "done: unknown happened, added e" {
		t.Errorf("%s %+v %+v", got.Status, got.Response, got.Error)
	}
	if got, want := lines(t, dir), "a c d crash e"; got != want {
		t.Errorf("it did %s, want %s", got, want)
	}
	if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
		t.Error(err)
	}
	stop()
}

// TestProcess_of_a_killed_server: the program ends with the server, and what it was doing is
// not done again.
func TestProcess_of_a_killed_server(t *testing.T) {
	t.Parallel()
	dir, fifo := folder(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := exec.Command(self)
	server.Env = append(os.Environ(), serverIn+"="+dir)
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }()
	f, err := os.Open(fifo) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	alive := bufio.NewReader(f)
	if text, err := alive.ReadString('\n'); err != nil || text != "hangs\n" {
		t.Fatalf("%q, %v", text, err)
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	if rest, err := io.ReadAll(alive); err != nil || len(rest) > 0 { // it ends when nobody holds the file
		t.Fatalf("%q, %v", rest, err)
	}
	go drainOf(fifo) // the next program opens it, too
	// As far as a new owner knows, the write may be under way until its deadline.
	r, stop := onDisk(t, dir, time.Hour, auto)
	defer stop()
	done, err := r.Engine.Recover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	<-done
	sessions, err := r.Engine.Sessions(ctx, enginetest.User, seam.SessionQuery{})
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%+v, %v", sessions, err)
	}
	list, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: sessions[0].ID})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	turn := list[0].ID
	if got := r.Await(turn); got.Status == parley.StatusInterrupted {
		if _, err := r.Engine.Resume(ctx, enginetest.User, turn); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.Await(turn); got.Status != parley.StatusWaiting {
		t.Fatalf("%s %+v", got.Status, got.Error)
	}
	answerAll(t, r, parley.ChoiceHappened)
	if got := r.Await(turn); got.Response == nil || got.Response.Message != "done: added one, unknown happened, added two" {
		t.Errorf("%s %+v %+v", got.Status, got.Response, got.Error)
	}
	if got, want := lines(t, dir), "one hang two"; got != want {
		t.Errorf("it did %s, want %s", got, want)
	}
}
