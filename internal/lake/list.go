package lake

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/files"
	"github.com/parley-server/parley/internal/wiki"
)

// Filter chooses entities. Empty fields choose all.
type Filter struct {
	Kind, Owner, Status string
	Tag                 string
	Folder              string // in it, at any depth; with slashes
	Prefix              string // of the path
	Title               string // of the title, without regard to case
}

// Page says which part of a list is wanted.
type Page struct {
	After string // what the page before says is next; "": the first
	Limit int    // 0: 50; at most 500
}

func (p Page) limit() int {
	if p.Limit <= 0 {
		return 50
	}
	return min(p.Limit, 500)
}

// List is a page of entities, in the order of the bytes of their paths.
type List = parley.EntityList

// where is the condition of a filter on the table file as f.
func (f Filter) where() (cond string, args []any) {
	conds := []string{"f.entity = 1"}
	is := func(c string, v any) { conds = append(conds, c); args = append(args, v) }
	for _, c := range [][2]string{{"f.kind = ?", f.Kind}, {"f.owner = ?", f.Owner}, {"f.status = ?", f.Status}} {
		if c[1] != "" {
			is(c[0], c[1])
		}
	}
	if t := strings.TrimPrefix(f.Tag, "#"); t != "" {
		is("f.id IN (SELECT file FROM tag WHERE tag = ?)", t)
	}
	if dir := strings.Trim(f.Folder, "/"); dir != "" && dir != "." {
		is("f.path >= ? AND f.path < ?", dir+"/")
		args = append(args, dir+"0") // the character behind the slash
	}
	if f.Prefix != "" {
		is("substr(f.path, 1, length(?)) = ?", f.Prefix)
		args = append(args, f.Prefix)
	}
	if f.Title != "" {
		is("instr(lower(f.title), lower(?)) > 0", f.Title)
	}
	return strings.Join(conds, " AND "), args
}

const columns = `f.id, f.path, f.kind, f.title, f.owner, f.status, f.created, f.updated, f.version, f.size, f.tags`

// row reads the columns.
func row(st *sqlite.Stmt) (id int64, e Entity, err error) {
	e = Entity{
		Path: st.ColumnText(1), Kind: st.ColumnText(2), Title: st.ColumnText(3), Owner: st.ColumnText(4), Status: st.ColumnText(5),
		Created: st.ColumnText(6), Updated: st.ColumnText(7), Version: st.ColumnText(8), Size: st.ColumnInt64(9),
	}
	err = json.Unmarshal([]byte(st.ColumnText(10)), &e.Tags)
	return st.ColumnInt64(0), e, err
}

func each(c *sqlite.Conn, query string, args []any, f func(st *sqlite.Stmt) error) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: f})
}

// List lists entities.
func (l *Lake) List(ctx context.Context, f Filter, p Page) (list List, err error) {
	list.Entities = []Entity{}
	cond, args := f.where()
	most := p.limit()
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		return each(c, `SELECT `+columns+` FROM file f WHERE `+cond+` AND f.path > ? ORDER BY f.path LIMIT ?`, append(args, p.After, most+1), func(st *sqlite.Stmt) error {
			_, e, err := row(st)
			list.Entities = append(list.Entities, e)
			return err
		})
	})
	if len(list.Entities) > most {
		list.Entities = list.Entities[:most]
		list.Next = list.Entities[most-1].Path
	}
	return list, err
}

// Tags counts the entities of each tag.
func (l *Lake) Tags(ctx context.Context) (tags map[string]int, err error) {
	tags = map[string]int{}
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		return each(c, `SELECT tag, count(*) FROM tag GROUP BY tag ORDER BY tag LIMIT 5000`, nil, func(st *sqlite.Stmt) error {
			tags[st.ColumnText(0)] = st.ColumnInt(1)
			return nil
		})
	})
	return tags, err
}

// found is an entity in the index.
type found struct {
	id int64
	Entity
}

// find finds an entity by its path, or by one that differs in case, Unicode form or the ending, if only one does.
func find(c *sqlite.Conn, name string) (f found, err error) {
	clean, err := files.Clean(name)
	if err != nil {
		return f, err
	}
	var list []found
	fold := wiki.Fold(clean)
	err = each(c, `SELECT `+columns+` FROM file f WHERE f.entity = 1 AND f.fold IN (?1, ?1 || '.md', ?1 || '.markdown') ORDER BY f.path LIMIT 10`, []any{fold}, func(st *sqlite.Stmt) error {
		id, e, err := row(st)
		list = append(list, found{id, e})
		return err
	})
	if err != nil {
		return f, err
	}
	for _, like := range []func(p string) bool{func(p string) bool { return p == clean }, func(p string) bool { return wiki.Fold(p) == fold }, func(string) bool { return true }} {
		var fit []found
		for _, e := range list {
			if like(e.Path) {
				fit = append(fit, e)
			}
		}
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			break
		}
	}
	if len(list) > 1 {
		return f, parley.Errorf(parley.CodeConflict, "%q may be %s or %s", parley.Cut(name, 200), list[0].Path, list[1].Path).WithHint("give the whole path")
	}
	return f, notFound(name)
}

// Read reads an entity, with all that is known of it.
func (l *Lake) Read(ctx context.Context, name string) (e Entity, err error) {
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		f, err := find(c, name)
		if err != nil {
			return err
		}
		body, err := l.body(f.Path)
		if err != nil {
			return err
		}
		p := parse(f.Path, body) // the file may be newer than the index
		e = p.Entity
		e.Body = string(body)
		if e.Links, err = resolve(c, f.Path, p.links); err != nil {
			return err
		}
		e.Faults = append(e.Faults, brokenFaults(e)...)
		sortFaults(e.Faults)
		return nil
	})
	return e, err
}

// alikes finds the files that links with a key may lead to, and remembers them.
type alikes struct {
	c     *sqlite.Conn
	known map[string][]string
}

func (a *alikes) of(key string) ([]string, error) {
	if list, ok := a.known[key]; ok || key == "" {
		return list, nil
	}
	var list []string
	err := each(a.c, `SELECT path FROM file WHERE key = ? ORDER BY path`, []any{key}, func(st *sqlite.Stmt) error {
		list = append(list, st.ColumnText(0))
		return nil
	})
	a.known[key] = list
	return list, err
}

func (a *alikes) resolve(from string, l wiki.Link) (string, error) {
	if l.To == "" {
		return from, nil
	}
	list, err := a.of(wiki.Key(l.To))
	if err != nil {
		return "", err
	}
	if to := wiki.Resolve(from, l, list); to != "" {
		return to, nil
	}
	return a.folder(from, l)
}

// folder is the folder that a Markdown link leads to, with a slash at its end; "": to none.
func (a *alikes) folder(from string, l wiki.Link) (string, error) {
	at := folderOf(from, l)
	if at == "" || at == "./" {
		return at, nil
	}
	key := "folder " + at // no key of a name has a slash
	if list, ok := a.known[key]; ok {
		return strings.Join(list, ""), nil
	}
	var list []string
	fold := wiki.Fold(at)
	err := each(a.c, `SELECT path FROM file WHERE fold >= ? AND fold < ? LIMIT 1`, []any{fold, strings.TrimSuffix(fold, "/") + "0"}, func(st *sqlite.Stmt) error {
		// As long as the link's in elements. In bytes a name may have another length, in another Unicode form.
		parts := strings.SplitAfter(st.ColumnText(0), "/")
		list = append(list, parts[:strings.Count(at, "/")]...)
		return nil
	})
	a.known[key] = list
	return strings.Join(list, ""), err
}

// folderOf is the folder that a Markdown link would lead to; "": none of the lake's.
func folderOf(from string, l wiki.Link) string {
	if l.Wiki || l.To == "" {
		return ""
	}
	at := path.Join(path.Dir(from), l.To)
	if strings.HasPrefix(l.To, "/") {
		at = path.Join(".", strings.TrimLeft(l.To, "/"))
	}
	if at == ".." || strings.HasPrefix(at, "../") {
		return ""
	}
	return at + "/"
}

// resolve says where links lead.
func resolve(c *sqlite.Conn, from string, links []wiki.Link) ([]Link, error) {
	a := alikes{c, map[string][]string{}}
	list := make([]Link, 0, len(links))
	for _, w := range links {
		to, err := a.resolve(from, w)
		if err != nil {
			return nil, err
		}
		l := Link{Text: w.Text, Target: w.To, Head: w.Heading, Path: to, Line: w.Line, Kind: "markdown", Broken: to == ""}
		if w.Wiki {
			l.Kind = "wiki"
		}
		list = append(list, l)
	}
	return list, nil
}

// Links are the links of an entity, in their order.
func (l *Lake) Links(ctx context.Context, name string) ([]Link, error) {
	e, err := l.Read(ctx, name)
	return e.Links, err
}

// links reads links from the index.
func linksOf(c *sqlite.Conn, cond string, args []any, f func(from string, id int64, l wiki.Link) error) error {
	return each(c, `SELECT f.path, f.id, l.wiki, l.target, l.heading, l.text, l.line FROM link l JOIN file f ON f.id = l.file WHERE `+cond+` ORDER BY f.path, l.n`, args, func(st *sqlite.Stmt) error {
		return f(st.ColumnText(0), st.ColumnInt64(1), wiki.Link{
			Wiki: st.ColumnBool(2), To: st.ColumnText(3), Heading: st.ColumnText(4), Text: st.ColumnText(5), Line: st.ColumnInt(6),
		})
	})
}

// Backlinks is a page of the links that lead to an entity, or to another file of the lake.
type Backlinks = parley.EntityBacklinks

// Backlinks lists the links to an entity, in the order of the entities that have them.
func (l *Lake) Backlinks(ctx context.Context, name string, p Page) (b Backlinks, err error) {
	b.Links = []Backlink{}
	most := p.limit()
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		target, err := anyFile(c, name)
		if err != nil {
			return err
		}
		a := alikes{c, map[string][]string{}}
		titles := map[string]string{}
		err = linksOf(c, `l.key = ? AND f.path > ?`, []any{wiki.Key(target), p.After}, func(from string, id int64, w wiki.Link) error {
			if b.Next != "" || from == target {
				return nil
			}
			to, err := a.resolve(from, w)
			if err != nil || to != target {
				return err
			}
			// A page ends between two entities.
			if n := len(b.Links); n >= most && b.Links[n-1].Path != from {
				b.Next = b.Links[n-1].Path
				return nil
			}
			b.Links = append(b.Links, Backlink{Path: from, Line: w.Line})
			titles[from] = ""
			return nil
		})
		if err != nil {
			return err
		}
		return l.lines(c, b.Links)
	})
	return b, err
}

// lines adds to backlinks the titles, and the lines as they are in the files.
func (l *Lake) lines(c *sqlite.Conn, list []Backlink) error {
	var body []string
	title, last := "", ""
	for i := range list {
		b := &list[i]
		if b.Path != last {
			last, title, body = b.Path, "", nil
			if err := each(c, `SELECT title FROM file WHERE path = ?`, []any{b.Path}, func(st *sqlite.Stmt) error { title = st.ColumnText(0); return nil }); err != nil {
				return err
			}
			if raw, err := l.read(b.Path); err == nil {
				body = strings.Split(string(raw), "\n")
			}
		}
		b.Title = title
		if b.Line > 0 && b.Line <= len(body) {
			b.Text = parley.Cut(strings.ToValidUTF8(strings.TrimSpace(body[b.Line-1]), "\uFFFD"), 200)
		}
	}
	return nil
}

// anyFile finds an entity, or another file by its path.
func anyFile(c *sqlite.Conn, name string) (string, error) {
	f, err := find(c, name)
	if err == nil {
		return f.Path, nil
	}
	clean, cerr := files.Clean(name)
	if cerr != nil {
		return "", cerr
	}
	is := ""
	if other := each(c, `SELECT path FROM file WHERE path = ?`, []any{clean}, func(st *sqlite.Stmt) error { is = st.ColumnText(0); return nil }); other != nil {
		return "", other
	}
	if is == "" {
		return "", err
	}
	return is, nil
}

// Node and Edge are of a [Graph].
type (
	Node = parley.EntityNode
	Edge = parley.EntityEdge
)

// Graph is the entities and the links among them. It is whole, so a large lake's is large; Cut says that there is more.
type Graph = parley.EntityGraph

const (
	maxGraphNodes = 20_000
	maxGraphEdges = 100_000
)

// Graph returns the graph of the entities that a filter chooses. Links to others are left out.
func (l *Lake) Graph(ctx context.Context, f Filter) (g Graph, err error) {
	g = Graph{Nodes: []Node{}, Edges: []Edge{}}
	cond, args := f.where()
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		in := map[string]bool{}
		err := each(c, `SELECT f.path, f.title, f.kind FROM file f WHERE `+cond+` ORDER BY f.path`, args, func(st *sqlite.Stmt) error {
			if len(g.Nodes) >= maxGraphNodes {
				g.Cut = true
				return nil
			}
			n := Node{Path: st.ColumnText(0), Title: st.ColumnText(1), Kind: st.ColumnText(2)}
			in[n.Path] = true
			g.Nodes = append(g.Nodes, n)
			return nil
		})
		if err != nil {
			return err
		}
		a := alikes{c, map[string][]string{}}
		at := map[string]int{} // of the edges of the entity that is looked at
		last := ""
		return linksOf(c, cond, args, func(from string, _ int64, w wiki.Link) error {
			if !in[from] {
				return nil
			}
			if from != last {
				last = from
				clear(at)
			}
			to, err := a.resolve(from, w)
			switch i, ok := at[to]; {
			case err != nil || to == from:
				return err
			case to == "":
				g.Broken++
			case !in[to]:
			case ok:
				g.Edges[i].N++
			case len(g.Edges) >= maxGraphEdges:
				g.Cut = true
			default:
				at[to] = len(g.Edges)
				g.Edges = append(g.Edges, Edge{From: from, To: to, N: 1})
			}
			return nil
		})
	})
	return g, err
}

// Folder is a folder of the tree, with how many entities are in it at any depth.
type Folder = parley.EntityFolder

// Tree is what is directly in a folder.
type Tree = parley.EntityTree

// Tree lists a folder; "" is the lake itself.
func (l *Lake) Tree(ctx context.Context, dir string, p Page) (t Tree, err error) {
	t = Tree{Folders: []Folder{}, Entities: []Entity{}}
	dir = strings.Trim(dir, "/")
	if dir != "" {
		if dir, err = files.Clean(dir); err != nil {
			return t, err
		}
		if dir == "." {
			dir = ""
		}
	}
	below := ""
	if dir != "" {
		below = dir + "/"
	}
	cond, args := Filter{Folder: dir}.where()
	most := p.limit()
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		err := each(c, `SELECT substr(rest, 1, instr(rest, '/') - 1), count(*) FROM (SELECT substr(f.path, ?) AS rest FROM file f WHERE `+cond+`) WHERE instr(rest, '/') > 0 GROUP BY 1 ORDER BY 1`,
			append([]any{len([]rune(below)) + 1}, args...), func(st *sqlite.Stmt) error {
				t.Folders = append(t.Folders, Folder{Path: below + st.ColumnText(0), Entities: st.ColumnInt(1)})
				return nil
			})
		if err != nil {
			return err
		}
		return each(c, `SELECT `+columns+` FROM file f WHERE `+cond+` AND instr(substr(f.path, ?), '/') = 0 AND f.path > ? ORDER BY f.path LIMIT ?`,
			append(slices.Clone(args), len([]rune(below))+1, p.After, most+1), func(st *sqlite.Stmt) error {
				_, e, err := row(st)
				t.Entities = append(t.Entities, e)
				return err
			})
	})
	if len(t.Entities) > most {
		t.Entities = t.Entities[:most]
		t.Next = t.Entities[most-1].Path
	}
	return t, err
}
