package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// page is a panel with text to read.
type page struct {
	lines []string
	at    int
	h     int
}

func (p *page) full() bool { return true }

func (p *page) paste(*model, string) {}

func (p *page) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	last := max(len(p.lines)-p.h, 0)
	switch k.String() {
	case "up", "k":
		p.at = max(p.at-1, 0)
	case "down", "j":
		p.at = min(p.at+1, last)
	case "pgup":
		p.at = max(p.at-p.h, 0)
	case "pgdown", "space":
		p.at = min(p.at+p.h, last)
	case "home":
		p.at = 0
	case "end":
		p.at = last
	case "esc", "q", "enter", "ctrl+c", "?", "f1":
		m.panel = nil
	}
	return nil
}

func (p *page) draw(m *model, w, h int) (lines []string, x, y int) {
	d := m.drawing(w)
	p.h = max(h-1, 1)
	p.at = min(p.at, max(len(p.lines)-p.h, 0))
	for _, line := range p.lines[p.at:min(p.at+p.h, len(p.lines))] {
		lines = append(lines, cut(line, w))
	}
	for len(lines) < p.h {
		lines = append(lines, "")
	}
	return append(lines, d.faint.of(cut("esc goes back "+d.dot+" up and down scroll", w))), 0, -1
}

// keysHelp are the keys, by what they are for. The plain chat has commands instead.
var keysHelp = []struct {
	head string
	rows [][2]string
}{
	{"Writing", [][2]string{
		{"enter", "send; while a turn runs, tell the agent now"},
		{"tab", "queue it behind the turn; take what is suggested"},
		{"alt+enter, ctrl+j", "a new line; also shift+enter, or \\ and enter"},
		{"up, down", "earlier messages; up takes back what is queued"},
		{"/ and @", "commands, and files of the workspace; a space before / sends it as text"},
		{"/attach", "attach a file of yours; or drop it on the terminal"},
		{"ctrl+g", "write in your editor ($VISUAL or $EDITOR)"},
		{"ctrl+a e k u w y", "as in a shell"},
	}},
	{"The turn", [][2]string{
		{"esc", "stop it; when nothing runs, twice: go back to a message"},
		{"shift+tab", "the next permission mode"},
		{"ctrl+r", "an open question again; else the sessions"},
	}},
	{"Reading", [][2]string{
		{"pgup, pgdown, wheel", "scroll; ctrl+up and ctrl+down by a line"},
		{"ctrl+home, ctrl+end", "to the beginning of what is loaded, to the end"},
		{"ctrl+o", "show or fold all details: calls, thoughts, changes"},
		{"ctrl+t", "choose a call: up, down, enter unfolds, y copies, esc"},
		{"a click", "unfolds a call; shift and drag selects text"},
		{"ctrl+f", "search"},
	}},
	{"The program", [][2]string{
		{"ctrl+c", "empty the message, stop the turn, and twice: leave"},
		{"ctrl+d", "leave; the session stays, and can be opened again"},
		{"ctrl+z", "suspend"},
		{"ctrl+l", "draw the screen again"},
		{"?, f1", "this page"},
	}},
}

func (m *model) help() tea.Cmd {
	d := m.drawing(m.w)
	var out []string
	w := min(m.w-2, 100)
	row := func(name, about string) {
		const col = 22
		if w < 60 {
			out = append(out, "  "+d.accent.of(name))
			for _, line := range wrap(about, w-4) {
				out = append(out, "    "+line)
			}
			return
		}
		for i, line := range wrap(about, w-col-2) {
			if i > 0 {
				name = ""
			}
			out = append(out, "  "+d.accent.of(pad(name, col))+line)
		}
	}
	for _, s := range keysHelp {
		out = append(out, d.bold.of(s.head))
		for _, r := range s.rows {
			row(r[0], r[1])
		}
		out = append(out, "")
	}
	out = append(out, d.bold.of("Commands"))
	for _, c := range locals() {
		row(strings.TrimSpace("/"+c.name+" "+c.args), c.about)
	}
	if len(m.commands) > 0 {
		out = append(out, "", d.bold.of("Commands of this session"))
		for _, c := range m.commands {
			row("/"+oneLine(c.Name), oneLine(c.Description))
		}
	}
	m.panel = &page{lines: out}
	return nil
}

// usage shows what the session has used.
func (m *model) usage() tea.Cmd {
	d := m.drawing(m.w)
	t := m.conv.info.Totals
	u := t.Usage
	rows := [][2]string{
		{"Turns", thousands(int64(t.Turns))},
		{"Input tokens", thousands(u.InputTokens)},
		{"Output tokens", thousands(u.OutputTokens)},
	}
	if u.CacheReadTokens > 0 {
		rows = append(rows, [2]string{"Read from the cache", thousands(u.CacheReadTokens)})
	}
	if u.CacheWriteTokens > 0 {
		rows = append(rows, [2]string{"Written to the cache", thousands(u.CacheWriteTokens)})
	}
	if u.ReasoningTokens > 0 {
		rows = append(rows, [2]string{"Reasoning tokens", thousands(u.ReasoningTokens)})
	}
	if u.USD > 0 {
		cost := dollars(u.USD)
		if u.Estimated {
			cost += ", in part estimated"
		}
		rows = append(rows, [2]string{"Cost", cost})
	}
	out := []string{d.bold.of("What this session has used"), ""}
	for _, r := range rows {
		out = append(out, "  "+pad(r[0], 24)+r[1])
	}
	out = append(out, "", d.faint.of("  "+string(m.conv.info.ID)), "", d.bold.of("The last turns"), "")
	n := 0
	for i := len(m.conv.turns) - 1; i >= 0 && n < 20; i-- {
		t := m.conv.turns[i]
		used := t.usage.InputTokens + t.usage.OutputTokens
		cost := tokens(used)
		if t.usage.USD > 0 {
			cost += " " + d.dot + " " + dollars(t.usage.USD)
		}
		out = append(out, "  "+fmt.Sprintf("%-28s", cost)+cut(oneLine(t.message), max(m.w-34, 8)))
		n++
	}
	m.panel = &page{lines: out}
	return nil
}
