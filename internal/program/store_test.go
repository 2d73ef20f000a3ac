//go:build unix

package program

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
)

// TestPostgres_killed_in_the_middle_goes_on: a server on PostgreSQL is killed in the middle of
// an answer. Another one, with a new data folder, resumes from the database.
func TestPostgres_killed_in_the_middle_goes_on(t *testing.T) {
	t.Parallel()
	dsn := strings.Replace(pgtest.Start(t), "parley@", "parley:s3cret-word@", 1)
	p := newProgram(t, "PARLEY_SCRIPTED_PACE=60ms", "PARLEY_STORE="+dsn) // it is killed long before the end
	s := p.serve()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made, _, err := s.CreateSession(ctx, parley.CreateSession{App: "chaos"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := s.Send(ctx, made.ID, parley.Send{Message: question1 + " It is not s3cret-word."})
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range s.FollowTurn(ctx, turn) {
		if err != nil {
			t.Fatal(err)
		}
		if f.Delta != nil && f.Delta.Agent == "interface" && f.Delta.N > 5 {
			break
		}
	}
	before := log(t, s.Client, made.ID)
	if code, out, errs := p.run("doctor"); code != 0 || !strings.Contains(out, "PostgreSQL 1") || !strings.Contains(out, "synchronous_commit is on") {
		t.Errorf("doctor: exit %d\n%s%s", code, out, errs)
	}
	s.kill()
	if said := s.out.String(); !strings.Contains(said, "store: postgres://parley@/") {
		t.Errorf("it does not say where logs are kept:\n%s", said)
	}
	if _, err := os.Stat(filepath.Join(p.data, "parley.db")); !os.IsNotExist(err) {
		t.Errorf("a database in the data folder: %v", err)
	}

	p.env = append(p.env, "PARLEY_DATA="+filepath.Join(p.dir, "another"), "PARLEY_SCRIPTED_PACE=0s")
	s = p.serve()
	for _, err := range s.FollowTurn(ctx, turn) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if turn, err = s.Turn(ctx, turn.ID); err != nil || turn.Status != parley.StatusCompleted || turn.Response == nil {
		t.Fatalf("after the restart: %+v, %v", turn, err)
	}
	after := log(t, s.Client, made.ID)
	if diff := cmp.Diff(before, after[:len(before)]); diff != "" {
		t.Errorf("the log has changed:\n%s", diff)
	}
	s.kill()
	// The command opens the database itself.
	if out := p.must("session", "why", string(made.ID)); !strings.Contains(out, "resumed 1 time") {
		t.Errorf("why:\n%s", out)
	}
	for what, text := range map[string]string{"the log": strings.Join(after, "\n"), "what the server said": s.out.String() + s.errs.String()} {
		if strings.Contains(text, "s3cret-word") {
			t.Errorf("%s has the password:\n%s", what, text)
		}
	}
}

// log returns a session's whole log.
func log(t *testing.T, c *client.Client, id parley.SessionID) (lines []string) {
	t.Helper()
	page, err := c.Events(t.Context(), id, 0, client.EventFilter{})
	if err != nil || page.More {
		t.Fatalf("got more %v, %v", page.More, err)
	}
	for _, e := range page.Events {
		lines = append(lines, string(e.AppendJSON(nil)))
	}
	return lines
}

func TestStore_refusals_show_no_password(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	for _, c := range []struct {
		store string
		code  int
		says  []string
	}{
		{"postgres://ana:s3cret@127.0.0.1:1/parley", exitFailed, []string{"cannot be reached", "postgres://ana@127.0.0.1:1/parley", "PostgreSQL is running"}},
		{"postgres://ana:s3cret@127.0.0.1:port/parley", exitUsage, []string{"address", "postgres://user:password@host"}},
		{"mysql://ana:s3cret@127.0.0.1/parley", exitUsage, []string{"there is no store", "postgres://"}},
		{"postgres", exitUsage, []string{`"postgres"`, "postgres://"}},
	} {
		for _, args := range [][]string{{"serve", "--addr", "127.0.0.1:0"}, {"session", "list"}, {"doctor"}} {
			code, out, errs := p.run(append(args, "--store", c.store)...)
			want := c.code
			if args[0] == "doctor" {
				errs, want = out, exitFailed
			}
			if code != want {
				t.Errorf("parley %v --store %s: exit %d, want %d\n%s%s", args, c.store, code, want, out, errs)
			}
			for _, want := range c.says {
				if !strings.Contains(errs, want) {
					t.Errorf("parley %v --store %s does not say %q:\n%s", args, c.store, want, errs)
				}
			}
			if strings.Contains(out+errs, "s3cret") {
				t.Errorf("parley %v shows the password:\n%s%s", args, out, errs)
			}
		}
	}
}
