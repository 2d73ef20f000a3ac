package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.View{AltScreen: true, WindowTitle: m.windowTitle()}
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	var lines []string
	x, y := 0, -1
	if m.panel != nil && m.panel.full() {
		lines, x, y = m.whole()
	} else {
		lines, x, y = m.chat()
	}
	if len(lines) > m.h {
		lines = lines[:m.h]
	}
	for i, line := range lines {
		if width(line) > m.w {
			lines[i] = cut(line, m.w)
		}
	}
	content := strings.Join(lines, "\n")
	if m.look.ascii {
		content = inASCII.Replace(content)
	}
	v.SetContent(content)
	if y >= 0 && y < m.h {
		v.Cursor = tea.NewCursor(min(x, m.w-1), y)
		v.Cursor.Blink = false
		v.Cursor.Shape = tea.CursorBar
	}
	return v
}

func (m *model) windowTitle() string {
	title := "parley"
	if m.conv != nil {
		title = parley.Cut(oneLine(titleOf(m.conv.info)), 60)
		if len(m.conv.open) > 0 {
			title = "? " + title
		}
	}
	return title
}

// whole is a panel that has the screen, with what went wrong below it.
func (m *model) whole() (lines []string, x, y int) {
	h := m.h
	var foot string
	if text, p := m.notice(); text != "" {
		foot = p.of(cut(text, m.w-2))
		h--
	}
	w := min(m.w-2, 120)
	lines, x, y = m.panel.draw(m, w, h)
	for i := range lines {
		lines[i] = " " + lines[i]
	}
	for len(lines) < h {
		lines = append(lines, "")
	}
	if foot != "" {
		lines = append(lines[:h], " "+foot)
	}
	return lines, x + 1, y
}

// headRows is how many lines are above the conversation.
func (m *model) headRows() int {
	switch {
	case m.h < 10:
		return 0
	case m.h < 16:
		return 1
	}
	return 2
}

// chat is the conversation with what is below it.
func (m *model) chat() (lines []string, x, y int) {
	var below []string
	var bx, by int
	limit := max(m.h-m.headRows()-3, 3)
	switch {
	case m.panel != nil:
		below, bx, by = m.panel.draw(m, m.w-2, min(limit, max(m.h*2/3, 8)))
		below = append([]string{m.look.bar.of(strings.Repeat(m.look.line, m.w-2))}, below...)
		by++
	case m.asking != nil && !m.asking.aside:
		below, bx, by = m.asking.draw(m, m.w-2, limit)
		if !m.asking.armed {
			in, ix, iy := m.input(5)
			bx, by = ix, len(below)+iy
			below = append(below, in...)
		}
	default:
		below, bx, by = m.input(limit)
	}
	status := m.status()
	head := m.headRows()
	room := max(m.h-head-len(status)-len(below), 0)
	if head > 0 {
		lines = append(lines, m.head())
	}
	if head > 1 {
		lines = append(lines, " "+m.look.bar.of(strings.Repeat(m.look.line, m.w-2)))
	}
	body := m.body(room)
	for i := range room {
		if i < len(body) && body[i] != "" {
			lines = append(lines, " "+body[i])
		} else {
			lines = append(lines, "")
		}
	}
	for _, line := range status {
		lines = append(lines, " "+line)
	}
	y = -1
	if by >= 0 {
		x, y = bx+1, len(lines)+by
	}
	for _, line := range below {
		lines = append(lines, " "+line)
	}
	return lines, x, y
}

func (m *model) body(room int) []string {
	switch {
	case m.conv != nil && (len(m.conv.turns) > 0 || len(m.sending) == 0 && len(m.conv.queue) > 0):
		return m.view.window(m.paper(), room)
	case m.draft != nil || m.conv != nil:
		m.view.height, m.view.rows, m.view.list = room, nil, m.view.list[:0]
		return m.welcome(room)
	}
	return nil
}

// welcome is what there is to see before the first message.
func (m *model) welcome(room int) []string {
	d := m.paper()
	var out []string
	if m.app == nil {
		return nil
	}
	title := m.app.Title
	if title == "" {
		title = m.app.Name
	}
	out = append(out, "", d.bold.of(cut(oneLine(title), d.width)))
	if s := oneLine(m.app.Description); s != "" {
		for _, line := range wrap(s, min(d.width, 90)) {
			out = append(out, d.soft.of(line))
		}
	}
	if m.app.Model.Scripted {
		out = append(out, d.faint.of(cut("The model follows a script: no language model is asked.", d.width)))
	}
	for _, n := range m.app.Notices {
		for _, line := range wrap(oneLine(n), min(d.width, 90)) {
			out = append(out, d.warn.of(line))
		}
	}
	if len(m.app.Examples) > 0 {
		out = append(out, "", d.faint.of("For example:"))
		for _, e := range m.app.Examples {
			if len(out) >= room-1 {
				break
			}
			out = append(out, "  "+d.accent.of(cut(oneLine(e), d.width-2)))
		}
	}
	return out
}

func (m *model) head() string {
	l := m.look
	app, title, right := "", "", ""
	switch {
	case m.conv != nil:
		app, title, right = m.conv.info.App, oneLine(titleOf(m.conv.info)), string(m.conv.info.Workspace)
		if m.conv.info.ReadOnly && right != "" {
			right += ", read only" // as a copy's is
		}
		if m.conv.info.Status != parley.Active {
			right = string(m.conv.info.Status)
		}
	case m.draft != nil:
		app, title, right = m.draft.app, "new session", string(m.draft.workspace)
		if m.draft.title != "" {
			title = oneLine(m.draft.title)
		}
	case m.opening != "":
		title = "Opening…"
	}
	if m.o.Where != "" && m.w >= 60 {
		if right != "" {
			right += " " + l.dot + " "
		}
		right += m.o.Where
	}
	left := " " + l.accent.of(oneLine(app)) + " "
	room := m.w - width(left) - 2
	right = cut(oneLine(right), max(room/3, 0))
	left += l.soft.of(cut(title, max(room-width(right)-1, 8)))
	return between(left, l.faint.of(right)+" ", m.w)
}

// notice is what the person should know now.
func (m *model) notice() (string, paint) {
	switch {
	case m.away != nil:
		return fmt.Sprintf("%s The server does not answer. Trying again, for %s now.", m.look.waits, took(m.now.Sub(m.awayAt))), m.look.warn
	case m.message != "" && m.bad:
		return m.look.failed + " " + m.message, m.look.bad
	case m.message != "":
		return m.message, m.look.soft
	}
	return "", paint{}
}

// status are the lines between the conversation and the message.
func (m *model) status() []string {
	l := m.look
	w := m.w - 2
	var out []string
	if m.h >= 12 {
		out = append(out, "")
	}
	for _, s := range m.sending {
		text := m.drawing(w).spin() + " sending: " + oneLine(s.text)
		if how := s.up.text(); how != "" {
			text = fmt.Sprintf("%s uploading %s: %s %s %s", m.drawing(w).spin(), filesText(s.files), how, l.dot, oneLine(s.text))
			if w >= 60 {
				out = append(out, between(l.faint.of(cut(text, w-16)), l.faint.of("esc stops it"), w))
				continue
			}
		}
		out = append(out, l.faint.of(cut(text, w)))
	}
	if m.conv != nil {
		for i, t := range m.conv.queue {
			if i == 3 {
				out = append(out, l.faint.of("  … "+count(len(m.conv.queue)-3, "more is queued", "more are queued")))
				break
			}
			text := "  queued: " + oneLine(t.message)
			if n := len(t.files); n > 0 {
				text = "  queued, with " + count(n, "file", "files") + ": " + oneLine(t.message)
			}
			out = append(out, l.faint.of(cut(text, w)))
		}
		if len(m.conv.queue) > 0 && m.conv.info.Held && !m.running() {
			out = append(out, l.warn.of(cut("  The queue waits for your next message.", w)))
		}
	}
	if text, p := m.notice(); text != "" {
		lines := wrap(text, w)
		for _, line := range lines[:min(len(lines), 3)] {
			out = append(out, p.of(line))
		}
	}
	if line := m.activity(w); line != "" {
		out = append(out, line)
	}
	if n := len(m.attached); n > 0 && (m.asking == nil || m.asking.aside || !m.asking.armed) {
		text := filesText(m.attached)
		if n > 1 && width(text) > w-2 {
			text = count(n, "file", "files") + ": " + text
		}
		out = append(out, l.accent.of("+ ")+l.soft.of(cut(text, w-2)))
	}
	return out
}

// activity says what the turn does now.
func (m *model) activity(w int) string {
	if m.conv == nil || m.away != nil {
		return ""
	}
	l := m.look
	t := m.conv.running()
	if t == nil {
		last := m.conv.last()
		if last != nil && last.status == parley.StatusInterrupted {
			return l.warn.of(cut(l.denied+" The turn was interrupted"+because(oneLine(last.reason))+". /resume goes on, /retry asks again.", w))
		}
		if !m.view.follow && len(m.view.list) > 0 {
			return l.faint.of(cut("  ctrl+end goes to the end", w))
		}
		return ""
	}
	what := "Working"
	switch {
	case t.stopping:
		what = "Stopping"
	case t.status == parley.StatusInterrupted:
		what = "Interrupted; it goes on by itself"
	case t.status == parley.StatusWaiting:
		if n := len(m.conv.open); n > 0 && m.conv.open[0].Kind == parley.KindClient {
			what = "Waiting for another program to run " + oneLine(m.conv.open[0].Tool)
		} else {
			what = "Waiting for your answer"
			if m.asking != nil && m.asking.aside {
				what += ": ctrl+r shows it"
			}
		}
		return l.warn.of(cut(l.waits+" "+what, w))
	case t.status == parley.StatusStreaming:
		what = "Answering"
	}
	d := m.drawing(w)
	left := l.accent.of(d.spin()) + " " + l.soft.of(what) + l.faint.of(" "+l.dot+" "+took(m.now.Sub(t.asked)))
	right := "esc stops it"
	if !m.view.follow {
		right = "ctrl+end goes to the end"
	} else if !m.ed.empty() {
		if right = "enter tells the agent now"; m.conv.queues() {
			right += " " + l.dot + " tab queues it"
		}
	}
	return between(left, l.faint.of(right), w)
}

// inputWidth is how wide the message is.
func (m *model) inputWidth() int { return max(m.w-2-4, 4) }

// input is the message that is written, with its menu and the last line of the screen.
func (m *model) input(limit int) (lines []string, x, y int) {
	l := m.look
	w := m.w - 2
	iw := m.inputWidth()
	rows := m.ed.rows(iw)
	line, column := m.ed.cursor(rows)
	most := max(min(limit-3, m.h/3), 1)
	from := 0
	if len(rows) > most {
		from = min(max(line-most/2, 0), len(rows)-most)
	}
	if m.menu != nil {
		lines = append(lines, m.menu.draw(m, w, max(min(8, limit-4-min(len(rows), most)), 2))...)
	}
	boxed := m.h >= 10
	p := l.bar
	if m.conv != nil && m.conv.mode != parley.ModeDefault || m.draft != nil && m.draft.mode != "" && m.draft.mode != parley.ModeDefault {
		p = l.warn
	}
	if boxed {
		lines = append(lines, p.of(l.corners[0]+strings.Repeat(l.line, w-2)+l.corners[1]))
	}
	top := len(lines)
	for i := from; i < min(len(rows), from+most); i++ {
		text := m.ed.shown(m.ed.text[rows[i].from:rows[i].to])
		if m.ed.text == "" {
			text = l.faint.of(cut(m.placeholder(), iw))
		}
		mark := "  "
		if i == 0 {
			mark = l.accent.of(l.signs.user) + " "
		}
		if boxed {
			lines = append(lines, p.of(l.signs.bar)+mark+pad(text, w-4)+p.of(l.signs.bar))
		} else {
			lines = append(lines, mark+text)
		}
	}
	x, y = column+3, top+line-from
	if boxed {
		lines = append(lines, p.of(l.corners[2]+strings.Repeat(l.line, w-2)+l.corners[3]))
	} else {
		x--
	}
	return append(lines, m.foot(w)), x, y
}

func (m *model) placeholder() string {
	switch {
	case m.conv != nil && m.conv.info.Status != parley.Active:
		return "This session has ended. /new begins another one."
	case m.conv != nil && len(m.conv.open) > 0 && m.asking != nil:
		return "Write, to decline and say something else"
	case len(m.attached) > 0:
		return "Write what you want to know about it"
	case m.running():
		return "Write to the agent while it works"
	case m.suggests() != "":
		return m.suggests() + " (tab)"
	}
	return "Write a message, or / for commands"
}

// suggests is a question that the last answer suggests.
func (m *model) suggests() string {
	if m.conv == nil || m.running() {
		return ""
	}
	t := m.conv.last()
	switch {
	case t == nil || t.status != parley.StatusCompleted:
	case len(t.follow) > 0:
		return oneLine(t.follow[0])
	case m.app != nil && len(m.app.FollowUps) > 0:
		return oneLine(m.app.FollowUps[0])
	}
	return ""
}

// foot is the last line: mode and model, and what the session has used.
func (m *model) foot(w int) string {
	l := m.look
	mode, model := parley.ModeDefault, ""
	var used []string
	switch {
	case m.conv != nil:
		mode, model = m.conv.mode, m.conv.info.Model
		u := m.conv.info.Totals.Usage
		if n := u.InputTokens + u.OutputTokens; n > 0 {
			used = append(used, tokens(n))
		}
		if u.USD > 0 {
			used = append(used, dollars(u.USD))
		}
	case m.draft != nil:
		model = m.draft.model
		if m.draft.mode != "" {
			mode = m.draft.mode
		}
	}
	if model == "" && m.app != nil {
		model = m.app.Model.Name
	}
	if model != "" {
		used = append([]string{oneLine(model)}, used...)
	}
	if name := m.runtimeShown(); name != "" {
		used = append([]string{name}, used...)
	}
	right := strings.Join(used, " "+l.dot+" ")
	left := l.faint.of("? help")
	if mode != parley.ModeDefault {
		left = l.warn.of(modeName(mode)) + l.faint.of(" "+l.dot+" ") + left
	} else if hint := " " + l.dot + " shift+tab changes the mode"; len(m.modes()) > 1 && width(left)+width(hint)+width(right)+4 <= w {
		left += l.faint.of(hint)
	}
	return between(" "+left, l.faint.of(cut(right, max(w-width(left)-4, 0)))+" ", w)
}
