// Package engine says who may do what, when: it turns commands into events.
//
// A session is driven by one owner: all commands to it, from whatever door,
// and all that its running turn appends, pass one lock, so they have one order,
// and that order is the order in the log. A command is checked against the
// folded state and becomes events or is refused with a coded [parley.Error].
// Nothing else appends. State advances only after the commit; the lock is held
// for commits, never for effects.
//
// A turn is carried by a [seam.Runtime], which sees only its [seam.Host]: it may
// record model calls and handoffs, and ask for tools, which the engine takes
// through schema, policy, grant and journal (toolcall.go). What must not happen
// twice is committed before it happens; what may have happened is called
// unknown and put before a human.
//
// A turn that waits for a human, and one that has ended, need nothing in
// memory: the session is dropped after Options.IdleAfter and the next command
// folds it again. After a crash the turns that were running are found by
// [Engine.Recover], or by the first command that needs their session.
//
// When the store can not append (disk full, database away) a command is refused
// with CodeUnavailable and changes nothing; a turn that is in the log waits, as
// long as its budget of time lasts, and goes on (outage.go).
//
// What only reads neither loads a session nor claims it. A session that another
// engine over the same store drives can be read here, and not taken from it as
// long as that one is alive; commands to it are refused.
//
// Methods are safe for concurrent use.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// Options are what an engine is made of.
type Options struct {
	Store    seam.Store
	Log      *eventlog.Writer // the engine must be its only holder
	Reader   *eventlog.Reader
	Runtimes map[string]seam.Runtime // by App.Runtime
	Models   seam.Models
	Tools    map[string]*toolbox.Box // by app name; an app without tools needs none, and tools of other apps are not used
	Apps     []parley.App
	Off      map[string]string // apps that are not served, and why: told to whoever names one

	Node   string           // names this process in claims; empty: made up
	Now    func() time.Time // recorded in events; nil: time.Now
	Logger *slog.Logger     // nil: discarded
	// Zone is the time zone of turns whose tools know none; nil: UTC.
	Zone *time.Location
	// IdleAfter is when a session without a running turn leaves memory; 0 means 30 s.
	IdleAfter time.Duration
	// Archive keeps what retention takes out of logs; nil keeps nothing.
	Archive Archive
	// SweepEvery is how often the apps' TTLs are applied; 0 means 10 minutes.
	SweepEvery time.Duration
	// TendEvery is how often questions are looked for whose time is over; 0 means
	// 30 s. An answer that comes too late is refused by the clock, not by this.
	TendEvery time.Duration
	// Limits are of users.
	Limits Limits
	// MaxRunning bounds the turns that run at once; 0 means 10,000. One more is
	// refused with CodeUnavailable.
	MaxRunning int
	// NothingRuns says that no started write of an earlier owner can be under way any
	// more, as in a replay: one without an outcome is settled at once. False: it counts
	// as running until its deadline and 5 s.
	NothingRuns bool
	// Untimed lets no turn end by its budget of time, and no call by its deadline, as
	// in a replay, whose clock stands still.
	Untimed bool
	// RunRedacted reports whether a call may run with what the log has of an input
	// that is lost: in a replay, whose tools touch nothing. nil: none may.
	RunRedacted func(c parley.Tool, input json.RawMessage) bool
}

// Engine drives sessions. Make one with New.
type Engine struct {
	o    Options
	apps map[string]*appBody
	boot context.Context // ends with the engine; parent of every turn
	stop context.CancelCauseFunc
	open context.Context // ends when Close begins, or with boot
	shut context.CancelFunc
	away func() // says to the store that this node drives nothing any more

	mu       sync.Mutex
	sessions map[parley.SessionID]*session
	running  int
	closing  bool
	orphans  orphans // guarded by mu

	inputs   inputs
	meter    meter
	claims   claims
	observed chan Observation
	resuming chan struct{}             // at most 8 automatic resumptions at once
	going    map[parley.SessionID]bool // sessions that are about to go on by themselves; guarded by mu
	inVain   map[parley.TurnID]bool    // turns that this process could not resume; guarded by mu
	turns    sync.WaitGroup
	tasks    sync.WaitGroup // sweeper and recovery
}

type appBody struct {
	app    parley.App
	digest parley.Digest
	body   []byte
	kept   time.Time // when the blob was last put; guarded by Engine.mu
}

var errShutdown = parley.Errorf(parley.CodeUnavailable, "the server is shutting down").WithHint("try again in a moment").WithRetry(2 * time.Second)

// New makes an engine. It starts no turn before Recover or a command does.
func New(o Options) (*Engine, error) {
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
	if o.SweepEvery == 0 {
		o.SweepEvery = 10 * time.Minute
	}
	if o.TendEvery == 0 {
		o.TendEvery = 30 * time.Second
	}
	if o.MaxRunning == 0 {
		o.MaxRunning = 10_000
	}
	boxes, err := boxesOf(o)
	if err != nil {
		return nil, err
	}
	o.Tools = boxes
	boot, stop := context.WithCancelCause(context.Background())
	open, shut := context.WithCancel(boot)
	e := &Engine{
		o: o, apps: map[string]*appBody{}, boot: boot, stop: stop, open: open, shut: shut,
		sessions: map[parley.SessionID]*session{}, observed: make(chan Observation, observeQueue), resuming: make(chan struct{}, 8), going: map[parley.SessionID]bool{}, inVain: map[parley.TurnID]bool{},
	}
	for _, a := range o.Apps {
		body, err := json.Marshal(a)
		if err != nil {
			return nil, parley.Errorf(parley.CodeInvalid, "app %s: %w", a.Name, err)
		}
		if o.Runtimes[a.Runtime] == nil {
			return nil, parley.Errorf(parley.CodeInvalid, "app %s: there is no runtime %q", a.Name, a.Runtime)
		}
		if clean, ok := o.Log.RedactFile(body); ok { // it is kept with the log
			body = clean
		}
		sum := sha256.Sum256(body)
		e.apps[a.Name] = &appBody{app: a, digest: parley.Digest(hex.EncodeToString(sum[:])), body: body}
	}
	e.away = o.Store.Join(o.Node)
	e.tasks.Go(e.sweep)
	e.tend()
	e.watchObserved()
	return e, nil
}

// boxesOf gives each app a box, if only an empty one.
func boxesOf(o Options) (map[string]*toolbox.Box, error) {
	boxes := map[string]*toolbox.Box{}
	for _, a := range o.Apps {
		boxes[a.Name] = o.Tools[a.Name]
		if boxes[a.Name] != nil {
			continue
		}
		none, err := toolbox.New(nil, toolbox.Options{Logger: o.Logger})
		if err != nil {
			return nil, err
		}
		boxes[a.Name] = none
	}
	return boxes, nil
}

// Close stops the engine: no new commands, running turns may finish the step
// they are in until ctx ends, then they are stopped. Turns that did not end are
// found by the next Recover.
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
		select { // what honours its context is gone at once
		case <-done:
			err = nil
		case <-time.After(2 * time.Second):
		}
	}
	e.tasks.Wait()
	e.away()
	return err
}

// Ready says why commands would be refused now, or nil.
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
	for _, a := range e.apps {
		list = append(list, a.app)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// App returns one app; CodeNotFound names those there are.
func (e *Engine) App(name string) (parley.App, error) {
	a, err := e.app(name)
	if err != nil {
		return parley.App{}, err
	}
	return a.app, nil
}

// appOf is the app that a session belongs to. Without it nothing of the session
// can go on; what there is stays as it is.
func (e *Engine) appOf(session string) (*appBody, error) {
	if a, ok := e.apps[session]; ok {
		return a, nil
	}
	what := ""
	if why := e.o.Off[session]; why != "" {
		what = ": " + why
	}
	return nil, parley.Errorf(parley.CodeConflict, "the session's app, %s, is off%s", session, what).WithField("app").
		WithHint("nothing of the session is lost; it goes on when the server serves the app again")
}

func (e *Engine) app(name string) (*appBody, error) {
	if a, ok := e.apps[name]; ok {
		return a, nil
	}
	var names []string
	for n := range e.apps {
		names = append(names, n)
	}
	slices.Sort(names)
	if why, ok := e.o.Off[name]; ok {
		return nil, parley.Errorf(parley.CodeNotFound, "the app %s is off: %s", name, why).WithField("app").WithHint("apps here: %s", strings.Join(names, ", "))
	}
	return nil, parley.Errorf(parley.CodeNotFound, "there is no app %q", parley.Cut(name, 60)).WithField("app").WithHint("apps here: %s", strings.Join(names, ", "))
}

// Models lists the models that are set up.
func (e *Engine) Models() []seam.ModelInfo {
	var list []seam.ModelInfo
	for _, n := range e.o.Models.Names() {
		if m, err := e.o.Models.Model(n); err == nil {
			list = append(list, m.Info())
		}
	}
	return list
}

// Model returns what is known of one model.
func (e *Engine) Model(name string) (seam.ModelInfo, error) {
	m, err := e.o.Models.Model(name)
	if err != nil {
		return seam.ModelInfo{}, err
	}
	return m.Info(), nil
}

func (e *Engine) now() time.Time { return parley.Now(e.o.Now()) }

// newID makes a ULID of the engine's time.
func (e *Engine) newID() string {
	return ulid.MustNew(ulid.Timestamp(e.o.Now()), ulid.DefaultEntropy()).String()
}

// newIDAfter returns a new id that is greater than another, even if the clock was
// set back in between.
func (e *Engine) newIDAfter(id string) string {
	at := ulid.Timestamp(e.o.Now())
	if before, err := ulid.ParseStrict(id); err == nil {
		at = max(at, before.Time()+1)
	}
	return ulid.MustNew(at, ulid.DefaultEntropy()).String()
}

// sweep drops sessions that nobody has needed for a while.
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
	return parley.Errorf(parley.CodeNotFound, "there is no %s %q", what, id).WithHint("check the id; what belongs to another user is not found either")
}

func isCode(err error, c parley.Code) bool { return errors.Is(err, &parley.Error{Code: c}) }
