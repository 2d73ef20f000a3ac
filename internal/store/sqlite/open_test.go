package sqlite_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/store/storetest"
)

func refused(t *testing.T, dir string, want parley.Code) {
	t.Helper()
	_, err := sqlite.Open(context.Background(), dir, sqlite.Options{})
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Code != want || e.Hint == "" {
		t.Errorf("got %v, want %s with a hint", err, want)
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	must(t, s.Append(context.Background(), ann, storetest.Words("S", 0, 2, 10)))
	must(t, s.SetVersion(99))
	must(t, s.Close())
	refused(t, dir, parley.CodeUpgradeRequired)
	refused(t, dir, parley.CodeUpgradeRequired) // the database was left unchanged
}

func TestAnotherProgramsFileIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		c, err := zombie.OpenConn(filepath.Join(dir, sqlite.FileName), zombie.OpenReadWrite|zombie.OpenCreate)
		must(t, err)
		must(t, sqlitex.ExecuteScript(c, "CREATE TABLE recipes (name TEXT);", nil))
		must(t, c.Close())
		refused(t, dir, parley.CodeInvalid)
	})
	t.Run("no_database", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		text := "This is a letter, long enough to be taken for the header of a database, and then for a page of one."
		must(t, os.WriteFile(filepath.Join(dir, sqlite.FileName), []byte(text), 0o600))
		refused(t, dir, parley.CodeInvalid)
	})
}

// TestADatabaseOfVersion1IsBroughtUpToDate: the rows go into the tables of the first migration,
// so the test need not undo later migrations.
func TestADatabaseOfVersion1IsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	storetest.Migrated(t, open(t, t.TempDir()), func(s seam.Store) seam.Store { return ofVersion(t, s, 1) })
}

func TestADatabaseOfVersion13IsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	storetest.MigratedLists(t, open(t, t.TempDir()), func(s seam.Store) seam.Store { return ofVersion(t, s, 13) })
}

func TestADatabaseOfVersion14IsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	storetest.MigratedLists(t, open(t, t.TempDir()), func(s seam.Store) seam.Store { return ofVersion(t, s, 14) })
	storetest.Migrated(t, open(t, t.TempDir()), func(s seam.Store) seam.Store { return ofVersion(t, s, 14) })
}

// ofVersion opens a database with the rows of s that the first migrations, up to n, made.
func ofVersion(t *testing.T, s seam.Store, n int) seam.Store {
	t.Helper()
	old := s.(*sqlite.Store)
	must(t, old.Close())
	path := filepath.Join(old.Dir(), sqlite.FileName)
	must(t, os.Rename(path, path+".new"))
	c, err := zombie.OpenConn(path, zombie.OpenReadWrite|zombie.OpenCreate)
	must(t, err)
	names, err := filepath.Glob("migrations/*.sql")
	must(t, err)
	for _, name := range names[:n] {
		script, err := os.ReadFile(name)
		must(t, err)
		must(t, sqlitex.ExecuteScript(c, string(script), nil))
	}
	must(t, sqlitex.ExecuteTransient(c, `ATTACH ? AS new`, &sqlitex.ExecOptions{Args: []any{path + ".new"}}))
	copied := 0
	must(t, sqlitex.ExecuteTransient(c, `SELECT t.name, group_concat('"' || c.name || '"') FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND t.name <> 'holdings' GROUP BY t.name`,
		&sqlitex.ExecOptions{ResultFunc: func(r *zombie.Stmt) error {
			copied++
			table, columns := r.ColumnText(0), r.ColumnText(1)
			return sqlitex.ExecuteTransient(c, "INSERT INTO main."+table+" ("+columns+") SELECT "+columns+" FROM new."+table, nil)
		}}))
	if copied < 10 {
		t.Errorf("got %d tables, want all of them", copied)
	}
	must(t, sqlitex.ExecuteTransient(c, `PRAGMA application_id = 1349676153`, nil)) // "Prly"
	must(t, sqlitex.ExecuteTransient(c, `PRAGMA user_version = `+strconv.Itoa(n), nil))
	must(t, c.Close())
	must(t, os.Remove(path+".new"))
	return open(t, old.Dir())
}

// undo11 undoes the migrations from 0011 on, as far as later ones would fail on what they made.
const undo11 = undo14 + `DROP INDEX keys_gone; DROP INDEX keys_gone_of; ALTER TABLE keys DROP COLUMN gone; `

const undo14 = undo15 + `DROP TRIGGER holdings_grown; DROP TABLE holdings;
	ALTER TABLE sessions DROP COLUMN hour; ALTER TABLE sessions DROP COLUMN since; ALTER TABLE sessions DROP COLUMN waits;
	CREATE INDEX sessions_recent ON sessions (user, org, updated, id);
	CREATE INDEX sessions_rest ON sessions (app, status, updated, id) WHERE held = 0;
	CREATE INDEX sessions_steps ON sessions (app, steps, id) WHERE held = 0 AND steps > 0;
	CREATE INDEX sessions_held ON sessions (user, org, direct, bytes); `

const undo15 = `CREATE TABLE events_old AS SELECT session, seq, turn, agent, time, type, v, data FROM events;
	DROP TABLE events; ALTER TABLE events_old RENAME TO events; DROP TABLE spans;
	DROP TRIGGER holdings_made; DROP TRIGGER holdings_gone;
	DROP INDEX sessions_listed; DROP INDEX sessions_unlisted; DROP INDEX sessions_direct; DROP INDEX sessions_rest; DROP INDEX sessions_steps;
	ALTER TABLE sessions DROP COLUMN tail; ALTER TABLE sessions DROP COLUMN direct; ALTER TABLE sessions DROP COLUMN waits;
	ALTER TABLE sessions ADD COLUMN direct INTEGER GENERATED ALWAYS AS (instr(info, CAST(',"direct":true' AS BLOB)) > 0) VIRTUAL;
	ALTER TABLE sessions ADD COLUMN waits INTEGER GENERATED ALWAYS AS (0) VIRTUAL;
	CREATE INDEX sessions_listed ON sessions (user, org, updated, id) WHERE direct = 0;
	CREATE INDEX sessions_direct ON sessions (app, status, updated, id) WHERE held = 0 AND direct = 1; `

func TestForksOfVersion6HaveTheirTurns(t *testing.T) {
	t.Parallel()
	storetest.MigratedForks(t, open(t, t.TempDir()), func(s seam.Store) seam.Store {
		old := s.(*sqlite.Store)
		must(t, old.Close())
		c, err := zombie.OpenConn(filepath.Join(old.Dir(), sqlite.FileName), zombie.OpenReadWrite)
		must(t, err)
		must(t, sqlitex.ExecuteScript(c, `DELETE FROM turns WHERE EXISTS (SELECT 1 FROM sessions WHERE id = session AND last <= shared);
			ALTER TABLE turns DROP COLUMN last; ALTER TABLE interactions DROP COLUMN last; `+undo11+`PRAGMA user_version = 6`, nil))
		must(t, c.Close())
		return open(t, old.Dir())
	})
}

func TestForksOfVersion7HaveTheirInteractions(t *testing.T) {
	t.Parallel()
	storetest.MigratedQuestions(t, open(t, t.TempDir()), func(s seam.Store) seam.Store {
		old := s.(*sqlite.Store)
		must(t, old.Close())
		c, err := zombie.OpenConn(filepath.Join(old.Dir(), sqlite.FileName), zombie.OpenReadWrite)
		must(t, err)
		must(t, sqlitex.ExecuteScript(c, `DELETE FROM interactions WHERE EXISTS (SELECT 1 FROM sessions WHERE id = session AND last <= shared);
			ALTER TABLE interactions DROP COLUMN last; `+undo11+`PRAGMA user_version = 7`, nil))
		must(t, c.Close())
		return open(t, old.Dir())
	})
}

func TestLongLogsOfVersion7(t *testing.T) {
	t.Parallel()
	storetest.MigratesLongLogs(t, func(sessions int, log *slog.Logger) time.Duration {
		dir := t.TempDir()
		must(t, open(t, dir).Close())
		c, err := zombie.OpenConn(filepath.Join(dir, sqlite.FileName), zombie.OpenReadWrite)
		must(t, err)
		must(t, sqlitex.ExecuteScript(c, undo11+`ALTER TABLE interactions DROP COLUMN last; PRAGMA user_version = 7;
			CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000) SELECT n FROM n;
			INSERT INTO events (session, seq, turn, agent, time, type, v, data)
				SELECT 's' || (n % `+strconv.Itoa(sessions)+`), n, 't', '', 0, iif(n % 10 < 9, 'model.replied', 'interaction.answered'), 1,
				CAST(iif(n % 10 < 9, '{"x":"y"}', '{"id":"i' || n || '"}') AS BLOB) FROM n;
			INSERT INTO interactions (session, id, user, org, open, kind, opened, expires, body)
				SELECT 's' || (n % `+strconv.Itoa(sessions)+`), 'i' || n, 'u', '', 0, 'permission', 0, 0, CAST('{}' AS BLOB) FROM n WHERE n % 10 = 9`, nil))
		must(t, c.Close())
		began := time.Now()
		s, err := sqlite.Open(t.Context(), dir, sqlite.Options{Logger: log})
		took := time.Since(began)
		must(t, err)
		must(t, s.Close())
		c, err = zombie.OpenConn(filepath.Join(dir, sqlite.FileName), zombie.OpenReadOnly)
		must(t, err)
		defer c.Close()
		n, err := sqlitex.ResultInt(c.Prep(`SELECT count(*) FROM interactions WHERE 'i' || last = id`))
		if err != nil || n != 2000 {
			t.Errorf("%d interactions have the event that closed them, %v", n, err)
		}
		return took
	})
}

func TestOldBlobsThatNothingRefersToGo(t *testing.T) {
	t.Parallel()
	storetest.Collected(t, func(now func() time.Time) storetest.Collector {
		s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{Now: now})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	})
}

func TestKeysOfDeletedSessionsGo(t *testing.T) {
	t.Parallel()
	storetest.KeysGo(t, func(now func() time.Time) seam.Store {
		s, err := sqlite.Open(context.Background(), t.TempDir(), sqlite.Options{Now: now})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	})
}
