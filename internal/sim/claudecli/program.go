package claudecli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Play says what one start of the program does.
type Play struct {
	Transcript string `json:"transcript"`
	From       int    `json:"from,omitempty"`    // the first message that is played, from 0
	Again      bool   `json:"again,omitempty"`   // after the last message comes the first again
	Live       bool   `json:"live,omitempty"`    // turns do what the model says
	Effects    bool   `json:"effects,omitempty"` // tools really work
	Alters     bool   `json:"alters,omitempty"`  // with Live: what Write is to write becomes [Altered], as in a program that has its own ideas
	At         int    `json:"at,omitempty"`      // the step at which something happens; 0: none
	Then       string `json:"then,omitempty"`    // what happens: [Die], [Freeze], [Pause] or [Swell]
	Stopped    string `json:"stopped,omitempty"` // what happens when it is interrupted, in place of its stop: as Then
}

// What happens at a step, or when the program is interrupted.
const (
	Die    = "die"    // it is killed, directly after the step
	Freeze = "freeze" // it does nothing any more until its input ends
	Pause  = "pause"  // it goes on only when it is interrupted
	Swell  = "swell"  // it takes memory until it gets no more
)

// Altered is what a play with Alters wants to write.
const Altered = "altered"

// Options are what a [Run] has. In and Out are required.
type Options struct {
	Args []string          // the command line, without the program
	Env  map[string]string // its environment
	Dir  string            // its working folder
	In   io.Reader
	Out  io.Writer
	Err  io.Writer // nil: nobody reads it
	Play Play

	// Note keeps a line in the file of this name: "effects.log", "host.log" or "steps.log". Nil
	// keeps nothing.
	Note func(file, line string)
	// Kill kills the program. Nil returns from Run as if it had been killed, with 137.
	Kill func()
}

// exit ends a run with an exit code.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

var (
	errEnd      = errors.New("the host has closed the input")
	errTurnOver = errors.New("the turn is over") // unlike in the capture
)

// interrupted is an interrupt of the host, by the id of its request.
type interrupted string

func (i interrupted) Error() string { return "interrupted by " + string(i) }

// Run plays, and returns the exit code.
func Run(o Options) int {
	if o.Err == nil {
		o.Err = io.Discard
	}
	if o.Note == nil {
		o.Note = func(string, string) {}
	}
	if slices.Contains(o.Args, "--version") {
		fmt.Fprintln(o.Out, "2.1.329 (Claude Code)")
		return 0
	}
	t, err := Load(o.Play.Transcript)
	if err != nil {
		fmt.Fprintln(o.Err, err)
		return 3
	}
	p := &program{
		o: o, t: t, lines: make(chan heard, 1024), ids: map[string]string{}, asked: map[string]Line{}, answers: map[string]Line{},
		controls: map[string]string{}, waiting: map[string][]Line{}, hooks: map[string][]hook{}, uses: map[string]*use{}, histories: map[string][]any{}, agents: map[string]string{}, tolerated: map[string]bool{}, called: map[string]bool{}, seen: map[string]bool{},
	}
	go p.listen()
	if err := p.begin(); err != nil {
		return p.ended(err)
	}
	if err = p.play(); errors.Is(err, errEnd) {
		err = nil
		if p.failed {
			err = exit(1)
		}
	}
	return p.ended(err)
}

func (p *program) ended(err error) int {
	p.o.Note("steps.log", fmt.Sprint(p.steps))
	code := exit(0)
	if err != nil && !errors.As(err, &code) {
		fmt.Fprintln(p.o.Err, err)
		code = 3
	}
	return int(code)
}

// program is one run.
type program struct {
	o       Options
	t       *Transcript
	session string
	model   string
	mode    string // of permissions
	partial bool   // the host wants partial messages

	lines     chan heard
	steps     int
	pos       int               // of the entry that is played
	ids       map[string]string // ids and words of the capture: ours
	tolerated map[string]bool   // what is wrong with lines that the capture's host wrote, too

	asked    map[string]Line   // our requests, by id
	answers  map[string]Line   // what the host answered
	controls map[string]string // the capture's requests of the host, as the host made them
	waiting  map[string][]Line // requests of the host that are played later, by subtype
	users    []Line            // messages that are not played yet

	hooks     map[string][]hook // by event
	sameHooks bool              // the host has the hooks of the capture's host
	servers   []string          // in-process MCP servers
	greeted   bool              // they have listed their tools
	tools     []any             // of these servers, as the model is told of them

	turn      *turn
	uses      map[string]*use   // tool calls, by their ids
	histories map[string][]any  // what the model is told, by the Task call whose agent it is; "" is the main one
	agents    map[string]string // ids of agents, by the calls that started them
	leaf      string            // the last message in the session's file
	called    map[string]bool   // messages of the capture for which the model was called
	seen      map[string]bool   // uuids of messages
	cost      float64
	results   int
	failed    bool // the last result was an error
}

// turn is the turn that runs.
type turn struct {
	uuids   []string // of its messages
	text    string   // of its last assistant message
	message string   // the id of the model message that is being said
	open    int      // blocks of it that a partial stream has begun
	calls   int      // of its model
	spent   usage
}

type hook struct{ id, matcher string }

type heard struct {
	line Line
	text string // if it is no object
	err  error
}

// begin reads the command line.
func (p *program) begin() error {
	for _, e := range p.t.Entries {
		if e.In && e.Line != nil {
			if err := checkHost(e.Line, nil); err != nil && e.Line["type"] != "control_response" {
				p.tolerated[err.Error()] = true
			}
		}
	}
	p.model, p.mode = "claude-opus-5-5", "default"
	if m := p.o.Env["ANTHROPIC_MODEL"]; m != "" {
		p.model = m
	}
	for name, to := range map[string]*string{"model": &p.model, "permission-mode": &p.mode} {
		if v, ok := p.flag(name); ok {
			*to = v
		}
	}
	_, p.partial = p.flag("include-partial-messages")
	for name, want := range map[string]string{"output-format": "stream-json", "input-format": "stream-json"} {
		if v, _ := p.flag(name); v != want {
			fmt.Fprintf(p.o.Err, "the stand-in needs --%s %s\n", name, want)
			return exit(1)
		}
	}
	return p.openSession()
}

// flag returns the value of a flag of the command line.
func (p *program) flag(name string) (string, bool) {
	for i, a := range p.o.Args {
		if a == "--"+name {
			if i+1 < len(p.o.Args) && !strings.HasPrefix(p.o.Args[i+1], "--") {
				return p.o.Args[i+1], true
			}
			return "", true
		}
		if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// listen reads lines until there are no more.
func (p *program) listen() {
	defer close(p.lines)
	r := bufio.NewReaderSize(p.o.In, 64<<10)
	for {
		raw, err := r.ReadBytes('\n')
		if len(bytes.TrimSpace(raw)) > 0 {
			h := heard{text: string(raw)}
			h.line, h.err = decode(raw)
			p.lines <- h
		}
		if err != nil {
			return
		}
	}
}

// step counts a step and lets happen what is to happen at it.
func (p *program) step() error {
	p.steps++
	if p.o.Play.At != p.steps {
		return nil
	}
	return p.happens(p.o.Play.Then)
}

// happens lets something happen.
func (p *program) happens(what string) error {
	p.o.Note("steps.log", fmt.Sprintf("%s at %d", what, p.steps))
	switch what {
	case Die:
		if p.o.Kill != nil {
			p.o.Kill()
		}
		return exit(137)
	case Swell:
		if err := swell(); err != nil {
			fmt.Fprintln(p.o.Err, "panic: out of memory:", err)
			return exit(134)
		}
		return errors.New("it got all the memory that it wanted")
	case Freeze:
		for range p.lines { //nolint:revive // it reads nothing of it
		}
		return exit(137)
	case Pause:
		for {
			h, ok := <-p.lines
			if !ok {
				return errEnd
			}
			err := p.take(h)
			var by interrupted
			if errors.As(err, &by) && p.turn == nil {
				return p.respond(string(by), Line{"still_queued": []any{}})
			}
			if err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("the play knows no %q", what)
}

// write writes a line of ours.
func (p *program) write(l Line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := p.o.Out.Write(append(raw, '\n')); err != nil {
		p.o.Note("host.log", "nobody reads: "+err.Error())
	}
	return p.step()
}

// read reads a line of the host and puts it where it is waited for. It returns an interrupted if it
// is an interrupt.
func (p *program) read() error {
	h, ok := <-p.lines
	if !ok {
		return errEnd
	}
	err := p.take(h)
	var by interrupted
	if errors.As(err, &by) && p.turn == nil && !p.interruptedHere() {
		return p.respond(string(by), Line{"still_queued": []any{}}) // nothing runs
	}
	return err
}

// interruptedHere reports whether the capture's host interrupts now.
func (p *program) interruptedHere() bool {
	return p.pos < len(p.t.Entries) && p.t.Entries[p.pos].In && text(p.t.Entries[p.pos].Line, "request", "subtype") == "interrupt"
}

func (p *program) take(h heard) error {
	if err := p.step(); err != nil {
		return err
	}
	if h.err != nil {
		fmt.Fprintf(p.o.Err, "Error parsing streaming input line (type=unknown, %d chars): SyntaxError\n", len(strings.TrimSpace(h.text)))
		return exit(1)
	}
	l := h.line
	if err := checkHost(l, p.asked); err != nil && !p.tolerates(l, err) {
		fmt.Fprintln(p.o.Err, "Error:", err)
		p.o.Note("host.log", err.Error()+": "+strings.TrimSpace(h.text))
		if l["type"] == "user" {
			return exit(1)
		}
		return exit(3)
	}
	switch l["type"] {
	case "control_response":
		p.answers[text(l, "response", "request_id")] = object(l, "response")
	case "control_request":
		subtype, id := text(l, "request", "subtype"), text(l, "request_id")
		if subtype == "interrupt" {
			if what := p.o.Play.Stopped; what != "" {
				return p.happens(what)
			}
			return interrupted(id)
		}
		if subtype == "initialize" || p.comes(subtype) {
			p.waiting[subtype] = append(p.waiting[subtype], l)
			return nil
		}
		return p.control(l)
	case "user":
		if text(l, "message", "role") != "user" {
			fmt.Fprintf(p.o.Err, "Error: Expected message role 'user', got '%s'\n", text(l, "message", "role"))
			return exit(1)
		}
		p.users = append(p.users, l)
		if uuid := text(l, "uuid"); uuid != "" && p.o.Play.Live {
			return p.lifecycle(uuid, "queued")
		}
	}
	return nil
}

// tolerates reports whether the capture's host made the same mistake.
func (p *program) tolerates(l Line, err error) bool {
	if p.tolerated[err.Error()] {
		return true
	}
	// an answer is judged by what was asked, so it cannot be judged beforehand
	return l["type"] == "control_response" && slices.Contains([]string{"04-permission-deny", "22-protocol-errors-a"}, p.t.Name)
}

// comes reports whether the capture's host makes this request later in the same turn.
func (p *program) comes(subtype string) bool {
	if p.o.Play.Live {
		return false
	}
	for _, e := range p.t.Entries[p.pos:] {
		if e.In && text(e.Line, "request", "subtype") == subtype {
			return true
		}
	}
	return false
}

// control answers a request of the host that the capture does not have here.
func (p *program) control(l Line) error {
	subtype, id := text(l, "request", "subtype"), text(l, "request_id")
	answer := Line{}
	switch subtype {
	case "end_session":
		if err := p.respond(id, answer); err != nil {
			return err
		}
		return exit(0)
	case "set_permission_mode":
		p.mode = text(l, "request", "mode")
		answer["mode"] = p.mode
	case "set_model":
		if m := text(l, "request", "model"); m != "" {
			p.model = m
		}
		answer["model"] = p.model
	case "cancel_async_message":
		at := slices.IndexFunc(p.users, func(u Line) bool { return text(u, "uuid") == text(l, "request", "message_uuid") })
		answer["cancelled"] = at >= 0
		if at >= 0 {
			p.users = slices.Delete(p.users, at, at+1)
		}
	case "stop_task", "background_tasks", "set_max_thinking_tokens", "mcp_message", "rename_session":
	case "rewind_files":
		return p.write(Line{"type": "control_response", "response": Line{"subtype": "error", "request_id": id, "error": "File rewinding is not enabled."}})
	default:
		return p.write(Line{"type": "control_response", "response": Line{"subtype": "error", "request_id": id, "error": "Unsupported control request subtype: " + subtype, "error_code": "unsupported_request"}})
	}
	return p.respond(id, answer)
}

func (p *program) respond(id string, answer Line) error {
	return p.write(Line{"type": "control_response", "response": Line{"subtype": "success", "request_id": id, "response": answer}})
}

// ask makes a request to the host and returns its id.
func (p *program) ask(request Line) (string, error) {
	id := newID()
	p.asked[id] = request
	return id, p.write(Line{"type": "control_request", "request_id": id, "request": request})
}

// answered waits for an answer of the host.
func (p *program) answered(id string) (Line, error) {
	for {
		if a, ok := p.answers[id]; ok {
			return a, nil
		}
		if err := p.read(); err != nil {
			return nil, err
		}
	}
}

func (p *program) lifecycle(uuid, state string) error {
	return p.write(Line{"type": "command_lifecycle", "command_uuid": uuid, "state": state, "uuid": newID(), "session_id": p.session})
}

var idLike = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?:msg|toolu|req)_fake_[0-9_]+`)

// renew returns a value of the capture with ids and folders of this run.
func (p *program) renew(v any) any {
	switch v := v.(type) {
	case string:
		v = strings.ReplaceAll(strings.ReplaceAll(v, "/workspace", p.o.Dir), "/home/user/.claude", p.config())
		return idLike.ReplaceAllStringFunc(v, func(id string) string {
			if p.ids[id] == "" {
				p.ids[id] = newLike(id)
			}
			return p.ids[id]
		})
	case Line:
		n := make(Line, len(v))
		for name, v := range v {
			n[p.renew(name).(string)] = p.renew(v)
		}
		return n
	case []any:
		n := make([]any, len(v))
		for i, v := range v {
			n[i] = p.renew(v)
		}
		return n
	}
	return v
}

func (p *program) renewed(l Line) Line { return p.renew(l).(Line) }

func (p *program) config() string {
	if dir := p.o.Env["CLAUDE_CONFIG_DIR"]; dir != "" {
		return dir
	}
	return filepath.Join(p.o.Env["HOME"], ".claude")
}

// again forgets the ids of the capture, so that it can be played once more.
func (p *program) again() {
	maps.DeleteFunc(p.ids, func(_, ours string) bool { return ours != p.session })
	clear(p.called)
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// newLike returns a new id of the same kind.
func newLike(id string) string {
	if kind, _, ok := strings.Cut(id, "_fake_"); ok {
		return kind + "_" + rand.Text()[:24]
	}
	return newID()
}

func environment() map[string]string {
	env := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok {
			env[name] = value
		}
	}
	return env
}
