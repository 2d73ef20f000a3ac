package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/apps"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/telemetry"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/wire"
	"github.com/parley-server/parley/web"
)

// house is everything that one process owns.
type house struct {
	apps   []parley.App
	scopes *scope.Scopes
	engine *engine.Engine
	api    *api.Server
	mcp    []*mcpserver.App
	table  *table // all doors; behind puts a login before them

	off      map[string]string // apps that are not served, and why
	services []app.Service
	limits   config.Limits

	store  seam.Store
	taken  <-chan struct{} // closed when another server has taken the store; nil: never
	writer *eventlog.Writer
	files  *livefiles.Files  // nil when no app has any
	traces *telemetry.Tracer // nil if traces are not exported
	log    *slog.Logger

	prepared sync.WaitGroup     // preparations that run while serving
	abandon  context.CancelFunc // ends it
}

// plan is everything needed to build a house before anything is opened, so that a mistake
// in an app is found without touching the data folder.
type plan struct {
	kit      *kit
	settings config.Settings
	apps     []*config.App
	resolved []parley.App
	boxes    map[string]*toolbox.Box
	models   *models
	sets     map[string][]seam.Toolset // of the apps, as they were opened
	services []app.Service
	off      map[string]string  // apps that cannot be served here, and why
	disabled []string           // apps that the settings do not enable
	meta     func() any         // of index/meta.json; nil: there is none
	folder   *datafolder.Folder // the data folder, once this process has taken it
	own      *lock              // of the data folder
	red      *redact.Redactor   // the one that stands before all that is kept and shown
}

func (k *kit) plan(s config.Settings, log *slog.Logger) (*plan, error) {
	return k.planFor(s, false, log)
}

// planFor makes the plan of a house. With check set it is only inspected, and includes
// apps whose service is not configured.
func (k *kit) planFor(s config.Settings, check bool, log *slog.Logger) (made *plan, err error) {
	answers, err := newAnswerers(s, log)
	if err != nil {
		return nil, err
	}
	if s.Model == "" {
		if s.Models.Default, s.Models.Hosted, err = answers.defaultModel(); err != nil {
			return nil, err
		}
	}
	list, err := s.LoadApps(apps.FS(), k.known())
	if err != nil {
		return nil, err
	}
	p := &plan{
		kit: k, settings: s, boxes: map[string]*toolbox.Box{}, models: answers, sets: map[string][]seam.Toolset{}, off: map[string]string{},
	}
	if p.disabled, err = s.Disabled(apps.FS()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	p.red = redact.New(knownSecrets(s)...)
	for _, a := range list {
		made, err := p.toolsets(a, check, log)
		if off, ok := errors.AsType[*app.Off](err); ok {
			p.off[a.Name] = off.Why
			continue
		}
		if err != nil {
			return nil, err
		}
		p.sets[a.Name] = made
		p.apps = append(p.apps, a)
	}
	if len(p.apps) == 0 {
		for _, name := range names(p.off) {
			return nil, parley.Errorf(parley.CodeInvalid, "there is no app to serve: %s is off", name).WithHint("%s", p.off[name])
		}
	}
	if err := p.models.add(s, p.apps); err != nil {
		return nil, err
	}
	for i, secret := range p.secrets() {
		p.red.Add(strconv.Itoa(i), secret)
	}
	for _, a := range p.apps {
		box, err := toolbox.New(p.sets[a.Name], toolbox.Options{Logger: log, Redact: p.red.String})
		if err != nil {
			return nil, err
		}
		resolved, err := a.Resolve(box.Decls())
		if err != nil {
			return nil, err
		}
		if err := p.models.host(&resolved, s.Data, p.there); err != nil {
			return nil, err
		}
		if err := p.models.has(resolved); err != nil {
			return nil, err
		}
		p.boxes[a.Name] = box
		p.resolved = append(p.resolved, resolved)
	}
	return p, nil
}

// close ends the services of a plan that is not built.
func (p *plan) close() {
	for _, s := range p.services {
		if s.Close != nil {
			s.Close()
		}
	}
}

// took says that this process has the data folder now.
func (p *plan) took(own *lock) {
	p.own, p.folder = own, datafolder.New(p.settings.Data, own.held)
}

// there reports whether the data folder went away after it was taken.
func (p *plan) there() error {
	if p.folder == nil {
		return nil
	}
	return p.folder.Check()
}

// toolsets makes the toolsets of an app.
func (p *plan) toolsets(a *config.App, check bool, log *slog.Logger) ([]seam.Toolset, error) {
	var list []seam.Toolset
	for _, t := range a.Toolsets {
		made, err := p.kit.tools[t.Kind](app.ToolDeps{
			App: a, Toolset: t, Check: check, Env: p.settings.Env, Logger: log,
			Clean: func(text string) string { text, _ = p.red.String(text); return text },
		})
		if err != nil {
			return nil, err
		}
		list = append(list, made.Toolset)
		p.services = append(p.services, made)
		if a.LiveFiles && p.meta == nil {
			p.meta = made.Meta
		}
	}
	return list, nil
}

// limits are those of all routes.
func (p *plan) limits() wire.Limits {
	l := p.settings.Limits
	return wire.Limits{MaxBody: int64(l.MaxBody), MaxMessage: int(l.MaxMessage), MaxStreams: l.MaxStreams}.Defaults()
}

// partialEvery is how long an app's wire collects text: as the server's settings say, or
// else the app's.
func (p *plan) partialEvery(name string) time.Duration {
	every := p.settings.Events.PartialEvery
	for _, a := range p.apps {
		if every == 0 && a.Name == name {
			every = a.PartialEvery
		}
	}
	return time.Duration(every)
}

// notServed says of each app that is not served why.
func (p *plan) notServed() map[string]string {
	off := maps.Clone(p.off)
	for _, name := range p.disabled {
		off[name] = "the setting enabled does not name it"
	}
	return off
}

// secrets are those of the services.
func (p *plan) secrets() []string {
	var list []string
	for _, s := range p.services {
		list = append(list, s.Secrets...)
	}
	return list
}

// labels are the names that metrics may have.
func (p *plan) labels() telemetry.Labels {
	l := telemetry.Labels{Models: p.models.Names()}
	for _, a := range p.resolved {
		for _, d := range a.Tools {
			l.Tools = append(l.Tools, d.Name)
		}
	}
	return l
}

// build opens the store in the plan's data folder, whose lock the caller holds, and
// builds everything on it.
func (p *plan) build(ctx context.Context, notices []string, log *slog.Logger) (*house, error) {
	at, err := storeOf(p.settings)
	if err != nil {
		return nil, err
	}
	base, err := stores[at.kind](ctx, p.settings, p.own, log)
	if err != nil {
		return nil, err
	}
	counts := telemetry.New(p.labels())
	traces, err := telemetry.NewTracer(telemetry.TraceOptions{
		Endpoint: p.settings.Telemetry.OTLPEndpoint, Headers: p.settings.Telemetry.Headers, Content: p.settings.Telemetry.Content,
		Version: version, Metrics: counts, Env: os.LookupEnv, Logger: log,
	})
	if err != nil {
		_ = base.Close()
		return nil, usage(err)
	}
	store := traces.Store(counts.Store(base))
	kept := archive.NewFolder(p.folder)
	writer, reader := eventlog.New(store, p.red, eventlog.Options{Logger: log, Archive: kept})
	h := &house{apps: p.resolved, store: store, writer: writer, traces: traces, log: log, off: p.off, services: p.services, limits: p.settings.Limits}
	if b, ok := base.(interface{ Taken() <-chan struct{} }); ok {
		h.taken = b.Taken()
	}
	carriers := map[string]seam.Runtime{}
	for name, make := range runtimes {
		carriers[name] = make(p.models)
	}
	if h.scopes, err = p.scopes(writer, log); err != nil {
		_ = writer.Close(ctx)
		traces.Close(ctx)
		_ = store.Close()
		return nil, err
	}
	h.files = p.liveFiles(log, reader, store, kept, counts)
	h.engine, err = engine.New(engine.Options{
		Store: store, Log: writer, Reader: reader, Runtimes: carriers, Models: p.models, Scopes: h.scopes, Off: p.notServed(), Logger: log,
		Archive: shelf{kept, h.files}, NothingRuns: nothingRuns, Zone: serverZone(),
		Limits: engine.Limits{
			MaxMessage: int(p.settings.Limits.MaxMessage),
			USDPerDay:  p.settings.Limits.USDPerDay, UserUSDPerDay: p.settings.Limits.UserUSDPerDay, TurnsPerMinute: p.settings.Limits.TurnsPerMinute,
			Sessions: p.settings.Limits.SessionsPerUser, Bytes: int64(p.settings.Limits.BytesPerUser),
		},
	})
	if err != nil {
		_ = writer.Close(ctx)
		h.closeFiles(ctx)
		traces.Close(ctx)
		_ = store.Close()
		return nil, err
	}
	h.api = api.New(api.Options{
		Engine: h.engine, Reader: reader, Blobs: store, Principal: auth.Principal,
		Import: func(ctx context.Context, p parley.Principal, s archive.Session) (parley.SessionInfo, error) {
			return h.engine.Import(ctx, p, engine.Imported(s))
		},
		Providers: p.models.ask,
		Redact:    func(body []byte) []byte { body, _ = writer.RedactFile(body); return body },
		Version:   version, Off: p.notServed(), Notices: notices, Metrics: metered(counts.Handler()), Streams: counts.Streams, Logger: log,
		Limits: p.limits(),
	})
	deps := doorDeps{plan: p, engine: h.engine, reader: reader, api: h.api, principal: auth.Principal, log: log}
	for _, a := range p.resolved {
		h.mcp = append(h.mcp, newMCPServer(a, deps))
	}
	deps.mcp = h.mcp
	h.table, err = doors(p.resolved, deps)
	if err != nil {
		_ = h.close(ctx, 0)
		return nil, err
	}
	for _, s := range h.services {
		if s.Observe != nil {
			s.Observe(h.engine.Observe)
		}
		if s.Start != nil {
			s.Start()
		}
	}
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	h.abandon = abandon
	h.prepared.Go(func() { p.models.prepare(work, log) })
	return h, nil
}

// pages serves the apps' pages: "/" is the page of the only app, or else the list of
// apps.
func pages(t *table, list []parley.App, d doorDeps) {
	site := web.Handler()
	var withPage []string
	for _, a := range list {
		if _, err := fs.Stat(web.FS(), a.Name+".html"); err == nil {
			withPage = append(withPage, a.Name)
		}
	}
	t.Page("/apps/{app}/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("app")
		if !slices.ContainsFunc(list, func(a parley.App) bool { return a.Name == name }) {
			if _, err := d.principal(r.Context()); err != nil { // the list of apps is for those who are known
				api.WriteError(w, parley.Errorf(parley.CodeNotFound, "there is no page at %s", parley.Cut(r.URL.Path, 200)).
					WithHint("log in at /, which lists the apps"))
				return
			}
			d.noApp(w, name)
			return
		}
		site.ServeHTTP(w, r)
	}))
	t.Page("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && len(list) == 1 && len(withPage) == 1 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			w.Header().Set("Location", "apps/"+withPage[0]+"/") // relative: a proxy may have put a prefix before us
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(http.StatusFound)
			return
		}
		site.ServeHTTP(w, r)
	}))
}

// closeFiles writes what remains of the sessions' files; the log is closed.
func (h *house) closeFiles(ctx context.Context) {
	if h.files != nil {
		h.files.Close(ctx)
	}
}

// close stops accepting commands, waits up to grace for running turns, ends all streams
// and closes the store. The next start finds the turns that did not end.
func (h *house) close(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(grace, time.Millisecond))
	defer cancel()
	if h.abandon != nil {
		h.abandon()
	}
	h.prepared.Wait()
	err := h.engine.Close(ctx)
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the next start finds what is left
	}
	err = errors.Join(err, h.writer.Close(flush))
	h.closeFiles(flush)
	for _, m := range h.mcp {
		m.Close(flush)
	}
	if serr := h.scopes.Close(flush); serr != nil {
		h.log.Warn("not all tools were closed in time", "err", serr)
	}
	for _, s := range h.services {
		if s.Close != nil {
			s.Close()
		}
	}
	last, sent := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // a collector that does not answer must not delay the stop
	defer sent()
	h.traces.Close(last)
	return errors.Join(err, h.store.Close())
}

// nothingRuns is [engine.Options.NothingRuns]. Tests that kill the program set it, since
// they know that no write is still under way.
var nothingRuns bool
