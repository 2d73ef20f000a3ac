package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parley-server/parley"
)

// The fields of a form and the reading of its answer are tested separately: no tool of the tests
// asks questions.
var (
	Form     = form
	AnswerOf = answerOf
)

// Connect serves one user without HTTP, for tests in fake time.
func (a *App) Connect(ctx context.Context, p parley.Principal, t mcp.Transport) (*mcp.ServerSession, error) {
	return a.server.Connect(context.WithValue(ctx, principalKey{}, p), t, nil)
}

// Connections counts the connections that the server has.
func (a *App) Connections() (n int) {
	for range a.server.Sessions() {
		n++
	}
	return n
}
