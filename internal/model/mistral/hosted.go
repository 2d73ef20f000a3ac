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

// HostedOptions say whose agents are hosted, and where their ids are kept.
type HostedOptions struct {
	App *parley.App
	// Model is Mistral's id of the agents' model. Empty: the part of the info's name after the
	// last slash.
	Model string
	// Dir is the data folder. The agents' ids are kept there in .agent_ids.json.
	Dir string
	// There returns an error if the data folder has disappeared. No agents are created then,
	// because their ids could not be kept. nil: the folder is always there.
	There func() error
}

// Hosted is a model whose agents and conversations are stored at Mistral: the agents of one app
// that use this model, with their handoffs as Mistral's own.
//
// A conversation at Mistral is a cache of our log. A request continues a conversation only if
// the request has its State (which the loop provides when nothing happened in between) and if
// the conversation holds exactly what the agent may see. Otherwise a new conversation is started
// from the request's messages. The same happens, within the call, if Mistral no longer knows the
// conversation or refuses to continue it, as long as nothing was said.
//
// Requests use handoff_execution "client": Mistral stops at a handoff, which becomes a handoff
// part, and our loop decides. The agent that receives the turn continues the same conversation,
// unless it must not see the history in it. It is not documented what Mistral does after an
// append that follows such a handoff. So the first output is checked: if it is from another
// agent, or if the append is rejected, a new conversation is started with the right agent, now
// and from then on. A handoff that comes as a function call is accepted too. Calls before a
// handoff are never answered, because Mistral drops them; their results reach the next agent as
// text.
//
// Some requests need what a stored agent cannot express: a prompt with memory or hints, tools or
// handoffs removed, an output cap below the agent's. They are sent without an agent, in a
// conversation with its own instructions and tools. There, handoffs are functions.
//
// Weak points. What was said stays at Mistral, even if the session is deleted here. Mistral's
// prompt grows by the work of earlier turns, which our estimate of a request's size does not
// include; the usage is Mistral's own count. The API does not report that a reply was cut off
// for length: it is assumed when the reply has as many tokens as allowed.
type Hosted struct {
	c      *Client
	o      HostedOptions
	info   seam.ModelInfo
	agents []string // the app's hosted agents

	busy  chan struct{} // lock of fleet
	fleet *fleet

	// noAppend is set once an append after a handoff has failed.
	noAppend atomic.Bool
}

// Hosted makes the hosted model of an app, for its agents that name this model or none. It does
// not contact Mistral; see [Hosted.Prepare].
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
	info.Provider, info.Hosted, info.MaxImages = name, true, maxImages
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

func (h *Hosted) Info() seam.ModelInfo { return h.info }

// Check implements seam.Checker: it requests the model's description.
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

// run answers the request. An error that it returns has not been yielded.
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
		c.h.c.log.DebugContext(ctx, "starting a new conversation", "agent", c.req.Agent, "why", err)
	}
	err = c.start(ctx)
	if e, ok := errors.AsType[*refusedStart](err); ok && e.gone {
		// The agent was deleted since it was looked up.
		c.h.stale(ctx, c.fleet)
		if c.fleet, err = c.h.ready(ctx); err != nil {
			return err
		}
		err = c.start(ctx)
	}
	return plain(err)
}

// plain returns err as the provider reported it.
func plain(err error) error {
	if e, ok := errors.AsType[*refusedStart](err); ok {
		return e.err
	}
	if e, ok := errors.AsType[*refusedAppend](err); ok {
		return e.err
	}
	return err
}

// errElsewhere means that another agent than expected continued the conversation. None of its
// output has been shown.
var errElsewhere = errors.New("another agent answered")

// refusedStart is the error of a conversation that was not started.
type refusedStart struct {
	err  error
	gone bool // the agent does not exist
}

func (e *refusedStart) Error() string { return e.err.Error() }
func (e *refusedStart) Unwrap() error { return e.err }

// refusedAppend is the error of an append that Mistral rejected.
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
