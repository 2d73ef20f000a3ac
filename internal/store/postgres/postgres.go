// Package postgres keeps sessions in PostgreSQL, version 14 or newer, in a
// schema of its own called parley.
//
// [Open] connects, creates the schema if it is missing and migrates an older one; several
// processes may start at once. A schema made by a newer Parley is refused. The role needs
// only the CREATE privilege on the database, and only when migrations are due. PgBouncer
// works in session mode only.
//
// Appends and forks of a process go through one goroutine with a connection of its own.
// It takes everything that waits as one group and needs two round trips for it. The first
// locks the sessions' rows in the order of their ids, so that two nodes cannot deadlock,
// and reads what is needed to judge the batches. Then each batch is accepted or refused
// separately. The second round trip writes the accepted ones, with one statement per
// table, notifies other nodes and commits. What arrives meanwhile forms the next group,
// so one disk sync serves everything that waits for it. If another node inserted a row in
// between (a key, an outside id), the transaction is undone and the group is judged
// again. Everything else (claims, chunks, blobs, deletions, reads) runs beside that on a
// pool of connections.
//
// A method that writes returns when the data is on the server's disk; this package turns
// synchronous_commit on if the server has it off. Only SaveChunks does not wait. A
// context that ends before a call has begun cancels it (CodeCancelled, CodeTimeout); once
// begun, the call waits for its outcome.
//
// When the connection is lost, what was not committed fails with CodeUnavailable, or is
// tried once more if the server is back. If it is lost during a commit, the writer finds
// out on a new connection whether the commit took place, by removing its row in the table
// writers: that waits for whatever the old connection is still doing and prevents
// anything further. Only if this is not possible within two seconds is the outcome
// unknown; that error is not a [parley.Error]. Reads are then refused until the outcome
// is known, because a late commit could make their results wrong. While the server is
// unavailable, calls fail within the time of one attempt to connect; they work again by
// themselves when it is back.
//
// With Options.Sole a store has the database to itself, by an advisory lock on a
// connection that does nothing else. A second store is refused. The lock ends with the
// process, so a killed process leaves nothing behind. A store that loses that connection
// takes the lock again when it can. If another store has it by then, everything fails,
// [Store.Taken] is closed, and calls under way are fenced by the sessions' epochs.
//
// Each flush sends one NOTIFY on [Channel], the doorbell, to other nodes. It may be lost;
// the tables are authoritative.
//
// Blobs are rows, too, of at most 64 MiB as everywhere. One that no session refers to is
// removed between one and one and a half hours after it was last put. Strings are stored
// as bytes, because PostgreSQL's text holds neither U+0000 nor invalid UTF-8. Its index
// entries are limited to 2,704 bytes; longer ids and keys are refused as too large.
//
// A standby that is promoted before it has received everything can lose acknowledged
// data; the server's settings decide whether commits wait for the standby.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// Options of Open. The zero value is ready to use.
type Options struct {
	Conns  int              // connections in addition to the writer's; 0 means 8
	Now    func() time.Time // for the age of blobs; nil means time.Now
	Logger *slog.Logger     // nil means none
	// Sole reserves the database for this store alone. Its value names the holder to
	// stores that are refused: at most 63 bytes, different for each process. Empty:
	// shared.
	Sole string
	// Await reports whether to go on waiting for the store that has reserved the
	// database, by the value of its Sole. It is called every 5 s. Nil: a start is refused
	// after the first 5 s.
	Await func(holder string) bool
	// Still opens it for a copy: also while one into it is incomplete. Nothing is removed
	// in the background.
	Still bool

	tracer   pgx.QueryTracer
	soleWait time.Duration // 0 means soleWait
}

// Store is a seam.Store.
type Store struct {
	rule.Nodes
	config *pgxpool.Config
	pool   *pgxpool.Pool
	now    func() time.Time
	log    *slog.Logger
	w      *writer
	sole   *sole // nil: shared
	stop   chan struct{}
	done   sync.WaitGroup
	once   sync.Once
	closed atomic.Bool
}

var _ seam.Store = (*Store)(nil)

// Open opens the database that dsn names: a URL such as
// postgres://user:password@host/database, or libpq settings. Errors: CodeInvalid when dsn
// cannot be parsed, CodeUnavailable when it cannot connect or lacks the privilege to
// create the schema, CodeUpgradeRequired when a newer Parley made the schema,
// CodeConflict when another store has reserved the database (Options.Sole).
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	if ctx.Err() != nil {
		return nil, rule.Cancelled(ctx)
	}
	if o.Conns <= 0 {
		o.Conns = 8
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	config, err := configure(dsn, o)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, config.ConnConfig, o.Still, o.Logger); err != nil {
		return nil, outside(err)
	}
	var own *sole
	if o.Sole != "" {
		if own, err = hold(ctx, config.ConnConfig, o.Sole, cmp.Or(o.soleWait, soleWait), o.Await, o.Logger); err != nil {
			return nil, err
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		if own != nil {
			own.close()
		}
		return nil, outside(err)
	}
	s := &Store{config: config, pool: pool, now: o.Now, log: o.Logger, w: newWriter(config.ConnConfig, o.Logger), sole: own, stop: make(chan struct{})}
	s.w.refuse = own.lostIt
	s.done.Go(s.w.run)
	if !o.Still {
		s.done.Go(func() { rule.Collect(s.stop, s.log, s.collect) })
	}
	return s, nil
}

// Check implements seam.Store. A commit a moment ago is proof enough; otherwise it makes
// one.
func (s *Store) Check(ctx context.Context) error {
	if s.sole.lostIt() == nil && s.w.healthy() {
		return nil
	}
	return outside(s.w.submit(ctx, &piece{}))
}

// Close implements seam.Store.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		close(s.stop)
		s.w.close()
		s.done.Wait()
		s.pool.Close() // waits for running calls
		if s.sole != nil {
			s.sole.close()
		}
	})
	return nil
}

// begin reports why no call may begin now.
func (s *Store) begin(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return rule.Cancelled(ctx)
	case s.closed.Load():
		return rule.Closed()
	case s.w.doubting.Load():
		return unavailable("it is not known whether the database stored the last change",
			"the server goes on by itself once the database can be asked", nil)
	}
	return s.sole.lostIt()
}

// acquire takes a connection out of the pool.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := s.pool.Acquire(ctx)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, rule.Cancelled(ctx)
	case s.closed.Load():
		return nil, rule.Closed()
	}
	return nil, err
}

// view runs do, which reads, on a connection. It may run do twice: after a restart of the
// server the pool is full of broken connections.
func (s *Store) view(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	try := func() (bool, error) {
		c, err := s.acquire(ctx)
		if err != nil {
			return false, err
		}
		defer c.Release()
		// pgx would close the connection when a caller cancels.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		err = do(ctx, c.Conn())
		return err != nil && c.Conn().IsClosed(), err
	}
	lost, err := try()
	if lost {
		s.pool.Reset()
		_, err = try()
	}
	return outside(err)
}

// change runs do in a transaction. It may run do twice, of which at most one is
// committed. The error is an unknownError when the connection was lost during the commit.
func (s *Store) change(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	try := func() (bool, error) {
		c, err := s.acquire(ctx)
		if err != nil {
			return false, err
		}
		defer c.Release()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longPatience)
		defer cancel()
		tx, err := c.Begin(ctx)
		if err != nil {
			return c.Conn().IsClosed(), err
		}
		if err := do(ctx, tx); err != nil {
			lost := c.Conn().IsClosed()
			return lost, errors.Join(err, ignore(lost, tx.Rollback(ctx)))
		}
		if err = tx.Commit(ctx); err != nil && c.Conn().IsClosed() {
			err = &unknownError{err}
		}
		return false, err
	}
	lost, err := try()
	if lost || raced(err) {
		s.pool.Reset()
		_, err = try()
	}
	return outside(err)
}

// ignore drops an error that was expected.
func ignore(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}
