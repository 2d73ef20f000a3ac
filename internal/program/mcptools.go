package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/httpcall"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// mcpStart bounds how long app check waits for the list of a server's tools.
const mcpStart = 90 * time.Second

// newMCPTools makes the tools of an MCP server that the app names under tools.mcp.
func newMCPTools(d app.ToolDeps) (app.Service, error) {
	m := d.Toolset.MCP
	o := mcpOptions(m, d.Clean, d.Logger)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		env = append(env, name+"="+m.Env[name])
	}
	hidden := append(secrets(env, isFile), referred(m.Refs, isFile)...)
	for _, v := range m.Headers {
		hidden = append(hidden, keys(headerSecrets(v)...)...)
	}
	hidden = slices.DeleteFunc(append(hidden, passwords(m.Auth.Bearer.Value, m.Auth.Listing, m.Auth.OAuth.ClientSecret)...), func(s string) bool { return s == "" })
	if in := m.Auth.Login; in != nil {
		hidden = append(hidden, passwords(in.ClientSecret)...)
		// A login of nobody is enough for the checks that New makes.
		checked, err := loginOf(login.New(login.Options{}), login.Place{}, m, o)
		if err != nil {
			return app.Service{}, d.Mistakes(err)
		}
		set, err := mcp.New(checked)
		if err != nil {
			return app.Service{}, d.Mistakes(err)
		}
		return app.Service{Toolset: personal{set.Prefix()}, Secrets: slices.DeleteFunc(hidden, func(s string) bool { return s == "" })}, nil
	}
	name := kept(o)
	o.Kept = d.Kept(name)
	o.Keep = func(body []byte) { d.Keep(name, body) }
	var tell atomic.Pointer[func()]
	o.Changed = func() {
		if f := tell.Load(); f != nil {
			(*f)()
		}
	}
	tools, err := mcp.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	if d.Ask {
		if err := mistakesIn(tools); err != nil {
			tools.Close()
			return app.Service{}, d.Mistakes(parley.Errorf(parley.CodeOf(err), "%s", hide(d.Clean(app.Says(err)), hidden)).WithField(parley.Info(err).Field))
		}
	}
	return app.Service{Toolset: tools, Secrets: hidden, Close: tools.Close, Changes: func(f func()) { tell.Store(&f) }}, nil
}

// mcpOptions translates what an app's file says about a server.
func mcpOptions(m *config.MCPServer, clean func(string) string, log *slog.Logger) mcp.Options {
	o := mcp.Options{
		Name: m.Name, Run: m.Run, Dir: m.Dir, Env: m.Env, Memory: m.Memory,
		URL: m.URL, Headers: m.Headers, Bearer: httpcall.Secret(m.Auth.Bearer), Listing: m.Auth.Listing, PlainHTTP: m.Auth.PlainHTTP, Hosts: m.Hosts, Private: m.Private,
		Allow: m.Allow, Tools: map[string]mcp.Override{}, Timeout: time.Duration(m.Timeout), Idle: time.Duration(m.Idle), AtOnce: m.AtOnce,
		Sampling: m.Sampling, Check: toolbox.Check, Clean: clean, Logger: log,
	}
	if oauth := m.Auth.OAuth; oauth.ClientID != "" || oauth.ClientSecret != "" || oauth.Issuer != "" {
		o.OAuth = &mcp.OAuth{Issuer: oauth.Issuer, ClientID: oauth.ClientID, ClientSecret: oauth.ClientSecret, Scopes: oauth.Scopes}
	}
	for name, t := range m.Tools {
		o.Tools[name] = mcp.Override{Description: t.Description, Effect: t.Effect, Subject: t.Subject, Timeout: time.Duration(t.Timeout), KeyTTL: time.Duration(t.KeyTTL), Web: t.Web, Outward: t.Outward}
	}
	return o
}

// loginOf adds the login of one user to the options of a server.
func loginOf(all *login.Logins, at login.Place, m *config.MCPServer, o mcp.Options) (mcp.Options, error) {
	in := config.MCPLogin{}
	if m.Auth.Login != nil {
		in = *m.Auth.Login
	}
	var err error
	o.Login, err = all.At(at, login.Server{
		Name: m.Name, URL: o.URL, Hosts: o.Hosts, Private: o.Private, Issuer: in.Issuer, ClientID: in.ClientID, ClientSecret: in.ClientSecret, Scopes: in.Scopes, Clean: o.Clean,
	})
	return o, err
}

// personal stands for a server at which users log in. Each user's scope has its own toolset of it,
// see mcpFiles.
type personal struct{ prefix string }

// Tools implements [seam.Toolset].
func (personal) Tools(context.Context) ([]parley.ToolDecl, error) { return nil, nil }

// Run implements [seam.Toolset].
func (personal) Run(context.Context, seam.Run) (parley.ToolResult, error) {
	return parley.ToolResult{}, seam.NotSent(errors.New("its tools belong to a user"))
}

// mistakesIn starts the server and reports what is wrong with it.
func mistakesIn(tools *mcp.Toolset) error {
	if err := tools.Look(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mcpStart)
	defer cancel()
	if err := tools.Ask(ctx); err != nil {
		return err
	}
	return tools.Wrong()
}

// hide removes secrets from a text, because a program may print its settings before it ends.
func hide(text string, secrets []string) string {
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}

// kept is the name under which a server's lists are stored. A server with other options has another
// name. The name contains no secret.
func kept(o mcp.Options) string {
	raw, err := json.Marshal([]any{o.Name, o.Run, o.Dir, slices.Sorted(maps.Keys(o.Env)), o.URL, slices.Sorted(maps.Keys(o.Headers)), o.Bearer.Credential})
	if err != nil {
		panic(err) // it consists of texts
	}
	sum := sha256.Sum256(raw)
	return "mcp-" + hex.EncodeToString(sum[:16]) + ".json"
}
