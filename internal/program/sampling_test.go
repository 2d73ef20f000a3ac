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

//lint:file-ignore SA1019 sampling is deprecated, and servers ask for it

// mcpScholar makes this test binary an MCP server whose one tool has the model reply to it.
const mcpScholar = "PARLEY_TEST_AS_SCHOLAR"

func init() {
	if os.Getenv(mcpScholar) == "" {
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "deep", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "study", Description: "Studies.", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if c := r.ClientCapabilities(); c == nil || c.Sampling == nil {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "nobody to ask"}}}, nil
		}
		got, ok := r.Params.InputResponses["q"]
		if !ok {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.CreateMessageParams{
				MaxTokens: 50, SystemPrompt: "Be brief.", Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "What makes tides?"}}},
			}}}, nil
		}
		raw, err := json.Marshal(got)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("learned %s", raw)}}}, err
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// TestSampling: a server of an app's file has the app's model reply to it, where the file says that
// it may and a person allows it. The command line tells of it.
func TestSampling(t *testing.T) {
	t.Parallel()
	for where, on := range map[string]struct{ file, app string }{
		"off":              {},
		"in the app's":     {app: "    - {name: deep, sampling: true}\n"},
		"in the .mcp.json": {file: `, "sampling": true`},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			dir := filepath.Join(p.dir, "apps", "lab")
			p.write(filepath.Join(dir, "clerk.md"), "Do as you are told.")
			p.write(filepath.Join(dir, ".mcp.json"), `{"mcpServers": {"deep": {"command": "${PROGRAM}", "env": {"`+mcpScholar+`": "1"}`+on.file+`}}}`)
			p.write(filepath.Join(dir, "app.yaml"), "model: scripted/lab\nagents:\n  clerk: {prompt: clerk.md, tools: [\"mcp__deep__*\"]}\nscript: script.yaml\npolicy: {rules: [{verdict: allow}]}\n"+
				"tools:\n  mcp:\n    - file: .mcp.json\n      vars: {PROGRAM: \""+os.Args[0]+"\"}\n"+on.app)
			p.write(filepath.Join(dir, "script.yaml"), `agents:
  clerk:
    - when: .Results
      say: "{{ range .Results }}{{ .Output }}{{ end }}"
    - call: [{tool: mcp__deep__study}]
  sampling:
    - say: "The moon, since you ask: {{ .Question }}"
`)
			p.env = append(p.env, "PARLEY_APPS="+filepath.Dir(dir), "PARLEY_ENABLED=lab")
			s := p.serve()
			id := s.session("lab")
			turn := s.send(id, "study tides").ID
			if where == "off" {
				if got := s.settle(turn); got.Response == nil || got.Response.Message != "nobody to ask" {
					t.Errorf("%+v with %+v", got, got.Response)
				}
				return
			}
			in := s.interaction(s.waiting(turn).Interactions[0])
			if in.Sampling != "deep" || !strings.Contains(in.Text, "> What makes tides?\n") || !strings.Contains(in.Text, "> Be brief.\n") {
				t.Fatalf("a person is asked %+v", in)
			}
			if a := s.answer(in.ID, parley.Answer{Choice: parley.ChoiceAnswered, Answers: map[string]string{in.Questions[0].Question: parley.SamplingSession}}); a.status != 200 {
				t.Fatal(a)
			}
			got := s.settle(turn)
			for _, want := range []string{`"text":"The moon, since you ask: What makes tides?"`, `"model":"scripted/lab"`, `"stopReason":"endTurn"`} {
				if got.Response == nil || !strings.Contains(got.Response.Message, want) {
					t.Errorf("%+v with %+v, want %s", got, got.Response, want)
				}
			}
			if again := s.settle(s.send(id, "once more").ID); again.Status != parley.StatusCompleted || !strings.Contains(again.Response.Message, "The moon") {
				t.Errorf("allowed for the session: %+v with %+v", again, again.Response)
			}
			s.kill()
			if code, out, errs := p.run("session", "why", string(id)); code != 0 || !strings.Contains(out, "of these for the server deep: 1 model call") {
				t.Errorf("exit %d\n%s%s", code, out, errs)
			}
			file := filepath.Join(p.dir, "s.zip")
			if code, out, errs := p.run("session", "export", string(id), "-o", file); code != 0 {
				t.Fatalf("exit %d\n%s%s", code, out, errs)
			}
			if code, out, errs := p.run("session", "replay", file); code != 0 || !strings.Contains(out, "There is no difference.") {
				t.Errorf("a replay: exit %d\n%s%s", code, out, errs)
			}
		})
	}
}
