package schedule_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// slowFiles is a Restorer that takes 25 seconds to restore.
type slowFiles struct{ seam.Restorer }

func (f slowFiles) Restore(ctx context.Context, r seam.Restoration) (seam.Restored, error) {
	time.Sleep(25 * time.Second)
	return f.Restorer.Restore(ctx, r)
}

// TestRewinding: a run that falls due in a session whose files a rewind is restoring begins a moment later.
func TestRewinding(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			if path, ok := strings.CutPrefix(enginetest.Last(r), "write "); ok && len(enginetest.Results(r)) == 0 {
				return seam.Reply{Parts: []parley.Part{enginetest.Call("Write", map[string]string{"file_path": path, "content": "one"})}}, nil
			}
			say("It is done.")
			return seam.Reply{}, nil
		}
		app := enginetest.App(func(a *parley.App) {
			a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Keep notes.", Tools: []string{"Write"}}}
		})
		checks := checkpoint.New(checkpoint.Options{Data: datafolder.New(data, nil)})
		defer checks.Close() //nolint:errcheck // the test is over
		d := open(t, mem.New(), model, app, func(o *engine.Options) {
			box, err := toolbox.New([]seam.Toolset{workspacetools.New(workspacetools.Options{Checkpoints: func() *checkpoint.Store { return checks }, NoRipgrep: true})}, toolbox.Options{})
			if err != nil {
				t.Fatal(err)
			}
			folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"book": {Dir: dir}}, Default: "shared/book"})
			if err != nil {
				t.Fatal(err)
			}
			app.Tools = box.Decls()
			if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}}); err != nil {
				t.Fatal(err)
			}
			o.Files, o.NothingRuns = slowFiles{workspacetools.NewRestorer(checks, nil)}, true
		})
		defer d.close()
		session := d.Session()
		turn := d.Await(d.Send(session.ID, "write a.md").ID)
		file := filepath.Join(dir, "a.md")
		if _, err := os.Stat(file); err != nil || turn.Status != parley.StatusCompleted {
			t.Fatalf("%v: %+v", err, turn)
		}
		s := d.add(parley.ScheduleSpec{Cron: "0 * * * *", Session: parley.ScheduleSame, SessionID: session.ID})
		time.Sleep(time.Until(time.Date(2000, 1, 1, 0, 59, 55, 0, time.UTC)))
		if _, err := d.Engine.Rewind(t.Context(), enginetest.User, session.ID, parley.RewindSession{Turn: turn.ID}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		d.same("while files are restored", d.runs(s.ID), "")
		if why := d.read(s.ID).Why; !strings.Contains(why, "the session is being rewound") {
			t.Errorf("it waits because %q", why)
		}
		time.Sleep(2 * time.Minute)
		d.same("after they were restored", d.runs(s.ID), "1 01:00 begun completed")
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the file is still there: %v", err)
		}
	})
}
