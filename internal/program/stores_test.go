//go:build unix

package program_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// keepers are the stores that outlive a process, by the name that --store takes. Each test gets
// its own database.
var keepers = map[string]func(t *testing.T) string{
	"sqlite":   func(*testing.T) string { return "sqlite" },
	"postgres": func(t *testing.T) string { return pgtest.Start(t) },
}

// onStores runs a test on every store.
func onStores(t *testing.T, f func(t *testing.T, store string)) {
	t.Helper()
	for name, open := range keepers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

// on makes the program keep its logs in store.
func (p *place) on(store string) *place {
	p.store = store
	return p
}

// refused starts a server that must fail to start, and returns its exit code and output.
func (p *place) refused() (code int, errs string) {
	p.t.Helper()
	s, up := p.tryServe()
	if up {
		p.t.Error("a server came up that should be refused")
	}
	return s.cmd.ProcessState.ExitCode(), s.errs.String()
}

// elsewhere returns another data folder over the same database, as on another machine.
func (p *place) elsewhere() *place {
	q := *p
	q.dir = p.t.TempDir()
	q.data = q.dir + "/data"
	return &q
}

// TestPostgres_second_server_is_refused: a database has one server. The second server is told
// which one that is, and the first is not disturbed. As soon as the first is gone, for whatever
// reason, the second starts and has all the data.
func TestPostgres_second_server_is_refused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=60ms").on(pgtest.Start(t))
	q := p.elsewhere()
	s := p.serve()
	id := s.session("chaos")
	turn := s.send(id, spec)
	code, errs := q.refused()
	if code != 1 || !strings.Contains(errs, "in use by another server") || !strings.Contains(errs, fmt.Sprintf("process %d on ", s.cmd.Process.Pid)) || !strings.Contains(errs, "--store") {
		t.Errorf("a second server: exit %d\n%s", code, errs)
	}
	// A command would disturb it too, and is refused in the same way.
	if code, _, errs := q.run("session", "list"); code != 1 || !strings.Contains(errs, "in use by another server") {
		t.Errorf("a command beside it: exit %d\n%s", code, errs)
	}
	if end := s.settle(turn.ID); end.Status != parley.StatusCompleted || end.Attempts != 0 {
		t.Errorf("the turn of the first is %s after %d attempts", end.Status, end.Attempts)
	}
	log := s.log(id)
	for round := range 3 {
		if round%2 == 0 {
			s.kill()
		} else {
			s.stop()
		}
		p, q = q, p
		s = p.serve()
		if diff := cmp.Diff(log, s.log(id)); diff != "" {
			t.Errorf("round %d: the log has changed:\n%s", round, diff)
		}
	}
}

// stop ends the process as a service manager does.
func (s *process) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Error(err)
	}
	select {
	case <-s.done:
	case <-time.After(within):
		s.t.Error("the server did not stop")
	}
}

// TestPostgres_two_start_at_once on an empty database, many times: one creates the tables and
// serves, the other is refused, and the database is intact.
func TestPostgres_two_start_at_once(t *testing.T) {
	t.Parallel()
	for round := range 4 {
		p := newPlace(t, "PARLEY_SCRIPTED_PACE=0s").on(pgtest.Start(t))
		places := []*place{p, p.elsewhere(), p.elsewhere()}
		started, came := make([]*process, len(places)), make([]bool, len(places))
		var all sync.WaitGroup
		for i, p := range places {
			all.Go(func() { started[i], came[i] = p.tryServe() })
		}
		all.Wait()
		var up *process
		for i, s := range started {
			switch {
			case came[i] && up != nil:
				t.Errorf("round %d: two servers are up", round)
			case came[i]:
				up = s
			case !strings.Contains(s.errs.String(), "in use by another server"):
				t.Errorf("round %d: one was refused with\n%s", round, s.errs.String())
			}
		}
		if up == nil {
			t.Fatalf("round %d: none is up", round)
		}
		id := up.session("chaos")
		if end := up.settle(up.send(id, spec).ID); end.Status != parley.StatusCompleted {
			t.Errorf("round %d: the turn is %s: %+v", round, end.Status, end.Error)
		}
		up.kill()
	}
}

// TestPostgres_away_refuses_keeps_and_goes_on: PostgreSQL dies under a server with running
// turns. Commands are refused with one clear error, and the server reports that it is not
// ready. When the database is back, the server resumes by itself with everything it had
// acknowledged.
func TestPostgres_away_refuses_keeps_and_goes_on(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	p := newPlace(t, "PARLEY_SCRIPTED_PACE=3ms").on(cluster.Database(t))
	s := p.serve()
	for round := range 2 {
		var turns []parley.TurnInfo
		var ids []parley.SessionID
		for range 6 {
			ids = append(ids, s.session("chaos"))
			turns = append(turns, s.send(ids[len(ids)-1], spec))
		}
		idle := s.session("chaos")
		before := s.log(idle)
		cluster.Kill(t)
		s.until("a server that is not ready", func() bool { return s.ask("GET", "/readyz", "").status == http.StatusServiceUnavailable })
		if a := s.ask("GET", "/healthz", ""); a.status != 200 {
			t.Errorf("healthz: %s", a)
		}
		for what, a := range map[string]answer{
			"a session": s.ask("POST", "/v1/sessions", object("app", "chaos")),
			"a message": s.ask("POST", "/v1/sessions/"+string(idle)+"/turns", object("message", "hello")),
			"a log":     s.ask("GET", "/v1/sessions/"+string(idle)+"/events", ""),
		} {
			if e := problemOf(t, a); a.status != http.StatusServiceUnavailable || e.Code != parley.CodeUnavailable || e.Hint == "" || a.header.Get("Retry-After") == "" {
				t.Errorf("round %d: without a database %s is answered by %s", round, what, a)
			}
		}
		cluster.Restart(t)
		s.until("a server that is ready again", func() bool { return s.ask("GET", "/readyz", "").status == 200 })
		if diff := cmp.Diff(before, s.log(idle)); diff != "" {
			t.Errorf("round %d: a refused message is in the log:\n%s", round, diff)
		}
		for i, turn := range turns {
			end := s.settle(turn.ID)
			if end.Status != parley.StatusCompleted && (end.Status != parley.StatusFailed || end.Error.Code != parley.CodeUnavailable || end.Error.Hint == "") {
				t.Errorf("round %d: a turn is %s: %+v", round, end.Status, end.Error)
			}
			log := decode(t, s.log(ids[i]))
			if err := enginetest.CheckLog(log); err != nil {
				t.Errorf("round %d: %v\n%s", round, err, enginetest.Types(log))
			}
		}
		// It still holds the database exclusively.
		if code, errs := p.elsewhere().refused(); code != 1 || !strings.Contains(errs, "in use by another server") {
			t.Errorf("round %d: a second server after the outage: exit %d\n%s", round, code, errs)
		}
	}
	s.serves("outages of its database")
}
