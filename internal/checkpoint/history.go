package checkpoint

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
)

// Change is a change of a file by a session.
type Change struct {
	Session parley.SessionID
	Record
}

// OfPath lists the changes of a path that were made, of all sessions in whatever workspace, the newest
// first, at most so many. Whose they are is for the caller to find out.
func (s *Store) OfPath(ctx context.Context, path string, most int) (list []Change, err error) {
	if !s.any() {
		return nil, nil
	}
	err = s.with(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT session, call, turn, before, after, at FROM change WHERE path = ? AND done = 1 ORDER BY n DESC LIMIT ?`, &sqlitex.ExecOptions{
			Args: []any{path, most},
			ResultFunc: func(st *sqlite.Stmt) error {
				list = append(list, Change{parley.SessionID(st.ColumnText(0)), Record{
					Path: path, Done: true, Call: parley.CallID(st.ColumnText(1)), Turn: parley.TurnID(st.ColumnText(2)),
					Before: parley.Digest(st.ColumnText(3)), After: parley.Digest(st.ColumnText(4)), At: time.UnixMilli(st.ColumnInt64(5)).UTC(),
				}})
				return nil
			},
		})
	})
	return list, err
}
