// Package engine says who may do what, when: it turns commands into events.
//
// A session is driven by one owner. All commands to it, from any door, and everything its
// running turn appends pass one lock, so their order is the order in the log. A command
// is checked against the folded state and becomes events or is refused with a coded
// [parley.Error]. Nothing else appends. State advances only after the commit; the lock is
// held for commits, never for effects.
//
// A turn is carried by a [seam.Runtime], which sees only its [seam.Host]: it may record
// model calls and handoffs, and request tool calls. The engine checks each of those
// against schema, policy and grants and journals it (toolcall.go). What must not happen
// twice is committed before it happens; what may have happened is called unknown, and a
// human decides.
//
// A turn that waits for a human, and one that has ended, need nothing in memory: the
// session is evicted after Options.IdleAfter, and the next command folds it again. After
// a crash the turns that were running are found by [Engine.Recover], or by the first
// command that needs their session.
//
// When the store cannot append (disk full, database down), a command is refused with
// CodeUnavailable and changes nothing. A turn that is in the log waits, within its time
// budget, and then goes on (outage.go).
//
// Reads neither load nor claim a session. A session that is driven by another engine over
// the same store can be read here. It is not taken over while that engine is alive;
// commands to it are refused.
//
// Methods are safe for concurrent use.
package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// Options configure an engine.
type Options struct {
	Store seam.Store
	// Documents reads the files that users attach. Nil: none can be attached.
	Documents seam.DocumentReader
	Log       *eventlog.Writer // the engine must be its only holder
	Reader    *eventlog.Reader
	Runtimes  map[string]seam.Runtime // by App.Runtime
	Models    seam.Models
	// Scopes says what the turns of a session run with. Whoever made it closes it, after the
	// engine. Nil: every session of an app of Apps has its Tools, by the app's name, and no
	// workspace.
	Scopes *scope.Scopes
	Apps   []parley.App
	Tools  map[string]*toolbox.Box
	// Off says why an app is not served, for whoever names it, or "" for one that is not known.
	// It must be safe for concurrent use. Nil: none is known.
	Off func(app string) string

	Node   string           // names this process in claims; empty: generated
	Now    func() time.Time // recorded in events; nil: time.Now
	Logger *slog.Logger     // nil: discarded
	// Zone is the time zone of turns whose tools have none; nil: UTC.
	Zone *time.Location
	// IdleAfter is how long a session without a running turn stays in memory; 0 means 30
	// s.
	IdleAfter time.Duration
	// Patience is how long a run stays in memory for a human's answer, if its runtime or a tool
	// would rather wait than start again. 0 means 5 minutes: a person who is present answers
	// within that time, and a waiting program takes a few hundred MB.
	Patience time.Duration
	// Archive keeps what retention removes from logs; if nil, that is lost.
	Archive Archive
	// Files has the old contents of workspaces' files, for rewinds. Nil: none are kept, and rewinds
	// restore no files.
	Files seam.Restorer
	// SweepEvery is how often the apps' TTLs are applied; 0 means 10 minutes.
	SweepEvery time.Duration
	// TendEvery is how often expired questions are looked for; 0 means 30 s. A late
	// answer is refused by the clock, whether or not this has run.
	TendEvery time.Duration
	// Limits apply to each user.
	Limits Limits
	// MaxRunning limits the turns that run at once; 0 means 10,000. Further turns are
	// refused with CodeUnavailable.
	MaxRunning int
	// NothingRuns says that no write of an earlier owner can still be under way, as in a
	// replay: a started write without an outcome is settled at once. If false, such a
	// write counts as running until its deadline and 5 s.
	NothingRuns bool
	// Alone says that no other process can be making calls for these sessions. The lock of a
	// data folder proves that: the previous owner is dead. A started write that ran inside that
	// process ([seam.Local]) is then over and is settled at once. A database connection is no
	// such proof: a process that has lost its connection may still make a call.
	Alone bool
	// Untimed disables time budgets of turns and deadlines of calls, as in a replay,
	// whose clock stands still.
	Untimed bool
	// Gathered returns the parts that a message has besides its text, as in a replay, which has
	// them from its recording. If nil, slash commands are expanded and resources are read.
	Gathered func(ctx context.Context, c parley.Send) []parley.Part
	// RunRedacted reports whether a call whose original input is lost may run with the
	// redacted one from the log, as in a replay, whose tools touch nothing. If nil, no
	// call may.
	RunRedacted func(c parley.Tool, input json.RawMessage) bool
	// HasCredential is for a replay, which has no credentials. It reports whether a call had a
	// credential after the given number of answers to questions for credentials. Nil: the
	// credentials that clients sent decide.
	HasCredential func(c parley.Tool, name string, answers int) bool
}

// Engine drives sessions. Make one with New.
type Engine struct {
	o      Options
	scopes *scope.Scopes
	boot   context.Context // ends with the engine; parent of every turn
	stop   context.CancelCauseFunc
	open   context.Context // ends when Close begins, or with boot
	shut   context.CancelFunc
	away   func() // tells the store that this node no longer drives anything

	entropy *ulid.LockedMonotonicReader // for ids; not shared, because engines in one test have different clocks

	mu       sync.Mutex
	sessions map[parley.SessionID]*session
	running  int
	closing  bool
	orphans  orphans // guarded by mu

	inputs      inputs
	credentials credentials
	meter       meter
	claims      claims
	readings    readings
	observed    chan Observation
	resuming    chan struct{}               // at most 8 automatic resumptions at once
	told        tellings                    // guarded by mu
	going       map[parley.SessionID]bool   // sessions about to go on automatically; guarded by mu
	bodies      map[parley.Digest]time.Time // when the blob of each app was last stored; guarded by mu
	inVain      map[parley.TurnID]string    // why this process could not resume a turn; guarded by mu
	turns       sync.WaitGroup
	tasks       sync.WaitGroup // sweeper and recovery goroutines
}

var errShutdown = parley.Errorf(parley.CodeUnavailable, "the server is shutting down").WithHint("try again in a moment").WithRetry(2 * time.Second)

// New makes an engine. It starts no turn before Recover or a command does.
func New(o Options) (*Engine, error) {
	if o.Off == nil {
		o.Off = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Node == "" {
		o.Node = ulid.Make().String()
	}
	if o.IdleAfter == 0 {
		o.IdleAfter = 30 * time.Second
	}
	if o.Patience == 0 {
		o.Patience = 5 * time.Minute
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = 10 * time.Minute
	}
	if o.TendEvery == 0 {
		o.TendEvery = 30 * time.Second
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 10_000
	}
	scopes := o.Scopes
	if scopes == nil {
		var err error
		if scopes, err = scopesOf(o); err != nil {
			return nil, err
		}
	}
	for _, name := range scopes.Names() {
		a, _ := scopes.App(name)
		if o.Runtimes[a.App().Runtime] == nil {
			return nil, parley.Errorf(parley.CodeInvalid, "app %s: there is no runtime %q", name, a.App().Runtime)
		}
	}
	boot, stop := context.WithCancelCause(context.Background())
	open, shut := context.WithCancel(boot)
	e := &Engine{
		o: o, scopes: scopes, bodies: map[parley.Digest]time.Time{}, boot: boot, stop: stop, open: open, shut: shut,
		entropy:  &ulid.LockedMonotonicReader{MonotonicReader: ulid.Monotonic(rand.Reader, 0)},
		sessions: map[parley.SessionID]*session{}, observed: make(chan Observation, observeQueue), resuming: make(chan struct{}, 8), going: map[parley.SessionID]bool{}, inVain: map[parley.TurnID]string{},
	}
	e.readings.turns.Slots, e.readings.turns.Each, e.readings.turns.Queued = readSlots, readEach, readQueued
	e.credentials.hide = func(s parley.SessionID, values []string) { o.Log.Hide(s, values...) }
	for _, rt := range o.Runtimes {
		if rt, ok := rt.(seam.Starter); ok {
			rt.Starts(e.startOwn)
		}
	}
	e.away = o.Store.Join(o.Node)
	e.tasks.Go(e.sweep)
	e.tend()
	e.watchObserved()
	return e, nil
}

// scopesOf makes the scopes of an engine that was given none.
func scopesOf(o Options) (*scope.Scopes, error) {
	var apps []scope.App
	for _, a := range o.Apps {
		apps = append(apps, scope.App{App: a, Tools: o.Tools[a.Name]})
	}
	return scope.New(scope.Options{Apps: apps, Clean: o.Log.RedactFile, Logger: o.Logger})
}

// Close stops the engine. It accepts no new commands. Running turns may finish their
// current step until ctx ends; then they are stopped. The next Recover finds the turns
// that did not end.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	e.shut()
	done := make(chan struct{})
	go func() { e.turns.Wait(); close(done) }()
	var err error
	select {
	case <-done:
		e.stop(errShutdown)
	case <-ctx.Done():
		err = ctx.Err()
		e.stop(errShutdown)
		select { // what honours its context returns at once
		case <-done:
			err = nil
		case <-time.After(2 * time.Second):
		}
	}
	e.tasks.Wait()
	e.away()
	return err
}

// Ready returns why commands would be refused now, or nil.
func (e *Engine) Ready(ctx context.Context) error {
	e.mu.Lock()
	closing := e.closing
	e.mu.Unlock()
	if closing {
		return errShutdown
	}
	return e.o.Store.Check(ctx)
}

// Apps lists the apps, by name.
func (e *Engine) Apps() []parley.App {
	var list []parley.App
	for _, name := range e.scopes.Names() {
		a, _ := e.scopes.App(name)
		list = append(list, *a.App())
	}
	return list
}

// App returns one app. A CodeNotFound error names the apps that exist.
func (e *Engine) App(name string) (parley.App, error) {
	a, err := e.app(name)
	if err != nil {
		return parley.App{}, err
	}
	return *a.App(), nil
}

// appOf is the app that a session belongs to. While the app is missing, the session
// cannot go on, and its data is left as it is.
func (e *Engine) appOf(session string) (*scope.Resolved, error) {
	if a, ok := e.scopes.App(session); ok {
		return a, nil
	}
	what := ""
	if why := e.o.Off(session); why != "" {
		what = ": " + why
	}
	return nil, parley.Errorf(parley.CodeConflict, "the session's app, %s, is off%s", session, what).WithField("app").
		WithHint("nothing of the session is lost; it goes on when the server serves the app again")
}

func (e *Engine) app(name string) (*scope.Resolved, error) {
	if a, ok := e.scopes.App(name); ok {
		return a, nil
	}
	names := e.scopes.Names()
	if why := e.o.Off(name); why != "" {
		return nil, parley.Errorf(parley.CodeNotFound, "the app %s is off: %s", name, why).WithField("app").WithHint("apps here: %s", strings.Join(names, ", "))
	}
	said := ""
	if near := nearest.Name(name, names); near != "" {
		said = "; did you mean " + near + "?"
	}
	return nil, parley.Errorf(parley.CodeNotFound, "there is no app %q%s", parley.Cut(name, 60), said).WithField("app").WithHint("apps here: %s", strings.Join(names, ", "))
}

// Models lists the configured models.
func (e *Engine) Models() []seam.ModelInfo {
	var list []seam.ModelInfo
	for _, n := range e.o.Models.Names() {
		if m, err := e.o.Models.Model(n); err == nil {
			list = append(list, m.Info())
		}
	}
	return list
}

// Model returns what is known about one model.
func (e *Engine) Model(name string) (seam.ModelInfo, error) {
	m, err := e.o.Models.Model(name)
	if err != nil {
		return seam.ModelInfo{}, err
	}
	return m.Info(), nil
}

func (e *Engine) now() time.Time { return parley.Now(e.o.Now()) }

// newID returns a ULID for the engine's current time. Of two ids from the same millisecond the
// later one is greater, so lists ordered by id are in order of creation.
func (e *Engine) newID() string {
	return ulid.MustNew(ulid.Timestamp(e.o.Now()), e.entropy).String()
}

// newIDAfter returns a new id that is greater than another, even if the clock was set
// back in between.
func (e *Engine) newIDAfter(id string) string {
	at := ulid.Timestamp(e.o.Now())
	if before, err := ulid.ParseStrict(id); err == nil {
		at = max(at, before.Time()+1)
	}
	return ulid.MustNew(at, e.entropy).String()
}

// sweep evicts sessions that nobody has needed for a while.
func (e *Engine) sweep() {
	tick := time.NewTicker(max(e.o.IdleAfter/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-e.boot.Done():
			return
		case <-tick.C:
		}
		e.inputs.tidy(e.o.Now())
		e.credentials.tidy(e.o.Now())
		old := e.o.Now().Add(-e.o.IdleAfter)
		e.mu.Lock()
		for id, s := range e.sessions {
			if s.refs == 0 && s.used.Before(old) {
				delete(e.sessions, id)
			}
		}
		e.mu.Unlock()
	}
}

// digestOf is the digest of v's JSON.
func digestOf(v any) parley.Digest {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(b)
	return parley.Digest(hex.EncodeToString(sum[:]))
}

func notFound(what string, id any) *parley.Error {
	return parley.Errorf(parley.CodeNotFound, "there is no %s %q", what, id).WithHint("check the id; what belongs to another user is reported as not found, too")
}

func isCode(err error, c parley.Code) bool { return errors.Is(err, &parley.Error{Code: c}) }
