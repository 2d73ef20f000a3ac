package mcpserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/engine/enginetest"
)

// TestWhatIsLeftOut: a host in OpenAI's strict mode sends null for a field that it omits, and null is
// accepted. The schema does not list it, because Gemini does not accept lists of types.
func TestWhatIsLeftOut(t *testing.T) {
	inEras(t, func(t *testing.T, era string) {
		h := newHouse(t, enginetest.Echo, enginetest.App())
		c := h.host(era, "", nil)
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if raw, _ := json.Marshal(tool.InputSchema); strings.Contains(string(raw), `"null"`) {
				t.Errorf("%s offers null: %s", tool.Name, raw)
			}
		}
		s := c.call("test.start_session", args{
			"model": nil, "budgets": args{"maxSteps": 3, "maxUsd": nil}, "policy": args{"allowlistedServices": nil}, "preferences": args{"units": "metric", "rooms": 4},
		})["session_id"]
		got := c.call("test.get_session", args{"session_id": s})["session"].(map[string]any)
		if diff := cmp.Diff(map[string]any{"units": "metric", "rooms": 4.0}, got["preferences"]); diff != "" {
			t.Error(diff)
		}
		for name, when := range map[string]any{
			"text": "last night", "an object": args{"start": "2026-08-27T22:00:00+02:00", "end": 1756327200000}, "one end": args{"start": "yesterday", "end": nil}, "nothing": nil,
		} {
			sent := c.call("test.send_message", args{"session_id": s, "message": "hello", "model": nil, "stream": nil, "planner_hints": args{"timeRange": when, "areas": nil}})
			if got := c.call("test.await_continuation", args{"continuation_id": sent["continuation_id"], "timeout_ms": nil})["status"]; got != "completed" {
				t.Errorf("%s: %v", name, got)
			}
		}
		if e := c.refused("test.send_message", args{"session_id": s, "message": "x", "planner_hints": args{"timeRange": 3}}); e.Field != "planner_hints.timeRange" {
			t.Errorf("a number: %+v", e)
		}
		if e := c.refused("test.send_message", args{"session_id": s, "message": nil}); e.Field != "message" {
			t.Errorf("no message: %+v", e)
		}
	})
}
