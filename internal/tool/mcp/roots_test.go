//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley/internal/tool/mcp"
)

//lint:file-ignore SA1019 roots are deprecated, and servers ask for them

// TestRoots: a server that asks for roots gets the folders of its scope, in both eras, and none if
// it has no scope.
func TestRoots(t *testing.T) {
	t.Parallel()
	for era, wrap := range eras {
		for _, roots := range [][]string{nil, {"/srv/a b"}} {
			s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
			s.AddTool(&sdk.Tool{Name: "where", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				res, ok := r.Params.InputResponses["q"].(*sdk.ListRootsResult)
				if !ok {
					return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ListRootsParams{}}}, nil
				}
				text := fmt.Sprintf("%d", len(res.Roots))
				for _, root := range res.Roots {
					text += " " + root.URI
				}
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			})
			box := asked(t, wrap(handler(s)), func(o *mcp.Options) { o.Roots = roots })
			res := run(t, box, &desk{}, "where", 1)
			if roots != nil && res.Output != "1 file:///srv/a%20b" || roots == nil && strings.Contains(res.Output, "file:") {
				t.Errorf("%s with %q: %+v", era, roots, res.ToolResult)
			}
		}
	}
}
