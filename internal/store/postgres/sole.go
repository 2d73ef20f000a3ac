package postgres

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

const (
	// driving is the advisory lock of the server that drives the sessions of a
	// database.
	driving = migrating<<8 | 1
	// soleWait is how long a start waits for the previous server to be gone: PostgreSQL
	// notices within moments that a process was killed, unless it is overloaded.
	soleWait = 5 * time.Second
)

// soleSettings are for a connection that is idle for weeks. The keepalives are for a
// machine that vanished: another may start 25 s later.
const soleSettings = `SET idle_session_timeout = 0;
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3`

// sole reserves the database for one server, by a lock that ends with its connection.
type sole struct {
	config *pgx.ConnConfig
	about  string
	log    *slog.Logger
	c      *pgx.Conn
	cancel context.CancelFunc
	done   chan struct{}
	taken  chan struct{} // closed when another server has the database
	again  chan struct{} // receives a value when the lock was taken again
}

// hold waits until the database is ours: for as long as wait, and again while the holder
// is one to await. Errors: CodeConflict when another store keeps it.
func hold(ctx context.Context, config *pgx.ConnConfig, about string, wait time.Duration, await func(holder string) bool, log *slog.Logger) (*sole, error) {
	about = shown(about)
	s := &sole{config: config, about: about, log: log, taken: make(chan struct{}), done: make(chan struct{}), again: make(chan struct{}, 1)}
	who, err := s.lock(ctx, wait)
	for err == nil && who != nil && await != nil && await(who.name) {
		who, err = s.lock(ctx, wait)
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, rule.Cancelled(ctx)
	case err != nil:
		return nil, outside(err)
	case who != nil:
		return nil, parley.Errorf(parley.CodeConflict, "the database is in use by another server: %s", who).
			WithHint("only one server can use a database: use that server, stop it, or name another database with --store")
	}
	ctx, s.cancel = context.WithCancel(context.Background())
	go s.keep(ctx)
	return s, nil
}

// shown is a name as the server stores it: at most 63 bytes of ASCII.
func shown(name string) string {
	out := []byte(name)
	for i, b := range out {
		if b < ' ' || b > '~' {
			out[i] = '?'
		}
	}
	return string(out[:min(len(out), 63)])
}

// holder is the server that has the lock.
type holder struct {
	name, from string
	since      time.Time
	pid        int32
}

func (h *holder) String() string {
	out := h.name
	if out == "" {
		out = "of another user"
	}
	if h.from != "" {
		out += " from " + h.from
	}
	return out + ", since " + h.since.UTC().Format(time.RFC3339)
}

// lock takes the lock on a new connection, or returns who held it all the time.
func (s *sole) lock(ctx context.Context, wait time.Duration) (*holder, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+dialTimeout)
	defer cancel()
	c, err := connect(ctx, s.config)
	if err != nil {
		return nil, err
	}
	err = s.lockOn(ctx, c, wait)
	if err == nil {
		s.c = c
		return nil, nil
	}
	defer drop(c)
	if state(err) != "55P03" {
		return nil, err
	}
	h := &holder{name: "which has just stopped"}
	err = c.QueryRow(ctx, `SELECT coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(a.backend_start, clock_timestamp()), l.pid
		FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid = $1 AND l.objid = $2
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, uint32(driving>>32), uint32(driving&0xffffffff)).
		Scan(&h.name, &h.from, &h.since, &h.pid)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return h, nil
}

func (s *sole) lockOn(ctx context.Context, c *pgx.Conn, wait time.Duration) error {
	if _, err := c.PgConn().Exec(ctx, soleSettings).ReadAll(); err != nil {
		return err
	}
	if _, err := c.Exec(ctx, `SELECT set_config('application_name', $1, false), set_config('lock_timeout', $2::bigint::text, false)`, s.about, max(1, wait.Milliseconds())); err != nil {
		return err
	}
	_, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(driving))
	return err
}

// keep takes the lock again when the connection was lost, until another server has it.
// Appends in between are fenced by the epochs of the sessions.
func (s *sole) keep(ctx context.Context) {
	defer close(s.done)
	defer func() {
		if s.c != nil {
			drop(s.c)
		}
	}()
	for {
		_, err := s.c.WaitForNotification(ctx) // none is expected: this returns when the connection ends
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			continue
		}
		drop(s.c)
		s.c = nil
		for s.c == nil {
			who, err := s.lock(ctx, time.Second)
			switch {
			case ctx.Err() != nil:
				return
			case err == nil && who != nil && who.name == s.about:
				// It is our own old connection, whose end the server has not noticed.
				_ = s.terminate(ctx, who.pid)
			case err == nil && who != nil && who.pid != 0:
				s.log.Error("another server uses the database now", "server", who.String())
				close(s.taken)
				return
			case s.c == nil:
				select {
				case <-time.After(askEvery):
				case <-ctx.Done():
					return
				}
			}
		}
		select {
		case s.again <- struct{}{}:
		default:
		}
	}
}

func (s *sole) terminate(ctx context.Context, pid int32) error {
	c, err := connect(ctx, s.config)
	if err != nil {
		return err
	}
	defer drop(c)
	_, err = c.Exec(ctx, `SELECT pg_terminate_backend($1)`, pid)
	return err
}

func (s *sole) close() {
	s.cancel()
	<-s.done
}

// Taken is closed when another server has taken over the database after this one lost its
// connection. Everything fails from then on. nil without Options.Sole.
func (s *Store) Taken() <-chan struct{} {
	if s.sole == nil {
		return nil
	}
	return s.sole.taken
}

// lostIt is the error of calls after another server has taken over.
func (s *sole) lostIt() error {
	if s == nil {
		return nil
	}
	select {
	case <-s.taken:
		return parley.Errorf(parley.CodeUnavailable, "another server uses this database now").
			WithHint("this server lost its connection, and the other one took over; stop one of them")
	default:
		return nil
	}
}
