//go:build unix

package proc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/proc"
)

// patience is how long a test waits for something that must happen.
const patience = time.Minute

// TestMain is also the program that starts programs and is killed. With PROC_TEST_FIFO
// it starts two that hold the file open, reports that, and waits.
func TestMain(m *testing.M) {
	fifo := os.Getenv("PROC_TEST_FIFO")
	if fifo == "" {
		os.Exit(m.Run())
	}
	hold := func() {
		script := `exec >"$0"; sleep 1000 & ` + escapes + ` exec sleep 1000`
		if _, err := proc.Start(context.Background(), proc.Spec{Args: []string{sh, "-c", script, fifo}}); err != nil {
			panic(err)
		}
	}
	hold()
	if os.Getenv("PROC_TEST_KEEPER") != "" {
		proc.KillKeeper()
	}
	hold()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

const sh = "/bin/sh"

// escapes starts a program that says held and leaves the group, where it can be found
// elsewhere.
var escapes = map[bool]string{true: `setsid sh -c 'echo held; exec sleep 1000' &`, false: `echo held;`}[runtime.GOOS == "linux"]

func run(t *testing.T, s proc.Spec) (out, errs string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var o, e bytes.Buffer
	s.Stdout, s.Stderr = &o, &e
	p, err := proc.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Wait()
	return o.String(), e.String(), err
}

// TestStart: a program gets the given arguments, input, folder and environment, and
// returns its output and exit code.
func TestStart(t *testing.T) {
	t.Setenv("PROC_TEST_SECRET", "hunter2")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	out, errs, err := run(t, proc.Spec{
		Args: []string{sh, "-c", `echo "$0|$1|$(cat)|$(pwd)"; env >&2; exit 7`, "a b", "*"},
		Dir:  dir, Env: []string{"GIVEN=1"}, Stdin: strings.NewReader("in"), Memory: 1 << 30,
	})
	if want := "a b|*|in|" + dir + "\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
	// A shell adds variables of its own.
	if !strings.Contains(errs, "GIVEN=1\n") || strings.Contains(errs, "hunter2") || strings.Contains(errs, "HOME=") {
		t.Errorf("its environment was %q", errs)
	}
}

// TestVariables: a program gets the variables of its caller as they are.
func TestVariables(t *testing.T) {
	for _, v := range []string{"go=mine", "line=mine", "_=mine", "x=1"} {
		if out, _, err := run(t, proc.Spec{Args: []string{"/usr/bin/env"}, Env: []string{v}}); err != nil || !strings.Contains("\n"+out, "\n"+v+"\n") {
			t.Errorf("%s: got %q, %v", v, out, err)
		}
	}
}

// TestNotRun: a program that cannot be executed is told apart from one that fails, whatever
// its exit code.
func TestNotRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tool")
	if err := os.WriteFile(file, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		notRun bool
	}{
		"no interpreter":        {[]string{file}, true},
		"exit code 127":         {[]string{sh, "-c", "exit 127"}, false},
		"exit code 125":         {[]string{sh, "-c", "exit 125"}, false},
		"a signal":              {[]string{sh, "-c", "kill -KILL $$"}, false},
		"file 4 is not for it":  {[]string{sh, "-c", "echo failed >&4; exit 1"}, false},
		"nor is a copy of it":   {[]string{sh, "-c", "for f in 3 4 5 6 7 8 9; do eval \"echo failed >&$f\"; done; exit 1"}, false},
		"one of no such folder": {[]string{filepath.Join(dir, "absent", "tool")}, true},
	} {
		_, errs, err := run(t, proc.Spec{Args: c.args})
		if errors.Is(err, proc.ErrNotRun) != c.notRun || c.notRun && errs == "" {
			t.Errorf("%s: got %v, %q", name, err, errs)
		}
	}
}

func TestEnv(t *testing.T) {
	t.Setenv("PROC_TEST_SECRET", "hunter2")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TZ", "UTC")
	env := proc.Env(map[string]string{"TZ": "Europe/Paris", "MINE": "x"})
	if !slices.Contains(env, "LANG=C.UTF-8") || !slices.Contains(env, "TZ=Europe/Paris") || slices.Contains(env, "TZ=UTC") ||
		!slices.Contains(env, "MINE=x") || strings.Contains(strings.Join(env, " "), "hunter2") {
		t.Errorf("got %q", env)
	}
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := proc.Look("./tool", dir); err != nil || got != filepath.Join(dir, "tool") {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := proc.Look("sh", dir); err != nil || !filepath.IsAbs(got) {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"./plain", "./absent", "tool", "no such program"} {
		if got, err := proc.Look(name, dir); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
}

// fifo is a named pipe whose end is read when no process holds it open for writing.
type fifo struct {
	path string
	held chan struct{} // gets a value for each line written
	gone chan struct{}
}

func newFifo(t *testing.T) *fifo {
	t.Helper()
	f := &fifo{path: filepath.Join(t.TempDir(), "fifo"), held: make(chan struct{}, 10), gone: make(chan struct{})}
	if err := syscall.Mkfifo(f.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.gone)
		file, err := os.Open(f.path)
		if err != nil {
			return
		}
		defer file.Close()
		b := make([]byte, 1)
		for {
			if _, err := file.Read(b); err != nil {
				return
			}
			if b[0] == '\n' {
				f.held <- struct{}{}
			}
		}
	}()
	return f
}

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatal("timed out waiting for " + what)
	}
}

// TestNothingIsLeft: everything a program started ends with it. It makes no difference
// whether the program ends by itself or is stopped, or whether it ignores SIGTERM.
func TestNothingIsLeft(t *testing.T) {
	for name, script := range map[string]string{
		"ends":                        `exec >"$0"; sleep 1000 & echo held; exit 0`,
		"is stopped":                  `exec >"$0"; sleep 1000 & echo held; exec sleep 1000`,
		"has one that left its group": `exec >"$0"; ` + escapes + ` exec sleep 1000`,
		"has a daemon":                `exec >"$0"; (` + escapes + `) & wait; exec sleep 1000`,
		"ignores a stop":              `trap '' TERM; exec >"$0"; sleep 1000 & echo held; while :; do sleep 1000; done`,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFifo(t)
			ctx, cancel := context.WithCancel(t.Context())
			p, err := proc.Start(ctx, proc.Spec{Args: []string{sh, "-c", script, f.path}, Grace: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			await(t, f.held, "the program")
			if name != "ends" {
				cancel()
			}
			await(t, p.Done(), "its end")
			await(t, f.gone, "the end of what it started")
			if err := p.Wait(); (name == "ends") != (err == nil) || name != "ends" && !errors.Is(err, context.Canceled) {
				t.Errorf("the end: %v", err)
			}
			cancel()
		})
	}
}

// TestGrace: a program that is stopped has time to clean up.
func TestGrace(t *testing.T) {
	f := newFifo(t)
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := proc.Start(ctx, proc.Spec{
		Args:  []string{sh, "-c", `trap 'echo tidy; exit 0' TERM; echo held >"$0"; while :; do sleep 0.01; done`, f.path},
		Grace: patience, Stdout: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	await(t, f.held, "the program")
	cancel()
	if err := p.Wait(); err != nil || out.String() != "tidy\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// TestKilledWithItsParent: programs end when the process that started them is killed,
// even if the keeper was killed before.
func TestKilledWithItsParent(t *testing.T) {
	for _, keeper := range []string{"", "1"} {
		f := newFifo(t)
		parent := exec.Command(os.Args[0])
		parent.Env = append(os.Environ(), "PROC_TEST_FIFO="+f.path, "PROC_TEST_KEEPER="+keeper)
		in, err := parent.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var errs bytes.Buffer
		parent.Stderr = &errs
		if err := parent.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, f.held, "a program")
		await(t, f.held, "another program")
		_ = parent.Process.Kill()
		_ = parent.Wait()
		await(t, f.gone, "the end of both\n"+errs.String())
	}
}

// TestMemory: a program that needs more than its limit fails. One that needs less works.
func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits what a process allocates")
	}
	for _, c := range []struct {
		limit int64
		works bool
	}{{32 << 20, false}, {512 << 20, true}} {
		out, errs, err := run(t, proc.Spec{
			Args: []string{sh, "-c", `head -c 100000000 /dev/zero | tail -c 100000000 | wc -c`}, Env: []string{"PATH=" + os.Getenv("PATH")}, Memory: c.limit,
		})
		if works := strings.TrimSpace(out) == "100000000"; works != c.works {
			t.Errorf("with %d bytes: %q, %q, %v", c.limit, out, errs, err)
		}
	}
}

// TestFlood: a writer that fails does not keep a program from ending.
func TestFlood(t *testing.T) {
	p, err := proc.Start(t.Context(), proc.Spec{Args: []string{sh, "-c", `head -c 10000000 /dev/zero; echo done >&2`}, Stdout: full{}, Env: []string{"PATH=" + os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, p.Done(), "its end")
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestReadLate: output is not lost when nobody had the time to read it before the program's
// time to write was up.
func TestReadLate(t *testing.T) {
	for _, want := range []string{"", "launched\n", strings.Repeat("x", 60_000)} {
		var out bytes.Buffer
		if proc.ReadLate(t, want, &out); out.String() != want {
			t.Errorf("%d bytes of %d were read", out.Len(), len(want))
		}
	}
}

// TestMany: many programs at once leave no file open in this process.
func TestMany(t *testing.T) {
	const n = 100
	one := func() (string, error) {
		var out bytes.Buffer
		p, err := proc.Start(t.Context(), proc.Spec{Args: []string{sh, "-c", "read -r x; echo $x"}, Stdin: strings.NewReader("y\n"), Stdout: &out})
		if err != nil {
			return "", err
		}
		err = p.Wait()
		return out.String(), err
	}
	if _, err := one(); err != nil { // the keeper runs from now on
		t.Fatal(err)
	}
	before := files(t)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if out, err := one(); err != nil || out != "y\n" {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
	wg.Wait()
	if after := files(t); after > before {
		t.Errorf("%d files are open, there were %d", after, before)
	}
}

func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestDoesNotStart: a program that cannot run is an error, and leaves nothing behind.
func TestDoesNotStart(t *testing.T) {
	if _, err := proc.Start(t.Context(), proc.Spec{Args: []string{sh}, Dir: filepath.Join(t.TempDir(), "absent")}); err == nil {
		t.Error("it ran in a missing folder")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := proc.Start(ctx, proc.Spec{Args: []string{sh}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestInput_is_there_before_the_program: what fits into a pipe does not depend on this process any
// more when the program begins. The rest follows.
func TestInput_is_there_before_the_program(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 4096, 16 << 10} {
		in := bytes.Repeat([]byte("x"), size)
		got, all, err := proc.Before(bytes.NewReader(in))
		if err != nil || !all || !bytes.Equal(got, in) {
			t.Errorf("%d bytes: %d are there, all: %v, %v", size, len(got), all, err)
		}
	}
	in := make([]byte, 3<<20)
	for i := range in {
		in[i] = byte('a' + i%23)
	}
	if got, all, err := proc.Before(bytes.NewReader(in)); err != nil || all || len(got) == 0 || !bytes.HasPrefix(in, got) {
		t.Errorf("more than a pipe takes: %d bytes are there, all: %v, %v", len(got), all, err)
	}
	out, errs, err := run(t, proc.Spec{Args: []string{sh, "-c", "cat"}, Stdin: bytes.NewReader(in)})
	if err != nil || out != string(in) {
		t.Errorf("%d of %d bytes come through, %v %s", len(out), len(in), err, errs)
	}
}
