package lake

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// Query is a search.
type Query struct {
	Text string // words; "of these" in quotes are looked for as a phrase
	Filter
}

// Hits is a page of what a search found, the best first.
type Hits = parley.EntityHits

const (
	maxQuery = 1000 // bytes
	maxWords = 32
	maxHits  = 1000 // how far a search can be paged
)

// Search looks for words in titles, tags and texts, without regard to case, accents and English endings. An entity has all of them. If none
// has, words that begin with them count, too; if still none has, those are found that have some.
func (l *Lake) Search(ctx context.Context, q Query, p Page) (h Hits, err error) {
	h.Hits = []Hit{}
	if len(q.Text) > maxQuery {
		return h, parley.Errorf(parley.CodeInvalid, "the query has more than %d bytes", maxQuery).WithField("query")
	}
	terms := terms(q.Text)
	if len(terms) == 0 {
		return h, parley.Errorf(parley.CodeInvalid, "the query has no words").WithField("query").WithHint("give words to look for; to list entities by kind or tag, list them")
	}
	// In the order in which they are tried; a page that follows goes on with the way of the first one.
	begin := make([]string, len(terms))
	for i, t := range terms {
		if begin[i] = t; !strings.Contains(t, " ") {
			begin[i] += "*"
		}
	}
	ways := []way{{"", strings.Join(terms, " AND "), false}, {"begin-", strings.Join(begin, " AND "), false}, {"some-", strings.Join(terms, " OR "), true}}
	from, first := 0, 0
	if p.After != "" {
		at := p.After
		for i, w := range ways[1:] {
			if cut, is := strings.CutPrefix(at, w.name); is {
				at, first = cut, i+1
			}
		}
		if from, err = strconv.Atoi(at); err != nil || from < 0 || from > maxHits {
			return h, parley.Errorf(parley.CodeInvalid, "%q is not what a page before says is next", parley.Cut(p.After, 60)).WithField("after")
		}
		ways = ways[first : first+1]
	}
	most := min(p.limit(), 100)
	var by way
	err = l.x.with(ctx, func(c *sqlite.Conn) error {
		for _, by = range ways {
			if err := match(&h, c, by.match, q.Filter, from, most); err != nil || len(h.Hits) > 0 {
				return err
			}
		}
		return nil
	})
	h.Partial = by.partial && len(h.Hits) > 0
	if len(h.Hits) > most {
		h.Hits = h.Hits[:most]
		if next := from + most; next < maxHits {
			h.Next = by.name + strconv.Itoa(next)
		}
	}
	return h, err
}

// way is a way to look for words.
type way struct {
	name    string // in the cursor of a page
	match   string
	partial bool
}

// match runs a query of the index. The weights are those of title, tags and text.
func match(h *Hits, c *sqlite.Conn, query string, f Filter, from, most int) error {
	best := `SELECT rowid AS doc, bm25(text, 8.0, 4.0, 1.0) AS score FROM text WHERE text MATCH ? ORDER BY score, doc`
	args := []any{query}
	if f != (Filter{}) {
		cond, more := f.where()
		best = `SELECT t.rowid AS doc, bm25(text, 8.0, 4.0, 1.0) AS score FROM text t JOIN file f ON f.id = t.rowid WHERE text MATCH ? AND ` + cond + ` ORDER BY score, doc`
		args = append(args, more...)
	}
	best += ` LIMIT ` + strconv.Itoa(most+1) + ` OFFSET ` + strconv.Itoa(from)
	return each(c, `SELECT `+columns+`, snippet(text, 2, '**', '**', '…', 24), score FROM (`+best+`) hit JOIN file f ON f.id = hit.doc JOIN text ON text.rowid = hit.doc
		WHERE text MATCH ? ORDER BY score, f.path`, append(args, query), func(st *sqlite.Stmt) error {
		_, e, err := row(st)
		h.Hits = append(h.Hits, Hit{Entity: e, Snippet: strings.TrimSpace(strings.ToValidUTF8(parley.Cut(st.ColumnText(11), 600), "")), Score: -st.ColumnFloat(12)})
		return err
	})
}

// terms are the words of a query, as the index takes them.
func terms(text string) (list []string) {
	add := func(words []string) {
		if len(words) == 0 || len(list) >= maxWords {
			return
		}
		t := `"` + strings.Join(words, " ") + `"`
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	split := func(s string) []string {
		return strings.FieldsFunc(strings.ToValidUTF8(s, " "), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
	}
	for i, part := range strings.Split(text, `"`) {
		if i%2 == 1 {
			add(split(part))
			continue
		}
		for word := range strings.FieldsSeq(part) {
			add(split(word)) // as a phrase, such as follow-up
		}
	}
	return list
}
