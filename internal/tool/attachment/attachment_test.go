package attachment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/attachment"
)

// TestReadAttachment: any part of a text is read, in pieces that end.
func TestReadAttachment(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "line %d\n", i+1)
	}
	run := func(input string) parley.ToolResult {
		t.Helper()
		res, err := attachment.New().Run(t.Context(), seam.Run{Name: attachment.Tool, Input: json.RawMessage(input), Attached: func(_ context.Context, id parley.ArtifactID) (string, error) {
			switch id {
			case "a":
				return text.String(), nil
			case "long":
				return strings.Repeat("x", 100_000), nil
			}
			return "", parley.Errorf(parley.CodeNotFound, "there is no attachment %q", id)
		}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for input, want := range map[string]string{
		`{"attachment":"a","limit":2}`:                   "1\tline 1\n2\tline 2\n[the text has 20000 lines; go on with offset 3]",
		`{"attachment":"a","offset":19999}`:              "19999\tline 19999\n20000\tline 20000\n[the end; the text has 20000 lines]",
		`{"attachment":"a","offset":30000}`:              "There is no such line. The text has 20000 lines.",
		`{"attachment":"a","pattern":"^line 1234[56]$"}`: "12345\tline 12345\n12346\tline 12346\n[the end; the text has 20000 lines]",
		`{"attachment":"a","pattern":"("}`:               "pattern is not a regular expression: error parsing regexp: missing closing ): `(`",
		`{"attachment":"b"}`:                             `there is no attachment "b"`,
	} {
		if got := run(input).Output; got != want {
			t.Errorf("%s: got %.200q, want %q", input, got, want)
		}
	}
	if got := run(`{"attachment":"a","limit":5000}`).Output; len(got) > 65<<10 || !strings.Contains(got, "go on with offset") {
		t.Errorf("%d bytes: %q", len(got), got[len(got)-80:])
	}
	if got := run(`{"attachment":"long"}`).Output; len(got) > 5<<10 || !strings.Contains(got, "[the line is cut]") {
		t.Errorf("a long line: %d bytes", len(got))
	}
}
