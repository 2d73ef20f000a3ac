package loop

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/prompt"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/task"
)

// given is what next may know besides the state. It does not change while a
// turn lasts.
type given struct {
	app   *parley.App
	model func(name string) (seam.ModelInfo, error)
}

// An action is one thing that is ready to be done.
type action interface{ isAction() }

type (
	startAgent struct {
		Path parley.AgentPath
		Name string
	}
	callModel struct {
		Agent    parley.AgentPath
		Request  seam.Request
		Reserved parley.Usage
		Heard    int                   // what came in between that the request shows
		Bound    *parley.BudgetReached // the budget that made the output cap smaller than it would be
		Fallback string                // the model to call when this one does not answer
	}
	transfer struct {
		parley.ContextTransferred
		Agent parley.AgentPath
	}
	runTool struct{ parley.ToolCall }
	settle  struct{ Call parley.CallID }
	hear    struct{ Call parley.CallID } // run the hooks for the end of a call
	ask     struct{ parley.Interaction }
	handoff struct{ parley.AgentHandoff }
	compact struct {
		parley.ContextCompacted
		Agent parley.AgentPath
	}
	condense struct{ condensing } // earlier turns into memory
	retrieve struct {
		Agent parley.AgentPath
		Query string
	}
	beginTask struct{ parley.ToolCall } // the call is checked like that of any tool
	startTask struct {                  // a call that gives a sub-agent a task
		parley.ToolCall
		Path parley.AgentPath
		Job  task.Task
	}
	awaitTask struct { // a call for the result of a sub-agent that works
		parley.ToolCall
		Until time.Time
	}
	report struct { // what a call of the two kinds above came to
		parley.ToolCall
		Result parley.ToolResult
	}
	endAgent struct { // a sub-agent has its result
		Path parley.AgentPath
		parley.AgentEnded
	}
	finish struct{ parley.Response }
	fail   struct {
		Error    *parley.Error
		Response parley.Response
		Budget   *parley.BudgetReached
	}
	stop struct{}
)

func (startAgent) isAction() {}
func (callModel) isAction()  {}
func (runTool) isAction()    {}
func (settle) isAction()     {}
func (hear) isAction()       {}
func (ask) isAction()        {}
func (handoff) isAction()    {}
func (compact) isAction()    {}
func (transfer) isAction()   {}
func (condense) isAction()   {}
func (retrieve) isAction()   {}
func (beginTask) isAction()  {}
func (startTask) isAction()  {}
func (awaitTask) isAction()  {}
func (report) isAction()     {}
func (endAgent) isAction()   {}
func (finish) isAction()     {}
func (fail) isAction()       {}
func (stop) isAction()       {}

// next says which actions are ready in the open turn of s. It reads no clock and does no
// I/O: equal arguments give equal actions. It changes nothing.
func next(g given, s *parley.Session) []action {
	t := s.Turn
	if t.Stop != nil {
		return stopping(t)
	}
	if t.Request.Origin == parley.OriginCall {
		return direct(g, s)
	}
	if len(t.Agents) == 0 {
		entry := t.Request.Entry(g.app)
		return []action{startAgent{Path: parley.AgentPath(entry), Name: entry}}
	}
	acts := left(t)
	for i := range t.Agents {
		if a := &t.Agents[i]; t.Live(a) {
			acts = append(acts, g.step(s, a)...)
		}
	}
	return acts
}

// left settles the writes of sub-agents that have ended, with the one that they worked
// for, while the writes were under way.
func left(t *parley.Turn) []action {
	var acts []action
	for _, c := range t.Tools.Open() {
		if a := t.Agent(t.Owner(c)); a != nil && a.IsSub() && a.Ended && c.Status == parley.ToolIsStarted && writes(c) {
			acts = append(acts, settle{c.Call})
		}
	}
	return acts
}

// step says what the instance a can do. What would end the turn if a answered the user
// ends a sub-agent alone.
func (g given) step(s *parley.Session, a *parley.Agent) []action {
	acts := g.agent(s, a)
	if !a.IsSub() {
		return acts
	}
	for i, act := range acts {
		switch act := act.(type) {
		case finish:
			acts[i] = endOf(s.Turn, a, parley.OutcomeOK, withSources(act.Response))
		case fail:
			acts[i] = endOf(s.Turn, a, parley.OutcomeError, joinLines(act.Error.Message, act.Error.Hint))
		}
	}
	return acts
}

// stopping gives what was started an outcome, then stops.
func stopping(t *parley.Turn) []action {
	var acts []action
	for _, c := range t.Tools.Open() {
		if c.Status == parley.ToolIsStarted && writes(c) {
			acts = append(acts, settle{c.Call})
		}
	}
	if acts == nil {
		acts = []action{stop{}}
	}
	return acts
}

// settling reports whether a turn that was asked to stop has writes to settle first. Who
// stops it does not cut that; the host does when the server stops.
func settling(t *parley.Turn) bool {
	_, over := stopping(t)[0].(stop)
	return t.Stop != nil && !over
}

// direct is a turn without a model: the one tool that was called.
func direct(g given, s *parley.Session) []action {
	t := s.Turn
	if acts, open := g.tools(s, nil); open {
		return acts
	}
	for _, c := range t.Tools.All() {
		text, _ := resultOf(t.Tool, c)
		return []action{finish{parley.Response{Message: parley.WithHooks(text, c.HookSays)}}}
	}
	return failed(t, parley.Errorf(parley.CodeInternal, "the turn has no tool call to run"))
}

// agent says what the instance a can do.
func (g given) agent(s *parley.Session, a *parley.Agent) []action {
	t := s.Turn
	def, ok := g.app.Agents[a.Name]
	if !ok {
		return failed(t, parley.Errorf(parley.CodeInvalid, "app %s has no agent %q", g.app.Name, a.Name).
			WithHint("name it under agents, or take it out of the handoffs"))
	}
	if acts, open := g.tools(s, a); open {
		return acts
	}
	if slices.ContainsFunc(t.Calls, func(c parley.ModelCall) bool { return c.Agent == a.Path }) || t.Idle(a) {
		return nil // its model speaks, or it waits
	}
	if a.Failed != nil {
		return []action{fail{Error: errorOf(*a.Failed), Response: answered(t)}}
	}
	if what, ok := repeats(t, a); ok {
		return failed(t, parley.Errorf(parley.CodeModel, "stopped, because %s three times with the same result", what).
			WithHint("say what to do differently, or give the agent another tool"))
	}
	if len(a.Items) == 0 {
		if c, ok := g.due(s, a, def); ok {
			return []action{condense{c}}
		}
		if (g.app.Memory.Retrieve || len(s.Attached) > 0) && !t.Retrieved {
			return []action{retrieve{Agent: a.Path, Query: t.Request.Message.Text()}}
		}
	}
	if len(a.Items) == 0 || len(t.Pending(a)) > 0 && !g.handsOff(a) {
		return g.callModel(s, a, def)
	}
	last := a.Items[len(a.Items)-1]
	if last.Kind != parley.ItemReply || calledTools(last.Parts) && !g.handsOff(a) {
		return g.callModel(s, a, def)
	}
	if p, ok := handoffPart(last.Parts); ok {
		if !g.mayHandOff(a, p.Name) {
			return g.callModel(s, a, def) // it is told why not
		}
		if b := reachedDepth(t); b != nil {
			return overBudget(t, b)
		}
		return []action{handoff{parley.AgentHandoff{
			From: a.Path, To: parley.AgentPath(p.Name), Name: p.Name, Why: p.Text, Call: p.Call,
		}}}
	}
	if text := parley.PartsText(last.Parts); !blank(text) {
		return []action{finish{prompt.Cited(prompt.Response(text), a)}}
	}
	if n := len(a.Items); n > 1 && a.Items[n-2].Kind == parley.ItemReply && empty(a.Items[n-2].Parts) {
		return failed(t, parley.Errorf(parley.CodeModel, "the model gave an empty reply twice").
			WithHint("ask again, or choose another model"))
	}
	return g.callModel(s, a, def)
}

// tools says which calls of the agent a are ready, nil: of the turn; and whether some are
// open at all. Reads are ready together, but those that clients run are offered to them one
// after the other. As soon as one of them may write, they run in the order in which the model
// requested them, and an unknown outcome is settled before the next write.
func (g given) tools(s *parley.Session, a *parley.Agent) (ready []action, open bool) {
	t := s.Turn
	counts := func(c *parley.Tool) bool { return a == nil || t.Owner(c) == a.Path }
	var settles []action
	reads, over := true, false
	for i, c := range t.Tools.Open() {
		switch {
		case c.Status == parley.ToolIsEnded || !counts(c):
		case c.Status == parley.ToolIsStarted && writes(c):
			settles = append(settles, settle{c.Call})
		default:
			reads = reads && g.effect(c) == parley.EffectRead
			over = over || c.Redo == "" && c.Status == parley.ToolIsRequested && overToolCalls(t, i)
		}
	}
	switch {
	case settles != nil:
		return settles, true
	case over:
		return overBudget(t, &parley.BudgetReached{
			Name: "tool_calls", Limit: float64(t.Request.Budgets.MaxToolCalls), Used: float64(t.Spent.ToolCalls),
		}), true
	}
	offering := false
	for _, c := range t.Tools.Open() {
		if !counts(c) {
			continue
		}
		if c.Status == parley.ToolIsEnded {
			if c.HookDue {
				open = true
				ready = append(ready, hear{c.Call})
				continue
			}
			if g.attended(s) {
				if open = true; !isAsked(s, c) {
					ready = append(ready, ask{unknown(s, c)})
				}
			}
			continue
		}
		if !reads && open {
			return ready, true // the questions before it go first
		}
		open = true
		switch offers := c.Status == parley.ToolIsRequested && g.byClient(c); {
		case isAsked(s, c), offers && offering: // the one before it is offered first
		default:
			ready = append(ready, g.run(t, c)...)
			offering = offering || offers
		}
		if !reads || len(ready) >= maxReads { // the first ones are those under way
			return ready, true
		}
	}
	return ready, open
}

// isAsked reports whether a human is asked something about the call.
func isAsked(s *parley.Session, c *parley.Tool) bool {
	return slices.ContainsFunc(s.Interactions, func(in parley.Interaction) bool { return in.Call == c.Call })
}

// byClient reports whether a client runs the call.
func (g given) byClient(c *parley.Tool) bool {
	d := g.decl(c.Name)
	return d != nil && d.Run == parley.RunClient
}

// run is how a call is carried out.
func (g given) run(t *parley.Turn, c *parley.Tool) []action {
	call := parley.ToolCall{Call: c.Call, Agent: c.Agent, Name: c.Name, Input: c.Input}
	if d := g.decl(c.Name); d != nil && d.Run == parley.RunRuntime {
		return g.task(t, c, call)
	}
	return []action{runTool{call}}
}

func writes(c *parley.Tool) bool {
	return c.Effect != parley.EffectRead && c.Effect != parley.EffectIdempotent
}

func (g given) effect(c *parley.Tool) parley.Effect {
	if d := g.decl(c.Name); d != nil {
		return d.Effect
	}
	return parley.EffectWrite
}

// decl is the tool of that name, or nil.
func (g given) decl(name string) *parley.ToolDecl {
	for i := range g.app.Tools {
		if g.app.Tools[i].Name == name {
			return &g.app.Tools[i]
		}
	}
	return nil
}

// attended reports whether a human can be asked about this turn.
func (g given) attended(s *parley.Session) bool {
	r := s.Turn.Request
	return (r.Origin == parley.OriginUser || r.Origin == parley.OriginSchedule && r.Asks()) && !g.app.Policy.Unattended && (s.Policy == nil || !s.Policy.Unattended)
}

func unknown(s *parley.Session, c *parley.Tool) parley.Interaction {
	in := parley.Interaction{
		Session: s.ID, Turn: s.Turn.ID, Agent: c.Agent, Kind: parley.KindUnknown, Call: c.Call, Tool: c.Name, Input: c.Input,
		Title: "Did " + c.Name + " take effect?",
		Text:  "Nobody knows whether this call took effect. It is not repeated unless you say so.",
		Choices: []string{
			parley.ChoiceHappened, parley.ChoiceDidNot, parley.ChoiceAgain, parley.ChoiceLeave,
		},
	}
	if c.Error != nil && c.Error.Message != "" {
		in.Text = "Nobody knows whether this call took effect: " + c.Error.Message + ". It is not repeated unless you say so."
	}
	return in
}

// mayHandOff reports whether a may give the turn to another agent. A sub-agent may not:
// it answers the agent that called it.
func (g given) mayHandOff(a *parley.Agent, to string) bool {
	_, ok := g.app.Agents[to]
	return ok && a.Parent == "" && slices.Contains(g.app.Agents[a.Name].Handoffs, to)
}

// handsOff reports whether the agent's last reply gives the turn away.
func (g given) handsOff(a *parley.Agent) bool {
	if len(a.Items) == 0 {
		return false
	}
	p, ok := handoffPart(a.Items[len(a.Items)-1].Parts)
	return ok && a.Items[len(a.Items)-1].Kind == parley.ItemReply && g.mayHandOff(a, p.Name)
}

// handoffPart returns the handoff of a reply; of several the first wins.
func handoffPart(parts []parley.Part) (parley.Part, bool) {
	for _, p := range parts {
		if p.Type == parley.PartHandoff {
			return p, true
		}
	}
	return parley.Part{}, false
}

func calledTools(parts []parley.Part) bool {
	return slices.ContainsFunc(parts, func(p parley.Part) bool { return p.Type == parley.PartToolCall })
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// empty reports whether a reply says and asks nothing.
func empty(parts []parley.Part) bool {
	_, hands := handoffPart(parts)
	return !hands && !calledTools(parts) && blank(parley.PartsText(parts))
}

// repeats reports whether the last three rounds of the agent, each a reply's calls with their
// results, were the same. A message from the user in between breaks the sequence, and so does
// asking for the result of a task that is not finished.
func repeats(t *parley.Turn, a *parley.Agent) (string, bool) {
	var rounds []string
	what := ""
	for i := len(a.Items) - 1; i >= 0 && len(rounds) < 3; i-- {
		it := a.Items[i]
		if it.Kind == parley.ItemCut {
			continue
		}
		if it.Kind != parley.ItemReply || empty(it.Parts) {
			break
		}
		var b strings.Builder
		var names []string
		for _, p := range it.Parts {
			if p.Type != parley.PartToolCall && p.Type != parley.PartHandoff {
				continue
			}
			names = append(names, p.Name)
			b.WriteString(string(p.Type) + " " + p.Name + " ")
			b.Write(compactJSON(p.Input))
			if c := t.Tool(p.Call); c != nil {
				text, _ := resultOf(t.Tool, c)
				if c.Name == task.OutputTool && (text == stillWorks || text == waitsForPerson) {
					return "", false
				}
				b.WriteString(" " + text)
			}
			b.WriteByte('\n')
		}
		if names == nil {
			break
		}
		what = "the agent called " + strings.Join(names, ", ")
		rounds = append(rounds, b.String())
	}
	return what, len(rounds) == 3 && rounds[0] == rounds[1] && rounds[1] == rounds[2]
}

func compactJSON(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return []byte("{}")
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// answered is what the turn has said to the user so far.
func answered(t *parley.Turn) parley.Response { return prompt.Response(t.Answered()) }

func failed(t *parley.Turn, err *parley.Error) []action {
	return []action{fail{Error: err, Response: answered(t)}}
}

func errorOf(in parley.ErrorInfo) *parley.Error {
	return &parley.Error{Code: in.Code, Message: in.Message, Hint: in.Hint, Field: in.Field, RetryAfter: msec(in.RetryAfterMS)}
}
