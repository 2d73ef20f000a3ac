package scripted_test

import (
	"os"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/model/scripted"
	"github.com/parley-server/parley/internal/seam"
)

func BenchmarkNew(b *testing.B) {
	raw, err := os.ReadFile("../../../apps/chaos/script.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := scripted.New("scripted/chaos", raw, scripted.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReply measures the demo's most expensive reply: the Synthesizer compares the
// results.
func BenchmarkReply(b *testing.B) {
	m, err := chaos()
	if err != nil {
		b.Fatal(err)
	}
	r := seam.Request{Agent: "synthesizer", Handoffs: []seam.Handoff{{Agent: "interface"}}, Messages: []parley.Message{user(question,
		"[handed over by scavenger]\nreason: both tools were called\n"+
			"[result of read_notion_mock {\"query\":\"login system\"}]\n[Notion | MVP Authentication Specs | Last updated: 2026-01-15] For the MVP, we will implement a standard Email and Password authentication system. Do not use third-party providers yet to save time.\n"+
			"[result of read_slack_mock {\"query\":\"login system auth\"}]\n[Slack | #engineering | CEO | 2026-02-27] Hey team, scrap the email/password login for the MVP. It's taking too long to secure. Let's just drop in Google OAuth and call it a day.")}}
	for b.Loop() {
		for _, err := range m.Stream(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
