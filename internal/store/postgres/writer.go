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
	// maxGroup and maxBytes limit one transaction, so that the first of a flood is
	// answered before the last is written, and so that it fits into one message.
	maxGroup = 256
	maxBytes = 16 << 20 // a larger piece is written alone
	// maxQueue limits how many pieces wait while the server is slow.
	maxQueue = 20_000
	// fresh is how long a commit counts as proof that the next one would work.
	fresh = 5 * time.Second
	// settleFor limits how long the writer tries to settle a commit before it reports an
	// unknown outcome: longer than a restart of the server takes.
	settleFor = 2 * time.Second
	// askEvery is the pause between two attempts to settle. For as long, a failed attempt
	// to connect also answers for later ones.
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

	c      *pgx.Conn // nil if not connected
	row    row       // of c
	flush  int64     // the last flush that c committed
	doubts []row     // of connections whose last commit may still be under way
	down   error     // from the last attempt to connect
	downAt time.Time

	mu     sync.Mutex
	queue  []*piece
	closed bool

	doubting atomic.Bool  // there are doubts
	goodAt   atomic.Int64 // when a commit last worked, in nanoseconds since began; 0 after a failed one
	began    time.Time
	commits  atomic.Int64

	settleFor time.Duration // the constant, except in tests
}

// row is a connection's row in the table writers, and its backend process.
type row struct {
	id    string
	pid   int32
	start time.Time // distinguishes it from another process with the same pid
}

// piece is one append or fork that a caller waits for. One without a batch asks whether
// commits work.
type piece struct {
	p    parley.Principal
	rows *rows
	from parley.SessionID // of a fork

	// For tests: called in the writer before the group is read, and before it is written.
	during, between func()

	taken atomic.Bool // set by the writer, or by a caller that gives up; the first wins
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

// healthy reports whether a commit has worked recently.
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
		return unavailable("the database is too slow for the current load", "check the load of the database server", nil)
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
		case <-ask.C: // also once at the start, so that the first append finds a connection
			_ = w.ready() // the next append gets the error
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
	_, _ = w.c.Exec(ctx, `DELETE FROM writers WHERE id = $1`, w.row.id) // other nodes also remove old rows
	drop(w.c)
}

// ready ensures that there is a connection and that no commit is in doubt.
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

// enlist makes c's row, and settles the rows in doubt by removing them.
func (w *writer) enlist(ctx context.Context, c *pgx.Conn) (row, error) {
	for _, d := range w.doubts {
		if _, _, err := remove(ctx, c, d); err != nil {
			return row{}, err
		}
	}
	r := row{id: rand.Text()}
	b := &pgx.Batch{}
	// Rows of processes that are gone.
	b.Queue(`DELETE FROM writers WHERE id IN (SELECT id FROM writers WHERE at < clock_timestamp() - interval '7 days' FOR UPDATE SKIP LOCKED)`)
	b.Queue(`INSERT INTO writers (id, flush, at) VALUES ($1, 0, clock_timestamp())`, r.id)
	b.Queue(`SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()`).QueryRow(func(q pgx.Row) error {
		return q.Scan(&r.pid, &r.start)
	})
	return r, c.SendBatch(ctx, b).Close()
}

// lose drops the connection.
func (w *writer) lose() {
	drop(w.c)
	w.c = nil
}

// commit writes a group and answers everyone in it. If the server refuses the group
// because of one piece, the pieces are tried one by one.
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

// attempt commits a group, and repeats that where it is safe and may help. A refusal goes
// to its piece. Unless the error is an unknownError, it means that nothing of the group
// is in the database.
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
	return err // if everything was refused, that holds in any case
}

// settle finds out whether flush n, whose connection was lost during the commit, took
// place: nil if it did, err if it did not and never will.
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

// ask removes the row of the lost connection.
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

// remove stops the row's old connection, waits for it, and returns the last flush that it
// committed. A commit that has begun finishes; one that has not never will.
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
