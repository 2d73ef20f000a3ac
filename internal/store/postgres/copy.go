package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/rule"
)

var _ seam.Copyable = (*Store)(nil)

// uncopied are tables about this database alone.
var uncopied = []string{"schema", "nodes", "writers", "app_tables", rule.CopyTable}

// kinds says for each type of column how it becomes bytes or a bigint, and back.
var kinds = map[string]struct{ out, in, order string }{
	"bytea":                    {"%s", "%s::bytea", "%s"},
	"bigint":                   {"%s", "%s::bigint", "%s"},
	"integer":                  {"%s::bigint", "%s::bigint::integer", "%s"},
	"boolean":                  {"%s::integer::bigint", "(%s::bigint <> 0)", "%s"},
	"text":                     {"convert_to(%s, 'UTF8')", "convert_from(%s::bytea, 'UTF8')", `%s COLLATE "C"`},
	"uuid":                     {"convert_to(%s::text, 'UTF8')", "convert_from(%s::bytea, 'UTF8')::uuid", "%s"},
	"json":                     {"convert_to(%s::text, 'UTF8')", "convert_from(%s::bytea, 'UTF8')::json", "%s"},
	"timestamp with time zone": {`convert_to(to_char(%s AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'UTF8')`, "convert_from(%s::bytea, 'UTF8')::timestamptz", "%s"},
}

func isInt(kind string) bool { return slices.Contains([]string{"bigint", "integer", "boolean"}, kind) }

// columnsOf is a query for the columns of the tables that are copied, with their types and
// their place in the key, which is followed there by the columns that the index only includes.
const columnsOf = `SELECT n.nspname, c.relname, a.attname, format_type(a.atttypid, NULL), CASE WHEN array_position(i.indkey::int2[], a.attnum) < i.indnkeyatts THEN array_position(i.indkey::int2[], a.attnum) + 1 ELSE 0 END
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
	WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
	AND (n.nspname = 'parley' OR n.nspname IN (SELECT 'parley_' || app FROM parley.app_tables))
	ORDER BY 1, 2, 3`

// copied is a table with the types of its columns.
type copied struct {
	seam.CopyTable
	kinds []string // as Columns
}

func (s *Store) copied(ctx context.Context) (out []copied, err error) {
	type place struct{ column, at int }
	var last string
	var keys [][]place
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		out, keys, last = nil, nil, ""
		_, err := scan(ctx, c, func(r pgx.Rows) error {
			var schema, table, column, kind string
			var key int
			if err := r.Scan(&schema, &table, &column, &kind, &key); err != nil {
				return err
			}
			app, own := strings.CutPrefix(schema, "parley_")
			if !own {
				app = ""
				if slices.Contains(uncopied, table) {
					return nil
				}
			}
			if name := schema + "." + table; name != last {
				last = name
				out, keys = append(out, copied{CopyTable: seam.CopyTable{App: app, Name: table}}), append(keys, nil)
			}
			if _, ok := kinds[kind]; !ok {
				return fmt.Errorf("the column %s of %s has the type %s, which cannot be copied", column, last, kind)
			}
			if app == "" && column == "usr" {
				column = "user" // a word of SQL's here
			}
			t := &out[len(out)-1]
			if key > 0 {
				keys[len(keys)-1] = append(keys[len(keys)-1], place{len(t.Columns), key})
			}
			t.Columns = append(t.Columns, seam.CopyColumn{Name: column, Int: isInt(kind)})
			t.kinds = append(t.kinds, kind)
			return nil
		}, columnsOf)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		slices.SortFunc(keys[i], func(a, b place) int { return a.at - b.at })
		for _, k := range keys[i] {
			out[i].Key = append(out[i].Key, k.column)
		}
		if len(out[i].Key) == 0 {
			return nil, fmt.Errorf("the table %s has no key, so it cannot be copied", out[i])
		}
	}
	return out, nil
}

// CopyTables implements seam.Copyable.
func (s *Store) CopyTables(ctx context.Context) (out []seam.CopyTable, err error) {
	all, err := s.copied(ctx)
	for _, t := range all {
		out = append(out, t.CopyTable)
	}
	rule.SortTables(out)
	return out, err
}

// of finds the types of a table's columns, in its order.
func (s *Store) typed(ctx context.Context, t seam.CopyTable) (copied, error) {
	all, err := s.copied(ctx)
	if err != nil {
		return copied{}, err
	}
	for _, have := range all {
		if have.String() != t.String() {
			continue
		}
		out := copied{CopyTable: t}
		for _, c := range t.Columns {
			i := slices.Index(have.Columns, c)
			if i < 0 {
				return out, fmt.Errorf("the table %s has no column %s", t, c.Name)
			}
			out.kinds = append(out.kinds, have.kinds[i])
		}
		return out, nil
	}
	return copied{}, fmt.Errorf("there is no table %s", t)
}

// name is the table's own, and column a column's.
func (t copied) name() string {
	if t.App == "" {
		return pgx.Identifier{"parley", t.Name}.Sanitize()
	}
	return pgx.Identifier{"parley_" + t.App, t.Name}.Sanitize()
}

func (t copied) column(i int) string {
	name := t.Columns[i].Name
	if t.App == "" && name == "user" {
		name = "usr"
	}
	return pgx.Identifier{name}.Sanitize()
}

// CopyCount implements seam.Copyable.
func (s *Store) CopyCount(ctx context.Context, t seam.CopyTable) (n int64, err error) {
	err = s.unlimited(ctx, func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FROM `+copied{CopyTable: t}.name()).Scan(&n)
	})
	return n, err
}

// unlimited runs do on a connection of its own whose statements may take as long as they need.
func (s *Store) unlimited(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	c, err := connect(ctx, s.config.ConnConfig)
	if err != nil {
		return outside(err)
	}
	defer drop(c)
	if _, err := c.Exec(ctx, `SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0`); err != nil {
		return outside(err)
	}
	return outside(do(ctx, c))
}

// CopyOut implements seam.Copyable.
func (s *Store) CopyOut(ctx context.Context, of seam.CopyTable, after []any, row func([]any) error) error {
	t, err := s.typed(ctx, of)
	if err != nil {
		return err
	}
	var columns, key, from []string
	for i, kind := range t.kinds {
		columns = append(columns, fmt.Sprintf(kinds[kind].out, t.column(i)))
	}
	for n, i := range t.Key {
		key = append(key, fmt.Sprintf(kinds[t.kinds[i]].order, t.column(i)))
		from = append(from, fmt.Sprintf(kinds[t.kinds[i]].in, "$"+strconv.Itoa(n+1)))
	}
	query := `SELECT ` + strings.Join(columns, ", ") + ` FROM ` + t.name()
	if after != nil {
		query += ` WHERE (` + strings.Join(key, ", ") + `) > (` + strings.Join(from, ", ") + `)`
	}
	query += ` ORDER BY ` + strings.Join(key, ", ")
	var own error
	err = s.unlimited(ctx, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, after...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				return err
			}
			if own = row(values); own != nil {
				return nil
			}
		}
		return rows.Err()
	})
	if err == nil {
		err = own
	}
	return err
}

// CopyIn implements seam.Copyable.
func (s *Store) CopyIn(ctx context.Context, of seam.CopyTable, rows [][]any, m seam.CopyMark) error {
	t, err := s.typed(ctx, of)
	if err != nil {
		return err
	}
	var columns, values []string
	for i, kind := range t.kinds {
		columns = append(columns, t.column(i))
		values = append(values, fmt.Sprintf(kinds[kind].in, "$"+strconv.Itoa(i+1)))
	}
	insert := `INSERT INTO ` + t.name() + ` (` + strings.Join(columns, ", ") + `) VALUES (` + strings.Join(values, ", ") + `)`
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(long)
		for _, row := range rows {
			b.Queue(insert, row...)
		}
		b.Queue(`UPDATE parley.copying SET tbl = $1, key = $2`, m.Table, notNil(m.Key))
		return tx.SendBatch(ctx, b).Close()
	})
}

// CopyMark implements seam.Copyable.
func (s *Store) CopyMark(ctx context.Context) (m *seam.CopyMark, err error) {
	err = s.view(ctx, func(ctx context.Context, c *pgx.Conn) error {
		m = nil
		var there bool
		if err := c.QueryRow(ctx, isCopying).Scan(&there); err != nil || !there {
			return err
		}
		m = &seam.CopyMark{}
		err := c.QueryRow(ctx, `SELECT source, tbl, key FROM parley.copying`).Scan(&m.Source, &m.Table, &m.Key)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errors.New("the mark of the copy is empty")
		}
		return err
	})
	return m, err
}

const isCopying = `SELECT EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'parley' AND c.relname = 'copying')`

// CopyBegin implements seam.Copyable.
func (s *Store) CopyBegin(ctx context.Context, m seam.CopyMark) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `CREATE TABLE parley.copying (source text NOT NULL, tbl text NOT NULL, key bytea NOT NULL)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO parley.copying (source, tbl, key) VALUES ($1, '', '')`, m.Source)
		return err
	})
}

// CopyEnd implements seam.Copyable. New versions of rows begin after those that were copied.
func (s *Store) CopyEnd(ctx context.Context) error {
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT setval('index_rows_version', greatest((SELECT coalesce(max(version), 0) FROM index_rows), (SELECT last_value FROM index_rows_version)) + 1)`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DROP TABLE parley.copying`)
		return err
	})
}
