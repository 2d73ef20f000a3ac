// Package wiki finds the links of a note and the files that they mean.
//
// A link is written as wikis do, [[Name]], [[folder/Name#Heading|alias]], or as Markdown does,
// [text](path/to/name.md), also by a definition elsewhere in the note. Links in code, comments and
// front matter are none. Names are compared without regard to case and Unicode forms.
package wiki

import (
	"bytes"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/text/unicode/norm"

	"github.com/parley-server/parley/internal/pattern"
)

// Link is a link of a note to a file. Links to elsewhere, such as https:, are not among them.
type Link struct {
	Wiki bool
	// To is the file as the link names it, decoded and without its heading. Empty: the note itself.
	To      string
	Heading string // without the sign #
	Text    string // what is shown, at most 200 bytes; empty: To
	Line    int    // from 1
	// Start and End are the bytes of the note in which To stands as it is written; in a Markdown link with the heading.
	Start, End int
	Angled     bool // a Markdown link whose target stands in < >
}

// Note is what a note has.
type Note struct {
	Title    string   // its first heading of the first level
	Headings []string // all of them
	Links    []Link
}

// Limits of a note. What is beyond them is not looked at.
const (
	MaxLinks    = 5000
	maxHeadings = 2000
	maxText     = 200
)

var markdown = sync.OnceValue(func() parser.Parser {
	p := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
	// Behind code (100) and before links (200).
	p.AddOptions(parser.WithInlineParsers(util.Prioritized(wikiParser{}, 150)))
	return p
})

// Parse reads a note without its front matter. The first line has the number line, and the first byte is at offset at of
// the whole file.
func Parse(body []byte, line, at int) Note {
	body = slices.Clip(body)
	var n Note
	lines := lineCounter{body: body, line: line}
	root := markdown().Parse(text.NewReader(body))
	defined := false
	add := func(l Link, pos int) {
		if len(n.Links) >= MaxLinks {
			return
		}
		l.Line = lines.of(pos)
		l.Start, l.End = l.Start+at, l.End+at
		n.Links = append(n.Links, l)
	}
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Heading:
			said := strings.TrimSpace(words(node, body))
			if n.Title == "" && node.Level == 1 {
				n.Title = cut(said)
			}
			if len(n.Headings) < maxHeadings {
				n.Headings = append(n.Headings, cut(said))
			}
		case *wikiNode:
			add(node.link, node.at)
		case *ast.Link:
			if node.Reference == nil {
				inline(body, node.Destination, words(node, body), node.Pos(), add)
			}
			return ast.WalkContinue, nil
		case *ast.Image:
			if node.Reference == nil {
				inline(body, node.Destination, words(node, body), node.Pos(), add)
			}
		case *ast.LinkReferenceDefinition:
			defined = true
			inline(body, node.Destination, string(node.Label), node.Pos(), add)
		}
		return ast.WalkContinue, nil
	})
	if defined {
		slices.SortStableFunc(n.Links, func(a, b Link) int { return a.Start - b.Start })
	}
	return n
}

// inline adds a Markdown link with this target.
func inline(body, dest []byte, said string, pos int, add func(Link, int)) {
	start := cap(body) - cap(dest) // dest is a part of body, unless the parser had to copy it
	if len(dest) == 0 || start < 0 || start+len(dest) > len(body) || !bytes.Equal(body[start:start+len(dest)], dest) {
		return
	}
	raw := string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(dest))))
	if scheme.MatchString(raw) {
		return
	}
	raw, heading, _ := strings.Cut(raw, "#")
	raw, _, _ = strings.Cut(raw, "?")
	if decoded, err := url.PathUnescape(raw); err == nil {
		raw = decoded
	}
	if decoded, err := url.PathUnescape(heading); err == nil {
		heading = decoded
	}
	if pos < 0 {
		pos = start
	}
	add(Link{
		To: raw, Heading: heading, Text: cut(strings.TrimSpace(said)), Start: start, End: start + len(dest),
		Angled: start > 0 && body[start-1] == '<',
	}, pos)
}

var scheme = pattern.New(`(?i)^[a-z][a-z0-9+.-]*:|^//`)

// words is the text in a node.
func words(n ast.Node, body []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering || b.Len() > maxText {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(body))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *wikiNode:
			if n.link.Text != "" {
				b.WriteString(n.link.Text)
			} else {
				b.WriteString(n.link.To)
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "")
}

// lineCounter says on which line a byte is. Positions mostly grow.
type lineCounter struct {
	body      []byte
	line, pos int
}

func (c *lineCounter) of(pos int) int {
	pos = min(max(pos, 0), len(c.body))
	if pos >= c.pos {
		c.line += bytes.Count(c.body[c.pos:pos], []byte("\n"))
	} else {
		c.line -= bytes.Count(c.body[pos:c.pos], []byte("\n"))
	}
	c.pos = pos
	return c.line
}

// wikiNode is a link of a wiki.
type wikiNode struct {
	ast.BaseInline
	link Link
	at   int
}

var kindWiki = ast.NewNodeKind("WikiLink")

func (*wikiNode) Kind() ast.NodeKind { return kindWiki }

func (n *wikiNode) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

type wikiParser struct{}

func (wikiParser) Trigger() []byte { return []byte{'[', '!'} }

// In a table the bar before an alias has a backslash.
var aWiki = pattern.New(`^\[\[([^\[\]|#\n]{0,300})(?:#([^\[\]|\n]{0,300}))?(?:\|([^\[\]\n]{0,300}))?\]\]`)

func (wikiParser) Parse(_ ast.Node, block text.Reader, _ parser.Context) ast.Node {
	line, segment := block.PeekLine()
	shown := 0 // the sign before a picture or note that is shown in place
	if len(line) > 0 && line[0] == '!' && segment.Padding == 0 {
		shown, line, segment = 1, line[1:], segment.WithStart(segment.Start+1)
	}
	if len(line) < 5 || line[1] != '[' || segment.Padding != 0 {
		return nil
	}
	m := aWiki.FindSubmatchIndex(line)
	if m == nil {
		return nil
	}
	part := func(i int) string {
		if m[2*i] < 0 {
			return ""
		}
		return strings.TrimSpace(string(line[m[2*i]:m[2*i+1]]))
	}
	l := Link{Wiki: true, To: part(1), Heading: part(2), Text: cut(part(3))}
	l.Start, l.End = segment.Start+m[2], segment.Start+m[3]
	if m[6] >= 0 { // a bar of a table
		l.To = strings.TrimSpace(strings.TrimSuffix(l.To, `\`))
		l.Heading = strings.TrimSpace(strings.TrimSuffix(l.Heading, `\`))
		if l.End > l.Start && line[m[3]-1] == '\\' {
			l.End--
		}
	}
	if l.To == "" && l.Heading == "" {
		return nil
	}
	block.Advance(m[1] + shown)
	return &wikiNode{link: l, at: segment.Start}
}

// Fold is a name as names are compared.
func Fold(s string) string { return strings.ToLower(norm.NFC.String(s)) }

// Key is the name of a file as links compare it: the last element of its path, without the ending of a note.
func Key(name string) string { return bare(Fold(path.Base(name))) }

// IsNote reports whether a file is a note, by its name.
func IsNote(name string) bool { f := Fold(path.Base(name)); return bare(f) != f }

// bare is a folded name without the ending of a note.
func bare(s string) string {
	for _, end := range []string{".md", ".markdown"} {
		if cut, ok := strings.CutSuffix(s, end); ok && cut != "" {
			return cut
		}
	}
	return s
}

// Resolve is the file that a link in the note from means, among the files whose [Key] is that of l.To; "": none of them.
func Resolve(from string, l Link, alike []string) string {
	switch {
	case l.To == "":
		return from
	case l.Wiki:
		return resolveWiki(from, l.To, alike)
	}
	at := path.Join(path.Dir(from), l.To)
	if strings.HasPrefix(l.To, "/") {
		at = path.Join(strings.TrimLeft(l.To, "/"))
	}
	if at == ".." || strings.HasPrefix(at, "../") {
		return "" // it leads out
	}
	ways := []string{at}
	if !ending.MatchString(at) {
		ways = append(ways, at+".md")
	}
	for _, way := range ways {
		if slices.Contains(alike, way) {
			return way
		}
	}
	i := slices.IndexFunc(alike, func(p string) bool { return Fold(p) == Fold(at) || Fold(p) == Fold(at+".md") })
	if i < 0 {
		return ""
	}
	return alike[i]
}

var ending = pattern.New(`\.[A-Za-z0-9]{1,8}$`)

// resolveWiki is the file that a wiki link means: the one with this path, or with this name, the nearest
// first.
func resolveWiki(from, note string, alike []string) string {
	wanted := Fold(strings.TrimLeft(note, "/"))
	whole := strings.HasPrefix(note, "/") // it is the whole path
	for strings.HasPrefix(wanted, "./") {
		wanted = wanted[2:]
	}
	here := folder(from)
	far := func(p string) int {
		full := Fold(p)
		switch {
		case (full == wanted || bare(full) == wanted) && (whole || strings.Contains(wanted, "/")):
			return 0
		case full == wanted || bare(full) == wanted:
			return 2
		case folder(p) == here:
			return 1
		case strings.HasPrefix(here, folder(p)):
			return 3
		}
		return 4
	}
	best := ""
	for _, p := range alike {
		full := Fold(p)
		if full != wanted && bare(full) != wanted && !strings.HasSuffix(full, "/"+wanted) && !strings.HasSuffix(bare(full), "/"+wanted) {
			continue
		}
		if best == "" || far(p) < far(best) || far(p) == far(best) && (len(p) < len(best) || len(p) == len(best) && p < best) {
			best = p
		}
	}
	return best
}

// folder is the folder of a path with a slash at its end; "" is the first.
func folder(p string) string { return p[:strings.LastIndexByte(p, '/')+1] }
