package crm

import (
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// open opens the database, and fills one that is new.
func (s *Server) open() (err error) {
	file := s.o.File
	if file == "" {
		file = ":memory:"
	}
	if s.conn, err = sqlite.OpenConn(file, sqlite.OpenReadWrite, sqlite.OpenCreate); err != nil {
		return fmt.Errorf("open the CRM's database: %w", err)
	}
	defer func() {
		if err != nil {
			_ = s.conn.Close()
		}
	}()
	err = s.conn.CreateFunction("fold", &sqlite.FunctionImpl{
		NArgs: 1, Deterministic: true,
		Scalar: func(_ sqlite.Context, args []sqlite.Value) (sqlite.Value, error) {
			return sqlite.TextValue(fold(args[0].Text())), nil
		},
	})
	if err != nil {
		return err
	}
	fresh := true
	if err := s.rows(`SELECT 1 FROM sqlite_schema WHERE name = 'leads'`, func(*sqlite.Stmt) error { fresh = false; return nil }); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	return s.together(func() error {
		if err := s.tables(); err != nil {
			return err
		}
		if s.o.Empty {
			return nil
		}
		return s.fill()
	})
}

// fold makes texts comparable: small letters, without accents.
func fold(s string) string {
	s = strings.ToLower(norm.NFKD.String(s))
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, strings.NewReplacer("ß", "ss", "ø", "o", "æ", "ae", "ł", "l").Replace(s))
}

func (s *Server) tables() error {
	script := `CREATE TABLE tokens (digest TEXT PRIMARY KEY, user TEXT NOT NULL, until INTEGER NOT NULL) STRICT;
		CREATE TABLE keys (user TEXT, org TEXT, key TEXT, at INTEGER NOT NULL, request TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (user, org, key)) STRICT;
		CREATE TABLE numbers (kind TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT;`
	for _, k := range kinds {
		columns := "id TEXT PRIMARY KEY, n INTEGER NOT NULL, org TEXT NOT NULL"
		for _, f := range k.fields {
			columns += ", " + f.name + " " + f.column()
		}
		script += fmt.Sprintf("CREATE TABLE %s (%s) STRICT; CREATE INDEX %s_of ON %s (org, n); INSERT INTO numbers VALUES ('%s', 0);", k.name, columns, k.name, k.name, k.name)
	}
	return sqlitex.ExecuteScript(s.conn, script, nil)
}

func (f field) column() string {
	if f.typ == whole || f.typ == flag {
		return "INTEGER"
	}
	return "TEXT"
}

// rows runs a query. The caller holds mu.
func (s *Server) rows(query string, each func(*sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(s.conn, query, &sqlitex.ExecOptions{Args: args, ResultFunc: each})
}

func (s *Server) exec(query string, args ...any) error { return s.rows(query, nil, args...) }

// together makes all changes of f, or none. The caller holds mu.
func (s *Server) together(f func() error) (err error) {
	end, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	return f()
}

// nameOf is a query for the name of what a reference in the row t refers to.
func nameOf(f field) string {
	if f.to == "users" {
		query := "CASE t." + f.name
		for _, u := range users {
			query += " WHEN '" + u.ID + "' THEN '" + strings.ReplaceAll(u.Name, "'", "''") + "'"
		}
		return query + " END"
	}
	return "(SELECT name FROM " + f.to + " WHERE id = t." + f.name + ")"
}

// columns are the columns of names, which are fields of k.
func (k *kind) columns(names []string) string {
	var list []string
	for _, name := range names {
		column := "t." + name
		for _, f := range k.fields {
			if f.as == name {
				column = nameOf(f)
			}
		}
		list = append(list, column)
	}
	return strings.Join(list, ", ")
}

// record is a row whose fields come in the order of their names.
type record struct {
	names  []string
	values []any
}

func (r record) get(name string) any {
	for i, n := range r.names {
		if n == name {
			return r.values[i]
		}
	}
	return nil
}

// scan reads a row that was asked for with columns.
func (k *kind) scan(row *sqlite.Stmt, names []string) record {
	r := record{names, make([]any, len(names))}
	for i, name := range names {
		f, _ := k.field(name)
		switch {
		case row.ColumnType(i) == sqlite.TypeNull:
		case f.typ == flag:
			r.values[i] = row.ColumnInt64(i) != 0
		case f.typ == whole:
			r.values[i] = row.ColumnInt64(i)
		default:
			r.values[i] = row.ColumnText(i)
		}
	}
	return r
}

// find returns a record of an organisation, with all its fields.
func (s *Server) find(k *kind, org, id string) (r record, found bool, err error) {
	names := k.names()
	err = s.rows("SELECT "+k.columns(names)+" FROM "+k.name+" t WHERE id = ? AND org = ?", func(row *sqlite.Stmt) error {
		r, found = k.scan(row, names), true
		return nil
	}, id, org)
	return r, found, err
}

// insert adds a record, and returns its id.
func (s *Server) insert(k *kind, org string, values map[string]any) (id string, err error) {
	n := int64(0)
	err = s.rows("UPDATE numbers SET last = last + 1 WHERE kind = ? RETURNING last", func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil }, k.name)
	if err != nil {
		return "", err
	}
	id = fmt.Sprintf("%s-%d", k.one, n)
	names, marks, args := "id, n, org", "?, ?, ?", []any{id, n, org}
	for _, f := range k.fields {
		if v := values[f.name]; v != nil {
			names, marks, args = names+", "+f.name, marks+", ?", append(args, v)
		}
	}
	return id, s.exec("INSERT INTO "+k.name+" ("+names+") VALUES ("+marks+")", args...)
}

// update changes fields of a record.
func (s *Server) update(k *kind, id string, values map[string]any) error {
	var sets []string
	var args []any
	for _, f := range k.fields {
		if v, ok := values[f.name]; ok {
			sets, args = append(sets, f.name+" = ?"), append(args, v)
		}
	}
	return s.exec("UPDATE "+k.name+" SET "+strings.Join(sets, ", ")+" WHERE id = ?", append(args, id)...)
}
