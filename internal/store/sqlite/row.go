package sqlite

import (
	"context"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

// PutRow implements seam.Store.
func (s *Store) PutRow(ctx context.Context, p parley.Principal, r seam.Row) (version int64, err error) {
	if r, err = rule.RowOf(p, r); err != nil {
		return 0, err
	}
	err = s.write(ctx, func(c *conn) error {
		have, old, err := rowAt(c, r.RowName)
		switch {
		case err != nil:
			return err
		case r.Version == seam.NoRow && have > 0:
			return rule.RowThere(r.RowName)
		case r.Version > 0 && r.Version != have:
			return rule.RowChanged(r.RowName)
		}
		if r.Session != "" {
			at, err := find(c, parley.System(), r.Session)
			if err != nil {
				return err
			}
			if at.user != r.User || at.org != r.Org {
				return rule.NotFound("session", r.Session)
			}
		}
		held, err := rowsHeld(c, r.RowName)
		if err != nil {
			return err
		}
		if !rule.RowFits(p, rule.RowKiB(r), old, held) {
			return rule.RowsFull(r.RowName)
		}
		version, err = putRow(c, r)
		return err
	})
	if err != nil {
		return 0, err
	}
	return version, nil
}

// rowAt returns the version of a row and what it counts; zeros if there is none.
func rowAt(c *conn, n seam.RowName) (version, kib int64, err error) {
	err = c.rows(`SELECT version, kib FROM index_rows WHERE kind = ? AND user = ? AND org = ? AND id = ?`, func(s *zombie.Stmt) error {
		version, kib = s.ColumnInt64(0), s.ColumnInt64(1)
		return nil
	}, n.Kind, n.User, n.Org, n.ID)
	return version, kib, err
}

func rowsHeld(c *conn, n seam.RowName) (kib int64, err error) {
	err = c.rows(`SELECT coalesce(sum(kib), 0) FROM index_rows INDEXED BY index_rows_kib WHERE kind = ? AND user = ? AND org = ?`, func(s *zombie.Stmt) error {
		kib = s.ColumnInt64(0)
		return nil
	}, n.Kind, n.User, n.Org)
	return kib, err
}

func putRow(c *conn, r seam.Row) (version int64, err error) {
	err = c.exec(`INSERT OR REPLACE INTO index_rows (kind, user, org, id, session, due, open, kib, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Kind, r.User, r.Org, r.ID, string(r.Session), rule.MillisOrNone(r.Due), r.Open, rule.RowKiB(r), append([]byte{}, r.Body...))
	return c.LastInsertRowID(), err
}

// putRows writes the rows of a batch.
func putRows(c *conn, ix seam.Index, user, org string) error {
	for _, n := range ix.DropRows {
		if err := c.exec(`DELETE FROM index_rows WHERE kind = ? AND user = ? AND org = ? AND id = ?`, n.Kind, user, org, n.ID); err != nil {
			return err
		}
	}
	for _, r := range ix.Rows {
		r.User, r.Org = user, org
		have, _, err := rowAt(c, r.RowName)
		if err != nil {
			return err
		}
		if have == 0 {
			held, err := rowsHeld(c, r.RowName)
			if err != nil {
				return err
			}
			if !rule.RowFits(parley.System(), rule.RowKiB(r), 0, held) {
				if ix.Left != nil {
					ix.Left(r.RowName)
				}
				continue
			}
		}
		if _, err := putRow(c, r); err != nil {
			return err
		}
	}
	return nil
}

// DropRow implements seam.Store.
func (s *Store) DropRow(ctx context.Context, p parley.Principal, name seam.RowName, version int64) error {
	name, err := rule.RowName(p, name)
	if err != nil {
		return err
	}
	return s.write(ctx, func(c *conn) error {
		have, _, err := rowAt(c, name)
		switch {
		case err != nil:
			return err
		case have == 0:
			return rule.NotFound(name.Kind, name.ID)
		case version != seam.AnyRow && version != have:
			return rule.RowChanged(name)
		}
		return c.exec(`DELETE FROM index_rows WHERE version = ?`, have)
	})
}

const rowColumns = `SELECT body, version, kind, user, org, id, session, due, open FROM index_rows`

func indexRow(s *zombie.Stmt) (seam.Row, error) {
	return seam.Row{
		Body: bytes(s, 0), Version: s.ColumnInt64(1), Session: parley.SessionID(s.ColumnText(6)), Due: rule.Due(s.ColumnInt64(7)), Open: s.ColumnBool(8),
		RowName: seam.RowName{Kind: s.ColumnText(2), User: s.ColumnText(3), Org: s.ColumnText(4), ID: s.ColumnText(5)},
	}, nil
}

// Row implements seam.Store.
func (s *Store) Row(ctx context.Context, p parley.Principal, name seam.RowName) (seam.Row, error) {
	name, err := rule.RowName(p, name)
	if err != nil {
		return seam.Row{}, err
	}
	return one(ctx, s, indexRow, rule.NotFound(name.Kind, name.ID), rowColumns+` WHERE kind = ? AND user = ? AND org = ? AND id = ?`, name.Kind, name.User, name.Org, name.ID)
}

// Rows implements seam.Store.
func (s *Store) Rows(ctx context.Context, p parley.Principal, q seam.RowQuery) ([]seam.Row, error) {
	q, none, err := rule.RowQuery(p, q)
	if none || err != nil {
		return nil, err
	}
	// The planner does not know how many rows an index holds.
	by := "index_rows_id"
	switch {
	case q.Session != "":
		by = "index_rows_session"
	case !q.Due.IsZero():
		by = "index_rows_due"
	}
	w := where{query: rowColumns + " INDEXED BY " + by + " WHERE true"}
	w.and(q.Kind != "", "kind = ?", q.Kind)
	w.and(!p.IsSystem() || q.User != "", "user = ? AND org = ?", q.User, q.Org)
	w.and(q.Session != "", "session = ? AND session <> ''", string(q.Session))
	w.and(!q.Due.IsZero(), "open = 1 AND due > 0 AND due < ?", rule.MillisUp(q.Due))
	w.and(q.Open, "open = 1")
	w.and(q.Shut, "open = 0")
	order := "kind, user, org, id"
	switch a := q.After; {
	case q.Due.IsZero():
		w.and(a.ID != "", "(kind, user, org, id) > (?, ?, ?, ?)", a.Kind, a.User, a.Org, a.ID)
	default:
		order = "due, user, org, id"
		w.and(a.ID != "", "(due, user, org, id) > (?, ?, ?, ?)", rule.MillisOrNone(a.Due), a.User, a.Org, a.ID)
	}
	limit := rule.List(p, q.Limit)
	w.order(order, limit)
	return page(ctx, s, indexRow, limit, w.query, w.args...)
}
