package mistral

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// HostedOptions say whose agents are hosted.
type HostedOptions struct {
	App *parley.App
	// Model is Mistral's id of the model that the agents use. Empty: what follows the
	// last slash of the info's name.
	Model string
	// Dir is the data folder, where the agents' ids are kept in .agent_ids.json.
	Dir string
	// There reports whether that folder went away: nothing is made for one that did, as
	// its ids could not be kept. Nil: it stays.
	There func() error
}

// Hosted is a model whose agents and conversations Mistral keeps: the agents of
// one app that use it, with their handoffs as Mistral's own.
//
// A conversation at Mistral is a cache of our log. A request goes on with one only
// when its State is there, which the loop gives when nothing lies between, and
// when what the conversation holds is what the agent may see; else a new
// conversation is begun from the request's messages. That is also done within the
// same call when Mistral no longer knows the conversation or refuses to go on with
// it, as long as nothing was said.
//
// All is asked for with handoff_execution "client": Mistral stops at a handoff,
// which becomes a handoff part, and our loop decides. The agent that receives the
// turn goes on in the same conversation, but for one that sees no history and
// would find some in it. Nobody outside knows for sure what Mistral does when one
// appends after such a handoff. So the first output says whose it is, and when it
// is not the agent's, or the append is refused, a new conversation is begun with
// the agent, then and from then on. A handoff that comes as a call of a function
// is taken as one too. Calls before a handoff are answered by nobody: Mistral has
// abandoned them; their results reach the next agent as text.
//
// What a stored agent cannot say is asked for without it, in a conversation with
// instructions and tools of its own: a prompt with memory or hints, tools or
// handoffs taken away, an output cap below the agent's. There, handoffs are
// functions.
//
// Weak points. What is said stays at Mistral, also when the session is deleted
// here. Mistral's prompt grows by what earlier turns did, which our estimate of a
// request's size does not know; the usage is Mistral's own count. The wire does not
// say that a reply was cut off for length: it is taken to be when it has as many
// tokens as it may have.
type Hosted struct {
	c      *Client
	o      HostedOptions
	info   seam.ModelInfo
	agents []string // of the app, that are hosted

	busy  chan struct{} // holds fleet
	fleet *fleet

	// noAppend is set once an append after a handoff was of no use.
	noAppend atomic.Bool
}

// Hosted makes the hosted model of an app: of its agents that name no model, or
// this one. It contacts nobody; see [Hosted.Prepare].
func (c *Client) Hosted(info seam.ModelInfo, o HostedOptions) (*Hosted, error) {
	if o.App == nil || o.Dir == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "hosted agents need an app and a data folder")
	}
	if o.Model == "" {
		o.Model = info.Name[strings.LastIndex(info.Name, "/")+1:]
	}
	if o.Model == "" {
		return nil, parley.Errorf(parley.CodeInvalid, "hosted agents need a model").WithHint("such as mistral-medium-latest")
	}
	info.Provider, info.Hosted = name, true
	h := &Hosted{c: c, o: o, info: info, busy: make(chan struct{}, 1)}
	for n, def := range o.App.Agents {
		if def.Model == "" || def.Model == info.Name {
			h.agents = append(h.agents, n)
		}
	}
	if h.agents == nil {
		return nil, parley.Errorf(parley.CodeInvalid, "no agent of app %s uses the model %s", o.App.Name, info.Name)
	}
	slices.Sort(h.agents)
	return h, nil
}

// Info implements seam.Model.
func (h *Hosted) Info() seam.ModelInfo { return h.info }

// Check implements seam.Checker: it looks the model up.
func (h *Hosted) Check(ctx context.Context) error { return h.c.check(ctx, h.o.Model) }

// Stream implements seam.Model.
func (h *Hosted) Stream(ctx context.Context, r seam.Request) iter.Seq2[seam.ModelDelta, error] {
	return func(yield func(seam.ModelDelta, error) bool) {
		c := &call{h: h, req: r, names: newNames(r), yield: yield}
		if err := c.run(ctx); err != nil {
			yield(seam.ModelDelta{}, err)
		}
	}
}

// A call is one call of the model.
type call struct {
	h     *Hosted
	req   seam.Request
	names *names
	yield yieldFunc
	fleet *fleet
}

// run answers the request. Its error has not been yielded.
func (c *call) run(ctx context.Context) (err error) {
	if c.fleet, err = c.h.ready(ctx); err != nil {
		return err
	}
	if s, inputs, ok := c.goOn(ctx); ok {
		err := c.append(ctx, s, inputs)
		if !again(err) {
			return plain(err)
		}
		if s.HandedTo != "" {
			c.h.noAppend.Store(true)
		}
		c.h.c.log.DebugContext(ctx, "a conversation is begun anew", "agent", c.req.Agent, "why", err)
	}
	err = c.start(ctx)
	if e, ok := errors.AsType[*refusedStart](err); ok && e.gone {
		// Somebody has deleted the agent since it was looked up.
		c.h.stale(ctx, c.fleet)
		if c.fleet, err = c.h.ready(ctx); err != nil {
			return err
		}
		err = c.start(ctx)
	}
	return plain(err)
}

// plain is err as the provider gave it.
func plain(err error) error {
	if e, ok := errors.AsType[*refusedStart](err); ok {
		return e.err
	}
	if e, ok := errors.AsType[*refusedAppend](err); ok {
		return e.err
	}
	return err
}

// errElsewhere is a conversation that did not go on with the agent that it was
// to. Nothing has been shown of it.
var errElsewhere = errors.New("another agent answered")

// refusedStart is a conversation that was not begun.
type refusedStart struct {
	err  error
	gone bool // the agent is not there
}

func (e *refusedStart) Error() string { return e.err.Error() }
func (e *refusedStart) Unwrap() error { return e.err }

// refusedAppend is an append that Mistral refused.
type refusedAppend struct{ err error }

func (e *refusedAppend) Error() string { return e.err.Error() }
func (e *refusedAppend) Unwrap() error { return e.err }

// again reports whether a new conversation may be started after an append that ended with
// err: nothing was said yet, and a new conversation may succeed.
func again(err error) bool {
	if errors.Is(err, errElsewhere) {
		return true
	}
	e, ok := errors.AsType[*refusedAppend](err)
	if !ok {
		return false
	}
	switch parley.CodeOf(e.err) {
	case parley.CodeNotFound, parley.CodeInvalid:
		return true
	}
	return false
}
