package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/tool/ask"
)

// The tables. Each maps a name used in settings or an app.yaml to an implementation; a
// new one is a package and a line here.

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

// toolsets may be listed in an app.yaml under tools, beside those that apps bring.
var toolsets = map[string]app.Open{
	"ask":     func(app.ToolDeps) (app.Service, error) { return app.Service{Toolset: ask.New()}, nil },
	"command": newCommand,
	"http":    newWebhook,
	"mcp":     newMCPTools,
	"openapi": newOpenAPI,
}

// runtimes carry turns forward.
var runtimes = map[string]func(m seam.Models) seam.Runtime{
	"loop": func(m seam.Models) seam.Runtime { return loop.New(m, loop.Options{}) },
}

// kit is what the folders of apps may name.
type kit struct {
	apps  []app.App           // in the order in which they are mounted
	tools map[string]app.Open // by kind
	wires map[string]app.App  // whoever brings a wire, by its name
}

// newKit makes the kit of the apps that come with the program.
func newKit(brought ...app.App) *kit {
	k := &kit{apps: brought, tools: maps.Clone(toolsets), wires: map[string]app.App{}}
	for _, a := range brought {
		for kind, open := range a.Tools {
			if k.tools[kind] != nil {
				panic("parley: two apps bring the tools " + kind)
			}
			k.tools[kind] = open
		}
		for name := range a.Wires {
			if other, ok := k.wires[name]; ok {
				panic("parley: the apps " + other.Name + " and " + a.Name + " bring the wire " + name)
			}
			k.wires[name] = a
		}
	}
	return k
}

// known are the names.
func (k *kit) known() config.Known {
	return config.Known{Toolsets: names(k.tools), Wires: names(k.wires), Runtimes: names(runtimes)}
}

func names[T any](table map[string]T) []string { return slices.Sorted(maps.Keys(table)) }
