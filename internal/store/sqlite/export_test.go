package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"strconv"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// Dir is the data folder.
func (s *Store) Dir() string { return filepath.Dir(s.path) }

// Collect removes old blobs now.
func (s *Store) Collect(ctx context.Context) error { return s.collect(ctx) }

// Has reports whether a blob's bytes are stored.
func (s *Store) Has(d parley.Digest) (there bool, err error) {
	err = s.view(context.Background(), func(c *conn) error {
		there, err = exists(c, `SELECT 1 FROM blobs JOIN bodies USING (digest) WHERE digest = ?`, string(d))
		return err
	})
	return there, err
}

// During runs f inside a write.
func (s *Store) During(ctx context.Context, f func()) error {
	return s.write(ctx, func(*conn) error { f(); return nil })
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

// Commits counts the transactions that were committed.
func (s *Store) Commits() int64 { return s.w.commits.Load() }

// LimitPages bounds the file as a full disk would; 0 lifts the bound.
func (s *Store) LimitPages(more int) error {
	return s.write(context.Background(), func(c *conn) error {
		pages := 1 << 30
		if more > 0 {
			if err := c.rows("PRAGMA page_count", func(s *zombie.Stmt) error { pages = s.ColumnInt(0) + more; return nil }); err != nil {
				return err
			}
		}
		return c.once("PRAGMA max_page_count = " + strconv.Itoa(pages))
	})
}

// Pragma returns the value of a PRAGMA on the writer's connection.
func (s *Store) Pragma(name string) (out string, err error) {
	err = s.write(context.Background(), func(c *conn) error {
		return c.rows("PRAGMA "+name, func(s *zombie.Stmt) error { out = s.ColumnText(0); return nil })
	})
	return out, err
}

// SetVersion makes the file look as if another version had written it.
func (s *Store) SetVersion(n int) error {
	return s.write(context.Background(), func(c *conn) error { return c.once("PRAGMA user_version = " + strconv.Itoa(n)) })
}

// Plans returns SQLite's query plan of every statement that was run so far.
func (s *Store) Plans() (map[string]string, error) {
	plans := map[string]string{}
	explain := func(c *conn) error {
		for query := range c.held {
			plan, _, err := c.PrepareTransient("EXPLAIN QUERY PLAN " + query)
			if err != nil {
				return err
			}
			err = step(plan, func(s *zombie.Stmt) error { plans[query] += s.ColumnText(3) + "\n"; return nil })
			if err = errors.Join(err, plan.Finalize()); err != nil {
				return err
			}
		}
		return nil
	}
	err := s.view(context.Background(), explain)
	return plans, errors.Join(err, s.write(context.Background(), explain))
}

// EventRows counts the rows of events, and of what says where they are.
func (s *Store) EventRows() (int, error) {
	return s.count(`SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM spans)`)
}

// StepRows counts the rows of steps that still have their data.
func (s *Store) StepRows() (int, error) {
	return s.count(`SELECT count(*) FROM events WHERE type = 'model.replied' AND data IS NOT NULL`)
}

// Bytes returns the size of the database, without free pages.
func (s *Store) Bytes() (int64, error) {
	n, err := s.count(`SELECT (page_count - freelist_count) * page_size FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()`)
	return int64(n), err
}

func (s *Store) count(query string) (n int, err error) {
	err = s.view(context.Background(), func(c *conn) error {
		return c.rows(query, func(s *zombie.Stmt) error { n = s.ColumnInt(0); return nil })
	})
	return n, err
}
