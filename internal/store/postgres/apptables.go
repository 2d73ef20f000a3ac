package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// appTables are the tables of one app, in a schema of its own.
type appTables struct {
	s      *Store
	app    string
	schema string // quoted
}

func schemaOf(app string) string { return pgx.Identifier{"parley_" + app}.Sanitize() }

// Tables implements seam.Store.
func (s *Store) Tables(ctx context.Context, app string, migrations fs.FS) (seam.Tables, error) {
	steps, err := rule.Migrations(app, migrations, "postgres")
	if err != nil {
		return nil, err
	}
	t := &appTables{s, app, schemaOf(app)}
	have := 0
	version := func(ctx context.Context, q querier) error {
		have = 0
		err := q.QueryRow(ctx, `SELECT version FROM parley.app_tables WHERE app = $1`, app).Scan(&have)
		if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		if err == nil && have > len(steps) {
			err = rule.NewerTables(app, have, len(steps))
		}
		return err
	}
	// Most starts have nothing to migrate and need neither the lock nor privileges.
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error { return version(ctx, c) })
	if err != nil || have == len(steps) {
		return t, err
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, long); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrating)); err != nil {
			return err
		}
		if err := version(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+t.schema); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SET LOCAL search_path = `+t.schema); err != nil {
			return err
		}
		for i, step := range steps[have:] {
			// Unqualified: an index has no schema in the statement that makes it.
			if _, err := tx.Exec(ctx, rule.TableNames(step, func(name string) string { return `"` + name + `"` })); err != nil {
				return fmt.Errorf("migration %d of the app %s: %w", have+i+1, app, err)
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO parley.app_tables (app, version) VALUES ($1, $2) ON CONFLICT (app) DO UPDATE SET version = excluded.version`, app, len(steps))
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// named is a statement with the tables' names and numbered arguments.
func (t *appTables) named(query string) string {
	query = rule.TableNames(query, func(name string) string { return t.schema + `."` + name + `"` })
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// View implements seam.Tables.
func (t *appTables) View(ctx context.Context, do func(seam.Statements) error) error {
	var own error
	err := t.s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		own = nil
		st := &statements{ctx: ctx, t: t, q: c}
		err := do(st)
		if err != nil && st.broken == nil {
			own = err // not PostgreSQL's
			return nil
		}
		return err
	})
	if err == nil {
		err = own
	}
	return err
}

var errUndone = errors.New("undone")

// Change implements seam.Tables.
func (t *appTables) Change(ctx context.Context, do func(seam.Statements) error) error {
	var own error
	err := t.s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		own = nil
		st := &statements{ctx: ctx, t: t, q: tx}
		err := do(st)
		if err != nil && st.broken == nil {
			own = err
			return errUndone
		}
		if st.broken != nil {
			return st.broken
		}
		return err
	})
	if own != nil && errors.Is(err, errUndone) {
		return own
	}
	return err
}

// statements implements seam.Statements on a connection or in a transaction.
type statements struct {
	ctx context.Context // of one call of View or Change
	t   *appTables
	q   interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	}
	broken error // the server's, after which nothing of it counts
}

func (st *statements) Run(query string, args ...any) (int64, error) {
	tag, err := st.q.Exec(st.ctx, st.t.named(query), millis(args)...)
	return tag.RowsAffected(), st.judged(err)
}

func (st *statements) Each(query string, row func(scan func(to ...any) error) error, args ...any) error {
	rows, err := st.q.Query(st.ctx, st.t.named(query), millis(args)...)
	if err != nil {
		return st.judged(err)
	}
	defer rows.Close()
	for rows.Next() {
		err := row(func(to ...any) error {
			if err := rows.Scan(to...); err != nil {
				return parley.Errorf(parley.CodeInternal, "a row of the app %s: %w", st.t.app, err)
			}
			for _, v := range to {
				if at, ok := v.(*time.Time); ok {
					*at = at.UTC()
				}
			}
			return nil
		})
		if errors.Is(err, seam.ErrEnough) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return st.judged(rows.Err())
}

// judged turns what the server says about the app's own statement into an error with a code.
func (st *statements) judged(err error) error {
	switch code := state(err); {
	case err == nil:
		return nil
	case raced(err) && code != "23505":
	case strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), code == "54001":
		return rule.Violated(err)
	case strings.HasPrefix(code, "42") && code != "42501":
		return parley.Errorf(parley.CodeInternal, "a statement of the app %s: %w", st.t.app, err)
	}
	st.broken = err
	return err
}

// millis rounds times to what SQLite holds.
func millis(args []any) []any {
	for i, a := range args {
		if at, ok := a.(time.Time); ok {
			args[i] = parley.Now(at)
		}
	}
	return args
}
