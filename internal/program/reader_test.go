package program

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/client"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/seam"
)

// growing is a server over a folder of apps that the test changes.
type growing struct {
	*client.Client
	t    *testing.T
	dir  string
	url  string
	log  *lockedBuffer
	read *reader

	opened, closed atomic.Int32
	called         chan string   // by the tool wait, with the url of its toolset
	goOn           chan struct{} // lets the calls of wait end
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// waiting is a toolset with one tool, which waits. Its result contains the option url of the
// toolset.
type waiting struct {
	g   *growing
	url string
}

func (w waiting) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "wait", Description: "Waits.", Effect: parley.EffectRead, InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (w waiting) Run(ctx context.Context, _ seam.Run) (parley.ToolResult, error) {
	w.g.called <- w.url
	select {
	case <-w.g.goOn:
		return parley.ToolResult{Output: "waited at " + w.url}, nil
	case <-ctx.Done():
		return parley.ToolResult{}, context.Cause(ctx)
	}
}

func newGrowing(t *testing.T) *growing {
	t.Helper()
	g := &growing{t: t, dir: t.TempDir(), log: &lockedBuffer{}, called: make(chan string, 10), goOn: make(chan struct{})}
	g.write("mine", "tools: [wait]", "first", "one")
	t.Cleanup(g.serve(t.TempDir(), "mem"))
	return g
}

// serve serves the apps from a data folder until end is called, which leaves turns as they are.
func (g *growing) serve(data, store string) (end func()) {
	t := g.t
	t.Helper()
	s, err := config.Load(config.From{
		File: os.DevNull, Flags: map[string]string{"data": data, "store": store, "scripted.pace": "0s", "apps": g.dir},
		Env: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := Open(t.Context(), s, slog.New(slog.NewTextHandler(g.log, nil)), app.App{Tools: map[string]app.Open{"waiting": func(d app.ToolDeps) (app.Service, error) {
		if !d.Check {
			g.opened.Add(1)
		}
		return app.Service{Toolset: waiting{g, d.Toolset.URL}, Close: func() {
			if !d.Check {
				g.closed.Add(1)
			}
		}}, nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	in.grace = 0
	web := httptest.NewServer(in.Handler)
	g.url, g.read, g.Client = web.URL, in.house.anew, client.New(client.Options{BaseURL: web.URL})
	return func() {
		if err := in.Close(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		if g.opened.Load() != g.closed.Load() {
			t.Errorf("%d toolsets were opened, and %d closed", g.opened.Load(), g.closed.Load())
		}
	}
}

// write writes an app. Its model answers greeting to everything but "wait", and its toolset has the
// option url.
func (g *growing) write(name, agent, greeting, url string) {
	g.t.Helper()
	g.file(name, "app.yaml", fmt.Sprintf("title: Mine\nagents:\n  lead: {prompt: prompt.md, %s}\ntools: {waiting: {url: %s}}\nscript: script.yaml\n", agent, url))
	g.file(name, "prompt.md", "Be good.")
	g.file(name, "script.yaml", `agents:
  lead:
    - {when: .Results, say: "{{ range .Results }}{{ .Output }}{{ end }}"}
    - {when: 'eq .Question "wait"', call: [{tool: wait}]}
    - {say: "`+greeting+`"}
`)
}

func (g *growing) file(app, name, text string) {
	g.t.Helper()
	file := filepath.Join(g.dir, app, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// looks looks twice, because a file that has just changed may still be changing.
func (g *growing) looks() { g.read.look(); g.read.look() }

func (g *growing) ask(app, question string) string {
	g.t.Helper()
	s, _, err := g.CreateSession(g.t.Context(), parley.CreateSession{App: app})
	if err != nil {
		g.t.Fatal(err)
	}
	turn, err := g.SendAndWait(g.t.Context(), s.ID, parley.Send{Message: question})
	if err != nil || turn.Response == nil {
		g.t.Fatalf("%+v, %v", turn, err)
	}
	return turn.Response.Message
}

func (g *growing) notices(app string) string {
	g.t.Helper()
	a, err := g.App(g.t.Context(), app)
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.Join(a.Notices, "\n")
}

// TestReader: an app is served as its files say. While they have mistakes, it is served as before,
// and the page and the log say where the mistakes are.
func TestReader(t *testing.T) {
	t.Parallel()
	g := newGrowing(t)
	if got := g.ask("mine", "hello"); got != "first" {
		t.Fatal(got)
	}
	g.write("mine", "tools: [wait]", "the second", "one")
	g.read.look()
	if got := g.ask("mine", "hello"); got != "first" {
		t.Errorf("it was read while it was being written: %s", got)
	}
	g.read.look()
	if got := g.ask("mine", "hello"); got != "the second" {
		t.Errorf("after a change of the script: %s", got)
	}
	if n := g.opened.Load(); n != 1 {
		t.Errorf("an unchanged toolset was opened %d times", n)
	}

	g.file("mine", "app.yaml", "title: Mine\nagents:\n  lead: {prompt: prompt.md, tools: [wiat]}\ntools: {waiting: {url: one}}\nscript: script.yaml\n")
	g.looks()
	where := filepath.ToSlash(filepath.Join(g.dir, "mine", "app.yaml")) + ":3: "
	if got := g.notices("mine"); !strings.Contains(got, ": mine/app.yaml:3: ") || !strings.Contains(got, "wiat") {
		t.Errorf("the page shows %q", got)
	}
	if got := g.log.String(); !strings.Contains(got, where) {
		t.Errorf("the log says %s", got)
	}
	if got := g.ask("mine", "hello"); got != "the second" {
		t.Errorf("with mistakes: %s", got)
	}
	before := g.log.String()
	if g.looks(); g.log.String() != before {
		t.Error("the log says it again")
	}
	if err := os.Remove(filepath.Join(g.dir, "mine", "prompt.md")); err != nil {
		t.Fatal(err)
	}
	if g.looks(); !strings.Contains(g.notices("mine"), "prompt.md is missing") {
		t.Errorf("without the prompt: %q", g.notices("mine"))
	}
	g.write("mine", "tools: [wait]", "third", "one")
	if g.looks(); strings.Contains(g.notices("mine"), "mistakes") {
		t.Errorf("mended: %q", g.notices("mine"))
	}
	if got := g.ask("mine", "hello"); got != "third" {
		t.Errorf("mended: %s", got)
	}

	g.file("mine", "app.yaml", "title: Mine\nagents:\n  lead: {prompt: prompt.md}\nlive_files: true\nscript: script.yaml\n")
	if g.looks(); !strings.Contains(g.notices("mine"), "live_files is read only when the server starts") {
		t.Errorf("what cannot change: %q", g.notices("mine"))
	}
}

// TestReader_turns: a running turn keeps the app and the tools that it began with. They are closed
// after the turn.
func TestReader_turns(t *testing.T) {
	t.Parallel()
	g := newGrowing(t)
	old := make(chan string)
	go func() { old <- g.ask("mine", "wait") }()
	if at := <-g.called; at != "one" {
		t.Fatal(at)
	}
	g.write("mine", "tools: [wait]", "second", "two")
	g.looks()
	if opened, closed := g.opened.Load(), g.closed.Load(); opened != 2 || closed != 0 {
		t.Errorf("%d are open, and %d closed, while a turn runs", opened, closed)
	}
	now := make(chan string)
	go func() { now <- g.ask("mine", "wait") }()
	if at := <-g.called; at != "two" {
		t.Errorf("a turn that began later is at %s", at)
	}
	close(g.goOn)
	if a, b := <-old, <-now; a != "waited at one" || b != "waited at two" {
		t.Errorf("the turns returned %q and %q", a, b)
	}
}

// TestReader_new: an app that appears is served, also at its doors. An app with mistakes is off,
// and the server says why.
func TestReader_new(t *testing.T) {
	t.Parallel()
	g := newGrowing(t)
	g.write("later", "tools: [wait]", "later", "one")
	g.file("wrong", "app.yaml", "titel: Wrong\n")
	g.looks()
	if got := g.ask("later", "hello"); got != "later" {
		t.Errorf("a new app: %s", got)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: g.url + "/apps/later/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tools, err := c.ListTools(t.Context(), nil)
	if err != nil || !slices.ContainsFunc(tools.Tools, func(t *mcp.Tool) bool { return t.Name == "wait" }) {
		t.Errorf("over MCP: %+v, %v", tools, err)
	}
	close(g.goOn)
	if res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"}); err != nil || res.IsError {
		t.Errorf("over MCP: %+v, %v", res, err)
	}
	is, err := g.Server(t.Context())
	if err != nil || len(is.Off) != 1 || is.Off[0].App != "wrong" || !strings.Contains(is.Off[0].Why, "titel") {
		t.Errorf("the server says %+v, %v", is.Off, err)
	}
	if err := os.RemoveAll(filepath.Join(g.dir, "wrong")); err != nil {
		t.Fatal(err)
	}
	g.looks()
	if is, err := g.Server(t.Context()); err != nil || len(is.Off) > 0 {
		t.Errorf("the server says %+v, %v", is.Off, err)
	}
}

// TestReader_broken_at_the_start: a server was ended in the middle of a turn, and the turn's app
// has mistakes at the next start. The server starts and serves the other apps. The turn stays as it
// is, and goes on once the mistakes are mended.
func TestReader_broken_at_the_start(t *testing.T) {
	t.Parallel()
	for name, mistake := range map[string]func(g *growing){
		"a word that nobody knows": func(g *growing) { g.file("mine", "app.yaml", "titel: Mine\n") },
		"a script that is none":    func(g *growing) { g.file("mine", "script.yaml", "agents: [lead]\n") },
		"a tool that is not there": func(g *growing) { g.write("mine", "tools: [weight]", "first", "one") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &growing{t: t, dir: t.TempDir(), log: &lockedBuffer{}, called: make(chan string, 10), goOn: make(chan struct{})}
			mine := func(greeting string) {
				g.write("mine", "tools: [wait]}\nresume: auto\nmemory: {last_k: 6", greeting, "one")
			}
			mine("first")
			data := t.TempDir()
			end := g.serve(data, "sqlite")
			s, _, err := g.CreateSession(t.Context(), parley.CreateSession{App: "mine"})
			if err != nil {
				t.Fatal(err)
			}
			turn, err := g.Send(t.Context(), s.ID, parley.Send{Message: "wait"})
			if err != nil {
				t.Fatal(err)
			}
			<-g.called
			end()
			g.write("other", "tools: [wait]", "other", "one")
			mistake(g)
			end = g.serve(data, "sqlite")
			defer func() { end() }()
			if got := g.ask("other", "hello"); got != "other" {
				t.Errorf("the other app: %s", got)
			}
			is, err := g.Server(t.Context())
			if err != nil || len(is.Off) != 1 || is.Off[0].App != "mine" || is.Off[0].Why == "" || strings.Contains(is.Off[0].Why, g.dir) {
				t.Fatalf("the server says %+v, %v", is.Off, err)
			}
			_, err = g.Send(t.Context(), s.ID, parley.Send{Message: "hello"})
			if parley.CodeOf(err) != parley.CodeConflict || !strings.Contains(err.Error(), is.Off[0].Why) {
				t.Errorf("a message to its session: %v", err)
			}
			if now, err := g.Turn(t.Context(), turn.ID); err != nil || now.Status != parley.StatusInterrupted {
				t.Errorf("its turn is %s, %v", now.Status, err)
			}
			mine("second")
			g.looks()
			<-g.called
			close(g.goOn)
			if now, err := g.Await(t.Context(), turn.ID, time.Minute); err != nil || now.Response == nil || now.Response.Message != "waited at one" {
				t.Errorf("its turn ends as %+v, %v", now, err)
			}
			if got := g.ask("mine", "hello"); got != "second" {
				t.Errorf("the app says %s", got)
			}
		})
	}
}

// TestReader_all_broken: if every app has mistakes, the server does not start, and lists the
// mistakes.
func TestReader_all_broken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "app.yaml"), []byte("titel: Wrong\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := config.Load(config.From{
		File: os.DevNull, Flags: map[string]string{"data": t.TempDir(), "store": "mem", "apps": dir}, Env: func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), s, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "one/app.yaml") || !strings.Contains(err.Error(), "two/app.yaml") {
		t.Errorf("got %v", err)
	}
}
