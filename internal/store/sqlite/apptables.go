package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// appTables are the tables of one app. They are in the same file as the sessions, so one
// writer commits them and one backup has them. Their names are "app.name".
type appTables struct {
	s   *Store
	app string
}

// Tables implements seam.Store.
func (s *Store) Tables(ctx context.Context, app string, migrations fs.FS) (seam.Tables, error) {
	steps, err := rule.Migrations(app, migrations, "sqlite")
	if err != nil {
		return nil, err
	}
	t := &appTables{s, app}
	err = s.write(ctx, func(c *conn) error {
		have := 0
		err := c.rows(`SELECT version FROM app_tables WHERE app = ?`, func(s *zombie.Stmt) error { have = s.ColumnInt(0); return nil }, app)
		switch {
		case err != nil || have == len(steps):
			return err
		case have > len(steps):
			return rule.NewerTables(app, have, len(steps))
		}
		for i, step := range steps[have:] {
			if err := script(c, t.named(step)); err != nil {
				return parley.Errorf(parley.CodeInternal, "migration %d of the app %s: %w", have+i+1, app, err)
			}
		}
		return c.exec(`INSERT OR REPLACE INTO app_tables (app, version) VALUES (?, ?)`, app, len(steps))
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *appTables) named(query string) string {
	return rule.TableNames(query, func(name string) string { return `"` + t.app + "." + name + `"` })
}

// View implements seam.Tables.
func (t *appTables) View(ctx context.Context, do func(seam.Statements) error) error {
	var own error
	err := t.s.view(ctx, func(c *conn) error {
		own = nil
		st := &statements{t: t, c: c}
		err := do(st)
		if err != nil && st.broken == nil {
			own = err // not SQLite's
			return nil
		}
		return err
	})
	if err == nil {
		err = own
	}
	return err
}

// Change implements seam.Tables.
func (t *appTables) Change(ctx context.Context, do func(seam.Statements) error) error {
	var own error
	err := t.s.write(ctx, func(c *conn) error {
		own = nil
		st := &statements{t: t, c: c}
		err := do(st)
		if st.broken != nil || err == nil {
			return st.broken
		}
		own = err
		return parley.Errorf(parley.CodeConflict, "undone") // a refusal, so that the writer goes on with the others
	})
	if own != nil && parley.CodeOf(err) == parley.CodeConflict {
		return own
	}
	return err
}

// statements implements seam.Statements on a connection.
type statements struct {
	t      *appTables
	c      *conn
	broken error // the disk's, after which nothing of it counts
}

func (st *statements) Run(query string, args ...any) (int64, error) {
	err := st.Each(query, func(func(...any) error) error { return nil }, args...)
	return int64(st.c.Changes()), err
}

func (st *statements) Each(query string, row func(scan func(to ...any) error) error, args ...any) error {
	bound := make([]any, len(args))
	for i, a := range args {
		if at, ok := a.(time.Time); ok {
			a = at.UTC().Format(rule.TimeText)
		}
		bound[i] = a
	}
	var own error
	err := st.c.rows(st.t.named(query), func(s *zombie.Stmt) error {
		own = row(func(to ...any) error { return scanRow(s, to) })
		return own
	}, bound...)
	switch {
	case own != nil && errors.Is(own, seam.ErrEnough):
		return nil
	case err == nil || own != nil:
		return own
	}
	if _, bad := errors.AsType[*queryError](err); bad && zombie.ErrCode(err).ToPrimary() == zombie.ResultError {
		return parley.Errorf(parley.CodeInternal, "a statement of the app %s: %w", st.t.app, err)
	}
	switch zombie.ErrCode(err).ToPrimary() {
	case zombie.ResultConstraint, zombie.ResultMismatch, zombie.ResultTooBig, zombie.ResultRange:
		return rule.Violated(err)
	}
	st.broken = err
	return err
}

func scanRow(s *zombie.Stmt, to []any) error {
	if n := s.ColumnCount(); n != len(to) {
		return fmt.Errorf("got %d columns, want %d", n, len(to))
	}
	for i, v := range to {
		switch v := v.(type) {
		case *string:
			*v = s.ColumnText(i)
		case *int64:
			*v = s.ColumnInt64(i)
		case *bool:
			*v = s.ColumnBool(i)
		case *[]byte:
			*v = bytes(s, i)
		case *time.Time:
			at, err := rule.TimeOf(s.ColumnText(i))
			if err != nil {
				return err
			}
			*v = at
		default:
			return fmt.Errorf("a column cannot be scanned into a %T", v)
		}
	}
	return nil
}
