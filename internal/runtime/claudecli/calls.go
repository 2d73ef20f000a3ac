package claudecli

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/parley-server/parley"
)

// calls are the tool calls and the sub-agents of a turn by the CLI's ids. What the CLI says about one of
// them may come before the reply that begins it, so whoever looks for one waits for a while.
type calls struct {
	mu     sync.Mutex
	uses   map[string]*use
	agents map[string]parley.AgentPath
	news   chan struct{} // closed and replaced with each change
}

// use is a call of a tool by the CLI's model.
type use struct {
	id    string // the CLI's
	call  parley.CallID
	name  string // in the log
	agent parley.AgentPath

	mu      sync.Mutex
	allowed json.RawMessage // the input with which it has begun; nil: it has not
	ended   bool

	// Of Task; the turn's mu guards them. The CLI says that the agent is done, and what the call returned. Either
	// may come first: the second also comes with a request for a model call.
	agentDone bool
	returned  bool
}

func newCalls() *calls {
	return &calls{uses: map[string]*use{}, agents: map[string]parley.AgentPath{}, news: make(chan struct{})}
}

// changed wakes who waits. The caller holds mu.
func (c *calls) changed() {
	close(c.news)
	c.news = make(chan struct{})
}

// change is closed with the next change.
func (c *calls) change() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.news
}

// told wakes who waits for a call to begin or to end.
func (c *calls) told() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed()
}

// get returns a call, or nil.
func (c *calls) get(id string) *use {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uses[id]
}

// agent returns the path of a sub-agent, or "".
func (c *calls) agent(id string) parley.AgentPath {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agents[id]
}

// begins says which agent has an id.
func (c *calls) begins(id string, path parley.AgentPath) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.agents[id] = path
	c.changed()
}

// known says that the calls of a reply are in the log.
func (c *calls) known(parts []parley.Part, path parley.AgentPath) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parts {
		if p.Type == parley.PartToolCall && p.ProviderID != "" && c.uses[p.ProviderID] == nil {
			c.uses[p.ProviderID] = &use{id: p.ProviderID, call: p.Call, name: p.Name, agent: path}
		}
	}
	c.changed()
}

// knownWithin limits the wait for what the CLI says on one way and is needed on another.
const knownWithin = 20 * time.Second

var errUnknownCall = parley.Errorf(parley.CodeInvalid, "this call is in no reply of the model, so it cannot be made")

// await returns what find finds, as soon as it does, or nothing after a while. over ends the wait, too.
func await[T comparable](ctx, over context.Context, c *calls, find func() T) (found T, err error) {
	late := time.NewTimer(knownWithin)
	defer late.Stop()
	var none T
	for {
		news := c.change()
		if v := find(); v != none {
			return v, nil
		}
		select {
		case <-news:
		case <-late.C:
			return none, errUnknownCall
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-over.Done():
			return none, context.Cause(over)
		}
	}
}

// use finds a call by the CLI's id. The reply that asks for it may still be on its way.
func (t *turn) use(ctx context.Context, id string) (*use, error) {
	return await(ctx, t.ctx, t.calls, func() *use { return t.calls.get(id) })
}

// path is the path of the agent with one of the CLI's ids; "": the one that answers the user.
func (t *turn) path(ctx context.Context, id string) parley.AgentPath {
	if id == "" {
		return t.entry
	}
	path, err := await(ctx, t.ctx, t.calls, func() parley.AgentPath { return t.calls.agent(id) })
	if err != nil {
		return t.entry
	}
	return path
}

// newUse makes the id of a call in a reply.
func (t *turn) newUse(id string) parley.CallID {
	if u := t.calls.get(id); u != nil {
		return u.call // a reply that was asked for again
	}
	return t.h.NewCall()
}
