package replay_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// editor has one tool, which edits the workspace.
type editor struct{}

func (editor) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "edit", Effect: parley.EffectWrite, Edits: true, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (editor) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	root, err := r.Workspace()
	if err != nil {
		return parley.ToolResult{}, err
	}
	return parley.ToolResult{Output: "edited"}, root.WriteFile("x", nil, 0o600)
}

// TestReplayOfAWorkspace: a replay has no files. What was done in a workspace, and what was denied
// because a fork has it read-only, is the same again, prompts included.
func TestReplayOfAWorkspace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, workspace.UserFolder(enginetest.User), "vault"), 0o700); err != nil {
		t.Fatal(err)
	}
	decls, _ := editor{}.Tools(ctx)
	app := enginetest.App(func(a *parley.App) {
		a.Tools = decls
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Edit.", Tools: []string{"edit"}}}
	})
	edit := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		if got := enginetest.Results(r); len(got) > 0 {
			say(strings.Join(got, "; "))
			return seam.Reply{}, nil
		}
		return seam.Reply{Parts: []parley.Part{enginetest.Call("edit", map[string]string{})}}, nil
	}
	r := enginetest.New(t, edit, app, func(o *engine.Options) {
		box, err := toolbox.New([]seam.Toolset{editor{}}, toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		folders, err := workspace.New(workspace.Options{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}}); err != nil {
			t.Fatal(err)
		}
	})
	defer r.Close()
	s := r.Session(func(c *parley.CreateSession) { c.Workspace = "vault" })
	for _, c := range []struct {
		fork  *parley.ForkSession
		reply string
	}{
		{nil, "edited"},
		{&parley.ForkSession{}, "Denied: This call is not allowed: the session's workspace is read-only because it is a fork; the session that it was forked from can change files"},
		{&parley.ForkSession{Workspace: "vault"}, "edited"},
	} {
		if c.fork != nil {
			var err error
			if s, err = r.Engine.Fork(ctx, enginetest.User, s.ID, *c.fork); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.Await(r.Send(s.ID, "go").ID); got.Response == nil || got.Response.Message != c.reply {
			t.Errorf("got %+v, want %q", got.Response, c.reply)
		}
		same(t, recording(t, r, s.ID))
	}
}
