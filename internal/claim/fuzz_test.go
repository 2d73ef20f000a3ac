package claim_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/claim"
)

// FuzzRead: pages come from anybody. Whatever they say is read without a panic, and contradicts nothing that says the same.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"# Hours\n\nWe open at half past six, and close at 6 p.m.; on Sundays 8-12.\n", "| A | Price |\n|---|---|\n| Day | € 3,50 |\n| | |\n",
		"Prices:\n\n- Rolls: 0.70 €\n- between 2 and 4 kg\n  - every 3 days\n", "Owner: Ana Lind\nPhone: +49 30 123 45 67\n", "o'clock | half past | € | 9999999999999999999 kg | 31 Feb 2026, every each once a to to - - and", "> Mon-Sun, Sun–Mon: 25:99",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list := claim.Statements(claim.Page{Path: "docs/a.md", Title: "A", Body: text, Line: 1})
		for _, s := range list[:min(len(list), 50)] {
			if s.Line < 1 || s.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("line %d of %q", s.Line, text)
			}
			if why, yes := museum.Contradict(s, s); yes {
				t.Fatalf("%q contradicts itself: %s", s.Text, why)
			}
		}
	})
}
