//go:build unix

package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// mcpShelf makes this test binary an MCP server with resources, as [place.withShelf] sets it up.
// Each read adds a line to the file READS. While the file HANG exists, the resource slow and the
// tool wait open the file HELD and wait until they are cancelled.
const mcpShelf = "PARLEY_TEST_AS_SHELF"

func init() {
	if os.Getenv(mcpShelf) == "" {
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "shelf", Version: "1"}, nil)
	hang := func(ctx context.Context) error {
		if _, err := os.Stat(os.Getenv("HANG")); err != nil {
			return nil //nolint:nilerr // without the file it does not wait
		}
		held, err := os.OpenFile(os.Getenv("HELD"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer held.Close()
		fmt.Fprintln(held, "held")
		<-ctx.Done()
		return ctx.Err()
	}
	s.AddTool(&mcp.Tool{
		Name: "wait", Description: "Waits.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "waited"}}}, hang(ctx)
	})
	add := func(uri string, read func(ctx context.Context, n int) (string, error)) {
		s.AddResource(&mcp.Resource{URI: uri, Name: uri}, func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			f, err := os.OpenFile(os.Getenv("READS"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			fmt.Fprintln(f, uri)
			raw, err := os.ReadFile(os.Getenv("READS"))
			if err != nil {
				return nil, err
			}
			text, err := read(ctx, strings.Count(string(raw), uri))
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: text}}}, err
		})
	}
	add("shelf://count", func(_ context.Context, n int) (string, error) { return fmt.Sprintf("reading %d", n), nil })
	add("shelf://slow", func(ctx context.Context, n int) (string, error) { return fmt.Sprintf("slow reading %d", n), hang(ctx) })
	add("shelf://vast", func(context.Context, int) (string, error) { return strings.Repeat("x", 100<<20), nil })
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// shelf is a program with that server.
type shelf struct {
	*place
	hang, held, reads string
}

func (p *place) withShelf() shelf {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "shelf")
	at := func(name string) string { return filepath.Join(p.dir, name) }
	f := shelf{p, at("hang"), at("held"), at("reads")}
	p.write(f.hang, "")
	p.write(f.reads, "")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, "app.yaml"), `model: scripted/shelf
agents:
  clerk: {prompt: clerk.md, tools: ["mcp__shelf__*"]}
script: script.yaml
tools:
  mcp:
    name: shelf
    run: ["`+os.Args[0]+`"]
    env: {`+mcpShelf+`: "1", HANG: "`+f.hang+`", HELD: "`+f.held+`", READS: "`+f.reads+`"}
policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - when: eq .Question "wait"
      call: [{tool: mcp__shelf__wait}]
    - say: "told: {{ range .Attached }}{{ . }}{{ end }}"
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=shelf")
	return f
}

// goOn removes the file HANG, so that nothing waits from then on.
func (f shelf) goOn() {
	f.t.Helper()
	if err := os.Remove(f.hang); err != nil {
		f.t.Fatal(err)
	}
}

func (f shelf) times(uri string) int {
	f.t.Helper()
	raw, err := os.ReadFile(f.reads)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.Count(string(raw), uri)
}

func (s *process) attach(ctx context.Context, id parley.SessionID, key, resource string, more ...string) (answer, error) {
	body := `{"message": "see", "resources": [{"server": "shelf", "uri": "` + resource + `"}]` + strings.Join(more, "") + `}`
	return s.try(ctx, "POST", "/v1/sessions/"+string(id)+"/turns", body, "Idempotency-Key", key)
}

// attached sends a message that must be accepted.
func (s *process) attached(id parley.SessionID, key, resource string, more ...string) parley.TurnInfo {
	s.t.Helper()
	a, err := s.attach(s.t.Context(), id, key, resource, more...)
	var turn parley.TurnInfo
	if err != nil || a.status != 202 || json.Unmarshal(a.body, &turn) != nil {
		s.t.Fatalf("got %s, %v", a, err)
	}
	return turn
}

func (s *process) told(turn parley.TurnID, want string) {
	s.t.Helper()
	if end := s.settle(turn); end.Status != parley.StatusCompleted || end.Response == nil || !strings.Contains(end.Response.Message, want) {
		s.t.Errorf("%+v with %+v, want %q", end, end.Response, want)
	}
}

// TestResources_of_a_killed_server: the resources of an accepted message are there after a kill and
// are not read again, whether its turn had begun or was queued.
func TestResources_of_a_killed_server(t *testing.T) {
	t.Parallel()
	f := newPlace(t).withShelf()
	begun, gone := pipeOf(t, f.held)
	s := f.serve()
	id := s.session("shelf")
	first := s.attached(id, "k1", "shelf://count")
	s.kill()
	s = f.serve()
	s.told(first.ID, "| reading 1")

	id = must[parley.SessionInfo](s, "POST", "/v1/sessions", `{"app": "shelf", "max_open_turns": 3}`).ID
	running := s.send(id, "wait").ID
	waitFor(t, begun, "the call")
	queued := s.attached(id, "k2", "shelf://count", `, "busy": "enqueue"`)
	if queued.Status != parley.StatusPending {
		t.Errorf("it is %s", queued.Status)
	}
	s.kill()
	waitFor(t, gone, "the end of the MCP server")
	f.goOn()
	s = f.serve()
	s.told(running, "waited")
	s.told(queued.ID, "| reading 2")
	if again := s.attached(id, "k2", "shelf://count", `, "busy": "enqueue"`); again.ID != queued.ID {
		t.Errorf("sent again it is %s, not %s", again.ID, queued.ID)
	}
	if n := f.times("shelf://count"); n != 2 {
		t.Errorf("it was read %d times", n)
	}
}

// TestResources_killed_while_they_are_read: a message that was not accepted before the kill is not
// there. When it is sent again with its key, it becomes one turn.
func TestResources_killed_while_they_are_read(t *testing.T) {
	t.Parallel()
	f := newPlace(t).withShelf()
	begun, gone := pipeOf(t, f.held)
	s := f.serve()
	id := s.session("shelf")
	lost := make(chan error, 1)
	go func() {
		a, err := s.attach(context.Background(), id, "k", "shelf://slow")
		if err == nil {
			err = fmt.Errorf("it was answered: %s", a)
		} else {
			err = nil
		}
		lost <- err
	}()
	waitFor(t, begun, "the reading")
	s.kill()
	if err := <-lost; err != nil {
		t.Error(err)
	}
	waitFor(t, gone, "the end of the MCP server")
	f.goOn()
	s = f.serve()
	if log := strings.Join(s.log(id), "\n"); strings.Contains(log, "turn.") {
		t.Errorf("the log:\n%s", log)
	}
	turn := s.attached(id, "k", "shelf://slow")
	s.told(turn.ID, "| slow reading 2")
	if again := s.attached(id, "k", "shelf://slow"); again.ID != turn.ID || f.times("shelf://slow") != 2 {
		t.Errorf("sent again it is %s, not %s; it was read %d times", again.ID, turn.ID, f.times("shelf://slow"))
	}
}

// TestResources_whose_sender_leaves: the MCP server is told to stop reading, no message is
// accepted, and the session is free.
func TestResources_whose_sender_leaves(t *testing.T) {
	t.Parallel()
	f := newPlace(t).withShelf()
	begun, gone := pipeOf(t, f.held)
	s := f.serve()
	id := s.session("shelf")
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.attach(ctx, id, "k", "shelf://slow")
		left <- err
	}()
	waitFor(t, begun, "the reading")
	leave()
	if err := <-left; err == nil {
		t.Error("it was answered")
	}
	waitFor(t, gone, "the end of the reading")
	if log := strings.Join(s.log(id), "\n"); strings.Contains(log, "turn.") {
		t.Errorf("the log:\n%s", log)
	}
	f.goOn()
	s.told(s.attached(id, "k", "shelf://slow").ID, "| slow reading 2")
}

// TestResources_of_100_MB: a resource of 100 MB is refused and never held in memory, and the next
// resource is read.
func TestResources_of_100_MB(t *testing.T) {
	t.Parallel()
	f := newPlace(t).withShelf()
	s := f.serve()
	id := s.session("shelf")
	s.told(s.attached(id, "k0", "shelf://count").ID, "reading 1")
	before, _ := s.memory()
	a, err := s.attach(t.Context(), id, "k", "shelf://vast")
	if err != nil || a.status != 413 || problemOf(t, a).Field != "resources[0]" || !strings.Contains(problemOf(t, a).Message, "its answer has more than 8388608 bytes and was not read") {
		t.Errorf("got %s, %v", a, err)
	}
	if _, most := s.memory(); most-before > 80<<20 {
		t.Errorf("it took %d bytes", most-before)
	}
	s.told(s.attached(id, "k2", "shelf://count").ID, "reading 2") // the server was not ended
}
