package scripted_test

import (
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

// FuzzReply: whatever was asked, remembered or handed over, every agent of the chaos app has a
// reply that can be part of a history.
func FuzzReply(f *testing.F) {
	m, err := chaos()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(question, "**Recommendation:** Google OAuth. x", "[handed over by scavenger]\nreason: x\n[result of a {\"query\":\"login\"}]\n[Slack | #a | B | 2026-01-01] text\n[text of scavenger]\nx")
	f.Add("why?", "", "[handed over by synthesizer]\n[text of synthesizer]\n[Notion | a | Last updated: ] no\nFailed: x\nNo relevant x")
	f.Add("", "a", "[handed over by scavenger]\n[result of a 7]\n")
	f.Fuzz(func(t *testing.T, asked, answer, handed string) {
		for _, agent := range []string{"interface", "scavenger", "synthesizer"} {
			r := seam.Request{
				Agent: agent, Tools: offered, Handoffs: []seam.Handoff{{Agent: handoffs[agent]}},
				Messages: []parley.Message{user("before"), assistant(text("x" + answer)), user("x"+asked, "x"), assistant(call("a")), results(result("a"))},
			}
			if handed != "" {
				r.Messages = append(r.Messages, user("[handed over by "+handed))
			}
			for d, err := range m.Stream(t.Context(), r) {
				if err != nil {
					t.Fatalf("%s: %v", agent, err)
				}
				if d.Reply == nil {
					continue
				}
				parts := d.Reply.Parts
				open := results()
				for i := range parts {
					if parts[i].Type != parley.PartText {
						parts[i].Call = parley.CallID(rune('b' + i))
						open.Parts = append(open.Parts, result(string(parts[i].Call)))
					}
				}
				history := append(r.Messages, assistant(parts...))
				if open.Parts != nil {
					history = append(history, open)
				}
				if r.Messages[len(r.Messages)-1].Role == parley.RoleTool || handed != "" {
					if err := scripted.Validate(append(history, user("next"))); err != nil {
						t.Errorf("%s: %v after %+v", agent, err, parts)
					}
				}
			}
		}
	})
}
