package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// These are tested separately: no tool of the tests asks questions, or fails in every form.
var (
	Form     = form
	AnswerOf = answerOf
	Result   = result
)

const MaxBatch = maxBatch

// Connect serves one user without HTTP, for tests in fake time.
func (a *App) Connect(ctx context.Context, p parley.Principal, t mcp.Transport) (*mcp.ServerSession, error) {
	a.filled.Do(a.fill)
	return a.server.Connect(context.WithValue(ctx, principalKey{}, p), t, nil)
}

// Connections counts the connections that the server has.
func (a *App) Connections() (n int) {
	for range a.server.Sessions() {
		n++
	}
	return n
}
