package sqlite

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

var _ seam.Copyable = (*Store)(nil)

// uncopied are tables and columns about this file alone. The bodies of blobs are copied as a
// column, holdings are counted from the sessions, and spans from the events.
var uncopied = []string{"probe", "bodies", "app_tables", "holdings", "spans", "events.at", "sessions.tail", "sessions.direct", "sessions.waits", rule.CopyTable}

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
		if slices.Contains(uncopied, c.table) || slices.Contains(uncopied, c.table+"."+c.name) {
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
	// The keys of rows elsewhere; versions and rows of events are this file's way to number them.
	keys["events"] = []column{{name: "session", key: 1}, {name: "seq", key: 2}}
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
	events := t.String() == "events"
	if t.String() == "blobs" {
		query += ` JOIN bodies USING (digest)`
	}
	var args []any
	switch {
	case events:
		query += ` WHERE at BETWEEN ? AND ? AND (session, seq) > (?, ?)`
		key = "at"
	case after != nil:
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
		each := func(s *zombie.Stmt) error {
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
		}
		run := func(args ...any) error { return c.rows(query+` ORDER BY `+key, each, args...) }
		var err error
		if events {
			err = eachSpan(c, after, run)
		} else {
			err = run(args...)
		}
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

// eachSpan calls do for the spans of all logs in the order of the keys of their events, from the one after the given
// key on, with the rows and with that key.
func eachSpan(c *conn, after []any, do func(args ...any) error) error {
	session, seq := "", int64(0)
	if after != nil {
		session, seq = string(after[0].([]byte)), after[1].(int64)
	}
	var logs []parley.SessionID
	err := c.rows(`SELECT session FROM spans WHERE session >= ?1 UNION SELECT id FROM sessions WHERE id >= ?1 ORDER BY 1`, func(s *zombie.Stmt) error {
		logs = append(logs, parley.SessionID(s.ColumnText(0)))
		return nil
	}, session)
	if err != nil {
		return err
	}
	for _, log := range logs {
		all, err := spansOf(c, log, 0, math.MaxInt64)
		if err != nil {
			return err
		}
		for _, sp := range all {
			if string(log) == session && sp.last <= seq {
				continue
			}
			if err := do(sp.at, sp.end(), session, seq); err != nil {
				return err
			}
		}
	}
	return nil
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
	values := `?` + strings.Repeat(", ?", len(names)-1)
	if t.String() == "sessions" { // whose computed columns are as migration 0015 makes them
		names = append(names, "direct", "waits")
		info, held := "?"+strconv.Itoa(1+column(t, "info")), "?"+strconv.Itoa(1+column(t, "held"))
		values += `, instr(` + info + `, CAST(',"direct":true' AS BLOB)) > 0,
			` + held + ` = 1 AND (instr(` + info + `, CAST('"waiting":0' AS BLOB)) = 0 OR instr(` + info + `, CAST('"status":"waiting"' AS BLOB)) > 0)`
	}
	insert := `INSERT INTO ` + copyName(t) + ` (` + strings.Join(names, ", ") + `) VALUES (` + values + `)`
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
			if t.String() == "events" {
				if err := arrived(c, parley.SessionID(row[column(t, "session")].([]byte)), row[column(t, "seq")].(int64)); err != nil {
					return err
				}
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

func column(t seam.CopyTable, name string) int {
	return slices.IndexFunc(t.Columns, func(c seam.CopyColumn) bool { return c.Name == name })
}

// arrived adds the event that was inserted last to the spans of its log.
func arrived(c *conn, log parley.SessionID, seq int64) error {
	at, body := span{seq, seq, c.LastInsertRowID()}, ""
	err := c.rows(`SELECT body FROM spans WHERE session = ? ORDER BY first DESC LIMIT 1`, func(s *zombie.Stmt) error {
		body = s.ColumnText(0)
		return nil
	}, string(log))
	if err != nil {
		return err
	}
	last, err := parseSpans(body)
	if err != nil {
		return err
	}
	if n := len(last); n == 1 && last[0].last+1 == seq && last[0].end()+1 == at.at {
		at.first, at.at = last[0].first, last[0].at
		return c.exec(`UPDATE spans SET body = ? WHERE session = ? AND first = ?`, at.String(), string(log), at.first)
	}
	return storeSpans(c, log, []span{at})
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
