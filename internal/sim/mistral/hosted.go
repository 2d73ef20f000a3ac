package mistral

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// maxHops limits the handoffs that the server does itself in one response.
const maxHops = 10

// run lets the conversation's agent answer. If the server does handoffs itself, the agents that
// it hands over to answer too.
func (s *Server) run(w http.ResponseWriter, r *http.Request, c *conversation, stream, client bool, args json.RawMessage) {
	out := &convStream{s: s, c: c, client: client && !s.o.ServerHandoffs, args: args}
	s.think(w, r, out.request(), stream, out)
}

// request returns the conversation as the agent would see it in our own loop. What exactly the
// provider shows its models is not documented.
func (o *convStream) request() seam.Request {
	s, c := o.s, o.c
	s.mu.Lock()
	speaker, entries, def := c.agent, slices.Clone(c.entries), c.def
	s.mu.Unlock()
	req := seam.Request{Model: def.Model, Agent: "assistant"}
	if a := s.agent(speaker); a != nil {
		def = definition{Model: a.Model, Instructions: a.Instructions, Tools: a.Tools, CompletionArgs: a.CompletionArgs}
		req.Model, req.Agent = a.Model, a.Name
		for _, id := range a.Handoffs {
			if to := s.agent(id); to != nil {
				h := seam.Handoff{Agent: to.Name}
				if to.Description != nil {
					h.Description = *to.Description
				}
				req.Handoffs = append(req.Handoffs, h)
			}
		}
	} else if s.o.Agent != nil && def.Instructions != nil {
		req.Agent = s.o.Agent(*def.Instructions)
	}
	if def.Instructions != nil {
		req.System = *def.Instructions
	}
	for _, t := range def.Tools {
		if t.Function != nil {
			offer(&req, t.Function.Name, t.Function.Description, t.Function.Parameters)
		}
	}
	o.settings(&req, def.CompletionArgs)
	o.settings(&req, o.args)
	v := view{s: s, req: &req, speaker: speaker}
	req.Open = v.files.open
	o.most = req.MaxTokens
	v.read(entries)
	return req
}

func (o *convStream) settings(req *seam.Request, raw json.RawMessage) {
	var args completionArgs
	_ = json.Unmarshal(raw, &args) // already validated
	if args.MaxTokens != nil {
		req.MaxTokens = *args.MaxTokens
	}
	if args.Temperature != nil {
		req.Temperature = args.Temperature
	}
	if args.ReasoningEffort != nil {
		req.Effort = *args.ReasoningEffort
	}
	if args.ToolChoice == "none" {
		req.Tools = nil
	}
}

// view converts entries to the messages of one agent.
type view struct {
	s       *Server
	req     *seam.Request
	speaker string
	files   files

	others []entry          // entries of the current agent since it received the turn
	passed map[string]entry // handoffs that came as calls, by the call's id
}

func (v *view) read(entries []entry) {
	turn := 0 // start of the last turn: a message after an answer
	for i, e := range entries {
		if e.Type == "message.input" && e.Role == "user" && (i == 0 || entries[i-1].Type == "message.output" && !filler(entries[i-1])) {
			turn = i
		}
	}
	v.passed = map[string]entry{}
	for i, e := range entries {
		earlier := i < turn
		if e = v.passes(e); e.Type == "" {
			continue
		}
		mine := e.by() == "" || e.by() == v.speaker
		chunks, _ := contentOf(e.Content, i)
		switch e.Type {
		case "message.input":
			if e.Role == "user" {
				join(v.req, parley.RoleUser, v.files.parts(chunks)...)
			} else {
				join(v.req, parley.RoleAssistant, said(chunks)...)
			}
		case "message.output":
			if filler(e) {
				continue
			}
			if mine {
				join(v.req, parley.RoleAssistant, said(chunks)...)
			} else if !earlier {
				v.others = append(v.others, e)
			}
		case "function.call", "function.result":
			switch {
			case earlier && e.by() != "" || earlier && e.Type == "function.result" && !v.open(e.ToolCallID):
			case e.Type == "function.call" && !answered(entries, e.ToolCallID): // dropped at a handoff
			case e.Type == "function.call" && mine:
				args, _ := arguments(e.Arguments)
				join(v.req, parley.RoleAssistant, called(e.ToolCallID, e.Name, args))
			case e.Type == "function.result" && v.open(e.ToolCallID):
				join(v.req, parley.RoleTool, parley.Part{Type: parley.PartToolResult, Call: parley.CallID(e.ToolCallID), Name: v.nameOf(e.ToolCallID), Text: *e.Result})
			default:
				v.others = append(v.others, e)
			}
		case "agent.handoff":
			if !earlier {
				v.handoff(e)
			}
		}
	}
}

// filler reports whether an entry is the word inserted between results and a user's message,
// which nobody said.
func filler(e entry) bool {
	chunks, _ := contentOf(e.Content, 0)
	return e.Type == "message.output" && e.by() == "" && chunksText(chunks) == understood
}

func answered(entries []entry, id string) bool {
	return slices.ContainsFunc(entries, func(e entry) bool { return e.Type == "function.result" && e.ToolCallID == id })
}

// passes converts a handoff that came as a call to one that came as an entry, at the position of
// its result; the call itself is dropped.
func (v *view) passes(e entry) entry {
	if to, ok := strings.CutPrefix(e.Name, handoffCall); ok && e.Type == "function.call" {
		out := entry{Type: "agent.handoff", ID: e.ID, PreviousAgentID: e.by(), NextAgentName: to, Arguments: e.Arguments}
		if from := v.s.agent(e.by()); from != nil {
			out.PreviousAgentName = from.Name
			for _, id := range from.Handoffs {
				if a := v.s.agent(id); a != nil && a.Name == to {
					out.NextAgentID = id
				}
			}
		}
		v.passed[e.ToolCallID] = out
		return entry{}
	}
	if h, ok := v.passed[e.ToolCallID]; ok && e.Type == "function.result" {
		return h
	}
	return e
}

// open reports whether the call is one of the speaker's without a result.
func (v *view) open(id string) bool {
	return len(v.req.Messages) > 0 && slices.ContainsFunc(v.req.Messages[max(0, len(v.req.Messages)-2):], func(m parley.Message) bool {
		return slices.ContainsFunc(m.Parts, func(p parley.Part) bool {
			return string(p.Call) == id && (p.Type == parley.PartToolCall || p.Type == parley.PartHandoff)
		})
	})
}

func (v *view) nameOf(id string) string {
	for _, m := range v.req.Messages {
		for _, p := range m.Parts {
			if string(p.Call) == id {
				return p.Name
			}
		}
	}
	return ""
}

// handoff tells the speaker that it received the turn, and with what, or that it handed the turn
// over.
func (v *view) handoff(e entry) {
	if e.PreviousAgentID == v.speaker {
		id := parley.CallID(e.ID)
		join(v.req, parley.RoleAssistant, parley.Part{Type: parley.PartHandoff, Call: id, Name: e.NextAgentName})
		join(v.req, parley.RoleTool, parley.Part{Type: parley.PartToolResult, Call: id, Name: e.NextAgentName, Text: "control passed to " + e.NextAgentName})
	}
	if e.NextAgentID == v.speaker {
		join(v.req, parley.RoleUser, parley.Part{Type: parley.PartText, Text: v.handedOver(e)})
	}
	v.others = nil
}

func (v *view) handedOver(e entry) string {
	var b, texts strings.Builder
	b.WriteString("[handed over by " + e.PreviousAgentName + "]")
	var why struct{ Reason string }
	if args, ok := arguments(e.Arguments); ok && json.Unmarshal(args, &why) == nil && why.Reason != "" {
		b.WriteString("\nreason: " + why.Reason)
	}
	for _, x := range v.others {
		chunks, _ := contentOf(x.Content, 0)
		texts.WriteString(chunksText(chunks))
		if x.Type != "function.call" {
			continue
		}
		args, _ := arguments(x.Arguments)
		for _, res := range v.others {
			if res.Type == "function.result" && res.ToolCallID == x.ToolCallID {
				b.WriteString("\n[result of " + x.Name + " " + string(args) + "]\n" + *res.Result)
			}
		}
	}
	if texts.Len() > 0 {
		b.WriteString("\n[text of " + e.PreviousAgentName + "]\n" + texts.String())
	}
	return b.String()
}

// handoffCall is the prefix of functions that stand for a handoff when Options.HandoffCalls is
// set.
const handoffCall = "handoff_to_"

// convStream writes a response of a conversation.
type convStream struct {
	s      *Server
	c      *conversation
	client bool
	args   json.RawMessage

	most    int64 // output cap
	index   int   // index of the output
	hops    int
	text    strings.Builder
	think   strings.Builder
	msgID   string
	usage   parley.Usage
	outputs []entry
}

func (o *convStream) stamp(kind string, more map[string]any) map[string]any {
	m := map[string]any{"type": kind, "created_at": o.s.o.Now().UTC()}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func (o *convStream) begin(e *events) {
	e.send("conversation.response.started", o.stamp("conversation.response.started", map[string]any{"conversation_id": o.c.id}))
}

// who returns the id of the agent that has the turn.
func (o *convStream) who() string {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return o.c.agent
}

// speaker returns the author of the current output.
func (o *convStream) speaker() (id, model string) {
	if a := o.s.agent(o.who()); a != nil {
		return a.ID, a.Model
	}
	return "", o.c.def.Model
}

func (o *convStream) mark(m map[string]any) map[string]any {
	id, model := o.speaker()
	m["model"], m["output_index"] = model, o.index
	if id != "" {
		m["agent_id"] = id
	}
	return m
}

func (o *convStream) delta(e *events, d seam.ModelDelta) {
	if o.msgID == "" {
		o.msgID = o.s.id("msg")
	}
	send := func(content any) {
		e.send("message.output.delta", o.stamp("message.output.delta", o.mark(map[string]any{
			"id": o.msgID, "content_index": 0, "role": "assistant", "content": content,
		})))
	}
	if d.Thinking != "" {
		o.think.WriteString(d.Thinking)
		send(thinking(d.Thinking))
	}
	if d.Text != "" {
		o.text.WriteString(d.Text)
		send(d.Text)
	}
}

// message ends the text of one speaker.
func (o *convStream) message() {
	if o.msgID == "" {
		return
	}
	id, model := o.speaker()
	var content any = o.text.String()
	if o.think.Len() > 0 {
		content = []any{thinking(o.think.String()), map[string]any{"type": "text", "text": o.text.String()}}
	}
	out := entry{Type: "message.output", ID: o.msgID, Role: "assistant", Content: raw(content), Model: &model}
	if id != "" {
		out.AgentID = &id
	}
	o.outputs = append(o.outputs, out)
	o.msgID = ""
	o.text.Reset()
	o.think.Reset()
	o.index++
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of our own making
	}
	return b
}

// next writes the brain's calls and handoffs. It reports whether the server continues by itself
// with another agent.
func (o *convStream) next(e *events, reply *seam.Reply) (seam.Request, bool) {
	o.message()
	u := reply.Usage
	if reply.StopReason == "max_tokens" {
		u.OutputTokens = max(u.OutputTokens, o.most)
	}
	o.usage = o.usage.Add(u)
	to := ""
	for _, p := range reply.Parts {
		switch p.Type {
		case parley.PartToolCall:
			o.call(e, p.Name, p.Input)
		case parley.PartHandoff:
			if o.s.agent(o.who()) == nil || o.byName(p.Name) == nil {
				o.call(e, handoffPrefix+p.Name, raw(map[string]string{"reason": p.Text}))
				continue
			}
			if to != "" {
				continue
			}
			to = p.Name
			if o.client && o.s.o.HandoffCalls {
				id := o.call(e, handoffCall+p.Name, raw(map[string]string{"reason": p.Text}))
				o.s.mu.Lock()
				o.c.handoffs[id] = o.idOf(p.Name)
				o.s.mu.Unlock()
				return seam.Request{}, false
			}
		}
	}
	if to == "" {
		o.keep()
		return seam.Request{}, false
	}
	o.handoff(e, o.byName(to))
	o.keep()
	if o.hops++; o.client || o.hops > maxHops {
		o.s.mu.Lock()
		o.c.handed = true
		o.s.mu.Unlock()
		return seam.Request{}, false
	}
	return o.request(), true
}

// keep adds the outputs to the conversation.
func (o *convStream) keep() {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	for _, e := range o.outputs {
		if !slices.ContainsFunc(o.c.entries, func(k entry) bool { return k.ID == e.ID }) {
			o.c.entries = append(o.c.entries, e)
		}
	}
}

// byName finds an agent that the current one may hand over to.
func (o *convStream) byName(name string) *agent {
	from := o.s.agent(o.who())
	if from == nil {
		return nil
	}
	for _, id := range from.Handoffs {
		if a := o.s.agent(id); a != nil && a.Name == name {
			return a
		}
	}
	return nil
}

func (o *convStream) idOf(name string) string {
	// The lock is held.
	for _, id := range o.s.agents[o.c.agent].Handoffs {
		if a := o.s.agents[id]; a != nil && a.Name == name {
			return id
		}
	}
	return ""
}

func (o *convStream) call(e *events, name string, args json.RawMessage) (id string) {
	id = o.s.id("")
	agentID, model := o.speaker()
	out := entry{Type: "function.call", ID: o.s.id("fc"), ToolCallID: id, Name: name, Arguments: raw(string(args)), Model: &model}
	if agentID != "" {
		out.AgentID = &agentID
	}
	o.outputs = append(o.outputs, out)
	// In two fragments, as the wire allows.
	for _, part := range []string{string(args[:len(args)/2]), string(args[len(args)/2:])} {
		e.send("function.call.delta", o.stamp("function.call.delta", o.mark(map[string]any{
			"id": out.ID, "name": name, "tool_call_id": id, "arguments": part,
		})))
	}
	o.index++
	o.s.mu.Lock()
	o.c.pending = append(o.c.pending, id)
	o.s.mu.Unlock()
	o.keep()
	return id
}

// handoff passes the turn on. Calls before it are dropped.
func (o *convStream) handoff(e *events, to *agent) {
	from := o.s.agent(o.who())
	out := entry{
		Type: "agent.handoff", ID: o.s.id("handoff"), PreviousAgentID: from.ID, PreviousAgentName: from.Name, NextAgentID: to.ID, NextAgentName: to.Name,
	}
	o.outputs = append(o.outputs, out)
	e.send("agent.handoff.started", o.stamp("agent.handoff.started", map[string]any{
		"output_index": o.index, "id": out.ID, "previous_agent_id": from.ID, "previous_agent_name": from.Name,
	}))
	e.send("agent.handoff.done", o.stamp("agent.handoff.done", map[string]any{
		"output_index": o.index, "id": out.ID, "next_agent_id": to.ID, "next_agent_name": to.Name,
	}))
	o.index++
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.c.pending = nil
	if !o.s.o.SameAgent {
		o.c.agent = to.ID
	}
}

func (o *convStream) usageBody() map[string]any {
	m := usageOf(o.usage)
	m["connector_tokens"], m["connectors"] = nil, nil
	return m
}

func (o *convStream) end(e *events) {
	o.keep()
	e.send("conversation.response.done", o.stamp("conversation.response.done", map[string]any{"usage": o.usageBody()}))
}

func (o *convStream) failed(e *events, message string) {
	e.send("conversation.response.error", o.stamp("conversation.response.error", map[string]any{"message": message, "code": 1000}))
}

func (o *convStream) whole() any {
	o.keep()
	list := []entry{}
	for _, e := range o.outputs {
		now := o.s.o.Now().UTC()
		e.Object, e.CreatedAt = "entry", &now
		list = append(list, e)
	}
	return map[string]any{
		"object": "conversation.response", "conversation_id": o.c.id, "outputs": list, "usage": o.usageBody(), "guardrails": nil,
	}
}
