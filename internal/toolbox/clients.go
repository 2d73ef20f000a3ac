package toolbox

import (
	"context"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Clients is a toolset of tools that clients of a session run. The engine offers their
// calls to clients and never calls Run.
type Clients []parley.ToolDecl

// Tools implements [seam.Toolset].
func (c Clients) Tools(context.Context) ([]parley.ToolDecl, error) {
	list := make([]parley.ToolDecl, len(c))
	for i, d := range c {
		d.Run = parley.RunClient
		list[i] = d
	}
	return list, nil
}

// Run implements [seam.Toolset].
func (c Clients) Run(_ context.Context, r seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, seam.NotSent(parley.Errorf(parley.CodeInternal, "%s is run by clients", r.Name))
}
