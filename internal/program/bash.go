package program

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/shell"
)

// guardedNames are what agents are told by, or what runs, in the first level of a workspace.
var guardedNames = []string{".mcp.json", ".claude", ".agents", "AGENTS.md", "CLAUDE.md", "CLAUDE.local.md"}

// newBash makes the tools that run commands in a session's workspace. Where commands cannot be confined
// the app does without them, unless the operator allows commands that are not.
func newBash(d app.ToolDeps) (app.Service, error) {
	c := d.Toolset.Bash
	inspect := func(context.Context) []app.Finding { return []app.Finding{inspectBash(d.App.Name, c.Unconfined)} }
	if !c.Unconfined && !d.Check {
		if _, why := confinedBy(); why != nil {
			text := "commands cannot be confined here: " + why.Error()
			d.App.Leave(text, shell.Bash, shell.Output, shell.Kill)
			return app.Service{Toolset: nothing{}, Notices: func() []string { return []string{"Bash is off: " + text} }, Inspect: inspect}, nil
		}
	}
	own := rand.Text()
	tools := shell.New(shell.Options{
		Folder:     func(elems ...string) (string, error) { return d.Scratch(append([]string{"bash", own}, elems...)...) },
		Unconfined: c.Unconfined, Env: c.Env, Readable: c.Read, Ports: c.Network, Memory: c.Memory, Processes: c.Processes, Disk: c.Disk,
		AtOnce: c.AtOnce, Background: time.Duration(c.Background), Guarded: guardedNames, Logger: d.Logger,
	})
	var env []string
	for name, value := range c.Env {
		env = append(env, name+"="+value)
	}
	e := &endings{tools: tools}
	return app.Service{
		Toolset: tools, Follow: func(f app.Followed) { e.reader, e.store = f.Reader, f.Store }, Start: e.start,
		Close: func() { e.close(); tools.Close() }, Inspect: inspect,
		Secrets: append(secrets(env, isFile), referred(c.Refs, isFile)...),
	}, nil
}

// inspectBash is what doctor says.
func inspectBash(name string, unconfined bool) app.Finding {
	if unconfined {
		return app.Finding{Check: "bash", Warn: parley.Errorf(parley.CodeForbidden, "%s: commands are not confined, as bash.unconfined in parley.yaml says; they may do whatever the server may", name)}
	}
	by, why := confinedBy()
	if why != nil {
		return app.Finding{Check: "bash", Warn: parley.Errorf(parley.CodeUnavailable, "%s does without Bash, since commands cannot be confined here: %w", name, why).
			WithHint("where the server has a container of its own, bash: {unconfined: true} in parley.yaml runs commands without a sandbox")}
	}
	return app.Finding{Check: "bash", Says: name + ": commands are confined by " + by}
}

// confinedBy says by what commands are confined here. The kernel does not change, so it is asked once.
var confinedBy = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "parley-")
	if err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is a temporary folder
	return shell.Check(context.Background(), dir)
})

// nothing is a toolset without tools.
type nothing struct{}

func (nothing) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

func (nothing) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, seam.NotSent(fmt.Errorf("no tool %q", r.Name))
}

// endings ends the commands of sessions that have ended.
type endings struct {
	tools  *shell.Toolset
	reader *eventlog.Reader
	store  seam.Store
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func (e *endings) start() {
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.work.Go(func() {
		for bell, err := range e.reader.Watch(ctx, parley.System()) {
			if err != nil {
				return
			}
			list := []parley.SessionID{bell.Session}
			if bell.Session == "" {
				list = e.tools.Sessions()
			}
			for _, id := range list {
				if e.tools.Holds(id) && e.ended(ctx, id) {
					e.tools.End(id)
				}
			}
		}
	})
}

func (e *endings) ended(ctx context.Context, id parley.SessionID) bool {
	info, err := e.store.Session(ctx, parley.System(), id)
	if err != nil {
		return parley.CodeOf(err) == parley.CodeNotFound
	}
	return info.Status != parley.Active
}

func (e *endings) close() {
	if e.cancel != nil {
		e.cancel()
		e.work.Wait()
	}
}
