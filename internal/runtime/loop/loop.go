// Package loop is Parley's own runtime: it calls models, runs tools and hands
// turns between agents.
//
// [Runtime.Run] repeats three things: read the state, ask next what is ready, and begin it
// through the [seam.Host]. What takes a while is under way together; whenever some of it is
// done, next is asked again. next is a pure function of the resolved app and the folded
// session; everything that matters between two calls of it is in the log. So a turn goes
// on from any prefix of its log in the same way as it began, and resuming, forking and
// the crash tests are this one mechanism.
//
// Appends cost a disk sync, so there are few. What a model said is staged and
// travels with whatever comes next: the closing event of the turn, the start of
// a tool call, or the next model.started. A plain turn is two appends. No
// request leaves before its model.started is committed.
//
// The state of a turn is a tree of agents. A sub-agent begins with a call of another one's
// model and ends with the result of that call (task.go). In between it is like any agent: it
// takes its own steps, after a crash from where it was, and what goes wrong with it is the
// call's result. Sub-agents run at once and draw on what the turn may spend together.
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

// Run implements [seam.Runtime]. Beside an error the Ending still holds what was
// answered so far.
func (r *Runtime) Run(ctx context.Context, h seam.Host) (seam.Ending, error) {
	f := &flight{
		Runtime: r, host: h, given: given{app: h.App(), model: r.info},
		under: map[string]*op{}, done: make(chan *op), pool: make(chan struct{}, 1), over: map[parley.CallID]bool{},
	}
	defer f.land()
	return f.run(ctx)
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
