package program_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
)

// mount mounts a small file system, or reports that this process may not mount one. Root may, and
// root runs these tests where they matter.
func mount(t *testing.T, size string) (dir string, ok bool) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getuid() == 0 {
			t.Fatalf("no file system can be mounted, and root can: %v", err)
		}
		return "", false
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, true
}

// until repeats ok until it is true, and fails after a while.
func (s *process) until(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !ok(); <-tick.C {
		if time.Now().After(end) {
			s.t.Fatalf("waited for %s", what)
		}
	}
}

// TestFullDisk_refuses_keeps_and_goes_on fills a small disk by sending messages until the
// server has no room, and then makes room.
func TestFullDisk_refuses_keeps_and_goes_on(t *testing.T) {
	t.Parallel()
	disk, ok := mount(t, "4m")
	if !ok {
		t.Skip("only root can mount a small file system")
	}
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	p.withDesk("http://127.0.0.1:1", "0s")
	p.data = filepath.Join(disk, "data")
	ballast := filepath.Join(disk, "ballast")
	p.write(ballast, strings.Repeat("x", 2900<<10))
	s := p.serve()
	id := s.session("desk-manual")
	w := newWatcher("sse", id)
	ctx, stop := context.WithCancel(t.Context())
	first := s.url
	var watching sync.WaitGroup
	watching.Go(func() { w.keep(ctx, func() string { return first }) })
	defer func() { stop(); watching.Wait() }()

	// Send messages until there is no room, for a command or in the middle of a turn.
	path := "/v1/sessions/" + string(id) + "/turns"
	var told []parley.TurnInfo
	var refused answer
	for n := 0; refused.status == 0; n++ {
		a := s.ask("POST", path, object("message", fmt.Sprint("say 20 2000, letter ", n)))
		if a.status != http.StatusAccepted {
			refused = a
			break
		}
		var turn parley.TurnInfo
		if err := json.Unmarshal(a.body, &turn); err != nil {
			t.Fatal(err)
		}
		told = append(told, turn)
		for refused.status == 0 {
			turn := must[parley.TurnInfo](s, "POST", "/v1/turns/"+string(turn.ID)+"/await", `{"timeout_ms":300}`)
			if turn.Status.Ended() {
				break
			}
			// The end of the turn has no room. A command is then refused.
			if a := s.ask("POST", "/v1/sessions", object("app", "chaos")); a.status != http.StatusCreated {
				refused = a
			}
		}
	}
	e := problemOf(t, refused)
	t.Logf("after %d turns: %s", len(told), refused)
	if refused.status != http.StatusServiceUnavailable || e.Code != parley.CodeUnavailable || !strings.Contains(e.Message, "room") || e.Hint == "" || refused.header.Get("Retry-After") == "" {
		t.Errorf("a full disk is answered by %s", refused)
	}
	if len(told) < 3 {
		t.Errorf("it was full after %d turns", len(told))
	}
	// The server lives, reports that it is not ready, and shows the stored sessions.
	if a := s.ask("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %s", a)
	}
	ready := s.ask("GET", "/readyz", "")
	t.Logf("readyz: %s", ready)
	if e := problemOf(t, ready); ready.status != 503 || !strings.Contains(e.Message, "room") {
		t.Errorf("readyz: %s", ready)
	}
	chat := s.ask("POST", "/chat", object("session_id", "a", "message", spec))
	t.Logf("chat: %s", chat)
	if e := problemOf(t, chat); chat.status != 503 || e.Code != parley.CodeUnavailable {
		t.Errorf("chat: %s", chat)
	}
	code, _, errs := p.run("run", "--app", "chaos", spec)
	t.Logf("parley run: exit %d, %s", code, errs)
	if code != 1 || !strings.Contains(errs, "room") {
		t.Errorf("parley run: exit %d, %s", code, errs)
	}
	full := s.log(id)
	if err := w.has(ctx, full); err != nil {
		t.Error(err)
	}

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s.until("a server that is ready again", func() bool { return s.ask("GET", "/readyz", "").status == 200 })
	s.serves("a full disk")
	for _, turn := range told {
		end := s.settle(turn.ID)
		if end.Status != parley.StatusCompleted { // the turn waited for room
			t.Errorf("a turn is %s: %+v", end.Status, end.Error)
		}
	}
	s.settle(s.send(id, "say 1 10").ID)
	log := s.log(id)
	if diff := cmp.Diff(full, log[:len(full)]); diff != "" {
		t.Errorf("earlier data has changed:\n%s", diff)
	}
	if err := enginetest.CheckLog(decode(t, log)); err != nil {
		t.Error(err)
	}
	s.kill()
	s = p.serve()
	if diff := cmp.Diff(log, s.log(id)); diff != "" {
		t.Errorf("after a restart:\n%s", diff)
	}
	s.serves("a restart")
}

// TestReadOnlyFolder_is_refused_at_start makes a folder with sessions read-only, and later
// writable again.
func TestReadOnlyFolder_is_refused_at_start(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	p.data = filepath.Join(p.dir, "data")
	lock := func() error { return os.Chmod(p.data, 0o500) }
	unlock := func() error { return os.Chmod(p.data, 0o700) }
	if disk, ok := mount(t, "8m"); ok { // permissions do not restrict root
		p.data = filepath.Join(disk, "data")
		lock = func() error { return syscall.Mount("", disk, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") }
		unlock = func() error { return syscall.Mount("", disk, "", syscall.MS_REMOUNT, "") }
	}
	s := p.serve()
	id := s.session("chaos")
	s.settle(s.send(id, spec).ID)
	log := s.log(id)
	s.kill()
	if err := lock(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"run", "--app", "chaos", "hello"}, {"session", "list"}} {
		p.refuses("a folder that cannot be written", args, 1, "read-only", p.data)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	s = p.serve()
	if diff := cmp.Diff(log, s.log(id)); diff != "" {
		t.Errorf("the log has changed:\n%s", diff)
	}
	s.serves("a folder that could not be written")
}

// refuses checks that a command ends with the exit code and an error that contains the texts.
func (p *place) refuses(what string, args []string, want int, says ...string) {
	p.t.Helper()
	code, out, errs := p.run(args...)
	p.t.Logf("%s: parley %s: exit %d\n%s", what, args[0], code, errs)
	if code != want || out != "" || !strings.HasPrefix(errs, "parley: ") || strings.Contains(errs, "goroutine ") {
		p.t.Errorf("%s: parley %v: exit %d, want %d\n%s%s", what, args, code, want, out, errs)
	}
	for _, part := range says {
		if !strings.Contains(errs, part) {
			p.t.Errorf("%s: parley %v does not name %q:\n%s", what, args, part, errs)
		}
	}
}

// TestBrokenFolder_is_refused_and_left_alone starts on folders with wrong content. The server
// overwrites nothing in them, and once they are repaired, everything is there.
func TestBrokenFolder_is_refused_and_left_alone(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	s := p.serve()
	id := s.session("chaos")
	for range 4 { // more than one page of each kind
		s.settle(s.send(id, spec).ID)
	}
	log := s.log(id)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.done // now everything is in one file
	file := filepath.Join(p.data, "parley.db")
	sound, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	number := func(at int, n uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[at:], n)
			return b
		}
	}
	for _, c := range []struct {
		name string
		to   func(b []byte) []byte
		says []string
	}{
		{"text in place of the database", func([]byte) []byte { return []byte(strings.Repeat("hello world\n", 400)) }, []string{"not a database", "the database " + file, "backup"}},
		{"a beginning that was overwritten", func(b []byte) []byte { return append(bytes.Repeat([]byte{0xa5}, 4096), b[4096:]...) }, []string{"not a database", "the database " + file, "backup"}},
		{"half of the database", func(b []byte) []byte { return b[:len(b)/2] }, []string{"the database " + file, "backup"}},
		{"pages that were overwritten", func(b []byte) []byte {
			for i := 4096; i < len(b); i++ {
				b[i] = 0xa5
			}
			return b
		}, []string{"the database " + file, "backup"}},
		{"a newer version", number(60, 99), []string{"version 99", "newer"}}, // PRAGMA user_version
		{"another program's database", number(68, 7), []string{"another program", "folder"}},
	} {
		broken := c.to(bytes.Clone(sound))
		if err := os.WriteFile(file, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"session", "list"}} {
			p.refuses(c.name, args, 1, c.says...)
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, broken) {
			t.Errorf("%s: the file was changed: %v", c.name, err)
		}
	}
	if err := os.WriteFile(file, sound, 0o600); err != nil {
		t.Fatal(err)
	}
	s = p.serve()
	if diff := cmp.Diff(log, s.log(id)); diff != "" {
		t.Errorf("the log has changed:\n%s", diff)
	}
	s.serves("a mended folder")
	s.kill()

	p.data = filepath.Join(p.dir, "a file")
	p.write(p.data, "precious")
	for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"session", "list"}} {
		p.refuses("a data folder that is a file", args, 1, p.data+" is a file", "--data")
	}
	if b, err := os.ReadFile(p.data); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}
