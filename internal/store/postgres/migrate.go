package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/store/rule"
)

// migrations are numbered from 0001 without gaps and never change once released.
// They run while nodes of the version before may work, so they add and do not
// take away.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrating is the advisory lock held during migrations: "Parley".
const migrating = 0x5061726c6579

// migrateTimeout limits the wait for other processes and the work itself.
const migrateTimeout = 5 * time.Minute

// migrate applies the migrations that the schema lacks, in one transaction together with
// the new version number. It says so before it begins with a schema that holds something. The lock ends with the transaction, so a process that died does
// not hold it.
func migrate(ctx context.Context, config *pgx.ConnConfig, still bool, log *slog.Logger) error {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	slices.Sort(names)
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	c, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer drop(c)
	// Most starts have nothing to migrate and need neither the lock nor privileges.
	if have, err := version(ctx, c, len(names), still); err != nil || have == len(names) {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, int64(migrating)); err != nil {
			return err
		}
		have, err := version(ctx, tx, len(names), still)
		if err != nil {
			return err
		}
		if have == 0 {
			_, err := tx.Exec(ctx, `CREATE SCHEMA parley; CREATE TABLE parley.schema (version integer NOT NULL); INSERT INTO parley.schema VALUES (0)`)
			if err != nil {
				return fmt.Errorf("make the schema: %w", err)
			}
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
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
		}
		_, err = tx.Exec(ctx, `UPDATE parley.schema SET version = $1`, len(names))
		return err
	})
}

type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// version returns the schema's version, or 0 if there is no schema. It refuses a schema
// that is newer than this Parley, or that belongs to another program, or, unless it is still,
// one into which a copy is incomplete.
func version(ctx context.Context, q querier, known int, still bool) (have int, err error) {
	var schema, table, copying bool
	// to_regclass is not used: it answers from a cache that misses a schema created while
	// we waited for the lock.
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = 'parley'),
		EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'parley' AND c.relname = 'schema'),
		(`+isCopying+`)`).Scan(&schema, &table, &copying)
	switch {
	case err != nil || !schema:
		return 0, err
	case !table:
		return 0, parley.Errorf(parley.CodeInvalid, "the database has a schema named parley that belongs to another program").WithHint("choose another database")
	case copying && !still:
		return 0, rule.Incomplete()
	}
	if err := q.QueryRow(ctx, `SELECT version FROM parley.schema`).Scan(&have); err != nil {
		return 0, err
	}
	if have > known {
		return 0, parley.Errorf(parley.CodeUpgradeRequired, "the database has schema version %d, and this Parley knows versions up to %d", have, known).
			WithHint("start the version of Parley that made it, or a newer one; older versions cannot read it")
	}
	return have, nil
}
