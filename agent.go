package parley

import (
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Agent is one instance of an agent in the turn, with its branch: all that its model sees
// of the turn besides the question. What happens to one instance, such as a failing model
// or a question to a human, is its own and does not concern the others.
type Agent struct {
	Path       AgentPath `json:"path"`
	Name       string    `json:"name"`
	Parent     AgentPath `json:"parent,omitempty"` // of a sub-agent
	Call       CallID    `json:"call,omitempty"`
	Input      string    `json:"input,omitempty"` // empty once it has ended
	Title      string    `json:"title,omitempty"`
	Background bool      `json:"background,omitempty"`
	Ended      bool      `json:"ended,omitempty"`
	Outcome    Outcome   `json:"outcome,omitempty"` // once it has ended
	Result     string    `json:"result,omitempty"`
	Items      []Item    `json:"items,omitempty"` // of a sub-agent: until it has ended

	Steers   []Item              `json:"steers,omitempty"`   // for its next step alone
	Waiting  []InteractionID     `json:"waiting,omitempty"`  // what it asks of humans
	Failures int                 `json:"failures,omitempty"` // failed calls of its current model since the last reply
	Failed   *ErrorInfo          `json:"failed,omitempty"`   // its last failure, if it is not to be retried
	GivenUp  []string            `json:"given_up,omitempty"` // models that were replaced by a fallback
	Heard    bool                `json:"heard,omitempty"`    // the hooks for its start have run
	AtEnd    *Hooked             `json:"at_end,omitempty"`   // what hooks decided about its end; nil: no hook has been asked since its last reply
	GoneOn   int                 `json:"gone_on,omitempty"`  // how often a hook has made it continue
	Transfer *ContextTransferred `json:"transfer,omitempty"` // set if the session changes the agent's model in this turn

	room *room // who may append to the array behind Items
}

// room counts the items in an array that several copies of an Agent share. Each copy sees only
// the items it had when it was made. The first copy to append keeps using the array; a copy
// that appends later gets an array of its own. Folds usually continue from one another, so an
// item is copied about once, however many steps the agent takes.
type room struct{ used atomic.Int64 }

// add appends to the agent's branch. Nothing else may.
func (a *Agent) add(it Item) {
	if it.Kind == ItemReply {
		a.AtEnd = nil
	}
	n := len(a.Items)
	if a.room == nil || n == cap(a.Items) || !a.room.used.CompareAndSwap(int64(n), int64(n)+1) {
		a.Items, a.room = append(make([]Item, 0, 2*n+4), a.Items...), &room{}
		a.room.used.Store(int64(n) + 1)
	}
	a.Items = append(a.Items, it)
}

// Replied reports whether the agent's model has replied in this turn.
func (a Agent) Replied() bool {
	return slices.ContainsFunc(a.Items, func(it Item) bool { return it.Kind == ItemReply })
}

// ItemKind says which fields of an Item are set.
type ItemKind string

const (
	ItemReply   ItemKind = "reply"   // Call, Parts: what the model said
	ItemCut     ItemKind = "cut"     // Call, Text: what it had said before the call was cut off
	ItemSteer   ItemKind = "steer"   // Parts: a message the user sent in between
	ItemHandoff ItemKind = "handoff" // From, Text: another agent handed off, and why
	ItemTask    ItemKind = "task"    // From: a sub-agent that ran in the background has ended
	ItemHook    ItemKind = "hook"    // Text: what a hook says
)

// Item is one entry of an agent's branch.
type Item struct {
	Seq   int64     `json:"seq"`
	Kind  ItemKind  `json:"kind"`
	Call  CallID    `json:"call,omitempty"`
	Parts []Part    `json:"parts,omitempty"`
	Text  string    `json:"text,omitempty"`
	From  AgentPath `json:"from,omitempty"`

	Repeated  bool       `json:"repeated,omitempty"`  // for a cut: the call is repeated as if it had said nothing
	Citations []Citation `json:"citations,omitempty"` // for a reply
}

// Depth is how far below the agents that answer the user an instance is: 0 for these,
// 1 for their sub-agents.
func (p AgentPath) Depth() int { return strings.Count(string(p), "/") }

// Within reports whether p is the instance at itself or one of the sub-agents below it.
func (p AgentPath) Within(at AgentPath) bool {
	return p == at || strings.HasPrefix(string(p), string(at)+"/")
}

// OfMemory reports whether the instance summarizes earlier turns for another instance.
func (p AgentPath) OfMemory() bool {
	base, _, _ := strings.Cut(path.Base(string(p)), "#")
	return base == MemoryAgent
}

// Sampling is the path of the model calls that a server gets in calls of the tools of the
// agent at p. No agent of an app has such a path: none has a dot in its name.
func (p AgentPath) Sampling(server string) AgentPath {
	return p + "/" + samplingPrefix + AgentPath(server)
}

const samplingPrefix = SamplingAgent + "."

// OfSampling reports whether p is a path of [AgentPath.Sampling].
func (p AgentPath) OfSampling() bool { return strings.HasPrefix(path.Base(string(p)), samplingPrefix) }

// Caller is the agent in whose call of a tool a server gets a reply, if p is a path of
// [AgentPath.Sampling], and else p.
func (p AgentPath) Caller() AgentPath {
	if !p.OfSampling() {
		return p
	}
	return AgentPath(path.Dir(string(p)))
}

// IsSub reports whether a works for another agent. The agent that summarizes earlier
// turns does not count.
func (a *Agent) IsSub() bool { return a.Parent != "" && a.Name != MemoryAgent }

// Agent returns the instance at path, or nil.
func (t *Turn) Agent(path AgentPath) *Agent {
	for i := range t.Agents {
		if t.Agents[i].Path == path {
			return &t.Agents[i]
		}
	}
	return nil
}

// Sub returns the sub-agent that a call started, or nil.
func (t *Turn) Sub(call CallID) *Agent {
	for i := range t.Agents {
		if a := &t.Agents[i]; a.Call == call && a.IsSub() {
			return a
		}
	}
	return nil
}

// Live reports whether a may still do something in this turn: it is in charge of the turn
// or a sub-agent, and has not ended.
func (t *Turn) Live(a *Agent) bool {
	return !a.Ended && (a.IsSub() || a.Parent == "" && a.Path == t.Active)
}

// Idle reports whether a can begin nothing before a human answers or one of its sub-agents
// ends. An agent that has said all it has to say is idle while sub-agents work for it in
// the background.
func (t *Turn) Idle(a *Agent) bool {
	if !t.Live(a) || len(a.Waiting) > 0 {
		return true
	}
	background := false
	for i := range t.Agents {
		sub := &t.Agents[i]
		if sub.Parent != a.Path || !t.Live(sub) {
			continue
		}
		if !sub.Background {
			return true
		}
		background = true
	}
	return background && a.spoke() && len(t.Pending(a)) == 0
}

// spoke reports whether the agent's last step was a reply without tool calls.
func (a *Agent) spoke() bool {
	n := len(a.Items)
	return n > 0 && a.Items[n-1].Kind == ItemReply &&
		!slices.ContainsFunc(a.Items[n-1].Parts, func(p Part) bool { return p.Type == PartToolCall })
}

// Pending returns the items that a's next step will show for the first time: messages from the
// user, messages from hooks, and the ends of its background sub-agents.
func (t *Turn) Pending(a *Agent) []Item {
	items := slices.Clip(a.Steers)
	if a.Parent == "" && a.Path == t.Active {
		for _, m := range t.Steers {
			items = append(items, Item{Kind: ItemSteer, Parts: m.Parts})
		}
	}
	return items
}

// deliver moves what is pending for a into its branch, as part of the step that began
// with event seq.
func (t *Turn) deliver(a *Agent, seq int64) {
	if a.Name == MemoryAgent {
		return
	}
	for _, it := range t.Pending(a) {
		it.Seq = seq
		a.add(it)
	}
	if a.Steers = nil; a.Parent == "" {
		t.Steers = nil
	}
}

// steer takes in a message for the sub-agent it names, or else for the agent in charge.
func (t *Turn) steer(to AgentPath, m Message) {
	if a := t.Agent(to); a != nil && a.IsSub() && !a.Ended {
		a.Steers = append(slices.Clip(a.Steers), Item{Kind: ItemSteer, Parts: m.Parts})
		return
	}
	t.Steers = append(t.Steers, m)
}

func (t *Turn) applyAgent(e Event, p Payload) {
	switch p := p.(type) {
	case AgentStarted:
		a := Agent{Path: e.Agent, Name: p.Name, Parent: p.Parent, Call: p.Call, Input: p.Input, Title: p.Title, Background: p.Background}
		if parent := t.Agent(p.Parent); parent != nil && a.IsSub() {
			a.GivenUp = parent.GivenUp // these models do not answer just now
		}
		t.Agents = append(t.Agents, a)
		if p.Parent == "" {
			t.Active = e.Agent
		}
	case AgentHandoff:
		if t.Agent(p.To) == nil {
			t.Agents = append(t.Agents, Agent{Path: p.To, Name: p.Name})
		}
		to := t.Agent(p.To)
		to.add(Item{Seq: e.Seq, Kind: ItemHandoff, From: p.From, Text: p.Why})
		if from := t.Agent(p.From); from != nil && from != to {
			to.GivenUp = from.GivenUp
			to.Steers, from.Steers = append(slices.Clip(to.Steers), from.Steers...), nil
		}
		t.Active = p.To
		t.Spent.Depth++
	case AgentEnded:
		a := t.Agent(e.Agent)
		if a == nil || a.Ended {
			return
		}
		t.endAgent(a, p)
		for i := range t.Agents {
			if b := &t.Agents[i]; !b.Ended && b.Path.Within(a.Path) {
				t.endAgent(b, AgentEnded{Outcome: OutcomeCancelled, Told: true})
			}
		}
	}
}

// endAgent closes one instance. What only its own steps needed is dropped. Messages that
// it has not read go to the agent in charge.
func (t *Turn) endAgent(a *Agent, p AgentEnded) {
	a.Ended, a.Outcome, a.Result = true, p.Outcome, p.Result
	if !a.IsSub() {
		return
	}
	for _, it := range a.Steers {
		if it.Kind == ItemSteer {
			t.Steers = append(slices.Clip(t.Steers), Message{Role: RoleUser, Parts: it.Parts})
		}
	}
	a.Input, a.Items, a.Steers, a.Failed, a.GivenUp, a.AtEnd = "", nil, nil, nil, nil, nil
	if !a.Background || p.Told {
		return
	}
	parent := t.Agent(a.Parent)
	if parent != nil && parent.Parent == "" {
		parent = t.Agent(t.Active) // which has taken over since, perhaps
	}
	if parent != nil {
		parent.Steers = append(slices.Clip(parent.Steers), Item{Kind: ItemTask, From: a.Path})
	}
}

// afresh forgets failures: a resumed turn tries again what had failed.
func (t *Turn) afresh() {
	for i := range t.Agents {
		a := &t.Agents[i]
		a.Failed, a.Failures, a.GivenUp = nil, 0, nil
	}
}

// failed takes in that a call of model has failed.
func (a *Agent) failed(model string, p ModelFailed) {
	if p.Fallback != "" && model != "" && !slices.Contains(a.GivenUp, model) {
		a.GivenUp = append(slices.Clip(a.GivenUp), model)
	}
	a.Failures++
	if p.Fallback != "" {
		a.Failures = 0
	}
	if !p.Retry {
		a.Failed = &p.Error
	}
}

// asker is the agent that asks a human.
func (t *Turn) asker(in Interaction) *Agent {
	path := in.Agent
	if c := t.Tool(in.Call); path == "" && c != nil {
		path = t.Owner(c)
	}
	if a := t.Agent(path); a != nil {
		return a
	}
	return t.Agent(t.Active)
}

// Owner is the agent that a call belongs to. A call that a human wants to be made again
// belongs to the agent of the first one.
func (t *Turn) Owner(c *Tool) AgentPath {
	if c.Agent == "" {
		if first := t.Tool(c.Redo); first != nil {
			return first.Agent
		}
	}
	return c.Agent
}

// inHand reports whether work on the call continues although its agent seems to wait only for
// sub-agents: a hook still has to run, or the agent itself can go on.
func (t *Turn) inHand(c *Tool) bool {
	if c.Status == ToolIsEnded {
		return c.HookDue
	}
	a, sub := t.Agent(t.Owner(c)), t.Sub(c.Call)
	return a != nil && !a.Ended && len(a.Waiting) == 0 && (sub == nil || sub.Ended)
}

// rest sets the turn to waiting and stops its clock when a human is asked and no agent can
// continue without the answer. It sets the turn to running again when an agent can. While a
// client runs one of the turn's calls, the turn stays running, because the engine must enforce
// that call's deadline. So it does while a server gets a reply of the model.
func (t *Turn) rest(at time.Time) {
	if t.Status != StatusRunning && t.Status != StatusWaiting {
		return
	}
	waits := len(t.Waiting) > 0 && !slices.ContainsFunc(t.Calls, func(c ModelCall) bool { return c.Agent.OfSampling() })
	for i := 0; waits && i < len(t.Agents); i++ {
		waits = t.Idle(&t.Agents[i])
	}
	if waits {
		for _, c := range t.Tools.Open() {
			waits = waits && !c.Claimed() && !t.inHand(c)
		}
	}
	switch {
	case waits && t.Status == StatusRunning:
		t.stopClock(at)
		t.Status = StatusWaiting
	case !waits && t.Status == StatusWaiting:
		t.Status, t.RunningSince = StatusRunning, at
	}
}
