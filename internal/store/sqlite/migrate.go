package sqlite

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// migrations are numbered from 0001 without gaps and never change once
// released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// application marks the file as ours: "Prly".
const application = 0x50726c79

// migrate applies the migrations that the file lacks, in one transaction. It says so before
// it begins with a file that holds something. The version is
// kept in the file's header (PRAGMA user_version), which is part of the transaction.
func migrate(c *conn, still bool, log *slog.Logger) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	return c.transact(func(c *conn) error {
		have, app, tables, copying := 0, 0, 0, false
		err := c.rows("SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), (SELECT count(*) FROM sqlite_schema), EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '"+rule.CopyTable+"')",
			func(s *zombie.Stmt) error {
				have, app, tables, copying = s.ColumnInt(0), s.ColumnInt(1), s.ColumnInt(2), s.ColumnBool(3)
				return nil
			})
		switch {
		case err != nil:
			return err
		case app != application && tables > 0:
			return parley.Errorf(parley.CodeInvalid, "the database belongs to another program").WithHint("choose another data folder")
		case have > len(names):
			return parley.Errorf(parley.CodeUpgradeRequired, "the database has schema version %d, and this Parley knows versions up to %d", have, len(names)).
				WithHint("start the version of Parley that wrote it, or a newer one; older versions cannot read it")
		case copying && !still:
			return rule.Incomplete()
		}
		if 0 < have && have < len(names) {
			log.Info("the database is migrated; one with long logs takes a while", "from", have, "to", len(names))
		}
		for i := have; i < len(names); i++ {
			if n, _, _ := strings.Cut(path.Base(names[i]), "_"); n != fmt.Sprintf("%04d", i+1) {
				return fmt.Errorf("migration %d is called %s", i+1, names[i])
			}
			text, err := fs.ReadFile(migrations, names[i])
			if err != nil {
				return err
			}
			if err := script(c, string(text)); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
		}
		if have == len(names) {
			return nil
		}
		if err := c.once("PRAGMA application_id = " + strconv.Itoa(application)); err != nil {
			return err
		}
		return c.once("PRAGMA user_version = " + strconv.Itoa(len(names)))
	})
}

// script runs statements one after another.
func script(c *conn, text string) error {
	for strings.TrimSpace(text) != "" {
		s, rest, err := c.PrepareTransient(text)
		if err != nil {
			return err
		}
		if rest == len(text) || s.ColumnCount() > 0 {
			_ = s.Finalize()
			return fmt.Errorf("no migration may contain: %s", text)
		}
		text = text[len(text)-rest:]
		_, err = s.Step()
		if err := errors.Join(err, s.Finalize()); err != nil {
			return err
		}
	}
	return nil
}
