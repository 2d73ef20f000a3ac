package chat

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// editor is a text of several lines that a person writes.
type editor struct {
	text string
	at   int // where the next character goes, in bytes
	goal int // the column that moving up and down aims at; -1: that of at
	kill string

	secret bool
	pastes map[string]string // long texts that were pasted, by what stands for them

	history []string
	back    int    // how many messages back the text is from; 0: it is new
	draft   string // the new text, while an old one is shown
}

func newEditor() *editor { return &editor{goal: -1, pastes: map[string]string{}} }

// set replaces the text.
func (e *editor) set(text string) {
	e.text, e.at, e.goal = text, len(text), -1
}

// reset makes the text empty.
func (e *editor) reset() {
	e.set("")
	e.back, e.draft = 0, ""
	clear(e.pastes)
}

func (e *editor) empty() bool { return strings.TrimSpace(e.text) == "" }

// value is the text with what was pasted.
func (e *editor) value() string {
	text := e.text
	for mark, whole := range e.pastes {
		text = strings.ReplaceAll(text, mark, whole)
	}
	return text
}

// insert puts a text where the cursor is.
func (e *editor) insert(text string) {
	text = clean(text)
	e.text = e.text[:e.at] + text + e.text[e.at:]
	e.at += len(text)
	e.goal = -1
}

// A pasted text that is longer than this is shown as a line that stands for it.
const (
	longPaste  = 1000 // bytes
	pasteLines = 8
)

func (e *editor) paste(text string) {
	text = clean(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)) // terminals paste lines with the key Enter
	lines := strings.Count(text, "\n") + 1
	if e.secret || len(text) <= longPaste && lines <= pasteLines {
		if e.secret {
			text = strings.TrimSpace(text)
		}
		e.insert(text)
		return
	}
	what := size(int64(len(text)))
	if lines > 1 {
		what = count(lines, "line", "lines")
	}
	mark := fmt.Sprintf("[pasted %d: %s]", len(e.pastes)+1, what)
	e.pastes[mark] = text
	e.insert(mark)
}

// clean removes what cannot be typed from a text.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
}

// next is the end of the character at i; a pasted text is one.
func (e *editor) next(i int) int {
	if i >= len(e.text) {
		return i
	}
	for mark := range e.pastes {
		if strings.HasPrefix(e.text[i:], mark) {
			return i + len(mark)
		}
	}
	g, _ := ansi.FirstGraphemeCluster(e.text[i:], ansi.GraphemeWidth)
	return i + max(len(g), 1)
}

// prev is the beginning of the character before i.
func (e *editor) prev(i int) int {
	for mark := range e.pastes {
		if strings.HasSuffix(e.text[:i], mark) {
			return i - len(mark)
		}
	}
	from := strings.LastIndexByte(e.text[:max(i-1, 0)], '\n') + 1
	if i-from > 256 { // long lines: characters are never this long
		from = i - 256
		for !utf8.RuneStart(e.text[from]) {
			from--
		}
	}
	at := from
	for at < i {
		n := at
		g, _ := ansi.FirstGraphemeCluster(e.text[at:i], ansi.GraphemeWidth)
		if n += max(len(g), 1); n >= i {
			return at
		}
		at = n
	}
	return max(i-1, 0)
}

func (e *editor) wordLeft() int {
	i := e.at
	for i > 0 && !isWord(e.text, e.prev(i)) {
		i = e.prev(i)
	}
	for i > 0 && isWord(e.text, e.prev(i)) {
		i = e.prev(i)
	}
	return i
}

func (e *editor) wordRight() int {
	i := e.at
	for i < len(e.text) && !isWord(e.text, i) {
		i = e.next(i)
	}
	for i < len(e.text) && isWord(e.text, i) {
		i = e.next(i)
	}
	return i
}

func isWord(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || unicode.Is(unicode.Mn, r)
}

func (e *editor) remove(from, to int) {
	if from >= to {
		return
	}
	e.text = e.text[:from] + e.text[to:]
	e.at, e.goal = from, -1
}

// row is a line of the text as it is drawn.
type row struct{ from, to int }

// rows breaks the text into lines of a width.
func (e *editor) rows(w int) []row {
	w = max(w, 1)
	var out []row
	from, used, space := 0, 0, -1
	for i := 0; i < len(e.text); {
		if e.text[i] == '\n' {
			out = append(out, row{from, i})
			i++
			from, used, space = i, 0, -1
			continue
		}
		n := i
		g, gw := ansi.FirstGraphemeCluster(e.text[i:], ansi.GraphemeWidth)
		n += max(len(g), 1)
		if e.text[i] == '\t' {
			gw = 4
		}
		if used+gw > w && i > from {
			end := i
			if space > from {
				end = space
			}
			out = append(out, row{from, end})
			from = end
			used = e.span(from, i)
			space = -1
			continue
		}
		used += gw
		i = n
		if g == " " {
			space = i
		}
	}
	return append(out, row{from, len(e.text)})
}

// span is the width of a part of the text.
func (e *editor) span(from, to int) int {
	return width(e.shown(e.text[from:to]))
}

// shown is a part of the text as it is drawn.
func (e *editor) shown(s string) string {
	if e.secret {
		return strings.Repeat("•", utf8.RuneCountInString(s))
	}
	return strings.ReplaceAll(s, "\t", "    ")
}

// cursor is where the cursor is among rows.
func (e *editor) cursor(rows []row) (line, column int) {
	for i, r := range rows {
		last := i == len(rows)-1
		if e.at >= r.from && (e.at < r.to || e.at == r.to && (last || rows[i+1].from > r.to)) {
			return i, e.span(r.from, e.at)
		}
	}
	return len(rows) - 1, 0
}

// vertical moves the cursor by lines, and reports whether there was one.
func (e *editor) vertical(by, w int) bool {
	rows := e.rows(w)
	line, column := e.cursor(rows)
	if e.goal < 0 {
		e.goal = column
	}
	if line+by < 0 || line+by >= len(rows) {
		return false
	}
	r := rows[line+by]
	at := r.from
	for at < r.to && e.span(r.from, e.next(at)) <= e.goal && e.next(at) <= r.to {
		at = e.next(at)
	}
	if at == r.to && line+by < len(rows)-1 && rows[line+by+1].from == r.to && at > r.from {
		at = e.prev(at) // the end of a line that was broken is the beginning of the next one
	}
	e.at = at
	return true
}

// older shows the message before, and newer the one after.
func (e *editor) older() bool {
	if e.back >= len(e.history) {
		return false
	}
	if e.back == 0 {
		e.draft = e.text
	}
	e.back++
	e.set(e.history[len(e.history)-e.back])
	return true
}

func (e *editor) newer() bool {
	if e.back == 0 {
		return false
	}
	e.back--
	if e.back == 0 {
		e.set(e.draft)
	} else {
		e.set(e.history[len(e.history)-e.back])
	}
	return true
}

// maxHistory is how many messages can be brought back.
const maxHistory = 200

// remember adds a message to those that can be brought back.
func (e *editor) remember(text string) {
	if strings.TrimSpace(text) == "" || len(text) > 64<<10 || len(e.history) > 0 && e.history[len(e.history)-1] == text {
		return
	}
	e.history = append(e.history, text)
	if n := len(e.history) - maxHistory; n > 0 {
		e.history = append([]string{}, e.history[n:]...)
	}
}

// key edits the text, and reports whether the key is one of those that do.
func (e *editor) key(name, typed string, w int) bool {
	lineFrom := strings.LastIndexByte(e.text[:e.at], '\n') + 1
	lineTo := len(e.text)
	if i := strings.IndexByte(e.text[e.at:], '\n'); i >= 0 {
		lineTo = e.at + i
	}
	goal := -1
	switch name {
	case "left":
		if e.at > 0 {
			e.at = e.prev(e.at)
		}
	case "right":
		e.at = e.next(e.at)
	case "up", "ctrl+p":
		if !e.vertical(-1, w) {
			return false
		}
		goal = e.goal
	case "down", "ctrl+n":
		if !e.vertical(1, w) {
			return false
		}
		goal = e.goal
	case "home", "ctrl+a":
		e.at = lineFrom
	case "end", "ctrl+e":
		e.at = lineTo
	case "alt+b", "ctrl+left", "alt+left":
		e.at = e.wordLeft()
	case "alt+f", "ctrl+right", "alt+right":
		e.at = e.wordRight()
	case "backspace", "ctrl+h", "shift+backspace":
		if e.at > 0 {
			e.remove(e.prev(e.at), e.at)
		}
	case "delete", "ctrl+d":
		if e.at >= len(e.text) {
			return name == "delete"
		}
		at := e.at
		e.remove(at, e.next(at))
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		from := e.wordLeft()
		e.kill = e.text[from:e.at]
		e.remove(from, e.at)
	case "alt+d", "alt+delete", "ctrl+delete":
		at := e.at
		e.remove(at, e.wordRight())
	case "ctrl+u":
		e.kill = e.text[lineFrom:e.at]
		e.remove(lineFrom, e.at)
	case "ctrl+k":
		if lineTo == e.at && lineTo < len(e.text) {
			lineTo++
		}
		at := e.at
		e.kill = e.text[at:lineTo]
		e.remove(at, lineTo)
	case "ctrl+y":
		e.insert(e.kill)
	default:
		if typed == "" || strings.HasPrefix(name, "ctrl+") || strings.HasPrefix(name, "alt+") && len(typed) == 1 && typed[0] < 0x80 {
			return false
		}
		e.insert(typed)
	}
	e.goal = goal
	return true
}
