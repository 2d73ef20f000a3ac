package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

const (
	// maxGroup and maxBytes bound one transaction, so that the first of a flood is
	// told before the last has been written, and so that it fits into a message.
	maxGroup = 256
	maxBytes = 16 << 20 // a larger piece goes alone
	// maxQueue bounds what waits while the server is slow.
	maxQueue = 20_000
	// fresh is how long a commit proves that the next one would work.
	fresh = 5 * time.Second
	// settleFor bounds how long the writer asks what became of a commit before it
	// says that it does not know: longer than a restart of the server takes.
	settleFor = 2 * time.Second
	// askEvery is the pause between two attempts to find out, and the time for
	// which one failed attempt to connect answers for the next.
	askEvery = 100 * time.Millisecond
	// races is how often a group is judged again because another node was faster.
	races = 3
)

// writer is the one goroutine that appends.
type writer struct {
	config *pgx.ConnConfig
	log    *slog.Logger
	outage *rule.Outage
	wake   chan struct{} // something waits, or closed
	refuse func() error  // why nothing may be written any more, or nil

	c      *pgx.Conn // nil while there is none
	row    row       // of c
	flush  int64     // the last that c has committed
	doubts []row     // of connections whose last commit may still be on its way
	down   error     // of the last attempt to connect
	downAt time.Time

	mu     sync.Mutex
	queue  []*piece
	closed bool

	doubting atomic.Bool  // there are doubts
	goodAt   atomic.Int64 // when a commit worked, in nanoseconds of began; 0 after one that did not
	began    time.Time
	commits  atomic.Int64

	settleFor time.Duration // the constant, but for tests
}

// row is a connection's row in table writers, and its process at the server.
type row struct {
	id    string
	pid   int32
	start time.Time // tells it from another process of the same number
}

// piece is one append, or fork, that somebody waits for. One without a batch is
// a question whether commits work.
type piece struct {
	p    parley.Principal
	rows *rows
	from parley.SessionID // of a fork

	// For tests: run in the writer before the group is looked at, and before it is
	// written.
	during, between func()

	taken atomic.Bool // by the writer, or withdrawn by whoever waits; the first wins
	done  chan struct{}
	err   error
}

func (p *piece) bytes() int {
	if p.rows == nil {
		return 0
	}
	return p.rows.size
}

func newWriter(config *pgx.ConnConfig, log *slog.Logger) *writer {
	w := &writer{config: config, log: log, wake: make(chan struct{}, 1), began: time.Now(), settleFor: settleFor, outage: rule.NewOutage(log)}
	w.good()
	return w
}

func (w *writer) good() {
	w.commits.Add(1)
	w.goodAt.Store(max(1, int64(time.Since(w.began))))
}

// healthy reports whether a commit has just worked.
func (w *writer) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.goodAt.Load()
	return !w.closed && n != 0 && time.Since(w.began)-time.Duration(n) < fresh
}

// submit waits until p has been committed or refused.
func (w *writer) submit(ctx context.Context, p *piece) error {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	if err := w.refuse(); err != nil {
		return err
	}
	p.done = make(chan struct{})
	w.mu.Lock()
	full := len(w.queue) >= maxQueue
	switch {
	case w.closed:
		w.mu.Unlock()
		return rule.Closed()
	case full:
		w.mu.Unlock()
		return unavailable("the database is slower than what is to be stored", "look at the load of the database server", nil)
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

// take returns the pieces of the next group, and whether it is the last one.
func (w *writer) take() (group []*piece, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := 0
	for len(group) < maxGroup && len(w.queue) > 0 {
		p := w.queue[0]
		if bytes += p.bytes(); bytes > maxBytes && len(group) > 0 {
			break
		}
		w.queue[0] = nil
		w.queue = w.queue[1:]
		if p.taken.CompareAndSwap(false, true) {
			group = append(group, p)
		}
	}
	return group, w.closed && len(w.queue) == 0
}

func (w *writer) run() {
	defer w.leave()
	ask := time.NewTimer(0)
	defer ask.Stop()
	for {
		select {
		case <-w.wake:
		case <-ask.C: // also once at the start: the first append finds a connection
			_ = w.ready() // whoever appends next is told
		}
		for {
			group, last := w.take()
			if len(group) > 0 {
				w.commit(group)
			}
			if last {
				return
			}
			if len(group) == 0 {
				break
			}
		}
		if len(w.doubts) > 0 {
			ask.Reset(askEvery)
		}
	}
}

// leave removes our row, so that the table does not grow with every start.
func (w *writer) leave() {
	if w.c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	_, _ = w.c.Exec(ctx, `DELETE FROM writers WHERE id = $1`, w.row.id) // old rows are removed by others, too
	drop(w.c)
}

// ready makes sure that there is a connection and that no commit is in doubt.
func (w *writer) ready() error {
	if w.c != nil {
		return nil
	}
	if w.down != nil && time.Since(w.downAt) < askEvery {
		return w.down
	}
	err := w.connect()
	w.down, w.downAt = err, time.Now()
	return err
}

func (w *writer) connect() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := connect(ctx, w.config)
	if err != nil {
		return err
	}
	w.row, err = w.enlist(ctx, c)
	if err != nil {
		drop(c)
		return err
	}
	w.c, w.flush = c, 0
	w.doubts = nil
	w.doubting.Store(false)
	return nil
}

// enlist makes c's row, and removes those that are in doubt.
func (w *writer) enlist(ctx context.Context, c *pgx.Conn) (row, error) {
	for _, d := range w.doubts {
		if _, _, err := remove(ctx, c, d); err != nil {
			return row{}, err
		}
	}
	r := row{id: rand.Text()}
	b := &pgx.Batch{}
	// Those of processes that are gone.
	b.Queue(`DELETE FROM writers WHERE id IN (SELECT id FROM writers WHERE at < clock_timestamp() - interval '7 days' FOR UPDATE SKIP LOCKED)`)
	b.Queue(`INSERT INTO writers (id, flush, at) VALUES ($1, 0, clock_timestamp())`, r.id)
	b.Queue(`SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()`).QueryRow(func(q pgx.Row) error {
		return q.Scan(&r.pid, &r.start)
	})
	return r, c.SendBatch(ctx, b).Close()
}

// lose gives the connection up.
func (w *writer) lose() {
	drop(w.c)
	w.c = nil
}

// commit writes a group and tells everybody in it. When the server refuses the
// group for one of its pieces, they are tried one by one.
func (w *writer) commit(group []*piece) {
	for _, p := range group {
		if p.during != nil {
			p.during()
		}
	}
	err := w.attempt(group)
	switch {
	case err == nil:
		w.good()
		w.outage.Kept()
	case len(group) > 1 && !unknown(err) && w.c != nil:
		for _, p := range group {
			p.during = nil
			w.commit([]*piece{p})
		}
		return
	default:
		w.goodAt.Store(0)
		w.outage.Failed(err, len(group))
		for _, p := range group {
			p.err = err
		}
	}
	for _, p := range group {
		close(p.done)
	}
}

// attempt commits a group, again where that is safe and may help. A refusal goes
// to its piece; unless it is an unknownError, the error means that nothing of
// the group is in the database.
func (w *writer) attempt(group []*piece) error {
	for try := 0; ; try++ {
		if err := w.ready(); err != nil {
			return err
		}
		err := w.try(group)
		switch {
		case err == nil || unknown(err):
			return err
		case w.c == nil && try == 0: // the server was restarted since the last flush
		case raced(err) && try < races:
		default:
			return err
		}
	}
}

func (w *writer) try(group []*piece) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pl := newPlan(group)
	n := w.flush + 1
	if err := pl.look(ctx, w.c, w.row.id, n); err != nil {
		return w.undo(ctx, err)
	}
	pl.judge()
	if pl.nothing() {
		return w.undo(ctx, nil)
	}
	for _, p := range group {
		if p.between != nil {
			p.between()
		}
	}
	err := pl.write(ctx, w.c, w.row.id)
	switch {
	case err == nil:
		w.flush = n
		return nil
	case !w.c.IsClosed():
		return w.undo(ctx, err)
	}
	w.lose()
	return w.settle(n, err)
}

// undo ends a transaction that is not to be committed.
func (w *writer) undo(ctx context.Context, err error) error {
	if !w.c.IsClosed() {
		if _, back := w.c.Exec(ctx, "ROLLBACK"); back == nil {
			return err
		}
	}
	w.lose()
	return err // if everything was refused, that is true in any case
}

// settle finds out what became of flush n, whose connection was lost during the
// commit: nil when it took place, err when it did not and will not.
func (w *writer) settle(n int64, err error) error {
	until := time.Now().Add(w.settleFor)
	for {
		last, there, ask := w.ask()
		switch {
		case ask == nil && there && last == n:
			return nil
		case ask == nil && there:
			return err
		case ask == nil:
			return &unknownError{err} // somebody has removed the row
		case time.Now().After(until):
			w.doubts = append(w.doubts, w.row)
			w.doubting.Store(true)
			return &unknownError{errors.Join(err, ask)}
		}
		<-time.After(askEvery / 2)
	}
}

// ask removes the row of the connection that was lost.
func (w *writer) ask() (last int64, there bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	c, err := connect(ctx, w.config)
	if err != nil {
		return 0, false, err
	}
	defer drop(c)
	return remove(ctx, c, w.row)
}

// remove ends what the connection of a row still does, waits for that, and
// returns the last flush that the connection has committed. A commit that has
// begun comes to its end; one that has not never will.
func remove(ctx context.Context, c *pgx.Conn, r row) (last int64, there bool, err error) {
	if _, err := c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND backend_start = $2`, r.pid, r.start); err != nil {
		return 0, false, err
	}
	err = c.QueryRow(ctx, `DELETE FROM writers WHERE id = $1 RETURNING flush`, r.id).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return last, err == nil, err
}
