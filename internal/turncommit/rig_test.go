package turncommit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/gitrepo"
	"github.com/parley-server/parley/internal/proc"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/turncommit"
	folders "github.com/parley-server/parley/internal/workspace"
)

// TestMain starts what package proc keeps for the whole process, outside of any bubble.
func TestMain(m *testing.M) {
	p, err := proc.Start(context.Background(), proc.Spec{Args: []string{"/bin/true"}})
	if err == nil {
		err = p.Wait()
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// call is what the model of a rig does: each call is a step of its own.
type call struct {
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input"`
}

// follows is a model that makes the calls that the message lists behind its first word, as JSON. With
// "fail" in the place of a tool it fails.
func follows(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	_, text, _ := strings.Cut(enginetest.Last(r), "\n")
	var calls []call
	_ = json.Unmarshal([]byte(text), &calls)
	n := 0
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == parley.RoleUser {
			break
		}
		if m.Role == parley.RoleAssistant {
			n++
		}
	}
	if n < len(calls) && calls[n].Tool == "fail" {
		return seam.Reply{}, errors.New("no")
	}
	if n >= len(calls) {
		say("Done.")
		return seam.Reply{}, nil
	}
	return seam.Reply{Parts: []parley.Part{enginetest.Call(calls[n].Tool, calls[n].Input)}}, nil
}

// pages is WebFetch, without a web. It tells who wants to know, as the real one does.
type pages struct{ g *rig }

func (pages) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{
		{Name: "WebFetch", Description: "Fetches.", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectRead},
		{Name: "post", Description: "Posts.", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectWrite},
		{Name: "wait", Description: "Asks.", InputSchema: json.RawMessage(`{"type":"object"}`), Effect: parley.EffectWrite},
	}, nil
}

func (pages) Run(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == "post" { // as linkedin_post does: it has an effect, and logs it in the workspace
		root, err := r.Workspace()
		if err != nil {
			return parley.ToolResult{}, err
		}
		if err := r.Changes(ctx, "linkedin/posts.csv"); err != nil {
			return parley.ToolResult{}, err
		}
		return parley.ToolResult{Output: "Posted.", Saved: []parley.FileSaved{{Path: "linkedin/posts.csv"}}},
			errors.Join(root.MkdirAll("linkedin", 0o755), root.WriteFile("linkedin/posts.csv", []byte("a post\n"), 0o644))
	}
	return parley.ToolResult{Output: "A page."}, nil
}

func (p pages) Requested(ctx context.Context, r seam.Run) {
	var in struct{ URL string }
	if json.Unmarshal(r.Input, &in) == nil && in.URL != "" {
		p.g.commits.Requested(ctx, r, in.URL)
	}
}

// rig is an engine whose sessions have the folders of a vault, and commits of their turns.
type rig struct {
	*enginetest.Rig
	dir, vault, data string
	commits          *turncommit.Commits
	change           func(*turncommit.Options)
}

// live runs f in a bubble of fake time, with a vault that has a remote.
func live(t *testing.T, f func(g *rig), change ...func(*turncommit.Options)) {
	t.Helper()
	g := &rig{dir: t.TempDir(), data: t.TempDir()}
	g.vault = filepath.Join(g.dir, "vault")
	git(t, g.dir, "init", "-q", "--bare", "-b", "main", "remote.git")
	git(t, g.dir, "init", "-q", "-b", "main", "vault")
	git(t, g.vault, "remote", "add", "origin", "../remote.git")
	for _, name := range []string{"sebastian", "petra"} {
		write(t, g.vault, name+"/notes.md", "The notes of "+name+".\n")
	}
	git(t, g.vault, "add", ".")
	git(t, g.vault, "commit", "-q", "-m", "first")
	git(t, g.vault, "push", "-q", "-u", "origin", "main")
	git(t, g.dir, "clone", "-q", "remote.git", "person")
	g.change = func(o *turncommit.Options) {
		for _, c := range change {
			c(o)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w, err := folders.New(folders.Options{Granted: folders.Granted{Dir: g.vault, Except: []string{"claude"}, To: map[string][]parley.Principal{
			"sebastian": {enginetest.User}, "petra": {enginetest.User},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		checks := checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
		app := enginetest.App(func(a *parley.App) {
			a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 8
			a.Policy.Rules = []parley.Rule{{Verdict: parley.Ask, Tool: "wait"}, {Verdict: parley.Allow}}
		})
		g.Rig = enginetest.New(t, follows, app, func(o *engine.Options) {
			log := slog.New(slog.DiscardHandler)
			o.Files = made{}
			box, err := toolbox.New([]seam.Toolset{
				workspace.New(workspace.Options{Checkpoints: func() *checkpoint.Store { return checks }, Requested: func(ctx context.Context, r seam.Run) { g.commits.Ready(ctx, r) }}), pages{g},
			}, toolbox.Options{Logger: log})
			if err != nil {
				t.Fatal(err)
			}
			app.Tools = box.Decls()
			lead := parley.AgentDef{Name: "lead", Prompt: "Do.", History: parley.HistoryAll}
			for _, d := range app.Tools {
				lead.Tools = append(lead.Tools, d.Name)
			}
			app.Agents = map[string]parley.AgentDef{"lead": lead}
			if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: w}}, Clean: o.Log.RedactFile, Logger: log}); err != nil {
				t.Fatal(err)
			}
		})
		g.commits = turncommit.Start(g.options(g.Store, g.Reader))
		defer func() {
			g.Rig.Close()
			g.commits.Close(context.Background())
			_ = checks.Close()
		}()
		f(g)
	})
}

func (g *rig) options(store seam.Store, log turncommit.Log) turncommit.Options {
	o := turncommit.Options{
		App: "test", Dir: g.vault, Data: datafolder.New(g.data, nil), Log: log, Store: store,
		Folder: func(w parley.Workspace) string { name, _ := w.Shared(); return name },
		Author: func(folder string) gitrepo.Ident {
			return gitrepo.Ident{Name: folder + " by Parley", Email: "parley@localhost"}
		},
	}
	o.Logger = slog.New(slog.NewTextHandler(g.T.Output(), nil))
	g.change(&o)
	return o
}

// restarted runs only the commits, over the log as it is, as a server that was started again does.
func (g *rig) restarted() {
	g.T.Helper()
	store := g.Mem.Clone()
	w, reader := eventlog.New(store, redact.New(), eventlog.Options{})
	c := turncommit.Start(g.options(store, reader))
	time.Sleep(time.Second)
	synctest.Wait()
	_ = w.Close(context.Background())
	c.Close(context.Background())
}

// noted are the requests that the store has.
func (g *rig) noted(store seam.Store) (ids []string) {
	g.T.Helper()
	rows, err := store.Rows(context.Background(), parley.System(), seam.RowQuery{Kind: seam.RowPage, Limit: -1})
	if err != nil {
		g.T.Fatal(err)
	}
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids
}

// settled waits until all that is to be done now is done.
func (g *rig) settled() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (g *rig) session(person string) parley.SessionInfo {
	return g.Rig.Session(func(c *parley.CreateSession) {
		c.Workspace = parley.Workspace("shared/" + person)
		c.Mode = parley.ModeDefault
	})
}

// asks is a message of some words and the calls that follow from it.
func asks(words string, calls ...call) string {
	raw, _ := json.Marshal(calls)
	return words + "\n" + string(raw)
}

func writes(name, body string) call {
	return call{"Write", map[string]any{"file_path": name, "content": body}}
}

func (g *rig) turn(s parley.SessionInfo, words string, calls ...call) parley.TurnInfo {
	g.T.Helper()
	return g.Await(g.Send(s.ID, asks(words, calls...)).ID)
}

// history are the commits of main but for the first: their subjects, without the calls, and files.
func (g *rig) history(dir string) []string {
	g.T.Helper()
	var list []string
	for c := range strings.SplitSeq(git(g.T, dir, "log", "--reverse", "--name-only", "--format=%x01%s", "main"), "\x01") {
		if f := strings.Split(strings.Trim(c, "\n"), "\n"); f[0] != "" {
			subject, _, _ := strings.Cut(f[0], " [{")
			list = append(list, subject+": "+strings.Join(slices.DeleteFunc(f[1:], func(s string) bool { return s == "" }), " "))
		}
	}
	return list[1:]
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ana", "GIT_AUTHOR_EMAIL=ana@example.com", "GIT_COMMITTER_NAME=Ana", "GIT_COMMITTER_EMAIL=ana@example.com",
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

func write(t testing.TB, dir, name, body string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(body), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func read(dir, name string) string {
	body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return "(none)"
	}
	return string(body)
}

// offFor has nothing committed, as if there were no repository.
func offFor(o *turncommit.Options) { o.Off = true }
