package main

import (
	"log/slog"

	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/workspace"
)

// scopes are those of the plan's apps.
func (p *plan) scopes(writer *eventlog.Writer, log *slog.Logger) (*scope.Scopes, error) {
	o := scope.Options{Clean: writer.RedactFile, Logger: log}
	for i, app := range p.resolved {
		a := scope.App{App: app, Tools: p.boxes[app.Name], With: p.apps[i].Resolve}
		if w := p.apps[i].Workspaces; w != nil {
			at := *w
			if at.Root == p.settings.WorkspacesRoot() && p.settings.WorkspacesDir == "" {
				at.There = p.there // it is in the data folder
			}
			var err error
			if a.Folders, err = workspace.New(at); err != nil {
				return nil, err
			}
		}
		o.Apps = append(o.Apps, a)
	}
	return scope.New(o)
}
