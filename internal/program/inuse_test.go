package program

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
)

// TestServer_waits_for_a_command that uses the folder, and says so once. The server ends at
// once if it is stopped or another server uses the folder.
func TestServer_waits_for_a_command(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holder  string // what uses the folder
		ends    time.Duration
		stopped time.Duration
		took    time.Duration // at least this long, at most a second longer
		waits   int
		code    parley.Code
	}{
		"run":           {holder: "run", ends: 40 * time.Second, took: 40 * time.Second, waits: 1},
		"run, for long": {holder: "run", took: inUseWithin, waits: 1, code: parley.CodeConflict},
		"stopped":       {holder: "run", stopped: time.Second, took: time.Second, waits: 1, code: parley.CodeInternal},
		"serve":         {holder: "serve", code: parley.CodeConflict},
		"demo":          {holder: "demo", code: parley.CodeConflict},
		"unknown":       {holder: "", ends: time.Second, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				was, err := takeLock(dir, c.holder)
				if err != nil {
					t.Fatal(err)
				}
				defer was.release()
				if c.ends > 0 {
					time.AfterFunc(c.ends, was.release)
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if c.stopped > 0 {
					time.AfterFunc(c.stopped, stop)
				}
				began, waits := time.Now(), 0
				own, err := lockForServer(ctx, dir, "serve", func(h holder) {
					if waits++; h.PID != os.Getpid() || h.Command != c.holder {
						t.Errorf("it waits for %s", h)
					}
				})
				if took := time.Since(began); took < c.took || took > c.took+time.Second || waits != c.waits {
					t.Errorf("it took %s, and was said %d times", took, waits)
				}
				if err == nil {
					own.release()
				}
				if held, ok := errors.AsType[*errHeld](err); ok {
					err = refusedTo(dir, held)
				}
				if (err == nil) != (c.code == "") || err != nil && parley.CodeOf(err) != c.code || c.stopped > 0 && !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestServer_after_a_server_that_was_killed: the lock file still names the killed server while
// another process starts.
func TestServer_after_a_server_that_was_killed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		begins, err := takeLock(dir, "run")
		if err != nil {
			t.Fatal(err)
		}
		own := begins.h
		begins.h = holder{PID: 1, Command: "serve"}
		if err := begins.write(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(inUseEvery/2, func() { begins.h = own; _ = begins.write() })
		time.AfterFunc(time.Second, begins.release)
		got, err := lockForServer(t.Context(), dir, "serve", nil)
		if err != nil {
			t.Fatal(err)
		}
		got.release()
	})
}

// TestHeld: a lock whose file is gone, or was replaced, holds nothing.
func TestHeld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, err := takeLock(dir, "serve")
	if err != nil {
		t.Fatal(err)
	}
	defer own.release()
	if err := own.held(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(dir, lockFile)); err != nil || own.held() == nil {
		t.Errorf("removed: %v", err)
	}
	other, err := takeLock(dir, "serve")
	if err != nil {
		t.Fatal(err)
	}
	defer other.release()
	if own.held() == nil || other.held() != nil {
		t.Errorf("two servers hold one folder: %v", other.held())
	}
}

func TestEndsByName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"parley run, process 12 on here": true, "parley serve, process 12 on here": false, "parley demo, process 1 on ": false,
		"parley, process 12 on here": false, "psql": false, "": false,
	} {
		if got := endsByName(name); got != want {
			t.Errorf("%q: got %v", name, got)
		}
	}
}

// eventually waits until ok returns true.
func (p *program) eventually(what string, ok func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("it never happened: %s", what)
		}
	}
}

// TestServe_beside_a_run: a command run began without a server, and a server waits for it and
// then starts. Stopping the server ends the wait, and a second command run waits too.
func TestServe_beside_a_run(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_SCRIPTED_PACE=1h")
	run := p.command("run", "--app", "chaos", question1)
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = run.Wait() }()
	defer func() { _ = run.Process.Kill(); <-ended }()
	p.eventually("the run has the folder", func() bool {
		h, _ := holderOf(p.data)
		return h != nil && h.Command == "run"
	})

	// begin starts a command with its output in a file, so that the test can read it meanwhile.
	begin := func(args ...string) (says func() string, stop func() int) {
		t.Helper()
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		cmd := p.command(args...)
		cmd.Stdout, cmd.Stderr = f, f
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = cmd.Wait(); _ = f.Close() }()
		t.Cleanup(func() { _ = cmd.Process.Kill(); <-done })
		return func() string { b, _ := os.ReadFile(f.Name()); return string(b) }, func() int {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-done
			return cmd.ProcessState.ExitCode()
		}
	}
	says, stop := begin("serve", "--addr", "127.0.0.1:0")
	p.eventually("the server waits", func() bool { return strings.Contains(says(), "the data folder is in use") })
	if code := stop(); code != 0 || strings.Contains(says(), "listening") {
		t.Errorf("a server that is stopped while it waits: exit %d\n%s", code, says())
	}
	says, stop = begin("run", "--app", "chaos", question1)
	p.eventually("a second run waits", func() bool { return strings.Contains(says(), "waiting for process") })
	stop()

	says, stop = begin("serve", "--addr", "127.0.0.1:0")
	p.eventually("the server waits", func() bool { return strings.Contains(says(), "the data folder is in use") })
	_ = run.Process.Kill()
	p.eventually("it comes up", func() bool { return strings.Contains(says(), "listening on ") })
	if n := strings.Count(says(), "the data folder is in use"); n != 1 {
		t.Errorf("it says %d times that it waits:\n%s", n, says())
	}
	if code := stop(); code != 0 {
		t.Errorf("the server ended with %d\n%s", code, says())
	}
}
