package engine_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// notebook is the workspace of sessions, with the tools for its files. It outlives crashes.
type notebook struct {
	t      testing.TB
	dir    string // the workspace
	checks *checkpoint.Store
	app    parley.App
	// files is what the engine gets; nil: the Restorer itself.
	files    func(*workspacetools.Restorer) seam.Restorer
	now      func() time.Time // asked before each file is restored
	readOnly bool
}

func newNotebook(t testing.TB, change ...func(*parley.App)) *notebook {
	t.Helper()
	n := &notebook{t: t, dir: t.TempDir()}
	n.checks = checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
	n.app = enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Agents = map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Keep notes.", Tools: []string{"Read", "Write", "look", "put", "mail"}}}
	}}, change...)...)
	return n
}

// in gives the engine the workspace, its tools and those of the service.
func (n *notebook) in(service *enginetest.Service) func(*engine.Options) {
	return func(o *engine.Options) {
		log := slog.New(slog.DiscardHandler)
		tools := workspacetools.New(workspacetools.Options{Checkpoints: func() *checkpoint.Store { return n.checks }, NoRipgrep: true})
		box, err := toolbox.New([]seam.Toolset{tools, service}, toolbox.Options{Logger: log})
		if err != nil {
			n.t.Fatal(err)
		}
		folders, err := workspace.New(workspace.Options{Shared: map[string]workspace.Shared{"book": {Dir: n.dir, ReadOnly: n.readOnly}}, Default: "shared/book"})
		if err != nil {
			n.t.Fatal(err)
		}
		app := n.app
		app.Tools = box.Decls()
		if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}, Clean: o.Log.RedactFile, Logger: log}); err != nil {
			n.t.Fatal(err)
		}
		restorer := workspacetools.NewRestorer(n.checks, n.now)
		if o.Files = restorer; n.files != nil {
			o.Files = n.files(restorer)
		}
		o.NothingRuns = true
	}
}

func (n *notebook) write(name, body string) {
	n.t.Helper()
	full := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// all is every file and folder with its content.
func (n *notebook) all() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(n.dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == n.dir {
			return err
		}
		rel, _ := filepath.Rel(n.dir, name)
		if all[rel] = "/"; !e.IsDir() {
			body, err := os.ReadFile(name)
			all[rel] = string(body)
			return err
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return all
}

func (n *notebook) same(what string, want map[string]string) {
	n.t.Helper()
	if diff := cmp.Diff(want, n.all()); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// noter does what the message says: "write PATH TEXT" reads the file and writes it, "mail X" and
// "look X" call these tools.
func noter(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	words := strings.SplitN(enginetest.Last(r), " ", 3)
	done := len(enginetest.Results(r))
	call := func(tool string, input map[string]string) (seam.Reply, error) {
		return seam.Reply{Parts: []parley.Part{enginetest.Call(tool, input)}, State: []byte(`{"cache":1}`)}, nil
	}
	switch {
	case words[0] == "write" && done == 0:
		return call("Read", map[string]string{"file_path": words[1]})
	case words[0] == "write" && done == 1:
		return call("Write", map[string]string{"file_path": words[1], "content": words[2]})
	case words[0] != "write" && len(words) == 2 && done == 0 && (words[0] == "mail" || words[0] == "look"):
		return call(words[0], map[string]string{"text": words[1]})
	}
	say("It is done.")
	return seam.Reply{}, nil
}

func outcomesOf(list []parley.FileRewound) map[string]string {
	all := map[string]string{}
	for _, f := range list {
		all[f.Path] = strings.TrimSuffix(string(f.Outcome)+": "+f.Why, ": ")
	}
	return all
}

// TestRewindFiles: files, the conversation or both go back to what they were before a message, over
// each store. A preview shows each file; what somebody else changed is left; undone, all is as before.
func TestRewindFiles(t *testing.T) {
	eachStore(t, func(t *testing.T, store seam.Store) {
		n, heard, service := newNotebook(t), &prompts{}, &enginetest.Service{}
		defer n.checks.Close() //nolint:errcheck // the test is over
		n.write("a.md", "one\n")
		n.write("theirs.md", "one\n")
		r := enginetest.Over(t, store, service, heard.model(noter), n.app, n.in(service))
		defer r.Close()
		s := r.Session()
		say := func(m string) parley.TurnInfo {
			t.Helper()
			turn := r.Await(r.Send(s.ID, m).ID)
			if turn.Status != parley.StatusCompleted {
				t.Fatalf("%q is %s: %+v", m, turn.Status, turn.Error)
			}
			return turn
		}
		say("look around")
		before := n.all()
		to := say("write a.md two")
		say("write new/deep/b.md made")
		say("write theirs.md two")
		say("mail Ana")
		say("write a.md three")
		n.write("theirs.md", "of mine\n")
		after := n.all()
		st := state(t, r, s.ID)

		seen := r.Rewind(s.ID, parley.RewindSession{Turn: to.ID, Preview: true})
		n.same("a preview changes nothing", after)
		want := map[string]string{"a.md": "restored", "new/deep/b.md": "restored", "theirs.md": "left: somebody else has changed it since"}
		if diff := cmp.Diff(want, outcomesOf(seen.Files)); diff != "" || seen.Files[0].Path != "theirs.md" || !strings.Contains(seen.Files[1].Diff, "-three\n") || !strings.Contains(seen.Files[1].Diff, "+one\n") {
			t.Errorf("the preview shows %+v (-want +got):\n%s", seen.Files, diff)
		}
		if len(seen.Turns) != 5 || len(seen.Effects) != 1 || seen.Effects[0].Tool != "mail" {
			t.Errorf("the preview has %d turns and the effects %+v", len(seen.Turns), seen.Effects)
		}

		// Files alone: the conversation goes on, and knows that they are not as it left them.
		did := r.Rewind(s.ID, parley.RewindSession{Turn: to.ID, What: parley.RewindFiles})
		restored := map[string]string{"a.md": before["a.md"], "theirs.md": "of mine\n"}
		n.same("files restored", restored)
		if now := state(t, r, s.ID); len(now.History) != len(st.History) || len(did.Turns) != 0 || now.Rewinding != nil {
			t.Errorf("the conversation: %+v", now.History)
		}
		say("thanks")
		if told := heard.last(); !strings.Contains(told, "The user put files back") || !strings.Contains(told, "\n- a.md") || strings.Contains(told, "\n- theirs.md") || !strings.Contains(told, "user: write a.md two") {
			t.Errorf("told was:\n%s", told)
		}
		undone := r.Rewind(s.ID, parley.RewindSession{Undo: did.Seq})
		n.same("undone", after)
		if undone.What != parley.RewindFiles || len(undone.Back) != 0 {
			t.Errorf("undone: %+v", undone)
		}

		// The conversation alone: files stay, and the model is told to read them again.
		did = r.Rewind(s.ID, parley.RewindSession{Turn: to.ID, What: parley.RewindConversation})
		n.same("only the conversation", after)
		if got := outcomesOf(did.Files)["a.md"]; got != "left: only the conversation is taken back" || did.Files[0].Diff != "" {
			t.Errorf("a.md was %q", got)
		}
		if _, ok, err := n.checks.Seen(ctx, s.ID, "a.md"); ok || err != nil {
			t.Errorf("the session still has seen a.md: %v, %v", ok, err)
		}
		say("thanks")
		if told := heard.last(); !strings.Contains(told, "\n- a.md") || !strings.Contains(told, "mail {\"text\":\"Ana\"}: done") || strings.Contains(told, "write a.md two") {
			t.Errorf("told was:\n%s", told)
		}
		r.Rewind(s.ID, parley.RewindSession{Undo: did.Seq})

		// Both, and a change after it; undone, that is taken back, too.
		did = r.Rewind(s.ID, parley.RewindSession{Turn: to.ID})
		n.same("both", restored)
		say("write a.md four")
		undone = r.Rewind(s.ID, parley.RewindSession{Undo: did.Seq})
		n.same("both undone", after)
		if now := state(t, r, s.ID); len(now.History) != 7 || len(undone.Back) != 7-1 {
			t.Errorf("%d exchanges, %d brought back", len(now.History), len(undone.Back))
		}
		r.Rewind(s.ID, parley.RewindSession{Undo: undone.Seq})
		n.same("and done again", map[string]string{"a.md": "four", "theirs.md": "of mine\n"})
		log := r.Log(s.ID)
		if err := enginetest.CheckLog(log); err != nil {
			t.Errorf("%v\n%s", err, enginetest.Types(log))
		}
		for _, ev := range log {
			if ev.Type == "session.rewound" && (strings.Contains(string(ev.Data), "of mine") || strings.Contains(string(ev.Data), `"diff"`)) {
				t.Errorf("a content is in the log: %.2000s", ev.Data)
			}
		}
		if left, err := n.checks.Rewinding(ctx); err != nil || len(left) != 0 {
			t.Errorf("under way are %v, %v", left, err)
		}
	})
}

// TestRewindSharedFiles: of two sessions that change one file, only the last one can restore it; then
// the other can.
func TestRewindSharedFiles(t *testing.T) {
	t.Parallel()
	n, service := newNotebook(t), &enginetest.Service{}
	defer n.checks.Close() //nolint:errcheck // the test is over
	n.write("a.md", "zero")
	r := enginetest.New(t, noter, n.app, n.in(service))
	defer r.Close()
	one, two := r.Session(), r.Session()
	first := r.Await(r.Send(one.ID, "write a.md one").ID)
	second := r.Await(r.Send(two.ID, "write a.md two").ID)
	seen := r.Rewind(one.ID, parley.RewindSession{Turn: first.ID, Preview: true})
	if got := outcomesOf(seen.Files)["a.md"]; got != "left: somebody else has changed it since" {
		t.Errorf("the first session: %q", got)
	}
	if _, err := r.Engine.Rewind(ctx, enginetest.User, one.ID, parley.RewindSession{Turn: first.ID, What: parley.RewindFiles}); code(err) != parley.CodeConflict {
		t.Errorf("files of the first session: %v", err)
	}
	r.Rewind(two.ID, parley.RewindSession{Turn: second.ID})
	n.same("the second is taken back", map[string]string{"a.md": "one"})
	r.Rewind(one.ID, parley.RewindSession{Turn: first.ID})
	n.same("and the first", map[string]string{"a.md": "zero"})
}

// TestRewindFilesOfCopies: what a fork or an import has from another session is not its own to
// restore. In a workspace that is read-only, or gone, nothing is restored either; it is said why.
func TestRewindFilesOfCopies(t *testing.T) {
	t.Parallel()
	n, service := newNotebook(t), &enginetest.Service{}
	defer n.checks.Close() //nolint:errcheck // the test is over
	r := enginetest.New(t, noter, n.app, n.in(service))
	s := r.Session()
	turn := r.Await(r.Send(s.ID, "write a.md one").ID)
	after := n.all()
	fork, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := r.Engine.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{Workspace: "shared/book"})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := r.Engine.Import(ctx, enginetest.User, engine.Imported{Events: r.Log(s.ID)})
	if err != nil {
		t.Fatal(err)
	}
	imported, err := r.Engine.Turns(ctx, enginetest.User, seam.TurnQuery{Session: copied.ID})
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range map[parley.SessionID]struct {
		turn parley.TurnID
		want string
	}{
		fork.ID:   {turn.ID, "left: the workspace is read-only"},
		own.ID:    {turn.ID, "left: what it contained before is not kept here"},
		copied.ID: {imported[0].ID, "left: what it contained before is not kept here"},
	} {
		got := r.Rewind(id, parley.RewindSession{Turn: c.turn})
		if diff := cmp.Diff(map[string]string{"a.md": c.want}, outcomesOf(got.Files)); diff != "" || len(state(t, r, id).History) != 0 {
			t.Errorf("session %s (-want +got):\n%s", id, diff)
		}
	}
	n.same("of copies", after)
	disk := r.Mem.Clone()
	r.Close()
	n.readOnly = true
	r = enginetest.Over(t, disk, service, noter, n.app, n.in(service))
	if got := outcomesOf(r.Rewind(s.ID, parley.RewindSession{Turn: turn.ID, Preview: true}).Files)["a.md"]; got != "left: the workspace is read-only" {
		t.Errorf("read-only: %q", got)
	}
	disk = r.Mem.Clone()
	r.Close()
	n.readOnly = false
	if err := os.Rename(n.dir, n.dir+"-aside"); err != nil {
		t.Fatal(err)
	}
	r = enginetest.Over(t, disk, service, noter, n.app, n.in(service))
	defer r.Close()
	if got := outcomesOf(r.Rewind(s.ID, parley.RewindSession{Turn: turn.ID}).Files)["a.md"]; got != `left: there is no workspace "shared/book"` {
		t.Errorf("gone: %q", got)
	}
	if err := os.Rename(n.dir+"-aside", n.dir); err != nil {
		t.Fatal(err)
	}
	n.same("back again", after)
}

// slowFiles is a Restorer that waits before it restores.
type slowFiles struct {
	seam.Restorer
	begun chan struct{}
	gate  chan struct{}
}

func (f slowFiles) Restore(ctx context.Context, r seam.Restoration) (seam.Restored, error) {
	close(f.begun)
	<-f.gate
	return f.Restorer.Restore(ctx, r)
}

// TestWhileFilesAreRestored: no turn begins, nothing else rewinds, and the session is neither ended nor
// deleted until the files are restored. What only reads or copies works.
func TestWhileFilesAreRestored(t *testing.T) {
	t.Parallel()
	n, service := newNotebook(t, queued), &enginetest.Service{}
	defer n.checks.Close() //nolint:errcheck // the test is over
	slow := slowFiles{begun: make(chan struct{}), gate: make(chan struct{})}
	n.files = func(r *workspacetools.Restorer) seam.Restorer { slow.Restorer = r; return slow }
	r := enginetest.New(t, noter, n.app, n.in(service))
	defer r.Close()
	s := r.Session()
	turn := r.Await(r.Send(s.ID, "write a.md one").ID)
	asked := parley.RewindSession{Turn: turn.ID, Key: "k"}
	did, err := r.Engine.Rewind(ctx, enginetest.User, s.ID, asked)
	if err != nil {
		t.Fatal(err)
	}
	<-slow.begun
	if info, err := r.Engine.Session(ctx, enginetest.User, s.ID); err != nil || !info.Rewinding || info.Rewound != nil {
		t.Errorf("the session is %+v, %v", info, err)
	}
	e := r.Engine
	for what, do := range map[string]func() error{
		"a message": func() error { _, err := e.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "hello"}); return err },
		"a queued message": func() error {
			_, err := e.Send(ctx, enginetest.User, s.ID, parley.Send{Message: "hello", Busy: parley.BusyEnqueue})
			return err
		},
		"a retry": func() error { _, err := e.Retry(ctx, enginetest.User, turn.ID, "", ""); return err },
		"a call": func() error {
			_, err := e.CallTool(ctx, enginetest.User, parley.CallTool{Session: s.ID, Name: "look", Input: []byte(`{"text":"x"}`)})
			return err
		},
		"pins": func() error {
			_, err := e.Update(ctx, enginetest.User, s.ID, parley.UpdateSession{Pins: &[]parley.Pin{{Label: "a", Text: "b"}}})
			return err
		},
		"another rewind": func() error {
			_, err := e.Rewind(ctx, enginetest.User, s.ID, parley.RewindSession{Turn: turn.ID})
			return err
		},
	} {
		if err := do(); code(err) != parley.CodeBusy || parley.Info(err).RetryAfterMS == 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if again, err := e.Rewind(ctx, enginetest.User, s.ID, asked); err != nil || again.ID != did.ID {
		t.Errorf("asked again: %+v, %v", again, err)
	}
	fork, err := e.Fork(ctx, enginetest.User, s.ID, parley.ForkSession{})
	if err != nil || fork.Rewinding {
		t.Errorf("a fork: %+v, %v", fork, err)
	}
	ended := make(chan error, 1)
	go func() { _, err := e.End(ctx, enginetest.User, s.ID, ""); ended <- err }()
	waited := make(chan parley.RewindResult, 1)
	go func() {
		got, err := e.AwaitRewind(ctx, enginetest.User, s.ID, did.ID)
		if err != nil {
			t.Error(err)
		}
		waited <- got
	}()
	select {
	case err := <-ended:
		t.Errorf("ended meanwhile: %v", err)
	case <-waited:
		t.Error("it is said to be over")
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.gate)
	if got := <-waited; len(got.Files) != 1 || got.Files[0].Outcome != parley.FileRestored {
		t.Errorf("got %+v", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	n.same("restored", map[string]string{})
	if err := enginetest.CheckLog(r.Log(s.ID)); err != nil {
		t.Error(err)
	}
	if turn := r.Await(r.Send(fork.ID, "hello").ID); turn.Status != parley.StatusCompleted {
		t.Errorf("the fork cannot go on: %+v", turn)
	}
	if types := enginetest.Types(r.Log(s.ID)); !slices.Contains(strings.Fields(types), "session.rewinding") {
		t.Error(types)
	}
}
