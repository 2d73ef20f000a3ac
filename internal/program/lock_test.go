package program

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestLockOfADeadProcess: a program that a killed server was about to start has the server's lock
// for another moment. The next server waits for that, and not for a server that lives.
func TestLockOfADeadProcess(t *testing.T) {
	t.Parallel()
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pid  int
		free bool
	}{"dead": {dead.Process.Pid, true}, "alive": {os.Getpid(), false}, "not named": {0, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f, err := os.Create(filepath.Join(dir, lockFile))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := json.NewEncoder(f).Encode(holder{PID: c.pid, Command: "serve"}); err != nil {
				t.Fatal(err)
			}
			if err := flock(f, syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			taken := make(chan error, 1)
			go func() {
				own, err := takeLock(dir, "serve")
				if err == nil {
					own.release()
				}
				taken <- err
			}()
			if !c.free {
				if err := <-taken; !errors.As(err, new(*errHeld)) {
					t.Errorf("got %v", err)
				}
				return
			}
			select {
			case err := <-taken:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			_ = f.Close() // which releases the lock
			if err := <-taken; err != nil {
				t.Error(err)
			}
		})
	}
}
