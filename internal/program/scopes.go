package program

import (
	"context"
	"log/slog"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/workspace"
)

// scopes are those of the plan's apps.
func (p *plan) scopes(writer *eventlog.Writer, log *slog.Logger) (*scope.Scopes, error) {
	o := scope.Options{Clean: writer.RedactFile, Logger: log}
	for i, app := range p.resolved {
		a, err := p.scopeApp(p.apps[i], app, p.boxes[app.Name], p.opened[app.Name], p.unknown[app.Name], log)
		if err != nil {
			return nil, err
		}
		o.Apps = append(o.Apps, a)
	}
	return scope.New(o)
}

// scopeApp is an app as every scope has it.
func (p *plan) scopeApp(of *config.App, app parley.App, box *toolbox.Box, sets []*opened, unknown []string, log *slog.Logger) (scope.App, error) {
	a := scope.App{App: app, Tools: box, Close: func() { release(sets) }}
	a.With = func(decls []parley.ToolDecl) (parley.App, error) {
		decls, gone := shadowed(decls)
		return of.Resolve(decls, append(gone, unknown...)...)
	}
	if len(strangers(sets)) > 0 {
		a.Unknown = func() bool { return len(strangers(sets)) > 0 }
		a.Learn = func(ctx context.Context) { p.learn(ctx, app.Name, sets) }
	}
	if w := of.Workspaces; w != nil {
		at := *w
		if at.Root == p.settings.WorkspacesRoot() && p.settings.WorkspacesDir == "" {
			at.There = p.there // it is in the data folder
		}
		var err error
		if a.Folders, err = workspace.New(at); err != nil {
			return a, err
		}
	}
	if len(of.Extensions) > 0 || len(loginServers(of)) > 0 {
		a.Sources = append(a.Sources, p.mcpFiles(of, log))
	}
	if of.Extended() {
		a.Sources = append(a.Sources, p.extensions(of, log))
	}
	return a, nil
}
