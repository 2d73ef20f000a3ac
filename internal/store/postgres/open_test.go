//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/postgres/pgtest"
	"github.com/parley-server/parley/internal/store/storetest"
)

func refused(t *testing.T, dsn string, want parley.Code) error {
	t.Helper()
	s, err := postgres.Open(context.Background(), dsn, postgres.Options{})
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != want || e.Hint == "" {
		t.Errorf("got %v, %v, want %s with a hint", s, err, want)
	}
	return err
}

func run(t *testing.T, dsn, query string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, dsn)
	must(t, err)
	defer c.Close(ctx)
	_, err = c.Exec(ctx, query)
	must(t, err)
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	for range 3 {
		dsn := pgtest.Start(t)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				s, err := postgres.Open(context.Background(), dsn, postgres.Options{})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if err := s.Append(context.Background(), ann, storetest.Words(parley.SessionID("S"+string(rune('0'+i))), 0, 1, 10)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s := open(t, dsn)
		if n, err := s.Count(`SELECT count(*) FROM sessions`); err != nil || n != 5 {
			t.Errorf("got %d sessions, %v, want 5", n, err)
		}
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	s := open(t, dsn)
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 2, 10)))
	must(t, s.Exec(`UPDATE schema SET version = 99`))
	must(t, s.Close())
	refused(t, dsn, parley.CodeUpgradeRequired)
	refused(t, dsn, parley.CodeUpgradeRequired) // the database was left unchanged
}

// TestADatabaseOfVersion1IsBroughtUpToDate: the rows go into the tables of the first migration,
// so the test need not undo later migrations.
func TestADatabaseOfVersion1IsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	storetest.Migrated(t, open(t, dsn), func(s seam.Store) seam.Store { return ofVersion(t, dsn, s, 1) })
}

func TestADatabaseOfVersion13IsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	storetest.MigratedLists(t, open(t, dsn), func(s seam.Store) seam.Store { return ofVersion(t, dsn, s, 13) })
}

// ofVersion opens a database with the rows of s that the first migrations, up to n, made.
func ofVersion(t *testing.T, dsn string, s seam.Store, n int) seam.Store {
	t.Helper()
	must(t, s.Close())
	run(t, dsn, `ALTER SCHEMA parley RENAME TO newer; CREATE SCHEMA parley`)
	names, err := filepath.Glob("migrations/*.sql")
	must(t, err)
	script := "SET search_path = parley;"
	for _, name := range names[:n] {
		text, err := os.ReadFile(name)
		must(t, err)
		script += string(text)
	}
	run(t, dsn, script)
	run(t, dsn, fmt.Sprintf(`DO $$
		DECLARE
			t name;
			columns text;
		BEGIN
			FOR t, columns IN SELECT c.table_name, string_agg(quote_ident(c.column_name), ', ')
				FROM information_schema.columns c WHERE c.table_schema = 'parley' AND c.is_generated = 'NEVER' GROUP BY c.table_name
			LOOP
				EXECUTE format('INSERT INTO parley.%%1$I (%%2$s) SELECT %%2$s FROM newer.%%1$I', t, columns);
			END LOOP;
		END $$;
		DROP SCHEMA newer CASCADE;
		CREATE TABLE parley.schema (version integer NOT NULL);
		INSERT INTO parley.schema VALUES (%d)`, n))
	return open(t, dsn)
}

// undo14 makes the indexes that migration 0014 drops.
const undo14 = `DROP INDEX parley.sessions_unlisted;
	CREATE INDEX sessions_recent ON parley.sessions (usr, org, updated, id);
	CREATE INDEX sessions_held ON parley.sessions (usr, org, direct, bytes); `

func TestForksOfVersion6HaveTheirTurns(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	storetest.MigratedForks(t, open(t, dsn), func(s seam.Store) seam.Store {
		must(t, s.Close())
		run(t, dsn, undo14+`DELETE FROM parley.turns t USING parley.sessions s WHERE s.id = t.session AND t.last <= s.shared;
			ALTER TABLE parley.turns DROP COLUMN last; ALTER TABLE parley.interactions DROP COLUMN last; ALTER TABLE parley.keys DROP COLUMN gone; UPDATE parley.schema SET version = 6`)
		return open(t, dsn)
	})
}

func TestForksOfVersion7HaveTheirInteractions(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	storetest.MigratedQuestions(t, open(t, dsn), func(s seam.Store) seam.Store {
		must(t, s.Close())
		run(t, dsn, undo14+`DELETE FROM parley.interactions i USING parley.sessions s WHERE s.id = i.session AND i.last <= s.shared;
			ALTER TABLE parley.interactions DROP COLUMN last; ALTER TABLE parley.keys DROP COLUMN gone; UPDATE parley.schema SET version = 7`)
		return open(t, dsn)
	})
}

func TestLongLogsOfVersion7(t *testing.T) {
	t.Parallel()
	storetest.MigratesLongLogs(t, func(sessions int, log *slog.Logger) time.Duration {
		dsn := pgtest.Start(t)
		must(t, open(t, dsn).Close())
		session := fmt.Sprintf(`convert_to('s' || (n %% %d), 'UTF8')`, sessions)
		run(t, dsn, undo14+`ALTER TABLE parley.interactions DROP COLUMN last; ALTER TABLE parley.keys DROP COLUMN gone; UPDATE parley.schema SET version = 7;
			INSERT INTO parley.events (session, seq, turn, agent, time, type, v, data)
				SELECT `+session+`, n, 't', '', 0, CASE WHEN n % 10 < 9 THEN 'model.replied'::bytea ELSE 'interaction.answered' END, 1,
				convert_to(CASE WHEN n % 10 < 9 THEN '{"x":"y"}' ELSE '{"id":"i' || n || '"}' END, 'UTF8') FROM generate_series(1, 20000) n;
			INSERT INTO parley.interactions (session, id, usr, org, open, kind, opened, expires, body)
				SELECT `+session+`, convert_to('i' || n, 'UTF8'), 'u', '', false, 'permission', 0, 0, '{}' FROM generate_series(9, 20000, 10) n`)
		run(t, dsn, `ANALYZE parley.events; ANALYZE parley.interactions`) // as autovacuum does in an older database
		began := time.Now()
		s, err := postgres.Open(t.Context(), dsn, postgres.Options{Logger: log})
		took := time.Since(began)
		must(t, err)
		must(t, s.Close())
		run(t, dsn, `DO $$ BEGIN ASSERT (SELECT count(*) FROM parley.interactions WHERE convert_to('i' || last, 'UTF8') = id) = 2000; END $$`)
		return took
	})
}

func TestOtherTablesDoNotMatter(t *testing.T) {
	t.Parallel()
	dsn := pgtest.Start(t)
	run(t, dsn, `CREATE SCHEMA shop; CREATE TABLE shop.sessions (id int)`)
	must(t, open(t, dsn).Append(context.Background(), ann, storetest.Words("S", 0, 2, 10)))

	dsn = pgtest.Start(t)
	run(t, dsn, `CREATE SCHEMA parley; CREATE TABLE parley.recipes (name text)`)
	refused(t, dsn, parley.CodeInvalid)
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	err := refused(t, "postgres://ann:s3cret@127.0.0.1:notaport/db", parley.CodeInvalid)
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in %q", err)
		}
	}
	refused(t, "postgres://ann@/db?host="+t.TempDir(), parley.CodeUnavailable)
	refused(t, strings.Replace(pgtest.Start(t), "/test", "/absent", 1), parley.CodeUnavailable)
	s := open(t, pgtest.Start(t)+"&connect_timeout=1")
	must(t, s.Close())
}

// TestRights: a role that may not create a schema gets an error. It works if another role has
// created the schema.
func TestRights(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t)
	dsn := cluster.Database(t)
	must(t, cluster.Admin("CREATE ROLE guest LOGIN"))
	guest := strings.Replace(dsn, "parley@", "guest@", 1)
	refused(t, guest, parley.CodeUnavailable)
	s := open(t, dsn)
	must(t, s.Exec(`GRANT USAGE ON SCHEMA parley TO guest; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA parley TO guest`))
	must(t, open(t, guest).Append(context.Background(), ann, storetest.Words("S", 0, 1, 10)))
}

func TestSettings(t *testing.T) {
	t.Parallel()
	cluster := pgtest.New(t, "synchronous_commit=off", "default_transaction_isolation=serializable")
	s := open(t, cluster.Database(t))
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 1, 10)))
	n, err := s.Count(`SELECT count(*) FROM pg_settings WHERE (name, setting) IN (('synchronous_commit', 'on'), ('default_transaction_isolation', 'read committed'), ('lock_timeout', '3000'))`)
	if err != nil || n != 3 {
		t.Errorf("got %d settings as they should be, %v, want 3", n, err)
	}
}

func TestClaimAsksForLeases(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := open(t, pgtest.Start(t))
	b := storetest.Words("S", 0, 1, 10)
	b.Owner = "one"
	must(t, s.Append(ctx, ann, b))
	lease := func(node, until string) {
		t.Helper()
		must(t, s.Exec(`INSERT INTO nodes VALUES ($1, clock_timestamp() + $2::text::interval) ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until`, []byte(node), until))
	}
	claim := func(node string, want int64, code parley.Code) {
		t.Helper()
		if epoch, err := s.Claim(ctx, ann, "S", node); epoch != want || parley.CodeOf(err) != code {
			t.Errorf("%s claims: got %d, %v, want %d, %q", node, epoch, err, want, code)
		}
	}
	lease("one", "1 hour")
	claim("two", 0, parley.CodeUnavailable)
	claim("one", 2, "")
	lease("one", "-1 second")
	claim("one", 0, parley.CodeFenced)
	lease("two", "1 hour")
	claim("two", 3, "")
	claim("three", 0, parley.CodeUnavailable)
	must(t, s.Exec(`DELETE FROM nodes`))
	claim("three", 4, "")
}

func TestOldBlobsThatNothingRefersToGo(t *testing.T) {
	t.Parallel()
	storetest.Collected(t, func(now func() time.Time) storetest.Collector {
		s, err := postgres.Open(context.Background(), pgtest.Start(t), postgres.Options{Now: now})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	})
}

func TestKeysOfDeletedSessionsGo(t *testing.T) {
	t.Parallel()
	storetest.KeysGo(t, func(now func() time.Time) seam.Store {
		s, err := postgres.Open(context.Background(), pgtest.Start(t), postgres.Options{Now: now})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	})
}
