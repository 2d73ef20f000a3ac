package claudecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/confine"
	"github.com/parley-server/parley/internal/proc"
)

// How long each step of ending a CLI may take, as measured: it answers end_session in 0.2 s, also
// with background shells, and SIGTERM in 1.5 s.
const (
	endWithin   = 2 * time.Second // from end_session to the end of its input
	closeWithin = 3 * time.Second // from there to SIGTERM
	termWithin  = 5 * time.Second // from there to SIGKILL
	// startWithin limits the start. The first one after an installation took 1.1 s.
	startWithin = 30 * time.Second
)

// process is a CLI that serves a session.
type process struct {
	rt      *Runtime
	spec    spec
	token   string
	conn    *conn
	program *proc.Process
	stdin   *io.PipeWriter
	stop    func() // SIGTERM, then SIGKILL
	leave   func() // makes room in the pool
	stderr  *proc.Tail
	gone    chan struct{} // closed when it has ended, with all that it started

	searched map[string]searched // files that were searched for secrets; of its turn's goroutine

	mu      sync.Mutex
	turn    *turn         // that it works for; nil: none
	changed chan struct{} // closed and replaced when turn changes
	last    parley.TurnID // the last turn that its conversation contains as a whole
	mode    string        // its permission mode
	tasks   map[string]*job
	heard   int  // messages in between that the last turn has had
	begun   bool // a turn of its own has been announced and has no run yet
	held    bool // reserved for a turn
	retired bool // reserved for its end, which has not begun
	ending  bool
	forgets bool      // the files of its conversation go with it
	cleaned bool      // it has ended, and its files are in order
	used    time.Time // when it last became idle
	idle    *time.Timer
}

// job is background work of a CLI: a shell or an agent.
type job struct {
	id, kind string
	useID    string // of the call that started it
	agent    string // the type of an agent
	about    string
	over     bool
}

// spec is how a process is started. A process serves turns as long as they need the same.
type spec struct {
	session  parley.SessionID
	cli      string // the id of the session in the CLI
	dir      string // its working folder
	home     string // the folder of its own files
	model    string
	mode     string // the permission mode at the start
	tools    []string
	prompt   string
	agents   map[string]agentSpec
	servers  []string // of our tools
	ours     map[string][]parley.ToolDecl
	readOnly bool

	resume   bool
	resumeAt string
	origin   string // the session to continue, if it is not cli
}

// agentSpec is an agent that the CLI may start.
type agentSpec struct {
	Description string   `json:"description"`
	Prompt      string   `json:"prompt"`
	Tools       []string `json:"tools,omitempty"`
}

// same reports whether a process that was started with s can serve a turn that needs o.
func (s spec) same(o spec) bool {
	if s.cli != o.cli {
		return false
	}
	s.mode, s.resume, s.resumeAt, s.origin = o.mode, o.resume, o.resumeAt, o.origin
	a, aerr := json.Marshal(s.comparable())
	b, berr := json.Marshal(o.comparable())
	return aerr == nil && berr == nil && string(a) == string(b)
}

func (s spec) comparable() any {
	return []any{s.session, s.dir, s.home, s.model, s.tools, s.prompt, s.agents, s.ours, s.readOnly}
}

func (s spec) args(path string) []string {
	args := []string{
		path, "--output-format", "stream-json", "--verbose", "--input-format", "stream-json", "--permission-prompt-tool", "stdio",
		"--setting-sources=", "--strict-mcp-config", "--replay-user-messages",
		"--model=" + s.model, "--permission-mode=" + s.mode, "--tools=" + join(s.tools),
	}
	switch {
	case s.resume && s.origin != "":
		args = append(args, "--resume="+s.origin, "--fork-session", "--session-id="+s.cli)
	case s.resume:
		args = append(args, "--resume="+s.cli)
	default:
		args = append(args, "--session-id="+s.cli)
	}
	if s.resume && s.resumeAt != "" {
		args = append(args, "--resume-session-at="+s.resumeAt)
	}
	return args
}

// env is the whole environment of the CLI and of what it starts. It holds no secret but the token
// of the process, which is worth nothing without it.
func (s spec) env(url, token string) []string {
	own := map[string]string{
		"HOME": s.home, "PWD": s.dir, "TMPDIR": filepath.Join(s.home, "tmp"), "CLAUDE_CONFIG_DIR": s.config(),
		"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": token, "CLAUDE_CODE_ENTRYPOINT": "sdk-go", "CLAUDE_AGENT_SDK_CLIENT_APP": "parley",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "ENABLE_TOOL_SEARCH": "false",
		"CLAUDE_CODE_MAX_RETRIES": "3", "IS_SANDBOX": "1",
	}
	if os.Getenv("LANG") == "" {
		own["LANG"] = "C.UTF-8"
	}
	return proc.Env(own)
}

func (s spec) config() string { return filepath.Join(s.home, "config") }

// start starts a CLI and waits until it is ready.
// leave is called when it has ended, or if it does not start.
func (rt *Runtime) start(ctx context.Context, s spec, leave func()) (started *process, err error) {
	spawned := false
	defer func() {
		if !spawned {
			leave()
		}
	}()
	path, err := rt.opt.Find()
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(filepath.Join(s.home, "tmp")) // if this server was killed, it was not removed
	for _, dir := range []string{s.config(), filepath.Join(s.home, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, parley.Errorf(parley.CodeUnavailable, "the folder for the Claude CLI's files cannot be made: %w", err)
		}
	}
	url, err := rt.gate.start()
	if err != nil {
		return nil, err
	}
	inOurs, inTheirs := io.Pipe()
	outOurs, outTheirs := io.Pipe()
	life, cancelLife := context.WithCancelCause(context.Background())
	stop := func() { cancelLife(errGone) }
	p := &process{
		rt: rt, spec: s, leave: leave, stdin: inTheirs, stop: stop, stderr: &proc.Tail{Max: 64 << 10}, gone: make(chan struct{}),
		changed: make(chan struct{}), tasks: map[string]*job{}, mode: s.mode, searched: map[string]searched{},
	}
	p.conn = newConn(inTheirs)
	p.conn.serve, p.conn.handle = p.serve, p.handle
	p.token = rt.gate.admit(p)
	args := s.args(path)
	if rt.opt.Fenced {
		args, err = fence(s, path, rt.gate.port()).Around(args)
	}
	if err == nil {
		p.program, err = proc.Start(life, proc.Spec{
			Args: args, Dir: s.dir, Env: s.env(url, p.token), Memory: rt.opt.Memory, Grace: termWithin,
			Stdin: inOurs, Stdout: outTheirs, Stderr: p.stderr,
		})
	}
	if err != nil {
		stop()
		rt.gate.expel(p.token)
		return nil, parley.Errorf(parley.CodeUnavailable, "the Claude CLI could not be started: %w", err).WithHint("`parley doctor` says what is missing")
	}
	spawned = true
	rt.work.Go(func() { p.conn.read(life, outOurs) })
	rt.work.Go(func() {
		<-p.program.Done()
		rt.gate.expel(p.token)
		_ = outTheirs.Close() // what it wrote has been read: proc waits for that
		_ = inOurs.Close()
		<-p.conn.ended
		stop()
		p.clean()
		close(p.gone)
		rt.pool.ended(p)
	})
	ready, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if _, err = p.conn.ask(ready, p.initialize()); err == nil {
		return p, nil
	}
	failed := p.failure(err)
	p.end()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, failed
}

// fence is what a CLI reaches: its workspace, its own files, itself, and the gateway.
func fence(s spec, path string, port int) confine.Fence {
	f := confine.Fence{Read: []string{path}, Write: []string{s.home}, Ports: []int{port}}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		f.Read = append(f.Read, real)
		if at := strings.LastIndex(real, "/node_modules/"); at >= 0 { // a script there starts the program of another package
			f.Read = append(f.Read, real[:at+len("/node_modules")])
		}
	}
	if s.readOnly {
		f.Read = append(f.Read, s.dir)
	} else {
		f.Write = append(f.Write, s.dir)
	}
	return f
}

func (p *process) initialize() map[string]any {
	gate := []any{map[string]any{"hookCallbackIds": []string{"gate"}, "timeout": gateWithin.Seconds(), "onFailure": "block"}}
	hooks := map[string]any{"PreToolUse": gate}
	for _, event := range moments {
		hooks[event] = []any{map[string]any{"hookCallbackIds": []string{"heed"}, "timeout": gateWithin.Seconds()}}
	}
	req := map[string]any{"subtype": "initialize", "hooks": hooks, "perTaskStopAffordance": true}
	if len(p.spec.servers) > 0 {
		req["sdkMcpServers"] = p.spec.servers
	}
	// A model may know the CLI's tools by heart. The names lead to those of ours that are in their places.
	if alias := aliases(p.spec.ours["parley"]); len(alias) > 0 {
		req["toolAliases"] = alias
	}
	if slices.Contains(p.spec.tools, parley.ToolExitPlan) {
		req["planModeInstructions"] = planning
	}
	if p.spec.prompt != "" {
		req["appendSystemPrompt"] = p.spec.prompt
	}
	if len(p.spec.agents) > 0 {
		req["agents"] = p.spec.agents
	}
	return req
}

// gateWithin is how long the CLI waits for a permission. It must be longer than anybody waits for a
// human while the process is kept; afterwards the process is ended.
const gateWithin = 30 * 24 * time.Hour

// failure says why the CLI did not get ready.
func (p *process) failure(err error) error {
	if !errors.Is(err, errGone) && parley.CodeOf(err) != parley.CodeInternal {
		return err
	}
	said := p.stderr.String()
	if said == "" && errors.Is(err, errGone) {
		return errGone // it was killed
	}
	if why := p.why(); why != "" {
		return parley.Errorf(parley.CodeUnavailable, "the Claude CLI ended before it was ready.%s", why).WithHint("allow more, or `0` for no limit")
	}
	e := parley.Errorf(parley.CodeUnavailable, "the Claude CLI ended before it was ready").WithHint("`parley doctor` says which version it is and what is missing")
	if said != "" {
		e.Message += ": " + parley.Cut(said, 500)
	}
	return e
}

// noMemory are signs that a program got no more memory, in small letters without spaces.
var noMemory = []string{"outofmemory", "cannotallocatememory", "enomem", "bad_alloc", "pthread_createfailed"}

// why says why the process has ended by itself, as far as people can do something about it.
func (p *process) why() string {
	if p == nil || p.rt.opt.Memory <= 0 {
		return ""
	}
	said := strings.ToLower(strings.ReplaceAll(p.stderr.String(), " ", ""))
	if !slices.ContainsFunc(noMemory, func(sign string) bool { return strings.Contains(said, sign) }) {
		return ""
	}
	return fmt.Sprintf(" It had no more memory: each process may take %d MiB (claude.memory).", p.rt.opt.Memory>>20)
}

// end ends the process, in the order that leaves nothing behind, and waits for that.
func (p *process) end() {
	p.mu.Lock()
	first := !p.ending || p.retired
	p.ending, p.retired = true, false
	if p.idle != nil {
		p.idle.Stop()
	}
	p.mu.Unlock()
	if first {
		brief, cancel := context.WithTimeout(context.Background(), endWithin)
		if _, err := p.conn.ask(brief, map[string]any{"subtype": "end_session"}); err == nil {
			p.within(endWithin)
		}
		cancel()
		_ = p.stdin.Close()
		p.within(closeWithin)
		p.stop()
	}
	<-p.gone
}

// kill ends the process at once: what it was doing is not to go on.
func (p *process) kill() {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	_ = p.stdin.Close()
	p.stop()
	<-p.gone
}

// within waits for the end of the process.
func (p *process) within(d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-p.gone:
	case <-late.C:
	}
}

// attach gives the process to a turn.
func (p *process) attach(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn, p.begun = t, false
	close(p.changed)
	p.changed = make(chan struct{})
}

// detach takes the process from its turn.
func (p *process) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn = nil
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns the turn that the process works for. If there is none, the CLI begins one by
// itself, and await waits until that runs. join is called with it before it can be over; it may be nil.
func (p *process) await(ctx context.Context, join func(*turn)) (*turn, error) {
	for {
		p.mu.Lock()
		t, changed, ending := p.turn, p.changed, p.ending
		if t != nil && join != nil {
			join(t)
		}
		p.mu.Unlock()
		if t != nil {
			return t, nil
		}
		if ending {
			return nil, errGone
		}
		if err := p.beginOwn(ctx); err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-p.gone:
			return nil, errGone
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// isIdle reports whether nothing is under way in the process.
func (p *process) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turn == nil && !p.begun && !p.held && !p.ending && len(p.running()) == 0
}

// running lists background work that has not ended. The caller holds mu.
func (p *process) running() (list []*job) {
	for _, j := range p.tasks {
		if !j.over {
			list = append(list, j)
		}
	}
	return list
}

func (p *process) log() *slog.Logger { return p.rt.opt.Logger.With("session", p.spec.session) }
