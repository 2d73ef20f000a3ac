//go:build unix

package mcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// commands waits until the server has this many prompts.
func (r *rig) commands(n int) []parley.SlashCommand {
	r.t.Helper()
	var list []parley.SlashCommand
	for end := time.Now().Add(within); time.Now().Before(end); <-time.After(time.Millisecond) {
		if list = r.set.Commands(); len(list) == n {
			return list
		}
	}
	r.t.Fatalf("there are %d prompts, want %d", len(list), n)
	return nil
}

// TestPrompts: a server's prompts are slash commands with the server's name in front. Their text
// comes from the server when they are used.
func TestPrompts(t *testing.T) {
	everyWay(t, func(t *testing.T, r *rig) {
		var _ seam.Commander = r.set
		want := []parley.SlashCommand{
			{Name: "mcp__test__broken", From: "test"},
			{Name: "mcp__test__long", Description: "Says much", From: "test"},
			{Name: "mcp__test__write_letter", Description: "Writes a letter.", ArgumentHint: "to [about]", From: "test"},
		}
		got := r.commands(3)
		slices.SortFunc(got, func(a, b parley.SlashCommand) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		const letter = "Write to %s about %s.\n\nAssistant: test://style\nKindly.\n\n(content that is not shown here)"
		for args, want := range map[string]string{
			`bob the garden`:     fmt.Sprintf(letter, "bob", "the garden"),
			` "bob smith"  rain`: fmt.Sprintf(letter, "bob smith", "rain"),
			`bob`:                fmt.Sprintf(letter, "bob", ""),
		} {
			if got, err := r.set.Expand(t.Context(), "mcp__test__write_letter", args); err != nil || got != want {
				t.Errorf("%s: %q, %v", args, got, err)
			}
		}
		for name, tc := range map[string]struct {
			code parley.Code
			says string
		}{
			"mcp__test__write_letter": {parley.CodeInvalid, "needs to"},
			"mcp__test__long":         {parley.CodeTooLarge, "more than 65536 bytes"},
			"mcp__test__broken":       {parley.CodeUnavailable, "out of order"},
			"mcp__test__none":         {parley.CodeNotFound, "there is no command"},
		} {
			if _, err := r.set.Expand(t.Context(), name, ""); parley.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		r.want(r.call("change", in{}), parley.OutcomeOK, "done")
		r.commands(4)
	})
}
