package tui

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()

// Render turns Markdown into text for a screen, without a line break at its end.
// Blocks are separated by an empty line. What it does not know stays as it was
// written.
func Render(source string, s Style) string {
	src := []byte(Plain(source))
	d := drawing{src: src, s: s}
	return d.blocks(markdown.Parse(text.NewReader(src)), s.Width, false)
}

type drawing struct {
	src []byte
	s   Style
}

// blocks draws what is in n, below one another. Tight ones have no empty line
// between them.
func (d drawing) blocks(n ast.Node, width int, tight bool) string {
	var out []string
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if b := d.block(c, width); b != "" {
			out = append(out, b)
		}
	}
	if tight {
		return strings.Join(out, "\n")
	}
	return strings.Join(out, "\n\n")
}

func (d drawing) block(n ast.Node, width int) string {
	switch n := n.(type) {
	case *ast.Heading:
		title := d.inline(n)
		if !d.s.Colour {
			title = strings.Repeat("#", n.Level) + " " + title
		}
		return wrap(d.s.Bold(title), width)
	case *ast.Paragraph, *ast.TextBlock:
		return wrap(d.inline(n), width)
	case *ast.List:
		return d.list(n, width)
	case *ast.Blockquote:
		if d.s.Fit && width < narrowest {
			return d.blocks(n, width, false)
		}
		bar := d.s.Dim("│ ")
		return indent(d.blocks(n, width-2, false), bar, bar)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		code := strings.TrimRight(d.lines(n), "\n")
		if d.s.Fit {
			language := ""
			if f, ok := n.(*ast.FencedCodeBlock); ok {
				language = string(f.Language(d.src))
			}
			return d.fitted(code, language, width)
		}
		return indent(code, "    ", "    ")
	case *ast.ThematicBreak:
		return d.s.Dim(strings.Repeat("─", min(width, 40)))
	case *table.Table:
		return d.table(n, width)
	case *ast.HTMLBlock:
		return strings.TrimRight(d.lines(n), "\n")
	}
	return d.blocks(n, width, false)
}

// fitted draws code with a bar beside it, and no line longer than width.
func (d drawing) fitted(code, language string, width int) string {
	bar := d.s.Dim("▏ ")
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(code, "\t", "    "), "\n") {
		draw := d.s.code
		switch {
		case language != "diff":
		case strings.HasPrefix(line, "+"):
			draw = d.s.Green
		case strings.HasPrefix(line, "-"):
			draw = d.s.Red
		default:
			draw = func(s string) string { return s }
		}
		for piece := range strings.SplitSeq(ansi.Hardwrap(line, max(width-2, 1), true), "\n") {
			out = append(out, bar+draw(piece))
		}
	}
	return strings.Join(out, "\n")
}

func (d drawing) lines(n ast.Node) string {
	var b strings.Builder
	for _, l := range n.Lines().Sliced(0, n.Lines().Len()) {
		b.Write(l.Value(d.src))
	}
	return b.String()
}

func (d drawing) list(l *ast.List, width int) string {
	var out []string
	number := l.Start
	for c := l.FirstChild(); c != nil; c = c.NextSibling() {
		mark := "• "
		if l.IsOrdered() {
			mark = strconv.Itoa(number) + ". "
			number++
		}
		pad := strings.Repeat(" ", ansi.StringWidth(mark))
		if d.s.Fit && width < narrowest && l.Parent() != nil && l.Parent().Kind() != ast.KindDocument {
			// Nested so deep that hardly a word fits beside the marks.
			out = append(out, mark+d.blocks(c, width, l.IsTight))
			continue
		}
		out = append(out, indent(d.blocks(c, width-len(pad), l.IsTight), mark, pad))
	}
	if l.IsTight {
		return strings.Join(out, "\n")
	}
	return strings.Join(out, "\n\n")
}

// table draws columns; a table that is too wide is drawn row by row, a line for
// each cell, so that nothing is cut.
func (d drawing) table(t *table.Table, width int) string {
	var rows [][]string
	var widths []int
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		var row []string
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cell := strings.ReplaceAll(d.inline(c), "\n", " ")
			if len(row) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(row)] = max(widths[len(row)], ansi.StringWidth(cell))
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	total := 0
	for _, w := range widths {
		total += w + 2
	}
	if len(rows) == 0 {
		return ""
	}
	if total-2 > width {
		return d.records(rows, width)
	}
	var out []string
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			gap := strings.Repeat(" ", widths[j]-ansi.StringWidth(cell))
			if i == 0 {
				cell = d.s.Bold(cell)
			}
			if j < len(t.Alignments) && t.Alignments[j] == table.AlignRight {
				b.WriteString(gap + cell + "  ")
			} else {
				b.WriteString(cell + gap + "  ")
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
		if i == 0 {
			out = append(out, d.s.Dim(strings.Repeat("─", total-2)))
		}
	}
	return strings.Join(out, "\n")
}

func (d drawing) records(rows [][]string, width int) string {
	var out []string
	for _, row := range rows[1:] {
		var lines []string
		for j, cell := range row {
			name := ""
			if j < len(rows[0]) {
				name = d.s.Bold(rows[0][j]) + ": "
			}
			lines = append(lines, indent(wrap(name+cell, width-2), "", "  "))
		}
		out = append(out, strings.Join(lines, "\n"))
	}
	return strings.Join(out, "\n\n")
}

func (d drawing) inline(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			b.WriteString(unescape(c.Segment.Value(d.src)))
			switch {
			case c.HardLineBreak():
				b.WriteByte('\n')
			case c.SoftLineBreak():
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.CodeSpan:
			code := d.raw(c)
			if d.s.Colour {
				b.WriteString(d.s.code(code))
			} else {
				b.WriteString("`" + code + "`")
			}
		case *ast.Emphasis:
			code := "3"
			if c.Level == 2 {
				code = "1"
			}
			b.WriteString(d.s.sgr(code, d.inline(c)))
		case *table.Strikethrough:
			b.WriteString(d.s.sgr("9", d.inline(c)))
		case *table.TaskCheckBox:
			if c.IsChecked {
				b.WriteString("[x] ")
			} else {
				b.WriteString("[ ] ")
			}
		case *ast.AutoLink:
			b.WriteString(d.s.sgr("4", string(c.URL(d.src))))
		case *ast.Link:
			b.WriteString(d.link(d.inline(c), string(c.Destination)))
		case *ast.Image:
			b.WriteString(d.link("["+d.inline(c)+"]", string(c.Destination)))
		case *ast.RawHTML:
			for _, l := range c.Segments.Sliced(0, c.Segments.Len()) {
				b.Write(l.Value(d.src))
			}
		default:
			b.WriteString(d.inline(c))
		}
	}
	return b.String()
}

func (d drawing) link(label, to string) string {
	to = unescape([]byte(to))
	if label == "" || label == to {
		return d.s.sgr("4", to)
	}
	return fmt.Sprintf("%s %s", d.s.sgr("4", label), d.s.Dim("("+to+")"))
}

func (d drawing) raw(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(d.src))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// unescape resolves backslashes and entities. An entity may stand for a control
// character, which does not pass here either.
func unescape(raw []byte) string {
	raw = util.UnescapePunctuations(raw)
	raw = util.ResolveEntityNames(util.ResolveNumericReferences(raw))
	return Plain(string(raw))
}

// wrap breaks lines between words, and words that are longer than a line.
func wrap(s string, width int) string { return ansi.Wrap(s, max(width, 1), "") }

// indent puts first before the first line and rest before the others.
func indent(s, first, rest string) string {
	if s == "" {
		return strings.TrimRight(first, " ")
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		pre := rest
		if i == 0 {
			pre = first
		}
		if l == "" {
			pre = strings.TrimRight(pre, " ")
		}
		lines[i] = pre + l
	}
	return strings.Join(lines, "\n")
}
