//go:build unix

// Package shell is the toolset of commands: Bash, BashOutput and KillShell, with the names and inputs of
// the Claude CLI's.
//
// A command runs in a sandbox of package confine: it can write only in the session's workspace
// and in a temporary folder of the session, read only those and the system's programs, and reach no
// network unless the operator names ports. Its environment is made here. Where the kernel
// cannot confine, [New] returns why, unless the operator allows commands that are not confined.
//
// A call is a write. But a command line that consists only of commands that are known to look (see
// [Looks]) is a read: it runs with a workspace and a file system that cannot be written, so nothing is
// changed even if the list is wrong, and it is offered in plan mode.
//
// Rules with a pattern are about each command of a command line, see [Split].
//
// A command in the background belongs to its session. It ends by itself, with KillShell, with the
// session, after [Options.Background], or with this process; after a restart nobody knows its id. In all
// cases what it has started ends with it. What it writes is kept until it is read, up to
// [maxKept] bytes. Of commands that have ended, a session's last ones are kept for an hour.
package shell

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
)

// Names of the tools.
const (
	Bash   = "Bash"
	Output = "BashOutput"
	Kill   = "KillShell"
)

// Defaults of [Options].
const (
	DefaultMemory     = 2 << 30
	DefaultProcesses  = 256
	DefaultDisk       = 8 << 30
	DefaultAtOnce     = 4
	DefaultBackground = time.Hour
)

const (
	defaultTimeout = 2 * time.Minute
	maxTimeout     = 10 * time.Minute
	shownOutput    = 30_000 // bytes of a result that the model sees; the rest is in an artifact
	maxWaiting     = 1000   // calls of one user that wait for a place
	perSession     = 8      // commands in the background
	perUser        = 24
)

// Options are a toolset's.
type Options struct {
	// Folder makes a folder for temporary files and returns its path, with the given elements below
	// it.
	Folder func(elems ...string) (string, error)
	// Unconfined runs commands without a sandbox.
	Unconfined bool
	Env        map[string]string // variables for calls that are a write, besides those that every command has
	Readable   []string          // files and folders that commands may read and run, besides the system's
	Ports      []int             // TCP ports to which commands may connect; nil: there is no network
	Memory     int64             // bytes; 0: DefaultMemory
	Processes  int               // 0: DefaultProcesses
	Disk       int64             // bytes that a workspace and a session's temporary folder may hold; 0: DefaultDisk
	AtOnce     int               // commands that calls wait for; 0: DefaultAtOnce
	Background time.Duration     // how long a command may run; 0: DefaultBackground
	Guarded    []string          // names that nothing in a workspace may get
	Logger     *slog.Logger      // nil: slog.Default
	Now        func() time.Time  // nil: time.Now
}

// Toolset implements [seam.Toolset]. It is safe for concurrent use. Close ends all commands.
type Toolset struct {
	o     Options
	turns fair.Turns

	mu      sync.Mutex
	running map[parley.CallID]bool
	shells  map[string]*background // by id
	temps   map[parley.SessionID]*temp
	closed  bool
	work    sync.WaitGroup
}

var (
	_ seam.Effecter = (*Toolset)(nil)
	_ seam.Local    = (*Toolset)(nil)
	_ seam.Worder   = (*Toolset)(nil)
	_ seam.Composer = (*Toolset)(nil)
)

// Check says by what commands are confined here, or why they cannot be. Temporary files go below dir.
func Check(ctx context.Context, dir string) (string, error) { return confine.Probe(ctx, dir) }

// New makes a toolset.
func New(o Options) *Toolset {
	set := func(n *int64, otherwise int64) {
		if *n == 0 {
			*n = otherwise
		}
	}
	set(&o.Memory, DefaultMemory)
	set(&o.Disk, DefaultDisk)
	if o.Processes == 0 {
		o.Processes = DefaultProcesses
	}
	if o.AtOnce == 0 {
		o.AtOnce = DefaultAtOnce
	}
	if o.Background == 0 {
		o.Background = DefaultBackground
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Toolset{o: o, running: map[parley.CallID]bool{}, shells: map[string]*background{}, temps: map[parley.SessionID]*temp{}}
	// A user leaves one place to the others.
	t.turns.Slots, t.turns.Each, t.turns.Queued = o.AtOnce, max(1, o.AtOnce-1), maxWaiting
	return t
}

var (
	//go:embed bash.md
	bashText string
	//go:embed output.md
	outputText string
	//go:embed kill.md
	killText string
	//go:embed bash.json
	bashInput string
	//go:embed output.json
	outputInput string
	//go:embed kill.json
	killInput string
)

// Tools implements seam.Toolset.
func (t *Toolset) Tools(context.Context) ([]parley.ToolDecl, error) {
	decl := func(name, about, input string, effect parley.Effect) parley.ToolDecl {
		return parley.ToolDecl{Name: name, Description: strings.TrimSpace(about), InputSchema: json.RawMessage(input), Effect: effect, OutputLimit: shownOutput, Cost: "free"}
	}
	bash, out, kill := decl(Bash, bashText, bashInput, parley.EffectWrite), decl(Output, outputText, outputInput, parley.EffectRead), decl(Kill, killText, killInput, parley.EffectRead)
	bash.Subject, out.Subject, kill.Subject = "{command}", "{bash_id}", "{shell_id}"
	bash.Timeout = parley.Duration(maxTimeout + time.Minute)
	if t.o.Unconfined {
		bash.Outward = true
		bash.Safety = "not confined: a command may do whatever the server may do"
	} else {
		bash.Reads = "commands that only look, such as ls, cat, grep and git status"
		bash.Description += "\n\nCommands run in a sandbox. They can write in the workspace and in /tmp only; they cannot change git's settings and hooks, or the files that instruct agents."
		bash.Safety = "confined to the workspace"
		if t.o.Ports == nil {
			bash.Description += " There is no network, except for servers that the same command starts."
		} else {
			bash.Outward = true
			bash.Safety += ", and to TCP ports " + list(t.o.Ports) // what was granted for a session without them does not count
			bash.Description += fmt.Sprintf(" Of the network, only TCP to port %s can be reached.", list(t.o.Ports))
		}
	}
	bash.Safety += t.more()
	bash.Description += " What commands change in files is not restored when the session is rewound."
	kill.Safety = "ends only what this session has started"
	return []parley.ToolDecl{bash, out, kill}, nil
}

// more is what else commands have: files to read and variables. What a person has allowed for a session with other
// ones does not count. Values may be secret, so only a digest is shown.
func (t *Toolset) more() string {
	var b strings.Builder
	if len(t.o.Readable) > 0 && !t.o.Unconfined {
		fmt.Fprintf(&b, ", and to read %s", strings.Join(slices.Sorted(slices.Values(t.o.Readable)), ", "))
	}
	names := slices.Sorted(maps.Keys(t.o.Env))
	if len(names) == 0 {
		return b.String()
	}
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%q=%q\n", name, t.o.Env[name])
	}
	fmt.Fprintf(&b, "; with the variables %s (%.8x)", strings.Join(names, ", "), h.Sum(nil))
	return b.String()
}

func list(ports []int) string {
	var s []string
	for _, p := range ports {
		s = append(s, fmt.Sprint(p))
	}
	return strings.Join(s, ", ")
}

// input is that of Bash.
type input struct {
	Command    string  `json:"command"`
	Timeout    float64 `json:"timeout"`
	Background bool    `json:"run_in_background"`
}

func (in input) timeout() time.Duration {
	if in.Timeout <= 0 {
		return defaultTimeout
	}
	return min(time.Duration(in.Timeout)*time.Millisecond, maxTimeout)
}

// EffectOf implements seam.Effecter.
func (t *Toolset) EffectOf(tool string, raw json.RawMessage) parley.Effect {
	if tool != Bash {
		return parley.EffectRead
	}
	var in input
	if t.o.Unconfined || json.Unmarshal(raw, &in) != nil || in.Background || !Looks(in.Command) {
		return parley.EffectWrite
	}
	return parley.EffectRead
}

// Parts implements seam.Composer.
func (*Toolset) Parts(tool string, raw json.RawMessage) (p seam.Parts, composed bool) {
	if tool != Bash {
		return p, false
	}
	var in input
	if json.Unmarshal(raw, &in) != nil {
		return p, true
	}
	list, plain := Split(in.Command)
	p.Plain = plain
	for _, c := range list {
		p.List = append(p.List, c.String())
	}
	p.Within, p.Hides = Within(list)
	return p, true
}

// Words implements seam.Worder.
func (*Toolset) Words(tool string, raw json.RawMessage) string {
	var in input
	if tool != Bash || json.Unmarshal(raw, &in) != nil || strings.ContainsAny(in.Command, "\n`") {
		return ""
	}
	return "Run `" + parley.Cut(in.Command, 120) + "`"
}

// Over implements seam.Local: a command ends with this process.
func (t *Toolset) Over(_ string, c parley.CallID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.running[c]
}

// Run implements seam.Toolset.
func (t *Toolset) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	switch r.Name {
	case Bash:
		return t.bash(ctx, r)
	case Output:
		return t.output(r), nil
	case Kill:
		return t.kill(ctx, r), nil
	}
	return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no tool %q", r.Name))
}

// refused is a result that says why nothing was done.
func refused(format string, args ...any) parley.ToolResult {
	text := fmt.Sprintf(format, args...)
	return parley.ToolResult{Outcome: parley.OutcomeError, Output: text, Error: &parley.ErrorInfo{Code: parley.CodeTool, Message: text}}
}

func done(text string) parley.ToolResult {
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: text}
}

func (t *Toolset) bash(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	var in input
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return refused("the input cannot be read: %v", err), nil
	}
	if strings.ContainsRune(in.Command, 0) {
		return refused("the command has a zero byte"), nil
	}
	root, err := r.Workspace()
	if err != nil {
		return refused("%s", parley.Info(err).Message), nil
	}
	leave, err := t.enter(ctx, r)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(fmt.Errorf("other commands are under way: %w", err))
	}
	defer leave()
	reads := r.Effect == parley.EffectRead
	c, err := t.start(r, in.Command, root, reads)
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if in.Background {
		return t.behind(r, c, in.Command, "Command running in background with ID: %s"), nil
	}
	return t.wait(ctx, r, in, c, reads), nil
}

// enter waits for a place, until the time of the call is up or its turn is stopped.
func (t *Toolset) enter(ctx context.Context, r seam.Run) (func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-r.Stopped:
			cancel(errors.New("the turn was stopped"))
		case <-ctx.Done():
		}
	}()
	leave, err := t.turns.Enter(ctx, r.Principal)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		leave()
		return nil, errors.New("the server is stopping")
	}
	t.running[r.Call] = true
	return func() {
		t.mu.Lock()
		delete(t.running, r.Call)
		t.mu.Unlock()
		leave()
	}, nil
}

// progressEvery is how often people are shown what a command writes.
const progressEvery = 500 * time.Millisecond

// wait waits for a command in the foreground.
func (t *Toolset) wait(ctx context.Context, r seam.Run, in input, c *command, reads bool) parley.ToolResult {
	late := time.NewTimer(in.timeout())
	defer late.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	shown := int64(-1)
	for {
		select {
		case <-c.done:
			return done(c.result())
		case <-tick.C:
			if tail, at := c.out.tail(2000); at != shown && tail != "" {
				shown = at
				r.Progress(tail)
			}
		case <-late.C:
			if reads { // it belongs to nobody afterwards
				c.stop()
				return done(c.result() + fmt.Sprintf("\nThe command was ended after %s.", in.timeout()))
			}
			return t.behind(r, c, in.Command, fmt.Sprintf("The command did not end within %s and goes on in the background with ID: %%s", in.timeout()))
		case <-r.Stopped:
			c.stop()
			return done(c.result() + "\nThe command was ended because the turn was stopped. What it had done by then stays.")
		case <-ctx.Done():
			c.stop()
			return done(c.result() + "\nThe command was ended because the server stopped or the turn's time was up. What it had done by then stays.")
		}
	}
}

// Close ends all commands, and waits for them.
func (t *Toolset) Close() {
	t.mu.Lock()
	t.closed = true
	for _, b := range t.shells {
		go b.command.stop()
	}
	temps := t.temps
	t.temps = map[parley.SessionID]*temp{}
	t.mu.Unlock()
	t.work.Wait()
	for _, tmp := range temps {
		_ = os.RemoveAll(tmp.dir)
	}
}
