package replay_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/replay"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// posting is a service whose mails have words for people.
type posting struct{ *enginetest.Service }

func (posting) Words(tool string, _ json.RawMessage) string {
	if tool == "mail" {
		return "Mail everybody"
	}
	return ""
}

// TestReplayOfRewinds: a session that was rewound, with its files and without, and had that undone, is
// the same again, prompts included. A replay has no files.
func TestReplayOfRewinds(t *testing.T) {
	t.Parallel()
	dir, service := t.TempDir(), posting{&enginetest.Service{}}
	if err := os.WriteFile(filepath.Join(dir, "mine.md"), []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	checks := checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
	defer checks.Close() //nolint:errcheck // the test is over
	app := enginetest.App(func(a *parley.App) {
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Keep notes.", Tools: []string{"Read", "Write", "look", "mail"}}}
	})
	var mu sync.Mutex
	var heard []seam.Request
	model := func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		mu.Lock()
		heard = append(heard, r)
		mu.Unlock()
		words, done := strings.Fields(enginetest.Last(r)), len(enginetest.Results(r))
		call := func(tool string, input map[string]string) (seam.Reply, error) {
			return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, input)}}, nil
		}
		switch {
		case words[0] == "write" && done == 0:
			return call("Read", map[string]string{"file_path": words[1]})
		case words[0] == "write" && done == 1:
			return call("Write", map[string]string{"file_path": words[1], "content": words[2]})
		case words[0] == "mail" && done == 0:
			return call("mail", map[string]string{"text": words[1]})
		}
		say("It is done.")
		return seam.Reply{}, nil
	}
	r := enginetest.New(t, model, app, func(o *engine.Options) {
		log := slog.New(slog.DiscardHandler)
		box, err := toolbox.New([]seam.Toolset{
			workspacetools.New(workspacetools.Options{Checkpoints: func() *checkpoint.Store { return checks }, NoRipgrep: true}), service,
		}, toolbox.Options{Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"book": {Dir: dir}}, Default: "shared/book"})
		if err != nil {
			t.Fatal(err)
		}
		app.Tools = box.Decls()
		if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}, Logger: log}); err != nil {
			t.Fatal(err)
		}
		o.Files = workspacetools.NewRestorer(checks, nil)
	})
	defer r.Close()
	s := r.Session()
	say := func(m string) parley.TurnInfo {
		t.Helper()
		return r.Await(r.Send(s.ID, m).ID)
	}
	rewind := func(c parley.RewindSession) int64 { return r.Rewind(s.ID, c).Seq }
	say("hello")
	to := say("write a.md two")
	say("write mine.md two")
	say("mail Ana")
	if err := os.WriteFile(filepath.Join(dir, "mine.md"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	both := rewind(parley.RewindSession{Turn: to.ID})
	say("and now?")
	rewind(parley.RewindSession{Undo: both})
	say("and then?")
	again := say("write a.md three")
	rewind(parley.RewindSession{Turn: again.ID, What: parley.RewindFiles})
	say("what is in it?")
	rewind(parley.RewindSession{Turn: to.ID, What: parley.RewindConversation})
	say("thanks")
	log := r.Log(s.ID)
	if err := enginetest.CheckLog(log); err != nil {
		t.Fatal(err)
	}
	rec := recording(t, r, s.ID)
	same(t, rec)
	res, err := replay.Run(ctx, rec, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := replay.Prompts(heard, res.Requests); d != nil {
		t.Errorf("prompts: %s", d)
	}
	if told := heard[len(heard)-1].Messages; !strings.Contains(told[len(told)-1].Parts[0].Text, "Mail everybody") {
		t.Errorf("told was %+v", told)
	}
}
