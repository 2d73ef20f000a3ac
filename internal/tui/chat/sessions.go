package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

const pageSessions = 100

// chooseSession shows the sessions of all apps.
func (m *model) chooseSession() tea.Cmd {
	l := &list{title: "Sessions", whole: true, find: newEditor(), none: "There are no sessions yet. ctrl+n begins one.", loading: true}
	l.hint = " " + m.look.dot + " ctrl+n new " + m.look.dot + " ctrl+r reads again"
	cursor := ""
	more := func(m *model) tea.Cmd {
		l.loading = true
		return ask(m, func(ctx context.Context, c *client.Client) (sessionPage, error) {
			list, next, err := c.SessionPage(ctx, client.SessionFilter{Limit: pageSessions, Cursor: cursor})
			return sessionPage{list, next}, err
		}, func(m *model, p sessionPage, err error) tea.Cmd {
			l.loading = false
			if err != nil {
				m.fail(err)
				return nil
			}
			for _, s := range p.list {
				l.rows = append(l.rows, m.rowOf(s))
			}
			if cursor = p.next; cursor == "" {
				l.more = nil
			}
			if len(l.rows) == 0 && m.conv == nil && m.panel == panel(l) {
				return m.chooseApp()
			}
			if l.find.text != "" {
				return l.further(m, len(l.matching()))
			}
			return nil
		})
	}
	l.more = more
	l.pick = func(m *model, c choice) tea.Cmd {
		if m.conv != nil && m.conv.info.ID == parley.SessionID(c.id) {
			m.panel = nil
			return nil
		}
		return m.openSession(parley.SessionID(c.id))
	}
	l.keys = map[string]func(*model, *choice) tea.Cmd{
		"ctrl+n": func(m *model, _ *choice) tea.Cmd { return m.chooseApp() },
		"ctrl+r": func(m *model, _ *choice) tea.Cmd { return m.chooseSession() },
	}
	l.leave = func(m *model) tea.Cmd {
		if m.conv == nil && m.draft == nil {
			return tea.Quit
		}
		m.panel = nil
		return nil
	}
	m.panel = l
	return more(m)
}

type sessionPage struct {
	list []parley.SessionInfo
	next string
}

func (m *model) rowOf(s parley.SessionInfo) choice {
	title := oneLine(titleOf(s))
	sign := ""
	state := ago(m.now.Sub(s.UpdatedAt))
	switch {
	case s.Waiting > s.Offered:
		sign, state = m.look.warn.of(m.look.waits), "waits for you"
	case s.Turn != nil && s.Turn.Status == parley.StatusInterrupted:
		sign, state = m.look.warn.of(m.look.denied), "interrupted"
	case s.Turn != nil:
		sign, state = m.look.accent.of(m.look.text), "running"
	case s.Status != parley.Active:
		state = string(s.Status)
	}
	about := string(s.ID) + " " + m.look.dot + " " + count(s.Totals.Turns, "turn", "turns")
	if s.Workspace != "" {
		about += " " + m.look.dot + " workspace " + oneLine(string(s.Workspace))
	}
	return choice{id: string(s.ID), sign: sign, left: title, right: oneLine(s.App) + " " + m.look.dot + " " + state, about: about, search: lower(title, s.App, string(s.ID), s.Preview, string(s.Workspace))}
}

func titleOf(s parley.SessionInfo) string {
	switch {
	case s.Title != "":
		return s.Title
	case s.Preview != "":
		return s.Preview
	}
	return "(no message yet)"
}

func ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d d ago", int(d.Hours()/24))
}

// chooseApp begins a new session: with which app?
func (m *model) chooseApp() tea.Cmd {
	if len(m.apps) == 1 {
		return m.newSession(draft{app: m.apps[0].Name})
	}
	l := &list{title: "A new session: with which app?", whole: true, find: newEditor(), none: "The server has no apps."}
	for _, a := range m.apps {
		title := a.Title
		if title == "" {
			title = a.Name
		}
		l.rows = append(l.rows, choice{id: a.Name, left: oneLine(title), right: oneLine(a.Name), about: oneLine(a.Description), search: lower(a.Name, title, a.Description)})
	}
	for _, a := range m.off {
		l.rows = append(l.rows, choice{id: "", left: oneLine(a.App) + " (off)", about: oneLine(a.Why), search: lower(a.App)})
	}
	l.pick = func(m *model, c choice) tea.Cmd {
		if c.id == "" {
			return nil
		}
		return m.chooseWorkspace(draft{app: c.id})
	}
	l.leave = func(m *model) tea.Cmd {
		if m.conv == nil && m.draft == nil {
			if len(l.rows) > 0 && m.hadSessions() {
				return m.chooseSession()
			}
			return tea.Quit
		}
		m.panel = nil
		return nil
	}
	m.panel = l
	return nil
}

func (m *model) hadSessions() bool { return m.o.App == "" }

// chooseWorkspace asks for the workspace of a new session, if there are several.
func (m *model) chooseWorkspace(d draft) tea.Cmd {
	return ask(m, func(ctx context.Context, c *client.Client) ([]parley.WorkspaceInfo, error) {
		return c.Workspaces(ctx, d.app)
	},
		func(m *model, all []parley.WorkspaceInfo, err error) tea.Cmd {
			all = slices.DeleteFunc(all, func(w parley.WorkspaceInfo) bool { return w.App != d.app })
			if err != nil || len(all) < 2 {
				return m.newSession(d)
			}
			l := &list{title: "In which workspace?", whole: true, find: newEditor()}
			slices.SortStableFunc(all, func(a, b parley.WorkspaceInfo) int {
				switch {
				case a.Default == b.Default:
					return strings.Compare(string(a.Name), string(b.Name))
				case a.Default:
					return -1
				}
				return 1
			})
			for _, w := range all {
				right := string(w.Kind)
				if w.Default {
					right += ", the default"
				}
				if w.ReadOnly {
					right += ", read only"
				}
				l.rows = append(l.rows, choice{id: string(w.Name), left: oneLine(string(w.Name)), right: right, search: lower(string(w.Name), right)})
			}
			l.pick = func(m *model, c choice) tea.Cmd {
				d.workspace = parley.Workspace(c.id)
				return m.newSession(d)
			}
			l.leave = func(m *model) tea.Cmd { return m.chooseApp() }
			m.panel = l
			return nil
		})
}

// newSession shows a session that is made with its first message.
func (m *model) newSession(d draft) tea.Cmd {
	app := m.appNamed(d.app)
	if app == nil {
		why := parley.Errorf(parley.CodeNotFound, "there is no app %q", d.app)
		for _, o := range m.off {
			if o.App == d.app {
				why = parley.Errorf(parley.CodeUnavailable, "the app %s is off: %s", d.app, o.Why)
			}
		}
		m.fail(why)
		return m.chooseApp()
	}
	m.unfollow()
	begun := m.ready()
	m.conv, m.panel, m.asking, m.commands, m.files = nil, nil, nil, nil, nil
	m.draft, m.app = &d, app
	m.ed.history = nil
	m.view.reset()
	m.view.list = nil
	if !begun {
		return tea.Batch(m.readCommands(), m.sendEarly())
	}
	m.sending, m.attached = nil, nil
	m.ed.reset()
	return m.readCommands()
}
