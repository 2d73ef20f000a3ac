package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/seam"
)

const (
	// maxReads limits the tool calls of a turn that run at once, maxModels its model
	// calls. Both end by themselves, so what is over the limit waits for a place.
	maxReads  = 8
	maxModels = 8
)

// maxStill limits how often a turn does something that leaves no event.
const maxStill = 3

// A flight is a turn being carried forward: the set of actions under way. Whenever one of
// them is done, or a command arrives, next is asked again.
type flight struct {
	*Runtime
	host  seam.Host
	given given

	under map[string]*op
	done  chan *op
	over  map[parley.CallID]bool // calls that have waited long enough for a task
	still int                    // actions in a row that left no event

	reading *reading // the call whose stream is read by the turn's own goroutine, or nil

	// pool has capacity 1. It is held from looking at what the turn may spend until that is reserved
	// by a committed model.started. So calls that begin at once never reserve the same.
	pool chan struct{}
}

// reading is a call of a model that has begun.
type reading struct {
	read func()                      // reads its stream to the end
	end  func(context.Context) error // journals what came
	seq  int64                       // number of the last event in the state that it began from
}

// op is an action under way.
type op struct {
	key    string
	agent  parley.AgentPath
	kind   string
	seq    int64                                   // number of the last event in the state that it began from
	cut    bool                                    // it may be cancelled when its agent has ended
	call   parley.CallID                           // call of a tool that may write: it may be cancelled until the call is under way
	gone   bool                                    // it was cancelled so
	opens  func(context.Context) (*reading, error) // begins a call of a model; nil: it is something else
	cancel context.CancelCauseFunc
	err    error
	panics string
}

// run carries the turn forward. Most of a turn's time is spent in a stream, with this goroutine's stack. So what is done
// in between, which needs four times as much, is done aside.
func (f *flight) run(ctx context.Context) (end seam.Ending, err error) {
	for {
		aside.Do(func() { end, err = f.look(ctx) })
		if f.reading == nil {
			return end, err
		}
		f.reading.read()
	}
}

// look does what is ready, until the turn has ended or there is a stream to read.
func (f *flight) look(ctx context.Context) (seam.Ending, error) {
	if r := f.reading; r != nil {
		f.reading = nil
		err := parked(r.end(ctx))
		if err == nil {
			err = f.moved(r.seq)
		}
		if err != nil {
			return f.stopped(ctx, err)
		}
	}
	for {
		s := f.host.State()
		if s.Turn == nil || s.Turn.ID != f.host.Turn() {
			return seam.Ending{}, parley.Errorf(parley.CodeInternal, "turn %s is not open", f.host.Turn())
		}
		if ctx.Err() != nil && !settling(s.Turn) {
			return soFar(s), context.Cause(ctx)
		}
		f.cutEnded(s.Turn)
		acts := next(f.given, s)
		end, ends := ending(s, acts)
		if ends && end.Failed != nil {
			f.cutAll(s.Turn)
		}
		if ends && len(f.under) == 0 && !settles(acts) {
			return end, nil
		}
		staged, wait, err := f.begin(ctx, s, acts, ends)
		if err != nil {
			return f.stopped(ctx, err)
		}
		switch {
		case f.reading != nil:
			f.reading.seq = s.Seq
			return seam.Ending{}, nil
		case staged:
			if err := f.moved(s.Seq); err != nil {
				return soFar(s), err
			}
			continue
		case len(f.under) == 0 && wait.IsZero() && s.Turn.Status == parley.StatusWaiting:
			return soFar(s), seam.ErrParked
		case len(f.under) == 0 && wait.IsZero():
			return soFar(s), parley.Errorf(parley.CodeInternal, "turn %s makes no progress after event %d", s.Turn.ID, s.Seq)
		}
		if err := f.await(ctx, s, acts, wait); err != nil {
			return f.stopped(ctx, err)
		}
	}
}

// moved counts actions that left no event. What was staged is lost when the store could
// not take it; then the same is done again, and whatever has to be committed first says
// what is wrong.
func (f *flight) moved(from int64) error {
	if f.host.State().Seq != from {
		f.still = 0
		return nil
	}
	if f.still++; f.still <= maxStill {
		return nil
	}
	return parley.Errorf(parley.CodeInternal, "turn %s makes no progress after event %d", f.host.Turn(), from)
}

// stopped is how a turn ends whose actions could not be done.
func (f *flight) stopped(ctx context.Context, err error) (seam.Ending, error) {
	last := f.host.State()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return soFar(last), err
}

// begin begins the actions that are not under way yet. It reports whether some of them
// were done at once, and otherwise until when a call waits for a task, if one does. While
// the turn ends, only writes are settled.
func (f *flight) begin(ctx context.Context, s *parley.Session, acts []action, ends bool) (staged bool, wait time.Time, err error) {
	reads, models := 0, 0
	for _, o := range f.under {
		switch o.kind {
		case "tool":
			reads++
		case "model":
			models++
		}
	}
	var ops []*op
	var runs []func(context.Context) error
	for _, a := range acts {
		o, run := f.op(s, a)
		if _, settles := a.(settle); ends && !settles {
			continue
		}
		if run == nil {
			done, until, err := f.now(ctx, s, a)
			if err != nil {
				return false, wait, err
			}
			if done { // the state has moved
				return true, wait, nil
			}
			if !until.IsZero() && (wait.IsZero() || until.Before(wait)) {
				wait = until
			}
			continue
		}
		if f.under[o.key] != nil {
			continue
		}
		switch o.kind {
		case "tool":
			if reads++; reads > maxReads {
				continue
			}
		case "model":
			if models++; models > maxModels {
				continue
			}
		}
		ops, runs = append(ops, o), append(runs, run)
	}
	if len(ops) == 1 && len(f.under) == 0 && alone(s.Turn) {
		// The usual case needs no other goroutine.
		if opens := ops[0].opens; opens != nil {
			f.reading, err = opens(ctx)
			return true, wait, parked(err)
		}
		return true, wait, parked(runs[0](ctx))
	}
	for i, o := range ops {
		f.launch(ctx, o, runs[i])
	}
	return false, wait, nil
}

// alone reports whether nothing can happen in the turn but what its one agent does.
func alone(t *parley.Turn) bool {
	for i := range t.Agents {
		if a := &t.Agents[i]; a.IsSub() && t.Live(a) {
			return false
		}
	}
	return len(t.Waiting) == 0
}

// op is how an action is done that takes a while; nil for the others.
func (f *flight) op(s *parley.Session, a action) (*op, func(context.Context) error) {
	o := &op{seq: s.Seq}
	h := f.host
	switch a := a.(type) {
	case callModel:
		o.key, o.kind, o.agent, o.cut = "agent "+string(a.Agent), "model", a.Agent, true
		ag := s.Turn.Agent(a.Agent)
		first := ag.IsSub() && !ag.Heard && len(ag.Items) == 0
		o.opens = func(ctx context.Context) (r *reading, err error) {
			call := func(ctx context.Context) error { r, err = f.call(ctx, s, &a); return err }
			err = f.heeding(seam.Moment{Kind: seam.AgentStarts, Agent: a.Agent, Name: ag.Name}, first, call)(ctx)
			return r, err
		}
		return o, func(ctx context.Context) error {
			r, err := o.opens(ctx)
			if r == nil {
				return err
			}
			r.read()
			return r.end(ctx)
		}
	case condense:
		o.key, o.kind, o.agent = "agent "+string(a.Agent), "model", a.Agent
		return o, f.heeding(seam.Moment{Kind: seam.ContextParts, Agent: a.Agent}, s.Turn.Compact == nil, func(ctx context.Context) error {
			return f.condense(ctx, h, s, a.condensing)
		})
	case retrieve:
		o.key, o.agent = "agent "+string(a.Agent), a.Agent
		return o, func(ctx context.Context) error { return recall(ctx, h, a) }
	case settle:
		o.key = "call " + string(a.Call)
		return o, func(ctx context.Context) error { return h.Settle(ctx, a.Call) }
	case hear:
		o.key, o.call = "call "+string(a.Call), a.Call
		if c := s.Turn.Tool(a.Call); c != nil {
			o.agent = s.Turn.Owner(c)
		}
		return o, func(ctx context.Context) error { return h.Hear(ctx, a.Call) }
	case ask:
		o.key, o.agent = "call "+string(a.Call), a.Agent
		return o, func(ctx context.Context) error { _, err := h.Ask(ctx, a.Interaction); return err }
	case beginTask:
		o.key, o.kind, o.agent, o.cut = "call "+string(a.Call), "tool", a.Agent, true
		return o, func(ctx context.Context) error { _, err := h.Begin(ctx, a.ToolCall); return err }
	case endAgent:
		m := seam.Moment{Kind: seam.AgentEnds, Agent: a.Path, Name: s.Turn.Agent(a.Path).Name, Text: a.Result}
		if a.Outcome != parley.OutcomeOK || s.Turn.Agent(a.Path).AtEnd != nil || !h.Heeded(m) {
			return nil, nil
		}
		o.key, o.agent, o.cut = "agent "+string(a.Path), a.Path, true
		return o, f.heeding(m, true, func(context.Context) error { return f.endAgent(s, a) })
	case compact:
		m := seam.Moment{Kind: seam.ContextParts, Agent: a.Agent}
		if s.Turn.Compact != nil || !h.Heeded(m) {
			return nil, nil
		}
		o.key, o.agent = "agent "+string(a.Agent), a.Agent
		return o, f.heeding(m, true, func(context.Context) error { return stage(h, s.Turn.ID, a) })
	case runTool:
		o.key, o.kind, o.agent = "call "+string(a.Call), "tool", a.Agent
		if d := f.given.decl(a.Name); d != nil {
			o.cut = d.Effect == parley.EffectRead // the others are given until their deadline
		}
		if !o.cut {
			o.call = a.Call
		}
		if keyForgotten(s, h, a.Call) {
			return o, func(ctx context.Context) error { return h.Settle(ctx, a.Call) }
		}
		return o, func(ctx context.Context) error { _, err := h.Call(ctx, a.ToolCall, f.sample); return err }
	}
	return nil, nil
}

// heeding returns do with the hooks for the moment m in front, if they are due. If the hooks
// change the state, do is not called and next decides again.
func (f *flight) heeding(m seam.Moment, due bool, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if due {
			if moved, err := f.host.Heed(ctx, m); moved || err != nil {
				return err
			}
		}
		return do(ctx)
	}
}

// now does an action that takes no time. done is false if it only waits, until then.
func (f *flight) now(ctx context.Context, s *parley.Session, a action) (done bool, until time.Time, err error) {
	switch a := a.(type) {
	case startTask:
		return true, until, f.startTask(ctx, s, a)
	case report:
		return true, until, f.report(ctx, a)
	case endAgent:
		return true, until, f.endAgent(s, a)
	case awaitTask:
		if f.over[a.Call] || !f.host.Now().Before(a.Until) {
			return true, until, f.host.End(ctx, parley.ToolResult{Call: a.Call, Outcome: parley.OutcomeOK, Output: stillWorks})
		}
		return false, a.Until, nil
	case stop:
		return false, until, parley.Errorf(parley.CodeCancelled, "the turn was asked to stop")
	}
	return true, until, stage(f.host, s.Turn.ID, a)
}

func (f *flight) launch(ctx context.Context, o *op, run func(context.Context) error) {
	ctx, o.cancel = context.WithCancelCause(ctx)
	f.under[o.key] = o
	go func() {
		defer func() {
			if p := recover(); p != nil {
				o.panics = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			f.done <- o
		}()
		o.err = run(ctx)
	}()
}

// await waits until an action is done, a command arrives, or a call has waited long
// enough for a task.
func (f *flight) await(ctx context.Context, s *parley.Session, acts []action, wait time.Time) error {
	var timer <-chan time.Time
	if !wait.IsZero() {
		t := time.NewTimer(wait.Sub(f.host.Now()))
		defer t.Stop()
		timer = t.C
	}
	gone := ctx.Done()
	if settling(s.Turn) {
		gone = nil
	}
	select {
	case o := <-f.done:
		return f.landed(s, o)
	case <-timer:
		for _, a := range acts {
			if a, ok := a.(awaitTask); ok && a.Until.Equal(wait) {
				f.over[a.Call] = true
			}
		}
	case <-f.host.Commands():
	case <-gone:
		return context.Cause(ctx)
	}
	return nil
}

// landed takes an action out of those under way.
func (f *flight) landed(s *parley.Session, o *op) error {
	delete(f.under, o.key)
	o.cancel(nil)
	if o.panics != "" {
		panic(o.panics)
	}
	switch {
	case o.err == nil:
		return f.moved(o.seq)
	case errors.Is(o.err, seam.ErrParked), o.gone:
		return nil
	}
	if t := f.host.State().Turn; t != nil {
		if a := t.Agent(o.agent); a != nil && a.Ended {
			return nil // it ended just now
		}
	}
	return o.err
}

// cutEnded cuts what is under way for agents that have ended.
func (f *flight) cutEnded(t *parley.Turn) {
	for _, o := range f.under {
		if a := t.Agent(o.agent); a != nil && a.Ended {
			o.drop(t)
		}
	}
}

func (f *flight) cutAll(t *parley.Turn) {
	for _, o := range f.under {
		o.drop(t)
	}
}

// drop cancels the operation if it is no longer needed. A call with effects that is under way
// is not cancelled. While hooks are asked before or after the call, it can be.
func (o *op) drop(t *parley.Turn) {
	cut := o.cut
	if c := t.Tool(o.call); c != nil {
		cut = c.Status != parley.ToolIsStarted
	}
	if cut && !o.gone {
		o.gone = true
		o.cancel(seam.ErrNotNeeded)
	}
}

// land ends what is still under way when the turn leaves the runtime. Calls with effects
// are waited for.
func (f *flight) land() {
	if t := f.host.State().Turn; t != nil {
		f.cutAll(t)
	}
	for len(f.under) > 0 {
		o := <-f.done
		delete(f.under, o.key)
		o.cancel(nil)
	}
}

func settles(acts []action) bool {
	return slices.ContainsFunc(acts, func(a action) bool { _, ok := a.(settle); return ok })
}
