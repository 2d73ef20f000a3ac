package home

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// name is the name of the app's folder.
const name = "home"

// App is what this app brings: the tools of a Home Assistant, the panel of entities, the wire at
// /events, and its own tools, also at /mcp.
func App() app.App {
	return app.App{
		Name:  name,
		Tools: map[string]app.Open{"homeassistant": open},
		Wires: map[string]app.Mount{"events": mountEvents},
		Mount: mount,
		// The name under which the clients of the design that this app follows know them.
		MCPPrefix: "ha_agent",
		Demo:      demo,
	}
}

func mount(m app.Mux, d app.Deps) {
	m.Handle("/mcp", d.MCP(name))
	app.DescribeMCP(m, "mcp", "/mcp", "the app "+name)
	panels := map[string]http.Handler{}
	for of := range d.Toolsets {
		if h := houseOf(d, of); h != nil {
			panels[of] = Entities(EntityOptions{House: h, Principal: d.Principal, Fail: d.Fail, Open: d.Open})
		}
	}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := r.PathValue("app")
		if h := panels[of]; h != nil {
			h.ServeHTTP(w, r)
			return
		}
		d.Fail(w, parley.Errorf(parley.CodeNotFound, "the app %q has no entities to show", of))
	})
	m.Handle("/apps/{app}/entities", serve)
	m.Handle("/apps/{app}/entities/", serve)
	if len(panels) > 0 {
		describeEntities(m)
	}
}

func mountEvents(m app.Mux, d app.Deps) {
	m.Handle(http.MethodGet+" "+Path, Events(Options{
		Engine: d.Engine, Reader: d.Reader, Principal: d.Principal, Fail: d.Fail, Open: d.Open,
		PartialEvery: d.PartialEvery, House: func(of string) bool { return houseOf(d, of) != nil },
	}))
	describeEvents(m)
}

// houseOf returns the house of an app's tools; nil: they have none.
func houseOf(d app.Deps, of string) House {
	for _, t := range d.Toolsets[of] {
		if h, ok := t.(*tools); ok {
			return h.panel
		}
	}
	return nil
}

// tools are the tools of a house, with what its page shows.
type tools struct {
	*homeassistant.Toolset
	panel panel
}

var _ seam.Retriever = (*tools)(nil)

// supervisor is the address at which an add-on finds Home Assistant.
const supervisor = "http://supervisor/core"

// address is the URL and token of an app's Home Assistant. They come from the app's settings, or
// else from the usual variables, or else from the Supervisor of an add-on.
func address(env func(string) string, url, token string) (string, string) {
	if url == "" {
		url = env("HOME_ASSISTANT_URL")
	}
	if url != "" {
		return url, cmp.Or(token, env("HOME_ASSISTANT_TOKEN"))
	}
	if token := env("SUPERVISOR_TOKEN"); token != "" {
		return supervisor, token
	}
	return "", ""
}

// open makes the tools of a Home Assistant.
func open(d app.ToolDeps) (app.Service, error) {
	url, token := address(d.Env, d.Toolset.URL, d.Toolset.Token)
	if url == "" {
		if !d.Check {
			return app.Service{}, &app.Off{Why: "no Home Assistant is set up: set HOME_ASSISTANT_URL and HOME_ASSISTANT_TOKEN"}
		}
		url, token = supervisor, "none" // only the declarations of the tools are read
	}
	var allowed []string
	if p := d.App.Policy; p.AllowActuation != nil && *p.AllowActuation {
		allowed = slices.Clone(p.AllowlistedServices)
	}
	feed := &Feed{}
	var told atomic.Pointer[func(engine.Observation)]
	t, err := homeassistant.New(homeassistant.Options{
		URL: url, Token: token, AllowServices: allowed, Later: true, Logger: d.Logger,
		Keep: func(_ context.Context, r seam.Run, f homeassistant.File) error {
			return r.Keep(seam.File{Name: f.Name, MediaType: f.MediaType, Body: f.Body})
		},
		Observe: func(c homeassistant.Change) {
			feed.Observe(Change{Entity: c.Entity, State: d.Clean(c.New), At: c.At})
			if tell := told.Load(); tell != nil && c.Old != c.New {
				(*tell)(engine.Observation{App: d.App.Name, Source: "homeassistant", Ref: c.Entity, Text: c.Old + " → " + c.New, At: c.At})
			}
		},
	})
	if err != nil {
		return app.Service{}, parley.Errorf(parley.CodeInvalid, "app %s: %w", d.App.Name, err)
	}
	return app.Service{
		Toolset: &tools{t, panel{t, feed, d.Clean}},
		Secrets: []string{token},
		Start:   t.Start,
		Close:   func() { feed.Close(); t.Close() },
		Observe: func(tell func(engine.Observation)) { told.Store(&tell) },
		Meta: func() any {
			if m, ok := t.Index().Meta(); ok {
				return m
			}
			return nil
		},
	}, nil
}
