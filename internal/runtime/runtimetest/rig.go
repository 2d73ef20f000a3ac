package runtimetest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/engine"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/redact"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/store/mem"
	"github.com/parley-server/parley/internal/toolbox"
)

// ErrCrashed is the error of a turn whose process has crashed.
var ErrCrashed = errors.New("the process has crashed")

var user = parley.Principal{User: "ana"}

// Rig is an engine over a store in memory, with one session and one turn. While a runtime runs,
// the Rig is its Host. It passes everything on to the engine's Host and checks it.
type Rig struct {
	seam.Host // the engine's Host of the turn, while it runs

	tb      testing.TB
	world   *World
	given   *parley.App
	app     *parley.App // with the tools that the world needs
	store   *mem.Store
	reader  *eventlog.Reader
	writer  *eventlog.Writer
	engine  *engine.Engine
	runtime seam.Runtime
	stop    context.Context // ends when the turn must be cancelled
	session parley.SessionID
	turn    parley.TurnID
	counts  atomic.Bool // the session exists, so appends are counted
	appends atomic.Int64
	effects atomic.Int64
	left    atomic.Pointer[mem.Store] // the store that a crash left

	crashAt int
	where   string // crash before or after the append, or in the effect, of that number

	mu        sync.Mutex
	published map[parley.CallID]string
}

// NewRig returns a rig with an empty store.
func NewRig(tb testing.TB, w *World, app *parley.App) *Rig { return over(tb, w, app, mem.New()) }

func over(tb testing.TB, w *World, app *parley.App, store *mem.Store) *Rig {
	tb.Helper()
	a := *app
	a.Tools = slices.Clone(a.Tools)
	a.Runtime, a.MaxOpenTurns = "test", max(a.MaxOpenTurns, 1)
	if a.Resume == "" {
		a.Resume = parley.ResumeManual
	}
	a.Policy.Rules = append([]parley.Rule{{Verdict: parley.Allow}}, a.Policy.Rules...)
	for name, t := range w.Tools {
		if t.Ask {
			a.Policy.Rules = append(a.Policy.Rules, parley.Rule{Verdict: parley.Ask, Tool: name})
		}
	}
	r := &Rig{tb: tb, world: w, given: app, app: &a, store: store, published: map[parley.CallID]string{}}
	box, err := toolbox.New(w.sets(&a, r.effect), toolbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	r.writer, r.reader = eventlog.New(store, redact.New(), eventlog.Options{})
	r.engine, err = engine.New(engine.Options{
		Store: store, Log: r.writer, Reader: r.reader, Models: &Func{ModelInfo: info}, Runtimes: map[string]seam.Runtime{"test": bound{r}},
		Apps: []parley.App{a}, Tools: map[string]*toolbox.Box{a.Name: box},
	})
	if err != nil {
		tb.Fatal(err)
	}
	store.SetFaults(mem.Faults{Before: r.before, After: r.after})
	return r
}

// bound is the runtime of a rig's engine.
type bound struct{ *Rig }

func (b bound) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	b.Host = h
	if b.stop.Err() != nil { // commit first: only a turn that is in the log can be cancelled
		if err := h.Emit(ctx); err != nil {
			return seam.Ending{}, err
		}
	}
	both, cancel := context.WithCancelCause(b.stop)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	defer context.AfterFunc(b.stop, func() {
		_, _ = b.engine.Cancel(ctx, user, h.Turn(), context.Cause(b.stop).Error())
	})()
	end, err := b.runtime.Run(both, b.Rig)
	if b.stop.Err() != nil {
		<-ctx.Done()
	}
	return end, err
}

func (r *Rig) before(c mem.Call) error {
	if r.left.Load() != nil {
		return ErrCrashed
	}
	if c.Method == "Append" && r.counts.Load() && r.appends.Add(1) == int64(r.crashAt) && r.where == "before" {
		return r.die()
	}
	return nil
}

func (r *Rig) after(c mem.Call) error {
	if c.Method == "Append" && r.counts.Load() && r.appends.Load() == int64(r.crashAt) && r.where == "after" {
		return r.die()
	}
	return nil
}

// effect is called after each effect of a tool, before its result is returned.
func (r *Rig) effect() error {
	if r.effects.Add(1) == int64(r.crashAt) && r.where == "effect" {
		return r.die()
	}
	return nil
}

func (r *Rig) die() error {
	r.left.CompareAndSwap(nil, r.store.Clone())
	return ErrCrashed
}

// Start sends the turn's message, or makes its direct call.
func (r *Rig) Start(ctx context.Context, req parley.TurnRequest) error {
	if r.session == "" {
		s, _, err := r.engine.Create(ctx, user, parley.CreateSession{App: r.app.Name, OutsideID: "one"})
		if err != nil {
			return err
		}
		r.session = s.ID
		r.counts.Store(true)
	}
	var turn parley.TurnInfo
	var err error
	if req.Call != nil {
		turn, err = r.engine.CallTool(ctx, user, parley.CallTool{Session: r.session, Name: req.Call.Name, Input: req.Call.Input, Key: "one"})
	} else {
		turn, err = r.engine.Send(ctx, user, r.session, parley.Send{Message: req.Message.Text(), Budgets: req.Budgets, Key: "one"})
	}
	r.turn = turn.ID
	return err
}

// Drive runs the turn that req asks for to its end with the runtime rt, and answers what a
// human is asked. When ctx ends, the turn is cancelled. It returns ErrCrashed if the rig
// crashed.
func (r *Rig) Drive(ctx context.Context, rt seam.Runtime, req parley.TurnRequest) error {
	r.runtime, r.stop = rt, ctx
	err := r.drive(ctx, req)
	if r.left.Load() != nil {
		err = ErrCrashed
		r.store.SetFaults(mem.Faults{Before: func(mem.Call) error { return ErrCrashed }})
		r.close(true)
		return err
	}
	r.close(false)
	return err
}

func (r *Rig) close(now bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if now {
		cancel()
	}
	_ = r.engine.Close(ctx) // its error only says that ctx has ended
	_ = r.writer.Close(ctx)
}

func (r *Rig) drive(ctx context.Context, req parley.TurnRequest) error {
	all := context.WithoutCancel(ctx)
	if err := r.Start(all, req); err != nil {
		return err
	}
	for until := time.Now().Add(time.Hour); ; {
		turn, err := r.engine.Await(all, user, r.turn, 5*time.Second)
		switch {
		case err != nil || turn.Status.Ended() || r.left.Load() != nil:
			return err
		case turn.Status == parley.StatusInterrupted:
			_, err = r.engine.Resume(all, user, r.turn)
		case turn.Status == parley.StatusWaiting:
			err = r.answer(all)
		case time.Now().After(until):
			return errors.New("the turn is " + string(turn.Status) + " after an hour")
		}
		if err != nil && parley.CodeOf(err) != parley.CodeConflict {
			return err
		}
	}
}

func (r *Rig) answer(ctx context.Context) error {
	list, err := r.engine.Interactions(ctx, user, 100)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return errors.New("the turn waits, but no interaction is open")
	}
	for _, in := range list {
		if in.Title == "" || len(in.Choices) == 0 {
			r.tb.Errorf("the question %+v says nothing to a person", in)
		}
		if _, err := r.engine.Answer(ctx, user, in.ID, parley.AnswerInteraction{Answer: r.world.Choice(in.Interaction)}); err != nil {
			return err
		}
	}
	return nil
}

// Restart returns a rig that continues with the store that a crash left.
func (r *Rig) Restart() (*Rig, error) {
	again := over(r.tb, r.world, r.given, r.left.Load())
	done, err := again.engine.Recover(context.Background())
	if err != nil {
		return nil, err
	}
	<-done
	return again, nil
}

// Steer sends a message to the running turn.
func (r *Rig) Steer(text string) {
	if _, err := r.engine.Send(context.Background(), user, r.session, parley.Send{Message: text, Busy: parley.BusySteer}); err != nil {
		r.tb.Error(err)
	}
}

// Log returns the session's log.
func (r *Rig) Log() (log []parley.Event) {
	for {
		events, err := r.store.Read(context.Background(), parley.System(), r.session, int64(len(log)), 0)
		if err != nil {
			r.tb.Fatal(err)
		}
		if len(events) == 0 {
			return log
		}
		log = append(log, events...)
	}
}

// App implements [seam.Host].
func (r *Rig) App() *parley.App { return r.app }

// Publish implements [seam.Host]. It checks that the delta may be shown.
func (r *Rig) Publish(d parley.Delta) {
	if !r.isOpen(d.Call) {
		r.tb.Errorf("a delta of call %s was shown before its model.started was committed", d.Call)
	}
	if d.Agent == "" {
		r.tb.Errorf("the delta %+v does not say where it belongs", d)
	}
	r.mu.Lock()
	if d.Kind == parley.DeltaText {
		r.published[d.Call] += d.Text
	}
	r.mu.Unlock()
	r.Host.Publish(d)
}

// Published returns the text of a model call that was shown.
func (r *Rig) Published(call parley.CallID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published[call]
}

// isOpen reports whether the model call is committed and has not ended.
func (r *Rig) isOpen(call parley.CallID) bool {
	if r.left.Load() != nil {
		return true // nobody sees it
	}
	open := false
	for _, e := range r.Log() {
		switch p := payload(r.tb, e).(type) {
		case parley.ModelStarted:
			open = open || p.Call == call
		case parley.ModelReplied:
			open = open && p.Call != call
		case parley.ModelFailed:
			open = open && p.Call != call
		}
	}
	return open
}

func payload(tb testing.TB, e parley.Event) parley.Payload {
	p, err := e.Payload()
	if err != nil {
		tb.Errorf("event %d %s: %v", e.Seq, e.Type, err)
	}
	return p
}
