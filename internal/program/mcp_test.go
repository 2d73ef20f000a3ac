package program

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/client"
)

// host connects the SDK's client to a transport.
func host(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func asked(t *testing.T, s *mcp.ClientSession, message string) string {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "chaos.ask", Arguments: map[string]any{"message": message}})
	if err != nil || res.IsError {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.StructuredContent.(map[string]any)["response"].(map[string]any)["finalMessage"].(string)
}

func TestMCP_by_every_way_is_one_server(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_ENABLED=chaos")
	s := p.serve()
	overHTTP := host(t, &mcp.StreamableClientTransport{Endpoint: s.url + "/apps/chaos/mcp", MaxRetries: -1})
	overPipe := host(t, &mcp.CommandTransport{Command: p.command("mcp", "--app", "chaos")})
	one, two := asked(t, overHTTP, question1), asked(t, overPipe, question1)
	if one != two || !strings.Contains(one, "Google OAuth") {
		t.Errorf("over HTTP %q, over a pipe %q", one, two)
	}
	list, err := overPipe.CallTool(t.Context(), &mcp.CallToolParams{Name: "chaos.list_sessions"})
	if err != nil || len(list.StructuredContent.(map[string]any)["sessions"].([]any)) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	direct, err := overPipe.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_slack_mock", Arguments: map[string]any{"query": "login"}})
	if err != nil || direct.IsError || !strings.Contains(direct.Content[0].(*mcp.TextContent).Text, "[Slack |") {
		t.Errorf("%+v, %v", direct, err)
	}
	native, err := s.Sessions(t.Context(), client.SessionFilter{})
	if err != nil || len(native) != 2 {
		t.Errorf("%d sessions in the server, %v", len(native), err)
	}
	native, err = s.Sessions(t.Context(), client.SessionFilter{Direct: true})
	if err != nil || len(native) != 3 {
		t.Errorf("%d with that of the direct call, %v", len(native), err)
	}
	for path, want := range map[string]string{"/mcp": "the app home is off", "/apps/zzz/mcp": "there is no app", "/events/01J": "the app home is off"} {
		resp, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound || !strings.Contains(strings.ReplaceAll(string(body), `\`, ""), want) {
			t.Errorf("%s of an app that is off: %d %s", path, resp.StatusCode, body)
		}
	}
	s.stop(t)
}

func TestMCP_without_a_server(t *testing.T) {
	t.Parallel()
	p := newProgram(t, "PARLEY_ENABLED=chaos")
	s := host(t, &mcp.CommandTransport{Command: p.command("mcp")})
	if got := asked(t, s, question1); !strings.Contains(got, "Google OAuth") {
		t.Errorf("got %q", got)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the command ended with %v", err)
	}
	if out := p.must("session", "list"); !strings.Contains(out, "chaos") {
		t.Errorf("nothing was kept: %q", out)
	}
	if code, _, errs := p.run("mcp", "--app", "nobody"); code != exitUsage || !strings.Contains(errs, "chaos") {
		t.Errorf("an app that is not there: exit %d, %q", code, errs)
	}
}
