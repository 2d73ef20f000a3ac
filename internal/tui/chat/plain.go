package chat

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/tui"
)

// plain is a chat in lines: everything is said once, in the order in which it happened, and the
// next line that the person writes is a message, a command, or the answer to what was asked last.
type plain struct {
	ctx    context.Context
	o      Options
	c      *client.Client
	t      *tui.Terminal
	person bool // somebody types; otherwise lines come from a pipe or a file
	lines  chan string
	aways  chan error
	frames chan streamed
	stop   context.CancelFunc // of the stream

	apps    []client.App
	conv    *conversation
	draft   *draft
	files   []*file // go with the next message
	notes   chan string
	asking  *plainAsking
	picking func(line string) error // the next line is a choice
	answer  *tui.Answer
	saying  *item // whose text is being said
	said    int   // bytes of it that were
	prompt  bool  // the prompt is the last thing that was written
	partial string
}

// maxLine is how long a line may be.
const maxLine = 1 << 20

// errQuit ends the chat.
var errQuit = errors.New("left")

func runPlain(ctx context.Context, o Options) (Left, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &plain{ctx: ctx, o: o, t: tui.Open(o.In, o.Out, o.Err, o.Env), lines: make(chan string), aways: make(chan error, 16), notes: make(chan string, 16)}
	if f, ok := o.In.(*os.File); ok {
		p.person = term.IsTerminal(int(f.Fd()))
	}
	if p.o.Own == nil {
		p.o.Own = func() bool { return false }
	}
	p.c = o.Connect(func(err error) {
		select {
		case p.aways <- err:
		case <-ctx.Done():
		}
	})
	go p.read()
	err := p.run()
	if p.stop != nil {
		p.stop()
	}
	if errors.Is(err, errQuit) {
		err = nil
	}
	var left Left
	if p.conv != nil {
		left = Left{Session: p.conv.info.ID, Busy: p.conv.running() != nil}
	}
	return left, err
}

// read reads lines until the input ends. It cannot be stopped while it waits for a key, and ends
// with the process.
func (p *plain) read() {
	defer close(p.lines)
	r := bufio.NewReaderSize(p.o.In, 64<<10)
	var long strings.Builder
	for {
		part, err := r.ReadString('\n')
		if long.Len() < maxLine {
			long.WriteString(part)
		}
		if err == nil || long.Len() > 0 {
			line := strings.TrimRight(long.String(), "\r\n")
			long.Reset()
			select {
			case p.lines <- line:
			case <-p.ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// say writes a line.
func (p *plain) say(format string, args ...any) {
	if p.prompt && p.person {
		fmt.Fprintln(p.o.Out)
	}
	p.prompt = false
	fmt.Fprintln(p.o.Out, tui.Plain(fmt.Sprintf(format, args...)))
}

func (p *plain) wrong(err error) { p.say("Error: %s", errText(err)) }

// wait does something that may take a while, and says meanwhile when the server is away.
func (p *plain) wait(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			return err
		case err := <-p.aways:
			p.away(err)
		case text := <-p.notes:
			p.say("%s", text)
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

func (p *plain) away(err error) {
	if err != nil {
		p.say("The server does not answer. Waiting for it.")
	} else {
		p.say("The server is back.")
	}
}

func (p *plain) run() error {
	if err := p.wait(func() (err error) { p.apps, err = p.c.Apps(p.ctx); return err }); err != nil {
		return err
	}
	switch {
	case p.o.Session != "":
		if err := p.open(p.o.Session); err != nil {
			return err
		}
	case p.o.App != "":
		if err := p.o.begins(p.appNamed(p.o.App)); err != nil {
			return err
		}
		if err := p.begin(p.o.draft()); err != nil {
			return err
		}
	case !p.person && len(p.apps) == 1:
		if err := p.begin(draft{app: p.apps[0].Name}); err != nil {
			return err
		}
	case !p.person:
		return parley.Errorf(parley.CodeInvalid, "nobody is there to choose a session").WithHint("name one with --session, or an app with --app: %s", strings.Join(p.appNames(), ", "))
	default:
		if err := p.sessions(); err != nil {
			return err
		}
	}
	for {
		p.ready()
		lines := p.lines
		if !p.person && (p.busy() && p.asking == nil) {
			lines = nil // the next message comes when this turn has ended
		}
		select {
		case line, ok := <-lines:
			if !ok {
				return p.ended()
			}
			p.prompt = false
			switch err := p.line(line); {
			case errors.Is(err, errQuit):
				return err
			case err != nil && p.ctx.Err() != nil:
				return err
			case err != nil:
				p.wrong(err)
			}
		case it := <-p.frames:
			if err := p.frame(it); err != nil {
				return err
			}
		case err := <-p.aways:
			p.away(err)
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

// busy reports whether a turn runs, waits or is queued.
func (p *plain) busy() bool {
	return p.conv != nil && (p.conv.running() != nil || len(p.conv.queue) > 0 && !p.conv.info.Held)
}

// ended follows what runs to its end when there are no more lines.
func (p *plain) ended() error {
	if p.person {
		return errQuit
	}
	for p.busy() {
		if p.asking != nil {
			return parley.Errorf(parley.CodeConflict, "the turn waits for an answer: %s", oneLine(p.asking.in.Title)).WithHint("open the session again and answer it")
		}
		select {
		case it := <-p.frames:
			if err := p.frame(it); err != nil {
				return err
			}
		case err := <-p.aways:
			p.away(err)
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
	if t := p.conv; t != nil {
		if last := t.last(); last != nil && last.status != parley.StatusCompleted {
			return parley.Errorf(parley.CodeConflict, "the turn ended without an answer: it is %s", last.status)
		}
	}
	return errQuit
}

// ready writes the prompt when the next line is wanted.
func (p *plain) ready() {
	if !p.person || p.prompt {
		return
	}
	switch {
	case p.asking != nil:
		fmt.Fprint(p.o.Out, p.asking.prompt())
	case p.picking != nil:
		fmt.Fprint(p.o.Out, "Choose: ")
	case p.partial != "":
		fmt.Fprint(p.o.Out, "… ")
	case p.conv == nil && p.draft == nil || p.busy():
		return
	default:
		fmt.Fprint(p.o.Out, "You: ")
	}
	p.prompt = true
}

// line is what the person wrote.
func (p *plain) line(line string) error {
	line = clean(line)
	switch {
	case p.asking != nil && (p.asking.typing == typesSecret || !commands(line)):
		return p.asking.line(p, line)
	case p.picking != nil && !commands(line):
		return p.picking(strings.TrimSpace(line))
	}
	p.picking = nil
	if rest, ok := strings.CutSuffix(line, "\\"); ok {
		p.partial += rest + "\n"
		return nil
	}
	text, words := worded(p.partial + line)
	p.partial = ""
	if text == "" {
		return nil
	}
	if !words {
		if done, err := p.command(text); done {
			return err
		}
		if name, _, ok := parley.Slash(text); ok {
			if err := p.known(name); err != nil {
				return err
			}
		}
	}
	return p.send(text)
}

// known returns an error for a slash command that neither this program nor the server has.
func (p *plain) known(name string) error {
	if p.conv == nil && p.draft == nil {
		return unknownCommand(name, plainNames(), nil)
	}
	var all []parley.SlashCommand
	if err := p.wait(func() (err error) {
		if p.conv != nil {
			all, err = p.c.Commands(p.ctx, p.conv.info.ID)
		} else {
			all, err = p.c.AppCommands(p.ctx, p.draft.app, p.draft.workspace)
		}
		return err
	}); err != nil {
		return err
	}
	return unknownCommand(name, plainNames(), all)
}

func (p *plain) send(text string) error {
	message := parley.Send{Message: text, Busy: parley.BusySteer, Key: rand.Text()}
	if p.conv == nil && p.draft == nil {
		p.say("Choose a session first: /sessions, or /new APP.")
		return nil
	}
	if p.conv != nil {
		running := p.busy()
		var t parley.TurnInfo
		if err := p.wait(func() (err error) { t, err = p.give(p.conv.info.ID, message); return err }); err != nil {
			return err
		}
		p.given()
		if running {
			p.say("The agent is told at its next step.")
		}
		return p.until(t.FirstSeq, p.frame)
	}
	d := *p.draft
	var id parley.SessionID
	err := p.wait(func() error {
		info, _, err := p.c.CreateSession(p.ctx, d.create())
		if err != nil {
			return err
		}
		id = info.ID
		_, err = p.give(id, message)
		return err
	})
	if id == "" {
		return err
	}
	files := p.files
	if e := p.attach(id, false); e != nil {
		return e
	}
	if p.files = files; err == nil {
		p.given()
	}
	return err
}

// begin starts a session that is made with its first message.
func (p *plain) begin(d draft) error {
	a := p.appNamed(d.app)
	if a == nil {
		return parley.Errorf(parley.CodeNotFound, "there is no app %q", d.app).WithHint("there are: %s", strings.Join(p.appNames(), ", "))
	}
	p.leave()
	p.draft = &d
	if !p.person {
		return nil
	}
	p.say("A new session with %s. %s", oneLine(a.Title), oneLine(a.Description))
	for _, n := range a.Notices {
		p.say("%s", oneLine(n))
	}
	for _, e := range a.Examples {
		p.say("For example: %s", oneLine(e))
	}
	p.say("Write a message and press Enter. /help lists the commands.")
	return nil
}

func (p *plain) appNamed(name string) *client.App {
	for i := range p.apps {
		if p.apps[i].Name == name {
			return &p.apps[i]
		}
	}
	return nil
}

// app is the app of the session that is open or begun; nil: none, or it is not served.
func (p *plain) app() *client.App {
	switch {
	case p.conv != nil:
		return p.appNamed(p.conv.info.App)
	case p.draft != nil:
		return p.appNamed(p.draft.app)
	}
	return nil
}

func (p *plain) appNames() (names []string) {
	for _, a := range p.apps {
		names = append(names, a.Name)
	}
	return names
}

// leave stops following a session.
func (p *plain) leave() {
	if p.stop != nil {
		p.stop()
	}
	p.stop, p.frames, p.conv, p.draft, p.asking, p.saying, p.answer, p.files = nil, nil, nil, nil, nil, nil, nil, nil
}

func (p *plain) open(id parley.SessionID) error { return p.attach(id, true) }

// attach opens a session and follows it. With tell, it says what is there: the last turn, and what
// waits. Otherwise everything is new, and is said as it comes.
func (p *plain) attach(id parley.SessionID, tell bool) error {
	var s openedSession
	if err := p.wait(func() (err error) { s, err = read(p.ctx, p.c, id); return err }); err != nil {
		return err
	}
	p.leave()
	p.conv = s.conv
	if tell {
		info := s.conv.info
		carried := ""
		if a := p.app(); len(runtimes(a)) > 1 {
			carried = ", runtime " + runtimeName(runtimeOf(a, info.Runtime))
		}
		p.say("Session: %s. App %s, %s%s.", oneLine(titleOf(info)), oneLine(info.App), count(info.Totals.Turns, "turn", "turns"), carried)
	}
	ctx, stop := context.WithCancel(p.ctx)
	p.stop = stop
	frames := make(chan streamed)
	p.frames = frames
	c, after := p.c, s.after
	go func() {
		for f, err := range c.Follow(ctx, id, after) {
			select {
			case frames <- streamed{f, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if !tell {
		return p.until(s.conv.info.Version, p.frame)
	}
	// What was there before is read, and the end of it is said.
	err := p.until(s.conv.info.Version, func(it streamed) error {
		if it.err == nil {
			p.conv.take(it.frame)
		}
		return it.err
	})
	if err == nil {
		p.recall()
	}
	return err
}

// until takes in what happened up to an event.
func (p *plain) until(seq int64, take func(streamed) error) error {
	for p.conv != nil && p.conv.seq < seq {
		select {
		case it := <-p.frames:
			if err := take(it); err != nil {
				return err
			}
		case err := <-p.aways:
			p.away(err)
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
	return nil
}

// frame says what happened.
func (p *plain) frame(it streamed) error {
	if it.err != nil {
		if parley.CodeOf(it.err) == parley.CodeNotFound {
			p.say("This session is deleted.")
			p.leave()
			return nil
		}
		return it.err
	}
	f := it.frame
	if f.Event != nil && f.Event.Seq <= p.conv.seq {
		return nil
	}
	before := len(p.conv.queue)
	p.conv.take(f)
	switch {
	case f.Delta != nil:
		p.stream(*f.Delta)
	default:
		p.event(*f.Event, before)
	}
	return nil
}
