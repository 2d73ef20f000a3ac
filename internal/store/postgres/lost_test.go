//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

// TestLostInTheMiddleOfACommit: the connection breaks in the middle of a commit. The caller of
// Append is told whether the commit took place, if the database can be asked.
func TestLostInTheMiddleOfACommit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt   func(*line)
		refuse bool  // new connections are refused, so nothing can be asked
		want   int64 // events that are there at the end
	}{
		"answer lost":                    {hurt: func(l *line) { l.mute.Store(true) }, want: 3},
		"request lost":                   {hurt: func(l *line) { l.deaf.Store(true) }, want: 3}, // sent again
		"answer lost, nobody to ask":     {hurt: func(l *line) { l.mute.Store(true) }, refuse: true, want: 3},
		"request lost, nobody to ask":    {hurt: func(l *line) { l.deaf.Store(true) }, refuse: true, want: 2},
		"everything lost, nobody to ask": {hurt: func(l *line) { l.deaf.Store(true); l.mute.Store(true) }, refuse: true, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			p := newProxy(t, pgtest.Start(t))
			s := open(t, p.dsn)
			must(t, s.Append(ctx, ann, storetest.Words("S", 0, 1, 10)))
			must(t, s.Append(ctx, ann, storetest.Words("S", 1, 1, 10))) // so that every statement is prepared
			if !c.refuse {
				s.Settle(time.Minute) // it gets the answer, even on a busy machine
			}
			began := time.Now()
			err := s.AppendAfter(ann, storetest.Words("S", 2, 1, 10), func() {
				p.refuse.Store(c.refuse)
				p.each(c.hurt)
			})
			if took := time.Since(began); c.refuse && took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			_, known := errors.AsType[*parley.Error](err)
			if c.refuse == (err == nil) || known {
				t.Errorf("got %v, want an unknown outcome: %v", err, c.refuse)
			}
			if c.refuse {
				// Nothing is read that could still be undone.
				if _, err := s.Read(ctx, ann, "S", 0, 0); parley.CodeOf(err) != parley.CodeUnavailable {
					t.Errorf("read while in doubt: got %v, want unavailable", err)
				}
				if err := s.Check(ctx); parley.CodeOf(err) != parley.CodeUnavailable {
					t.Errorf("check while in doubt: got %v, want unavailable", err)
				}
				p.refuse.Store(false)
				eventually(t, func() error { _, err := s.Read(ctx, ann, "S", 0, 0); return err })
			}
			if n := storetest.Head(t, s, "S"); n != c.want {
				t.Errorf("got event %d, want %d", n, c.want)
			}
			must(t, s.Append(ctx, ann, storetest.Words("S", c.want, 1, 10)))
			must(t, s.Check(ctx))
		})
	}
}

// eventually waits until the store works again by itself.
func eventually(t *testing.T, ok func() error) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute) // longer than a test keeps the database down
	for {
		err := ok()
		if err == nil {
			return
		}
		if parley.CodeOf(err) != parley.CodeUnavailable || time.Now().After(deadline) {
			t.Fatalf("got %v, want to go on when the database is back", err)
		}
		<-time.After(time.Millisecond)
	}
}

// TestDatabaseAway: while PostgreSQL is away, every call quickly fails with one clear error.
// When it is back, calls work again.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cluster := pgtest.New(t)
	s := open(t, cluster.Database(t))
	must(t, s.Append(ctx, ann, storetest.Words("S", 0, 2, 10)))
	after := int64(2)
	for range 2 {
		cluster.Kill(t)
		for name, f := range map[string]func() error{
			"Append":  func() error { return s.Append(ctx, ann, storetest.Words("S", after, 1, 10)) },
			"Read":    func() error { _, err := s.Read(ctx, ann, "S", 0, 0); return err },
			"Claim":   func() error { _, err := s.Claim(ctx, ann, "S", "node"); return err },
			"Delete":  func() error { return s.Delete(ctx, ann, "S") },
			"PutBlob": func() error { _, err := s.PutBlob(ctx, ann, []byte("x")); return err },
			"Check":   func() error { return s.Check(ctx) },
		} {
			if name == "Check" { // for a moment after a commit, Check returns no error
				_ = s.Append(ctx, ann, storetest.Words("S", after, 1, 10))
			}
			began := time.Now()
			err := f()
			e, ok := errors.AsType[*parley.Error](err)
			if !ok || e.Code != parley.CodeUnavailable || e.Hint == "" || e.RetryAfter == 0 {
				t.Errorf("%s: got %v, want unavailable with a hint", name, err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s took %s to fail", name, took)
			}
		}
		_, err := postgres.Open(ctx, s.DSN(), postgres.Options{})
		if parley.CodeOf(err) != parley.CodeUnavailable {
			t.Errorf("Open: got %v, want unavailable", err)
		}
		cluster.Restart(t)
		eventually(t, func() error { return s.Check(ctx) })
		must(t, s.Append(ctx, ann, storetest.Words("S", after, 1, 10)))
		after++
		if n := storetest.Head(t, s, "S"); n != after {
			t.Errorf("got event %d, want %d", n, after)
		}
	}
	// PostgreSQL restarts while the store is idle: the next call works.
	cluster.Kill(t)
	cluster.Restart(t)
	if n := storetest.Head(t, s, "S"); n != after {
		t.Errorf("got event %d, want %d", n, after)
	}
	must(t, s.Append(ctx, ann, storetest.Words("S", after, 1, 10)))
	cluster.Kill(t)
	cluster.Restart(t)
	_, err := s.Claim(ctx, ann, "S", "node")
	must(t, err)
}
