package chat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// command is a slash command of this program. Those of the server are sent as messages.
type command struct {
	name, args, about string
	do                func(m *model, args string) tea.Cmd
	session           bool // it needs a session
}

// locals are the commands of this program.
func locals() []command {
	return []command{
		{name: "help", about: "keys and commands", do: func(m *model, _ string) tea.Cmd { return m.help() }},
		{name: "sessions", about: "choose another session", do: func(m *model, _ string) tea.Cmd { return m.chooseSession() }},
		{name: "new", args: "[app]", about: "begin a session", do: (*model).newCommand},
		{name: "title", args: "TEXT", about: "name the session", do: (*model).titleCommand},
		{name: "mode", args: "[name]", about: "how much is asked before something is done", do: (*model).modeCommand},
		{name: "model", args: "[name]", about: "choose the model", do: (*model).modelCommand},
		{name: "runtime", args: "[name]", about: "choose what carries out the turns", do: (*model).runtimeCommand},
		{name: "attach", args: "PATH", about: "attach a file to the next message; without a path: what is attached", do: (*model).attachCommand},
		{name: "stop", about: "interrupt the turn", session: true, do: func(m *model, _ string) tea.Cmd { return m.stop() }},
		{name: "resume", about: "go on with an interrupted turn", session: true, do: func(m *model, _ string) tea.Cmd { return m.resume() }},
		{name: "retry", about: "ask the last question again", session: true, do: func(m *model, _ string) tea.Cmd { return m.retry() }},
		{name: "rewind", about: "go back to before a message", session: true, do: func(m *model, _ string) tea.Cmd { return m.rewind() }},
		{name: "undo", about: "take the last rewind back", session: true, do: func(m *model, _ string) tea.Cmd { return m.undo() }},
		{name: "fork", about: "go on in a copy of the session", session: true, do: func(m *model, _ string) tea.Cmd { return m.fork() }},
		{name: "queue", about: "what is queued", session: true, do: func(m *model, _ string) tea.Cmd { return m.queued() }},
		{name: "rules", about: "what is allowed for this session", session: true, do: func(m *model, _ string) tea.Cmd { return m.rules() }},
		{name: "usage", about: "what the session has used", session: true, do: func(m *model, _ string) tea.Cmd { return m.usage() }},
		{name: "copy", about: "copy the last answer", session: true, do: func(m *model, _ string) tea.Cmd { return m.copyAnswer() }},
		{name: "image", about: "show a picture", session: true, do: func(m *model, _ string) tea.Cmd { return m.chooseImage() }},
		{name: "search", args: "[text]", about: "search the conversation", session: true, do: func(m *model, args string) tea.Cmd { return m.searchFor(args) }},
		{name: "details", about: "show or fold everything", do: func(m *model, _ string) tea.Cmd { m.details = !m.details; return nil }},
		{name: "mouse", about: "give the mouse to the terminal, or take it", do: (*model).mouseCommand},
		{name: "end", about: "close the session for good", session: true, do: func(m *model, _ string) tea.Cmd { return m.endSession() }},
		{name: "quit", about: "leave; the session stays", do: func(m *model, _ string) tea.Cmd { return m.leave() }},
	}
}

// local runs a command of this program, if the text is one.
func (m *model) local(text string) (tea.Cmd, bool) {
	name, args, ok := parley.Slash(text)
	if !ok {
		return nil, false
	}
	if name == "exit" {
		name = "quit"
	}
	i := slices.IndexFunc(locals(), func(c command) bool { return c.name == name })
	if i < 0 {
		return nil, false
	}
	c := locals()[i]
	m.ed.remember(text)
	m.ed.reset()
	m.menu = nil
	if c.session && m.conv == nil {
		m.say("There is no session yet: write a message first.")
		return nil, true
	}
	return c.do(m, args), true
}

func (m *model) newCommand(args string) tea.Cmd {
	if args != "" {
		return m.newSession(draft{app: args})
	}
	return m.chooseApp()
}

func (m *model) titleCommand(args string) tea.Cmd {
	switch {
	case args == "":
		m.say("/title TEXT names the session")
		return nil
	case m.conv == nil:
		m.draft.title = args
		return nil
	}
	return m.updateSession(parley.UpdateSession{Title: &args}, "Renamed.")
}

func (m *model) mouseCommand(string) tea.Cmd {
	if m.mouse = !m.mouse; m.mouse {
		m.say("The wheel scrolls, a click unfolds. Shift and drag selects.")
	} else {
		m.say("The mouse is the terminal's.")
	}
	return nil
}

// modes are the permission modes that the session may have.
func (m *model) modes() []parley.PermissionMode {
	out := []parley.PermissionMode{parley.ModeDefault}
	add := func(p parley.PermissionMode) {
		if p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	switch {
	case m.conv != nil && m.conv.info.Policy != nil:
		for _, p := range []parley.PermissionMode{parley.ModeAcceptEdits, parley.ModePlan, parley.ModeBypassPermissions} {
			if m.conv.info.Policy.Offers(p) {
				add(p)
			}
		}
	case m.app != nil:
		for _, p := range m.app.Modes {
			add(parley.PermissionMode(p))
		}
	}
	return out
}

func modeName(p parley.PermissionMode) string {
	switch p {
	case parley.ModeAcceptEdits:
		return "edits are not asked about"
	case parley.ModePlan:
		return "plan mode: nothing is changed"
	case parley.ModeBypassPermissions:
		return "nothing is asked about"
	case parley.ModeDefault:
		return "the app's rules"
	}
	return oneLine(string(p))
}

func (m *model) modeNow() parley.PermissionMode {
	switch {
	case m.conv != nil:
		return m.conv.mode
	case m.draft != nil && m.draft.mode != "":
		return m.draft.mode
	}
	return parley.ModeDefault
}

func (m *model) nextMode() tea.Cmd {
	list := m.modes()
	if len(list) < 2 {
		m.say("This app has no other mode.")
		return nil
	}
	i := slices.Index(list, m.modeNow())
	return m.setMode(list[(i+1)%len(list)])
}

func (m *model) setMode(p parley.PermissionMode) tea.Cmd {
	if m.conv == nil {
		if m.draft != nil {
			m.draft.mode = p
		}
		return nil
	}
	m.conv.mode = p // the event confirms it
	return m.updateSession(parley.UpdateSession{Mode: &p}, "Mode: "+modeName(p))
}

func (m *model) modeCommand(args string) tea.Cmd {
	list := m.modes()
	if args != "" {
		for _, p := range list {
			if strings.EqualFold(string(p), args) {
				return m.setMode(p)
			}
		}
		m.fail(parley.Errorf(parley.CodeInvalid, "there is no mode %q here", args))
		return nil
	}
	l := &list1{title: "How much is asked before something is done?"}
	for _, p := range list {
		l.add(string(p), modeName(p), string(p))
	}
	return m.pickOne(l, string(m.modeNow()), func(m *model, id string) tea.Cmd { return m.setMode(parley.PermissionMode(id)) })
}

func (m *model) modelCommand(args string) tea.Cmd {
	set := func(m *model, name string) tea.Cmd {
		if m.conv == nil {
			if m.draft != nil {
				m.draft.model = name
			}
			return nil
		}
		return m.updateSession(parley.UpdateSession{Model: &name}, "Model: "+oneLine(name))
	}
	if args != "" {
		return set(m, args)
	}
	if m.conv != nil && m.conv.info.Policy != nil && m.conv.info.Policy.FixedModel {
		m.say("This app decides which model answers.")
		return nil
	}
	return ask(m, func(ctx context.Context, c *client.Client) ([]client.Model, error) { return c.Models(ctx) },
		func(m *model, all []client.Model, err error) tea.Cmd {
			if err != nil {
				m.fail(err)
				return nil
			}
			l := &list1{title: "Which model?"}
			for _, a := range all {
				right := oneLine(a.Provider)
				if a.InputUSD > 0 {
					right += fmt.Sprintf(" %s $%.2f / $%.2f per million", m.look.dot, a.InputUSD, a.OutputUSD)
				}
				l.add(a.Name, oneLine(a.Name), right)
			}
			now := ""
			if m.conv != nil {
				now = m.conv.info.Model
			}
			return m.pickOne(l, now, set)
		})
}

// list1 is a short list to choose one of.
type list1 struct {
	title string
	rows  []choice
}

func (l *list1) add(id, left, right string) {
	l.rows = append(l.rows, choice{id: id, left: left, right: right, search: lower(left, right)})
}

func (m *model) pickOne(l *list1, now string, do func(m *model, id string) tea.Cmd) tea.Cmd {
	p := &list{title: l.title, rows: l.rows, find: newEditor(), none: "There is nothing to choose from."}
	for i, r := range p.rows {
		if r.id == now {
			p.at = i
			p.rows[i].sign = m.look.ok
		}
	}
	p.pick = func(m *model, c choice) tea.Cmd {
		m.panel = nil
		return do(m, c.id)
	}
	m.panel = p
	return nil
}

// external opens a text in the person's editor.
func (m *model) external(text, ext string, then func(m *model, text string)) tea.Cmd {
	name, err := temp(text, ext)
	if err != nil {
		m.fail(err)
		return nil
	}
	words := editorOf(m.o.Env)
	cmd := exec.Command(words[0], append(words[1:], name)...) //nolint:gosec // the person's own editor
	return tea.ExecProcess(cmd, func(err error) tea.Msg {
		raw, e := os.ReadFile(name)
		_ = os.Remove(name)
		return doneMsg(func(m *model) tea.Cmd {
			switch {
			case err != nil:
				m.fail(parley.Errorf(parley.CodeUnavailable, "the editor %s: %w", words[0], err).WithHint("EDITOR names another one"))
			case e != nil:
				m.fail(e)
			default:
				then(m, string(raw))
			}
			return nil
		})
	})
}

// copied puts a text on the clipboard, by the terminal.
func (m *model) copied(text string) tea.Cmd {
	if strings.TrimSpace(text) == "" {
		m.say("There is nothing to copy.")
		return nil
	}
	m.say("Copied " + size(int64(len(text))) + ", if the terminal lets programs do that.")
	return tea.SetClipboard(text)
}

func (m *model) copyAnswer() tea.Cmd {
	for _, t := range slices.Backward(m.conv.turns) {
		if t.said != "" {
			return m.copied(t.said)
		}
		for _, it := range slices.Backward(t.items) {
			if it.kind == kindText && it.agent.Depth() == 0 && it.text != "" {
				return m.copied(it.text)
			}
		}
	}
	m.say("There is no answer yet.")
	return nil
}

// plain is an item as text.
func (it *item) plain() string {
	switch it.kind {
	case kindTool:
		return it.output
	case kindMessage:
		if it.label == "" {
			return it.turn.message
		}
	case kindFiles:
		var b strings.Builder
		for _, f := range it.files {
			b.WriteString(f.Diff)
		}
		return b.String()
	}
	return it.text
}
