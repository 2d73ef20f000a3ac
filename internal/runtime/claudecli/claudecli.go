// Package claudecli is the runtime that has the Claude CLI carry turns forward.
//
// The CLI is a program of its own, which whoever runs the server installs: it brings an agent, with
// its loop and its tools. A [Runtime] starts one process for each session that is at work and speaks
// to it in lines of JSON ("stream-json"). It keeps nothing of a turn that is not in the log:
//
//   - Each call of a tool passes a gate before it is made (gate.go). It is answered only after its
//     start is committed, so policy, approvals, hooks and the rules about crashes are those of every
//     other call. The app's own tools are given to the CLI by an MCP server in this process (mcp.go).
//   - Each call of a model goes through a gateway on loopback (gateway.go, model.go). Its start and
//     what it may cost are committed before it leaves, its reply before the CLI has the end of it. The
//     keys of providers never reach the CLI.
//   - What was asked of a human waits with the process, and then without it. An interrupted turn goes
//     on from its log (replay.go).
//
// The CLI's transcript of a session is a cache (transcript.go). Where it is missing, or lacks turns,
// the CLI is told of them.
//
// Processes are in a pool (pool.go) and end with this process in any way (package proc). Nothing that a
// CLI started outlives it. Methods are safe for concurrent use.
package claudecli

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of a Runtime.
type Options struct {
	// Find finds the executable. Required. See [Locate].
	Find func() (path string, err error)
	// Data is a folder for the CLI's files, one sub-folder for each session. Required.
	Data string
	// Most is how many processes there are at once; 0: 8. Each takes about 250 MB.
	Most int
	// Idle is how long a process waits for its session's next turn; 0: 5 minutes. The next one takes
	// 0.3 s to start.
	Idle time.Duration
	// Wait is how long a turn waits when all processes are busy; 0: 1 minute.
	Wait time.Duration
	// Memory limits what each process may allocate, in bytes; 0: no limit.
	Memory int64
	// Translate makes a handler for Anthropic's API from a model of another provider, for an agent.
	// nil: only models that implement [seam.Passer] can be used.
	Translate func(m seam.Model, agent string) http.Handler
	// Shell has the CLI's model use the CLI's own Bash. It runs with the rights of this process. Else
	// an app's Bash is Parley's, which is confined.
	Shell bool
	// Fenced lets the CLI reach only its session's workspace, its own files and the gateway, see
	// [confine.Fence]. It needs [confine.CanFence].
	Fenced bool
	// Witness keeps what files contain before the CLI's tools change them. nil: nobody does.
	Witness Witness
	Logger  *slog.Logger // nil: none
}

// Witness sees the changes of files that the CLI's tools make. Paths are relative to dir, with slashes.
type Witness interface {
	// Before is called before a change. body is what the file will contain, or nil if that is not
	// known. After an error the change is not made.
	Before(ctx context.Context, id parley.SessionID, turn parley.TurnID, call parley.CallID, dir, path string, body []byte) error
	// After is called when the call has ended. changed says whether the file is another now.
	After(ctx context.Context, id parley.SessionID, call parley.CallID, dir string) (s parley.FileSaved, changed bool, err error)
}

// Runtime drives Claude CLIs.
type Runtime struct {
	opt    Options
	models seam.Models
	gate   gateway
	pool   pool
	work   sync.WaitGroup

	mu    sync.Mutex
	begin func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)
}

var _ seam.Needing = (*Runtime)(nil)

// Missing implements seam.Needing: there may be no CLI. Where it was looked for is for the operator alone.
func (rt *Runtime) Missing() error {
	if _, err := rt.opt.Find(); err != nil {
		return ErrMissing
	}
	return nil
}

// New makes a Runtime. It starts nothing.
func New(models seam.Models, o Options) *Runtime {
	if o.Most <= 0 {
		o.Most = 8
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
	if o.Wait <= 0 {
		o.Wait = time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	rt := &Runtime{opt: o, models: models}
	rt.pool.rt = rt
	rt.pool.slots = fair.Turns{Slots: o.Most, Each: o.Most, Queued: math.MaxInt} // a turn waits: it is the engine's that limits them
	return rt
}

var (
	_ seam.Runtime   = (*Runtime)(nil)
	_ seam.Starter   = (*Runtime)(nil)
	_ seam.Equipped  = (*Runtime)(nil)
	_ seam.Forgetter = (*Runtime)(nil)
)

// Starts implements [seam.Starter].
func (rt *Runtime) Starts(begin func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.begin = begin
}

func (rt *Runtime) starts() func(context.Context, parley.SessionID, seam.OwnTurn) (parley.TurnID, error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.begin
}

// Close ends all processes.
func (rt *Runtime) Close() error {
	rt.pool.close()
	rt.gate.close()
	rt.work.Wait()
	return nil
}

// maxStarts is how often the CLI may end during a turn before the turn fails.
const maxStarts = 3

// Run implements [seam.Runtime].
func (rt *Runtime) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	anew := false
	for n := 1; ; n++ {
		t := &turn{
			rt: rt, h: h, anew: anew, app: h.App(), attempt: rand.Text(), entry: parley.AgentPath(h.App().Entry), lines: newLines(), calls: newCalls(), fails: make(chan error, 1), done: make(chan struct{}), reserving: make(chan struct{}, 1),
			late: map[parley.CallID]*time.Timer{}, again: map[parley.AgentPath][]parley.Item{}, gone: map[parley.CallID]bool{},
		}
		end, err := t.run(ctx)
		if err == nil {
			return end, nil
		}
		t.leave()
		anew = errors.Is(err, errAnew)
		if ctx.Err() != nil || !anew && !errors.Is(err, errGone) {
			return end, err
		}
		why := "The Claude CLI ended and was started again." + t.p.why()
		if anew {
			n, why = n-1, "The conversation no longer fits the model, and a hook keeps it from being summarized. Of earlier turns the Claude CLI is told what the log has."
		}
		if err := t.lost(ctx, why); err != nil {
			return end, err
		}
		if n == maxStarts {
			failed := parley.Errorf(parley.CodeUnavailable, "the Claude CLI ended %d times before the turn was done.%s", n, t.p.why()).WithHint("the server's log has what it said")
			if t.p != nil {
				t.p.log().Warn("the Claude CLI ends again and again", "said", t.p.stderr.String())
			}
			return end, failed
		}
	}
}

// Sessions lists the sessions that have files of a CLI.
func (rt *Runtime) Sessions() (list []parley.SessionID, err error) {
	entries, err := os.ReadDir(rt.opt.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		list = append(list, parley.SessionID(e.Name()))
	}
	return list, err
}

// Drop removes the files of a session, whose CLI it ends.
func (rt *Runtime) Drop(id parley.SessionID) error {
	if p := rt.pool.has(id); p != nil {
		p.end()
	}
	home, ok := rt.home(id)
	if !ok {
		return nil
	}
	return os.RemoveAll(home)
}
