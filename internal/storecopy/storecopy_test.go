package storecopy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/conversations"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
	"github.com/parley-server/parley/internal/storecopy"
)

var (
	ctx = context.Background()
	ann = parley.Principal{User: "ann", Org: "acme"}
)

// disk is a store that can be opened again.
type disk struct {
	kind, at string
}

func newSQLite(t testing.TB) disk   { return disk{"sqlite", t.TempDir()} }
func newPostgres(t testing.TB) disk { return disk{"postgres", pgtest.Start(t)} }

func (d disk) tryOpen(still bool) (seam.Copyable, error) {
	if d.kind == "sqlite" {
		return sqlite.Open(ctx, d.at, sqlite.Options{Still: still})
	}
	return postgres.Open(ctx, d.at, postgres.Options{Still: still})
}

// open opens the store with the tables of the app leads.
func (d disk) open(t testing.TB, still bool) seam.Copyable {
	t.Helper()
	s, err := d.tryOpen(still)
	must(t, err)
	_, err = s.Tables(ctx, "leads", conversations.Migrations)
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func talks(t testing.TB, s seam.Store) *conversations.Store {
	t.Helper()
	tables, err := s.Tables(ctx, "leads", conversations.Migrations)
	must(t, err)
	return conversations.New(tables, nil)
}

// fill puts everything into a source.
func fill(t testing.TB, d disk, n int) {
	t.Helper()
	s := d.open(t, false)
	storetest.Fill(t, s, n)
	title := "Größe 'x'"
	for range 3 {
		_, err := talks(t, s).Create(ctx, ann, conversations.Change{Title: &title, Messages: []byte(`[ {"text":"\u0000 \ud800", "n":1.0} ]`)})
		must(t, err)
	}
	must(t, s.Close())
}

func copyOnce(t testing.TB, from, to disk, o storecopy.Options) (storecopy.Result, error) {
	t.Helper()
	a, b := from.open(t, true), to.open(t, true)
	defer func() { must(t, errors.Join(a.Close(), b.Close())) }()
	return storecopy.Copy(ctx, a, b, o)
}

// equal compares two stores by their own methods.
func equal(t testing.TB, from, to disk) {
	t.Helper()
	a, b := from.open(t, false), to.open(t, false)
	defer func() { must(t, errors.Join(a.Close(), b.Close())) }()
	if d := cmp.Diff(storetest.Everything(t, a), storetest.Everything(t, b)); d != "" {
		t.Errorf("the copy differs (-source +copy):\n%s", d)
	}
	for _, list := range []func(s seam.Store) (any, error){
		func(s seam.Store) (any, error) { return s.Sealed(ctx, parley.System()) },
		func(s seam.Store) (any, error) { return s.Approvals(ctx, parley.System()) },
		func(s seam.Store) (any, error) { return s.Key(ctx, ann, "", "A-key") },
		func(s seam.Store) (any, error) { return s.Alias(ctx, ann, "notes", "A-outside") },
		func(s seam.Store) (any, error) { return s.Held(ctx, ann, "") },
		func(s seam.Store) (any, error) {
			page, _, err := talks(t, s).List(ctx, ann, conversations.Query{})
			return page, err
		},
	} {
		x, err := list(a)
		must(t, err)
		y, err := list(b)
		must(t, err)
		if d := cmp.Diff(x, y); d != "" {
			t.Error(d)
		}
	}
}

// used appends to a copy and changes its rows, as a server does that is started on it.
func used(t testing.TB, d disk) {
	t.Helper()
	s := d.open(t, false)
	defer func() { must(t, s.Close()) }()
	_, err := s.Session(ctx, parley.Principal{User: "bob", Org: "acme"}, "B-session")
	if parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("a deleted session: %v", err)
	}
	gone := storetest.Words("B-session", 0, 1, 10)
	if err := s.Append(ctx, parley.System(), gone); parley.CodeOf(err) != parley.CodeNotFound {
		t.Errorf("the id of a deleted session: %v", err)
	}
	epoch, err := s.Claim(ctx, ann, "short", "me")
	must(t, err)
	if epoch != 3 {
		t.Errorf("epoch %d", epoch)
	}
	phone := seam.RowName{Kind: seam.RowDevice, ID: "phone \x01é"}
	r, err := s.Row(ctx, ann, phone)
	must(t, err)
	v, err := s.PutRow(ctx, ann, r)
	if err != nil || v <= r.Version {
		t.Errorf("version %d after %d, %v", v, r.Version, err)
	}
	// Deleting a fork's parent and the fork leaves nothing of them, as shares came along.
	must(t, s.Delete(ctx, ann, "long"))
	must(t, s.Delete(ctx, ann, "long-fork"))
	title := "new"
	_, err = talks(t, s).Create(ctx, ann, conversations.Change{Title: &title})
	must(t, err)
}

// TestThereAndBack copies to PostgreSQL and back to SQLite, with everything that there can be.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	a, b, c := newSQLite(t), newPostgres(t), newSQLite(t)
	fill(t, a, 1500)
	var steps int
	there, err := copyOnce(t, a, b, storecopy.Options{Said: func(p storecopy.Progress) {
		if p.Done > p.Rows || p.Table == "" {
			t.Errorf("progress %+v", p)
		}
		steps++
	}})
	must(t, err)
	if there.Sessions < 10 || there.Events < 1500 || there.Before || len(there.Condensed) != 2 || steps < 20 {
		t.Errorf("got %+v, %d steps", there, steps)
	}
	equal(t, a, b)
	back, err := copyOnce(t, b, c, storecopy.Options{})
	must(t, err)
	if there.Checksum != back.Checksum {
		t.Error("the checksums differ")
	}
	equal(t, b, c)
	// A copy that is complete is only verified.
	again, err := copyOnce(t, a, b, storecopy.Options{})
	must(t, err)
	if !again.Before || again.Checksum != there.Checksum {
		t.Errorf("got %+v", again)
	}
	used(t, b)
	used(t, c)
	// Now the two differ, and the target is nobody's copy.
	if _, err := copyOnce(t, a, b, storecopy.Options{}); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("into a store that was used: %v", err)
	}
}

var errKilled = errors.New("killed")

// TestCrashAtEveryPoint stops the copy before each step, opens both stores anew, and goes on.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name     string
		from, to func(testing.TB) disk
	}{{"to_postgres", newSQLite, newPostgres}, {"to_sqlite", newPostgres, newSQLite}} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			from, to := way.from(t), way.to(t)
			fill(t, from, 1200)
			points := 0
			for {
				n, killed := 0, ""
				_, err := copyOnce(t, from, to, storecopy.Options{At: func(point string) error {
					if n++; point != "verify events" && n <= 1 && points > 0 && !strings.HasPrefix(point, "verify") {
						return nil // one step further than the last time
					}
					killed = point
					return errKilled
				}})
				if !errors.Is(err, errKilled) {
					must(t, err)
					break
				}
				if points++; points > 200 {
					t.Fatalf("it does not get beyond %q", killed)
				}
				if _, err := to.tryOpen(false); killed != "begin" && (parley.CodeOf(err) != parley.CodeConflict || !strings.Contains(parley.Info(err).Hint, "store copy")) {
					t.Fatalf("a server on the incomplete copy: %v", err)
				}
				if strings.HasPrefix(killed, "verify") {
					break
				}
			}
			if points < 15 {
				t.Errorf("it was killed at %d points only", points)
			}
			// From the verification on, at each point.
			for at := 0; ; at++ {
				n := 0
				r, err := copyOnce(t, from, to, storecopy.Options{At: func(string) error {
					if n++; n > at {
						return errKilled
					}
					return nil
				}})
				if err == nil {
					if r.Before {
						t.Error("it had been completed before")
					}
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
			}
			equal(t, from, to)
			// Killed after the end, before it could say so: the next one verifies.
			if r, err := copyOnce(t, from, to, storecopy.Options{}); err != nil || !r.Before {
				t.Errorf("got %+v, %v", r, err)
			}
		})
	}
}

// TestRefused: a target that holds something else, another copy, or a copy of a source that has
// changed, is left alone.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, other := newSQLite(t), newSQLite(t)
	fill(t, from, 20)
	fill(t, other, 30)
	refused := func(what string, from, to disk) {
		t.Helper()
		before := fmt.Sprint(contents(t, to))
		_, err := copyOnce(t, from, to, storecopy.Options{})
		if e := parley.Info(err); err == nil || e.Code != parley.CodeConflict || e.Hint == "" {
			t.Errorf("%s: got %v", what, err)
		}
		if after := fmt.Sprint(contents(t, to)); after != before {
			t.Errorf("%s: the target changed", what)
		}
	}
	refused("a target with other sessions", from, other)
	to := newPostgres(t)
	n := 0
	_, err := copyOnce(t, from, to, storecopy.Options{At: func(string) error {
		if n++; n > 5 {
			return errKilled
		}
		return nil
	}})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	refused("the target of another copy", other, to)
	refused("an incomplete copy as the source", to, newSQLite(t))
	s := from.open(t, false)
	_, err = s.Claim(ctx, ann, "A-session", "a server that ran meanwhile")
	must(t, errors.Join(err, s.Close()))
	refused("a source that has changed", from, to)
}

// contents counts the rows of a store.
func contents(t testing.TB, d disk) (out []string) {
	t.Helper()
	s := d.open(t, true)
	defer s.Close()
	tables, err := s.CopyTables(ctx)
	must(t, err)
	for _, table := range tables {
		n, err := s.CopyCount(ctx, table)
		must(t, err)
		out = append(out, fmt.Sprint(table, " ", n))
	}
	return out
}

// TestDamagedCopy: a value that is not as in the source is found, in a table and in a session.
func TestDamagedCopy(t *testing.T) {
	t.Parallel()
	from, to := newSQLite(t), newSQLite(t)
	fill(t, from, 20)
	stop := func(point string) error {
		if strings.HasPrefix(point, "verify") {
			return errKilled
		}
		return nil
	}
	if _, err := copyOnce(t, from, to, storecopy.Options{At: stop}); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	damage(t, to)
	_, err := copyOnce(t, from, to, storecopy.Options{})
	if err == nil || !strings.Contains(err.Error(), "the table events differs") {
		t.Errorf("got %v", err)
	}
	if _, err := to.tryOpen(false); parley.CodeOf(err) != parley.CodeConflict {
		t.Errorf("the damaged copy can be opened: %v", err)
	}
}

// TestMade: a target at which a server has only started is as good as empty. One that has more is refused
// and keeps what it has, and a crash between two of the rows leaves a target that the next copy takes.
func TestMade(t *testing.T) {
	t.Parallel()
	from := newSQLite(t)
	fill(t, from, 20)
	made := func(r seam.Row) bool { return string(r.Body) == `"made"` }
	put := func(to disk, kind, id, body string) {
		t.Helper()
		s := to.open(t, false)
		_, err := s.PutRow(ctx, parley.System(), seam.Row{RowName: seam.RowName{Kind: kind, User: "ann", Org: "acme", ID: id}, Body: json.RawMessage(body)})
		must(t, errors.Join(err, s.Close()))
	}
	for _, to := range []disk{newSQLite(t), newPostgres(t)} {
		put(to, seam.RowSchedule, "app:one", `"made"`)
		put(to, seam.RowSchedule, "app:two", `"made"`)
		n := 0
		if _, err := copyOnce(t, from, to, storecopy.Options{Made: made, At: func(string) error {
			if n++; n > 1 {
				return errKilled
			}
			return nil
		}}); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		put(to, seam.RowSchedule, "app:one", `"made"`) // a server starts again
		_, err := copyOnce(t, from, to, storecopy.Options{Made: made})
		must(t, err)
		equal(t, from, to)
	}
	for kind, body := range map[string]string{seam.RowSchedule: `"of a user"`, seam.RowOutbox: `"made"`} {
		to := newSQLite(t)
		put(to, seam.RowSchedule, "app:one", `"made"`)
		put(to, kind, "other", body)
		before := fmt.Sprint(contents(t, to))
		if _, err := copyOnce(t, from, to, storecopy.Options{Made: made}); parley.CodeOf(err) != parley.CodeConflict {
			t.Errorf("into a target with %s %s: %v", kind, body, err)
		}
		if after := fmt.Sprint(contents(t, to)); after != before {
			t.Errorf("with %s %s the target changed", kind, body)
		}
	}
}
