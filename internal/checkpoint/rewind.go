package checkpoint

import (
	"context"
	"encoding/json"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
)

// A rewind is a change like others: its call is the rewind's id, and it has no turn. So a rewind
// can be taken back, too.

// BeginRewind is Begin for a change by a rewind. No content is deleted for it, because the rewind may
// still need it: see [Store.EndRewind].
func (s *Store) BeginRewind(ctx context.Context, id parley.SessionID, r Record, content []byte) error {
	return s.begin(ctx, id, r, content, false)
}

// Rewound records that a rewind's change of a file was made. The session has not seen the result.
func (s *Store) Rewound(ctx context.Context, id parley.SessionID, r Record) error {
	return s.with(ctx, func(c *sqlite.Conn) error {
		dirs, err := json.Marshal(r.Dirs)
		if err != nil {
			return err
		}
		if err := sqlitex.Execute(c, `UPDATE change SET done = 1, dirs = ?4 WHERE session = ?1 AND call = ?2 AND path = ?3`,
			&sqlitex.ExecOptions{Args: []any{string(id), string(r.Call), r.Path, string(dirs)}}); err != nil {
			return err
		}
		return sqlitex.Execute(c, `DELETE FROM seen WHERE session = ? AND path = ?`, &sqlitex.ExecOptions{Args: []any{string(id), r.Path}})
	})
}

// NotRewound removes the record of a rewind's change that was not made.
func (s *Store) NotRewound(ctx context.Context, id parley.SessionID, r Record) error {
	return s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `DELETE FROM change WHERE session = ? AND call = ? AND path = ? AND done = 0`,
			&sqlitex.ExecOptions{Args: []any{string(id), string(r.Call), r.Path}})
	})
}

// Unsee forgets which versions of files a session has seen.
func (s *Store) Unsee(ctx context.Context, id parley.SessionID) error {
	if !s.any() {
		return nil
	}
	return s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `DELETE FROM seen WHERE session = ?`, &sqlitex.ExecOptions{Args: []any{string(id)}})
	})
}

// StartRewind notes that a rewind of a session is under way.
func (s *Store) StartRewind(ctx context.Context, id parley.SessionID) error {
	return s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `INSERT INTO rewind (session) VALUES (?) ON CONFLICT DO NOTHING`, &sqlitex.ExecOptions{Args: []any{string(id)}})
	})
}

// EndRewind notes that none is under way, and deletes contents beyond the session's limit.
func (s *Store) EndRewind(ctx context.Context, id parley.SessionID) error {
	return s.with(ctx, func(c *sqlite.Conn) error {
		if err := s.trim(c, id); err != nil {
			return err
		}
		return sqlitex.Execute(c, `DELETE FROM rewind WHERE session = ?`, &sqlitex.ExecOptions{Args: []any{string(id)}})
	})
}

// Rewinding lists the sessions with a rewind under way.
func (s *Store) Rewinding(ctx context.Context) (list []parley.SessionID, err error) {
	if !s.any() {
		return nil, nil
	}
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT session FROM rewind ORDER BY session`, &sqlitex.ExecOptions{
			ResultFunc: func(st *sqlite.Stmt) error { list = append(list, parley.SessionID(st.ColumnText(0))); return nil },
		})
	})
	return list, err
}
