package lake

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wiki"
)

// Faults is a page of what is wrong, in the order of the entities and their lines.
type Faults = parley.EntityFaults

// Validate looks what is wrong with entities: their front matter cannot be read or is missing, links lead nowhere, or names differ
// only in case. Paths are entities or folders; none: all.
func (l *Lake) Validate(ctx context.Context, paths []string, p Page) (v Faults, err error) {
	v.Faults = []Fault{}
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		var in []string
		for _, name := range paths {
			if strings.Trim(name, "/.") == "" {
				continue
			}
			f, err := find(c, strings.TrimSuffix(name, "/"))
			if err == nil {
				in = append(in, f.Path)
				continue
			}
			dir := strings.Trim(name, "/") + "/"
			some := false
			if err := each(c, `SELECT 1 FROM file WHERE entity = 1 AND substr(path, 1, length(?1)) = ?1 LIMIT 1`, []any{dir}, func(*sqlite.Stmt) error { some = true; return nil }); err != nil {
				return err
			}
			if !some {
				return err
			}
			in = append(in, dir)
		}
		return validate(&v, c, in, p)
	})
	return v, err
}

func validate(v *Faults, c *sqlite.Conn, in []string, p Page) error {
	most := p.limit()
	a := alikes{c, map[string][]string{}}
	type entity struct {
		found
		faults []Fault
		front  string
	}
	one := func(e entity) error {
		list := e.faults
		if missing := missingFront(e.Entity, e.front == "null" && !unreadable(e.faults)); missing != nil {
			list = append(list, *missing)
		}
		var links []wiki.Link
		if err := linksOf(c, `l.file = ?`, []any{e.id}, func(_ string, _ int64, w wiki.Link) error { links = append(links, w); return nil }); err != nil {
			return err
		}
		for _, w := range links {
			to, err := a.resolve(e.Path, w)
			if err != nil {
				return err
			}
			if to == "" {
				list = append(list, brokenLink(e.Path, w))
				continue
			}
			if f, err := headingFault(c, e.Path, to, w); err != nil {
				return err
			} else if f != nil {
				list = append(list, *f)
			}
		}
		alike := ""
		if err := each(c, `SELECT path FROM file WHERE fold = ? AND path <> ? ORDER BY path LIMIT 1`, []any{wiki.Fold(e.Path), e.Path}, func(st *sqlite.Stmt) error { alike = st.ColumnText(0); return nil }); err != nil {
			return err
		}
		if alike != "" {
			list = append(list, Fault{Path: e.Path, Line: 1, Rule: "name", Message: fmt.Sprintf("its name differs from that of %s only in case or Unicode form; some file systems have room for one of them only", alike)})
		}
		sortFaults(list)
		v.Faults = append(v.Faults, list...)
		return nil
	}
	var all []entity
	err := each(c, `SELECT `+columns+`, f.faults, f.front FROM file f WHERE f.entity = 1 AND f.path > ? ORDER BY f.path`, []any{p.After}, func(st *sqlite.Stmt) error {
		id, e, err := row(st)
		x := entity{found: found{id, e}, front: st.ColumnText(12)}
		if len(in) > 0 && !slices.ContainsFunc(in, func(p string) bool { return p == e.Path || strings.HasSuffix(p, "/") && strings.HasPrefix(e.Path, p) }) {
			return nil
		}
		if err == nil {
			err = json.Unmarshal([]byte(st.ColumnText(11)), &x.faults)
		}
		all = append(all, x)
		return err
	})
	if err != nil {
		return err
	}
	for i, e := range all {
		if err := one(e); err != nil {
			return err
		}
		// A page ends between two entities.
		if len(v.Faults) >= most && i+1 < len(all) {
			v.Next = e.Path
			return nil
		}
	}
	return nil
}

func sortFaults(list []Fault) {
	slices.SortStableFunc(list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
}

// missingFront says what the front matter of an entity lacks. Pages of the first folder, such as README.md, need none.
func missingFront(e Entity, none bool) *Fault {
	if !strings.Contains(e.Path, "/") || e.Version == "" {
		return nil
	}
	if none {
		return &Fault{Path: e.Path, Line: 1, Rule: "front-matter", Message: "it has no front matter with a kind and a title"}
	}
	return nil
}

// unreadable reports whether there is front matter that cannot be read.
func unreadable(list []Fault) bool {
	return slices.ContainsFunc(list, func(f Fault) bool { return f.Rule == "front-matter" })
}

func brokenLink(from string, w wiki.Link) Fault {
	as := w.To
	if w.Wiki {
		as = "[[" + w.To + "]]"
	}
	return Fault{Path: from, Line: w.Line, Rule: "broken-link", Message: fmt.Sprintf("the link %s leads to no file", parley.Cut(as, 200))}
}

// brokenFaults are those of an entity that was read.
func brokenFaults(e Entity) (list []Fault) {
	for _, l := range e.Links {
		if l.Broken {
			list = append(list, brokenLink(e.Path, wiki.Link{Wiki: l.Kind == "wiki", To: l.Target, Line: l.Line}))
		}
	}
	if f := missingFront(e, e.Front == nil && !unreadable(e.Faults)); f != nil {
		list = append(list, *f)
	}
	return list
}

// headingFault says that a link names a heading that is not there.
func headingFault(c *sqlite.Conn, from, to string, w wiki.Link) (*Fault, error) {
	if w.Heading == "" || !wiki.IsNote(to) || strings.HasPrefix(w.Heading, "^") {
		return nil, nil // no heading, or a block
	}
	var headings []string
	err := each(c, `SELECT headings FROM file WHERE path = ? AND entity = 1`, []any{to}, func(st *sqlite.Stmt) error {
		return json.Unmarshal([]byte(st.ColumnText(0)), &headings)
	})
	if err != nil {
		return nil, err
	}
	want := w.Heading[strings.LastIndexByte(w.Heading, '#')+1:]
	if slices.ContainsFunc(headings, func(h string) bool { return slug(h) == slug(want) }) {
		return nil, nil
	}
	return &Fault{Path: from, Line: w.Line, Rule: "broken-heading", Message: fmt.Sprintf("%s has no heading %q", to, parley.Cut(want, 100))}, nil
}

// slug is a heading as links compare it: as web pages name them.
func slug(h string) string {
	var b strings.Builder
	for _, r := range wiki.Fold(h) {
		switch {
		case r == ' ' || r == '-' || r == '_':
			b.WriteByte('-')
		case r < 0x80 && !('a' <= r && r <= 'z' || '0' <= r && r <= '9'):
		default:
			b.WriteRune(r)
		}
	}
	return strings.Trim(b.String(), "-")
}
