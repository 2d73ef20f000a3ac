// Package checkpoint keeps what files of workspaces contained before sessions changed them, so
// that a change can be taken back, and which versions of files a session has seen.
//
// The contents are raw, with whatever secrets they hold. So they are in a database of their own
// that only the server's user can read, and not in the log. They are never exported, logged or
// shown to another user, and go with their session.
//
// A [Record] is on disk before its change is made. It says what the file contains after the change,
// so that after a crash the file itself shows whether the change was made.
//
// A session keeps at most [Options.Most] bytes of contents. Beyond that the oldest are deleted, and
// their changes can no longer be taken back.
//
// Methods are safe for concurrent use. The database is opened when it is first needed, and must
// be used by one process only.
package checkpoint

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/datafolder"
)

// Options say where and how much.
type Options struct {
	Data *datafolder.Folder // the database is checkpoints.db in it
	Most int64              // bytes of contents that a session keeps; 0: 256 MiB
	Seen int                // files whose last seen version a session remembers; 0: 2,000
}

// Record is a change of a file by a call.
type Record struct {
	Call   parley.CallID
	Turn   parley.TurnID
	Path   string        // in the workspace, with slashes
	Before parley.Digest // empty: there was no file
	After  parley.Digest // empty: it was deleted
	Dirs   []string      // folders made for it, outermost first
	Mode   fs.FileMode   // that of a file that a rewind deletes; 0: not known
	At     time.Time
	Done   bool // the change was made. False after a crash in the middle: then the file shows it
}

// Store keeps the checkpoints of all sessions.
type Store struct {
	o Options

	mu     sync.Mutex
	conn   *sqlite.Conn // nil: not opened yet
	closed bool
}

// New makes a store.
func New(o Options) *Store {
	o.Most = cmp.Or(o.Most, 256<<20)
	o.Seen = cmp.Or(o.Seen, 2000)
	return &Store{o: o}
}

// FileName is the name of the database in the data folder.
const FileName = "checkpoints.db"

// version is the schema's, kept in the file's header.
const version = 2

const schema = `
CREATE TABLE seen (
	session TEXT NOT NULL, path TEXT NOT NULL, version TEXT NOT NULL, n INTEGER NOT NULL,
	PRIMARY KEY (session, path)
) STRICT, WITHOUT ROWID;
CREATE TABLE change (
	n INTEGER PRIMARY KEY, session TEXT NOT NULL, call TEXT NOT NULL, turn TEXT NOT NULL, path TEXT NOT NULL,
	before TEXT NOT NULL, after TEXT NOT NULL, dirs TEXT NOT NULL, at INTEGER NOT NULL, done INTEGER NOT NULL
) STRICT;
CREATE INDEX change_session ON change (session, n);
CREATE TABLE content (
	session TEXT NOT NULL, digest TEXT NOT NULL, n INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB NOT NULL,
	PRIMARY KEY (session, digest)
) STRICT;
CREATE INDEX content_age ON content (session, n);
`

// with runs f on the connection, in a transaction.
func (s *Store) with(ctx context.Context, f func(c *sqlite.Conn) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.o.Data.Check(); err != nil {
		return err
	}
	if err := s.open(); err != nil {
		return parley.Errorf(parley.CodeUnavailable, "checkpoints of files: %w", err)
	}
	s.conn.SetInterrupt(ctx.Done())
	defer s.conn.SetInterrupt(nil)
	done, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return parley.Errorf(parley.CodeUnavailable, "checkpoints of files: %w", err)
	}
	defer func() {
		done(&err)
		if _, ours := errors.AsType[*parley.Error](err); err != nil && !ours {
			err = parley.Errorf(parley.CodeUnavailable, "checkpoints of files: %w", err)
		}
	}()
	return f(s.conn)
}

// open opens the database, if it is not. It is called with the lock held.
func (s *Store) open() error {
	if s.closed {
		return errors.New("the server is shutting down")
	}
	if s.conn != nil {
		return nil
	}
	name := s.o.Data.Path(FileName)
	f, err := os.OpenFile(filepath.Clean(name), os.O_CREATE|os.O_RDWR, 0o600) // SQLite takes the mode of its other files from this
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c, err := sqlite.OpenConn(name, sqlite.OpenReadWrite|sqlite.OpenWAL)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(c, "PRAGMA synchronous = FULL", nil)
	if err == nil {
		// 64 MiB of the log are moved to the database together. With SQLite's default of 4 MiB a call
		// that changes a large file would wait until its old content is written and synced twice.
		err = sqlitex.ExecuteTransient(c, "PRAGMA wal_autocheckpoint = 16384", nil)
	}
	if err == nil {
		err = migrate(c)
	}
	if err != nil {
		_ = c.Close()
		return err
	}
	s.conn = c
	return nil
}

// rewinds is what version 2 added.
const rewinds = `
ALTER TABLE change ADD COLUMN mode INTEGER NOT NULL DEFAULT 0;
CREATE TABLE rewind (session TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
`

func migrate(c *sqlite.Conn) (err error) {
	done, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer done(&err)
	at, err := sqlitex.ResultInt(c.Prep("PRAGMA user_version"))
	switch {
	case err != nil:
		return err
	case at == version:
		return nil
	case at > version:
		return errors.New("they were written by a newer version of Parley")
	}
	if at == 0 {
		if err := sqlitex.ExecuteScript(c, schema, nil); err != nil {
			return err
		}
	}
	if err := sqlitex.ExecuteScript(c, rewinds, nil); err != nil {
		return err
	}
	return sqlitex.ExecuteTransient(c, "PRAGMA user_version = 2", nil)
}

// Close closes the database.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.conn == nil {
		return nil
	}
	c := s.conn
	s.conn = nil
	return c.Close()
}

// Saw records which version of a file a session has seen.
func (s *Store) Saw(ctx context.Context, id parley.SessionID, path string, v parley.Digest) error {
	return s.with(ctx, func(c *sqlite.Conn) error { return s.saw(c, id, path, v) })
}

func (s *Store) saw(c *sqlite.Conn, id parley.SessionID, path string, v parley.Digest) error {
	err := sqlitex.Execute(c, `INSERT INTO seen (session, path, version, n)
		VALUES (?1, ?2, ?3, 1 + coalesce((SELECT max(n) FROM seen WHERE session = ?1), 0))
		ON CONFLICT DO UPDATE SET version = excluded.version, n = excluded.n`,
		&sqlitex.ExecOptions{Args: []any{string(id), path, string(v)}})
	if err != nil {
		return err
	}
	return sqlitex.Execute(c, `DELETE FROM seen WHERE session = ?1 AND n <= (SELECT max(n) FROM seen WHERE session = ?1) - ?2`,
		&sqlitex.ExecOptions{Args: []any{string(id), s.o.Seen}})
}

// Seen is the version of a file that a session saw last. ok is false if it has seen none, or if
// that is too long ago.
func (s *Store) Seen(ctx context.Context, id parley.SessionID, path string) (v parley.Digest, ok bool, err error) {
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT version FROM seen WHERE session = ? AND path = ?`, &sqlitex.ExecOptions{
			Args:       []any{string(id), path},
			ResultFunc: func(st *sqlite.Stmt) error { v, ok = parley.Digest(st.ColumnText(0)), true; return nil },
		})
	})
	return v, ok, err
}

// Begin records a change that is about to be made, with the content that the file has until then.
// When it returns, both are on disk. The change must not be made after an error.
func (s *Store) Begin(ctx context.Context, id parley.SessionID, r Record, content []byte) error {
	return s.begin(ctx, id, r, content, true)
}

func (s *Store) begin(ctx context.Context, id parley.SessionID, r Record, content []byte, trim bool) error {
	if r.Before != "" && int64(len(content)) > s.o.Most {
		return parley.Errorf(parley.CodeTooLarge, "%s is too large to be kept, so it is not changed", r.Path)
	}
	return s.with(ctx, func(c *sqlite.Conn) error {
		if r.Before != "" {
			if err := s.keep(c, id, r.Before, content); err != nil {
				return err
			}
			if trim {
				if err := s.trim(c, id); err != nil {
					return err
				}
			}
		}
		dirs, err := json.Marshal(r.Dirs)
		if err != nil {
			return err
		}
		return sqlitex.Execute(c, `INSERT INTO change (session, call, turn, path, before, after, dirs, at, mode, done) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			&sqlitex.ExecOptions{Args: []any{string(id), string(r.Call), string(r.Turn), r.Path, string(r.Before), string(r.After), string(dirs), r.At.UnixMilli(), int64(r.Mode)}})
	})
}

// keep keeps a content.
func (s *Store) keep(c *sqlite.Conn, id parley.SessionID, d parley.Digest, body []byte) error {
	return sqlitex.Execute(c, `INSERT INTO content (session, digest, n, size, body)
		VALUES (?1, ?2, 1 + coalesce((SELECT max(n) FROM content WHERE session = ?1), 0), ?3, ?4)
		ON CONFLICT DO UPDATE SET n = excluded.n`,
		&sqlitex.ExecOptions{Args: []any{string(id), string(d), len(body), blob(body)}})
}

// trim deletes a session's oldest contents beyond its limit.
func (s *Store) trim(c *sqlite.Conn, id parley.SessionID) error {
	// The newest contents whose sizes add up to no more than the limit stay.
	return sqlitex.Execute(c, `DELETE FROM content WHERE session = ?1 AND n IN (
		SELECT n FROM (SELECT n, sum(size) OVER (ORDER BY n DESC) AS total FROM content WHERE session = ?1) WHERE total > ?2)`,
		&sqlitex.ExecOptions{Args: []any{string(id), s.o.Most}})
}

// blob keeps an empty content from being NULL.
func blob(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// End records that a call's change of a file was made, with what the file contains since, and that the
// session has seen the result.
func (s *Store) End(ctx context.Context, id parley.SessionID, r Record) error {
	return s.with(ctx, func(c *sqlite.Conn) error {
		dirs, err := json.Marshal(r.Dirs)
		if err != nil {
			return err
		}
		if err := sqlitex.Execute(c, `UPDATE change SET done = 1, dirs = ?4, after = ?5 WHERE n = (SELECT max(n) FROM change WHERE session = ?1 AND call = ?2 AND path = ?3)`,
			&sqlitex.ExecOptions{Args: []any{string(id), string(r.Call), r.Path, string(dirs), string(r.After)}}); err != nil {
			return err
		}
		return s.saw(c, id, r.Path, r.After)
	})
}

// Changes lists the changes of a session in order. A call limits them to its own; "": all.
func (s *Store) Changes(ctx context.Context, id parley.SessionID, call parley.CallID) (list []Record, err error) {
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT call, turn, path, before, after, dirs, at, done, mode FROM change WHERE session = ?1 AND (?2 = '' OR call = ?2) ORDER BY n`, &sqlitex.ExecOptions{
			Args: []any{string(id), string(call)},
			ResultFunc: func(st *sqlite.Stmt) error {
				r := Record{
					Call: parley.CallID(st.ColumnText(0)), Turn: parley.TurnID(st.ColumnText(1)), Path: st.ColumnText(2),
					Before: parley.Digest(st.ColumnText(3)), After: parley.Digest(st.ColumnText(4)),
					At: time.UnixMilli(st.ColumnInt64(6)).UTC(), Done: st.ColumnBool(7), Mode: fs.FileMode(st.ColumnInt64(8)).Perm(),
				}
				if err := json.Unmarshal([]byte(st.ColumnText(5)), &r.Dirs); err != nil {
					return err
				}
				list = append(list, r)
				return nil
			},
		})
	})
	return list, err
}

// Content is a content that a session has kept. ok is false if it is not kept any more.
func (s *Store) Content(ctx context.Context, id parley.SessionID, d parley.Digest) (body []byte, ok bool, err error) {
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT body FROM content WHERE session = ? AND digest = ?`, &sqlitex.ExecOptions{
			Args: []any{string(id), string(d)},
			ResultFunc: func(st *sqlite.Stmt) error {
				body, ok = make([]byte, st.ColumnLen(0)), true
				st.ColumnBytes(0, body)
				return nil
			},
		})
	})
	return body, ok, err
}

// Sessions lists the sessions that have anything here.
func (s *Store) Sessions(ctx context.Context) (list []parley.SessionID, err error) {
	if !s.any() {
		return nil, nil
	}
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT session FROM seen UNION SELECT session FROM change UNION SELECT session FROM content UNION SELECT session FROM rewind`, &sqlitex.ExecOptions{
			ResultFunc: func(st *sqlite.Stmt) error { list = append(list, parley.SessionID(st.ColumnText(0))); return nil },
		})
	})
	return list, err
}

// any reports whether there is a database at all.
func (s *Store) any() bool {
	_, err := os.Stat(s.o.Data.Path(FileName))
	return err == nil
}

// Drop removes everything of a session.
func (s *Store) Drop(ctx context.Context, id parley.SessionID) error {
	if !s.any() {
		return nil
	}
	return s.with(ctx, func(c *sqlite.Conn) error {
		for _, q := range []string{`DELETE FROM seen WHERE session = ?`, `DELETE FROM change WHERE session = ?`, `DELETE FROM content WHERE session = ?`, `DELETE FROM rewind WHERE session = ?`} {
			if err := sqlitex.Execute(c, q, &sqlitex.ExecOptions{Args: []any{string(id)}}); err != nil {
				return err
			}
		}
		return nil
	})
}
