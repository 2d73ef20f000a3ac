// Package sqlite keeps sessions in one SQLite file, parley.db in the data folder.
//
// [Open] creates the folder and the file if they are missing and migrates an older file.
// Only one process may have it open; the caller ensures that, by locking the folder.
//
// Every write goes through one goroutine. It takes everything that waits as one group,
// runs each piece, commits once and then answers all of them; what arrives meanwhile
// forms the next group. So one disk sync serves all waiting appends, and nobody waits for
// a timer. A refused piece does not affect the others. Reads run in parallel on a few
// connections of their own and never wait for a writer.
//
// A method that writes returns when the data is on disk (WAL, synchronous=FULL). A
// context that ends before the writer has taken the call cancels it, and it did nothing
// (CodeCancelled, CodeTimeout). Once taken, the call waits for its outcome whatever its
// context says, so no outcome is lost to cancellation. When the disk is full, read-only
// or broken, the call fails with CodeUnavailable and nothing has changed; later calls
// work again as soon as the disk does. Only if a sync itself fails and cannot be repeated
// is the outcome unknown; that error is not a [parley.Error].
//
// A folder that is removed or replaced while it is open would accept writes and lose
// them. So before each commit, and again before it is acknowledged, what is at the path
// is compared with what is open. If it differs, everything fails with CodeUnavailable
// until it is the same again; a commit in between has an unknown outcome. [Open] refuses
// a folder whose database is missing or empty although its journal or other files of a
// server are there.
//
// Blobs are rows, too: one file to back up, and a blob is there exactly when the
// transaction that put it was. A blob that no session refers to is removed
// between one and one and a half hours after it was last put.
//
// Freed pages are reused, but the file does not shrink, and deleted text can remain in
// them until then. To copy the database use VACUUM INTO; never open its files in this
// process by other means, which would drop SQLite's locks
// (https://www.sqlite.org/howtocorrupt.html, 2.2).
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// FileName is the database's file name in the data folder.
const FileName = "parley.db"

// oldestSQLite is the first version without the WAL-reset bug, by which a checkpoint that
// races with a write corrupts the file
// (https://www.sqlite.org/wal.html#the_wal_reset_bug).
const oldestSQLite = 3_051_003

// Options of Open. The zero value is ready to use.
type Options struct {
	Readers int              // connections for reading, about 4 MB each; 0 means 4
	Now     func() time.Time // for the age of blobs; nil means time.Now
	Logger  *slog.Logger     // nil means none
	// Guard is called before and after each commit, together with the check of the
	// folder's identity. If it returns an error, the folder no longer belongs to this
	// process. A caller that sets it has made the folder. Nil: not called.
	Guard func() error
	// Beside names folders in dir that only a server with a database fills.
	Beside []string
	// Still opens it for a copy: also while one into it is incomplete. Nothing is removed
	// in the background.
	Still bool
}

// Store is a seam.Store.
type Store struct {
	rule.Nodes
	path   string
	folder *datafolder.Folder
	now    func() time.Time
	log    *slog.Logger
	w      *writer
	idle   chan *conn // readers that are not in use
	slots  chan struct{}
	stop   chan struct{}
	done   sync.WaitGroup
	closed sync.Once
	err    error // of Close
}

var _ seam.Store = (*Store)(nil)

// Open opens the database in the folder dir. Errors: CodeUnavailable when the folder
// cannot be written (wrapping ErrLater if that may pass), CodeUpgradeRequired when a
// newer Parley wrote it, CodeInvalid when the database is missing but other files of a
// server are there.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	if ctx.Err() != nil {
		return nil, rule.Cancelled(ctx)
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if zombie.VersionNumber < oldestSQLite {
		return nil, parley.Errorf(parley.CodeInternal, "SQLite %s can corrupt a database", zombie.Version).WithHint("build with SQLite 3.51.3 or newer")
	}
	path, err := prepare(dir, o.Guard, o.Beside)
	if err != nil {
		return nil, err
	}
	c, err := open(path, zombie.OpenReadWrite|zombie.OpenCreate)
	if err != nil {
		return nil, outside(path, err)
	}
	if err := setUp(c, o.Still, o.Logger); err != nil {
		return nil, errors.Join(outside(path, err), c.close())
	}
	at, err := seen(dir, path, o.Guard)
	if err != nil {
		return nil, errors.Join(outside(path, err), c.close())
	}
	s := &Store{
		path: path, folder: at, now: o.Now, log: o.Logger, w: newWriter(c, at, path, o.Logger),
		idle: make(chan *conn, o.Readers), slots: make(chan struct{}, o.Readers), stop: make(chan struct{}),
	}
	for range o.Readers {
		s.slots <- struct{}{}
	}
	s.done.Go(s.w.run)
	if !o.Still {
		s.done.Go(func() { rule.Collect(s.stop, s.log, s.collect) })
	}
	return s, nil
}

func setUp(c *conn, still bool, log *slog.Logger) error {
	for _, pragma := range []string{
		// Half of the default, since an append changes a few hundred bytes in each of some
		// pages and writes them whole. A file that exists keeps the size that it has.
		"PRAGMA page_size = 2048",
		"PRAGMA journal_mode = WAL",
		"PRAGMA synchronous = FULL",
		// A checkpoint within a commit delays that commit by 3 to 10 ms. So the writer
		// makes checkpoints in pauses (rest.go); only 16 MB of log without a pause cause one
		// in a commit.
		"PRAGMA wal_autocheckpoint = 8000",
		"PRAGMA journal_size_limit = 67108864",
		"PRAGMA cache_size = -8192",
		"PRAGMA temp_store = MEMORY",
	} {
		if err := c.once(pragma); err != nil {
			return err
		}
	}
	if err := migrate(c, still, log); err != nil {
		return err
	}
	// A read-only file opens without an error.
	return c.transact(probe)
}

// Check implements seam.Store. It fails if less than [MinFree] is free. Otherwise a
// recent commit without failures since is proof enough; if there was none, it writes 64
// KiB, which detects a quota that the file system does not report.
func (s *Store) Check(ctx context.Context) error {
	if s.folder.Check() == nil {
		if err := s.room(); err != nil {
			return err
		}
		if s.w.healthy() {
			return nil
		}
	}
	return outside(s.path, s.w.submit(ctx, &piece{do: probe, proves: true}))
}

// room reports whether MinFree bytes are free, as far as the file system tells.
func (s *Store) room() error {
	free, err := Free(filepath.Dir(s.path))
	if err != nil || free >= MinFree {
		return nil // a write has to find out
	}
	return outside(s.path, fmt.Errorf("%d KiB are free: %w", free>>10, syscall.ENOSPC))
}

func probe(c *conn) error {
	return c.exec("INSERT OR REPLACE INTO probe (id, body) VALUES (1, zeroblob(65536))")
}

// Close implements seam.Store.
func (s *Store) Close() error {
	s.closed.Do(func() {
		close(s.stop)
		s.w.close()
		s.done.Wait()
		for range cap(s.slots) {
			<-s.slots // readers finish first
		}
		for {
			select {
			case c := <-s.idle:
				s.err = errors.Join(s.err, c.close())
				continue
			default:
			}
			break
		}
		// The last connection checkpoints and removes the WAL.
		s.err = errors.Join(s.err, s.w.c.close())
	})
	return s.err
}

// view runs do on a connection for reading. Each statement sees its own snapshot.
func (s *Store) view(ctx context.Context, do func(*conn) error) error {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	select {
	case <-s.stop:
		return rule.Closed()
	default:
	}
	select {
	case <-s.slots:
	case <-s.stop:
		return rule.Closed()
	case <-ctx.Done():
		return rule.Cancelled(ctx)
	}
	defer func() { s.slots <- struct{}{} }()
	if err := s.folder.Check(); err != nil {
		return err
	}
	var c *conn
	select {
	case c = <-s.idle:
	default:
		var err error
		if c, err = s.reader(); err != nil {
			return outside(s.path, err)
		}
	}
	defer func() { s.idle <- c }()
	return outside(s.path, do(c))
}

func (s *Store) reader() (*conn, error) {
	c, err := open(s.path, zombie.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	if err := c.once("PRAGMA query_only = 1"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// write runs do in the writer and returns when the result is on disk. do may run more
// than once; only its last run counts.
func (s *Store) write(ctx context.Context, do func(*conn) error) error {
	return outside(s.path, s.w.submit(ctx, &piece{do: do}))
}
