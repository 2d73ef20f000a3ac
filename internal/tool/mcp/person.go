//go:build unix

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Where people log in at a server, each has a toolset of their own, because the server may offer
// each of them other tools. Before a call is made, Prepare asks the person to log in if that is
// needed. So no call has begun while the turn waits. A server may refuse even to list its tools
// before a login, so there is always one tool of our own, loginTool. It stays when the tools are
// known, because a turn that called it goes on after the login.

// errLogin is the error of a server that requires a login when nobody is logged in.
var errLogin = errors.New("nobody is logged in")

// loginError is the error for a missing login, with a hint what to do.
func (o Options) loginError() error {
	e := parley.Errorf(parley.CodeUnauthenticated, "the MCP server %s asks for a login: %w", o.Name, errLogin)
	if o.Login == nil {
		return e.WithHint("if people can log in there, write login: {} under auth of the server in app.yaml; otherwise configure a token there, with bearer or oauth")
	}
	return e.WithHint("call the tool again, and the user is asked to log in")
}

// withLogin adds loginTool to the tools of a server at which people log in, unless the server has a
// tool of that name.
func (o Options) withLogin(list []definition) []definition {
	own := o.loginTool()
	if o.Login == nil || slices.ContainsFunc(list, func(d definition) bool { return d.logsIn || d.decl.Name == own.decl.Name }) {
		return list
	}
	return append(slices.Clip(list), own)
}

// loginTool asks a person to log in.
func (o Options) loginTool() definition {
	return definition{logsIn: true, decl: parley.ToolDecl{
		Name:   o.toolName("login"),
		Effect: parley.EffectRead,
		Description: fmt.Sprintf("Asks the user to log in at the MCP server %s. Call it if the user wants something from %s and none of its other tools is there: "+
			"they are known after the first login, and can be called from the user's next message on. Otherwise do not call it: each of them asks for the login itself.", o.Name, o.Name),
		InputSchema: json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
	}}
}

// loggedIn is the result of loginTool. When it runs, the person is logged in, or no login is
// needed.
func (t *Toolset) loggedIn(ctx context.Context, r seam.Run) (parley.ToolResult, error) {
	if err := t.Ask(ctx); err != nil {
		return parley.ToolResult{}, seam.NotSent(err)
	}
	var names []string
	for _, d := range t.known.now() {
		names = append(names, d.decl.Name)
	}
	return parley.ToolResult{Call: r.Call, Outcome: parley.OutcomeOK, Output: parley.Cut(fmt.Sprintf(
		"The user is logged in at %s. From the user's next message on you can call: %s", t.o.Name, strings.Join(names, ", ")), maxShown)}, nil
}

const opened = "Have you logged in there?"

// Prepare implements [seam.Preparer].
func (t *Toolset) Prepare(ctx context.Context, r seam.Run) (*parley.Interaction, error) {
	if t.o.Login == nil {
		return nil, nil
	}
	if err := t.hide(ctx, r); err != nil { // a refusal may repeat the token that was sent
		return nil, err
	}
	d, _ := t.find(r.Name)
	link, err := t.o.Login.Needed(ctx, d.name)
	if err != nil || link == "" {
		return nil, err
	}
	return &parley.Interaction{
		Kind: parley.KindQuestion, Title: t.o.Login.Title(), Text: t.o.Login.Text(link), URL: link,
		Questions: []parley.Question{{Header: "Login", Question: opened, Options: []parley.Option{{Label: "Done", Description: "I have logged in"}}}},
	}, nil
}

// hide keeps the person's tokens out of everything that the session stores or shows.
func (t *Toolset) hide(ctx context.Context, r seam.Run) error {
	if r.Hide == nil {
		return nil
	}
	values := t.o.tokens(ctx)
	if len(values) == 0 {
		return nil
	}
	return r.Hide(values...)
}

// tokens returns the tokens of the person whose toolset this is.
func (o Options) tokens(ctx context.Context) []string {
	if o.Login == nil {
		return nil
	}
	return o.Login.Values(ctx)
}

// reveals reports whether something that a server lists contains one of the tokens. Lists are
// kept, and are in prompts, so what reveals a token is left out of them.
func (o Options) reveals(tokens []string, name string, listed any) bool {
	if len(tokens) == 0 {
		return false
	}
	raw, err := json.Marshal(listed)
	if err == nil && !slices.ContainsFunc(tokens, func(s string) bool { return bytes.Contains(raw, []byte(s)) }) {
		return false
	}
	o.Logger.Warn("something of an MCP server is left out, because it repeats the login of its user", "server", o.Name, "name", o.clean(without(tokens, name), 200))
	return true
}

// without returns a text without the tokens.
func without(tokens []string, text string) string {
	for _, s := range tokens {
		text = strings.ReplaceAll(text, s, "[redacted]")
	}
	return text
}
