package claim

import (
	"bytes"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	"github.com/parley-server/parley/internal/pattern"
)

// Page is what is known of a page.
type Page struct {
	Path, Title, Kind, Status string
	Fields                    map[string]string // of its front matter, that are not about the page itself
	Body                      string            // without front matter
	Line                      int               // at which Body begins; from 1
}

const (
	// maxUnder is the most bytes of what a statement stands under.
	maxUnder = 160
	// Statements are of so many bytes.
	least, most = 6, 400
	// narrow is the most bytes of a line that is not wrapped.
	narrow = 45
	// maxStatements of a page are read.
	maxStatements = 2000
)

var (
	markdown = sync.OnceValue(func() parser.Parser {
		return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
	})
	wikiLink = pattern.New(`!?\[\[([^\]|#\n]+)(?:#[^\]|\n]*)?(?:\|([^\]\n]*))?\]\]`)
	mdLink   = pattern.New(`!?\[([^\]\n]*)\]\([^)\n]*\)`)
	comment  = pattern.New(`(?s)<!--.*?(-->|$)`)
	// ends are where a sentence ends. It does not end behind abbreviations.
	ends     = pattern.New(`[.!?]["')]?\s+|;\s+`)
	short    = pattern.New(`(?i)(?:\b(?:a\.m|p\.m|e\.g|i\.e|approx|ca|no|nr|tel|ext|st|dr|mr|mrs|ms|max|min|incl|cf|vs|etc)|(?:^|\s)(?-i:[A-Z])|^\d+)\.$`)
	emphasis = strings.NewReplacer("*", "", "`", "")
	marks    = strings.NewReplacer("`", "", "*", "", "_", " ", "~~", "")
)

// Plain is text without markup, on one line.
func Plain(s string) string {
	s = wikiLink.ReplaceAllStringFunc(s, func(s string) string {
		m := wikiLink.FindStringSubmatch(s)
		if m[2] != "" {
			return m[2]
		}
		return strings.ReplaceAll(m[1][strings.LastIndexByte(m[1], '/')+1:], "-", " ")
	})
	s = mdLink.ReplaceAllString(s, "$1")
	return strings.Join(strings.Fields(marks.Replace(s)), " ")
}

// Statements are those of a page, in its order.
func Statements(p Page) []Statement {
	r := reader{page: p, body: []byte(comment.ReplaceAllStringFunc(p.Body, func(s string) string { // lines stay where they are
		return strings.Repeat("\n", strings.Count(s, "\n"))
	}))}
	if p.Title != "" {
		r.under = []string{cut(p.Title)}
	}
	for name, v := range p.Fields {
		r.add(strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), "-", " ")+": "+v, 1)
	}
	r.blocks(markdown().Parse(text.NewReader(r.body)))
	return r.list
}

type reader struct {
	page  Page
	body  []byte
	under []string
	level []int // of the headings in under, behind the title
	list  []Statement
	lead  string // the paragraph before
}

func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("()›", r) {
			return ' '
		}
		return r
	}, s)
	if s = Plain(s); len(s) > maxUnder {
		s = strings.ToValidUTF8(s[:maxUnder], "")
	}
	return s
}

// blocks reads what is in a node.
func (r *reader) blocks(n ast.Node) {
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		lead := r.lead
		r.lead = ""
		switch c := c.(type) {
		case *ast.Heading:
			for len(r.level) > 0 && r.level[len(r.level)-1] >= c.Level {
				r.level = r.level[:len(r.level)-1]
				r.under = r.under[:len(r.under)-1]
			}
			if said := cut(r.text(c)); said != "" && (len(r.under) == 0 || !strings.EqualFold(said, r.under[0])) {
				r.under = append(r.under[:len(r.under):len(r.under)], said)
				r.level = append(r.level, c.Level)
			}
		case *ast.Paragraph, *ast.TextBlock:
			said := r.text(c)
			r.sentences(said, r.line(c))
			r.lead = said
		case *ast.List:
			r.items(c, lead)
		case *table.Table:
			r.table(c)
		case *ast.Blockquote:
			r.blocks(c)
		}
	}
}

// items reads a list, whose items stand under what leads to it.
func (r *reader) items(l *ast.List, lead string) {
	before := r.under
	if lead = cut(lead); lead != "" {
		if !strings.HasSuffix(lead, ".") && !strings.HasSuffix(lead, ":") {
			lead += "…"
		}
		r.under = append(before[:len(before):len(before)], lead)
	}
	r.level = append(r.level, 7) // below all headings
	for c := l.FirstChild(); c != nil; c = c.NextSibling() {
		r.lead = ""
		r.blocks(c)
	}
	r.level = r.level[:len(r.level)-1]
	r.under = before
}

func (r *reader) table(t *table.Table) {
	before := r.under
	for c := t.FirstChild(); c != nil; c = c.NextSibling() {
		row := "|"
		for cell := c.FirstChild(); cell != nil; cell = cell.NextSibling() {
			row += " " + strings.ReplaceAll(Plain(r.text(cell)), "|", "/") + " |"
		}
		if _, head := c.(*table.TableHeader); head {
			r.under = append(before[:len(before):len(before)], strings.ReplaceAll(strings.ReplaceAll(row, "(", " "), ")", " "))
			continue
		}
		r.add(row, r.line(c))
	}
	r.under = before
}

// text is a node's text as it is written, with its markup.
func (r *reader) text(n ast.Node) string {
	lines := n.Lines()
	if lines == nil || lines.Len() == 0 {
		return ""
	}
	var b bytes.Buffer
	for i := range lines.Len() {
		at := lines.At(i)
		b.Write(bytes.TrimRight(at.Value(r.body), "\n"))
		b.WriteByte('\n')
	}
	return b.String()
}

// line is that at which a node begins.
func (r *reader) line(n ast.Node) int {
	for n != nil {
		if lines := n.Lines(); n.Type() == ast.TypeBlock && lines != nil && lines.Len() > 0 {
			return r.page.Line + bytes.Count(r.body[:lines.At(0).Start], []byte("\n"))
		}
		n = n.FirstChild()
	}
	return r.page.Line
}

// sentences adds those of a paragraph. Its lines may be wrapped, or be statements of their own.
func (r *reader) sentences(said string, line int) {
	rows := strings.Split(strings.TrimRight(emphasis.Replace(said), "\n"), "\n")
	var now strings.Builder
	at := line
	flush := func() {
		r.paragraph(now.String(), at)
		now.Reset()
	}
	for i, row := range rows {
		if i > 0 && keyed.MatchString(rows[i-1]) && (keyed.MatchString(row) || i > 1 && keyed.MatchString(rows[i-2]) || len(rows[i-1]) < narrow && row != strings.ToLower(row[:1])+row[1:]) {
			flush()
		}
		if now.Len() == 0 {
			at = line + i
		}
		now.WriteString(row + "\n")
	}
	flush()
}

// keyed is a line that gives a name a value, as lists without marks do.
var keyed = pattern.New(`^\s*[\pL][^.:!?]{1,40}: \S`)

func (r *reader) paragraph(said string, line int) {
	at := 0
	for at < len(said) {
		from := at
		end, next := len(said), len(said)
		for m := ends.FindStringIndex(said[at:]); m != nil; m = ends.FindStringIndex(said[at:]) {
			if said[at+m[0]] == '.' && short.MatchString(said[from:at+m[0]+1]) {
				at += m[1]
				continue
			}
			end, next = at+m[0], at+m[1]
			if said[at+m[0]] == '?' {
				end++
			}
			break
		}
		r.add(Plain(strings.TrimRight(said[from:end], ". \n")), line+strings.Count(said[:from+len(said[from:end])-len(strings.TrimLeft(said[from:end], " \n"))], "\n"))
		at = next
	}
}

func (r *reader) add(said string, line int) {
	if len(said) < least || len(said) > most || len(r.list) >= maxStatements {
		return
	}
	r.list = append(r.list, Statement{Path: r.page.Path, Kind: r.page.Kind, Status: r.page.Status, Under: r.under, Text: said, Line: line})
}

// Meanings are the words of a text, one for all that mean the same, without those that say nothing of what it is about.
func Meanings(text string) (list []string) {
	for _, t := range tokens(text) {
		if t.kind == isWord && !function[t.low] {
			list = append(list, meaning(t.low))
		}
	}
	return list
}

// stemsOf are the meanings of a text's words.
func stemsOf(s string) map[string]bool {
	m := map[string]bool{}
	for _, t := range tokens(s) {
		if t.kind == isWord && !function[t.low] && !genres[meaning(t.low)] {
			m[meaning(t.low)] = true
		}
	}
	return m
}
