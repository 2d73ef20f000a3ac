package program_test

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/mcpserver"
)

// TestMCP_and_events_agree_on_who_wants_no_partials: the door reads stream: false and the wire
// leaves out partials. They do not import each other, so they must name such a client alike.
func TestMCP_and_events_agree_on_who_wants_no_partials(t *testing.T) {
	t.Parallel()
	if home.QuietClient != mcpserver.QuietClient {
		t.Errorf("%q and %q", home.QuietClient, mcpserver.QuietClient)
	}
}

// TestMCP_and_events_are_one_session: a session that is driven over MCP can be followed at
// /events of any app that names the wire.
func TestMCP_and_events_are_one_session(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.withDesk("http://127.0.0.1:1", "0s")
	file := filepath.Join(p.dir, "apps", "desk-auto", "app.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.write(file, string(raw)+"wires: [events]\n")
	s := p.serve()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: s.url + "/apps/desk-manual/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(tool string, in map[string]any) map[string]any {
		t.Helper()
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "desk-manual." + tool, Arguments: in})
		if err != nil || res.IsError {
			t.Fatalf("%s: %+v, %v", tool, res, err)
		}
		return res.StructuredContent.(map[string]any)
	}
	session := call("start_session", map[string]any{})["session_id"].(string)
	for _, stream := range []bool{true, false} {
		turn := call("send_message", map[string]any{"session_id": session, "message": "hello", "stream": stream})["continuation_id"]
		call("await_continuation", map[string]any{"continuation_id": turn})
		resp, err := http.Get(s.url + "/events/" + session)
		if err != nil {
			t.Fatal(err)
		}
		partials := 0
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && !strings.HasPrefix(lines.Text(), `data: {"type":"final"`) {
			if strings.HasPrefix(lines.Text(), `data: {"type":"partial"`) {
				partials++
			}
		}
		_ = resp.Body.Close()
		if want := `"final_response":{"finalMessage":"You said: hello","scripted":true}`; !strings.Contains(lines.Text(), want) || partials > 0 != stream {
			t.Errorf("stream %v: %d partials, and at last %s", stream, partials, lines.Text())
		}
	}
}
