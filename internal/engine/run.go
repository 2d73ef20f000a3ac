package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
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
	started.HookDue = r.Origin == parley.OriginUser && r.Call == nil && s.hasHooks(hook.UserPromptSubmit, "")
	if force := app.InForce(); !reflect.DeepEqual(force, s.view.InForce) {
		started.InForce = &force
	}
	events := append([]parley.Event{parley.NewEvent(turn, "", started)}, stored(turn, "", files)...)
	if r.Call != nil {
		events = append(events, parley.NewEvent(turn, "", parley.ToolRequested{Call: r.Call.Call, Name: r.Call.Name, Input: r.Call.Input, Redacted: r.Call.Redacted}))
	}
	return s.begin(withOffered(app, r.Tools), turn, admitted, events...)
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
	r := &run{turn: turn, owner: s.view.Principal(), app: app, tools: s.tools.Share(), box: boxWith(s.tools.Tools(), s.view.Turn), readOnly: s.view.ReadOnly || s.tools.ReadOnly(), commands: make(chan struct{}, 1), done: make(chan struct{}), first: make(chan struct{})}
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

// ending returns the events that close the turn after its runtime returned.
func (s *session) ending(ending seam.Ending, err error, cause error) []parley.Event {
	turn := s.view.Turn.ID
	var last parley.Payload
	why, wasStopped := errors.AsType[*stopped](cause)
	slow, wasSlow := errors.AsType[*outOfTime](cause)
	switch {
	case wasStopped:
		last = parley.TurnCancelled{Reason: why.reason, By: why.by}
	case s.view.Turn.Stop != nil: // the caller could not be told that it was stored
		last = parley.TurnCancelled{Reason: s.view.Turn.Stop.Reason, By: s.view.Turn.Stop.By}
	case wasSlow:
		limit := float64(slow.limit.Milliseconds())
		ending.Events = append(ending.Events, parley.NewEvent(turn, "", parley.BudgetReached{Name: "duration", Limit: limit, Used: limit}))
		last = parley.TurnFailed{Error: parley.ErrorInfo{
			Code: "budget_duration", Message: fmt.Sprintf("the turn used up its %s of running time", slow.limit),
			Hint: "what was answered so far is kept; ask for less, or raise max_duration_ms",
		}}
	case err != nil:
		if _, ok := errors.AsType[*parley.Error](err); !ok {
			s.e.o.Logger.Error("a turn failed", "session", s.id, "turn", turn, "err", err)
		}
		last = parley.TurnFailed{Error: parley.Info(err)}
	case ending.Failed != nil:
		f := parley.TurnFailed{Error: parley.Info(ending.Failed)}
		if ending.Response.Message != "" {
			f.Response = &ending.Response
		}
		last = f
	default:
		last = parley.TurnCompleted{Response: ending.Response}
	}
	var events []parley.Event
	for _, ev := range ending.Events {
		ev.Turn = turn
		events = append(events, ev)
	}
	return s.closing(last, events...)
}

// closing is closingTurn, plus the end of a temporary session if nothing is left to run
// in it.
func (s *session) closing(last parley.Payload, events ...parley.Event) []parley.Event {
	events = s.closingTurn(last, events...)
	if s.view.Temporary && len(s.view.Queue) == 0 &&
		!slices.ContainsFunc(events, func(ev parley.Event) bool { return ev.Type == parley.TurnQueued{}.EventType() }) {
		events = append(events, temporaryEnd())
	}
	return events
}

func temporaryEnd() parley.Event {
	return parley.NewEvent("", "", parley.SessionEnded{Status: parley.Ended, Reason: "temporary session"})
}

// closingTurn returns the events that end the open turn: the given events, then an
// outcome for everything that was begun, then last, with the turn's usage and, unless the
// turn completed, the answer so far. Messages sent into the turn but not read become
// turns of their own. They are queued before last, so that a queue held by last includes
// them.
func (s *session) closingTurn(last parley.Payload, events ...parley.Event) []parley.Event {
	turn := s.view.Turn.ID
	after := s.view.Clone()
	add := func(agent parley.AgentPath, p parley.Payload) {
		events = append(events, parley.NewEvent(turn, agent, p))
	}
	for _, ev := range events {
		ev.Session, ev.Seq, ev.Time = s.id, after.Seq+1, s.e.now()
		if err := after.Apply(ev); err != nil {
			s.e.o.Logger.Error("an ending event does not fold", "session", s.id, "type", ev.Type, "err", err)
		}
	}
	apply := len(events)
	t := after.Turn
	cut := t.Calls
	for _, c := range cut {
		text, _, _ := s.e.o.Log.Partial(s.id, c.Call)
		usage := c.Reserved
		usage.Estimated = true
		add(c.Agent, parley.ModelFailed{
			Call: c.Call, Partial: text, Usage: usage,
			Error: parley.ErrorInfo{Code: parley.CodeCancelled, Message: "the call was cut off"},
		})
	}
	for i := range t.Agents {
		if a := &t.Agents[i]; a.IsSub() && !a.Ended && a.Parent.Depth() == 0 { // those below end with it
			add(a.Path, parley.AgentEnded{Outcome: parley.OutcomeCancelled, Told: true})
		}
	}
	for _, c := range t.Tools.Open() {
		if c.Status == parley.ToolIsEnded {
			continue
		}
		add(c.Agent, parley.ToolEnded{Name: c.Name, Effect: c.Effect, ToolResult: cutOff(c)})
	}
	for _, in := range after.Interactions {
		add(in.Agent, parley.InteractionExpired{ID: in.ID, Reason: "the turn ended"})
	}
	for i, ev := range events[apply:] {
		ev.Session, ev.Seq, ev.Time = s.id, after.Seq+1, s.e.now()
		if err := after.Apply(ev); err != nil {
			s.e.o.Logger.Error("a closing event does not fold", "session", s.id, "type", ev.Type, "n", i, "err", err)
		}
	}
	t = after.Turn
	said, scripted := t.Answered(), s.e.scripted(&after, cut)
	answered := func(r *parley.Response) *parley.Response {
		if r == nil && said != "" {
			r = &parley.Response{Message: said}
		}
		if r == nil || !scripted {
			return r
		}
		known := *r
		known.Scripted = true
		return &known
	}
	switch p := last.(type) {
	case parley.TurnCompleted:
		p.Usage, p.Response = t.Spent.Usage, *answered(&p.Response)
		last = p
	case parley.TurnFailed:
		p.Usage, p.Response = t.Spent.Usage, answered(p.Response)
		last = p
	case parley.TurnCancelled:
		p.Usage, p.Response = t.Spent.Usage, answered(nil)
		last = p
	case parley.TurnExpired:
		p.Usage = t.Spent.Usage
		last = p
	}
	for _, m := range t.Steers {
		events = append(events, parley.NewEvent(parley.TurnID(s.e.newID()), "", parley.TurnQueued{Late: true, TurnRequest: parley.TurnRequest{
			Origin: parley.OriginUser, Message: m, Budgets: s.view.Budgets, Client: t.Request.Client, By: t.Request.By,
		}}))
	}
	add("", last)
	return events
}

// cutOff is the outcome of a call that is still open when the turn ends.
func cutOff(c *parley.Tool) parley.ToolResult {
	r := parley.ToolResult{Call: c.Call, Outcome: parley.OutcomeCancelled, Output: "The call did not run: the turn ended first."}
	if c.Status == parley.ToolIsStarted {
		r.Output = "The call was cut off; it only reads, so nothing was changed."
		if c.Effect != parley.EffectRead {
			r = unknownResult(c.Call)
		}
	}
	return r
}

func unknownResult(call parley.CallID) parley.ToolResult {
	return parley.ToolResult{
		Call: call, Outcome: parley.OutcomeUnknown,
		Output: "The outcome of this call is unknown: it may or may not have taken effect. It was not repeated.",
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
		return withOffered(now.App(), t.Request.Tools), nil
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
	return withOffered(&old, t.Request.Tools), nil
}

// narrowed is the tool as an older turn knows it, restricted further by what is known
// about it today.
func narrowed(old, today parley.ToolDecl) parley.ToolDecl {
	old.Actuation = old.Actuation || today.Actuation
	old.Edits = old.Edits && today.Edits
	old.WorkspaceOwn = old.WorkspaceOwn && today.WorkspaceOwn
	old.KeyTTL = min(old.KeyTTL, today.KeyTTL)
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
