package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/runtime/loop"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sim/simtest"
	"github.com/parley-server/parley/internal/store/postgres"
	"github.com/parley-server/parley/internal/store/sqlite"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/wire"
)

// house is a Parley as built by package program, with its own app, model and tools.
type house struct {
	store  seam.Store
	log    *eventlog.Writer
	reader *eventlog.Reader
	engine *engine.Engine
}

// setting holds the choices of a measurement.
type setting struct {
	dir       string
	upstream  string
	provider  string                      // index in the table of providers; empty: the bench's own model
	idleAfter time.Duration               // 0: the engine's default
	wrap      func(seam.Store) seam.Store // nil: unchanged
	postgres  string                      // address of the database; empty: SQLite in dir
	now       func() time.Time            // nil: time.Now
	tend      time.Duration               // 0: the engine's default
	tools     []seam.Toolset              // besides the bench's own
	app       func(*parley.App)           // nil: unchanged
	models    several                     // nil: the bench's own model, or the provider's
	runtime   seam.Runtime                // over these models; nil: the loop
}

// person is the user who measures.
var person = parley.Local

func build(ctx context.Context, s setting) (*house, error) {
	h := &house{}
	var opened seam.Store
	var err error
	if s.postgres != "" {
		opened, err = postgres.Open(ctx, s.postgres, postgres.Options{})
	} else {
		opened, err = sqlite.Open(ctx, s.dir, sqlite.Options{})
	}
	if err != nil {
		return nil, err
	}
	h.store = opened
	if s.wrap != nil {
		h.store = s.wrap(h.store)
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	h.log, h.reader = eventlog.New(h.store, redact.New(), eventlog.Options{Logger: logger})
	box, err := toolbox.New(append(s.tools, tools{}), toolbox.Options{Logger: logger})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	app := benchApp(box.Decls())
	if s.app != nil {
		s.app(&app)
	}
	models := map[string]seam.Model{modelName: model{s.upstream}}
	if n, err := strconv.Atoi(s.provider); err == nil {
		m, err := adapted(simtest.Providers()[n], s.upstream+"/"+s.provider, &app, nil)
		if err != nil {
			return nil, errors.Join(err, opened.Close())
		}
		app.Model = m.Info().Name
		models[app.Model] = m
	}
	m := several(models)
	if s.models != nil {
		m = s.models
	}
	runtime := s.runtime
	if runtime == nil {
		runtime = loop.New(m, loop.Options{})
	}
	h.engine, err = engine.New(engine.Options{
		Store: h.store, Log: h.log, Reader: h.reader, Models: m,
		Runtimes: map[string]seam.Runtime{"loop": runtime},
		Tools:    map[string]*toolbox.Box{app.Name: box},
		Apps:     []parley.App{app}, Logger: logger, IdleAfter: s.idleAfter, Now: s.now, TendEvery: s.tend,
	})
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return h, nil
}

func benchApp(decls []parley.ToolDecl) parley.App {
	return parley.App{
		Name: "bench", Title: "Bench", Runtime: "loop", Entry: "lead", Model: modelName,
		Agents:  map[string]parley.AgentDef{"lead": {Name: "lead", Prompt: "Do what the message says.", Tools: []string{"put", "mail"}}},
		Tools:   decls,
		Budgets: parley.Budgets{MaxSteps: 12, MaxToolCalls: 20, MaxDepth: 4},
		Policy:  parley.Policy{Rules: []parley.Rule{{Verdict: parley.Allow, Tool: "put"}}},
		Memory:  parley.MemoryOptions{LastK: 6},
		Busy:    parley.BusyReject, MaxOpenTurns: 1, Resume: parley.ResumeManual,
	}
}

// close closes the house. If ctx is done it does so at once, and turns stay open.
func (h *house) close(ctx context.Context) error {
	err := h.engine.Close(ctx)
	if ctx.Err() != nil {
		err = nil // that was intended
	}
	return errors.Join(err, h.log.Close(context.WithoutCancel(ctx)), h.store.Close())
}

// serveParley is a Parley server: the house behind its native API.
func serveParley(ctx context.Context, args []string, ready func(string, func() int)) (err error) {
	flags := flag.NewFlagSet("parley", flag.ContinueOnError)
	s := setting{}
	flags.StringVar(&s.provider, "provider", "", "number of the provider of the model")
	flags.StringVar(&s.dir, "dir", "", "data folder")
	flags.StringVar(&s.postgres, "postgres", "", "address of the database")
	flags.StringVar(&s.upstream, "upstream", "", "address of the upstream")
	flags.DurationVar(&s.idleAfter, "idle", 0, "when sessions leave memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	h, err := build(ctx, s)
	if err != nil {
		return err
	}
	over, cancel := context.WithCancel(context.Background())
	cancel() // closing does not wait for turns
	defer func() { err = errors.Join(err, h.close(over)) }()
	if _, err := h.engine.Recover(ctx); err != nil {
		return err
	}
	return serve(ctx, h.handler(), ready, h.engine.InMemory)
}

// handler is the native API of the house.
func (h *house) handler() http.Handler {
	native := api.New(api.Options{Engine: h.engine, Reader: h.reader, Blobs: h.store, Limits: wire.Limits{MaxStreams: 50_000}})
	mux := http.NewServeMux()
	for _, pattern := range api.Patterns() {
		mux.Handle(pattern, native)
	}
	return api.Guard(mux, api.GuardOptions{Hosts: []string{}})
}
