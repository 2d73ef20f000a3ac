package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// TestFolderThatWentAway moves the data folder of a running server away, and starts a second
// server at its path. The first acknowledges nothing, is not ready and says why, and leaves the
// second's files alone. After the folder is put back, it has everything acknowledged.
func TestFolderThatWentAway(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	first := p.serve()
	id := first.session("chaos")
	first.settle(first.send(id, spec).ID)
	log := first.log(id)
	if err := os.Rename(p.data, p.data+"-aside"); err != nil {
		t.Fatal(err)
	}
	refused := func() {
		t.Helper()
		for _, a := range []answer{
			first.ask("GET", "/readyz", ""), first.ask("POST", "/v1/sessions", object("app", "chaos")),
			first.ask("POST", "/v1/sessions/"+string(id)+"/turns", object("message", "lost?")), first.ask("GET", "/v1/sessions/"+string(id)+"/events", ""),
		} {
			if e := problemOf(t, a); a.status != 503 || e.Code != parley.CodeUnavailable || !strings.Contains(e.Message, "data folder") || e.Hint == "" {
				t.Errorf("without its folder a server answers %s", a)
			}
		}
	}
	refused()
	if a := first.ask("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %s", a)
	}
	if said := first.errs.String(); !strings.Contains(said, "data folder") || !strings.Contains(said, "put back what was at") {
		t.Errorf("the log does not say it, or what to do:\n%s", said)
	}
	second := p.serve()
	refused()
	other := second.session("chaos")
	second.settle(second.send(other, spec).ID)
	if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-first.done
	if _, err := os.Stat(filepath.Join(p.data, "parley.sock")); err != nil {
		t.Errorf("the first has taken the second's socket: %v", err)
	}
	second.settle(second.send(other, spec).ID)
	second.kill()
	if err := os.Rename(p.data, p.data+"-second"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.data+"-aside", p.data); err != nil {
		t.Fatal(err)
	}
	again := p.serve()
	if got := again.log(id); len(got) != len(log) {
		t.Errorf("got %d events, want the %d that were acknowledged", len(got), len(log))
	}
	again.serves("a folder that was put back")
	again.kill()

	// The database file is empty, but its write-ahead log is there.
	db := filepath.Join(p.data, "parley.db")
	if err := os.Truncate(db, 0); err != nil {
		t.Fatal(err)
	}
	p.refuses("an empty database", []string{"serve", "--addr", "127.0.0.1:0"}, 1, "is empty", "backup")

	// A folder that has only an archive of old steps also belongs to a server.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(db + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	p.write(filepath.Join(p.data, "archive", "S", "1-2.ndjson.gz"), "steps")
	p.refuses("an archive without its database", []string{"serve", "--addr", "127.0.0.1:0"}, 1, "is missing", "archive", "backup")
}

// TestFolderThatWentAway_under_load renames the data folder of a busy server, or its lock alone,
// and puts it back. The server does not create it again, logs the loss once, and keeps everything acknowledged.
// With a store elsewhere, turns go on, and only the files in the folder wait.
func TestFolderThatWentAway_under_load(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"sqlite", "mem"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").on(store)
			p.withDesk("http://127.0.0.1:1", "1ms")
			app := filepath.Join(p.dir, "apps", "desk-auto", "app.yaml")
			text, err := os.ReadFile(app)
			if err != nil {
				t.Fatal(err)
			}
			p.write(app, string(text)+"live_files: true\n")
			s := p.serve()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var hands sync.WaitGroup
			var rest sync.RWMutex // held while the live files catch up; a busy disk may otherwise never let them
			ids := make([]parley.SessionID, 6)
			kept := make([]atomic.Int64, len(ids)) // acknowledged turns
			for i := range ids {
				ids[i] = s.session("desk-auto")
				hands.Go(func() {
					for ctx.Err() == nil {
						rest.RLock()
						a, err := s.try(ctx, "POST", "/v1/sessions/"+string(ids[i])+"/turns", object("message", "say 20 2000", "busy", "enqueue"))
						rest.RUnlock()
						if err == nil && a.status == http.StatusAccepted {
							kept[i].Add(1)
						}
						select {
						case <-time.After(200 * time.Millisecond): // faster than the live files can be written
						case <-ctx.Done():
						}
					}
				})
			}
			at := filepath.Join(p.data, "sessions", string(ids[0]), "session.json")
			for round := range 4 {
				s.until("files of sessions", func() bool { _, err := os.Stat(at); return err == nil })
				name := p.data
				if round%2 == 1 { // somebody else could lock the folder
					name = filepath.Join(p.data, "lock")
				}
				if err := os.Rename(name, name+"-aside"); err != nil {
					t.Fatal(err)
				}
				said := fmt.Sprintf("round %d", round)
				// Without a store, no event makes the writer of the files notice. It would notice
				// within a minute.
				notices := map[string]string{"sqlite": "a write failed", "mem": "the files of sessions cannot be written"}[store]
				s.until("somebody to say it in "+said, func() bool { return strings.Count(s.errs.String(), notices) > round })
				if a := s.ask("GET", "/readyz", ""); store == "sqlite" && a.status != 503 {
					t.Errorf("%s: it is ready: %s", said, a)
				}
				if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
					t.Fatalf("%s: %s was made again: %v", said, name, err)
				}
				if err := os.Rename(name+"-aside", name); err != nil {
					t.Fatal(err)
				}
				s.until("a server that is ready", func() bool { return s.ask("GET", "/readyz", "").status == 200 })
				rest.Lock()
				s.until("the files' owner to go on", func() bool {
					said := s.errs.String()
					return strings.Count(said, "the files of sessions are written again") == strings.Count(said, "the files of sessions cannot be written")
				})
				rest.Unlock()
			}
			stop()
			hands.Wait()
			for i, id := range ids {
				n := 0
				s.until("the end of what was acknowledged", func() bool {
					info := must[parley.SessionInfo](s, "GET", "/v1/sessions/"+string(id), "")
					n = info.Totals.Turns
					return info.Turn == nil && len(info.Queue) == 0
				})
				if int64(n) < kept[i].Load() {
					t.Errorf("session %d has %d turns, and %d were acknowledged", i, n, kept[i].Load())
				}
			}
			// In each round there may be one line from the store's writer, one from the files, and
			// one for each thing that a session or text in flight waits for.
			most := 4 * (3 + 3*len(ids))
			if n := strings.Count(s.errs.String(), "the data folder was removed"); n > most {
				t.Errorf("it was said %d times, want at most %d", n, most)
			}
			if n := strings.Count(s.errs.String(), "a write failed"); n > 4*3 {
				t.Errorf("%d errors were said", n)
			}
		})
	}
}

// waits checks that a server has started without its store, and that it uses the store after free
// makes it available.
func waits(t *testing.T, s *process, says string, free func()) {
	t.Helper()
	if a := s.ask("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("healthz: %s", a)
	}
	s.refuses(says, s.ask("GET", "/readyz", ""), s.ask("POST", "/v1/sessions", object("app", "chaos")), s.ask("GET", "/v1/sessions", ""))
	free()
	s.until("a server that is ready", func() bool { return s.ask("GET", "/readyz", "").status == 200 })
	s.serves("its wait")
}

// refuses checks that answers of a server that waits say what for, and when to come again.
func (s *process) refuses(says string, answers ...answer) {
	s.t.Helper()
	for _, a := range answers {
		if e := problemOf(s.t, a); a.status != 503 || e.Code != parley.CodeUnavailable || !strings.Contains(e.Message, says) || e.Hint == "" || a.header.Get("Retry-After") == "" {
			s.t.Errorf("while it waits a server answers %s", a)
		}
	}
}

// TestStartWaitsForTheStore starts a server whose database another program holds.
func TestStartWaitsForTheStore(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
	s := p.serve()
	id := s.session("chaos")
	s.settle(s.send(id, spec).ID)
	s.kill()
	c, err := zombie.OpenConn(filepath.Join(p.data, "parley.db"), zombie.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exec := func(query string) {
		t.Helper()
		stmt, _, err := c.PrepareTransient(query)
		if err == nil {
			_, err = stmt.Step()
			_ = stmt.Finalize()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN IMMEDIATE")
	s = p.serve()
	waits(t, s, "another program", func() { exec("ROLLBACK") })
	if len(s.log(id)) == 0 {
		t.Error("the log is gone")
	}
	s.kill()
	exec("BEGIN IMMEDIATE")
	s = p.serve()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-s.done
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("stopped while it waited it ended with %d after %s", code, time.Since(began))
	}
	exec("ROLLBACK")
}

// TestStartOnAFullDisk restarts a server on a full disk, and then makes room. A disk can run
// out of bytes or of files. A server that was stopped properly must create its socket again.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]string{"of bytes": "6m", "of files": "6m,nr_inodes=60"} {
		for how, end := range map[string]os.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				disk, ok := mount(t, size)
				if !ok {
					t.Skip("only root can mount a small file system; the wait itself: TestStartWaitsForTheStore")
				}
				p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s")
				p.data = filepath.Join(disk, "data")
				s := p.serve()
				id := s.session("chaos")
				s.settle(s.send(id, spec).ID)
				log := s.log(id)
				if err := s.cmd.Process.Signal(end); err != nil {
					t.Fatal(err)
				}
				<-s.done
				ballast := filepath.Join(disk, "ballast")
				fill(t, ballast, name == "of bytes")
				s = p.serve()
				free := func() {
					if err := os.RemoveAll(ballast); err != nil {
						t.Fatal(err)
					}
				}
				switch {
				case how == "stopped":
					waits(t, s, "", free)
				case name == "of files":
					free() // the files that the server left behind are all that it needs
				default: // whether there is room in them to open the database, and for a session, depends on when it was killed
					s.refuses("", s.ask("GET", "/readyz", ""))
					made := s.ask("POST", "/v1/sessions", object("app", "chaos"))
					if made.status != http.StatusCreated {
						s.refuses("", made)
					}
					free()
					s.until("a server that is ready", func() bool { return s.ask("GET", "/readyz", "").status == 200 })
					if made.status == http.StatusCreated {
						var info parley.SessionInfo
						if err := json.Unmarshal(made.body, &info); err != nil {
							t.Fatal(err)
						}
						must[parley.SessionInfo](s, "GET", "/v1/sessions/"+string(info.ID), "")
					}
				}
				if got := s.log(id); len(got) != len(log) {
					t.Errorf("got %d events, want %d", len(got), len(log))
				}
				if list := exitOf(p.run("session", "list")); list != 0 { // it finds the server by its lock file
					t.Errorf("parley session list ends with %d", list)
				}
			})
		}
	}
}

func exitOf(code int, _, _ string) int { return code }

// fill uses up the bytes or the files of a disk.
func fill(t *testing.T, dir string, bytes bool) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil; i++ {
		var f *os.File
		if f, err = os.Create(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			break
		}
		for block := make([]byte, 4096); bytes && err == nil; {
			_, err = f.Write(block)
		}
		if cerr := f.Close(); cerr != nil {
			t.Fatal(cerr)
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
