package chat

import (
	"cmp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// loop is Parley's own runtime. People call it by the names of ofLoop, too.
const loop = "loop"

var ofLoop = []string{"native", "parley"}

// runtimes are what may carry out the turns of an app's sessions, the app's own first.
func runtimes(app *client.App) []string {
	if app == nil {
		return nil
	}
	out := []string{cmp.Or(app.Runtime, loop)}
	for _, name := range app.Runtimes {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// runtimeOf is what carries out the turns of a session that chose own; empty: the app's.
func runtimeOf(app *client.App, own string) string {
	if own == "" && app != nil {
		own = app.Runtime
	}
	return cmp.Or(own, loop)
}

// runtimeName is what people call a runtime.
func runtimeName(name string) string {
	switch name {
	case loop:
		return "Parley"
	case "claude":
		return "Claude CLI"
	}
	return oneLine(name)
}

// runtimeCalled finds the runtime that a person means.
func runtimeCalled(app *client.App, name string) (string, error) {
	list := runtimes(app)
	for _, r := range list {
		if strings.EqualFold(name, r) || strings.EqualFold(name, runtimeName(r)) || r == loop && slices.Contains(ofLoop, strings.ToLower(name)) {
			return r, nil
		}
	}
	what := "this app offers no other than " + strings.Join(list, ", ")
	if len(list) > 1 {
		what = "there are: " + strings.Join(list, ", ")
	}
	return "", parley.Errorf(parley.CodeInvalid, "there is no runtime %q here", parley.Cut(oneLine(name), 40)).WithField("runtime").WithHint("%s", what)
}

// begins makes the runtime that a command line names the one that the server knows. An app that the
// server does not have is somebody else's error.
func (o *Options) begins(app *client.App) (err error) {
	if app == nil || o.Runtime == "" {
		return nil
	}
	o.Runtime, err = runtimeCalled(app, o.Runtime)
	return err
}

// runtimeNow is what carries out the turns of the session; empty: nobody says.
func (m *model) runtimeNow() string {
	switch {
	case m.conv != nil:
		return runtimeOf(m.app, m.conv.info.Runtime)
	case m.draft != nil:
		return runtimeOf(m.app, m.draft.runtime)
	}
	return ""
}

// runtimeShown is its name where there is something to tell: a choice, or another than Parley's own.
func (m *model) runtimeShown() string {
	if now := m.runtimeNow(); now != "" && (now != loop || len(runtimes(m.app)) > 1) {
		return runtimeName(now)
	}
	return ""
}

func (m *model) runtimeCommand(args string) tea.Cmd {
	if m.conv == nil && m.draft == nil {
		m.say("There is no session yet.")
		return nil
	}
	if args != "" {
		name, err := runtimeCalled(m.app, args)
		if err != nil {
			m.fail(err)
			return nil
		}
		return m.setRuntime(name)
	}
	list := runtimes(m.app)
	if len(list) < 2 {
		m.say("Runtime: " + runtimeName(m.runtimeNow()) + ". This app offers no other.")
		return nil
	}
	l := &list1{title: "What carries out the turns?"}
	for i, name := range list {
		right := name
		if i == 0 {
			right += ", the app's"
		}
		l.add(name, runtimeName(name), right)
	}
	return m.pickOne(l, m.runtimeNow(), (*model).setRuntime)
}

func (m *model) setRuntime(name string) tea.Cmd {
	said := "Runtime: " + runtimeName(name)
	if m.conv == nil {
		m.draft.runtime = name
		m.say(said)
		return nil
	}
	return m.updateSession(parley.UpdateSession{Runtime: &name}, said+", from the next turn on")
}

// setRuntime says which runtime the session has, or chooses another one.
func (p *plain) setRuntime(args string) error {
	app, own := p.app(), ""
	if p.conv != nil {
		own = p.conv.info.Runtime
	} else {
		own = p.draft.runtime
	}
	if args == "" {
		p.say("Runtime: %s (%s). There are: %s.", runtimeName(runtimeOf(app, own)), runtimeOf(app, own), strings.Join(runtimes(app), ", "))
		return nil
	}
	name, err := runtimeCalled(app, args)
	if err != nil {
		return err
	}
	if p.conv == nil {
		p.draft.runtime = name
		p.say("Runtime: %s.", runtimeName(name))
		return nil
	}
	return p.update(parley.UpdateSession{Runtime: &name})
}
