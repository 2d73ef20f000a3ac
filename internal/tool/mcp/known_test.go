//go:build unix

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// TestKnown: the tools of a server are those that it listed last, also in an earlier process, and
// the server is started when one of them is called. If its tools have changed by then, a caller
// with the older version of a tool cannot call the newer one.
func TestKnown(t *testing.T) {
	t.Parallel()
	var kept []byte
	starts, changes := 0, 0
	about := "Reads."
	open := func() *mcp.Toolset {
		set := mcp.NewOver(mcp.Options{
			Name: "test", Logger: quiet, Kept: kept,
			Keep:    func(body []byte) { kept = bytes.Clone(body) },
			Changed: func() { changes++ },
			Clean:   func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") },
		}, func(ctx context.Context) (sdk.Transport, func(), error) {
			starts++
			s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			s.AddTool(&sdk.Tool{
				Name: "look", Description: about, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: about == "Reads."},
			}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "looked"}}}, nil
			})
			s.AddPrompt(&sdk.Prompt{Name: "say", Description: "hunter2"}, nil)
			return inMemory(ctx, s)
		})
		t.Cleanup(set.Close)
		return set
	}
	boxed := func(set seam.Toolset) *toolbox.Box {
		box, err := toolbox.New([]seam.Toolset{set}, toolbox.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	first := open()
	if first.Known() || len(boxed(first.Now()).Decls()) != 0 || starts != 0 {
		t.Errorf("at first something is known: %d starts", starts)
	}
	if err := first.Ask(t.Context()); err != nil || !first.Known() || starts != 1 || changes != 1 {
		t.Fatalf("after it was asked: known %v, %d starts, %d changes, %v", first.Known(), starts, changes, err)
	}
	first.Close()
	if strings.Contains(string(kept), "hunter2") || len(kept) == 0 {
		t.Errorf("kept %s", kept)
	}

	again := open()
	old := boxed(again.Now())
	if d, ok := old.Decl("mcp__test__look"); !again.Known() || !ok || d.Effect != parley.EffectRead || starts != 1 {
		t.Fatalf("a process that knows it: %+v, %d starts", d, starts)
	}
	run := func(box *toolbox.Box) toolbox.Result {
		return box.Run(t.Context(), seam.Run{Call: "c1", Name: "mcp__test__look", Input: json.RawMessage(`{}`), Principal: parley.Principal{User: "ana"}}, time.Now().Add(within))
	}
	if res := run(old); res.Output != "looked" || starts != 2 || changes != 1 {
		t.Errorf("got %+v, %d starts, %d changes", res.ToolResult, starts, changes)
	}
	again.Close()

	about = "Writes."
	third := open()
	old = boxed(third.Now())
	if res := run(old); res.Outcome != parley.OutcomeError || !strings.Contains(res.Output, "since this turn began") || changes != 2 {
		t.Errorf("the older version got %+v, %d changes", res.ToolResult, changes)
	}
	now := boxed(third.Now())
	if d, _ := now.Decl("mcp__test__look"); d.Effect != parley.EffectWrite {
		t.Errorf("the newer version is %+v", d)
	}
	if res := run(now); res.Output != "looked" {
		t.Errorf("the newer version got %+v", res.ToolResult)
	}
	if res := run(old); res.Outcome != parley.OutcomeError {
		t.Errorf("later the older version got %+v", res.ToolResult)
	}
	third.Close() // it may still list the prompts, and keep them
	for _, bad := range []string{"", "{", `{"tools":null}`, `{"tools":[null]}`, `{"tools":[],"prompts":[null]}`} {
		kept = []byte(bad)
		if set := open(); set.Known() {
			t.Errorf("%q is taken for what is known", bad)
		}
	}
}
