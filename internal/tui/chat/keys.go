package chat

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
)

// key does what a key means, for what has the keyboard.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if m.bad && m.until.IsZero() {
		m.message, m.bad = "", false
	}
	if name != "ctrl+c" {
		m.leaving = time.Time{}
	}
	switch name {
	case "ctrl+z":
		return tea.Suspend
	case "ctrl+l":
		return tea.ClearScreen
	}
	if m.panel != nil {
		return m.panel.key(m, k)
	}
	if cmd, ok := m.moving(name); ok {
		return cmd
	}
	if m.asking != nil && m.asking.armed && !m.asking.aside {
		return m.asking.key(m, k)
	}
	if m.view.focus != nil {
		if cmd, ok := m.focused(name); ok {
			return cmd
		}
	}
	if m.menu != nil {
		if cmd, ok := m.menu.key(m, name); ok {
			return cmd
		}
	}
	return m.write(k, name)
}

// moving are the keys that move through the conversation, whatever else is on the screen.
func (m *model) moving(name string) (tea.Cmd, bool) {
	page := max(m.view.height-2, 1)
	switch name {
	case "pgup":
		return m.scroll(-page), true
	case "pgdown":
		return m.scroll(page), true
	case "shift+up", "ctrl+up":
		return m.scroll(-1), true
	case "shift+down", "ctrl+down":
		return m.scroll(1), true
	case "ctrl+home":
		m.view.up(m.paper(), 1<<30)
		m.view.window(m.paper(), m.view.height)
		return m.readOlder(nil), true
	case "ctrl+end":
		m.view.end()
		m.view.focus = nil
		return nil, true
	case "ctrl+o":
		m.details = !m.details
		return nil, true
	case "ctrl+t":
		m.view.step(-1, (*item).folds)
		m.show1()
		return nil, true
	}
	return nil, false
}

func (m *model) show1() {
	if m.view.focus != nil {
		m.view.reveal(m.paper(), m.view.focus)
	}
}

// focused are the keys of an item that was chosen with ctrl+t.
func (m *model) focused(name string) (tea.Cmd, bool) {
	switch name {
	case "esc":
		m.view.focus = nil
	case "up", "k", "left":
		m.view.step(-1, (*item).folds)
		m.show1()
	case "down", "j", "right":
		m.view.step(1, (*item).folds)
		m.show1()
	case "enter", "space":
		m.toggle(m.view.focus)
	case "y", "c":
		return m.copied(m.view.focus.plain()), true
	default:
		m.view.focus = nil
		return nil, false
	}
	return nil, true
}

// write are the keys of the message.
func (m *model) write(k tea.KeyPressMsg, name string) tea.Cmd {
	w := m.inputWidth()
	switch name {
	case "enter", "kpenter":
		if strings.HasSuffix(m.ed.text[:m.ed.at], "\\") { // for terminals without another key for it
			m.ed.remove(m.ed.at-1, m.ed.at)
			m.ed.insert("\n")
			return nil
		}
		return m.submit(parley.BusySteer)
	case "tab":
		if (m.running() || len(m.sending) > 0) && !m.ed.empty() {
			if m.conv != nil && !m.conv.queues() {
				m.say("This session queues no more. Enter tells the agent now.")
				return nil
			}
			return m.submit(parley.BusyEnqueue)
		}
		if t := m.suggests(); m.ed.text == "" && t != "" {
			m.ed.set(t)
		}
		return nil
	case "shift+enter", "alt+enter", "ctrl+j", "ctrl+enter":
		m.ed.insert("\n")
		return nil
	case "shift+tab":
		return m.nextMode()
	case "esc":
		return m.escape()
	case "ctrl+c":
		return m.interruptOrLeave()
	case "ctrl+d":
		if m.ed.text == "" {
			return m.leave()
		}
	case "ctrl+g":
		return m.external(m.ed.value(), ".md", func(m *model, text string) { m.ed.set(clean(strings.TrimRight(text, "\n"))) })
	case "ctrl+f":
		return m.search()
	case "ctrl+r":
		if m.asking != nil {
			m.asking.aside, m.asking.armed = false, true
			return nil
		}
		return m.chooseSession()
	case "f1":
		return m.help()
	case "?":
		if m.ed.text == "" {
			return m.help()
		}
	}
	if name == "backspace" && m.detachLast() {
		return nil
	}
	if m.ed.key(name, k.Text, w) {
		m.complete()
		return m.readFiles()
	}
	switch name {
	case "up", "ctrl+p":
		if m.ed.text == "" && m.conv != nil && len(m.conv.queue) > 0 {
			return m.unqueue()
		}
		m.ed.older()
	case "down", "ctrl+n":
		m.ed.newer()
	}
	return nil
}

// running reports whether a turn holds the session.
func (m *model) running() bool { return m.conv != nil && m.conv.running() != nil }

// twice is how soon a key that is pressed twice has to come again.
const twice = 2 * time.Second

// escape interrupts the turn. With nothing to interrupt it empties the message, and twice it goes
// back in the conversation.
func (m *model) escape() tea.Cmd {
	switch {
	case m.stopUpload():
		return nil
	case m.running():
		return m.stop()
	case m.ed.text != "":
		m.ed.remember(m.ed.value())
		m.ed.reset()
		m.menu = nil
		return nil
	case m.now.Sub(m.escaped) < twice && m.conv != nil:
		m.escaped = time.Time{}
		return m.rewind()
	}
	m.escaped = m.now
	if m.conv != nil && len(m.conv.turns) > 0 {
		m.say("esc again goes back to an earlier message")
	}
	return nil
}

func (m *model) interruptOrLeave() tea.Cmd {
	switch {
	case m.ed.text != "":
		m.ed.remember(m.ed.value())
		m.ed.reset()
		m.menu = nil
		return nil
	case m.now.Sub(m.leaving) < twice:
		return tea.Quit
	case m.stopUpload():
		return nil
	case m.running():
		m.leaving = m.now
		return m.stop()
	}
	m.leaving = m.now
	m.say("ctrl+c again leaves")
	return nil
}

// leave ends the program. If the server ends with it, a turn that runs is asked about first.
func (m *model) leave() tea.Cmd {
	if m.o.Own() && m.running() && m.now.Sub(m.leaving) >= twice {
		m.leaving = m.now
		m.say("The turn runs in this program and stops with it; it can be resumed. Once more leaves.")
		return nil
	}
	return tea.Quit
}
