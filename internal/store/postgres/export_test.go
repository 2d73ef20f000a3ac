package postgres

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// DSN is the address of the database.
func (s *Store) DSN() string { return s.config.ConnString() }

// Exec runs a statement outside the store.
func (s *Store) Exec(query string, args ...any) error {
	ctx := context.Background()
	c, err := connect(ctx, s.config.ConnConfig)
	if err != nil {
		return err
	}
	defer drop(c)
	_, err = c.Exec(ctx, query, args...)
	return err
}

// Count runs a query for one number.
func (s *Store) Count(query string, args ...any) (n int64, err error) {
	err = s.view(context.Background(), func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, query, args...).Scan(&n) })
	return n, err
}

// Collect removes old blobs now.
func (s *Store) Collect(ctx context.Context) error { return s.collect(ctx) }

// Has reports whether a blob's bytes are stored.
func (s *Store) Has(d parley.Digest) (bool, error) {
	n, err := s.Count(`SELECT count(*) FROM blobs WHERE digest = $1`, []byte(d))
	return n > 0, err
}

// During runs f in the writer, before a commit.
func (s *Store) During(ctx context.Context, f func()) error {
	return outside(s.w.submit(ctx, &piece{during: f}))
}

// Hold keeps the writer from going on until release is called.
func (s *Store) Hold() (release func()) {
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.During(context.Background(), func() { close(held); <-free })
	}()
	<-held
	return func() { close(free); <-done }
}

// AwaitQueue returns once n writes are queued.
func (s *Store) AwaitQueue(n int) {
	for {
		s.w.mu.Lock()
		have := len(s.w.queue)
		s.w.mu.Unlock()
		if have >= n {
			return
		}
		runtime.Gosched()
	}
}

// Settle sets how long the writer asks for the outcome of a commit.
func (s *Store) Settle(d time.Duration) { s.w.settleFor = d }

// Commits counts the transactions that the writer has committed.
func (s *Store) Commits() int64 { return s.w.commits.Load() }

// AppendAfter is Append, but runs f after the batch is accepted and before it is written.
func (s *Store) AppendAfter(p parley.Principal, b seam.Batch, f func()) error {
	r, err := encode(b, b.Create)
	if err != nil {
		return err
	}
	return outside(s.w.submit(context.Background(), &piece{p: p, rows: r, between: sync.OnceFunc(f)}))
}

// Alone returns the options of a store that uses a database exclusively.
func Alone(name string, wait time.Duration) Options { return Options{Sole: name, soleWait: wait} }

// AwaitSole returns once the exclusive lock is taken again.
func (s *Store) AwaitSole() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-s.sole.again:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Doubting reports whether the outcome of a commit is unknown.
func (s *Store) Doubting() bool { return s.w.doubting.Load() }

// EventRows counts the rows of events.
func (s *Store) EventRows() (int, error) { return s.count(`SELECT count(*) FROM events`) }

// StepRows counts the rows of steps that still have their data.
func (s *Store) StepRows() (int, error) {
	return s.count(`SELECT count(*) FROM events WHERE type = 'model.replied' AND data IS NOT NULL`)
}

// Bytes is what the rows of all tables hold, as they are stored. It is counted from the
// rows: the size of a table also has rows that were deleted and that some transaction of
// the server may still see.
func (s *Store) Bytes() (int64, error) {
	var query string
	err := s.view(context.Background(), func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT 'SELECT (' || string_agg(format('coalesce((SELECT sum(pg_column_size(t.*)) FROM %I.%I t), 0)', n.nspname, c.relname), ' + ') || ')::bigint'
			FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'parley' AND c.relkind = 'r'`).Scan(&query)
	})
	if err != nil {
		return 0, err
	}
	return s.Count(query)
}

func (s *Store) count(query string) (n int, err error) {
	err = s.view(context.Background(), func(ctx context.Context, c *pgx.Conn) error { return c.QueryRow(ctx, query).Scan(&n) })
	return n, err
}
