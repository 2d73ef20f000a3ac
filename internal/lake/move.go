package lake

import (
	"context"
	"net/url"
	"path"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/wiki"
)

// move plans a move. Every link leads to the same file before and after it.
func (k *changer) move(ctx context.Context, b gitrepo.Base) (p gitrepo.Plan, err error) {
	to := k.c.To
	s, err := k.l.working(ctx, b, k.at)
	if err != nil {
		return p, err
	}
	target, err := k.l.working(ctx, b, to)
	if err != nil {
		return p, err
	}
	switch {
	case !s.there:
		return p, notFound(k.c.Path)
	case to == k.at:
		k.made = Made{Path: to, Version: s.version()}
		return p, nil
	case target.there || target.commits:
		return p, parley.Errorf(parley.CodeConflict, "there is an entity %s already", to).WithField("to").WithHint("choose another name")
	case k.c.Base != "" && k.c.Base != s.version():
		return p, conflict(s.path, s.version(), nil)
	case !s.clean():
		p.TakeIn = []string{s.path} // a move takes the whole file along
		return p, nil
	}
	// A look at all files: which links are affected depends on them.
	if err := k.l.x.follow(ctx, -1); err != nil {
		return p, err
	}
	change, err := k.affected(ctx)
	if err != nil {
		return p, err
	}
	r := rewriter{old: k.at, to: to, before: change.before, after: change.after, folders: change.folders}
	body := r.rewrite(k.at, string(s.work))
	k.made = Made{Path: to, Version: VersionOf([]byte(body))}
	if err := b.Look(ctx, change.notes...); err != nil {
		return p, err
	}
	for _, name := range change.notes {
		if name == k.at {
			continue
		}
		o, err := k.l.working(ctx, b, name)
		if err != nil || !o.there {
			continue // it has no links that could be changed
		}
		now := r.rewrite(name, string(o.work))
		if now == string(o.work) {
			continue
		}
		if p, err = k.put(p, o, now); err != nil {
			return p, err
		}
		k.made.Rewritten = append(k.made.Rewritten, name)
	}
	if len(p.TakeIn) > 0 {
		return p, nil
	}
	p.Edits = append(p.Edits, gitrepo.Edit{Path: k.at, Gone: true}, gitrepo.Edit{Path: to, Body: []byte(body)})
	return p, nil
}

// affected are the notes with links that a move may change, and the files by key before and after it.
type affected struct {
	notes         []string
	before, after map[string][]string
	folders       map[string]bool // those that the moved entity links to
}

func (k *changer) affected(ctx context.Context) (a affected, err error) {
	a.before, a.after, a.folders = map[string][]string{}, map[string][]string{}, map[string]bool{}
	err = k.l.x.with(ctx, func(c *sqlite.Conn) error {
		keys := []string{wiki.Key(k.at), wiki.Key(k.c.To)}
		// Also what the moved entity links to is looked up.
		seen := alikes{c, map[string][]string{}}
		if err := linksOf(c, `f.path = ?`, []any{k.at}, func(_ string, _ int64, w wiki.Link) error {
			if w.To != "" {
				keys = append(keys, wiki.Key(w.To))
			}
			to, err := seen.folder(k.at, w)
			if to != "" {
				a.folders[folderOf(k.at, w)] = true
			}
			return err
		}); err != nil {
			return err
		}
		slices.Sort(keys)
		all := alikes{c, a.before}
		for _, key := range slices.Compact(keys) {
			list, err := all.of(key)
			if err != nil {
				return err
			}
			after := slices.DeleteFunc(slices.Clone(list), func(p string) bool { return p == k.at })
			if key == wiki.Key(k.c.To) {
				after = append(after, k.c.To)
				slices.Sort(after)
			}
			a.after[key] = after
		}
		return each(c, `SELECT DISTINCT f.path FROM link l JOIN file f ON f.id = l.file WHERE l.key IN (?, ?) ORDER BY f.path`, []any{wiki.Key(k.at), wiki.Key(k.c.To)}, func(st *sqlite.Stmt) error {
			a.notes = append(a.notes, st.ColumnText(0))
			if len(a.notes) > maxRewritten {
				return parley.Errorf(parley.CodeTooLarge, "more than %d entities link to it, or to others of its name", maxRewritten)
			}
			return nil
		})
	})
	return a, err
}

// rewriter rewrites links for a move.
type rewriter struct {
	old, to       string
	before, after map[string][]string // files by key
	folders       map[string]bool     // as links of the moved note name them
}

// rewrite returns a note with links that lead where they led. from is the path of the note before the move.
func (r rewriter) rewrite(from, body string) string {
	_, rest, line := splitFront([]byte(body))
	if rest == nil {
		rest, line = []byte(body), 1
	}
	links := wiki.Parse(rest, line, len(body)-len(rest)).Links
	now := from
	if from == r.old {
		now = r.to
	}
	var b strings.Builder
	at := 0
	for _, l := range links {
		written, changed := r.link(from, now, l, body)
		if !changed || l.Start < at {
			continue
		}
		b.WriteString(body[at:l.Start])
		b.WriteString(written)
		at = l.End
	}
	b.WriteString(body[at:])
	return b.String()
}

// link is how a link has to be written.
func (r rewriter) link(from, now string, l wiki.Link, body string) (written string, changed bool) {
	if l.To == "" {
		return "", false
	}
	key := wiki.Key(l.To)
	led := wiki.Resolve(from, l, r.before[key])
	if led == "" {
		return r.folder(from, now, l, body)
	}
	want := led
	if led == r.old {
		want = r.to
	}
	if wiki.Resolve(now, l, r.after[key]) == want {
		return "", false
	}
	raw := body[l.Start:l.End]
	if l.Wiki {
		return r.wiki(now, want, raw, l), true
	}
	rel := relative(now, want)
	if strings.HasPrefix(l.To, "/") {
		rel = "/" + want
	}
	if !wiki.IsNote(l.To) && wiki.IsNote(want) { // the link leaves out the ending
		if cut := strings.TrimSuffix(rel, path.Ext(rel)); path.Ext(cut) == "" {
			rel = cut
		}
	}
	tail := ""
	if i := strings.IndexAny(raw, "#?"); i >= 0 {
		tail = raw[i:]
	}
	return asWritten(rel, l) + tail, true
}

// folder is how a link to a folder has to be written.
func (r rewriter) folder(from, now string, l wiki.Link, body string) (written string, changed bool) {
	at := folderOf(from, l)
	if !r.folders[at] || path.Dir(from) == path.Dir(now) || strings.HasPrefix(l.To, "/") {
		return "", false // it was broken, or needs no change
	}
	rel := path.Clean(relative(now, strings.TrimSuffix(at, "/")))
	if strings.HasSuffix(l.To, "/") {
		rel += "/"
	}
	tail := ""
	if i := strings.IndexAny(body[l.Start:l.End], "#?"); i >= 0 {
		tail = body[l.Start:l.End][i:]
	}
	return asWritten(rel, l) + tail, true
}

// asWritten is a path in a Markdown link.
func asWritten(p string, l wiki.Link) string {
	if l.Angled {
		return strings.NewReplacer("<", `\<`, ">", `\>`).Replace(p)
	}
	return escape(p)
}

// escape writes a path in a Markdown link.
func escape(p string) string {
	return strings.NewReplacer("%", "%25", " ", "%20", "(", "%28", ")", "%29", "#", "%23", "?", "%3F", "<", "%3C", ">", "%3E", `"`, "%22", `\`, "%5C", "&", "%26", "\t", url.PathEscape("\t")).Replace(p)
}

// wiki is how a wiki link names a file: by its name if that is enough, else by its whole path.
func (r rewriter) wiki(now, want, raw string, l wiki.Link) string {
	ending := ""
	if wiki.IsNote(l.To) || !wiki.IsNote(want) {
		ending = path.Ext(want)
	}
	bare := strings.TrimSuffix(want, path.Ext(want))
	space := raw[:len(raw)-len(strings.TrimLeft(raw, " "))]
	for _, name := range []string{path.Base(bare) + ending, bare + ending, "/" + bare + ending} {
		if strings.Contains(l.To, "/") && !strings.Contains(name, "/") {
			continue // it was written with its folder
		}
		if wiki.Resolve(now, wiki.Link{Wiki: true, To: name}, r.after[wiki.Key(name)]) == want {
			return space + name
		}
	}
	return space + bare + ending
}
