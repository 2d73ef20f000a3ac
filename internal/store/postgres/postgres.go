// Package postgres keeps sessions in PostgreSQL, version 14 or newer, in a
// schema of its own called parley.
//
// [Open] connects, makes the schema where it is missing and brings an older one
// up to date; several may start at once. A schema that a newer Parley made is
// refused. The role needs no right but CREATE on the database, and that only
// where migrations are due. Through PgBouncer it works in session mode only.
//
// Appends and forks of a process go through one goroutine with a connection of
// its own. It takes all that waits and needs two round trips for it, however
// much that is. The first locks the sessions' rows in the order of their ids, so
// that two nodes can not lock each other out, and reads what the batches have to
// be judged by. Then each batch is accepted or refused by itself. The second
// trip writes the accepted ones, one statement for each table, rings the
// doorbell and commits. What arrives meanwhile is the next group, so one sync of
// the disk pays for all that wait for it. A row that another node inserted in
// between (a key, an outside id) undoes the transaction and the group is judged
// again. Everything else (claims, chunks, blobs, deletions, reads) runs beside
// that on a pool of connections.
//
// A method that writes returns when the server has it on its disk; this package
// turns synchronous_commit on where a server has it off. Only SaveChunks does
// not wait. A context that ends before a call has begun withdraws it
// (CodeCancelled, CodeTimeout); once begun, the call waits for its outcome.
//
// When the connection is lost, what was not committed fails with
// CodeUnavailable, or is tried once more where the server is back. If it is lost
// in the middle of a commit the writer asks a new connection what became of it,
// by its row in table writers: to remove that row waits for whatever the old
// connection still does, and bars the rest. Only when nobody can be asked within
// two seconds is the outcome unknown; that error is no [parley.Error]. Reads are
// refused from then on until it is known, so that nobody can read an answer that
// a late commit would make untrue. While the server is away calls fail within
// the time of one attempt to connect; nothing has to be done when it is back.
//
// With Options.Sole a store has the database for itself: by an advisory lock of a
// connection that does nothing else. Who comes second is refused. The lock ends
// with the process, so nothing is left behind by one that was killed. A store that
// loses that connection takes the lock again when it can; when another has it by
// then, everything fails, [Store.Taken] says so, and what was under way is fenced
// by the epochs of the sessions.
//
// The doorbell is one NOTIFY a flush on [Channel], for other nodes. It may be
// lost; the tables are the truth.
//
// Blobs are rows, too, of at most 64 MiB as everywhere. One that no session
// refers to is removed between one and one and a half hours after it was last
// put. Strings are kept as bytes: PostgreSQL's own text can hold neither U+0000
// nor what is no UTF-8, and its index entries end at 2,704 bytes; longer ids and
// keys are refused as too large.
//
// A standby that is promoted without having had everything can lose what was
// acknowledged; whether commits wait for it is the server's setting.
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

// Options of Open. The zero value is good.
type Options struct {
	Conns  int              // connections beside the writer's; 0 means 8
	Now    func() time.Time // for the age of blobs; nil means time.Now
	Logger *slog.Logger     // nil means none
	// Sole keeps the database for this store alone, and says to whoever is refused
	// who has it: at most 63 bytes, different for each process. Empty: shared.
	Sole string

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

// Open opens the database that dsn names: an address such as
// postgres://user:password@host/database, or settings as libpq has them. Errors:
// CodeInvalid when dsn can not be read, CodeUnavailable when there is no
// connection or no right to make the schema, CodeUpgradeRequired when a newer
// Parley made it, CodeConflict when another has the database for itself alone
// (Options.Sole).
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
	if err := migrate(ctx, config.ConnConfig); err != nil {
		return nil, outside(err)
	}
	var own *sole
	if o.Sole != "" {
		if own, err = hold(ctx, config.ConnConfig, o.Sole, cmp.Or(o.soleWait, soleWait), o.Logger); err != nil {
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
	s.done.Go(func() { rule.Collect(s.stop, s.log, s.collect) })
	return s, nil
}

// Check implements seam.Store. When something was committed a moment ago that is
// the answer; otherwise it commits.
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
		s.pool.Close() // waits for calls under way
		if s.sole != nil {
			s.sole.close()
		}
	})
	return nil
}

// begin reports why a call may not begin.
func (s *Store) begin(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return rule.Cancelled(ctx)
	case s.closed.Load():
		return rule.Closed()
	case s.w.doubting.Load():
		return unavailable("it is not known what the database has stored",
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

// view runs do, which reads, on a connection. It may run twice: after a restart
// of the server the pool is full of connections that lead nowhere.
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
		// pgx would give the connection up when a caller goes away.
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

// change runs do in a transaction. It may run twice, of which at most one is
// committed. The error is an unknownError when the connection was lost in the
// middle of the commit.
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

// ignore drops an error that was to be expected.
func ignore(expected bool, err error) error {
	if expected {
		return nil
	}
	return err
}
