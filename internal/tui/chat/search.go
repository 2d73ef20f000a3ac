package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// searching is the panel of a search in the conversation.
type searching struct {
	ed   *editor
	was  *item
	note string
}

func (m *model) search() tea.Cmd {
	if m.conv == nil {
		return nil
	}
	m.panel = &searching{ed: newEditor(), was: m.view.focus}
	return nil
}

func (m *model) searchFor(text string) tea.Cmd {
	cmd := m.search()
	if s, ok := m.panel.(*searching); ok && text != "" {
		s.ed.set(text)
		return s.next(m, -1)
	}
	return cmd
}

func (s *searching) full() bool { return false }

func (s *searching) paste(_ *model, text string) { s.ed.insert(strings.ReplaceAll(text, "\n", " ")) }

func (s *searching) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch name := k.String(); name {
	case "esc", "ctrl+c", "ctrl+f":
		m.panel = nil
		if s.ed.text == "" {
			m.view.focus = s.was
		}
	case "enter", "up", "ctrl+p":
		return s.next(m, -1)
	case "down", "ctrl+n":
		return s.next(m, 1)
	case "pgup":
		return m.scroll(-max(m.view.height-2, 1))
	case "pgdown":
		return m.scroll(max(m.view.height-2, 1))
	default:
		s.ed.key(name, k.Text, 1000)
		s.note = ""
	}
	return nil
}

// has reports whether an item has a text, in lower case.
func (it *item) has(text string) bool {
	in := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(strings.ToLower(p), text) {
				return true
			}
		}
		return false
	}
	if it.kind == kindMessage && it.label == "" {
		return in(it.turn.message)
	}
	if in(it.text, it.name, it.title, it.output, string(it.input), it.label) {
		return true
	}
	for _, f := range it.files {
		if in(f.Path, f.Diff) {
			return true
		}
	}
	for _, c := range it.inner {
		if c.has(text) {
			return true
		}
	}
	return false
}

// next goes to the match before or after the one that is shown; before the first one it reads
// older turns.
func (s *searching) next(m *model, by int) tea.Cmd {
	text := strings.ToLower(strings.TrimSpace(s.ed.text))
	if text == "" {
		return nil
	}
	v := &m.view
	at := len(v.list)
	if v.focus != nil {
		at = v.index(v.focus)
	} else if by > 0 {
		at = -1
	}
	for i := at + by; i >= 0 && i < len(v.list); i += by {
		it := v.list[i].it
		if !it.has(text) {
			continue
		}
		v.focus = it
		if it.folds() {
			it.fold = foldOpen
			it.rev++
		}
		v.reveal(m.paper(), it)
		n := 0
		for _, p := range v.list[:i+1] {
			if p.it.has(text) {
				n++
			}
		}
		s.note = fmt.Sprintf("match %d of what is loaded", n)
		return nil
	}
	if by < 0 {
		s.note = "searching older turns…"
		if cmd := m.readOlder(func(m *model) tea.Cmd {
			if m.panel != panel(s) {
				return nil
			}
			return s.next(m, -1)
		}); cmd != nil {
			return cmd
		}
	}
	s.note = "no other match"
	return nil
}

func (s *searching) draw(m *model, w, _ int) (lines []string, x, y int) {
	d := m.drawing(w)
	const label = "Search: "
	line := d.bold.of(label) + s.ed.shown(tail(s.ed.text, w-len(label)-1))
	foot := "enter goes back " + d.dot + " down goes on " + d.dot + " esc ends"
	if s.note != "" {
		foot = s.note + " " + d.dot + " " + foot
	}
	return []string{line, d.faint.of(cut(foot, w))}, min(len(label)+s.ed.span(0, s.ed.at), w-1), 0
}
