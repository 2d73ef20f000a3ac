package chat

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// submit sends what was written. busy says what becomes of it while a turn runs.
func (m *model) submit(busy parley.BusyMode) tea.Cmd {
	text, words := worded(m.ed.value())
	if text == "" {
		if len(m.attached) > 0 {
			m.say("Write what you want to know about it, and it goes with that.")
		}
		return nil
	}
	if !words {
		if cmd, ok := m.local(text); ok {
			return cmd
		}
	}
	if !m.ready() {
		m.early = true
		return nil
	}
	raw := m.ed.value()
	m.ed.remember(raw)
	m.ed.reset()
	m.menu = nil
	files := m.attached
	m.attached = nil
	s := &sent{text: text, busy: busy, files: files}
	if name, _, ok := parley.Slash(text); ok && !words && !hasCommand(m.commands, name) {
		return m.sendIfKnown(s, name, raw)
	}
	return m.send(s)
}

// sendIfKnown sends a slash command that the server has. Of a misspelt one the person is told.
func (m *model) sendIfKnown(s *sent, name, raw string) tea.Cmd {
	list := m.listCommands()
	conv, draft := m.conv, m.draft
	return ask(m, func(ctx context.Context, c *client.Client) ([]parley.SlashCommand, error) { return list(ctx, c) },
		func(m *model, all []parley.SlashCommand, err error) tea.Cmd {
			if m.conv != conv || m.draft != draft { // another session was opened meanwhile
				return nil
			}
			if err == nil {
				m.commands = all
				err = unknownCommand(name, localNames(), all)
			}
			if err != nil {
				m.unsent(raw, s.files, err)
				return nil
			}
			return m.send(s)
		})
}

// ready reports whether there is a session, or the draft of one. There is none until the server has answered at the start.
func (m *model) ready() bool { return m.conv != nil || m.draft != nil }

// sendEarly sends what was entered before there was a session for it. It is still in the editor.
func (m *model) sendEarly() tea.Cmd {
	if !m.early {
		return nil
	}
	m.early = false
	return m.submit(parley.BusySteer)
}

// send delivers a message when those before it are delivered.
func (m *model) send(s *sent) tea.Cmd {
	m.view.end()
	m.view.focus = nil
	if m.sending = append(m.sending, s); len(m.sending) > 1 {
		return nil
	}
	return m.deliver(s)
}

// deliver uploads the files of a message and sends it. The first message makes the session.
func (m *model) deliver(s *sent) tea.Cmd {
	for _, f := range s.files {
		s.up.total += f.size
	}
	ctx, stop := context.WithCancel(m.ctx)
	if len(s.files) > 0 {
		s.stop = stop
	}
	message := parley.Send{Message: s.text, Busy: s.busy, Key: rand.Text()}
	give := func(c *client.Client, id parley.SessionID) (err error) {
		defer stop()
		if message.Attachments, err = upload(ctx, c, id, s.files, s.up.sent.Store); err == nil {
			_, err = c.Deliver(m.ctx, id, message)
		}
		return err
	}
	if m.conv == nil {
		return m.makeWith(s, give)
	}
	id := m.conv.info.ID
	return ask(m, func(_ context.Context, c *client.Client) (struct{}, error) {
		return struct{}{}, give(c, id)
	}, func(m *model, _ struct{}, err error) tea.Cmd {
		switch next, here := m.delivered(s); {
		case err == nil:
			m.sayUnread(s)
			return next
		case here:
			m.unsent(s.text, s.files, err)
			return next
		default:
			m.fail(err)
		}
		return nil
	})
}

// makeWith makes a session with its first message.
func (m *model) makeWith(s *sent, give func(*client.Client, parley.SessionID) error) tea.Cmd {
	d := *m.draft
	create := d.create()
	return ask(m, func(ctx context.Context, c *client.Client) (openedSession, error) {
		info, _, err := c.CreateSession(ctx, create)
		if err != nil {
			return openedSession{}, err
		}
		if err := give(c, info.ID); err != nil {
			o, e := read(ctx, c, info.ID)
			if e != nil {
				o = openedSession{}
			}
			return o, err // the session is there, and its message is not
		}
		return read(ctx, c, info.ID)
	}, func(m *model, o openedSession, err error) tea.Cmd {
		rest, text, files := m.sending, s.text, s.files
		m.sending = nil
		if err != nil {
			for _, s := range rest[min(len(rest), 1):] {
				text += "\n" + s.text
				files = append(files, s.files...)
			}
			if o.conv == nil || m.draft == nil {
				m.unsent(text, files, err)
				return nil
			}
			written, attached := m.ed.text, m.attached
			cmd := m.show(o)
			m.attached = attached
			m.unsent(strings.TrimRight(text+"\n"+written, "\n"), files, err)
			return cmd
		}
		if m.draft == nil {
			return nil // another one was opened meanwhile
		}
		written, attached := m.ed.text, m.attached
		cmds := []tea.Cmd{m.show(o)}
		m.ed.set(written)
		m.ed.remember(text)
		m.attached = attached
		m.sayUnread(s)
		for _, s := range rest[min(len(rest), 1):] {
			cmds = append(cmds, m.send(s))
		}
		return tea.Sequence(cmds...)
	})
}

// delivered takes the first message off those that are sent, and sends the next. here is false when
// another session was opened meanwhile.
func (m *model) delivered(s *sent) (next tea.Cmd, here bool) {
	if len(m.sending) == 0 || m.sending[0] != s {
		return nil, false
	}
	if m.sending = m.sending[1:]; len(m.sending) > 0 {
		return m.deliver(m.sending[0]), true
	}
	return nil, true
}

func (m *model) sayUnread(s *sent) {
	if text := unread(s.files); text != "" {
		m.message, m.bad, m.until = text, true, time.Time{}
	}
}

// stopUpload stops the upload of the message that is sent, and reports whether there was one.
func (m *model) stopUpload() bool {
	if len(m.sending) == 0 || m.sending[0].stop == nil {
		return false
	}
	m.sending[0].stop()
	return true
}

// maxQueued is how many turns may be open in a session that is made here.
const maxQueued = 20

// draft is the session that a command line begins.
func (o Options) draft() draft {
	return draft{app: o.App, workspace: o.Workspace, title: o.Title, model: o.Model, runtime: o.Runtime}
}

// create is the command that makes the session.
func (d draft) create() parley.CreateSession {
	return parley.CreateSession{
		App: d.app, Workspace: d.workspace, Title: d.title, Model: d.model, Runtime: d.runtime, Mode: d.mode, MaxOpenTurns: maxQueued, Key: rand.Text(),
	}
}

// unsent gives back a message that the server did not take.
func (m *model) unsent(text string, files []*file, err error) {
	m.fail(err)
	if m.ed.empty() {
		m.ed.set(text)
	}
	m.attached = append(files, m.attached...)
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
		m.attach(held(id, t.files))
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
