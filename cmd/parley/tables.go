package main

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps/chaos"
	"github.com/parley-server/parley/apps/home"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/records"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/tool/ask"
	"github.com/parley-server/parley/internal/tool/notion"
	"github.com/parley-server/parley/internal/tool/slack"
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

// toolsets may be listed in an app.yaml under tools.
var toolsets = map[string]func(data config.Folder) seam.Toolset{
	"ask":    func(config.Folder) seam.Toolset { return ask.New() },
	"notion": func(data config.Folder) seam.Toolset { return notion.New(records.Folder(data)) },
	"slack":  func(data config.Folder) seam.Toolset { return slack.New(records.Folder(data)) },
}

// services are toolsets for something outside, with settings and a lifetime of their own;
// an app.yaml lists them under tools, too.
var services = map[string]func(d serviceDeps) (service, error){
	"command":       newCommand,
	"homeassistant": newHome,
	"http":          newWebhook,
	"openapi":       newOpenAPI,
}

type serviceDeps struct {
	settings config.Settings
	app      *config.App
	toolset  config.Toolset
	check    bool // nothing will run: only the declarations are needed
	log      *slog.Logger
	red      *redact.Redactor
}

// clean is text without secrets.
func (d serviceDeps) clean(text string) string {
	text, _ = d.red.String(text)
	return text
}

// service is one of the services. start is called when the server has its data folder,
// close after the last turn.
type service struct {
	seam.Toolset
	start   func()
	close   func()
	secrets []string                       // that no text may hold
	observe func(func(engine.Observation)) // sets who is told about events there; nil: there are none
	house   home.House                     // for a page's panel of entities; nil: there is none
	meta    func() any                     // of the index of what is outside, for live files; nil: there is none
}

// offError says why an app cannot be served here although nothing is wrong with it.
type offError struct{ why string }

func (e *offError) Error() string { return e.why }

// runtimes carry turns forward.
var runtimes = map[string]func(m seam.Models) seam.Runtime{
	"loop": func(m seam.Models) seam.Runtime { return loop.New(m, loop.Options{}) },
}

// wire is an app's own wire: a path of the server, for the app that names it.
type wire struct {
	method string
	path   string
	app    string // that names it, among the apps that come with Parley
	// describe puts it into the document of the API.
	describe func(s *api.Server)
	open     func(app string, d wireDeps) http.Handler
}

type wireDeps struct {
	engine    *engine.Engine
	reader    *eventlog.Reader
	api       *api.Server
	principal func(ctx context.Context) (parley.Principal, error)
	mcp       []*mcpserver.App // of the apps, in their order
	houses    map[string]home.House
	apps      []*config.App // as their folders give them
	settings  config.Settings
	log       *slog.Logger
}

// wires may be listed in an app.yaml under wires.
var wires = map[string]wire{
	"chat": {http.MethodPost, chaos.Path, "chaos", describeChat, func(app string, d wireDeps) http.Handler {
		return chaos.Chat(chaos.Options{
			App: app, Engine: d.engine, Follow: d.reader.Follow, Principal: d.principal, Fail: api.WriteError, Open: d.api.Open,
			MaxBody: int64(d.settings.Limits.MaxBody), MaxMessage: int(d.settings.Limits.MaxMessage),
		})
	}},
	"events": {http.MethodGet, home.Path, "home", describeEvents, func(app string, d wireDeps) http.Handler {
		return home.Events(home.Options{
			Engine: d.engine, Reader: d.reader, Principal: d.principal, Fail: api.WriteError, Open: d.api.Open,
			PartialEvery: d.partialEvery(app), House: func(app string) bool { return d.houses[app] != nil },
		})
	}},
}

// partialEvery is how long an app's wire collects text: as the server's settings say, or
// else the app's.
func (d wireDeps) partialEvery(app string) time.Duration {
	every := d.settings.Events.PartialEvery
	for _, a := range d.apps {
		if every == 0 && a.Name == app {
			every = a.PartialEvery
		}
	}
	return time.Duration(every)
}

func names[T any](table map[string]T) []string { return slices.Sorted(maps.Keys(table)) }
