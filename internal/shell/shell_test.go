package shell_test

import (
	"os/exec"
	"testing"

	"github.com/parley-server/parley/internal/shell"
)

// TestQuote: a shell reads a quoted argument as the argument, and what needs no quotes has none.
func TestQuote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ arg, plain, want string }{
		{"my-apps/v1.2_x", "", "my-apps/v1.2_x"},
		{"a=b,c:d@e%f+g", "", "a=b,c:d@e%f+g"},
		{"", "", "''"},
		{"two words", "", "'two words'"},
		{"it's", "", `'it'\''s'`},
		{"${HOME}", "", "'${HOME}'"},
		{"${HOME}", "${}", "${HOME}"},
		{"${HOME} x", "${}", "'${HOME} x'"},
		{"~/x", "", "'~/x'"},
		{"größe", "", "'größe'"},
		{"a\nb", "", "'a\nb'"},
		{"*", "", "'*'"},
	} {
		got := shell.Quote(c.arg, c.plain)
		if got != c.want {
			t.Errorf("Quote(%q, %q) = %s, want %s", c.arg, c.plain, got, c.want)
		}
		if c.plain != "" {
			continue
		}
		if said, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+got).Output(); err != nil || string(said) != c.arg { //nolint:gosec // that is the test
			t.Errorf("a shell reads %s as %q, %v", got, said, err)
		}
	}
}
