package chat

import (
	"context"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// menu offers what may be meant by the word at the cursor.
type menu struct {
	from  int // where the word begins
	rows  []offer
	at    int
	run   bool // Enter does what is chosen: a command
	paths bool // of this machine, of a file to attach
}

type offer struct {
	text  string // what takes the word's place
	label string
	about string
	args  bool // more has to follow
	into  bool // a folder
}

// fileList are the files of the session's workspace, and the resources of its servers.
type fileList struct {
	of      string
	names   []string
	loading bool
	more    bool // not all are listed
}

// maxFiles is how many files are offered.
const maxFiles = 20_000

// listCommands reads the server's commands of the session, or of the one that is begun.
func (m *model) listCommands() func(context.Context, *client.Client) ([]parley.SlashCommand, error) {
	if m.conv != nil {
		id := m.conv.info.ID
		return func(ctx context.Context, c *client.Client) ([]parley.SlashCommand, error) { return c.Commands(ctx, id) }
	}
	app, space := m.draft.app, m.draft.workspace
	return func(ctx context.Context, c *client.Client) ([]parley.SlashCommand, error) {
		return c.AppCommands(ctx, app, space)
	}
}

func (m *model) readCommands() tea.Cmd {
	of := m.filesOf()
	return ask(m, m.listCommands(), func(m *model, list []parley.SlashCommand, err error) tea.Cmd {
		if err == nil && m.filesOf() == of {
			m.commands = list
		}
		return nil
	})
}

// complete finds what to offer for the text as it is now.
func (m *model) complete() {
	m.menu = nil
	before := m.ed.text[:m.ed.at]
	if strings.HasPrefix(before, "/") && !strings.ContainsAny(before, " \n\t") {
		m.menu = m.offerCommands(before[1:])
		return
	}
	if typed, ok := strings.CutPrefix(before, attachPrefix); ok {
		m.menu = m.offerPaths(typed)
		return
	}
	at := strings.LastIndexAny(before, " \n\t") + 1
	if word := before[at:]; strings.HasPrefix(word, "@") && m.app != nil {
		m.menu = m.offerFiles(word[1:], at)
	}
}

func (m *model) offerCommands(typed string) *menu {
	var rows []offer
	for _, c := range locals() {
		if strings.HasPrefix(c.name, strings.ToLower(typed)) {
			label := "/" + c.name
			if c.args != "" {
				label += " " + c.args
			}
			rows = append(rows, offer{text: "/" + c.name, label: label, about: c.about, args: c.args == "TEXT" || c.args == "PATH"})
		}
	}
	var theirs []offer
	for _, c := range m.commands {
		if !strings.Contains(strings.ToLower(c.Name), strings.ToLower(typed)) && typed != "" {
			continue
		}
		slash := "/"
		if slices.ContainsFunc(locals(), func(l command) bool { return l.name == c.Name }) {
			slash = "//"
		}
		label := slash + oneLine(c.Name)
		if c.ArgumentHint != "" {
			label += " " + oneLine(c.ArgumentHint)
		}
		theirs = append(theirs, offer{text: slash + c.Name, label: label, about: oneLine(c.Description) + " (" + oneLine(c.From) + ")", args: c.ArgumentHint != ""})
	}
	if rows = append(theirs, rows...); len(rows) == 0 {
		return nil
	}
	return &menu{rows: rows, run: true}
}

// offerFiles offers files whose names have the letters of what was typed, in their order.
func (m *model) offerFiles(typed string, from int) *menu {
	key := m.filesOf()
	if m.files == nil || m.files.of != key {
		m.files = &fileList{of: key, loading: true}
		return &menu{from: from}
	}
	type match struct {
		name  string
		score int
	}
	var found []match
	for _, name := range m.files.names {
		if s, ok := fuzzy(strings.ToLower(name), strings.ToLower(typed)); ok {
			found = append(found, match{name, s})
		}
	}
	slices.SortStableFunc(found, func(a, b match) int { return a.score - b.score })
	me := &menu{from: from}
	for _, f := range found[:min(len(found), 50)] {
		me.rows = append(me.rows, offer{text: "@" + f.name, label: f.name})
	}
	if len(me.rows) == 0 && !m.files.loading {
		return nil
	}
	return me
}

func (m *model) filesOf() string {
	switch {
	case m.conv != nil:
		return m.conv.info.App + "\x00" + string(m.conv.info.Workspace) + "\x00" + string(m.conv.info.ID)
	case m.draft != nil:
		return m.draft.app + "\x00" + string(m.draft.workspace)
	}
	return ""
}

// fuzzy reports whether name has the letters of typed in their order, and how far apart.
func fuzzy(name, typed string) (score int, ok bool) {
	if typed == "" {
		return strings.Count(name, "/")*10 + len(name)/8, true
	}
	if i := strings.Index(name, typed); i >= 0 {
		base := strings.LastIndexByte(name, '/') + 1
		if i == base {
			return len(name) - len(typed), true
		}
		return 100 + len(name) - len(typed), true
	}
	last, at := -1, 0
	for _, r := range typed {
		i := strings.IndexRune(name[at:], r)
		if i < 0 {
			return 0, false
		}
		if at += i; last >= 0 {
			score += at - last
		}
		last = at
		at += len(string(r))
	}
	return 1000 + score + len(name), true
}

// readFiles lists the files of the workspace, and what servers offer.
func (m *model) readFiles() tea.Cmd {
	if cmd := m.readPaths(); cmd != nil {
		return cmd
	}
	f := m.files
	if f == nil || !f.loading || f.names != nil {
		return nil
	}
	f.names = []string{}
	app, space := "", parley.Workspace("")
	var id parley.SessionID
	switch {
	case m.conv != nil:
		app, space, id = m.conv.info.App, m.conv.info.Workspace, m.conv.info.ID
	case m.draft != nil:
		app, space = m.draft.app, m.draft.workspace
	}
	type listed struct {
		names []string
		more  bool
	}
	return ask(m, func(ctx context.Context, c *client.Client) (listed, error) {
		var out listed
		if space == "" { // that of a new session whose creator names none
			all, err := c.Workspaces(ctx, app)
			if i := slices.IndexFunc(all, func(w parley.WorkspaceInfo) bool { return w.App == app && w.Default }); err == nil && i >= 0 {
				space = all[i].Name
			}
		}
		for after := ""; ; {
			page, err := c.Files(app, space).Tree(ctx, client.TreeQuery{Depth: 32, Limit: 2000, After: after})
			if err != nil {
				break // an app without files has none to offer
			}
			for _, e := range page.Entries {
				if e.Kind == parley.FileRegular {
					out.names = append(out.names, e.Path)
				}
			}
			if after = page.Next; after == "" || len(out.names) >= maxFiles {
				out.more = after != ""
				break
			}
		}
		if id != "" {
			if page, err := c.Resources(ctx, id, ""); err == nil {
				for _, r := range page.Resources {
					if !r.Template {
						out.names = append(out.names, r.Server+":"+r.URI)
					}
				}
			}
		}
		return out, nil
	}, func(m *model, l listed, _ error) tea.Cmd {
		f.names, f.more, f.loading = l.names, l.more, false
		if m.files == f {
			m.complete()
		}
		return nil
	})
}

// key does what a key means to the menu, if anything.
func (me *menu) key(m *model, name string) (tea.Cmd, bool) {
	if len(me.rows) == 0 && name == "esc" {
		m.menu = nil
		return nil, true
	}
	if len(me.rows) == 0 {
		return nil, false
	}
	switch name {
	case "up", "ctrl+p":
		me.at = (me.at + len(me.rows) - 1) % len(me.rows)
	case "down", "ctrl+n":
		me.at = (me.at + 1) % len(me.rows)
	case "esc":
		m.menu = nil
	case "tab":
		me.put(m)
		return m.readFiles(), true
	case "enter":
		o := me.rows[me.at]
		if me.run && m.ed.text == o.text {
			return nil, false // it is written out
		}
		me.put(m)
		if me.run && !o.args || me.paths && !o.into {
			return m.submit(parley.BusySteer), true
		}
		return m.readFiles(), true
	default:
		return nil, false
	}
	return nil, true
}

// put writes what is chosen in place of the word.
func (me *menu) put(m *model) {
	o := me.rows[me.at]
	rest := m.ed.text[m.ed.at:]
	text := o.text
	if (!me.run || o.args) && !me.paths {
		text += " "
	}
	m.ed.set(m.ed.text[:me.from] + text + rest)
	m.ed.at = me.from + len(text)
	m.menu = nil
	if o.into || o.args {
		m.complete()
	}
}

func (me *menu) draw(m *model, w, h int) []string {
	d := m.drawing(w)
	if len(me.rows) == 0 {
		return []string{d.faint.of(cut("  Reading the files…", w))}
	}
	from := min(max(me.at-h+1, 0), max(len(me.rows)-h, 0))
	wide := 0
	for _, o := range me.rows {
		wide = max(wide, width(o.label))
	}
	wide = min(wide, w/2)
	var out []string
	for i := from; i < min(from+h, len(me.rows)); i++ {
		o := me.rows[i]
		label := cut(o.label, w-4)
		line := label
		if o.about != "" && w > 40 {
			line = pad(o.label, wide) + "  " + cut(o.about, w-wide-6)
		}
		if i == me.at {
			out = append(out, d.accent.of(d.look.signs.user)+" "+d.mark.of(line))
			continue
		}
		if o.about != "" && w > 40 {
			line = pad(o.label, wide) + "  " + d.faint.of(cut(o.about, w-wide-6))
		}
		out = append(out, "  "+line)
	}
	return out
}
