package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

var (
	anaOfNone = parley.Principal{User: "ana"}
	bob       = parley.Principal{User: "bob", Org: "acme"}
)

// desk is what the tools of scopes act on. It outlives crashes.
type desk struct {
	t    testing.TB
	dir  string
	gate func() error // called when a write has taken effect

	sources []scope.Source // nil: source

	mu   sync.Mutex
	gone bool // the scopes have lost their own tools
	sold map[string]int
	open int // how many toolsets of scopes are open

	changes int64 // how often the tools of scopes have changed
}

func newDesk(t testing.TB) *desk {
	d := &desk{t: t, dir: t.TempDir(), sold: map[string]int{}}
	d.write("users/ana=acme/vault/whose", "ana's vault")
	d.write("users/ana=acme/other/whose", "ana's other")
	d.write("users/ana/vault/whose", "the vault of ana without acme")
	d.write("users/bob=acme/vault/whose", "bob's vault")
	d.write("handbook/whose", "the handbook")
	d.write("rules/whose", "the rules")
	return d
}

func (d *desk) write(path, text string) {
	full := filepath.Join(d.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o700), os.WriteFile(full, []byte(text), 0o600)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) read(path string) string {
	raw, err := os.ReadFile(filepath.Join(d.dir, path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.t.Error(err)
	}
	return string(raw)
}

// in gives the engine the tools of the desk: "whose", "edit" and "stamp" work in every scope, and
// each scope has a "crm" of its own.
func (d *desk) in(o *engine.Options) {
	log := slog.New(slog.DiscardHandler)
	box, err := toolbox.New([]seam.Toolset{filesOf{d}}, toolbox.Options{Logger: log})
	if err != nil {
		d.t.Fatal(err)
	}
	folders, err := workspace.New(workspace.Options{Root: filepath.Join(d.dir, "users"), Shared: map[string]workspace.Shared{
		"handbook": {Dir: filepath.Join(d.dir, "handbook")},
		"rules":    {Dir: filepath.Join(d.dir, "rules"), ReadOnly: true},
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	app := o.Apps[0]
	with := func(decls []parley.ToolDecl) (parley.App, error) {
		a := app
		lead := a.Agents["lead"]
		lead.Tools = nil
		for _, t := range decls {
			lead.Tools = append(lead.Tools, t.Name)
		}
		a.Agents, a.Tools = map[string]parley.AgentDef{"lead": lead}, decls
		return a, nil
	}
	app, _ = with(box.Decls())
	sources := d.sources
	if sources == nil {
		sources = []scope.Source{d.source}
	}
	o.Scopes, err = scope.New(scope.Options{
		Apps: []scope.App{{App: app, Tools: box, Folders: folders, Sources: sources, With: with}}, Clean: o.Log.RedactFile, Logger: log,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) source(_ context.Context, at scope.Place) ([]seam.Toolset, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return nil, errors.New("the server of the crm does not start")
	}
	d.open++
	return []seam.Toolset{&crmOf{d, at}}, nil
}

func (d *desk) price() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Sprint(d.changes)
}

func (d *desk) opened() int { d.mu.Lock(); defer d.mu.Unlock(); return d.open }

// crmOf is a service of one scope.
type crmOf struct {
	d  *desk
	at scope.Place
}

func (c *crmOf) place() string {
	return fmt.Sprintf("%s/%s/%s", c.at.Principal.User, c.at.Principal.Org, c.at.Workspace)
}

func (c *crmOf) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "crm", Description: "The CRM of " + c.place(), Cost: c.d.price(), Effect: parley.EffectWrite, InputSchema: textSchema}}, nil
}

func (c *crmOf) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	c.d.mu.Lock()
	c.d.sold[c.place()]++
	gate := c.d.gate
	c.d.mu.Unlock()
	if gate != nil {
		if err := gate(); err != nil {
			return parley.ToolResult{}, err
		}
	}
	return parley.ToolResult{Output: "sold for " + c.place()}, nil
}

func (c *crmOf) Changes() int64 {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return c.d.changes
}

func (c *crmOf) Close() error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.open--
	return nil
}

// Hooks returns a hook that has the same name in every scope. It says which scope it belongs to.
func (c *crmOf) Hooks() []hook.Hook {
	var list []hook.Hook
	for _, event := range []string{hook.PostToolUse, hook.SessionStart, hook.Stop} {
		list = append(list, hook.Hook{Entry: hook.Entry{Event: event, Name: "guard", Timeout: time.Minute}, Level: "workspace", Do: func(context.Context, []byte) (hook.Said, error) {
			return hook.Said{Out: []byte(`{"systemMessage":"the guard of ` + c.place() + `"}`)}, nil
		}})
	}
	return list
}

var textSchema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`)

// filesOf are tools of the app that work in the workspace of the session.
type filesOf struct{ d *desk }

func (f filesOf) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{
		{Name: "whose", Effect: parley.EffectRead, InputSchema: textSchema},
		{Name: "edit", Effect: parley.EffectWrite, Edits: true, InputSchema: textSchema},
		{Name: "stamp", Effect: parley.EffectWrite, InputSchema: textSchema},
	}, nil
}

func (f filesOf) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	root, err := r.Workspace()
	if err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	if again, err := r.Workspace(); err != nil || again != root {
		f.d.t.Errorf("a second time the workspace is %v, %v", again, err)
	}
	switch r.Name {
	case "edit":
		return parley.ToolResult{Output: "edited"}, root.WriteFile("edited", []byte(r.Input), 0o600)
	case "stamp":
		return parley.ToolResult{Output: fmt.Sprintf("read-only: %v", r.ReadOnly)}, nil
	}
	raw, err := root.ReadFile("whose")
	return parley.ToolResult{Output: string(raw)}, err
}

// caller is a model that calls the tools that the user names and repeats their results.
func caller(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	if got := enginetest.Results(r); len(got) > 0 {
		say(strings.Join(got, "; "))
		return seam.Reply{}, nil
	}
	var reply seam.Reply
	for _, name := range strings.Fields(enginetest.Last(r)) {
		reply.Parts = append(reply.Parts, enginetest.Call(name, map[string]string{}))
	}
	return reply, nil
}

// as returns the answer to a user's message.
func as(t *testing.T, r *enginetest.Rig, p parley.Principal, id parley.SessionID, message string) string {
	t.Helper()
	turn, err := r.Engine.Send(ctx, p, id, parley.Send{Message: message})
	if err != nil {
		t.Error(err)
		return ""
	}
	return ended(t, r, p, turn.ID)
}

func ended(t *testing.T, r *enginetest.Rig, p parley.Principal, id parley.TurnID) string {
	t.Helper()
	turn, err := r.Engine.Await(ctx, p, id, time.Minute)
	if err != nil || turn.Status != parley.StatusCompleted {
		t.Errorf("the turn is %s: %v, %v", turn.Status, turn.Error, err)
		return ""
	}
	return turn.Response.Message
}

func createIn(t *testing.T, r *enginetest.Rig, p parley.Principal, w parley.Workspace) parley.SessionInfo {
	t.Helper()
	info, _, err := r.Engine.Create(ctx, p, parley.CreateSession{App: "test", Workspace: w})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// TestScopes: users and workspaces work at once, and some have the same names and tools of the same
// names. Each gets only what is its own, also in a second turn, after a restart and in direct
// calls. None can name anything of another.
func TestScopes(t *testing.T) {
	table := []struct {
		who  parley.Principal
		in   parley.Workspace
		file string
		crm  string
	}{
		{enginetest.User, "vault", "ana's vault", "ana/acme/vault"},
		{enginetest.User, "other", "ana's other", "ana/acme/other"},
		{anaOfNone, "vault", "the vault of ana without acme", "ana//vault"},
		{bob, "vault", "bob's vault", "bob/acme/vault"},
		{enginetest.User, "shared/handbook", "the handbook", "ana/acme/shared/handbook"},
		{bob, "shared/handbook", "the handbook", "bob/acme/shared/handbook"},
		{bob, "", "", "bob/acme/"},
	}
	eachStore(t, func(t *testing.T, store seam.Store) {
		d := newDesk(t)
		sessions := make([]parley.SessionID, len(table))
		hooks := make([]int, len(table))
		digests := map[parley.Digest]string{}
		for life := range 2 {
			r := enginetest.Over(t, store, &enginetest.Service{}, caller, enginetest.App(), d.in)
			var all sync.WaitGroup
			for i, row := range table {
				if life == 0 {
					sessions[i] = createIn(t, r, row.who, row.in).ID
				}
				all.Go(func() {
					want := row.file
					if row.in == "" {
						want = "Failed: whose: this session has no workspace\na session gets its workspace when it is created"
					}
					for range 2 {
						if got := as(t, r, row.who, sessions[i], "whose crm"); got != want+"; sold for "+row.crm {
							t.Errorf("%+v in %q: got %q", row.who, row.in, got)
						}
					}
					call, err := r.Engine.CallTool(ctx, row.who, parley.CallTool{App: "test", Workspace: row.in, Name: "crm"})
					if err != nil {
						t.Error(err)
						return
					}
					if _, err := r.Engine.Await(ctx, row.who, call.ID, time.Minute); err != nil {
						t.Error(err)
					}
					if res, err := r.Engine.CallResult(ctx, row.who, call.ID); err != nil || res.Output != "sold for "+row.crm {
						t.Errorf("%+v in %q calls: %+v, %v", row.who, row.in, res, err)
					}
				})
			}
			all.Wait()
			for i, row := range table {
				info, err := r.Engine.Session(ctx, row.who, sessions[i])
				if err != nil || info.Workspace != row.in || info.ReadOnly {
					t.Errorf("%+v: the session is in %q, %v", row.who, info.Workspace, err)
				}
				for _, ev := range r.Log(sessions[i]) {
					if strings.Contains(string(ev.Data), "The CRM of") {
						t.Errorf("%s has a tool's description", ev.Type)
					}
					if ran, ok := mustPayload(ev).(parley.HookRan); ok {
						hooks[i]++
						if ran.Message != "the guard of "+row.crm {
							t.Errorf("in a session of %s ran %q", row.crm, ran.Message)
						}
					}
					if pay, _ := ev.Payload(); ev.Type == "turn.started" {
						digest := pay.(parley.TurnStarted).App
						if of, seen := digests[digest]; seen && of != row.crm {
							t.Errorf("turns of %s and %s have one digest", of, row.crm)
						}
						digests[digest] = row.crm
						body, err := r.Store.Blob(ctx, row.who, sessions[i], digest)
						if err != nil || !strings.Contains(string(body), "The CRM of "+row.crm+`"`) {
							t.Errorf("the app that a turn of %s began with: %v", row.crm, err)
						}
					}
				}
				for _, other := range table {
					if other.who != row.who {
						if _, err := r.Engine.Session(ctx, other.who, sessions[i]); parley.CodeOf(err) != parley.CodeNotFound {
							t.Errorf("%+v sees the session of %+v: %v", other.who, row.who, err)
						}
					}
				}
			}
			r.Close()
		}
		want := map[string]int{}
		for _, row := range table {
			want[row.crm] = 6 // two lives, each with two turns and a direct call
		}
		for i, row := range table {
			if hooks[i] == 0 {
				t.Errorf("no hook of %s ran", row.crm)
			}
		}
		if diff := cmp.Diff(want, d.sold); diff != "" {
			t.Errorf("sold (-want +got):\n%s", diff)
		}
	})
}

// TestWorkspaceRefused: an invalid workspace of a session or call is refused, and the error names
// the field.
func TestWorkspaceRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := enginetest.New(t, caller, enginetest.App(), d.in)
		defer r.Close()
		fine := createIn(t, r, bob, "vault")
		log := r.Log(fine.ID)
		for name, tc := range map[string]struct {
			space parley.Workspace
			code  parley.Code
		}{
			"another's": {"other", parley.CodeNotFound}, "another's by a path": {"../ana=acme/vault", parley.CodeInvalid},
			"by its user": {"ana=acme/vault", parley.CodeInvalid}, "absolute": {"/etc", parley.CodeInvalid},
			"not shared": {"shared/vault", parley.CodeNotFound}, "in another case": {"VAULT", parley.CodeNotFound},
		} {
			_, _, create := r.Engine.Create(ctx, bob, parley.CreateSession{App: "test", Workspace: tc.space})
			_, fork := r.Engine.Fork(ctx, bob, fine.ID, parley.ForkSession{Workspace: tc.space})
			_, call := r.Engine.CallTool(ctx, bob, parley.CallTool{App: "test", Workspace: tc.space, Name: "crm"})
			_, imported := r.Engine.Import(ctx, bob, engine.Imported{Events: log, Workspace: tc.space})
			for what, err := range map[string]error{"create": create, "fork": fork, "call": call, "import": imported} {
				if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != tc.code || e.Field != "workspace" || e.Hint == "" {
					t.Errorf("%s, %s: %#v", name, what, err)
				}
			}
		}
		_, err := r.Engine.CallTool(ctx, bob, parley.CallTool{Session: fine.ID, Workspace: "vault", Name: "crm"})
		if e, ok := errors.AsType[*parley.Error](err); !ok || e.Field != "workspace" {
			t.Errorf("a call in a session and a workspace: %v", err)
		}
		list, err := r.Engine.Sessions(ctx, bob, seam.SessionQuery{})
		if err != nil || len(list) != 1 {
			t.Errorf("%d sessions were made, %v", len(list), err)
		}
	})
	t.Run("of an app without any", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := enginetest.New(t, caller, enginetest.App())
			defer r.Close()
			_, _, err := r.Engine.Create(ctx, bob, parley.CreateSession{App: "test", Workspace: "vault"})
			if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != parley.CodeInvalid || e.Field != "workspace" {
				t.Errorf("got %v", err)
			}
		})
	})
}

// TestWorkspaceOfACopy: a fork has the workspace read-only unless it names one. An import keeps the
// workspace of the log if that is the importer's. Files in a read-only workspace are not changed,
// and tools are told that it is read-only.
func TestWorkspaceOfACopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := enginetest.New(t, caller, enginetest.App(), d.in)
		defer r.Close()
		first := createIn(t, r, enginetest.User, "vault")
		if got := as(t, r, enginetest.User, first.ID, "whose edit stamp"); got != "ana's vault; edited; read-only: false" {
			t.Errorf("the first session: %q", got)
		}
		fork := func(of parley.SessionID, w parley.Workspace) parley.SessionInfo {
			info, err := r.Engine.Fork(ctx, enginetest.User, of, parley.ForkSession{Workspace: w})
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		take := func(p parley.Principal, in engine.Imported) parley.SessionInfo {
			info, err := r.Engine.Import(ctx, p, in)
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		plain := fork(first.ID, "")
		own := fork(plain.ID, "vault")
		elsewhere := fork(first.ID, "other")
		const denied = "Denied: This call is not allowed: the session's workspace is read-only"
		const forked = denied + " because it is a fork; the session that it was forked from can change files"
		for name, tc := range map[string]struct {
			who      parley.Principal
			info     parley.SessionInfo
			in       parley.Workspace
			readOnly bool
			says     string
		}{
			"fork":                     {enginetest.User, plain, "vault", true, "ana's vault; " + forked + "; read-only: true"},
			"fork of a fork":           {enginetest.User, fork(plain.ID, ""), "vault", true, "ana's vault; " + forked + "; read-only: true"},
			"fork that names it":       {enginetest.User, own, "vault", false, "ana's vault; edited; read-only: false"},
			"fork elsewhere":           {enginetest.User, elsewhere, "other", false, "ana's other; edited; read-only: false"},
			"shared, read-only":        {bob, createIn(t, r, bob, "shared/rules"), "shared/rules", true, "the rules; " + denied + "; read-only: true"},
			"shared":                   {bob, createIn(t, r, bob, "shared/handbook"), "shared/handbook", false, "the handbook; edited; read-only: false"},
			"import of one's own":      {enginetest.User, take(enginetest.User, engine.Imported{Events: r.Log(first.ID)}), "vault", false, "ana's vault; edited; read-only: false"},
			"import of a fork":         {enginetest.User, take(enginetest.User, engine.Imported{Events: r.Log(plain.ID)}), "vault", true, "ana's vault; " + forked + "; read-only: true"},
			"import of one elsewhere":  {enginetest.User, take(enginetest.User, engine.Imported{Events: r.Log(elsewhere.ID)}), "other", false, "ana's other; edited; read-only: false"},
			"import elsewhere":         {enginetest.User, take(enginetest.User, engine.Imported{Events: r.Log(plain.ID), Workspace: "other"}), "other", false, "ana's other; edited; read-only: false"},
			"import by somebody else":  {bob, take(bob, engine.Imported{Events: r.Log(first.ID)}), "", false, ""},
			"import of another's fork": {bob, take(bob, engine.Imported{Events: r.Log(elsewhere.ID)}), "", false, ""},
			"import by that user":      {anaOfNone, take(anaOfNone, engine.Imported{Events: r.Log(first.ID), Workspace: "vault"}), "vault", false, "the vault of ana without acme; edited; read-only: false"},
		} {
			info, err := r.Engine.Session(ctx, tc.who, tc.info.ID)
			if err != nil || info.Workspace != tc.in || info.ReadOnly != tc.readOnly {
				t.Errorf("%s: in %q, read-only %v, %v", name, info.Workspace, info.ReadOnly, err)
			}
			if got := as(t, r, tc.who, tc.info.ID, "whose edit stamp"); tc.says != "" && got != tc.says {
				t.Errorf("%s: got %q", name, got)
			}
			if err := enginetest.CheckLog(r.Log(tc.info.ID)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if d.read("rules/edited") != "" || d.read("handbook/edited") == "" {
			t.Error("what may be edited is not what was")
		}
		if err := os.RemoveAll(filepath.Join(d.dir, "users", "ana=acme", "vault")); err != nil {
			t.Fatal(err)
		}
		if gone := take(enginetest.User, engine.Imported{Events: r.Log(first.ID)}); gone.Workspace != "" || gone.ReadOnly {
			t.Errorf("an import whose workspace is not here: in %q", gone.Workspace)
		}
		if got := as(t, r, enginetest.User, first.ID, "whose"); !strings.Contains(got, `there is no workspace "vault"`) {
			t.Errorf("when it was removed: %q", got)
		}
		d.write("users/ana=acme/vault/whose", "made again")
		if got := as(t, r, enginetest.User, first.ID, "whose"); got != "made again" {
			t.Errorf("when it was made again: %q", got)
		}
	})
}

// TestWorkspaceStays: retries of turns and calls use the workspace of the first attempt. Deleting a
// session deletes no file.
func TestWorkspaceStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := enginetest.New(t, caller, enginetest.App(), d.in)
		defer r.Close()
		s := createIn(t, r, enginetest.User, "vault")
		turn := r.Await(r.Send(s.ID, "whose").ID)
		again, err := r.Engine.Retry(ctx, enginetest.User, turn.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := ended(t, r, enginetest.User, again.ID); got != "ana's vault" {
			t.Errorf("a retried turn: %q", got)
		}
		call := parley.CallTool{App: "test", Workspace: "other", Name: "whose", Key: "k"}
		one, err := r.Engine.CallTool(ctx, enginetest.User, call)
		if err != nil {
			t.Fatal(err)
		}
		r.Await(one.ID)
		if same, err := r.Engine.CallTool(ctx, enginetest.User, call); err != nil || same.ID != one.ID {
			t.Errorf("with its key: %s, %v", same.ID, err)
		}
		call.Workspace = "vault"
		if _, err := r.Engine.CallTool(ctx, enginetest.User, call); parley.CodeOf(err) != parley.CodeKeyReused {
			t.Errorf("with its key elsewhere: %v", err)
		}
		retried, err := r.Engine.Retry(ctx, enginetest.User, one.ID, "", "")
		if err != nil {
			t.Fatal(err)
		}
		r.Await(retried.ID)
		if res, err := r.Engine.CallResult(ctx, enginetest.User, retried.ID); err != nil || res.Output != "ana's other" {
			t.Errorf("a retried call: %+v, %v", res, err)
		}
		if err := r.Engine.Delete(ctx, enginetest.User, s.ID); err != nil {
			t.Fatal(err)
		}
		if d.read("users/ana=acme/vault/whose") == "" {
			t.Error("a file went with a session")
		}
	})
}

// TestIdleScopes: a scope's tools are closed while its turn waits for a human, even if a caller
// awaits the turn. They are opened again for the answer.
func TestIdleScopes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := enginetest.New(t, caller, enginetest.App(asking), d.in)
		s := createIn(t, r, enginetest.User, "vault")
		turn := r.Send(s.ID, "crm")
		waiting := r.Await(turn.ID)
		if waiting.Status != parley.StatusWaiting || d.opened() != 1 {
			t.Fatalf("the turn is %s, %d toolsets are open", waiting.Status, d.opened())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if d.opened() != 0 {
			t.Errorf("%d toolsets are open while nobody needs them", d.opened())
		}
		if _, err := r.Engine.Answer(ctx, enginetest.User, waiting.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
			t.Fatal(err)
		}
		if got := ended(t, r, enginetest.User, turn.ID); got != "sold for ana/acme/vault" {
			t.Errorf("got %q", got)
		}
		if d.opened() != 1 {
			t.Errorf("%d toolsets are open", d.opened())
		}
		r.Close()
	})
}

// TestScopeGone resumes turns whose scope has lost its tools. The result of a call of such a tool
// gives the reason, also if the call was started before.
func TestScopeGone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		started, back bool
		want, says    string
	}{
		"asked, gone":   {false, false, "crm error", `The tool "crm" is not there any more`},
		"asked, back":   {false, true, "crm ok", "sold for ana/acme/vault"},
		"started, gone": {true, false, "crm unknown", `The tool "crm" is not there any more`},
		"started, back": {true, true, "crm unknown", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				app := enginetest.App(asking)
				if tc.started {
					app = enginetest.App(func(a *parley.App) { a.Policy.Unattended = true })
				}
				hang := make(chan struct{})
				d.gate = func() error { <-hang; return nil }
				first := enginetest.New(t, caller, app, d.in)
				s := createIn(t, first, enginetest.User, "vault")
				turn := first.Send(s.ID, "crm")
				time.Sleep(time.Second)
				synctest.Wait()
				disk := first.Dies(hang)

				d.mu.Lock()
				d.gate, d.gone = nil, !tc.back
				d.mu.Unlock()
				r := enginetest.Over(t, disk, &enginetest.Service{}, caller, app, d.in)
				defer r.Close()
				if _, err := r.Engine.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				switch got := r.Await(turn.ID); got.Status {
				case parley.StatusWaiting:
					if _, err := r.Engine.Answer(ctx, enginetest.User, got.Interactions[0], parley.AnswerInteraction{Answer: parley.Answer{Choice: parley.ChoiceAllow}}); err != nil {
						t.Fatal(err)
					}
				case parley.StatusInterrupted:
					if _, err := r.Engine.Resume(ctx, enginetest.User, turn.ID); err != nil {
						t.Fatal(err)
					}
				}
				got, err := r.Engine.Await(ctx, enginetest.User, turn.ID, 2*time.Minute)
				if err != nil || got.Status != parley.StatusCompleted || !strings.Contains(got.Response.Message, tc.says) {
					t.Errorf("the turn is %s and says %+v: %v", got.Status, got.Response, got.Error)
				}
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); !slices.Contains(got, tc.want) {
					t.Errorf("got %v", got)
				}
				if want := map[string]int{"ana/acme/vault": 1}; (tc.started || tc.back) && !cmp.Equal(want, d.sold) {
					t.Errorf("sold %v", d.sold)
				}
			})
		})
	}
}

// TestQueueOfAScope: the tools of a scope change while a turn is queued. The turn begins with the
// new tools.
func TestQueueOfAScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		r := enginetest.New(t, caller, enginetest.App(func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 3 }), d.in)
		defer r.Close()
		s := createIn(t, r, enginetest.User, "vault")
		hang := make(chan struct{})
		d.gate = func() error { <-hang; return nil }
		one := r.Send(s.ID, "crm")
		two := r.Send(s.ID, "whose crm")
		synctest.Wait()
		d.mu.Lock()
		d.changes++
		d.mu.Unlock()
		close(hang)
		if got := ended(t, r, enginetest.User, one.ID); got != "sold for ana/acme/vault" {
			t.Errorf("the first: %q", got)
		}
		if got := ended(t, r, enginetest.User, two.ID); got != "ana's vault; sold for ana/acme/vault" {
			t.Errorf("the second: %q", got)
		}
		digests := map[parley.Digest]bool{}
		for _, ev := range r.Log(s.ID) {
			if pay, _ := ev.Payload(); ev.Type == "turn.started" {
				digests[pay.(parley.TurnStarted).App] = true
			}
		}
		if len(digests) != 2 || d.opened() != 1 {
			t.Errorf("the turns began with %d apps, and %d toolsets are open", len(digests), d.opened())
		}
	})
}

// Live implements enginetest.World.
func (d *desk) Live(o *engine.Options, gate func() error) (end func()) {
	d.gate = gate
	d.in(o)
	scopes := o.Scopes
	return func() { _ = scopes.Close(ctx) }
}

// Effects implements enginetest.World.
func (d *desk) Effects() map[string]int { return d.sold }

// Close implements enginetest.World.
func (d *desk) Close() {
	if d.open != 0 {
		d.t.Errorf("%d toolsets are left open", d.open)
	}
}

// TestScopesCrashAtEveryPoint: wherever the process dies, no tool of a scope is called twice.
func TestScopesCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	enginetest.CrashEverywhere(t, enginetest.Scenario{
		App:      enginetest.App(asking, func(a *parley.App) { a.Resume = parley.ResumeAuto }),
		Model:    func() enginetest.Model { return caller },
		Messages: []string{"crm", "crm"},
		World:    func() enginetest.World { return newDesk(t) },
		Sparse:   9,
	})
}

// asked is a source of a tool whose service always says that a lost call took effect.
func (d *desk) asked(_ context.Context, at scope.Place) ([]seam.Toolset, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	return []seam.Toolset{crmAsked{&crmOf{d, at}}}, nil
}

type crmAsked struct{ *crmOf }

func (crmAsked) Reconcile(context.Context, seam.Run) (parley.ToolResult, bool, error) {
	return parley.ToolResult{Outcome: parley.OutcomeOK, Output: "sold"}, true, nil
}

// TestScopeAskedAfterACrash: the server dies while a tool of a scope writes, and the turn is
// stopped before or after that. The scope's service is asked, although the scope is not open when
// the session is loaded.
func TestScopeAskedAfterACrash(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"stopped before the crash": true, "stopped after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t)
				d.sources = []scope.Source{d.asked}
				hang := make(chan struct{})
				d.gate = func() error { <-hang; return nil }
				app := enginetest.App()
				first := enginetest.New(t, caller, app, d.in)
				s := createIn(t, first, enginetest.User, "vault")
				turn := first.Send(s.ID, "crm")
				synctest.Wait()
				stop := func(r *enginetest.Rig) {
					if _, err := r.Engine.Cancel(ctx, enginetest.User, turn.ID, "enough"); err != nil {
						t.Error(err)
					}
				}
				if before {
					stop(first)
				}
				disk := first.Dies(hang)

				r := enginetest.Over(t, disk, &enginetest.Service{}, caller, app, d.in)
				defer r.Close()
				recovered(t, r)
				synctest.Wait()
				if !before {
					stop(r)
				}
				time.Sleep(time.Minute)
				log := r.Log(s.ID)
				if err := enginetest.CheckLog(log); err != nil {
					t.Error(err)
				}
				if got := enginetest.Outcomes(log); len(got) == 0 || got[0] != "crm ok" {
					t.Errorf("got %v\n%s", got, enginetest.Types(log))
				}
				if got := ofTurn(r, turn.ID); got != parley.StatusCancelled {
					t.Errorf("the turn is %s", got)
				}
			})
		})
	}
}

// TestSlowScopesHoldUpNobody: after a crash, turns of a scope that opens slowly do not delay the
// turns of other scopes.
func TestSlowScopesHoldUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		hang := make(chan struct{})
		model := func(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
			select {
			case <-hang:
			case <-ctx.Done():
				return seam.Reply{}, ctx.Err()
			}
			return caller(ctx, r, say)
		}
		app := enginetest.App(func(a *parley.App) { a.Resume = parley.ResumeAuto })
		first := enginetest.New(t, model, app, d.in)
		var slow, fast []parley.TurnID
		for range 8 { // the newest turns are recovered first, so these come last
			fast = append(fast, first.Send(createIn(t, first, enginetest.User, "other").ID, "whose").ID)
		}
		for range 24 {
			slow = append(slow, first.Send(createIn(t, first, enginetest.User, "vault").ID, "whose").ID)
		}
		synctest.Wait()
		disk := first.Mem.Clone()
		first.Kill()
		close(hang)

		opens := make(chan struct{})
		d.sources = []scope.Source{func(ctx context.Context, at scope.Place) ([]seam.Toolset, error) {
			if at.Workspace == "vault" {
				<-opens
			}
			return d.source(ctx, at)
		}}
		r := enginetest.Over(t, disk, &enginetest.Service{}, model, app, d.in)
		defer r.Close()
		recovered(t, r)
		time.Sleep(time.Minute)
		statuses := func(ids []parley.TurnID) map[parley.TurnStatus]int {
			n := map[parley.TurnStatus]int{}
			for _, id := range ids {
				turn, err := r.Store.Turn(ctx, parley.System(), id)
				if err != nil {
					t.Fatal(err)
				}
				n[turn.Status]++
			}
			return n
		}
		if got := statuses(fast); got[parley.StatusCompleted] != len(fast) {
			t.Errorf("while a scope opens, the turns of another are %v", got)
		}
		if got := statuses(slow); got[parley.StatusInterrupted] != len(slow) {
			t.Errorf("before their scope is open, turns are %v", got)
		}
		close(opens)
		time.Sleep(time.Minute)
		if got := statuses(slow); got[parley.StatusCompleted] != len(slow) {
			t.Errorf("after it, they are %v", got)
		}
	})
}

func ofTurn(r *enginetest.Rig, id parley.TurnID) parley.TurnStatus { return r.Await(id).Status }

// restless changes its tools each time they are listed.
type restless struct{ *crmOf }

func (l restless) Tools(c context.Context) ([]parley.ToolDecl, error) {
	l.d.mu.Lock()
	l.d.changes++
	l.d.mu.Unlock()
	return l.crmOf.Tools(c)
}

// TestRestlessScope: a command does not wait until a scope's tools have stopped changing.
func TestRestlessScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.sources = []scope.Source{func(_ context.Context, at scope.Place) ([]seam.Toolset, error) {
			return []seam.Toolset{restless{&crmOf{d, at}}}, nil
		}}
		r := enginetest.New(t, caller, enginetest.App(func(a *parley.App) { a.Busy, a.MaxOpenTurns = parley.BusyEnqueue, 3 }), d.in)
		defer r.Close()
		s := createIn(t, r, enginetest.User, "vault")
		one := r.Send(s.ID, "crm")
		two := r.Send(s.ID, "crm")
		for _, turn := range []parley.TurnInfo{one, two} {
			if got := ended(t, r, enginetest.User, turn.ID); got != "sold for ana/acme/vault" {
				t.Errorf("got %q", got)
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.changes > 10 {
			t.Errorf("its tools were listed %d times", d.changes)
		}
	})
}
