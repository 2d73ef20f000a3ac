package program

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/api"
	"github.com/parley-server/parley/internal/app"
	"github.com/parley-server/parley/internal/approval"
	"github.com/parley-server/parley/internal/archive"
	"github.com/parley-server/parley/internal/attach"
	"github.com/parley-server/parley/internal/auth"
	"github.com/parley-server/parley/internal/checkpoint"
	"github.com/parley-server/parley/internal/config"
	"github.com/parley-server/parley/internal/datafolder"
	"github.com/parley-server/parley/internal/doors"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/extract"
	"github.com/parley-server/parley/internal/fair"
	"github.com/parley-server/parley/internal/lake"
	"github.com/parley-server/parley/internal/livefiles"
	"github.com/parley-server/parley/internal/login"
	"github.com/parley-server/parley/internal/mcpserver"
	"github.com/parley-server/parley/internal/push"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/runtime/claudecli"
	"github.com/parley-server/parley/internal/schedule"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/telemetry"
	workspacetools "github.com/parley-server/parley/internal/tool/workspace"
	"github.com/parley-server/parley/internal/toolbox"
	"github.com/parley-server/parley/internal/vault"
	"github.com/parley-server/parley/internal/wire"
)

// house is everything that one process owns.
type house struct {
	apps   []parley.App
	scopes *scope.Scopes
	engine *engine.Engine
	api    *api.Server
	roll   *roll
	table  *doors.Table // all doors; behind puts a login before them
	access *auth.Access // what lets callers in
	own    *ownPages

	plan   *plan
	off    map[string]string // apps that are not served, and why
	anew   *reader           // of the apps, when their files change
	deps   doorDeps
	limits config.Limits

	store     seam.Store
	taken     <-chan struct{} // closed when another server has taken the store; nil: never
	carriers  map[string]seam.Runtime
	writer    *eventlog.Writer
	files     *livefiles.Files // nil when no app has any
	push      *push.Push
	schedules *schedule.Schedules
	traces    *telemetry.Tracer // nil if traces are not exported
	log       *slog.Logger

	prepared sync.WaitGroup     // preparations that run while serving
	abandon  context.CancelFunc // ends it
}

// plan is everything needed to build a house before anything is opened, so that a mistake
// in an app is found without touching the data folder.
type plan struct {
	kit      *kit
	settings config.Settings
	inspect  bool          // nothing is served: apps whose service is not configured are there, too
	read     []config.Read // the apps as they were read, without those that are off or broken
	apps     []*config.App // of read
	resolved []parley.App
	boxes    map[string]*toolbox.Box
	models   *models
	sets     map[string][]seam.Toolset // of the apps, as they were opened
	unknown  map[string][]string       // what the names of tools begin with that are not known yet, by app
	asks     bool                      // what is outside may be started and asked, to check an app
	opened   map[string][]*opened      // of the current versions of apps
	all      []*opened                 // also of older ones
	off      map[string]string         // apps that cannot be served here, and why
	broken   map[string]broken         // apps that had mistakes when the server started
	tables   map[string]seam.Tables    // of the apps that bring migrations, once the store is open
	disabled []string                  // apps that the settings do not enable
	meta     func() any                // of index/meta.json; nil: there is none
	claude   *claudecli.Runtime        // made with the house
	folder   *datafolder.Folder        // the data folder, once this process has taken it
	own      *lock                     // of the data folder
	accepted sync.Map                  // the function that verifies the tokens that an app accepts, by the app's name
	latest   sync.Map                  // the current version of each app, by name
	pageURL  func(app string) string   // where the page of an app is that brings one; nil: nowhere
	kill     func()                    // of a demo: ends the process without warning, and starts it again
	vault    atomic.Pointer[vault.Vault]
	checks   atomic.Pointer[checkpoint.Store]
	lakes    atomic.Pointer[lake.Lakes]
	large    *fair.Turns              // of calls that hold a large file
	logins   *login.Logins            // of users at other services
	issuers  *auth.Issuers            // of users' tokens; nil: there are none
	keys     *auth.Keys               // of the entrance; nil: they are not open yet
	mode     auth.Mode                // how the entrance identifies callers; "": there is none
	address  atomic.Pointer[net.Addr] // where the server listens; nil: nowhere
	book     *approval.Book           // of what files of users and workspaces may run; nil until the store is open
	anew     atomic.Pointer[reader]   // of the house; nil: there is none yet
	red      *redact.Redactor         // the one that stands before all that is kept and shown
}

func (k *kit) plan(s config.Settings, log *slog.Logger) (*plan, error) {
	return k.planFor(s, false, log)
}

// planFor makes the plan of a house. With inspect set it is only inspected, and includes
// apps whose service is not configured.
func (k *kit) planFor(s config.Settings, inspect bool, log *slog.Logger) (made *plan, err error) {
	answers, err := newAnswerers(s, log)
	if err != nil {
		return nil, err
	}
	if s.Model == "" {
		if s.Models.Default, s.Models.Hosted, err = answers.defaultModel(); err != nil {
			return nil, err
		}
	}
	p := &plan{
		kit: k, settings: s, inspect: inspect, boxes: map[string]*toolbox.Box{}, models: answers, sets: map[string][]seam.Toolset{}, unknown: map[string][]string{}, opened: map[string][]*opened{},
		off: map[string]string{}, broken: map[string]broken{}, large: workspacetools.NewTurns(),
	}
	p.logins = login.New(login.Options{Vault: p.vault.Load, Base: p.base, Logger: log})
	if p.disabled, err = s.Disabled(k.folders); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.issuers, err = newIssuers(s, log); err != nil {
		return nil, err
	}
	p.red = redactorOf(log, s)
	if err := p.load(log); err != nil {
		return nil, err
	}
	if err := p.models.add(s, p.apps); err != nil {
		return nil, err
	}
	for i, secret := range p.secrets() {
		p.red.Add(strconv.Itoa(i), secret)
	}
	if err := p.resolve(log); err != nil {
		return nil, err
	}
	return p, nil
}

// close ends the services.
func (p *plan) close() {
	for _, o := range p.all {
		o.leave(math.MaxInt)
	}
	if p.issuers != nil {
		p.issuers.Close()
	}
}

// took says that this process has the data folder now.
func (p *plan) took(own *lock) {
	p.own, p.folder = own, datafolder.New(p.settings.Data, own.held)
	folder := p.folder
	_ = os.RemoveAll(folder.Path(scratchFolder)) // of a process that was killed
	extract.Cache(func() (string, error) { return folder.Path("cache", "pdf"), folder.Make("cache", "pdf") })
}

// scratchFolder has temporary files.
const scratchFolder = "scratch"

// scratch makes a folder for temporary files.
func (p *plan) scratch(elems ...string) (string, error) {
	if p.folder == nil {
		return "", parley.Errorf(parley.CodeUnavailable, "the server has no data folder yet")
	}
	elems = append([]string{scratchFolder}, elems...)
	return p.folder.Path(elems...), p.folder.Make(elems...)
}

// there reports whether the data folder went away after it was taken.
func (p *plan) there() error {
	if p.folder == nil {
		return nil
	}
	return p.folder.Check()
}

// toolsets makes the toolsets of an app, or takes those of have that are the same. The caller
// releases them.
func (p *plan) toolsets(a *config.App, check bool, have []*opened, log *slog.Logger) (list []*opened, err error) {
	defer func() {
		if err != nil {
			release(list)
		}
	}()
	for _, t := range a.Toolsets {
		if i := slices.IndexFunc(have, func(o *opened) bool { return o.is(t) }); i >= 0 && have[i].hold() {
			list = append(list, have[i])
			continue
		}
		made, err := p.kit.tools[t.Kind](app.ToolDeps{
			App: a, Toolset: t, Check: check, Ask: p.asks, Kept: p.kept, Keep: p.keep, Env: p.settings.Env, Logger: log,
			Clean: func(text string) string { text, _ = p.red.String(text); return text },
			Vault: p.vault.Load, Checkpoints: p.checks.Load, Lakes: p.lakes.Load, Scratch: p.scratch, LargeFiles: p.large, Base: p.base, Fetching: p.kit.fetches[a.Name], Touching: p.kit.touches[a.Name],
		})
		if err != nil {
			return list, err
		}
		o := &opened{Service: made, of: t, holders: 1}
		list, p.all = append(list, o), append(p.all, o)
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

// notServed says of each app that is not served why, except those whose files have mistakes.
func (p *plan) notServed() map[string]string {
	off := maps.Clone(p.off)
	for _, name := range p.disabled {
		off[name] = "the setting enabled does not name it"
	}
	return off
}

// why says why an app is not served, or "".
func (p *plan) why(name string) string {
	if wrong := p.wrong()[name]; len(wrong) > 0 {
		return strings.Join(wrong, "; ")
	}
	return p.notServed()[name]
}

// secrets are those of the services.
func (p *plan) secrets() []string {
	var list []string
	for _, name := range names(p.opened) {
		for _, s := range p.opened[name] {
			list = append(list, s.Secrets...)
		}
	}
	for _, a := range p.apps {
		for _, name := range a.Exec.Env {
			list = append(list, referred([]string{p.settings.Env(name)}, isFile)...)
		}
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
	if err := p.openVault(ctx, base, log); err != nil {
		_ = base.Close()
		return nil, err
	}
	if err := p.openTables(ctx, base); err != nil {
		_ = base.Close()
		return nil, err
	}
	p.book = approval.New(base, nil)
	counts := telemetry.New(p.labels())
	traces, err := telemetry.NewTracer(telemetry.TraceOptions{
		Endpoint: p.settings.Telemetry.OTLPEndpoint, Headers: p.settings.Telemetry.Headers, Content: p.settings.Telemetry.Content,
		Version: version, Metrics: counts, Env: os.LookupEnv, Logger: log,
	})
	if err != nil {
		_ = base.Close()
		return nil, usage(err)
	}
	devices, err := p.openPush(ctx, base, counts.Dropped, log)
	if err != nil {
		traces.Close(ctx)
		_ = base.Close()
		return nil, err
	}
	store := devices.Store(traces.Store(counts.Store(base)))
	kept := archive.NewFolder(p.folder)
	checks := checkpoint.New(checkpoint.Options{Data: p.folder})
	p.checks.Store(checks)
	p.lakes.Store(lake.New(lake.Options{Private: p.folder.Path("lakes"), Logger: log}))
	writer, reader := eventlog.New(store, p.red, eventlog.Options{Logger: log, Archive: kept})
	h := &house{apps: p.resolved, store: store, push: devices, writer: writer, traces: traces, log: log, plan: p, off: p.off, limits: p.settings.Limits}
	if b, ok := base.(interface{ Taken() <-chan struct{} }); ok {
		h.taken = b.Taken()
	}
	carriers := map[string]seam.Runtime{}
	h.carriers = carriers
	p.claude = newClaude(p, log)
	for name, make := range runtimes {
		carriers[name] = make(p)
	}
	if h.scopes, err = p.scopes(writer, log); err != nil {
		_ = writer.Close(ctx)
		traces.Close(ctx)
		_ = store.Close()
		return nil, err
	}
	h.files = p.liveFiles(log, reader, store, kept, counts)
	h.engine, err = engine.New(engine.Options{
		Documents: attach.New(), Store: store, Log: writer, Reader: reader, Runtimes: carriers, Models: p.models, Scopes: h.scopes, Off: p.why, Logger: log,
		Archive: shelf{kept, h.files, checks, p.claude}, Files: workspacetools.NewRestorer(checks, nil), NothingRuns: nothingRuns, Alone: at.kind == "sqlite", Zone: serverZone(), Patience: time.Duration(p.settings.Limits.Patience),
		Limits: engine.Limits{
			MaxMessage: int(p.settings.Limits.MaxMessage),
			USDPerDay:  p.settings.Limits.USDPerDay, UserUSDPerDay: p.settings.Limits.UserUSDPerDay, TurnsPerMinute: p.settings.Limits.TurnsPerMinute,
			OrgUSDPerDay: p.settings.Limits.OrgUSDPerDay, OrgsUSDPerDay: p.settings.Limits.OrgsUSDPerDay, OrgTurnsPerMinute: p.settings.Limits.OrgTurnsPerMinute,
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
	if h.access, err = p.newAccess(p.keys, log); err != nil {
		_ = h.close(ctx, 0)
		return nil, err
	}
	h.schedules = p.newSchedules(h, log)
	h.anew = newReader(p, h, log)
	p.anew.Store(h.anew)
	h.api = api.New(api.Options{
		Engine: h.engine, Reader: reader, Blobs: store, Principal: auth.Principal, Only: auth.App,
		Import: func(ctx context.Context, p parley.Principal, s archive.Session) (parley.SessionInfo, error) {
			return h.engine.Import(ctx, p, engine.Imported(s))
		},
		Providers: p.models.ask,
		Redact:    func(body []byte) []byte { body, _ = writer.RedactFile(body); return body },
		Partial:   writer.Partial,
		Missing: func(runtime string) error {
			if n, ok := carriers[runtime].(seam.Needing); ok {
				return n.Missing()
			}
			return nil
		},
		Page: p.shown, Kill: p.kill, Logins: p.logins, Access: h.access, Devices: devices, Schedules: h.schedules, Files: p.userFiles(h.engine, h.scopes),
		Version: version, Off: p.notServed(), Mistakes: h.anew.wrong, Outages: h.anew.outages, AppNotices: h.notices, Notices: notices, Metrics: metered(counts.Handler()), Streams: counts.Streams, Logger: log,
		Limits: p.limits(),
	})
	deps := doorDeps{access: h.access, plan: p, engine: h.engine, reader: reader, api: h.api, principal: auth.Principal, log: log}
	h.roll = &roll{apps: map[string]*mcpserver.App{}}
	for _, a := range p.resolved {
		h.roll.put(a.Name, newMCPServer(a, deps))
	}
	deps.roll, h.deps = h.roll, deps
	h.own = newOwnPages(p, h.api, h.roll.has, log)
	h.table, err = doorsOf(p.resolved, deps)
	if err != nil {
		_ = h.close(ctx, 0)
		return nil, err
	}
	for name, list := range p.opened {
		p.accepts(name, list)
		for _, s := range list {
			s.start(h)
		}
	}
	close(h.anew.late.ready)
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	h.abandon = abandon
	h.prepared.Go(func() { p.models.prepare(work, log) })
	return h, nil
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
	h.anew.end()
	if h.abandon != nil {
		h.abandon()
	}
	h.prepared.Wait()
	err := h.engine.Close(ctx)
	for _, rt := range h.carriers {
		if c, ok := rt.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
	}
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // the next start finds what is left
	}
	err = errors.Join(err, h.writer.Close(flush))
	h.closeFiles(flush)
	err = errors.Join(err, h.plan.checks.Load().Close())
	h.roll.close(flush)
	if serr := h.scopes.Close(flush); serr != nil {
		h.log.Warn("not all tools were closed in time", "err", serr)
	}
	h.plan.close()
	err = errors.Join(err, h.plan.lakes.Load().Close())
	last, sent := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // a collector that does not answer must not delay the stop
	defer sent()
	h.traces.Close(last)
	return errors.Join(err, h.store.Close())
}

// nothingRuns is [engine.Options.NothingRuns]. Tests that kill the program set it, since
// they know that no write is still under way.
var nothingRuns bool
