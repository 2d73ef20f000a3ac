package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// chooseTurn lists the user's messages, the newest first.
func (m *model) chooseTurn(title string, do func(m *model, t *turn) tea.Cmd) tea.Cmd {
	l := &list{title: title, find: newEditor(), none: "There is no message yet."}
	fill := func() {
		l.rows = nil
		for _, t := range slices.Backward(m.conv.turns) {
			if t.rewound || t.message == "" {
				continue
			}
			l.rows = append(l.rows, choice{id: string(t.id), left: oneLine(t.message), right: ago(m.now.Sub(t.asked)), search: lower(t.message)})
		}
	}
	fill()
	l.more = func(m *model) tea.Cmd {
		return m.readOlder(func(m *model) tea.Cmd {
			l.loading = false
			fill()
			if m.conv.older == "" && (len(m.conv.turns) == 0 || m.conv.turns[0].from == 0) {
				l.more = nil
			}
			return nil
		})
	}
	if m.conv.older == "" {
		l.more = nil
	}
	l.pick = func(m *model, c choice) tea.Cmd {
		m.panel = nil
		if t := m.conv.turn(parley.TurnID(c.id)); t != nil {
			return do(m, t)
		}
		return nil
	}
	m.panel = l
	return nil
}

// rewind goes back to before a message: which, then what of it.
func (m *model) rewind() tea.Cmd {
	if m.running() {
		m.say("A turn runs: stop it first.")
		return nil
	}
	return m.chooseTurn("Go back to before which message?", (*model).rewindTo)
}

func (m *model) rewindTo(t *turn) tea.Cmd {
	return m.preview(parley.RewindSession{Turn: t.id}, "Go back to before: "+oneLine(t.message))
}

// undo takes the last rewind back.
func (m *model) undo() tea.Cmd {
	id := m.conv.info.ID
	return ask(m, func(ctx context.Context, c *client.Client) (parley.SessionInfo, error) { return c.Session(ctx, id) },
		func(m *model, s parley.SessionInfo, err error) tea.Cmd {
			switch {
			case err != nil:
				m.fail(err)
			case s.Rewound == nil:
				m.say("Nothing was taken back.")
			default:
				return m.preview(parley.RewindSession{Undo: s.Rewound.Seq}, "Undo the last rewind")
			}
			return nil
		})
}

// preview shows what a rewind would do, and lets the person choose what of it is done.
func (m *model) preview(r parley.RewindSession, title string) tea.Cmd {
	id := m.conv.info.ID
	r.Preview = true
	return ask(m, func(ctx context.Context, c *client.Client) (parley.RewindResult, error) {
		return c.RewindSession(ctx, id, r)
	},
		func(m *model, res parley.RewindResult, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			p := &rewinding{title: title, r: r, res: res, session: id}
			p.list()
			m.panel = p
			return nil
		})
}

// rewinding is the panel of a rewind: what it would do, and the choice of what is done.
type rewinding struct {
	title   string
	r       parley.RewindSession
	res     parley.RewindResult
	session parley.SessionID
	rows    []rewindRow
	at      int
	scroll  int
	busy    bool
}

type rewindRow struct {
	what  parley.RewindWhat
	label string
}

func (p *rewinding) list() {
	files := len(p.res.Files) > 0
	switch {
	case p.r.Undo != 0:
		p.rows = []rewindRow{{"", "Undo it"}}
	case files:
		p.rows = []rewindRow{{parley.RewindBoth, "The conversation and the files"}, {parley.RewindConversation, "Only the conversation"}, {parley.RewindFiles, "Only the files"}}
	default:
		p.rows = []rewindRow{{parley.RewindConversation, "The conversation"}}
	}
	p.rows = append(p.rows, rewindRow{"", "Nothing: leave it as it is"})
}

func (p *rewinding) full() bool { return false }

func (p *rewinding) paste(*model, string) {}

func (p *rewinding) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	if p.busy {
		return nil
	}
	switch name := k.String(); name {
	case "up", "k":
		p.at = max(p.at-1, 0)
	case "down", "j", "tab":
		p.at = min(p.at+1, len(p.rows)-1)
	case "pgdown":
		p.scroll += 5
	case "pgup":
		p.scroll = max(p.scroll-5, 0)
	case "esc", "ctrl+c":
		m.panel = nil
	case "enter":
		return p.do(m, p.at)
	default:
		if len(name) == 1 && name[0] >= '1' && int(name[0]-'1') < len(p.rows) {
			return p.do(m, int(name[0]-'1'))
		}
	}
	return nil
}

func (p *rewinding) do(m *model, i int) tea.Cmd {
	if i == len(p.rows)-1 {
		m.panel = nil
		return nil
	}
	p.busy = true
	r := p.r
	r.Preview, r.What, r.ExpectedVersion = false, p.rows[i].what, p.res.Version
	id, message := p.session, p.res.Message
	return ask(m, func(ctx context.Context, c *client.Client) (parley.RewindResult, error) {
		return c.RewindSession(ctx, id, r)
	},
		func(m *model, _ parley.RewindResult, err error) tea.Cmd {
			p.busy = false
			m.panel = nil
			if err != nil {
				m.fail(err)
				return nil
			}
			m.say("Done. /undo takes it back.")
			if r.Turn != "" && r.What.Conversation() && m.ed.empty() {
				m.ed.set(message)
				if t := m.conv.turn(r.Turn); t != nil {
					m.attach(held(id, t.files))
				}
			}
			return nil // the event has the session read again
		})
}

func (p *rewinding) draw(m *model, w, h int) (lines []string, x, y int) {
	d := m.drawing(w)
	lines = append(lines, d.bold.of(cut(p.title, w)))
	var about []string
	turns := func(head string, list []parley.RewoundTurn, more int) {
		if len(list) == 0 {
			return
		}
		about = append(about, d.faint.of(head))
		for _, t := range list[:min(len(list), 5)] {
			about = append(about, "  "+cut(oneLine(t.Message), w-2))
		}
		if n := len(list) + more - 5; n > 0 {
			about = append(about, d.faint.of("  … "+count(n, "more", "more")))
		}
	}
	turns("Taken back:", p.res.Turns, p.res.TurnsMore)
	turns("Brought back:", p.res.Back, p.res.BackMore)
	if len(p.res.Files) > 0 {
		about = append(about, d.faint.of("Files:"))
		for _, f := range p.res.Files[:min(len(p.res.Files), 12)] {
			what := "restored"
			switch f.Outcome {
			case parley.FileSame:
				what = "is already as it was"
			case parley.FileLeft:
				what = "left as it is: something else has changed it"
			}
			line := "  " + oneLine(f.Path) + d.faint.of(" "+d.dot+" "+what)
			if f.Added+f.Removed > 0 {
				line += d.faint.of(fmt.Sprintf(" +%d −%d", f.Added, f.Removed))
			}
			about = append(about, cut(line, w))
		}
		if n := len(p.res.Files) + p.res.FilesMore - 12; n > 0 {
			about = append(about, d.faint.of("  … "+count(n, "more", "more")))
		}
	}
	if len(p.res.Effects) > 0 {
		about = append(about, d.warn.of("Done, and not undone:"))
		for _, e := range p.res.Effects[:min(len(p.res.Effects), 12)] {
			about = append(about, "  "+cut(oneLine(e.Tool)+" "+oneLine(e.Text)+" ("+string(e.Outcome)+")", w-2))
		}
	}
	room := max(h-len(p.rows)-3, 1)
	p.scroll = min(p.scroll, max(len(about)-room, 0))
	lines = append(lines, about[p.scroll:min(p.scroll+room, len(about))]...)
	for i, r := range p.rows {
		label := r.label
		mark := "  "
		if i == p.at {
			mark, label = d.accent.of(d.look.signs.user)+" ", d.mark.of(label)
		}
		lines = append(lines, mark+d.faint.of(fmt.Sprintf("%d ", i+1))+label)
	}
	return append(lines, d.faint.of(cut("enter or a number chooses "+d.dot+" esc leaves it as it is", w))), 0, -1
}

// copied says what a fork is.
func copied(s parley.SessionInfo) string {
	if s.ReadOnly && s.Workspace != "" {
		return "This is the copy. It reads the files of " + oneLine(string(s.Workspace)) + " and does not change them."
	}
	return "This is the copy."
}

// fork goes on in a copy of the session, up to a message or whole.
func (m *model) fork() tea.Cmd {
	id := m.conv.info.ID
	do := func(m *model, at int64) tea.Cmd {
		return ask(m, func(ctx context.Context, c *client.Client) (parley.SessionInfo, error) {
			return c.ForkSession(ctx, id, parley.ForkSession{At: at})
		}, func(m *model, s parley.SessionInfo, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			m.say(copied(s))
			return m.openSession(s.ID)
		})
	}
	cmd := m.chooseTurn("Copy the session up to where?", func(m *model, t *turn) tea.Cmd { return do(m, t.first-1) })
	if l, ok := m.panel.(*list); ok {
		for i := range l.rows {
			l.rows[i].left = "before: " + l.rows[i].left
		}
		// Event 1 is the session's own, so a copy that ends before the first message is a new session.
		l.rows = slices.DeleteFunc(l.rows, func(c choice) bool {
			t := m.conv.turn(parley.TurnID(c.id))
			return t != nil && t.first <= 2
		})
		l.rows = append([]choice{{id: "", left: "all of it", search: "all of it"}}, l.rows...)
		l.more = nil
		pick := l.pick
		l.pick = func(m *model, c choice) tea.Cmd {
			if c.id == "" {
				m.panel = nil
				return do(m, 0)
			}
			return pick(m, c)
		}
	}
	return cmd
}

// queued shows the queue; what is chosen is taken out of it.
func (m *model) queued() tea.Cmd {
	l := &list{title: "The queue: enter takes a message back to be edited", find: newEditor(), none: "Nothing is queued."}
	for _, t := range m.conv.queue {
		l.rows = append(l.rows, choice{id: string(t.id), left: oneLine(t.message), right: ago(m.now.Sub(t.asked)), search: lower(t.message)})
	}
	id := m.conv.info.ID
	take := func(m *model, c choice, edit bool) tea.Cmd {
		m.panel = nil
		text := ""
		var files []*file
		for _, t := range m.conv.queue {
			if string(t.id) == c.id {
				text, files = t.message, held(id, t.files)
			}
		}
		return ask(m, func(ctx context.Context, cl *client.Client) (struct{}, error) {
			return struct{}{}, cl.Unqueue(ctx, id, parley.TurnID(c.id))
		}, func(m *model, _ struct{}, err error) tea.Cmd {
			switch {
			case err != nil:
				m.fail(err)
			case edit:
				m.ed.set(strings.TrimPrefix(text+"\n"+m.ed.text, "\n"))
				m.ed.set(strings.TrimRight(m.ed.text, "\n"))
				m.attach(files)
			default:
				m.say("Taken out of the queue.")
			}
			return nil
		})
	}
	l.hint = " " + m.look.dot + " ctrl+d deletes"
	l.pick = func(m *model, c choice) tea.Cmd { return take(m, c, true) }
	l.keys = map[string]func(*model, *choice) tea.Cmd{"ctrl+d": func(m *model, c *choice) tea.Cmd {
		if c == nil {
			return nil
		}
		return take(m, *c, false)
	}}
	m.panel = l
	return nil
}

// rules shows what was allowed for this session; what is chosen is revoked.
func (m *model) rules() tea.Cmd {
	id := m.conv.info.ID
	return ask(m, func(ctx context.Context, c *client.Client) ([]parley.Rule, error) { return c.Rules(ctx, id) },
		func(m *model, all []parley.Rule, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			l := &list{title: "Allowed for this session: enter revokes it", find: newEditor(), none: "Nothing was allowed for this session."}
			for i, r := range all {
				left := string(r.Verdict) + " " + oneLine(r.Tool)
				l.rows = append(l.rows, choice{id: fmt.Sprint(i), left: left, right: oneLine(strings.Join(r.Reaches, ", ")), search: lower(left)})
			}
			l.pick = func(m *model, c choice) tea.Cmd {
				m.panel = nil
				keep := []parley.Rule{}
				for i, r := range all {
					if fmt.Sprint(i) != c.id {
						keep = append(keep, r)
					}
				}
				return m.updateSession(parley.UpdateSession{Rules: &keep}, "Revoked.")
			}
			m.panel = l
			return nil
		})
}

// endSession closes the session for good, after a question.
func (m *model) endSession() tea.Cmd {
	id := m.conv.info.ID
	l := &list1{title: "Close this session for good? It stays readable."}
	l.add("", "No", "")
	l.add("yes", "Yes, close it", "")
	return m.pickOne(l, "-", func(m *model, c string) tea.Cmd {
		if c == "" {
			return nil
		}
		return ask(m, func(ctx context.Context, cl *client.Client) (parley.SessionInfo, error) {
			return cl.EndSession(ctx, id, "closed at the terminal")
		}, func(m *model, _ parley.SessionInfo, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
			}
			return nil
		})
	})
}
