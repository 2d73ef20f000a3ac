//go:build unix

package program_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
)

// seen is a frame at /events.
type seen struct {
	Type         string
	Continuation string `json:"continuation_id"`
	Payload      struct {
		Message string
		Step    *struct{ Type string }
		Partial string `json:"partial_response"`
		Final   *struct {
			FinalMessage string
			Citations    []struct{ Ref string }
		} `json:"final_response"`
	}
}

// TestHome_story_over_MCP_and_events plays the example of the home specification as its client
// would. A question is answered from the recorded history. A follow-up takes too long, because the
// house does not answer, and is cancelled. Then the follow-up is sent again. The SDK's own client
// makes all requests, and one stream at /events shows the session.
func TestHome_story_over_MCP_and_events(t *testing.T) {
	t.Parallel()
	p, house := atHome(t, "", "")
	s := p.serve()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: s.url + "/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(tool string, in map[string]any) map[string]any {
		t.Helper()
		res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "ha_agent." + tool, Arguments: in})
		if err != nil || res.IsError {
			t.Fatalf("%s: %+v, %v", tool, res, err)
		}
		return res.StructuredContent.(map[string]any)
	}
	session := call("start_session", map[string]any{})["session_id"].(string)
	say := func(message string) string {
		t.Helper()
		return call("send_message", map[string]any{"session_id": session, "message": message, "stream": true})["continuation_id"].(string)
	}
	first := say(flicker)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/events/"+session, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	// until reads frames of one turn up to the first wanted one, and returns which kinds it
	// read.
	until := func(turn string, wanted func(seen) bool) (last seen, kinds map[string]int, text string) {
		t.Helper()
		kinds = map[string]int{}
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var f seen
			if err := json.Unmarshal([]byte(data), &f); err != nil || f.Continuation != turn {
				t.Fatalf("%v, of turn %s: %s", err, turn, data)
			}
			kind := f.Type
			if f.Payload.Step != nil {
				kind = f.Payload.Step.Type
			}
			kinds[kind]++
			text += f.Payload.Partial
			if wanted(f) {
				return f, kinds, text
			}
		}
		t.Fatalf("the stream ended after %v: %v", kinds, lines.Err())
		return last, kinds, text
	}
	final := func(f seen) bool { return f.Type == "final" }

	end, kinds, text := until(first, final)
	if end.Payload.Final == nil || len(end.Payload.Final.Citations) == 0 || kinds["progress"] == 0 || kinds["tool_call"] == 0 || kinds["tool_call"] != kinds["tool_result"] {
		t.Fatalf("frames %v, at last %+v", kinds, end)
	}
	holds(t, end.Payload.Final.FinalMessage, "the mains voltage dipped", "196.3 V")
	holds(t, text, "the mains voltage dipped", "196.3 V")
	got := call("await_continuation", map[string]any{"continuation_id": first})
	response, _ := got["response"].(map[string]any)
	if got["status"] != "completed" || response["finalMessage"] != end.Payload.Final.FinalMessage || response["citations"] == nil || got["artifacts"] == nil {
		t.Errorf("await: %+v", got)
	}

	house.SetFaults(sim.Faults{Delay: time.Hour})
	second := say(plan2)
	until(second, func(f seen) bool { return f.Payload.Step != nil && f.Payload.Step.Type == "tool_call" })
	if got := call("cancel", map[string]any{"continuation_id": second, "reason": "taking too long"}); got["status"] != "cancelled" {
		t.Errorf("cancel: %v", got)
	}
	end, _, _ = until(second, final)
	if end.Payload.Final != nil || !strings.Contains(end.Payload.Message, "taking too long") {
		t.Errorf("a cancelled turn ends with %+v", end)
	}
	if got := call("await_continuation", map[string]any{"continuation_id": second}); got["status"] != "cancelled" {
		t.Errorf("await: %+v", got)
	}

	house.SetFaults(sim.Faults{})
	third := say(plan2)
	end, _, _ = until(third, final)
	if end.Payload.Final == nil {
		t.Fatalf("the follow-up ended with %+v", end)
	}
	holds(t, end.Payload.Final.FinalMessage, "A plan for the bedroom lights", "Simulated: if this had been in place, it would have taken away what came with 5 of the 5 moments")
}
