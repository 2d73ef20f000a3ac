package chat

import (
	"image/color"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/parley-server/parley/internal/tui"
)

// look is how things are drawn: colours for a dark or a light background, and signs.
type look struct {
	rev   int // of what was drawn with it
	dark  bool
	ascii bool // the terminal shows no other characters for certain

	accent, good, bad, warn, faint, soft, bold, user, added, removed, bar, mark paint
	signs
	style tui.Style // of Markdown
}

// signs are the few characters beside letters that are drawn. A terminal without UTF-8 gets
// others.
type signs struct {
	user, text, running, ok, failed, denied, unknown, waits, thought, agent, open, shut, bar, line, dot, answered, note string
	spinner                                                                                                             []string
	corners                                                                                                             [4]string
}

var unicodeSigns = signs{
	user: "❯", text: "●", running: "◌", ok: "✓", failed: "✗", denied: "⊘", unknown: "?", waits: "◆", thought: "✻", agent: "◇", open: "▾", shut: "▸",
	bar: "│", line: "─", dot: "·", answered: "◆", note: "·",
	spinner: []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}, corners: [4]string{"╭", "╮", "╰", "╯"},
}

var asciiSigns = signs{
	user: ">", text: "*", running: "o", ok: "+", failed: "x", denied: "-", unknown: "?", waits: "!", thought: "~", agent: "@", open: "v", shut: ">",
	bar: "|", line: "-", dot: "-", answered: "!", note: "-",
	spinner: []string{"|", "/", "-", "\\"}, corners: [4]string{"+", "+", "+", "+"},
}

// inASCII are the characters that are drawn beside signs, and those that models like, for a terminal without UTF-8.
// Each is as wide as before.
var inASCII = strings.NewReplacer("…", ".", "−", "-", "–", "-", "—", "-", "·", "-", "│", "|", "▏", "|", "─", "-", "•", "*", "“", `"`, "”", `"`, "‘", "'", "’", "'")

// paint is a style for a text. Its zero value changes nothing.
type paint struct{ sgr string }

func (p paint) of(s string) string {
	if p.sgr == "" || s == "" {
		return s
	}
	return p.sgr + s + "\x1b[m"
}

func ink(s ansi.Style) paint { return paint{s.String()} }

func rgb(hex uint32) color.Color {
	return color.RGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 0xff}
}

// newLook makes a look. Bubble Tea takes colours down to those that the terminal has, and leaves
// them out where NO_COLOR says so. Nothing is said by colour alone.
func newLook(dark, utf8 bool, rev int) *look {
	pick := func(onDark, onLight uint32) ansi.Style {
		if dark {
			return ansi.NewStyle().ForegroundColor(rgb(onDark))
		}
		return ansi.NewStyle().ForegroundColor(rgb(onLight))
	}
	back := func(onDark, onLight uint32) ansi.Style {
		if dark {
			return ansi.NewStyle().BackgroundColor(rgb(onDark))
		}
		return ansi.NewStyle().BackgroundColor(rgb(onLight))
	}
	l := &look{
		rev: rev, dark: dark, signs: asciiSigns,
		// All are among the 256 colours that nearly every terminal has.
		accent: ink(pick(0x87afff, 0x005fd7)), good: ink(pick(0x87d787, 0x008700)), bad: ink(pick(0xff8787, 0xd70000)), warn: ink(pick(0xffaf5f, 0xaf5f00)),
		faint: ink(pick(0x8a8a8a, 0x767676)), soft: ink(pick(0xbcbcbc, 0x4e4e4e)), bold: ink(ansi.NewStyle().Bold()),
		added: ink(pick(0x87d787, 0x008700)), removed: ink(pick(0xff8787, 0xd70000)), bar: ink(pick(0x585858, 0xc6c6c6)),
		mark: ink(ansi.NewStyle().Reverse(true)),
	}
	l.user = ink(back(0x303030, 0xeeeeee))
	if l.ascii = !utf8; utf8 {
		l.signs = unicodeSigns
	}
	code := pick(0xd7af87, 0x875f00).String()
	l.style = tui.Style{Screen: true, Colour: true, Fit: true, Code: strings.TrimSuffix(strings.TrimPrefix(code, "\x1b["), "m")}
	return l
}

// tidy is a text without what a terminal would obey, and with spaces for tabs.
func tidy(s string) string {
	s = tui.Plain(s)
	if strings.Contains(s, "\t") {
		s = strings.ReplaceAll(s, "\t", "    ")
	}
	return s
}

// oneLine is a text on one line.
func oneLine(s string) string {
	if len(s) > 4096 { // more than a line of any screen
		s = s[:4096]
	}
	return strings.Join(strings.Fields(tui.Plain(s)), " ")
}

func width(s string) int { return ansi.StringWidth(s) }

// cut shortens a text to a width.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	return ansi.Truncate(s, w, "…")
}

// pad fills a text up to a width, and shortens one that is wider.
func pad(s string, w int) string {
	n := width(s)
	if n > w {
		s = cut(s, w)
		n = width(s)
	}
	return s + strings.Repeat(" ", max(w-n, 0))
}

// wrap breaks a text without styles into lines.
func wrap(s string, w int) []string {
	return fit(strings.Split(ansi.Wrap(s, max(w, 1), ""), "\n"), w)
}

// fit breaks the lines that are wider than w: ansi.Wrap leaves some by a column, behind a hyphen, and
// nothing else breaks what is nested too deep.
func fit(lines []string, w int) []string {
	for i, line := range lines {
		if width(line) <= w {
			continue
		}
		out := slices.Clip(lines[:i])
		for _, line := range lines[i:] {
			out = append(out, strings.Split(ansi.Hardwrap(line, max(w, 2), true), "\n")...)
		}
		return out
	}
	return lines
}

// between puts left and right at the ends of a line; right is left out if there is no room.
func between(left, right string, w int) string {
	gap := w - width(left) - width(right)
	if gap < 1 {
		return cut(left, w)
	}
	return left + strings.Repeat(" ", gap) + right
}
