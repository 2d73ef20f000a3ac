package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// Snapshot copies a SQLite database as it is at one moment to a new file, while another
// process uses it. That process goes on writing; its log is not shortened until the copy is
// complete. What it committed before the call is in the copy. The copy is checked before
// Snapshot returns. It must not be called in the process that has the database open.
func Snapshot(ctx context.Context, from, to string) (err error) {
	if ctx.Err() != nil {
		return rule.Cancelled(ctx)
	}
	if _, err := os.Stat(from); err != nil {
		return err
	}
	c, err := open(from, zombie.OpenReadWrite)
	if err != nil {
		return outside(from, err)
	}
	c.SetInterrupt(ctx.Done())
	err = c.exec("VACUUM INTO ?", to)
	if err = errors.Join(err, c.close()); err != nil {
		if ctx.Err() != nil {
			return rule.Cancelled(ctx)
		}
		return outside(from, err)
	}
	return whole(ctx, to)
}

// whole reports whether a database can be read to its end.
func whole(ctx context.Context, path string) (err error) {
	c, err := open(path, zombie.OpenReadWrite)
	if err != nil {
		return outside(path, err)
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.SetInterrupt(ctx.Done())
	says := ""
	err = c.rows("PRAGMA quick_check(1)", func(s *zombie.Stmt) error { says = s.ColumnText(0); return nil })
	switch {
	case ctx.Err() != nil:
		return rule.Cancelled(ctx)
	case err != nil:
		return outside(path, err)
	case says != "ok":
		return parley.Errorf(parley.CodeInternal, "the copy of %s is damaged: %s", filepath.Base(path), parley.Cut(says, 200))
	}
	return nil
}
