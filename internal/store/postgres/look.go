package postgres

import (
	"context"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
)

// Address is a parsed dsn, split into what may be shown and what may not.
type Address struct {
	Shown    string // postgres://user@host:port/database
	Password string // from the dsn, a password file or the environment; "" if there is none
}

// Parse parses a dsn without connecting. Errors are CodeInvalid and contain nothing of
// the dsn.
func Parse(dsn string) (Address, error) {
	config, err := configure(dsn, Options{Conns: 1})
	if err != nil {
		return Address{}, err
	}
	c := config.ConnConfig
	u := url.URL{Scheme: "postgres", Host: c.Host, Path: "/" + c.Database}
	if c.User != "" {
		u.User = url.User(c.User)
	}
	switch {
	case strings.HasPrefix(c.Host, "/"): // a Unix socket
		u.Host, u.RawQuery = "", "host="+c.Host
	case c.Port != 5432 || strings.Contains(c.Host, ":"):
		u.Host = net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	}
	return Address{Shown: u.String(), Password: c.Password}, nil
}

// Looks is what a server reports about itself.
type Looks struct {
	Version           string // such as 17.2
	Old               bool   // before version 14
	SynchronousCommit string // the default for connections
	ReadOnly          bool   // a standby
}

// Look asks a server without changing anything. It returns the same errors as [Open].
func Look(ctx context.Context, dsn string) (Looks, error) {
	var l Looks
	config, err := configure(dsn, Options{Conns: 1})
	if err != nil {
		return l, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return l, outside(err)
	}
	defer drop(c)
	var number string
	err = c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num'),
		current_setting('synchronous_commit'), pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on'`).
		Scan(&l.Version, &number, &l.SynchronousCommit, &l.ReadOnly)
	if err != nil {
		return l, outside(err)
	}
	l.Version, _, _ = strings.Cut(l.Version, " ") // distributions append their own name
	n, err := strconv.Atoi(number)
	if err != nil {
		return l, parley.Errorf(parley.CodeInvalid, "the server reports %q, which is not a PostgreSQL version", number)
	}
	l.Old = n < 14_00_00
	return l, nil
}
