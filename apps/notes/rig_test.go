package notes_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/notes"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/engine/enginetest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	filetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// step is what the model of a rig does in one step: it says something, then makes calls.
type step struct {
	Say  []string `json:"say,omitempty"`
	Call []struct {
		Tool  string         `json:"tool"`
		Input map[string]any `json:"input"`
	} `json:"call,omitempty"`
}

// follows is a model that takes the steps that the user's message lists, as JSON. Other messages
// it repeats.
func follows(ctx context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
	var steps []step
	if json.Unmarshal([]byte(enginetest.Last(r)), &steps) != nil {
		return enginetest.Echo(ctx, r, say)
	}
	n := 0
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == parley.RoleUser {
			break
		}
		if m.Role == parley.RoleAssistant {
			n++
		}
	}
	reply := seam.Reply{}
	if n >= len(steps) {
		return reply, nil
	}
	for i, text := range steps[n].Say {
		if i > 0 {
			time.Sleep(time.Second) // in a bubble: the first was read
		}
		say(text)
	}
	for _, c := range steps[n].Call {
		reply.Parts = append(reply.Parts, enginetest.Call(c.Tool, c.Input))
	}
	return reply, nil
}

// outside stands for the tools that reach others: it reads the web, and posts.
type outside struct{ posts []string }

func (*outside) Tools(context.Context) ([]parley.ToolDecl, error) {
	schema := json.RawMessage(`{"type":"object"}`)
	return []parley.ToolDecl{
		{Name: "WebFetch", Description: "Fetches.", InputSchema: schema, Effect: parley.EffectRead, Web: true, Subject: "{url}"},
		{Name: "linkedin_post", Description: "Posts.", InputSchema: schema, Effect: parley.EffectWrite, Outward: true, Subject: "{text}"},
	}, nil
}

func (o *outside) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	if r.Name == "WebFetch" {
		return parley.ToolResult{Output: "A page."}, nil
	}
	o.posts = append(o.posts, string(r.Input))
	return parley.ToolResult{Output: "Posted to LinkedIn: urn:li:share:1"}, nil
}

type userKey struct{}

// rig is the wire over an engine in memory, with a vault on disk. ana of acme, its usual user, may
// use sebastian and petra; bob may use petra.
type rig struct {
	*enginetest.Rig
	vault   string
	mux     *http.ServeMux
	outside outside
}

var bob = parley.Principal{User: "bob"}

func newRig(t *testing.T, model enginetest.Model, change ...func(*parley.App)) *rig {
	t.Helper()
	g := &rig{vault: filepath.Join(t.TempDir(), "vault"), mux: http.NewServeMux()}
	for _, name := range []string{"sebastian", "petra", "max", "claude"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(g.vault, name), 0o700), os.WriteFile(filepath.Join(g.vault, name, "notes.md"), []byte("The notes of "+name+".\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	folders, err := workspace.New(workspace.Options{Granted: workspace.Granted{
		Dir: g.vault, Except: []string{"claude"}, Placeholder: "person_root",
		To: map[string][]parley.Principal{"sebastian": {enginetest.User}, "petra": {enginetest.User, bob}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	checks := checkpoint.New(checkpoint.Options{Data: datafolder.New(t.TempDir(), nil)})
	app := enginetest.App(append([]func(*parley.App){func(a *parley.App) {
		a.Name, a.Busy, a.MaxOpenTurns, a.Resume = "notes", parley.BusyEnqueue, 3, parley.ResumeAuto
		a.Policy.OutwardAfterWeb = parley.Ask
	}}, change...)...)
	g.Rig = enginetest.New(t, model, app, func(o *engine.Options) {
		log := slog.New(slog.DiscardHandler)
		box, err := toolbox.New([]seam.Toolset{filetools.New(filetools.Options{Checkpoints: func() *checkpoint.Store { return checks }}), &g.outside}, toolbox.Options{Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		app.Tools = box.Decls()
		lead := parley.AgentDef{Name: "lead", Prompt: "Your notes: {person_root}", History: parley.HistoryAll}
		for _, d := range app.Tools {
			lead.Tools = append(lead.Tools, d.Name)
		}
		app.Agents = map[string]parley.AgentDef{"lead": lead}
		if o.Scopes, err = scope.New(scope.Options{Apps: []scope.App{{App: app, Tools: box, Folders: folders}}, Clean: o.Log.RedactFile, Logger: log}); err != nil {
			t.Fatal(err)
		}
	})
	h := notes.New(notes.Options{
		App: "notes", Engine: g.Engine, Follow: g.Reader.Follow, Fail: api.WriteError,
		Principal: func(ctx context.Context) (parley.Principal, error) {
			if p, ok := ctx.Value(userKey{}).(parley.Principal); ok {
				return p, nil
			}
			return enginetest.User, nil
		},
		Person: func(p parley.Principal, name string) (parley.Workspace, error) {
			w := parley.Workspace("shared/" + name)
			return w, folders.Check(p, w)
		},
	})
	g.mux.HandleFunc("POST "+notes.ChatPath, h.Chat)
	g.mux.HandleFunc("POST "+notes.StreamPath, h.Stream)
	g.mux.HandleFunc("POST "+notes.ClearPath, h.Clear)
	g.mux.HandleFunc("GET "+notes.HistoryPath, h.History)
	return g
}

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   string
	fields struct {
		Success  bool
		Session  string `json:"session_id"`
		Response string
		Message  string
		Detail   *string
		History  []struct{ Role, Content string }
		Error    parley.ErrorInfo
	}
}

// ask sends a request about a person's notes; "" sends no header.
func (g *rig) ask(ctx context.Context, person, method, path, kind, body string) answer {
	g.T.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if person != "" {
		r.Header.Set(notes.PersonHeader, person)
	}
	w := httptest.NewRecorder()
	g.mux.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), body: w.Body.String()}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &a.fields); err != nil {
			g.T.Fatalf("%s %s: %v in %s", method, path, err, a.body)
		}
	}
	return a
}

const isJSON = "application/json"

// of is a JSON object of these keys and texts.
func of(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	raw, _ := json.Marshal(m)
	return string(raw)
}

func (g *rig) chat(person, session, message string) answer {
	g.T.Helper()
	pairs := []string{"message", message}
	if session != "" {
		pairs = append(pairs, "session_id", session)
	}
	return g.ask(context.Background(), person, http.MethodPost, notes.ChatPath, isJSON, of(pairs...))
}

func (g *rig) stream(person, session, message string) answer {
	g.T.Helper()
	pairs := []string{"message", message}
	if session != "" {
		pairs = append(pairs, "session_id", session)
	}
	return g.ask(context.Background(), person, http.MethodPost, notes.StreamPath, isJSON, of(pairs...))
}

func (g *rig) history(person, session string) answer {
	g.T.Helper()
	return g.ask(context.Background(), person, http.MethodGet, notes.HistoryPath+"?session_id="+session, "", "")
}

func (g *rig) clear(person, session string) answer {
	g.T.Helper()
	return g.ask(context.Background(), person, http.MethodPost, notes.ClearPath, isJSON, of("session_id", session))
}

// said is a history in one line.
func (a answer) said() string {
	var out []string
	for _, m := range a.fields.History {
		out = append(out, m.Role+": "+m.Content)
	}
	return strings.Join(out, " | ")
}

// lines are the lines of a stream.
func (a answer) lines() []string {
	return strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
}
