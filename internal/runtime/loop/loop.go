// Package loop is Parley's own runtime: it calls models, runs tools and hands
// turns between agents.
//
// [Runtime.Run] repeats three things: read the state, ask next what is ready, and do it
// through the [seam.Host]. next is a pure function of the resolved app and the folded
// session; everything that matters between two calls of it is in the log. So a turn goes
// on from any prefix of its log in the same way as it began, and resuming, forking and
// the crash tests are this one mechanism.
//
// Appends cost a disk sync, so there are few. What a model said is staged and
// travels with whatever comes next: the closing event of the turn, the start of
// a tool call, or the next model.started. A plain turn is two appends. No
// request leaves before its model.started is committed.
//
// What a model sees is built from the state alone (context.go) and is valid for
// every provider we know: each call has exactly one result, right after it.
//
// Failures: a model that is busy or unavailable is retried a few times (retry.go); then
// the next of the app's fallbacks is used for the rest of the turn. Without a fallback
// the turn fails with what was answered so far. A repeated call has a new call id and
// repeats its whole reply. A tool's failure is a result that the model sees. When ctx is
// cancelled, the text so far is kept in model.failed and Run returns the cause.
//
// A Runtime keeps nothing between turns and is safe for concurrent use.
package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of a Runtime. The zero Options are good.
type Options struct {
	FirstToken time.Duration // how long a model may take to begin that says nothing of it; 0: 60 s
	Silence    time.Duration // how long it may pause in a reply; 0: 60 s
}

// Runtime is the loop. New makes one.
type Runtime struct {
	models seam.Models
	opt    Options
}

// New returns a Runtime that finds its models in models.
func New(models seam.Models, o Options) *Runtime {
	// 60 s: longer than the slowest first token of a reasoning model that still
	// streams, shorter than people wait.
	if o.FirstToken <= 0 {
		o.FirstToken = time.Minute
	}
	if o.Silence <= 0 {
		o.Silence = time.Minute
	}
	return &Runtime{models: models, opt: o}
}

var _ seam.Runtime = (*Runtime)(nil)

// maxParallel limits the reads of one reply that run at once.
const maxParallel = 8

// maxStill limits how often a turn does something that leaves no event.
const maxStill = 3

// Run implements [seam.Runtime]. Beside an error the Ending still holds what was
// answered so far.
func (r *Runtime) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	g := given{app: h.App(), model: r.info}
	seq, still := int64(-1), 0
	for {
		s := h.State()
		if s.Turn == nil || s.Turn.ID != h.Turn() {
			return seam.Ending{}, parley.Errorf(parley.CodeInternal, "turn %s is not open", h.Turn())
		}
		if ctx.Err() != nil && !settling(s.Turn) {
			return soFar(&s), context.Cause(ctx)
		}
		// What was staged is lost when the store could not take it; then the same
		// is done again, and whatever has to be committed first says what is wrong.
		if s.Seq != seq {
			still = 0
		} else if still++; still > maxStill {
			return soFar(&s), parley.Errorf(parley.CodeInternal, "turn %s makes no progress after event %d", s.Turn.ID, seq)
		}
		seq = s.Seq
		acts := next(g, &s)
		if e, ok := ending(&s, acts); ok {
			return e, nil
		}
		if err := r.perform(ctx, h, &s, acts); err != nil {
			return stopped(ctx, h, err)
		}
	}
}

// stopped is how a turn ends whose actions could not be done.
func stopped(ctx context.Context, h seam.Host, err error) (seam.Ending, error) {
	last := h.State()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return soFar(&last), err
}

func (r *Runtime) info(name string) (seam.ModelInfo, error) {
	m, err := r.models.Model(name)
	if err != nil {
		return seam.ModelInfo{}, err
	}
	return m.Info(), nil
}

// ending turns an action that ends the turn into its Ending.
func ending(s *parley.Session, acts []action) (seam.Ending, bool) {
	for _, a := range acts {
		switch a := a.(type) {
		case finish:
			return seam.Ending{Response: a.Response}, true
		case fail:
			e := seam.Ending{Response: a.Response, Failed: a.Error}
			if a.Budget != nil {
				e.Events = []parley.Event{parley.NewEvent(s.Turn.ID, s.Turn.Active, *a.Budget)}
			}
			return e, true
		}
	}
	return seam.Ending{}, false
}

func soFar(s *parley.Session) seam.Ending {
	if s.Turn == nil {
		return seam.Ending{}
	}
	return seam.Ending{Response: answered(s.Turn)}
}

// perform does the actions. Tool calls among them are ready together and run at
// once; the rest is done in order.
func (r *Runtime) perform(ctx context.Context, h seam.Host, s *parley.Session, acts []action) error {
	calls, asks := 0, 0
	for _, a := range acts {
		var err error
		switch a.(type) {
		case runTool:
			calls++
		case ask:
			asks++
		default:
			err = r.do(ctx, h, s, a)
		}
		if err != nil {
			return err
		}
	}
	if calls+asks == 0 {
		return nil
	}
	return runAndAsk(ctx, h, s, acts)
}

// do does an action that stands alone.
func (r *Runtime) do(ctx context.Context, h seam.Host, s *parley.Session, a action) error {
	switch a := a.(type) {
	case callModel:
		return r.call(ctx, h, s, &a)
	case condense:
		return r.condense(ctx, h, s, a.condensing)
	case retrieve:
		return recall(ctx, h, a)
	case settle:
		return h.Settle(ctx, a.Call)
	case stop:
		return parley.Errorf(parley.CodeCancelled, "the turn was asked to stop")
	}
	return stage(h, s.Turn.ID, a)
}

// stage does an action that is nothing but an event.
func stage(h seam.Host, turn parley.TurnID, a action) error {
	switch a := a.(type) {
	case startAgent:
		return h.Stage(parley.NewEvent(turn, a.Path, parley.AgentStarted{Name: a.Name}))
	case handoff:
		return h.Stage(parley.NewEvent(turn, a.From, a.AgentHandoff))
	case compact:
		return h.Stage(parley.NewEvent(turn, a.Agent, a.ContextCompacted))
	case transfer:
		return h.Stage(parley.NewEvent(turn, a.Agent, a.ContextTransferred))
	}
	return parley.Errorf(parley.CodeInternal, "the loop has no way to do %T", a)
}

// runAndAsk runs the tools among the actions, and then opens every question
// before the turn parks, so that a person sees all of them at once.
func runAndAsk(ctx context.Context, h seam.Host, s *parley.Session, acts []action) error {
	var calls []parley.ToolCall
	for _, a := range acts {
		if a, ok := a.(runTool); !ok {
			continue
		} else if !keyForgotten(s, h, a.Call) {
			calls = append(calls, a.ToolCall)
		} else if err := h.Settle(ctx, a.Call); err != nil {
			return err
		}
	}
	err := runTools(ctx, h, calls)
	for _, a := range acts {
		if a, ok := a.(ask); ok {
			if _, e := h.Ask(ctx, a.Interaction); e != nil && (err == nil || errors.Is(err, seam.ErrParked)) {
				err = e
			}
		}
	}
	return err
}

// keyForgotten reports whether a started idempotent call is so old that its
// service may not know its key any more. It is then like a write: it must not be
// made again.
func keyForgotten(s *parley.Session, h seam.Host, call parley.CallID) bool {
	c := s.Turn.Tool(call)
	if c == nil || c.Status != parley.ToolIsStarted || c.Effect != parley.EffectIdempotent {
		return false
	}
	var ttl time.Duration
	for _, d := range h.App().Tools {
		if d.Name == c.Name {
			ttl = time.Duration(d.KeyTTL)
		}
	}
	return h.Now().Sub(c.StartedAt) > ttl
}

// runTools runs calls that may run at once and waits for all of them. An error
// that fails the turn wins over ErrParked.
func runTools(ctx context.Context, h seam.Host, calls []parley.ToolCall) error {
	if len(calls) == 1 {
		_, err := h.Call(ctx, calls[0])
		return err
	}
	errs := make([]error, len(calls))
	slots := make(chan struct{}, maxParallel)
	var wg sync.WaitGroup
	for i, c := range calls {
		slots <- struct{}{}
		wg.Go(func() {
			_, errs[i] = h.Call(ctx, c)
			<-slots
		})
	}
	wg.Wait()
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, seam.ErrParked)) {
			first = err
		}
	}
	return first
}
