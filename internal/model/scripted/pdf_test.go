package scripted_test

import (
	"strings"
	"testing"

	"github.com/parley-server/parley/internal/extract"
)

// TestQuestionsAboutPDF asks about the lease and the inspection of the demo, which are PDFs.
func TestQuestionsAboutPDF(t *testing.T) {
	t.Parallel()
	if err := extract.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ person, ask, want string }{
		{"sebastian", "What does the lease say about notice?", "Three months to the end of a month"},
		{"sebastian", "Open lease.pdf", "Three months to the end of a month"},
		{"sebastian", "Summarise lease.pdf", "Hamburg-Ottensen"},
		{"petra", "Show heating-inspection.pdf", "about 420 euros"},
	} {
		d := newDesk(t, c.person)
		if got := d.ask(c.ask); !strings.Contains(got, c.want) {
			t.Errorf("%q of %s: %q has no %q", c.ask, c.person, got, c.want)
		} else {
			t.Logf("%s\n%s", c.ask, got)
		}
	}
}
