package chat

import (
	"strings"

	tea "charm.land/bubbletea/v2"
)

// panel is what has the keyboard in place of the message.
type panel interface {
	key(m *model, k tea.KeyPressMsg) tea.Cmd
	paste(m *model, text string)
	// draw draws at most h lines. The cursor is where it is in them; y is -1 without one.
	draw(m *model, w, h int) (lines []string, x, y int)
	full() bool // it has the whole screen
}

// choice is one row of a list.
type choice struct {
	id     string
	sign   string
	left   string
	right  string
	about  string // a second line, below the chosen row
	search string // in lower case
}

// list is a panel to choose from.
type list struct {
	title   string
	hint    string // the keys, but for Enter and Esc
	none    string // what there is to say when the list is empty
	whole   bool   // it has the whole screen
	rows    []choice
	find    *editor
	at, top int
	loading bool
	more    func(m *model) tea.Cmd // reads the next page; nil: there is none
	pick    func(m *model, c choice) tea.Cmd
	keys    map[string]func(m *model, c *choice) tea.Cmd
	leave   func(m *model) tea.Cmd // nil: it just goes
}

func (l *list) full() bool { return l.whole }

// matching are the rows that have every word that was typed.
func (l *list) matching() []int {
	words := strings.Fields(strings.ToLower(l.find.text))
	var out []int
rows:
	for i := range l.rows {
		for _, w := range words {
			if !strings.Contains(l.rows[i].search, w) {
				continue rows
			}
		}
		out = append(out, i)
	}
	return out
}

func (l *list) chosen() *choice {
	if match := l.matching(); l.at < len(match) {
		return &l.rows[match[l.at]]
	}
	return nil
}

func (l *list) paste(_ *model, text string) { l.find.insert(strings.ReplaceAll(text, "\n", " ")) }

func (l *list) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	n := len(l.matching())
	name := k.String()
	switch name {
	case "up", "ctrl+p":
		l.at = max(l.at-1, 0)
		return nil
	case "down", "ctrl+n":
		if name == "ctrl+n" && l.keys[name] != nil {
			break
		}
		l.at = min(l.at+1, max(n-1, 0))
		return l.further(m, n)
	case "pgup":
		l.at = max(l.at-10, 0)
		return nil
	case "pgdown":
		l.at = min(l.at+10, max(n-1, 0))
		return l.further(m, n)
	case "home":
		l.at = 0
		return nil
	case "end":
		l.at = max(n-1, 0)
		return l.further(m, n)
	case "enter":
		if c := l.chosen(); c != nil {
			return l.pick(m, *c)
		}
		return nil
	case "esc", "ctrl+c":
		if l.find.text != "" && name == "esc" {
			l.find.reset()
			l.at = 0
			return nil
		}
		if l.leave != nil {
			return l.leave(m)
		}
		m.panel = nil
		return nil
	}
	if do := l.keys[name]; do != nil {
		return do(m, l.chosen())
	}
	if l.find.key(name, k.Text, 1000) {
		l.at, l.top = 0, 0
		return l.further(m, len(l.matching()))
	}
	return nil
}

// further reads the next page when the end of this one is near.
func (l *list) further(m *model, matching int) tea.Cmd {
	if l.more == nil || l.loading || l.at < matching-10 {
		return nil
	}
	l.loading = true
	return l.more(m)
}

func (l *list) draw(m *model, w, h int) (lines []string, x, y int) {
	d := m.drawing(w)
	match := l.matching()
	l.at = min(l.at, max(len(match)-1, 0))
	head := []string{d.bold.of(cut(l.title, w))}
	prompt := "Search: "
	head = append(head, d.faint.of(prompt)+l.find.shown(tail(l.find.text, w-len(prompt)-1)))
	x, y = min(len(prompt)+l.find.span(0, l.find.at), w-1), 1
	if h > 10 {
		head = append(head, "")
	}
	foot := cut("enter chooses "+d.dot+" esc goes back"+l.hint, w)
	room := max(h-len(head)-1, 1)
	about := ""
	if c := l.chosen(); c != nil {
		about = c.about
	}
	if l.whole && h > 12 {
		room -= 2
	}
	if l.at < l.top {
		l.top = l.at
	}
	if l.at >= l.top+room {
		l.top = l.at - room + 1
	}
	var body []string
	for i := l.top; i < len(match) && len(body) < room; i++ {
		c := l.rows[match[i]]
		sign := c.sign
		if sign == "" {
			sign = " "
		}
		right := c.right
		if w < 60 {
			right = cut(right, w/3)
		}
		line := sign + " " + cut(c.left, w-width(right)-6)
		switch {
		case i == l.at:
			body = append(body, d.accent.of(d.look.signs.user)+" "+d.mark.of(pad(between(line, right, w-2), w-2)))
		default:
			body = append(body, "  "+between(line, d.faint.of(right), w-2))
		}
	}
	if len(match) == 0 {
		text := l.none
		if l.find.text != "" {
			text = "Nothing matches."
		}
		if l.loading {
			text = "Loading…"
		}
		for _, line := range wrap(text, w-2) {
			body = append(body, "  "+d.faint.of(line))
		}
	}
	lines = append(head, body...)
	if l.whole {
		for len(lines) < h-2 {
			lines = append(lines, "")
		}
		if h > 12 {
			lines = append(lines[:h-2], d.faint.of(cut("  "+about, w)))
		}
		for len(lines) < h-1 {
			lines = append(lines, "")
		}
		lines = lines[:h-1]
	}
	return append(lines, d.faint.of(foot)), x, y
}
