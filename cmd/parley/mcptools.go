package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/tool/mcp"
	"github.com/parley-server/parley/internal/toolbox"
)

// mcpStart bounds how long the start of Parley waits for the first list of a server's tools.
const mcpStart = 90 * time.Second

// newMCPTools makes tools of an MCP server that the app names under tools.mcp.
func newMCPTools(d app.ToolDeps) (app.Service, error) {
	m := d.Toolset.MCP
	o := mcp.Options{
		Name: m.Name, Run: m.Run, Dir: m.Dir, Env: m.Env, Memory: m.Memory,
		URL: m.URL, Headers: m.Headers, Bearer: m.Auth.Bearer, Hosts: m.Hosts, Private: m.Private,
		Allow: m.Allow, Tools: map[string]mcp.Override{}, Timeout: time.Duration(m.Timeout), Idle: time.Duration(m.Idle), AtOnce: m.AtOnce,
		Check: toolbox.Check, Logger: d.Logger,
	}
	if oauth := m.Auth.OAuth; oauth.ClientID != "" || oauth.ClientSecret != "" || oauth.Issuer != "" {
		o.OAuth = &mcp.OAuth{Issuer: oauth.Issuer, ClientID: oauth.ClientID, ClientSecret: oauth.ClientSecret, Scopes: oauth.Scopes}
	}
	for name, t := range m.Tools {
		o.Tools[name] = mcp.Override{Description: t.Description, Effect: t.Effect, Subject: t.Subject, Timeout: time.Duration(t.Timeout), KeyTTL: time.Duration(t.KeyTTL)}
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m.Env)) {
		env = append(env, name+"="+m.Env[name])
	}
	hidden := append(secrets(env, isFile), referred(m.Refs, isFile)...)
	for _, v := range m.Headers {
		hidden = append(hidden, keys(headerSecrets(v)...)...)
	}
	hidden = slices.DeleteFunc(append(hidden, passwords(m.Auth.Bearer, m.Auth.OAuth.ClientSecret)...), func(s string) bool { return s == "" })
	tools, err := mcp.New(o)
	if err != nil {
		return app.Service{}, d.Mistakes(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), mcpStart)
	defer cancel()
	if _, err := tools.Tools(ctx); err != nil {
		tools.Close()
		why := d.Clean(app.Says(err))
		for _, secret := range hidden { // a program may print its settings before it ends
			why = strings.ReplaceAll(why, secret, "[redacted]")
		}
		if !d.Check {
			return app.Service{}, &app.Off{Why: why} // the other apps need not wait for it
		}
		return app.Service{}, d.Mistakes(parley.Errorf(parley.CodeOf(err), "%s", why).WithField(parley.Info(err).Field))
	}
	return app.Service{Toolset: tools, Secrets: hidden, Close: tools.Close}, nil
}
