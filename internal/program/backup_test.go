//go:build unix

package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// TestBackup_under_load: a server answers while it is backed up. What it had acknowledged before
// the command began is in the backup, and a server on the restored folder goes on with it. A
// backup that is killed leaves no file that looks like one.
func TestBackup_under_load(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	s := p.serve()
	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()

	var mu sync.Mutex
	var acked []parley.TurnInfo
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acked)
	}
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 3 {
		load.Go(func() {
			made, _, err := s.CreateSession(ctx, parley.CreateSession{App: "chaos"})
			if err != nil {
				t.Error(err)
				return
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				turn, err := s.Send(ctx, made.ID, parley.Send{Message: question1})
				if err == nil {
					turn, err = s.Await(ctx, turn.ID, time.Minute)
				}
				if err != nil || turn.Status != parley.StatusCompleted {
					t.Errorf("under load: %+v, %v", turn, err)
					return
				}
				mu.Lock()
				acked = append(acked, turn)
				mu.Unlock()
			}
		})
	}
	await := func(n int) {
		t.Helper()
		for count() < n {
			select {
			case <-ctx.Done():
				t.Fatalf("%d turns were acknowledged", count())
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	await(12)

	// Killed at different moments.
	target := filepath.Join(p.dir, "backups", "b.tar.gz")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for after := 10 * time.Millisecond; after < 2*time.Second && killed < 8; after += after / 2 {
		cmd := p.command("backup", target)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(after)
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		if cmd.ProcessState.Exited() {
			break // it was faster
		}
		killed++
		if _, err := os.Stat(target); err == nil {
			if code, _, errs := p.into("after-kill").run("restore", target); code != 0 {
				t.Fatalf("killed after %s it left a file that is no backup:\n%s", after, errs)
			}
			break
		}
	}
	if killed == 0 {
		t.Error("no backup was killed")
	}
	if err := os.RemoveAll(target); err != nil {
		t.Fatal(err)
	}

	mu.Lock()
	before := append([]parley.TurnInfo{}, acked...)
	mu.Unlock()
	out := p.must("backup", target)
	during := count()
	if !strings.Contains(out, "b.tar.gz") {
		t.Errorf("it says %q", out)
	}
	await(during + 3) // the server was not held up
	close(stop)
	load.Wait()
	if list, err := os.ReadDir(filepath.Dir(target)); err != nil || len(list) != 1 {
		t.Errorf("beside the backup there is %v, %v", list, err)
	}
	s.stop(t)

	back := p.into("restored")
	if out := back.must("restore", target); !strings.Contains(out, "restored") {
		t.Errorf("it says %q", out)
	}
	list := back.must("session", "list", "--json")
	restored := back.serve()
	for _, turn := range before {
		got, err := restored.Turn(ctx, turn.ID)
		if err != nil || got.Status != parley.StatusCompleted || got.Response.Message != turn.Response.Message {
			t.Errorf("turn %s, acknowledged before the backup: %+v, %v", turn.ID, got, err)
		}
	}
	sessions, err := restored.Sessions(ctx, client.SessionFilter{})
	if err != nil || len(sessions) != 3 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	for _, in := range sessions {
		if !strings.Contains(list, string(in.ID)) {
			t.Errorf("session list lacks %s", in.ID)
		}
		back.must("session", "export", string(in.ID))
		// A turn that ran at the moment of the backup goes on, and then a new one.
		turns, err := restored.Turns(ctx, in.ID, client.TurnFilter{})
		if err != nil || len(turns) == 0 {
			t.Fatalf("%d turns, %v", len(turns), err)
		}
		for _, turn := range turns {
			if turn, err = restored.Await(ctx, turn.ID, time.Minute); err != nil || turn.Status != parley.StatusCompleted {
				t.Errorf("a turn of the backup: %+v, %v", turn, err)
			}
		}
		turn, err := restored.Send(ctx, in.ID, parley.Send{Message: question2})
		if err == nil {
			turn, err = restored.Await(ctx, turn.ID, time.Minute)
		}
		if err != nil || turn.Status != parley.StatusCompleted {
			t.Errorf("a new turn: %+v, %v", turn, err)
		}
	}
	restored.stop(t)

	// The same without a server, into a folder; and what is refused.
	if out := back.must("backup", filepath.Dir(target)); !strings.Contains(out, "parley-20") {
		t.Errorf("it says %q", out)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"backup", target}, 1, "exists"},
		{[]string{"backup", filepath.Join(back.data, "b.tar")}, 2, "is in the data folder"},
		{[]string{"backup", filepath.Join(p.dir, "b.zip")}, 2, ".tar.gz"},
		{[]string{"backup", filepath.Join(p.dir, "no", "b.tar")}, 1, "folder that can be written"},
		{[]string{"backup"}, 2, "usage"},
		{[]string{"restore", target}, 1, "is not empty"},
		{[]string{"backup", "--store", "mem", filepath.Join(p.dir, "b.tar")}, 2, "nothing to back up"},
		{[]string{"backup", "--data", filepath.Join(p.dir, "none"), filepath.Join(p.dir, "b.tar")}, 1, "no data folder"},
	} {
		code, out, errs := back.run(c.args...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	// Both commands leave alone what they refuse.
	if _, err := os.Stat(filepath.Join(p.dir, "none")); err == nil {
		t.Error("a data folder was made")
	}
}

// into is the program with another data folder.
func (p *program) into(name string) *program {
	q := *p
	q.data = filepath.Join(p.dir, name)
	q.env = append(append([]string{}, p.env...), "PARLEY_DATA="+q.data)
	return &q
}
