//go:build unix

package program

import (
	"strings"
	"testing"

	"github.com/parley-server/parley"
)

// TestShadowed: a server in the file of a user or workspace replaces the app's server of the same
// name, and no other.
func TestShadowed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 30)
	var decls []parley.ToolDecl
	for _, name := range []string{
		"look", "mcp__press__mail", "mcp__pressing__mail", "mcp__" + long + "__x", "mcp__files__read",
		"mcp__press-w3fa2c1__mail", "mcp__" + long[:longName] + "-u3fa2c1__x",
	} {
		decls = append(decls, parley.ToolDecl{Name: name})
	}
	left, gone := shadowed(decls)
	var names []string
	for _, d := range left {
		names = append(names, d.Name)
	}
	want := "look mcp__pressing__mail mcp__files__read mcp__press-w3fa2c1__mail mcp__" + long[:longName] + "-u3fa2c1__x"
	if got := strings.Join(names, " "); got != want || len(gone) != 2 {
		t.Errorf("got  %s with %q\nwant %s", got, gone, want)
	}
	if left, gone := shadowed(decls[:5]); len(left) != 5 || gone != nil {
		t.Errorf("without files %v, %q", left, gone)
	}
}
