package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/hook"
	"github.com/parley-server/parley/internal/scope"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/toolbox"
)

// run is a turn that this process carries forward.
type run struct {
	turn     parley.TurnID
	owner    parley.Principal
	app      *parley.App     // as it was when the turn began, with the tools that its caller offered
	tools    *scope.Resolved // the scope as resolved when the run began
	box      *toolbox.Box    // the scope's tools, with those that the turn's caller offered
	ctx      context.Context
	cancel   context.CancelCauseFunc
	readOnly bool          // the workspace is not to be changed
	commands chan struct{} // see seam.Host
	budget   *time.Timer   // the timer of the time budget; nil: there is none
	limit    time.Duration // the time budget
	idle     *time.Timer   // closes park when nobody answers; nil: the turn does not wait for a human
	park     chan struct{} // closed when the run has to park
	done     chan struct{} // closed when the turn has ended, or the run has parked or given it up
	last     bool          // nothing may start after it
	lost     error         // why staged events were not stored; nil again after a commit of this turn
	opens    bool          // hooks must run before its runtime begins
	unseen   bool          // the runtime saw a state without its turn, because the turn's start is not stored yet

	once  sync.Once
	mu    sync.Mutex
	free  func()        // frees what was reserved until the first commit; guarded by mu
	first chan struct{} // closed when the first commit is decided
	err   error         // of the first commit; read after first is closed
}

// kept tells those waiting for the turn whether it is durable. Only the first call
// counts.
func (r *run) kept(err error) {
	r.once.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
		close(r.first)
		if r.free != nil {
			r.free()
		}
	})
}

// reserved passes the run its reservation, which is freed once the first commit is
// decided.
func (r *run) reserved(free func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.first:
		free()
	default:
		r.free = free
	}
}

// durable waits until the run's first commit is decided. If ctx ends first, the turn goes
// on, and only the log tells whether it was stored.
func (r *run) durable(ctx context.Context) error {
	select {
	case <-r.first:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decided reports whether the outcome of the run's first commit is known.
func (r *run) decided() bool {
	select {
	case <-r.first:
		return true
	default:
		return false
	}
}

// wake tells the runtime that a command has changed the state.
func (r *run) wake() {
	select {
	case r.commands <- struct{}{}:
	default:
	}
}

// stopped is the cause of a run that ends by request.
type stopped struct{ by, reason string }

func (c *stopped) Error() string { return "stopped by " + c.by + ": " + c.reason }

// outOfTime is the cause of a run that exceeds its time budget.
type outOfTime struct{ limit time.Duration }

func (c *outOfTime) Error() string { return fmt.Sprintf("the turn has run for %s", c.limit) }

// start begins a new turn. Its turn.started is staged and joins the runtime's first
// commit. The caller holds the lock.
func (s *session) start(turn parley.TurnID, r parley.TurnRequest, admitted bool, files ...parley.ArtifactRef) (*run, error) {
	if s.view.Status != parley.Active {
		return nil, parley.Errorf(parley.CodeConflict, "the session has %s", s.view.Status)
	}
	if _, err := s.e.appOf(s.view.App); err != nil {
		return nil, err
	}
	if !s.resolves() {
		return nil, errNoTools
	}
	app := s.tools.App()
	if err := s.e.keepApp(s.tools); err != nil {
		return nil, err
	}
	started := parley.TurnStarted{TurnRequest: r, App: s.tools.Digest(), Zone: s.zone()}
	started.HookDue = (r.Origin == parley.OriginUser || r.Origin == parley.OriginSchedule) && r.Call == nil && s.hasHooks(hook.UserPromptSubmit, "")
	if force := app.InForce(); !reflect.DeepEqual(force, s.view.InForce) {
		started.InForce = &force
	}
	events := append([]parley.Event{parley.NewEvent(turn, "", started)}, stored(turn, "", files)...)
	if r.Call != nil {
		events = append(events, parley.NewEvent(turn, "", parley.ToolRequested{Call: r.Call.Call, Name: r.Call.Name, Input: r.Call.Input, Redacted: r.Call.Redacted}))
	}
	return s.begin(withOffered(s.equipped(app), r.Tools), turn, admitted, events...)
}

// zone is the time zone of the session's turns: that of the things its tools deal with, or
// else the server's.
func (s *session) zone() *parley.Zone {
	e, now := s.e, s.e.now()
	z, ok := s.box().Zone(now)
	if !ok && e.o.Zone != nil {
		z = parley.ZoneAt(e.o.Zone, now)
	}
	if z.Name == "" {
		return nil
	}
	return &z
}

// goOn continues the open turn after a human has answered. If the turn's app cannot be
// read any more, the turn fails; if the app cannot be read just now, the turn continues
// once it can.
func (s *session) goOn() error {
	if s.run != nil {
		s.run.wake()
	}
	err := s.goOnOnce()
	if s.e.awayFor(err) {
		s.e.goOnLater(s.id, longestPause)
		return nil
	}
	return err
}

// goOnOnce is goOn, but leaves the turn as it is while the store is unavailable.
func (s *session) goOnOnce() error {
	t := s.view.Turn
	if t == nil || s.run != nil || t.Status != parley.StatusRunning {
		return nil
	}
	if !s.resolves() {
		s.e.goOnLater(s.id, 0) // which waits for its tools without the lock
		return nil
	}
	app, err := s.appOf(t)
	if s.e.awayFor(err) {
		return err
	}
	if err != nil {
		return errors.Join(err, s.commit(s.e.boot, s.closing(parley.TurnFailed{Error: parley.Info(err)})...))
	}
	_, err = s.begin(app, t.ID, true)
	return err
}

// begin runs the open turn after the given events. The limit on running turns applies
// only if the turn is to be admitted, not if it continues or replaces one that ended.
func (s *session) begin(app *parley.App, turn parley.TurnID, admitted bool, events ...parley.Event) (*run, error) {
	e := s.e
	e.mu.Lock()
	switch {
	case e.closing:
		e.mu.Unlock()
		return nil, errShutdown
	case !admitted && e.running >= e.o.MaxRunning:
		e.mu.Unlock()
		return nil, parley.Errorf(parley.CodeUnavailable, "the server is running %d turns, which is its limit", e.o.MaxRunning).WithRetry(2 * time.Second)
	}
	e.running++
	s.refs++
	e.turns.Add(1)
	e.mu.Unlock()
	left := func() {
		e.mu.Lock()
		e.running--
		e.mu.Unlock()
		e.leave(s)
		e.turns.Done()
	}
	if err := s.stage(events...); err != nil {
		left()
		return nil, err
	}
	r := &run{turn: turn, owner: s.view.Principal(), app: s.placed(app), tools: s.tools.Share(), box: boxWith(s.tools.Tools(), s.view.Turn), readOnly: s.view.ReadOnly || s.tools.ReadOnly(), commands: make(chan struct{}, 1), done: make(chan struct{}), first: make(chan struct{})}
	r.opens = s.opens(r.tools)
	r.ctx, r.cancel = context.WithCancelCause(e.boot)
	if ms := s.view.Turn.Request.Budgets.MaxDurationMS; ms > 0 && !e.o.Untimed {
		r.limit = time.Duration(ms) * time.Millisecond
		r.budget = time.AfterFunc(max(0, r.limit-s.view.Turn.Ran(e.now())), func() { r.cancel(&outOfTime{r.limit}) })
	}
	s.run = r
	go func() {
		defer left()
		s.carry(r)
	}()
	return r, nil
}

// carry runs the runtime and then closes the turn. It does not hold the lock meanwhile.
func (s *session) carry(r *run) {
	defer close(r.done)
	ending, err := s.guarded(r)
	for wait := firstPause; ; wait = min(2*wait, longestPause) {
		s.lock <- struct{}{}
		if s.tools == nil && r.tools.Current() {
			s.tools = r.tools.Share() // for the turn that comes next
		}
		again := s.finish(r, ending, err)
		s.unlock()
		if !again {
			break
		}
		// The store has no room or is unavailable. The turn stays as it is, and its end
		// is written when the store can take it.
		select {
		case <-time.After(wait):
		case <-s.e.boot.Done():
		}
	}
	r.cancel(nil)
	r.tools.Release()
}

// guarded turns a panic of a runtime into a failed turn, so that one session's bug does
// not stop the others.
func (s *session) guarded(r *run) (ending seam.Ending, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.e.o.Logger.Error("a runtime panicked", "session", s.id, "turn", r.turn, "panic", p, "stack", string(debug.Stack()))
			err = parley.Errorf(parley.CodeInternal, "the runtime failed unexpectedly").WithHint("the server's log has the cause; try again")
		}
	}()
	return s.conduct(r)
}

// finish writes the end of a run with the lock held. It returns true if the store cannot
// take it now.
func (s *session) finish(r *run, ending seam.Ending, err error) (again bool) {
	r.stopTimers()
	cause := context.Cause(r.ctx)
	shutdown := errors.Is(cause, errShutdown) || errors.Is(err, errShutdown) || s.leavesWrite(r)
	switch {
	case s.gone:
		r.kept(parley.Errorf(parley.CodeFenced, "session %s is driven elsewhere now", s.id).WithRetry(time.Second))
		s.dropRun(r)
		return false
	case s.settle(r.ctx) != nil && !shutdown:
		return s.e.boot.Err() == nil
	case s.view.Turn == nil || s.view.Turn.ID != r.turn:
		// The turn.started could not be stored, so the turn never existed.
		if r.lost != nil {
			err = r.lost
		}
		return s.notBegun(r, err, cause)
	case s.run != r:
		return false // another run has taken over the turn
	case r.unseen && err != nil && cause == nil && s.view.Turn.Status == parley.StatusRunning:
		// The runtime gave up while it was unknown whether the turn's start was stored.
		// It was.
		r.kept(nil)
		s.dropRun(r)
		s.logged("go on with a turn whose start was in doubt", s.goOn())
		return false
	case s.view.Turn.Status == parley.StatusInterrupted && cause == nil:
		// The turn.resumed could not be stored: the turn was not resumed.
		if r.lost != nil {
			err = r.lost
		}
		r.kept(notKept(err))
		s.dropRun(r)
		if refused(err) {
			s.e.leaveInterrupted(r.turn, err)
			if err := s.takeBack(s.e.boot); s.e.awayFor(err) {
				s.e.goOnLater(s.id, longestPause)
			} else {
				s.logged("say that a turn does not go on", err)
			}
		}
		if !r.last {
			s.goOnByItself(longestPause)
		}
		return false
	case shutdown:
		// Left as it is: the next start finds it, marks it and continues as the app says.
		r.kept(s.commit(r.ctx))
		s.dropRun(r)
		return false
	}
	parked := errors.Is(err, seam.ErrParked) && cause == nil
	if !parked && errors.Is(err, seam.ErrParked) && s.view.Turn.Stop != nil && s.view.Turn.Status == parley.StatusRunning && startedWrite(s.view.Turn) != nil {
		// A client claimed a write while the run was letting go, and then the turn was stopped.
		// Another run waits for the write.
		r.kept(s.commit(r.ctx))
		s.dropRun(r)
		s.logged("wait for a claimed write", s.goOn())
		return false
	}
	var events []parley.Event
	if !parked {
		if err != nil && r.lost != nil {
			err = r.lost // the store said why
		}
		events = s.ending(ending, err, cause)
	}
	cerr := s.commit(r.ctx, events...)
	if refused(cerr) && !s.gone && s.runsDurably(r) {
		// It would be refused again; a shorter ending reports that.
		parked = false
		cerr = s.commit(r.ctx, s.closing(parley.TurnFailed{Error: parley.Info(cerr)})...)
	}
	if cerr != nil {
		r.kept(cerr)
		if s.gone {
			s.dropRun(r)
			return false
		}
		if s.doubt == nil && (s.view.Turn == nil || s.view.Turn.ID != r.turn) {
			r.lost = cerr
			return s.notBegun(r, cerr, cause)
		}
		s.waits("a turn's end could not be kept and is tried again", cerr)
		return s.e.boot.Err() == nil
	}
	r.kept(nil)
	s.dropRun(r)
	if parked {
		// An answer may have arrived before the run let go.
		if s.view.Turn.Status == parley.StatusRunning {
			s.logged("go on after an answer", s.goOn())
		}
		return false
	}
	if !r.last {
		s.startNext()
	}
	return false
}

// leavesWrite reports whether the server is stopping and a write of the turn has no outcome yet.
// The next start learns it, also if the turn was stopped before.
func (s *session) leavesWrite(r *run) bool {
	t := s.view.Turn
	return s.e.open.Err() != nil && t != nil && t.ID == r.turn && startedWrite(t) != nil
}

// dropRun records that r no longer runs. If its turn could not be stored, another may
// have begun since.
func (s *session) dropRun(r *run) {
	if s.run == r {
		s.run = nil
	}
}

// notKept is the error returned to the caller when the turn could not be committed.
func notKept(err error) error {
	if isCode(err, parley.CodeUnavailable) || refused(err) {
		return err // the store said why
	}
	return parley.Errorf(parley.CodeUnavailable, "the turn could not be stored").
		WithHint("nothing of it was stored; send the message again with the same key").WithRetry(time.Second)
}

func (s *session) logged(what string, err error) {
	if err != nil {
		s.e.o.Logger.Warn("could not "+what, "session", s.id, "err", err)
	}
}

// appOf is the resolved app that a turn began with.
func (s *session) appOf(t *parley.Turn) (*parley.App, error) {
	now, err := s.e.appOf(s.view.App)
	if err != nil {
		return nil, err
	}
	if s.tools != nil {
		now = s.tools
	}
	if now.Digest() == t.App {
		return withOffered(s.equipped(now.App()), t.Request.Tools), nil
	}
	body, err := s.e.o.Store.Blob(s.e.boot, s.state.Principal(), s.id, t.App)
	if err != nil {
		return nil, fmt.Errorf("read the app that turn %s began with: %w", t.ID, err)
	}
	var old parley.App
	if err := json.Unmarshal(body, &old); err != nil {
		return nil, fmt.Errorf("read the app that turn %s began with: %w", t.ID, err)
	}
	// What is forbidden today is also forbidden to an older turn.
	today := now.App().Policy
	old.Policy.Modes, old.Policy.AllowActuation, old.Policy.AllowlistedServices = today.Modes, today.AllowActuation, today.AllowlistedServices
	for _, r := range today.Rules {
		if r.Verdict == parley.Deny {
			old.Policy.Rules = append(old.Policy.Rules, r)
		}
	}
	for i := range old.Tools {
		if d, there := s.box().Decl(old.Tools[i].Name); there {
			old.Tools[i] = narrowed(old.Tools[i], d)
		}
	}
	return withOffered(s.equipped(&old), t.Request.Tools), nil
}

// placed is the app with the path of the session's workspace in its prompts. What the log names
// has the placeholder.
func (s *session) placed(app *parley.App) *parley.App {
	var changed map[string]parley.AgentDef
	for name, def := range app.Agents {
		if prompt := s.tools.Folders().InPrompt(s.view.Workspace, def.Prompt); prompt != def.Prompt {
			if changed == nil {
				changed = maps.Clone(app.Agents)
			}
			def.Prompt = prompt
			changed[name] = def
		}
	}
	if changed == nil {
		return app
	}
	own := *app
	own.Agents = changed
	return &own
}

// narrowed is the tool as an older turn knows it, restricted further by what is known
// about it today.
func narrowed(old, today parley.ToolDecl) parley.ToolDecl {
	old.Actuation = old.Actuation || today.Actuation
	old.Edits = old.Edits && today.Edits
	old.WorkspaceOwn = old.WorkspaceOwn && today.WorkspaceOwn
	old.KeyTTL = min(old.KeyTTL, today.KeyTTL)
	old.Safety = today.Safety // what was granted for the session is about what would run
	return old
}

// keepApp ensures that the app's body is stored as a blob, which the turn's append then
// refers to.
func (e *Engine) keepApp(r *scope.Resolved) error {
	const fresh = 30 * time.Minute // half of the lifetime of an unreferenced blob
	e.mu.Lock()
	kept, put := e.bodies[r.Digest()]
	e.mu.Unlock()
	if put && e.o.Now().Sub(kept) < fresh {
		return nil
	}
	if _, err := e.o.Store.PutBlob(e.boot, parley.System(), r.Body()); err != nil {
		return err
	}
	now := e.o.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.bodies, func(_ parley.Digest, at time.Time) bool { return now.Sub(at) >= fresh })
	e.bodies[r.Digest()] = now
	return nil
}
