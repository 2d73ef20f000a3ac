package push

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
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

var markdown = sync.OnceValue(func() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
})

// plain is an answer as a notification shows it, which draws no Markdown and no HTML: a line for each paragraph, item
// and row. It says something whenever the answer does.
func plain(answer string) string {
	if s := strings.TrimSpace(withoutMarkdown(answer)); s != "" {
		return s
	}
	return strings.TrimSpace(answer)
}

func withoutMarkdown(answer string) string {
	body := []byte(answer)
	var b strings.Builder
	closed := closedIn(answer)
	line := func(begin string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(begin)
	}
	item := false // a line has just begun
	_ = ast.Walk(markdown().Parse(text.NewReader(body)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.ListItem:
			line("• ")
			item = true
			return ast.WalkContinue, nil
		case *ast.Paragraph, *ast.TextBlock, *ast.Heading, *table.TableHeader, *table.TableRow:
			if !item {
				line("")
			}
			item = false
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			line("")
			for i := range n.Lines().Len() {
				at := n.Lines().At(i)
				b.Write(at.Value(body))
			}
		case *table.TableCell:
			if n.PreviousSibling() != nil {
				b.WriteString(" | ")
			}
		case *ast.Text:
			value := n.Segment.Value(body)
			if _, code := n.Parent().(*ast.CodeSpan); !code && !n.IsRaw() {
				value = util.ResolveNumericReferences(util.ResolveEntityNames(util.UnescapePunctuations(value)))
			}
			if strings.HasSuffix(b.String(), " ") {
				value = bytes.TrimLeft(value, " ")
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(body))
		case *ast.RawHTML:
			withoutTags(&b, string(n.Segments.Value(body)), closed)
		case *ast.HTMLBlock:
			line("")
			block := n.Lines().Value(body)
			if n.HasClosure() {
				block = append(block, n.ClosureLine.Value(body)...)
			}
			withoutTags(&b, string(block), closed)
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// withoutTags writes the text of a piece of HTML of an answer. What only looks like a tag is text: List<int>, and also
// <b> if the answer closes none.
func withoutTags(b *strings.Builder, piece string, closed map[atom.Atom]bool) {
	space := func(c byte) {
		if s := b.String(); s != "" && !strings.HasSuffix(s, "\n") && (c == '\n' || !strings.HasSuffix(s, " ")) {
			b.WriteByte(c)
		}
	}
	hidden := "" // an element that is not shown
	for z := html.NewTokenizer(strings.NewReader(piece)); ; {
		kind := z.Next()
		raw := string(z.Raw())
		switch kind {
		case html.ErrorToken:
			return
		case html.TextToken:
			if hidden != "" {
				continue
			}
			words := strings.Fields(html.UnescapeString(raw))
			if strings.TrimLeft(raw, " \n") != raw {
				space(' ')
			}
			b.WriteString(strings.Join(words, " "))
			if len(words) > 0 && strings.TrimRight(raw, " \n") != raw {
				space(' ')
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case !closed[tag] && !void[tag]:
				if hidden == "" {
					b.WriteString(raw)
				}
			case tag == atom.Script || tag == atom.Style:
				hidden = ""
				if kind == html.StartTagToken {
					hidden = tag.String()
				}
			case hidden != "":
			case tag == atom.Br || tag == atom.Td || tag == atom.Th:
				space(' ')
			case !inline[tag]:
				space('\n')
			}
		}
	}
}

// closedIn are the elements of HTML that an answer closes.
func closedIn(answer string) map[atom.Atom]bool {
	out := map[atom.Atom]bool{}
	for _, s := range strings.Split(answer, "</")[1:] {
		name := strings.ToLower(s[:min(len(s), 16)])
		if i := strings.IndexFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }); i >= 0 {
			name = name[:i]
		}
		if tag := atom.Lookup([]byte(name)); tag != 0 {
			out[tag] = true
		}
	}
	return out
}

// void are the elements that are not closed.
var void = map[atom.Atom]bool{
	atom.Br: true, atom.Hr: true, atom.Img: true, atom.Input: true, atom.Wbr: true, atom.Col: true, atom.Source: true, atom.Meta: true, atom.Link: true,
}

// inline are the elements within a line. All others begin one.
var inline = map[atom.Atom]bool{
	atom.A: true, atom.Abbr: true, atom.B: true, atom.Bdi: true, atom.Bdo: true, atom.Cite: true, atom.Code: true, atom.Data: true, atom.Del: true,
	atom.Dfn: true, atom.Em: true, atom.Font: true, atom.I: true, atom.Img: true, atom.Input: true, atom.Ins: true, atom.Kbd: true, atom.Label: true,
	atom.Mark: true, atom.Q: true, atom.S: true, atom.Samp: true, atom.Small: true, atom.Span: true, atom.Strike: true, atom.Strong: true, atom.Sub: true,
	atom.Sup: true, atom.Time: true, atom.Tt: true, atom.U: true, atom.Var: true, atom.Wbr: true,
}
