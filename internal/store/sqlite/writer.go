package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/store/rule"
)

const (
	// maxGroup limits one transaction, so that the first of a flood is answered before
	// the last is written. 256 appends per sync reach most of the possible throughput.
	maxGroup = 256
	// idleAfter is how long after a write a pause begins: longer than the gap
	// between two appends of a turn, shorter than the gap between two turns.
	idleAfter = 250 * time.Millisecond
	// fresh is how long a commit counts as proof that the next one would work.
	fresh = 5 * time.Second
)

// writer is the one goroutine that changes the database.
type writer struct {
	c    *conn
	at   *datafolder.Folder
	wal  string // path of its log
	log  *slog.Logger
	wake chan struct{} // something waits, or the writer is closed

	mu     sync.Mutex
	queue  []*piece
	closed bool

	outage  *rule.Outage
	goodAt  atomic.Int64 // when a commit worked, in nanoseconds of began; 0 after one that did not
	doubt   atomic.Bool  // a commit did not work, and no probe has worked since
	began   time.Time
	commits atomic.Int64
}

// piece is one write that a caller waits for.
type piece struct {
	do     func(*conn) error
	proves bool        // its success proves that other writes work, too
	taken  atomic.Bool // set by the writer, or by a caller that gives up; the first wins
	done   chan struct{}
	err    error
}

// unknownError means that a commit may or may not survive a crash.
type unknownError struct{ err error }

func (e *unknownError) Error() string {
	return "commit: the outcome is unknown: " + e.err.Error()
}
func (e *unknownError) Unwrap() error { return e.err }

func newWriter(c *conn, at *datafolder.Folder, path string, log *slog.Logger) *writer {
	w := &writer{c: c, at: at, wal: path + "-wal", log: log, wake: make(chan struct{}, 1), began: time.Now(), outage: rule.NewOutage(log)}
	w.good()
	return w
}

func (w *writer) good() {
	w.commits.Add(1)
	w.goodAt.Store(max(1, int64(time.Since(w.began))))
}

// healthy reports whether a commit has worked recently. After a failed one, a commit
// proves nothing: a small one may find space where others find none.
func (w *writer) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.goodAt.Load()
	return !w.closed && !w.doubt.Load() && n != 0 && time.Since(w.began)-time.Duration(n) < fresh
}

// submit waits until a piece has been committed or refused. See the package comment for
// the effect of a context that ends.
func (w *writer) submit(ctx context.Context, p *piece) error {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	p.done = make(chan struct{})
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return rule.Closed()
	}
	w.queue = append(w.queue, p)
	w.mu.Unlock()
	w.nudge()
	select {
	case <-p.done:
	case <-ctx.Done():
		if p.taken.CompareAndSwap(false, true) {
			return rule.Cancelled(ctx)
		}
		<-p.done
	}
	return p.err
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.nudge()
}

// take returns the pieces of the next group, and whether it is the last.
func (w *writer) take() (group []*piece, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(group) < maxGroup && len(w.queue) > 0 {
		p := w.queue[0]
		w.queue[0] = nil
		w.queue = w.queue[1:]
		if p.taken.CompareAndSwap(false, true) {
			group = append(group, p)
		}
	}
	return group, w.closed && len(w.queue) == 0
}

func (w *writer) run() {
	idle := time.NewTimer(time.Hour)
	defer idle.Stop()
	for {
		select {
		case <-w.wake:
		case <-idle.C:
			w.rest()
			continue
		}
		for {
			group, last := w.take()
			if len(group) > 0 {
				w.commit(group)
				// Callers that were answered may be about to write again and can share
				// the next sync. If nothing else runs, this does not wait.
				runtime.Gosched()
			}
			if last {
				return
			}
			if len(group) == 0 {
				break
			}
		}
		idle.Reset(idleAfter)
	}
}

// commit writes a group and answers everyone in it. If the disk refuses the group, its
// pieces are tried one by one: a piece too large for the remaining space must not take
// the small ones down.
func (w *writer) commit(group []*piece) {
	err := w.kept(group)
	_, unknown := errors.AsType[*unknownError](err)
	switch {
	case err == nil:
		w.good()
		w.outage.Kept()
		if slices.ContainsFunc(group, func(p *piece) bool { return p.proves }) {
			w.doubt.Store(false)
		}
	case len(group) == 1 || unknown:
		w.goodAt.Store(0)
		w.doubt.Store(true)
		w.outage.Failed(err, len(group))
		for _, p := range group {
			p.err = err
		}
	default:
		for _, p := range group {
			w.commit([]*piece{p})
		}
		return
	}
	for _, p := range group {
		close(p.done)
	}
}

// kept is try, but reports success only if the file is still at its path.
func (w *writer) kept(group []*piece) error {
	if err := w.at.Check(); err != nil {
		return err
	}
	if err := w.try(group, false); err != nil {
		return err
	}
	if err := w.at.Check(); err != nil {
		return &unknownError{errors.New(err.Error())} // which reports the finding, and does not claim that nothing was stored
	}
	return nil
}

// try runs the pieces in one transaction. A refusal goes to its piece; the returned error
// is the disk's and means that nothing of the group is in the database.
//
// A savepoint for each piece keeps a refused one from taking the others down, but copies
// every page that is changed. Refusals are rare, so a group is run with savepoints only
// after one.
func (w *writer) try(group []*piece, apart bool) error {
	// A transaction that the disk would not let us end.
	if err := w.c.rollback(); err != nil {
		return err
	}
	if err := w.c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, p := range group {
		err := p.run(w.c, apart)
		if _, refused := errors.AsType[*parley.Error](err); refused {
			if err := w.c.rollback(); err != nil || len(group) == 1 {
				return err
			}
			return w.try(group, true)
		}
		if err != nil {
			return errors.Join(err, w.c.rollback())
		}
	}
	err := w.c.exec("COMMIT")
	if err == nil {
		return nil
	}
	if back := w.c.rollback(); back != nil {
		return &unknownError{errors.Join(err, back)}
	}
	if !certain(err) && w.c.transact(probe) != nil {
		return &unknownError{err}
	}
	return err
}

// certain reports whether a failed COMMIT is surely not on disk. After a failed sync the
// frames may be there and reappear after a crash, until something else is committed over
// them.
func certain(err error) bool {
	switch code := zombie.ErrCode(err); code.ToPrimary() {
	case zombie.ResultFull, zombie.ResultReadOnly, zombie.ResultBusy, zombie.ResultLocked:
		return true
	default:
		return code == zombie.ResultIOErrWrite
	}
}

// run runs a piece. If apart is set it uses a savepoint, and a refusal is undone there
// and not returned.
func (p *piece) run(c *conn, apart bool) error {
	if !apart {
		p.err = p.do(c)
		return p.err
	}
	if err := c.exec("SAVEPOINT piece"); err != nil {
		return err
	}
	p.err = p.do(c)
	if p.err != nil {
		if _, refused := errors.AsType[*parley.Error](p.err); !refused {
			return p.err
		}
		if err := c.exec("ROLLBACK TO piece"); err != nil {
			return fmt.Errorf("undo a refused write: %w", err)
		}
	}
	return c.exec("RELEASE piece")
}
