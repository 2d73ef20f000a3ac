package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/parley-server/parley"
)

const (
	// dialTimeout limits one attempt to connect.
	dialTimeout = 3 * time.Second
	// patience is a little longer than the server's own statement timeout (settings,
	// below), because that one keeps the connection usable.
	patience     = 12 * time.Second
	longPatience = 65 * time.Second
	// long raises that timeout for one transaction: for 64 MiB over a slow line, and for
	// deleting very long sessions.
	long = "SET LOCAL statement_timeout = '60s'"
)

// settings of every connection. They are not startup parameters because PgBouncer refuses
// those. A node that hangs in a transaction locks the rows of its sessions for at most 5
// s. JIT costs more than it gains for statements as short as ours.
const settings = `SET search_path = parley;
SET statement_timeout = '10s';
SET lock_timeout = '3s';
SET idle_in_transaction_session_timeout = '5s';
SET default_transaction_isolation = 'read committed';
SET jit = off;
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`

func configure(dsn string, o Options) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		// The cause may contain the password and is left out.
		return nil, parley.Errorf(parley.CodeInvalid, "the database address cannot be parsed").
			WithField("store").WithHint("write it as postgres://user:password@host:5432/database, with special characters of the password percent-encoded, such as %%40 for @")
	}
	config.MaxConns = int32(min(o.Conns, 1000))
	if c := config.ConnConfig; c.ConnectTimeout == 0 || c.ConnectTimeout > dialTimeout {
		c.ConnectTimeout = dialTimeout
	}
	config.ConnConfig.RuntimeParams["application_name"] = "parley"
	config.ConnConfig.Tracer = o.tracer
	config.AfterConnect = apply
	return config, nil
}

func apply(ctx context.Context, c *pgx.Conn) error {
	_, err := c.PgConn().Exec(ctx, settings).ReadAll()
	return err
}

// connect makes a connection outside the pool.
func connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	c, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return nil, err
	}
	if err := apply(ctx, c); err != nil {
		drop(c)
		return nil, err
	}
	return c, nil
}

// drop closes a connection without waiting for the other end.
func drop(c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.Close(ctx) // nothing can be done about an error
}

// unknownError means that a commit may or may not have taken place.
type unknownError struct{ err error }

func (e *unknownError) Error() string {
	return "commit: the outcome is unknown: " + e.err.Error()
}
func (e *unknownError) Unwrap() error { return e.err }

func unknown(err error) bool {
	_, ok := errors.AsType[*unknownError](err)
	return ok
}

// state is the SQLSTATE of the server's answer, or "" if there was none.
func state(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// raced reports that another transaction was faster and that reading again is worthwhile:
// unique_violation, serialization_failure, deadlock_detected.
func raced(err error) bool {
	switch state(err) {
	case "23505", "40001", "40P01":
		return true
	}
	return false
}

func unavailable(what, hint string, err error) error {
	e := parley.Errorf(parley.CodeUnavailable, "%s", what).WithHint("%s", hint).WithRetry(time.Second)
	e.Err = err // for logs
	return e
}

// outside turns an error of PostgreSQL or of the connection into one with a code. Errors
// that leave the outcome open stay unchanged.
func outside(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*parley.Error](err); ok || unknown(err) {
		return err
	}
	const again = "; the server goes on by itself once that is done"
	code := state(err)
	switch {
	case code == "53100":
		return unavailable("there is no room left to store it", "free disk space on the database server"+again, err)
	case code == "53300":
		return unavailable("the database accepts no more connections", "raise max_connections of the database or reduce the number of its clients"+again, err)
	case code == "25006":
		return unavailable("the database is read-only", "connect to the primary server; an address may name several with target_session_attrs=read-write", err)
	case code == "55P03", code == "57014":
		return unavailable("the database took too long", "look for a transaction that holds locks, or for an overloaded server", err)
	case code == "54000":
		e := parley.Errorf(parley.CodeTooLarge, "an id, key or name is longer than the limit of 2,700 bytes")
		e.Err = err
		return e
	case code == "42501", code == "3D000", strings.HasPrefix(code, "28"):
		return unavailable("the database refuses the connection", "check the user, password and privileges, and that the database exists; Parley needs CREATE on it to make its schema", err)
	case code == "", strings.HasPrefix(code, "08"), strings.HasPrefix(code, "53"), strings.HasPrefix(code, "57P"), strings.HasPrefix(code, "40"), code == "25P03":
		if code == "" && !lost(err) {
			break
		}
		return unavailable("the database cannot be reached", "check that PostgreSQL is running and that its address is right"+again, err)
	}
	return fmt.Errorf("PostgreSQL: %w", err)
}

// lost reports whether err is a connection error, rather than one of ours or a refusal by
// the server.
func lost(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[pgx.ScanArgError](err); ok {
		return false
	}
	return !errors.Is(err, pgx.ErrNoRows)
}
