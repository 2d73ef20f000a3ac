package chat

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// submit sends what was written. busy says what becomes of it while a turn runs.
func (m *model) submit(busy parley.BusyMode) tea.Cmd {
	text := strings.TrimSpace(m.ed.value())
	if text == "" {
		return nil
	}
	if cmd, ok := m.local(text); ok {
		return cmd
	}
	if strings.HasPrefix(text, "//") { // a command of the server that is called like one of ours
		text = text[1:]
	}
	m.ed.remember(m.ed.value())
	m.ed.reset()
	m.menu = nil
	return m.send(text, busy)
}

// send delivers a message, and makes the session with the first one.
func (m *model) send(text string, busy parley.BusyMode) tea.Cmd {
	m.view.end()
	m.view.focus = nil
	s := sent{text: text, busy: busy, at: m.now}
	m.sending = append(m.sending, s)
	done := func(m *model) {
		if i := slices.Index(m.sending, s); i >= 0 {
			m.sending = slices.Delete(m.sending, i, i+1)
		}
	}
	message := parley.Send{Message: text, Busy: busy, Key: rand.Text()}
	if m.conv == nil && len(m.sending) > 1 {
		return nil // it is sent when the first message has made the session
	}
	if m.conv == nil {
		d := *m.draft
		create := d.create()
		return ask(m, func(ctx context.Context, c *client.Client) (openedSession, error) {
			info, _, err := c.CreateSession(ctx, create)
			if err != nil {
				return openedSession{}, err
			}
			if _, err := c.Deliver(ctx, info.ID, message); err != nil {
				return openedSession{conv: newConversation(info)}, err
			}
			return read(ctx, c, info.ID)
		}, func(m *model, o openedSession, err error) tea.Cmd {
			done(m)
			if err != nil {
				for _, s := range m.sending {
					text += "\n" + s.text
				}
				m.sending = nil
				m.unsent(text, err)
				if o.conv != nil && m.draft != nil { // the session is there, and its message is not
					return m.openWith(o.conv.info.ID, text)
				}
				return nil
			}
			if m.draft == nil {
				return nil // another one was opened meanwhile
			}
			written, rest := m.ed.text, m.sending
			cmds := []tea.Cmd{m.show(o)}
			m.ed.set(written)
			m.ed.remember(text)
			for _, s := range rest {
				cmds = append(cmds, m.send(s.text, s.busy))
			}
			return tea.Sequence(cmds...)
		})
	}
	id := m.conv.info.ID
	return ask(m, func(ctx context.Context, c *client.Client) (parley.TurnInfo, error) {
		return c.Deliver(ctx, id, message)
	}, func(m *model, _ parley.TurnInfo, err error) tea.Cmd {
		done(m)
		if err != nil {
			m.unsent(text, err)
		}
		return nil
	})
}

// maxQueued is how many turns may be open in a session that is made here.
const maxQueued = 20

// create is the command that makes the session.
func (d draft) create() parley.CreateSession {
	return parley.CreateSession{
		App: d.app, Workspace: d.workspace, Title: d.title, Model: d.model, Mode: d.mode, MaxOpenTurns: maxQueued, Key: rand.Text(),
	}
}

// unsent gives back a message that the server did not take.
func (m *model) unsent(text string, err error) {
	m.fail(err)
	if m.ed.empty() {
		m.ed.set(text)
	}
}

// openWith opens a session, and keeps what was written.
func (m *model) openWith(id parley.SessionID, text string) tea.Cmd {
	message := m.message
	return ask(m, func(ctx context.Context, c *client.Client) (openedSession, error) { return read(ctx, c, id) },
		func(m *model, s openedSession, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			cmd := m.show(s)
			m.ed.set(text)
			m.message, m.bad = message, true
			return cmd
		})
}

// stop interrupts the open turn.
func (m *model) stop() tea.Cmd {
	t := m.conv.running()
	if t == nil {
		return nil
	}
	t.stopping = true // the event confirms it
	return ask(m, func(ctx context.Context, c *client.Client) (parley.TurnInfo, error) {
		return c.Cancel(ctx, t.id, "stopped at the terminal")
	}, func(m *model, now parley.TurnInfo, err error) tea.Cmd {
		switch {
		case err != nil:
			t.stopping = false
			m.fail(err)
		case now.Stopping:
			m.say("What has started may finish first. Then the turn is stopped.")
		}
		return nil
	})
}

// unqueue takes the newest queued message back to be edited.
func (m *model) unqueue() tea.Cmd {
	if m.conv == nil || len(m.conv.queue) == 0 {
		return nil
	}
	t := m.conv.queue[len(m.conv.queue)-1]
	id := m.conv.info.ID
	return ask(m, func(ctx context.Context, c *client.Client) (struct{}, error) {
		return struct{}{}, c.Unqueue(ctx, id, t.id)
	}, func(m *model, _ struct{}, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
			return nil
		}
		if m.ed.empty() {
			m.ed.set(t.message)
		} else {
			m.ed.set(t.message + "\n" + m.ed.text)
		}
		return nil
	})
}

// resume goes on with an interrupted turn, and retry asks a turn's question again.
func (m *model) resume() tea.Cmd {
	t := m.conv.last()
	if t == nil || t.status != parley.StatusInterrupted {
		m.say("No turn is interrupted.")
		return nil
	}
	return m.turnDone(func(ctx context.Context, c *client.Client) (parley.TurnInfo, error) { return c.Resume(ctx, t.id) })
}

func (m *model) retry() tea.Cmd {
	t := m.conv.last()
	if t == nil {
		m.say("There is no turn yet.")
		return nil
	}
	return m.turnDone(func(ctx context.Context, c *client.Client) (parley.TurnInfo, error) { return c.Retry(ctx, t.id, "") })
}

func (m *model) turnDone(do func(context.Context, *client.Client) (parley.TurnInfo, error)) tea.Cmd {
	m.view.end()
	return ask(m, do, func(m *model, _ parley.TurnInfo, err error) tea.Cmd {
		if err != nil {
			m.fail(err)
		}
		return nil
	})
}

// update changes the session, or what it will be.
func (m *model) updateSession(u parley.UpdateSession, said string) tea.Cmd {
	id := m.conv.info.ID
	return ask(m, func(ctx context.Context, c *client.Client) (parley.SessionInfo, error) {
		return c.UpdateSession(ctx, id, u)
	},
		func(m *model, _ parley.SessionInfo, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			m.say(said)
			return nil
		})
}
