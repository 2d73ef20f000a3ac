//go:build unix

package program_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
)

// TestHome_remembers_what_it_was_about: the user asks for a plan after the question about the
// flicker. The request that reaches the provider then has the lights with their current states,
// and what the tools returned about them.
func TestHome_remembers_what_it_was_about(t *testing.T) {
	t.Parallel()
	model := simtest.Brain(func(_ context.Context, r seam.Request, say func(string)) (seam.Reply, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Role == parley.RoleUser && strings.Contains(last.Text(), flicker) {
			return seam.Reply{Parts: []parley.Part{{Type: parley.PartToolCall, Name: "diagnose_entity", Input: json.RawMessage(`{"entity":"light.bedroom","start":"last night"}`)}}, StopReason: "tool_use"}, nil
		}
		say("Said.")
		return seam.Reply{StopReason: "end_turn"}, nil
	})
	provider := simtest.Providers()[0]
	sim := provider.Start(t, model, simtest.ByPrompt(prompts(t, "home")))
	p, house := atHome(t, "", "")
	p.account(map[*simtest.Server]simtest.Provider{sim: provider})
	s := p.serve()
	id := s.session("home")
	s.answered(id, flicker)
	house.SetState("light.bedroom", "on", nil)
	s.sees("light.bedroom", "on")
	s.answered(id, plan2)

	calls := sim.Calls()
	asked := string(calls[len(calls)-1])
	if len(calls) != 3 || !strings.Contains(asked, plan2) {
		t.Fatalf("the provider was asked %d times, at last\n%s", len(calls), asked)
	}
	about, pinned, ok := strings.Cut(asked, "What the turn before was about, as it is now")
	if !ok {
		t.Fatalf("nothing is pinned:\n%s", about)
	}
	holds(t, pinned, "[home assistant light.bedroom] on", "[home assistant light.bedroom_ceiling]", "[home assistant binary_sensor.heat_pump_compressor]")
	holds(t, about, "[tool calls of this turn and what they returned, shortened]", `- diagnose_entity {\"entity\":\"light.bedroom\",`)
	if first := string(calls[0]); strings.Contains(first, "What the turn before was about") {
		t.Errorf("the first turn has it, too:\n%s", first)
	}
}
