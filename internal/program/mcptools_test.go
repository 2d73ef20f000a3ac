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
	"github.com/parley-server/parley/internal/sim/nodetest"
)

// mcpPress makes this test binary an MCP server with one tool that writes, as
// [place.withPress] has it. With HANG=1 the tool opens the file held and does not end.
const mcpPress = "PARLEY_TEST_AS_MCP"

func init() {
	if os.Getenv(mcpPress) == "" {
		return
	}
	if f, err := os.OpenFile(os.Getenv("PRINTED")+".starts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(f, "start")
		_ = f.Close()
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "press", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{
		Name: "mail", Description: "Prints a text.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
	}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		f, err := os.OpenFile(os.Getenv("PRINTED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := f.WriteString("print\n"); err != nil {
			return nil, err
		}
		if os.Getenv("HANG") == "1" {
			held, err := os.OpenFile(os.Getenv("HELD"), os.O_WRONLY, 0)
			if err != nil {
				return nil, err
			}
			fmt.Fprintln(held, "held")
			select {}
		}
		said := fmt.Sprintf("printed with %s in %s for %s", os.Getenv("PRESS_TOKEN"), os.Getenv("MODE"), os.Getenv("ANTHROPIC_API_KEY"))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: said}}}, nil
	})
	s.AddResource(&mcp.Resource{URI: "press://sheet", Name: "sheet"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text := "the sheet of " + os.Getenv("WORKSPACE_PATH") + " with " + os.Getenv("PRESS_TOKEN")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: text}}}, nil
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// withMCPPress gives the program an app with that server, which its .mcp.json describes.
func (p *place) withMCPPress(more string) (printed, held string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, "apps", "press")
	printed, held = filepath.Join(p.dir, "printed"), filepath.Join(p.dir, "held")
	p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
	p.write(filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"press": {"command": "${PROGRAM}", "args": [], "env": {
  "`+mcpPress+`": "1", "PRINTED": "`+printed+`", "HELD": "`+held+`", "HANG": "${HANG}", "PRESS_TOKEN": "${TOKEN}", "MODE": "${MODE:-production}"
}}}}`)
	p.write(filepath.Join(dir, "app.yaml"), `model: scripted/press
agents:
  clerk: {prompt: clerk.md, tools: ["mcp__press__*"]}
script: script.yaml
tools:
  mcp:
    - file: .mcp.json
      vars: {PROGRAM: "`+os.Args[0]+`", HANG: "${PRESS_HANG}", TOKEN: "${PRESS_TOKEN}"}
    - name: press
      tools: {mail: {subject: "{text}"}}
`+more+`policy: {rules: [{verdict: allow}]}
resume: auto
`)
	p.write(filepath.Join(dir, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - call:
        - tool: mcp__press__mail
          input: {text: '{{ .Question }}'}
`)
	p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=press", "PRESS_TOKEN=press-secret-4711", "PRESS_HANG=0", "ANTHROPIC_API_KEY=sk-not-for-them")
	return printed, held
}

// TestMCP_server_of_ones_own: an app has the tools of a server in its .mcp.json. Its program
// gets only the variables that the app lists, and a secret among them stays out of the log.
func TestMCP_server_of_ones_own(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withMCPPress("")
	if code, out, errs := p.run("app", "check"); code != 0 || !strings.Contains(out, "press: 1 agent, 1 tool") {
		t.Fatalf("app check: exit %d\n%s%s", code, out, errs)
	}
	s := p.serve()
	// The resources that a message may attach can be listed before there is a session.
	if list := must[parley.ResourceList](s, "GET", "/v1/apps/press/resources", ""); len(list.Resources) != 1 || list.Resources[0].URI != "press://sheet" {
		t.Errorf("resources of a new session: %+v", list)
	}
	if all := must[struct{ Sessions []parley.SessionInfo }](s, "GET", "/v1/sessions", "").Sessions; len(all) != 0 {
		t.Errorf("sessions: %+v", all)
	}
	id := s.session("press")
	if list := must[parley.ResourceList](s, "GET", "/v1/sessions/"+string(id)+"/resources", ""); len(list.Resources) != 1 || list.Resources[0].Server != "press" || list.Resources[0].URI != "press://sheet" {
		t.Errorf("resources: %+v", list)
	}
	s.settle(s.send(id, "read @press:press://sheet").ID)
	if log := strings.Join(s.log(id), "\n"); !strings.Contains(log, `"type":"resource","text":"the sheet of `) || strings.Contains(log, "press-secret-4711") {
		t.Errorf("the log:\n%s", log)
	}
	for path, field := range map[string]string{`{"message":"x","resources":[{"server":"none","uri":"x:y"}]}`: "resources[0].server", `{"message":"@press:press://none"}`: "message"} {
		if a := s.ask("POST", "/v1/sessions/"+string(id)+"/turns", path); a.status != 400 || problemOf(t, a).Field != field {
			t.Errorf("%s: %s", path, a)
		}
	}
	turn := s.settle(s.send(id, "hello").ID)
	if turn.Status != parley.StatusCompleted || !strings.Contains(turn.Response.Message, "printed with") ||
		!strings.Contains(turn.Response.Message, "in production for") || strings.Contains(turn.Response.Message, "sk-not") {
		t.Errorf("%+v with %+v", turn, turn.Response)
	}
	if log := strings.Join(s.log(id), "\n"); strings.Contains(log, "press-secret-4711") || !strings.Contains(log, `"outcome":"ok"`) {
		t.Errorf("the log:\n%s", log)
	}
	s.kill()
	file := filepath.Join(p.dir, "s.zip")
	if code, out, errs := p.run("session", "export", string(id), "-o", file); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, errs := p.run("session", "replay", file); code != 0 || !strings.Contains(out, "There is no difference.") {
		t.Errorf("a replay: exit %d\n%s%s", code, out, errs)
	}
}

// TestMCP_killed_in_a_write: Parley dies while an MCP server writes. The server dies, too, and
// the call is not made again: a person is asked what became of it.
func TestMCP_killed_in_a_write(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	printed, held := p.withMCPPress("")
	p.env = append(p.env, "PRESS_HANG=1")
	begun, gone := pipeOf(t, held)
	s := p.serve()
	turn := s.send(s.session("press"), "hello").ID
	waitFor(t, begun, "the write")
	s.kill()
	waitFor(t, gone, "the end of the MCP server")
	s = p.serve()
	if in := s.interaction(s.waiting(turn).Interactions[0]); in.Kind != parley.KindUnknown {
		t.Errorf("a person is asked %+v", in)
	}
	if end := s.settle(turn); end.Status != parley.StatusCompleted {
		t.Errorf("%+v with %+v", end, end.Response)
	}
	if lines, err := os.ReadFile(printed); err != nil || string(lines) != "print\n" {
		t.Errorf("it was printed %q, %v", lines, err)
	}
}

// TestMCP_that_is_wrong: each mistake is reported with its line; an app whose server cannot be
// used is off, and says why.
func TestMCP_that_is_wrong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withMCPPress("")
	file := filepath.Join(p.dir, "apps", "press", "app.yaml")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	wrong := func(from, to, says string) {
		t.Helper()
		p.write(file, strings.Replace(string(body), from, to, 1))
		if code, out, _ := p.run("app", "check"); code != 1 || !strings.Contains(out, says) {
			t.Errorf("exit %d without %q:\n%s", code, says, out)
		}
	}
	wrong("mail: {subject", "post: {subject", `app.yaml:10: tools.mcp[1].tools.post: the server has no tool "post"; it has mail`)
	wrong("HANG:", "HUNG:", `app.yaml:7: tools.mcp[0].file: .mcp.json: mcpServers.press: env.HANG refers to ${HANG}; write what it stands for under vars`)
	wrong(os.Args[0], "/absent/server", `app.yaml:9: tools.mcp[1].run: the program "/absent/server" cannot be run`)
	wrong(os.Args[0], "/bin/false", `app.yaml:9: tools.mcp[1]: the MCP server press cannot be used`)
}

// TestMCP_started_when_used: a server is started once, by the first turn of an app, to learn its
// tools. After that it is started only for calls: neither when Parley starts nor by a turn that
// calls nothing.
func TestMCP_started_when_used(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	printed, _ := p.withMCPPress("")
	starts := func(when string, want int) {
		t.Helper()
		raw, err := os.ReadFile(printed + ".starts")
		if got := strings.Count(string(raw), "start"); got != want {
			t.Errorf("%s it was started %d times, %v", when, got, err)
		}
	}
	script := filepath.Join(p.dir, "apps", "press", "script.yaml")
	raw, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	p.write(script, strings.Replace(string(raw), "    - when: .Results", "    - when: eq .Question \"quiet\"\n      say: quiet\n    - when: .Results", 1))
	s := p.serve()
	if _, err := os.Stat(printed + ".starts"); err == nil {
		t.Error("the start of Parley started it")
	}
	id := s.session("press")
	if turn := s.settle(s.send(id, "hello").ID); !strings.Contains(turn.Response.Message, "printed with") {
		t.Errorf("the first turn: %+v", turn.Response)
	}
	starts("after the first turn", 1)
	s.kill()
	s = p.serve()
	if turn := s.settle(s.send(id, "quiet").ID); turn.Response.Message != "quiet" {
		t.Errorf("a turn without a call: %+v", turn.Response)
	}
	starts("after a restart", 1)
	if turn := s.settle(s.send(id, "hello").ID); !strings.Contains(turn.Response.Message, "printed with") {
		t.Errorf("a call: %+v", turn.Response)
	}
	starts("after a call", 2)
}

// TestMCP_that_is_dead: a server that cannot be used keeps neither Parley from starting nor its app
// from being served. The page says what is wrong with the server, not that the app has mistakes, until
// the server starts.
func TestMCP_that_is_dead(t *testing.T) {
	t.Parallel()
	late := filepath.Join(t.TempDir(), "server")
	for what, program := range map[string]string{"one that ends": "/bin/false", "none": "/absent/server", "one that comes later": late} {
		p := newPlace(t)
		p.withMCPPress("")
		file := filepath.Join(p.dir, "apps", "press", "app.yaml")
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.write(file, strings.Replace(string(body), os.Args[0], program, 1))
		p.write(filepath.Join(p.dir, "apps", "press", "script.yaml"), "agents:\n  clerk:\n    - say: without tools\n")
		s := p.serve()
		if turn := s.settle(s.send(s.session("press"), "hello").ID); turn.Response.Message != "without tools" {
			t.Errorf("%s: %+v", what, turn.Response)
		}
		if says := string(s.ask("GET", "/v1/apps", "").body); !strings.Contains(says, "Some tools of this app are missing for now: the MCP server press cannot be used") || strings.Contains(says, "has mistakes") {
			t.Errorf("%s: what is wrong is not said: %s", what, says)
		}
		if program == late {
			if err := os.Symlink(os.Args[0], late); err != nil {
				t.Fatal(err)
			}
			s.until("the notice to go", func() bool {
				s.settle(s.send(s.session("press"), "hello").ID)
				return !strings.Contains(string(s.ask("GET", "/v1/apps", "").body), "missing for now")
			})
		}
		s.kill()
	}
}

// TestExample_mcp runs the example of the README with the official server for files.
func TestExample_mcp(t *testing.T) {
	t.Parallel()
	example, err := filepath.Abs("../../examples/mcp-tool")
	if err != nil {
		t.Fatal(err)
	}
	servers, err := filepath.Abs("../../internal/tool/mcp/servers")
	if err != nil {
		t.Fatal(err)
	}
	nodetest.Install(t, servers)
	folder := t.TempDir()
	p := newPlace(t, "PARLEY_ENABLED=files", "PARLEY_APPS="+filepath.Join(example, "apps"), "FILES="+folder)
	p.env = append(p.env, "PATH="+filepath.Join(servers, "offline")+":"+os.Getenv("PATH"))
	p.write(filepath.Join(folder, "garden.txt"), "We planted tomatoes.\n")
	p.serve()
	if code, out, errs := p.run("run", "Read garden.txt"); code != 0 || !strings.Contains(out, "We planted tomatoes.") {
		t.Errorf("a read: exit %d\n%s%s", code, out, errs)
	}
	_, _, errs := p.run("run", "Write into harvest.txt that there were five")
	if code, out, errs := p.run("session", "answer", waitingIn(t, errs), "allow"); code != 0 || !strings.Contains(out, "harvest.txt") {
		t.Errorf("allowed: exit %d\n%s%s", code, out, errs)
	}
	if raw, err := os.ReadFile(filepath.Join(folder, "harvest.txt")); err != nil || !strings.Contains(string(raw), "there were five") {
		t.Errorf("the file has %q, %v", raw, err)
	}
}
