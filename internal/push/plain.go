package push

import (
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var markdown = sync.OnceValue(func() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough)).Parser()
})

// plain is an answer as a notification shows it, which draws no Markdown: a line for each paragraph, item and row.
func plain(answer string) string {
	body := []byte(answer)
	var b strings.Builder
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
			b.Write(n.Segment.Value(body))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.AutoLink:
			b.Write(n.Label(body))
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}
