package program

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/tool/attachment"
	laketools "github.com/parley-server/parley/internal/tool/lake"
	plans "github.com/parley-server/parley/internal/tool/plan"
	tidytools "github.com/parley-server/parley/internal/tool/tidy"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
)

// These tables map names in settings or an app.yaml to implementations. A new implementation is a
// package and a line here.

// stores keep logs. own is the lock of the data folder.
var stores = map[string]func(ctx context.Context, s config.Settings, own *lock, log *slog.Logger) (seam.Store, error){
	"sqlite": func(ctx context.Context, s config.Settings, own *lock, log *slog.Logger) (seam.Store, error) {
		return sqlite.Open(ctx, s.Data, sqlite.Options{Logger: log, Guard: own.held, Beside: []string{archive.FolderName}})
	},
	"mem": func(context.Context, config.Settings, *lock, *slog.Logger) (seam.Store, error) {
		return mem.New(), nil
	},
	"postgres": openPostgres,
}

// toolsets may be listed in an app.yaml under tools, as may those that apps bring.
var toolsets = map[string]app.Open{
	"ask": func(app.ToolDeps) (app.Service, error) { return app.Service{Toolset: ask.New()}, nil },
	"client": func(d app.ToolDeps) (app.Service, error) {
		return app.Service{Toolset: toolbox.Clients(d.Toolset.Client)}, nil
	},
	"bash":    newBash,
	"command": newCommand,
	"http":    newWebhook,
	"lake": func(d app.ToolDeps) (app.Service, error) {
		return app.Service{Toolset: laketools.New(laketools.Options{Lakes: d.Lakes}), Inspect: func(ctx context.Context) []app.Finding { return inspectLakes(ctx, d.App) }}, nil
	},
	"tidy": func(d app.ToolDeps) (app.Service, error) {
		return app.Service{Toolset: tidytools.New(tidytools.Options{App: d.App.Name, Lakes: d.Lakes})}, nil
	},
	"mcp":     newMCPTools,
	"openapi": newOpenAPI,
	"rest":    newREST,
	"attachments": func(app.ToolDeps) (app.Service, error) {
		return app.Service{Toolset: attachment.New()}, nil
	},
	"plan": func(app.ToolDeps) (app.Service, error) { return app.Service{Toolset: plans.New()}, nil },
	"workspace": func(d app.ToolDeps) (app.Service, error) {
		return app.Service{Toolset: workspacetools.New(workspacetools.Options{Checkpoints: d.Checkpoints, Requested: d.Touching, Turns: d.LargeFiles})}, nil
	},
	"linkedin": newLinkedIn,
	"web":      newWeb,
}

// runtimes carry turns forward.
var runtimes = map[string]func(p *plan) seam.Runtime{
	"loop":   func(p *plan) seam.Runtime { return loop.New(p.models, loop.Options{}) },
	"claude": func(p *plan) seam.Runtime { return p.claude },
}

// kit is what a program consists of besides these tables, and what the folders of apps may name.
type kit struct {
	folders []fs.FS                 // of the apps that come with the program
	apps    []app.App               // in the order in which they are mounted
	tools   map[string]app.Open     // by kind
	wires   map[string]app.App      // the app that brings a wire, by the wire's name
	pages   map[string]http.Handler // that parts bring, by app
	fetches map[string]app.Fetching // that parts bring, by app
	touches map[string]app.Touching // that parts bring, by app

	args    []string                  // of the process
	restart func(args []string) error // see [restart]; nil: we may not end the process
}

// newKit makes the kit of a program with these parts.
func newKit(parts ...app.Part) (*kit, error) {
	k := &kit{tools: maps.Clone(toolsets), wires: map[string]app.App{}, pages: map[string]http.Handler{}, fetches: map[string]app.Fetching{}, touches: map[string]app.Touching{}}
	for _, part := range parts {
		a := part.Brings()
		if a.Folders != nil {
			k.folders = append(k.folders, a.Folders)
		}
		k.apps = append(k.apps, a)
		if a.Fetching != nil {
			k.fetches[a.Name] = a.Fetching
		}
		if a.Touching != nil {
			k.touches[a.Name] = a.Touching
		}
		for kind, open := range a.Tools {
			if !config.ToolKind(kind) {
				return nil, parley.Errorf(parley.CodeInvalid, "%q cannot be a kind of tools", parley.Cut(kind, 60)).
					WithHint("it is a key under tools in an app.yaml: lower-case letters, digits, - and _")
			}
			if k.tools[kind] != nil {
				return nil, parley.Errorf(parley.CodeInvalid, "the program has two kinds of tools that are named %s", kind).
					WithHint("give one of them another name; these come with every program: %s", strings.Join(names(toolsets), ", "))
			}
			k.tools[kind] = open
		}
		if a.Page != nil {
			if k.pages[a.Name] != nil || !config.AppName(a.Name) {
				return nil, parley.Errorf(parley.CodeInvalid, "the program has two pages for %q, or no app can have that name", parley.Cut(a.Name, 60)).
					WithHint("name the app whose page it is, and bring one page for each")
			}
			k.pages[a.Name] = a.Page
		}
		for name := range a.Wires {
			if other, ok := k.wires[name]; ok {
				return nil, parley.Errorf(parley.CodeInvalid, "the apps %s and %s bring the wire %s", other.Name, a.Name, name)
			}
			k.wires[name] = a
		}
	}
	return k, nil
}

// known returns the names that settings may use.
func (k *kit) known() config.Known {
	return config.Known{Toolsets: names(k.tools), Wires: names(k.wires), Runtimes: names(runtimes)}
}

func names[T any](table map[string]T) []string { return slices.Sorted(maps.Keys(table)) }
