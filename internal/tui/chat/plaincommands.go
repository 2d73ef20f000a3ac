package chat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
)

// plainHelp are the commands of the plain chat.
var plainHelp = [][2]string{
	{"/help", "this list"},
	{"/sessions", "choose a session"},
	{"/new APP", "begin a session"},
	{"/title TEXT", "name the session"},
	{"/mode [NAME]", "how much is asked before something is done"},
	{"/model [NAME]", "the model that answers"},
	{"/runtime [NAME]", "what carries out the turns"},
	{"/attach PATH", "attach a file to the next message"},
	{"/detach", "take the last file off again"},
	{"/stop", "interrupt the turn"},
	{"/resume", "go on with an interrupted turn"},
	{"/retry", "ask the last question again"},
	{"/rewind", "go back to before a message"},
	{"/undo", "take the last rewind back"},
	{"/fork", "go on in a copy of the session"},
	{"/queue", "what is queued"},
	{"/unqueue", "take the last message out of the queue"},
	{"/details", "the input and output of the last call; /details 2 of the one before"},
	{"/repeat", "the last turn again"},
	{"/question", "the open question again"},
	{"/usage", "what the session has used"},
	{"/quit", "leave; the session stays"},
}

// command runs a command of this program, if the text is one.
func (p *plain) command(text string) (bool, error) {
	name, args, ok := parley.Slash(text)
	if !ok {
		return false, nil
	}
	need := func() bool {
		if p.conv == nil {
			p.say("There is no session yet.")
		}
		return p.conv != nil
	}
	switch name {
	case "help":
		for _, c := range plainHelp {
			p.say("%s: %s", c[0], c[1])
		}
		p.say("%s", howToSay)
		p.say("A line that ends with \\ goes on in the next one. While a turn runs, a line is told to the agent.")
		return true, nil
	case "quit", "exit":
		return true, errQuit
	case "sessions":
		return true, p.sessions()
	case "new":
		if args == "" {
			p.say("Name an app: %s", strings.Join(p.appNames(), ", "))
			return true, nil
		}
		return true, p.beginIn(draft{app: args})
	case "title", "mode", "model", "runtime":
		return true, p.set(name, args)
	case "attach":
		return true, p.attachFile(args)
	case "detach":
		if n := len(p.files); n > 0 {
			p.say("Taken off: %s", oneLine(p.files[n-1].name))
			p.files = p.files[:n-1]
		} else {
			p.say("Nothing is attached.")
		}
		return true, nil
	case "stop", "resume", "retry", "rewind", "undo", "fork", "queue", "unqueue", "details", "repeat", "question", "usage":
		if !need() {
			return true, nil
		}
		return true, p.about(name, args)
	}
	return false, nil
}

// set changes the session, or what it will be.
func (p *plain) set(name, args string) error {
	var u parley.UpdateSession
	switch {
	case p.conv == nil && p.draft == nil:
		p.say("There is no session yet.")
		return nil
	case name == "title":
		u.Title = &args
	case name == "mode" && args == "":
		mode := parley.ModeDefault
		if p.conv != nil {
			mode = p.conv.mode
		}
		p.say("Mode: %s (%s). There are: default, acceptEdits, plan, and others that the app offers.", mode, modeName(mode))
		return nil
	case name == "runtime":
		return p.setRuntime(args)
	case name == "mode":
		mode := parley.PermissionMode(args)
		u.Mode = &mode
	case args == "":
		var all []client.Model
		if err := p.wait(func() (err error) { all, err = p.c.Models(p.ctx); return err }); err != nil {
			return err
		}
		for _, m := range all {
			p.say("%s", oneLine(m.Name))
		}
		return nil
	default:
		u.Model = &args
	}
	if p.conv == nil {
		switch name {
		case "title":
			p.draft.title = args
		case "mode":
			p.draft.mode = *u.Mode
		case "model":
			p.draft.model = args
		}
		return nil
	}
	return p.update(u)
}

// update changes the session. It returns when the change is known here.
func (p *plain) update(u parley.UpdateSession) error {
	var info parley.SessionInfo
	if err := p.wait(func() (err error) { info, err = p.c.UpdateSession(p.ctx, p.conv.info.ID, u); return err }); err != nil {
		return err
	}
	return p.until(info.Version, p.frame)
}

// about runs a command about the session that is open.
func (p *plain) about(name, args string) error {
	c := p.conv
	last := c.last()
	switch name {
	case "stop":
		t := c.running()
		if t == nil {
			p.say("Nothing runs.")
			return nil
		}
		return p.wait(func() error { _, err := p.c.Cancel(p.ctx, t.id, "stopped at the terminal"); return err })
	case "resume":
		if last == nil || last.status != parley.StatusInterrupted {
			p.say("No turn is interrupted.")
			return nil
		}
		return p.wait(func() error { _, err := p.c.Resume(p.ctx, last.id); return err })
	case "retry":
		if last == nil {
			p.say("There is no turn yet.")
			return nil
		}
		return p.wait(func() error { _, err := p.c.Retry(p.ctx, last.id, ""); return err })
	case "fork":
		var s parley.SessionInfo
		if err := p.wait(func() (err error) {
			s, err = p.c.ForkSession(p.ctx, c.info.ID, parley.ForkSession{})
			return err
		}); err != nil {
			return err
		}
		p.say("%s", copied(s))
		return p.open(s.ID)
	case "queue":
		if len(c.queue) == 0 {
			p.say("Nothing is queued.")
		}
		for i, t := range c.queue {
			p.say("%d. %s", i+1, oneLine(t.message))
		}
	case "unqueue":
		if len(c.queue) == 0 {
			p.say("Nothing is queued.")
			return nil
		}
		t := c.queue[len(c.queue)-1]
		if err := p.wait(func() error { return p.c.Unqueue(p.ctx, c.info.ID, t.id) }); err != nil {
			return err
		}
		p.say("Taken out of the queue: %s", oneLine(t.message))
	case "details":
		return p.details(args)
	case "repeat":
		p.recall()
	case "question":
		if p.asking == nil {
			p.say("Nothing is asked.")
			return nil
		}
		p.closeAsking()
		p.nextQuestion()
	case "usage":
		var s parley.SessionInfo
		if err := p.wait(func() (err error) { s, err = p.c.Session(p.ctx, c.info.ID); return err }); err != nil {
			return err
		}
		t := s.Totals
		p.say("%s, %s, %s.", count(t.Turns, "turn", "turns"), tokens(t.Usage.InputTokens+t.Usage.OutputTokens), dollars(t.Usage.USD))
	case "rewind":
		return p.rewind()
	case "undo":
		var s parley.SessionInfo
		if err := p.wait(func() (err error) { s, err = p.c.Session(p.ctx, c.info.ID); return err }); err != nil {
			return err
		}
		if s.Rewound == nil {
			p.say("Nothing was taken back.")
			return nil
		}
		return p.takeBack(parley.RewindSession{Undo: s.Rewound.Seq})
	}
	return nil
}

// details says the input and the output of the nth last call.
func (p *plain) details(args string) error {
	n := 1
	if args != "" {
		var err error
		if n, err = strconv.Atoi(args); err != nil || n < 1 {
			return parley.Errorf(parley.CodeInvalid, "%q is not the number of a call", parley.Cut(args, 20)).WithHint("1 is the last one")
		}
	}
	for _, t := range slices.Backward(p.conv.turns) {
		for _, it := range slices.Backward(t.items) {
			if it.kind != kindTool {
				continue
			}
			if n--; n > 0 {
				continue
			}
			p.say("%s", oneLine(it.name))
			for _, f := range it.fields() {
				p.say("%s: %s", oneLine(f[0]), f[1])
			}
			if it.outcome != "" {
				p.say("Outcome: %s, %s", it.outcome, took(it.took))
			}
			for _, f := range it.files {
				p.say("%s", f.Diff)
			}
			p.say("%s", strings.TrimRight(it.output, "\n"))
			return nil
		}
	}
	p.say("There is no such call.")
	return nil
}

// choose says a numbered list, and takes the next line as the choice.
func (p *plain) choose(rows []string, do func(i int) error) {
	for i, r := range rows {
		p.say("%d. %s", i+1, r)
	}
	p.picking = func(line string) error {
		n, err := strconv.Atoi(line)
		if err != nil || n < 1 || n > len(rows) {
			return parley.Errorf(parley.CodeInvalid, "%q is not a number from 1 to %d", parley.Cut(line, 20), len(rows)).WithHint("or write a command, such as /help")
		}
		p.picking = nil
		return do(n - 1)
	}
}

// sessions lists the sessions that changed last, and what may be begun.
func (p *plain) sessions() error {
	return p.sessionPage("")
}

func (p *plain) sessionPage(cursor string) error {
	var page []parley.SessionInfo
	var next string
	err := p.wait(func() (err error) {
		page, next, err = p.c.SessionPage(p.ctx, client.SessionFilter{Limit: 20, Cursor: cursor})
		return err
	})
	if err != nil {
		return err
	}
	var rows []string
	var do []func() error
	for _, s := range page {
		state := ""
		switch {
		case s.Waiting > s.Offered:
			state = ", waits for you"
		case s.Turn != nil:
			state = ", " + string(s.Turn.Status)
		}
		rows = append(rows, fmt.Sprintf("%s, app %s%s", oneLine(titleOf(s)), oneLine(s.App), state))
		do = append(do, func() error { return p.open(s.ID) })
	}
	if next != "" {
		rows = append(rows, "Older sessions")
		do = append(do, func() error { return p.sessionPage(next) })
	}
	for _, a := range p.apps {
		rows = append(rows, "A new session with "+oneLine(a.Title)+" ("+oneLine(a.Name)+")")
		do = append(do, func() error { return p.beginIn(draft{app: a.Name}) })
	}
	p.say("Sessions:")
	p.choose(rows, func(i int) error { return do[i]() })
	return nil
}

// beginIn begins a session, and asks for its workspace if there are several.
func (p *plain) beginIn(d draft) error {
	var all []parley.WorkspaceInfo
	if err := p.wait(func() (err error) { all, err = p.c.Workspaces(p.ctx, d.app); return err }); err != nil || len(all) < 2 {
		return p.begin(d)
	}
	var rows []string
	for _, w := range all {
		row := oneLine(string(w.Name))
		if w.Default {
			row += " (the default)"
		}
		rows = append(rows, row)
	}
	p.say("In which workspace?")
	p.choose(rows, func(i int) error {
		d.workspace = all[i].Name
		return p.begin(d)
	})
	return nil
}

// rewind asks for a message to go back to, says what that does, and asks again.
func (p *plain) rewind() error {
	if p.busy() {
		p.say("A turn runs: stop it first.")
		return nil
	}
	var rows []string
	var ids []parley.TurnID
	for _, t := range slices.Backward(p.conv.turns) {
		if !t.rewound && t.message != "" {
			rows, ids = append(rows, oneLine(t.message)), append(ids, t.id)
		}
	}
	if len(rows) == 0 {
		p.say("There is no message yet.")
		return nil
	}
	p.say("Go back to before which message?")
	p.choose(rows, func(i int) error { return p.takeBack(parley.RewindSession{Turn: ids[i]}) })
	return nil
}

func (p *plain) takeBack(r parley.RewindSession) error {
	id := p.conv.info.ID
	r.Preview = true
	var res parley.RewindResult
	if err := p.wait(func() (err error) { res, err = p.c.RewindSession(p.ctx, id, r); return err }); err != nil {
		return err
	}
	for _, t := range res.Turns {
		p.say("Taken back: %s", oneLine(t.Message))
	}
	for _, t := range res.Back {
		p.say("Brought back: %s", oneLine(t.Message))
	}
	for _, f := range res.Files {
		p.say("File %s: %s", oneLine(f.Path), f.Outcome)
	}
	for _, e := range res.Effects {
		p.say("Done, and not undone: %s %s", oneLine(e.Tool), oneLine(e.Text))
	}
	w := &rewinding{r: r, res: res}
	w.list()
	var rows []string
	for _, row := range w.rows {
		rows = append(rows, row.label)
	}
	p.choose(rows, func(i int) error {
		if i == len(rows)-1 {
			p.say("Nothing is changed.")
			return nil
		}
		r.Preview, r.What, r.ExpectedVersion = false, w.rows[i].what, res.Version
		if err := p.wait(func() error { _, err := p.c.RewindSession(p.ctx, id, r); return err }); err != nil {
			return err
		}
		p.say("Done. /undo takes it back.")
		return p.open(id)
	})
	return nil
}
