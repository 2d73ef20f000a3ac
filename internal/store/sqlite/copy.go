package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

var _ seam.Copyable = (*Store)(nil)

// uncopied are tables about this file alone. The bodies of blobs are copied as a column, and
// holdings are counted from the sessions.
var uncopied = []string{"probe", "bodies", "app_tables", "holdings", rule.CopyTable}

// CopyTables implements seam.Copyable.
func (s *Store) CopyTables(ctx context.Context) (out []seam.CopyTable, err error) {
	type column struct {
		table, name, typ string
		key              int
	}
	all, err := list(ctx, s, func(s *zombie.Stmt) (column, error) {
		return column{s.ColumnText(0), s.ColumnText(1), s.ColumnText(2), s.ColumnInt(3)}, nil
	}, `SELECT t.name, c.name, c.type, c.pk FROM sqlite_schema t, pragma_table_xinfo(t.name) c
		WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' AND c.hidden = 0 ORDER BY t.name, c.name`)
	if err != nil {
		return nil, err
	}
	keys := map[string][]column{}
	at := map[string]int{}
	for _, c := range all {
		if slices.Contains(uncopied, c.table) {
			continue
		}
		i, ok := at[c.table]
		if !ok {
			i = len(out)
			at[c.table] = i
			t := seam.CopyTable{Name: c.table}
			if app, name, ok := strings.Cut(c.table, "."); ok {
				t.App, t.Name = app, name
			}
			out = append(out, t)
		}
		switch c.typ {
		case "INTEGER", "TEXT", "BLOB":
		default:
			return nil, fmt.Errorf("the column %s of %s has the type %q, which cannot be copied", c.name, c.table, c.typ)
		}
		out[i].Columns = append(out[i].Columns, seam.CopyColumn{Name: c.name, Int: c.typ == "INTEGER"})
		if c.key > 0 {
			keys[c.table] = append(keys[c.table], c)
		}
	}
	// The key of rows elsewhere is their name; the version is this file's way to number them.
	keys["index_rows"] = []column{{name: "kind", key: 1}, {name: "user", key: 2}, {name: "org", key: 3}, {name: "id", key: 4}}
	for name, i := range at {
		if name == "blobs" {
			out[i].Columns = slices.Insert(out[i].Columns, 0, seam.CopyColumn{Name: "body"})
		}
		slices.SortFunc(keys[name], func(a, b column) int { return a.key - b.key })
		for _, k := range keys[name] {
			out[i].Key = append(out[i].Key, slices.IndexFunc(out[i].Columns, func(c seam.CopyColumn) bool { return c.Name == k.name }))
		}
		if len(out[i].Key) == 0 {
			return nil, fmt.Errorf("the table %s has no key, so it cannot be copied", name)
		}
	}
	rule.SortTables(out)
	return out, nil
}

func copyName(t seam.CopyTable) string { return `"` + t.String() + `"` }

// CopyCount implements seam.Copyable.
func (s *Store) CopyCount(ctx context.Context, t seam.CopyTable) (int64, error) {
	return one(ctx, s, func(s *zombie.Stmt) (int64, error) { return s.ColumnInt64(0), nil }, nil, `SELECT count(*) FROM `+copyName(t))
}

// CopyOut implements seam.Copyable.
func (s *Store) CopyOut(ctx context.Context, t seam.CopyTable, after []any, row func([]any) error) error {
	names := func(all []seam.CopyColumn) (out []string) {
		for _, c := range all {
			out = append(out, `"`+c.Name+`"`)
		}
		return out
	}
	key := strings.Join(names(rule.KeyOf(t)), ", ")
	query := `SELECT ` + strings.Join(names(t.Columns), ", ") + ` FROM ` + copyName(t)
	if t.String() == "blobs" {
		query += ` JOIN bodies USING (digest)`
	}
	var args []any
	if after != nil {
		query += ` WHERE (` + key + `) > (?` + strings.Repeat(", ?", len(after)-1) + `)`
		for i, v := range after {
			if b, ok := v.([]byte); ok && !rule.KeyOf(t)[i].Int {
				v = string(b) // all keys are texts or numbers
			}
			args = append(args, v)
		}
	}
	values := make([]any, len(t.Columns))
	var own error
	err := s.view(ctx, func(c *conn) error {
		err := c.rows(query+` ORDER BY `+key, func(s *zombie.Stmt) error {
			for i, col := range t.Columns {
				switch {
				case s.ColumnType(i) == zombie.TypeNull:
					values[i] = nil
				case col.Int:
					values[i] = s.ColumnInt64(i)
				default:
					values[i] = append([]byte{}, bytes(s, i)...)
				}
			}
			own = row(values)
			return own
		}, args...)
		if own != nil {
			return nil
		}
		return err
	})
	if err == nil {
		err = own
	}
	return err
}

// CopyIn implements seam.Copyable.
func (s *Store) CopyIn(ctx context.Context, t seam.CopyTable, rows [][]any, m seam.CopyMark) error {
	texts, err := list(ctx, s, func(s *zombie.Stmt) (string, error) { return s.ColumnText(0), nil },
		`SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'`, t.String())
	if err != nil {
		return err
	}
	body, digest, names := -1, -1, []string{}
	for i, c := range t.Columns {
		switch {
		case t.String() == "blobs" && c.Name == "body":
			body = i
			continue
		case c.Name == "digest":
			digest = i
		}
		names = append(names, `"`+c.Name+`"`)
	}
	insert := `INSERT INTO ` + copyName(t) + ` (` + strings.Join(names, ", ") + `) VALUES (?` + strings.Repeat(", ?", len(names)-1) + `)`
	return s.write(ctx, func(c *conn) error {
		for _, row := range rows {
			args := make([]any, 0, len(row))
			for i, v := range row {
				if b, ok := v.([]byte); ok && slices.Contains(texts, t.Columns[i].Name) {
					v = string(b)
				} else if v == nil {
					v = []byte(nil)
				}
				if i != body {
					args = append(args, v)
				}
			}
			if err := c.exec(insert, args...); err != nil {
				return err
			}
			if body >= 0 {
				if err := c.exec(`INSERT INTO bodies (digest, body) VALUES (?, ?)`, string(row[digest].([]byte)), row[body]); err != nil {
					return err
				}
			}
		}
		return c.exec(`UPDATE copying SET tbl = ?, key = ?`, m.Table, append([]byte{}, m.Key...))
	})
}

// CopyMark implements seam.Copyable.
func (s *Store) CopyMark(ctx context.Context) (m *seam.CopyMark, err error) {
	there, err := list(ctx, s, sessionID, `SELECT name FROM sqlite_schema WHERE name = 'copying'`)
	if err != nil || len(there) == 0 {
		return nil, err
	}
	at, err := one(ctx, s, func(s *zombie.Stmt) (seam.CopyMark, error) {
		return seam.CopyMark{Source: s.ColumnText(0), Table: s.ColumnText(1), Key: bytes(s, 2)}, nil
	}, rule.NotFound("mark of a copy", parley.SessionID("")), `SELECT source, tbl, key FROM copying`)
	return &at, err
}

// CopyBegin implements seam.Copyable.
func (s *Store) CopyBegin(ctx context.Context, m seam.CopyMark) error {
	return s.write(ctx, func(c *conn) error {
		if err := c.once(`CREATE TABLE copying (source TEXT NOT NULL, tbl TEXT NOT NULL, key BLOB NOT NULL)`); err != nil {
			return err
		}
		return c.exec(`INSERT INTO copying (source, tbl, key) VALUES (?, '', x'')`, m.Source)
	})
}

// CopyEnd implements seam.Copyable.
func (s *Store) CopyEnd(ctx context.Context) error {
	return s.write(ctx, func(c *conn) error { return c.once(`DROP TABLE copying`) })
}
