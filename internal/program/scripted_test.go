package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// TestScripted_is_said_on_each_wire: an answer that a script wrote is marked as such wherever it is
// read, in the same field. An answer of a language model has no such mark. POST /chat has a header
// instead of a field, because its frames are fixed byte for byte.
func TestScripted_is_said_on_each_wire(t *testing.T) {
	t.Parallel()
	const said = `"scripted":true`
	// Each function returns the mark that a wire has for one answer.
	wires := map[string]func(t *testing.T, p *place, s *process) string{
		"turn": func(t *testing.T, _ *place, s *process) string {
			return string(s.ask("GET", "/v1/turns/"+string(asksChaos(s).ID), "").body)
		},
		"list of turns": func(t *testing.T, _ *place, s *process) string {
			return string(s.ask("GET", "/v1/sessions/"+string(asksChaos(s).SessionID)+"/turns", "").body)
		},
		"log": func(t *testing.T, _ *place, s *process) string {
			return strings.Join(s.log(asksChaos(s).SessionID), "\n")
		},
		"SSE": func(t *testing.T, _ *place, s *process) string {
			return s.lineOf("/v1/sessions/"+string(asksChaos(s).SessionID)+"/events?format=sse", `"turn.completed"`)
		},
		"NDJSON": func(t *testing.T, _ *place, s *process) string {
			return s.lineOf("/v1/sessions/"+string(asksChaos(s).SessionID)+"/events?format=ndjson", `"turn.completed"`)
		},
		"/events": func(t *testing.T, _ *place, s *process) string {
			return s.lineOf("/events/"+string(asksChaos(s).SessionID), "final_response")
		},
		"/chat": func(t *testing.T, _ *place, s *process) string {
			resp, err := s.chat(t.Context(), "browser-"+t.Name(), spec, "")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // read only
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("got %d", resp.StatusCode)
			}
			if h := resp.Header.Get("Parley-Scripted"); h != "" {
				return `"scripted":` + h
			}
			return ""
		},
		"MCP ask, data":   func(t *testing.T, _ *place, s *process) string { return s.overMCP(t, "ask", false) },
		"MCP ask, text":   func(t *testing.T, _ *place, s *process) string { return s.overMCP(t, "ask", true) },
		"MCP await, data": func(t *testing.T, _ *place, s *process) string { return s.overMCP(t, "await_continuation", false) },
		"MCP await, text": func(t *testing.T, _ *place, s *process) string { return s.overMCP(t, "await_continuation", true) },
		"export": func(t *testing.T, _ *place, s *process) string {
			turn := asksChaos(s)
			return strings.ReplaceAll(s.exported(turn.SessionID)["sessions/"+string(turn.SessionID)+"/turns/"+string(turn.ID)+".json"], `"scripted": true`, said)
		},
		"run --json": func(t *testing.T, p *place, _ *process) string {
			_, out, _ := p.run("run", "--app", "chaos", "--json", spec)
			return out
		},
	}

	provider := simtest.Providers()[0]
	sim := provider.Start(t, script(t, "chaos"), simtest.ByPrompt(prompts(t, "chaos")))
	live, _ := atHome(t, "", "") // the app of which has the wire /events
	live.account(map[*simtest.Server]simtest.Provider{sim: provider})
	demo, _ := atHome(t, "", "")
	for _, of := range []struct {
		model string
		at    *place
		want  bool
	}{{"script", demo, true}, {"language model", live, false}} {
		of.at.env = append(of.at.env, "PARLEY_ENABLED=chaos,home")
		s := of.at.serve()
		if app := string(s.ask("GET", "/v1/apps/chaos", "").body); strings.Contains(app, "a script answers") != of.want {
			t.Errorf("%s: the app says %s", of.model, app)
		}
		for wire, read := range wires {
			t.Run(of.model+" "+wire, func(t *testing.T) {
				if got := read(t, of.at, s); strings.Contains(got, said) != of.want || !strings.Contains(got, "OAuth") && wire != "/chat" {
					t.Errorf("said: %v, want %v, in\n%s", !of.want, of.want, got)
				}
			})
		}
	}
}

// asksChaos returns a turn that has answered the question of the demo.
func asksChaos(s *process) parley.TurnInfo {
	s.t.Helper()
	return s.settle(s.send(s.session("chaos"), spec).ID)
}

// lineOf follows a session up to the first line that contains a text, and returns that line.
func (s *process) lineOf(path, text string) string {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), within)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	return ""
}

// overMCP asks over MCP, and returns the result of a tool, either its text or its data.
func (s *process) overMCP(t *testing.T, tool string, text bool) string {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.url + "/apps/chaos/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the test is done with it
	args := map[string]any{"message": spec}
	if tool == "await_continuation" {
		args = map[string]any{"continuation_id": asksChaos(s).ID}
	}
	got, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "chaos." + tool, Arguments: args})
	if err != nil || got.IsError {
		t.Fatalf("%+v, %v", got, err)
	}
	if text {
		return got.Content[0].(*mcp.TextContent).Text
	}
	raw, err := json.Marshal(got.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
