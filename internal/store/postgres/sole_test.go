//go:build unix

package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

// alone opens a database exclusively, and hardly waits for its present owner.
func alone(t *testing.T, dsn, name string) (*postgres.Store, error) {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Alone(name, 50*time.Millisecond))
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func TestOneServerDrivesADatabase(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dsn := pgtest.Start(t)
	one, err := alone(t, dsn, "parley, process 1 on höst")
	must(t, err)
	must(t, one.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
	refused := func() {
		t.Helper()
		_, err := alone(t, dsn, "parley, process 2")
		if e := parley.Info(err); e.Code != parley.CodeConflict || !strings.Contains(e.Message, "process 1 on h") || !strings.Contains(e.Message, "since 20") || !strings.Contains(e.Hint, "--store") {
			t.Errorf("a second server: got %v, %+v", err, e)
		}
	}
	refused()
	// A store that does not ask for exclusive use can open it, and another database has another
	// owner.
	must(t, open(t, dsn).Append(ctx, ann, storetest.Words("T", 0, 1, 10)))
	_, err = alone(t, pgtest.Start(t), "parley, process 2")
	must(t, err)

	// Its connection is cut: it takes the lock again.
	must(t, one.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'parley, process 1%'`))
	must(t, one.AwaitSole())
	refused()
	must(t, one.Append(ctx, ann, storetest.Words("S", 1, 1, 10)))

	must(t, one.Close())
	two, err := alone(t, dsn, "parley, process 2")
	must(t, err)
	must(t, two.Append(ctx, ann, storetest.Words("S", 2, 1, 10)))
}

// TestAwait: a start waits while another store is about to end, until it has ended or Await
// returns false.
func TestAwait(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	one, err := alone(t, dsn, "parley run, process 1")
	must(t, err)
	asked := 0
	o := postgres.Alone("parley serve, process 2", 50*time.Millisecond)
	o.Await = func(holder string) bool {
		if asked++; holder != "parley run, process 1" {
			t.Errorf("it waits for %q", holder)
		}
		return asked < 3
	}
	if _, err := postgres.Open(t.Context(), dsn, o); parley.CodeOf(err) != parley.CodeConflict || asked != 3 {
		t.Errorf("got %v after it was asked %d times", err, asked)
	}
	o.Await = func(string) bool {
		must(t, one.Close())
		return true
	}
	two, err := postgres.Open(t.Context(), dsn, o)
	must(t, err)
	must(t, two.Close())
}

// TestTheSoleServerLosesItsConnection: a server cannot reach its database for a while.
// PostgreSQL has not noticed it, or has noticed it, or has admitted another server meanwhile.
func TestTheSoleServerLosesItsConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unnoticed bool // the database still considers the connection open
		other     bool
	}{"and comes back": {}, "and comes back unnoticed": {unnoticed: true}, "and another is there": {other: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			dsn := pgtest.Start(t)
			p := newProxy(t, dsn)
			one, err := alone(t, p.dsn, "parley, one")
			must(t, err)
			must(t, one.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
			p.refuse.Store(true)
			if c.unnoticed {
				p.each(func(l *line) { l.deaf.Store(true); l.mute.Store(true); l.client.Close() })
			} else {
				p.each(func(l *line) { l.client.Close(); l.server.Close() })
			}
			if c.other {
				two, err := postgres.Open(ctx, dsn, postgres.Options{Sole: "parley, two"})
				must(t, err)
				defer two.Close()
				epoch, err := two.Claim(ctx, ann, "S", "two")
				must(t, err)
				b := storetest.Words("S", 1, 1, 10)
				b.Epoch = epoch
				must(t, two.Append(ctx, ann, b))
				p.refuse.Store(false)
				select {
				case <-one.Taken():
				case <-time.After(30 * time.Second):
					t.Fatal("the first does not notice that another has its place")
				}
				_, err = one.Read(ctx, ann, "S", 0, 0)
				for what, err := range map[string]error{
					"append": one.Append(ctx, ann, storetest.Words("S", 2, 1, 10)), "read": err, "check": one.Check(ctx), "delete": one.Delete(ctx, ann, "S"),
				} {
					if e := parley.Info(err); e.Code != parley.CodeUnavailable || !strings.Contains(e.Message, "another server") {
						t.Errorf("%s: got %v", what, err)
					}
				}
				if n := storetest.Head(t, two, "S"); n != 2 {
					t.Errorf("got event %d, want 2", n)
				}
				return
			}
			p.refuse.Store(false)
			must(t, one.AwaitSole())
			eventually(t, func() error { return one.Check(ctx) })
			must(t, one.Append(ctx, ann, storetest.Words("S", 1, 1, 10)))
			select {
			case <-one.Taken():
				t.Error("it is told that another has its place")
			default:
			}
		})
	}
}
