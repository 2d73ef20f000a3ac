//go:build unix

package program

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

// TestStoreCopy_killed: the command is killed after each line that it writes, run again until it
// is complete, and the sessions are the same on the other store and on the way back. A server
// that lives is not copied from.
func TestStoreCopy_killed(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.must("run", "--app", "chaos", question1)
	s, err := sqlite.Open(t.Context(), p.data, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	storetest.Fill(t, s, 2500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(p.must("session", "list", "--limit", "1", "--json"))
	events := p.must("session", "events", "last")
	dsn := pgtest.Start(t)
	from := "sqlite://" + p.data

	// kill runs the command until it has written n lines, and kills it a random moment later. It reports whether the
	// command lived for that long.
	kill := func(n int) bool {
		cmd := p.command("store", "copy", from, dsn)
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(pipe)
		for range n {
			if !lines.Scan() {
				break
			}
		}
		<-time.After(rand.N(20 * time.Millisecond)) // a process has a time of its own
		_ = cmd.Process.Signal(syscall.SIGKILL)
		return cmd.Wait() != nil && !cmd.ProcessState.Exited()
	}
	killed := 0
	for n := 1; n < 60 && kill(n); n += 4 {
		killed++
		if n > 20 {
			continue
		}
		q := *p
		q.env = append(q.env, "PARLEY_STORE="+dsn)
		if code, _, errs := q.run("session", "list"); n > 8 && (code == 0 || !strings.Contains(errs, "store copy")) {
			t.Errorf("after %d lines the incomplete copy is used: exit %d\n%s", n, code, errs)
		}
	}
	if killed < 4 {
		t.Errorf("it was killed %d times", killed)
	}
	out := p.must("store", "copy", from, dsn)
	if !strings.Contains(out, "the same on both sides") {
		t.Errorf("it says\n%s", out)
	}
	q := *p
	q.env = append(q.env, "PARLEY_STORE="+dsn)
	same := func(p *program, where string) {
		t.Helper()
		if got := strings.TrimSpace(p.must("session", "list", "--limit", "1", "--json")); got != id {
			t.Errorf("%s: the session is\n%s\nwant\n%s", where, got, id)
		}
		if got := p.must("session", "events", "last"); got != events {
			t.Errorf("%s: the events differ", where)
		}
	}
	same(&q, "in PostgreSQL")

	// Back, into another folder, while a server of the database lives and then when it is stopped.
	back := *p
	back.data = filepath.Join(p.dir, "back")
	server := q.serve()
	code, _, errs := back.run("store", "copy", dsn, "sqlite://"+back.data)
	if code == 0 || !strings.Contains(errs, "in use") {
		t.Errorf("from a server that lives: exit %d\n%s", code, errs)
	}
	server.stop(t)
	out = back.must("store", "copy", dsn, "sqlite://"+back.data)
	if !strings.Contains(out, "copy the folder archive") {
		t.Errorf("it does not say that the archive is elsewhere:\n%s", out)
	}
	back.env = append(back.env, "PARLEY_DATA="+back.data)
	same(&back, "back in SQLite")

	server = back.serve()
	code, _, errs = back.run("store", "copy", "sqlite://"+back.data, "sqlite://"+filepath.Join(p.dir, "third"))
	if code == 0 || !strings.Contains(errs, "in use by process") {
		t.Errorf("from a folder that is in use: exit %d\n%s", code, errs)
	}
	server.stop(t)
}

func TestStoreCopy_wrong_use(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"store", "copy"}, 2, "usage"},
		{[]string{"store", "copy", "mem", "sqlite://x"}, 2, "sqlite://FOLDER"},
		{[]string{"store", "copy", "sqlite://x", "sqlite://x/parley.db"}, 2, "to itself"},
		{[]string{"store", "copy", "sqlite://x", "sqlite://y"}, 1, "there is no parley.db"},
		{[]string{"store", "copy", "sqlite://x", "postgres://u:s3cret-word@127.0.0.1:1/none"}, 1, "there is no parley.db"},
		{[]string{"store", "copy", "postgres://u:s3cret-word@127.0.0.1:1/none", "sqlite://y"}, 1, "cannot be reached"},
		{[]string{"store", "move"}, 2, "no command"},
	} {
		code, out, errs := p.run(c.args...)
		if code != c.code || !strings.Contains(out+errs, c.says) || strings.Contains(out+errs, "s3cret") {
			t.Errorf("%v: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(p.dir, "x")); err == nil {
		t.Error("a source that is not there was made")
	}
}
