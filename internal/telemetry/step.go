package telemetry

import (
	"fmt"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/parley-server/parley"
)

const (
	internal = tracepb.Span_SPAN_KIND_INTERNAL
	client   = tracepb.Span_SPAN_KIND_CLIENT

	// interrupted is the error of spans that a crash ended.
	interrupted = "interrupted"
)

// step processes one event of the turn and reports whether the turn has ended.
func (t *turn) step(e parley.Event, p parley.Payload) (ended bool) {
	t.heard(e, p)
	switch p := p.(type) {
	case parley.AgentStarted, parley.AgentHandoff, parley.AgentEnded:
		t.agent(e, p)
	case parley.ModelStarted, parley.ModelReplied, parley.ModelFailed:
		t.model(e, p)
	case parley.ToolRequested, parley.ToolStarted, parley.ToolEnded:
		t.tool(e, p)
	case parley.InteractionOpened, parley.InteractionAnswered, parley.InteractionExpired:
		t.interaction(e, p)
	case parley.TurnSteered:
		t.root.note(e.Time, "turn.steered")
	case parley.TurnStopRequested:
		t.root.note(e.Time, "turn.stop_requested")
	case parley.ContextCompacted:
		t.root.note(e.Time, "context.compacted", num("parley.tokens.before", p.TokensBefore), num("parley.tokens.after", p.TokensAfter))
	case parley.ContextRetrieved:
		t.root.note(e.Time, "context.retrieved", num("parley.snippets", int64(len(p.Snippets))))
	case parley.ContextTransferred:
		t.root.note(e.Time, "context.transferred", text("parley.model.from", p.From), text("parley.model.to", p.To))
	case parley.BudgetReached:
		t.root.note(e.Time, "budget.reached", text("parley.budget", p.Name), float("parley.budget.limit", p.Limit), float("parley.budget.used", p.Used))
	case parley.HookRan:
		t.root.note(e.Time, "hook.ran", text("parley.hook", p.Name), text("parley.hook.event", p.Event), text("parley.hook.decision", string(p.Decision)))
	case parley.FilesSaved:
		t.root.note(e.Time, "files.saved", num("parley.files", int64(len(p.Files))))
	case parley.RuntimeNoted:
		t.root.note(e.Time, "runtime.noted", text("parley.runtime.kind", p.Kind))
	case parley.TurnInterrupted:
		t.interrupt()
	case parley.TurnResumed:
		if t.root == nil {
			t.openRoot(e.Time, truth("parley.turn.auto", p.Auto))
		}
	case parley.TurnCompleted:
		t.close(e.Time, parley.StatusCompleted, p.Usage, &p.Response, "", "")
		return true
	case parley.TurnFailed:
		t.close(e.Time, parley.StatusFailed, p.Usage, p.Response, string(p.Error.Code), p.Error.Message)
		return true
	case parley.TurnCancelled:
		t.close(e.Time, parley.StatusCancelled, p.Usage, p.Response, "", "")
		return true
	case parley.TurnExpired:
		t.close(e.Time, parley.StatusExpired, p.Usage, nil, string(parley.StatusExpired), p.Reason)
		return true
	}
	return false
}

// within returns the span of the agent at path. After a crash, that span is opened again
// at the agent's next event.
func (t *turn) within(path parley.AgentPath, at time.Time, seq int64) *span {
	if t.root == nil {
		t.openRoot(at)
	}
	if s := t.agents[path]; s != nil {
		return s
	}
	if path == "" || path == t.entry {
		return t.root
	}
	name := t.names[path]
	if name == "" {
		name = string(path)
	}
	return t.openAgent(path, name, t.root, at, seq)
}

func (t *turn) openAgent(path parley.AgentPath, name string, parent *span, at time.Time, seq int64) *span {
	s := t.open(fmt.Sprint("agent ", seq), opAgent+" "+name, parent, internal, at,
		text(keyOperation, opAgent), text(keyAgent, name), text("parley.agent.path", string(path)))
	t.agents[path], t.names[path] = s, name
	return s
}

func (t *turn) endAgent(path parley.AgentPath, at time.Time, code string) {
	if s := t.agents[path]; s != nil {
		delete(t.agents, path)
		t.end(s, at, code, "")
	}
}

// agent opens and closes spans of handoffs: an agent's span lasts as long as it has the
// turn.
func (t *turn) agent(e parley.Event, p parley.Payload) {
	switch p := p.(type) {
	case parley.AgentStarted:
		t.names[e.Agent] = p.Name
		switch {
		case p.Parent == "" && (t.entry == "" || t.entry == e.Agent):
			if t.entry == "" && t.root != nil {
				t.entry, t.name = e.Agent, opAgent+" "+p.Name
				t.root.Name = t.name
				t.root.set(text(keyOperation, opAgent), text(keyAgent, p.Name))
			}
		case t.agents[e.Agent] == nil:
			parent := t.within(p.Parent, e.Time, e.Seq)
			if c := t.tools[p.Call]; c != nil && c.span != nil {
				parent = c.span
			}
			t.openAgent(e.Agent, p.Name, parent, e.Time, e.Seq)
		}
	case parley.AgentHandoff:
		t.endAgent(p.From, e.Time, "")
		t.endAgent(p.To, e.Time, "")
		s := t.openAgent(p.To, p.Name, t.within("", e.Time, e.Seq), e.Time, e.Seq)
		s.set(text("parley.handoff.from", string(p.From)), text("parley.handoff.to", string(p.To)))
		if t.d.content && p.Why != "" {
			s.set(text("parley.handoff.why", clip(p.Why)))
		}
	case parley.AgentEnded:
		if s := t.agents[e.Agent]; s != nil {
			s.set(text("parley.agent.outcome", string(p.Outcome)))
		}
		code := ""
		if p.Outcome == parley.OutcomeError {
			code = string(p.Outcome)
		}
		t.endAgent(e.Agent, e.Time, code)
	}
}

// caller is the span of what makes a model call: an agent, or a call of a tool whose server asked.
func (t *turn) caller(e parley.Event, p parley.ModelStarted) *span {
	if p.For == nil {
		return t.within(e.Agent, e.Time, e.Seq)
	}
	if c := t.tools[p.For.Call]; c != nil && c.span != nil {
		return c.span
	}
	return t.within("", e.Time, e.Seq)
}

func (t *turn) model(e parley.Event, p parley.Payload) {
	switch p := p.(type) {
	case parley.ModelStarted:
		provider, name := providerOf(p.Model)
		s := t.open("call "+string(p.Call), opChat+" "+name, t.caller(e, p), client, e.Time,
			text(keyOperation, opChat), text(keyModel, name), truth(keyStream, true), text("parley.call.id", string(p.Call)))
		if provider != "" {
			s.set(text(keyProvider, provider))
		}
		if in := t.inputs[e.Agent]; in != nil && len(in.list) > 0 {
			s.set(text(keyMessagesIn, in.attribute()))
		}
		if agent := t.names[e.Agent]; agent != "" {
			s.set(text(keyAgent, agent))
		}
		if p.For != nil {
			s.set(text("parley.sampling.server", p.For.Server))
			if t.d.content {
				var in input
				for _, m := range p.For.Messages {
					in.add(said(m.Role, m.Parts, ""))
				}
				s.set(text(keyMessagesIn, in.attribute()))
			}
		}
		t.models[p.Call] = s
	case parley.ModelReplied:
		s := t.models[p.Call]
		if s == nil {
			return
		}
		delete(t.models, p.Call)
		_, name := providerOf(p.Model)
		s.set(text(keyReplyModel, name), texts(keyFinish, finishReason(p.StopReason)))
		s.set(t.d.usage(p.Usage)...)
		if p.TTFTMS > 0 {
			s.set(float(keyFirstChunk, float64(p.TTFTMS)/1000))
		}
		if t.d.content {
			s.set(text(keyMessagesOut, messages(parley.RoleAssistant, p.Parts, finishReason(p.StopReason))))
		}
		t.end(s, e.Time, "", "")
	case parley.ModelFailed:
		s := t.models[p.Call]
		if s == nil {
			return
		}
		delete(t.models, p.Call)
		s.set(t.d.usage(p.Usage)...)
		s.set(truth("parley.model.retried", p.Retry))
		if t.d.content && p.Partial != "" {
			s.set(text(keyMessagesOut, messages(parley.RoleAssistant, []parley.Part{{Type: parley.PartText, Text: p.Partial}}, "error")))
		}
		at := e.Time
		if p.Error.Code == interrupted {
			at = t.before // the call was over when the process was; the event came with the next one
		}
		t.end(s, at, string(p.Error.Code), p.Error.Message)
	}
}

func (t *turn) tool(e parley.Event, p parley.Payload) {
	switch p := p.(type) {
	case parley.ToolRequested:
		t.tools[p.Call] = &tool{ToolRequested: p, agent: e.Agent}
	case parley.ToolStarted:
		c := t.tools[p.Call]
		if c == nil {
			return
		}
		t.cutTool(c)
		c.span = t.openTool(c, e.Time, e.Seq, p.Attempt)
		c.span.set(text("parley.tool.effect", string(p.Effect)))
		if t.d.content {
			c.span.set(text(keyArguments, clip(string(p.Input))))
		}
	case parley.ToolEnded:
		c := t.tools[p.Call]
		if c == nil {
			return
		}
		delete(t.tools, p.Call)
		s := c.span
		if s == nil { // it never ran, or what became of it was found out after a crash
			s = t.openTool(c, e.Time, e.Seq, 0)
		}
		s.set(text("parley.tool.outcome", string(p.Outcome)))
		if p.Artifact != nil {
			s.set(text("parley.artifact.id", string(p.Artifact.ID)))
		}
		if t.d.content {
			s.set(text(keyResult, clip(p.Output)))
		}
		code, message := "", ""
		switch p.Outcome {
		case parley.OutcomeError:
			code = string(parley.CodeTool)
			if p.Error != nil {
				code, message = string(p.Error.Code), p.Error.Message
			}
		case parley.OutcomeUnknown:
			code = string(parley.OutcomeUnknown)
		}
		t.end(s, e.Time, code, message)
	}
}

func (t *turn) openTool(c *tool, at time.Time, seq int64, attempt int) *span {
	what := "call " + string(c.Call)
	if attempt != 1 {
		what += fmt.Sprint(" ", seq)
	}
	s := t.open(what, opTool+" "+c.Name, t.within(c.agent, at, seq), internal, at,
		text(keyOperation, opTool), text(keyTool, c.Name), text(keyToolCall, string(c.Call)), text(keyToolType, "function"))
	if attempt > 1 {
		s.set(num("parley.tool.attempt", int64(attempt)))
	}
	if c.cut != nil {
		s.Links = append(s.Links, link(t.trace, c.cut, "resume"))
	}
	return s
}

// cutTool ends the span of an attempt that has no outcome.
func (t *turn) cutTool(c *tool) {
	if c.span != nil {
		c.cut = c.span.SpanId
		t.end(c.span, t.before, interrupted, "")
		c.span = nil
	}
}

func (t *turn) interaction(e parley.Event, p parley.Payload) {
	closed := func(id parley.InteractionID, outcome string, words string) {
		s := t.asked[id]
		if s == nil {
			return
		}
		delete(t.asked, id)
		s.set(text("parley.interaction.outcome", outcome))
		if t.d.content && words != "" {
			s.set(text("parley.interaction.answer", clip(words)))
		}
		t.end(s, e.Time, "", "")
	}
	switch p := p.(type) {
	case parley.InteractionOpened:
		s := t.open("interaction "+string(p.ID), "interaction "+string(p.Kind), t.within(e.Agent, e.Time, e.Seq), internal, e.Time,
			text("parley.interaction.id", string(p.ID)), text("parley.interaction.kind", string(p.Kind)))
		if p.Call != "" { // no name of a tool: viewers would take the wait for a call of it
			s.set(text("parley.interaction.call", string(p.Call)))
		}
		if t.d.content {
			s.set(text("parley.interaction.title", clip(strings.TrimSpace(strings.TrimSpace(p.Title+"\n"+p.Detail)+"\n"+p.Text))))
		}
		t.asked[p.ID] = s
	case parley.InteractionAnswered:
		closed(p.ID, p.Answer.Choice, p.Answer.Text)
	case parley.InteractionExpired:
		closed(p.ID, "expired", "")
	}
}

// interrupt ends the spans that a crash cut off, at the last time in the log before it.
func (t *turn) interrupt() {
	for id, s := range t.models {
		delete(t.models, id)
		t.end(s, t.before, interrupted, "")
	}
	for _, c := range t.tools {
		t.cutTool(c)
	}
	for path := range t.agents {
		t.endAgent(path, t.before, interrupted)
	}
	if t.root != nil {
		t.root.set(text("parley.turn.status", string(parley.StatusInterrupted)))
		t.ask()
		t.end(t.root, t.before, interrupted, "")
		t.root = nil
	}
}

// close ends the turn and all spans still open in it.
func (t *turn) close(at time.Time, status parley.TurnStatus, u parley.Usage, r *parley.Response, code, message string) {
	if t.root == nil { // it was interrupted, and nobody resumed it
		t.openRoot(at)
	}
	for _, s := range t.models {
		t.end(s, at, string(parley.CodeCancelled), "")
	}
	for _, c := range t.tools {
		if c.span != nil {
			t.end(c.span, at, string(parley.CodeCancelled), "")
		}
	}
	for _, s := range t.asked {
		t.end(s, at, "", "")
	}
	for path := range t.agents {
		t.endAgent(path, at, "")
	}
	// The totals do not use the conventions' names: programs that add up spans would count
	// every call twice.
	t.root.set(text("parley.turn.status", string(status)), num("parley.turn.tokens", u.Tokens()), float("parley.turn.usd", u.USD))
	t.ask()
	if t.d.content && r != nil {
		t.root.set(text(keyMessagesOut, messages(parley.RoleAssistant, []parley.Part{{Type: parley.PartText, Text: r.Message}}, "stop")))
	}
	t.end(t.root, at, code, message)
}

// ask sets what was asked, on a root that is about to end.
func (t *turn) ask() {
	if t.message != "" {
		t.root.set(text(keyMessagesIn, t.message))
	}
}
