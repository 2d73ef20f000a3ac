package crm

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

const (
	pageSize    = 20
	maxPageSize = 100
	maxQuery    = 200 // characters of a parameter
	nothing     = "none"
)

// query is what a list is asked for.
type query struct {
	where      []string
	args       []any
	order      string
	fields     []string
	page, size int
	wrong      []problem
	group      field
	seen       map[string]bool
}

func (q *query) bad(name, kind, format string, args ...any) {
	q.wrong = append(q.wrong, problem{[]string{"query", name}, fmt.Sprintf(format, args...), kind})
}

// take returns the value of a parameter.
func (q *query) take(v url.Values, name string) (value string, ok bool) {
	q.seen[name] = true
	list := v[name]
	switch {
	case len(list) == 0:
		return "", false
	case len(list) > 1:
		q.bad(name, "value", "Give one value.")
		return "", false
	case len([]rune(list[0])) > maxQuery:
		q.bad(name, "too_long", "Give at most %d characters.", maxQuery)
		return "", false
	}
	return list[0], list[0] != ""
}

func (q *query) number(v url.Values, name string, low, high, otherwise int) int {
	raw, ok := q.take(v, name)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(raw)
	if err != nil || n < low || n > high {
		q.bad(name, "value", "Give a number from %d to %d.", low, high)
		return otherwise
	}
	return n
}

func (q *query) and(condition string, args ...any) {
	q.where, q.args = append(q.where, condition), append(q.args, args...)
}

// ask reads the parameters of a list, or of a summary.
func (k *kind) ask(org string, v url.Values, summary bool) *query {
	q := &query{seen: map[string]bool{}}
	q.and("t.org = ?", org)
	if words, ok := q.take(v, "q"); ok {
		for _, word := range strings.Fields(fold(words)) {
			var any []string
			for _, f := range k.fields {
				column := "t." + f.name
				switch {
				case f.as != "" && f.typ == ref:
					column = nameOf(f)
				case !f.searched:
					continue
				}
				any = append(any, "instr(fold(coalesce("+column+", '')), ?) > 0")
				q.args = append(q.args, word)
			}
			q.where = append(q.where, "("+strings.Join(any, " OR ")+")")
		}
	}
	for _, f := range k.fields {
		q.filter(f, v)
	}
	if summary {
		by, ok := q.take(v, "group_by")
		if q.group, _ = k.field(by); !ok || !slices.Contains(k.groups, by) {
			q.bad("group_by", "value", "Give one of %s.", strings.Join(k.groups, ", "))
		}
	} else {
		q.page, q.size = q.number(v, "page", 1, 1_000_000, 1), q.number(v, "page_size", 1, maxPageSize, pageSize)
		q.sort(k, v)
		q.choose(k, v)
	}
	for name := range v {
		if !q.seen[name] {
			q.bad(name, "unknown", "There is no such parameter; there are %s.", strings.Join(q.known(), ", "))
		}
	}
	slices.SortFunc(q.wrong, func(a, b problem) int { return strings.Compare(a.Loc[1], b.Loc[1]) })
	return q
}

func (q *query) known() (list []string) {
	for name := range q.seen {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (q *query) filter(f field, v url.Values) {
	column := "t." + f.name
	switch f.filter {
	case none:
	case one:
		raw, ok := q.take(v, f.name)
		switch {
		case !ok:
		case f.typ == flag && raw != "true" && raw != "false":
			q.bad(f.name, "value", "Give true or false.")
		case f.typ == flag:
			q.and(column+" = ?", raw == "true")
		default:
			q.and("fold("+column+") = ?", fold(raw))
		}
	case many:
		raw, ok := q.take(v, f.name)
		if !ok {
			return
		}
		var any []string
		for _, value := range strings.Split(raw, ",") {
			value = strings.TrimSpace(value)
			switch {
			case value == nothing && f.fresh == nil:
				any = append(any, column+" IS NULL")
			case f.typ == enum && !slices.Contains(f.of, value):
				q.bad(f.name, "value", "%q is none of %s.", value, strings.Join(f.of, ", "))
			default:
				any, q.args = append(any, "fold("+column+") = ?"), append(q.args, fold(value))
			}
		}
		if len(any) > 0 {
			q.where = append(q.where, "("+strings.Join(any, " OR ")+")")
		}
	case spans:
		from, until := f.spanned()
		q.bound(f, v, from, false)
		q.bound(f, v, until, true)
	}
}

// bound reads one end of a span. Both ends belong to it.
func (q *query) bound(f field, v url.Values, name string, upper bool) {
	raw, ok := q.take(v, name)
	if !ok {
		return
	}
	op := " >= ?"
	if upper {
		op = " <= ?"
	}
	switch f.typ {
	case whole:
		n, err := strconv.Atoi(raw)
		if err != nil {
			q.bad(name, "value", "Give a number.")
			return
		}
		q.and("t."+f.name+op, n)
	default:
		at, err := time.Parse(time.DateOnly, raw)
		if err == nil {
			if upper && f.typ == when {
				q.and("t."+f.name+" < ?", at.AddDate(0, 0, 1).Format(time.DateOnly))
				return
			}
			q.and("t."+f.name+op, raw)
			return
		}
		if at, err = time.Parse(time.RFC3339, raw); err != nil {
			q.bad(name, "value", "Give a day such as 2026-05-31.")
			return
		}
		if f.typ == day {
			q.and("t."+f.name+op, at.UTC().Format(time.DateOnly))
			return
		}
		q.and("t."+f.name+op, stamp(at))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

func (q *query) sort(k *kind, v url.Values) {
	asked, ok := q.take(v, "sort")
	if !ok {
		asked = k.sort
	}
	var list []string
	for _, name := range strings.Split(asked, ",") {
		name, down := strings.CutPrefix(strings.TrimSpace(name), "-")
		f, ok := k.field(name)
		if !ok || !f.sorted {
			q.bad("sort", "value", "Give one of %s, with a minus for the greatest first.", strings.Join(k.sorts(), ", "))
			return
		}
		by := "t." + name
		switch {
		case f.typ == enum:
			by = "CASE t." + name
			for i, value := range f.of {
				by += fmt.Sprintf(" WHEN '%s' THEN %d", value, i)
			}
			by += " END"
		case f.column() == "TEXT" && f.typ != when && f.typ != day:
			by = "fold(" + by + ")"
		}
		if down {
			by += " DESC"
		}
		list = append(list, by+" NULLS LAST")
	}
	q.order = strings.Join(append(list, "t.n DESC"), ", ")
}

func (k *kind) sorts() (list []string) {
	for _, f := range k.fields {
		if f.sorted {
			list = append(list, f.name)
		}
	}
	return list
}

// choose reads which fields are asked for. The id is always there.
func (q *query) choose(k *kind, v url.Values) {
	q.fields = k.names()
	raw, ok := q.take(v, "fields")
	if !ok {
		return
	}
	chosen := []string{"id"}
	for _, name := range strings.Split(raw, ",") {
		name = strings.TrimSpace(name)
		switch {
		case !slices.Contains(q.fields, name):
			q.bad("fields", "value", "%q is none of %s.", name, strings.Join(q.fields, ", "))
		case !slices.Contains(chosen, name):
			chosen = append(chosen, name)
		}
	}
	q.fields = chosen
}

func (q *query) conditions() string { return strings.Join(q.where, " AND ") }

// list runs a query. The caller holds mu.
func (s *Server) list(k *kind, q *query) (items []record, total int, err error) {
	err = s.rows("SELECT count(*) FROM "+k.name+" t WHERE "+q.conditions(), func(row *sqlite.Stmt) error { total = row.ColumnInt(0); return nil }, q.args...)
	if err != nil {
		return nil, 0, err
	}
	items = []record{}
	err = s.rows("SELECT "+k.columns(q.fields)+" FROM "+k.name+" t WHERE "+q.conditions()+" ORDER BY "+q.order+" LIMIT ? OFFSET ?", func(row *sqlite.Stmt) error {
		items = append(items, k.scan(row, q.fields))
		return nil
	}, append(slices.Clone(q.args), q.size, (q.page-1)*q.size)...)
	return items, total, err
}

// group is a line of a summary.
type group struct {
	Key   any   `json:"key"`
	Name  any   `json:"name"`
	Count int   `json:"count"`
	Sum   int64 `json:"sum"`
}

func (s *Server) summary(k *kind, q *query) (items []group, err error) {
	items = []group{}
	name := "t." + q.group.name
	if q.group.as != "" {
		name = nameOf(q.group)
	}
	err = s.rows("SELECT t."+q.group.name+", "+name+", count(*) AS c, coalesce(sum(t."+k.sum+"), 0) FROM "+k.name+" t WHERE "+q.conditions()+
		" GROUP BY t."+q.group.name+" ORDER BY c DESC, 2 NULLS LAST LIMIT 200", func(row *sqlite.Stmt) error {
		g := group{Count: row.ColumnInt(2), Sum: row.ColumnInt64(3)}
		if row.ColumnType(0) != sqlite.TypeNull {
			g.Key, g.Name = row.ColumnText(0), row.ColumnText(1)
		}
		items = append(items, g)
		return nil
	}, q.args...)
	return items, err
}
