package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// mcpRole is the role of an MCP server on standard input and output.
const mcpRole = "mcp"

func mcpServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "bench", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "hello"}}}, nil
	})
	return s
}

// direct is the same tool inside of this process.
type direct struct{}

func (direct) Tools(context.Context) ([]parley.ToolDecl, error) {
	return []parley.ToolDecl{{Name: "mcp__bench__echo", InputSchema: json.RawMessage(`{"type":"object"}`)}}, nil
}

func (direct) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: "hello"}, nil
}

// mcpCalls compares calls of a tool through MCP with calls of the same tool in Go. Both go
// through the toolbox, and one follows the other.
func mcpCalls(ctx context.Context, b *bench) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s := mcpServer()
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true}))
	defer web.Close()
	floor, err := toolbox.New([]seam.Toolset{direct{}}, toolbox.Options{})
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name string
		o    mcp.Options
	}{
		{"a program on stdio", mcp.Options{Run: []string{self}, Env: map[string]string{roleVariable: mcpRole}}},
		{"a service over HTTP", mcp.Options{URL: web.URL}},
	} {
		way.o.Name = "bench"
		if err := b.mcpWay(ctx, "mcp: a call of a tool, "+way.name, way.o, floor); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

func (b *bench) mcpWay(ctx context.Context, name string, o mcp.Options, floor *toolbox.Box) error {
	set, err := mcp.New(o)
	if err != nil {
		return err
	}
	defer set.Close()
	box, err := toolbox.New([]seam.Toolset{set}, toolbox.Options{})
	if err != nil {
		return err
	}
	var floors, values []float64
	for round := range pick(b, 5, 15) {
		var of [2]float64
		for i, box := range []*toolbox.Box{floor, box} {
			var took []float64
			for n := range pick(b, 100, 300) {
				began := time.Now()
				res := box.Run(ctx, seam.Run{Call: parley.CallID(fmt.Sprintf("%d-%d", round, n)), Name: "mcp__bench__echo", Input: json.RawMessage(`{}`), Attempt: 1}, time.Time{})
				if res.Outcome != parley.OutcomeOK {
					return fmt.Errorf("a call is %s: %s", res.Outcome, res.Output)
				}
				took = append(took, ms(time.Since(began)))
			}
			of[i] = median(took)
		}
		floors, values = append(floors, of[0]), append(values, of[1])
	}
	b.pairs(name, floors, values, millis, aim{})
	return nil
}
