package program_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

// exported returns the files in an export of the sessions that are also kept as live files.
func (s *process) exported(ids ...parley.SessionID) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, id := range ids {
		a := s.ask("GET", "/v1/sessions/"+string(id)+"/export", "")
		z, err := zip.NewReader(bytes.NewReader(a.body), int64(len(a.body)))
		if err != nil {
			s.t.Fatalf("the export of %s: %v", id, err)
		}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				s.t.Fatal(err)
			}
			body, err := io.ReadAll(r)
			if err != nil {
				s.t.Fatal(err)
			}
			switch name, _, _ := strings.Cut(f.Name, "/"); name {
			case "events.ndjson", "blobs": // only in an export
			case "artifacts":
				all[f.Name] = string(body)
			default:
				all["sessions/"+string(id)+"/"+f.Name] = string(body)
			}
		}
	}
	return all
}

// live returns the sessions' files in the data folder. A file may disappear during the walk.
func (p *place) live() map[string]string {
	all := map[string]string{}
	for _, top := range []string{"sessions", "artifacts"} {
		_ = filepath.WalkDir(filepath.Join(p.data, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
				return nil
			}
			name, _ := filepath.Rel(p.data, path)
			if body, err := os.ReadFile(path); err == nil {
				all[filepath.ToSlash(name)] = string(body)
			}
			return nil
		})
	}
	return all
}

// becomes waits until the live files equal those of an export of the sessions.
func (p *place) becomes(s *process, when string, ids ...parley.SessionID) {
	p.t.Helper()
	want := s.exported(ids...)
	for until := time.Now().Add(within); !cmp.Equal(want, p.live()); {
		if time.Now().After(until) {
			p.t.Fatalf("%s: the files (-export +disk):\n%s", when, cmp.Diff(want, p.live()))
		}
		<-time.After(20 * time.Millisecond)
	}
}

// term ends a server with SIGTERM.
func (s *process) term() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case <-s.done:
	case <-time.After(within):
		s.t.Fatal("the server did not stop")
	}
}

// TestHome_files: the live files equal those of an export after the story, after a stop of the
// server and after a kill. They are deleted with their session.
func TestHome_files(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, sim.StoryVoltageDip, "")
	s := p.serve()
	id := s.session("home")
	s.answered(id, flicker)
	p.becomes(s, "after a turn", id)
	s.answered(id, plan2)
	want := s.exported(id)
	if len(want) < 6 {
		t.Errorf("two turns and a plot have only %d files", len(want))
	}
	s.term()
	if diff := cmp.Diff(want, p.live()); diff != "" {
		t.Errorf("when the server has stopped, the files (-export +disk):\n%s", diff)
	}
	var meta struct {
		House  struct{ Version string } `json:"homeAssistant"`
		Counts struct{ Entities, Areas int }
	}
	raw, err := os.ReadFile(filepath.Join(p.data, "index", "meta.json"))
	if err != nil || json.Unmarshal(raw, &meta) != nil || meta.House.Version == "" || meta.Counts.Entities < 80 || meta.Counts.Areas == 0 {
		t.Errorf("index/meta.json is %s: %v", raw, err)
	}

	random := rand.New(rand.NewPCG(3, 4))
	s = p.serve()
	begun := time.Now()
	s.answered(id, flicker)
	long := int64(time.Since(begun))
	for round := range 3 {
		s.send(id, plan2)
		<-time.After(time.Duration(random.Int64N(long)))
		s.kill()
		s = p.serve()
		p.becomes(s, "killed", id)
		last := must[struct{ Turns []parley.TurnInfo }](s, "GET", "/v1/sessions/"+string(id)+"/turns", "").Turns[0]
		if end := s.settle(last.ID); end.Status != parley.StatusCompleted {
			t.Fatalf("round %d ended as %s: %+v", round, end.Status, end.Error)
		}
	}
	other := s.session("home")
	p.becomes(s, "resumed", id, other)
	if a := s.ask("DELETE", "/v1/sessions/"+string(id), ""); a.status/100 != 2 {
		t.Fatalf("delete: %s", a)
	}
	p.becomes(s, "deleted", other)
	if left, err := os.ReadDir(filepath.Join(p.data, "artifacts")); err == nil && len(left) > 0 {
		t.Errorf("artifacts of the deleted session are still there: %v", left)
	}
}

// TestHome_files_that_can_not_be_written do not stop a turn, and the owner is told.
func TestHome_files_that_can_not_be_written(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", "")
	s := p.serve()
	id := s.session("home")
	p.becomes(s, "made", id)
	_, out, _ := p.run("doctor")
	holds(t, out, "ok    files")
	// A folder takes the place of the file, because root could write to any file.
	in := filepath.Join(p.data, "sessions", string(id), "session.json")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(in, "aside"), "")
	s.answered(id, flicker)
	asked := func() string { return string(s.ask("GET", "/metrics", "").body) }
	for until := time.Now().Add(within); !strings.Contains(asked(), "parley_live_files_behind 1"); <-time.After(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the metric never says that a session is behind")
		}
	}
	_, out, _ = p.run("doctor")
	holds(t, out, "warn  files", "which tries again")
	if n := strings.Count(s.errs.String(), "cannot be written; turns go on"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
	if err := os.RemoveAll(in); err != nil {
		t.Fatal(err)
	}
	p.becomes(s, "when it can", id)
	s.term()
	if err := os.RemoveAll(filepath.Join(p.data, "sessions")); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.data, "sessions"), "a file where a folder has to be")
	_, out, _ = p.run("doctor")
	holds(t, out, "warn  files", "is not a folder")
}

// TestHome_files_are_a_setting: without the setting, the data folder has only the log.
func TestHome_files_are_a_setting(t *testing.T) {
	t.Parallel()
	p, _ := atHome(t, "", "app: {home: {live_files: false}}\n")
	s := p.serve()
	s.answered(s.session("home"), flicker)
	s.term()
	for _, name := range []string{"sessions", "artifacts", "index"} {
		if _, err := os.Stat(filepath.Join(p.data, name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	if _, out, _ := p.run("doctor"); strings.Contains(out, "of sessions can") {
		t.Errorf("doctor speaks of files:\n%s", out)
	}
}
