package program_test

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDoctor_of_a_Claude_CLI_that_is_missing: it says which apps only offer it, so that nobody finds out in a session.
func TestDoctor_of_a_Claude_CLI_that_is_missing(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "PARLEY_ENABLED=notes", "PARLEY_CLAUDE_PATH=/nowhere/claude")
	if err := os.MkdirAll(filepath.Join(p.dir, "notes", "ana"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := p.run("doctor")
	if code != 0 {
		t.Errorf("exit %d\n%s", code, errs)
	}
	holds(t, out, "warn  claude", "sessions of notes may choose the Claude CLI: ", "/nowhere/claude")
}
