package sdkview

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/steps"
	"github.com/parley-server/parley/internal/wire"
)

// SDK is the full view.
type SDK struct {
	o      Options
	quiet  bool
	before []parley.Event // of the turn in which the client is, until the first frame
	out    []message      // of the event that is shown
	now    time.Time      // its time
	at     int64          // its number

	mode  parley.PermissionMode
	model string
	files parley.Workspace
	spent float64 // US dollars, of ended turns
	turn  *turn
	asked []parley.InteractionID // that are open
	live  reply
}

// message is one message before it has its id.
type message struct {
	name    string // as types are named
	passing bool   // it has no place in the order
	body    object
}

// turn is the turn that runs, or was interrupted.
type turn struct {
	id      parley.TurnID
	message string // the uuid of the message that it is about
	began   time.Time
	api     int64 // milliseconds
	ttft    int64 // of its first reply
	steps   int
	stop    string
	used    parley.Usage
	models  map[string]*model
	started map[parley.CallID]parley.ModelStarted  // calls of models without a reply
	calls   map[parley.CallID]parley.ToolRequested // that have not ended
	said    map[parley.CallID]bool                 // of these, those that a reply has
	subs    map[parley.AgentPath]parley.AgentStarted
	denied  []object
	cut     bool // a call of a tool was cancelled
}

// model is what a model has done in the turn.
type model struct {
	used   parley.Usage
	window int64
}

// NewSDK makes the full view.
func NewSDK(o Options) *SDK { return &SDK{o: o, mode: parley.ModeDefault} }

// Prime implements [Encoder]. Of turns that have ended, only what they cost is read.
func (s *SDK) Prime(e parley.Event) {
	switch e.Type {
	case (parley.TurnStarted{}).EventType():
		s.before = append(s.before[:0], e)
		return
	case (parley.TurnCompleted{}).EventType(), (parley.TurnFailed{}).EventType(), (parley.TurnCancelled{}).EventType(), (parley.TurnExpired{}).EventType():
		if len(s.before) > 0 && s.before[0].Turn == e.Turn {
			s.turn = &turn{id: e.Turn}
			s.before = nil
		}
	default:
		if e.Turn != "" {
			if len(s.before) > 0 && s.before[0].Turn == e.Turn {
				s.before = append(s.before, e)
			}
			return
		}
	}
	s.quietly(e)
}

func (s *SDK) quietly(events ...parley.Event) {
	s.quiet = true
	for _, e := range events {
		s.event(e)
	}
	s.quiet, s.out = false, nil
}

// Encode implements [wire.Encoder].
func (s *SDK) Encode(f eventlog.Frame, send func(wire.Message)) {
	if s.before != nil {
		s.quietly(s.before...)
		s.before = nil
	}
	switch {
	case f.Event != nil:
		s.event(*f.Event)
		s.flush(f.Event.Seq, send)
	case f.Delta != nil && s.o.Deltas && f.Delta.Kind != parley.DeltaProgress && steps.Speaks(f.Delta.Agent):
		s.delta(*f.Delta, f.Partial)
		s.flush(0, send)
	}
}

// Failed implements [wire.Encoder].
func (s *SDK) Failed(err error, send func(wire.Message)) { send(failure(err)) }

// flush sends what has been said of an event.
func (s *SDK) flush(seq int64, send func(wire.Message)) {
	total := 0
	for _, m := range s.out {
		if !m.passing {
			total++
		}
	}
	have := 0
	if seq == s.o.From.Seq+1 {
		have = s.o.From.Sent
	}
	n := 0
	for _, m := range s.out {
		w := wire.Message{Typed: true}
		w.Event, _ = m.body["type"].(string)
		if m.passing {
			if have > 0 {
				continue // its message began on an earlier connection
			}
		} else {
			if n++; n <= have {
				continue
			}
			m.body["uuid"] = uuidOf(s.o.Session, seq, n)
			if w.ID = strconv.FormatInt(seq, 10); n < total {
				w.ID += "-" + strconv.Itoa(n)
			}
		}
		if !s.o.Types.wants(m.name) || !s.o.Deltas && (m.name == "stream_event" || m.name == "system.status" && m.body["status"] == "requesting") {
			continue
		}
		w.Data = encode(m.body)
		send(w)
	}
	s.out = nil
}

// say adds a message of a type.
func (s *SDK) say(name string, body object) {
	if s.quiet {
		return
	}
	kind, subtype, _ := strings.Cut(name, ".")
	body["type"], body["session_id"] = kind, s.o.Session
	switch kind {
	case "system":
		body["subtype"] = subtype
	case "user", "assistant":
		body["timestamp"] = s.now.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	s.out = append(s.out, message{name: name, body: body})
}

func (s *SDK) event(e parley.Event) {
	p, err := e.Payload()
	if err != nil || e.Agent.OfMemory() || e.Agent.OfSampling() {
		return // what is newer than this wire is not shown, nor what is done for the memory or a server
	}
	s.now, s.at = e.Time, e.Seq
	switch p := p.(type) {
	case parley.SessionCreated:
		s.mode, s.model, s.files = p.Mode, p.Model, p.Workspace
	case parley.HistoryRestored:
		s.restored(p)
	case parley.SessionUpdated:
		if p.Model != nil {
			s.model = *p.Model
		}
		if p.Mode != nil {
			s.mode = *p.Mode
			s.say("system.status", object{"status": nil, "permissionMode": s.permissions("")})
		}
	case parley.TurnStarted:
		s.begin(e, p)
	default:
		if s.turn != nil && s.turn.id == e.Turn {
			s.inTurn(e, p)
		}
	}
}

// inTurn shows an event of the turn.
func (s *SDK) inTurn(e parley.Event, p parley.Payload) {
	t := s.turn
	switch p := p.(type) {
	case parley.TurnSteered:
		s.replay(p.Message)
	case parley.TurnResumed:
		s.state("running")
	case parley.AgentStarted:
		s.agent(e, p)
	case parley.AgentEnded:
		s.agentEnded(e, p)
	case parley.AgentHandoff:
		if p.Call != "" {
			s.say("user", s.result(e.Agent, p.Call, "Handed over to "+p.Name+".", false, "Handed over to "+p.Name+"."))
		}
	case parley.ModelStarted:
		t.started[p.Call] = p
		if steps.Speaks(e.Agent) {
			s.say("system.status", object{"status": "requesting"})
		}
	case parley.ModelReplied:
		s.replied(e, p)
	case parley.ModelFailed:
		s.failed(e, p)
	case parley.ToolRequested:
		if t.calls[p.Call] = p; !t.said[p.Call] { // nobody's reply: a call by a client, or one that is made again
			s.say("assistant", s.assistant(e.Agent, string(p.Call), "<synthetic>", object{"type": "tool_use", "id": p.Call, "name": p.Name, "input": input(p.Input)}, parley.Usage{}))
		}
	case parley.ToolStarted:
		if asked, ok := t.calls[p.Call]; ok {
			asked.Input = p.Input
			t.calls[p.Call] = asked
		}
	case parley.ToolEnded:
		s.ended(e, p)
	case parley.InteractionOpened:
		if s.asked = append(s.asked, p.ID); len(s.asked) == 1 {
			s.state("requires_action")
		}
	case parley.InteractionAnswered:
		s.answered(p.ID)
	case parley.InteractionExpired:
		s.answered(p.ID)
	case parley.ContextCompacted:
		s.say("system.compact_boundary", object{"compact_metadata": object{"trigger": "auto", "pre_tokens": p.TokensBefore, "post_tokens": p.TokensAfter}})
	case parley.HookRan:
		s.hook(p)
	default:
		s.end(p)
	}
}

func (s *SDK) state(state string) {
	s.say("system.session_state_changed", object{"state": state})
}

func (s *SDK) answered(id parley.InteractionID) {
	at := slices.Index(s.asked, id)
	if at < 0 {
		return
	}
	if s.asked = slices.Delete(s.asked, at, at+1); len(s.asked) == 0 {
		s.state("running")
	}
}

// placeOfMessage is which of the messages of turn.started the user's is: after the state and init.
const placeOfMessage = 3

// begin shows the beginning of a turn.
func (s *SDK) begin(e parley.Event, p parley.TurnStarted) {
	s.turn = &turn{
		id: e.Turn, message: uuidOf(s.o.Session, e.Seq, placeOfMessage), began: e.Time, models: map[string]*model{}, started: map[parley.CallID]parley.ModelStarted{}, calls: map[parley.CallID]parley.ToolRequested{},
		said: map[parley.CallID]bool{}, subs: map[parley.AgentPath]parley.AgentStarted{},
	}
	s.asked = nil
	if s.quiet {
		return
	}
	s.state("running")
	s.init(p)
	s.replay(p.Message)
}

// init says what the agent that gets the message has, as the CLI does: the tools of its sub-agents alone are not among them.
func (s *SDK) init(p parley.TurnStarted) {
	var app parley.App
	if s.o.App != nil {
		app, _ = s.o.App(p.App) // without it the message says less
	}
	entry := app.Agents[p.Entry(&app)]
	tools, agents, servers := []string{}, []string{}, []object{}
	for _, t := range app.Tools {
		if slices.Contains(entry.Tools, t.Name) {
			tools = append(tools, t.Name)
		}
		rest, mcp := strings.CutPrefix(t.Name, "mcp__")
		server, _, _ := strings.Cut(rest, "__")
		if mcp && !slices.ContainsFunc(servers, func(o object) bool { return o["name"] == server }) {
			servers = append(servers, object{"name": server, "status": "connected"})
		}
	}
	for _, t := range p.Tools {
		tools = append(tools, t.Name)
	}
	if p.NoTools {
		tools = []string{}
	}
	for name, a := range app.Agents {
		if a.AsTool {
			agents = append(agents, name)
		}
	}
	slices.Sort(agents)
	model := entry.Model
	for _, m := range []string{p.Model, s.model, model, app.Model} {
		if m != "" {
			model = m
			break
		}
	}
	s.say("system.init", object{
		"cwd": s.files, "tools": tools, "mcp_servers": servers, "model": model, "permissionMode": s.permissions(app.Mode),
		"slash_commands": []string{}, "apiKeySource": "none", "claude_code_version": "parley " + s.o.Version, "output_style": "default",
		"agents": agents, "skills": []string{}, "plugins": []object{},
	})
}

// permissions is the session's mode, or the app's where it has none.
func (s *SDK) permissions(app parley.PermissionMode) parley.PermissionMode {
	for _, m := range []parley.PermissionMode{s.mode, app} {
		if m != "" {
			return m
		}
	}
	return parley.ModeDefault
}

// replay shows what the user said. The CLI does so with --replay-user-messages.
func (s *SDK) replay(m parley.Message) {
	var content any = m.Text()
	var parts []object
	for _, p := range m.Parts {
		switch p.Type {
		case parley.PartText:
			parts = append(parts, object{"type": "text", "text": p.Text})
		case parley.PartImage:
			parts = append(parts, object{"type": "image", "source": object{"type": "url", "url": "/v1/artifacts/" + string(p.Artifact)}})
		case parley.PartFile:
			parts = append(parts, object{"type": "text", "text": "[file " + p.Name + "]"})
		}
	}
	if len(parts) == 0 {
		return // a direct call: nobody said anything
	}
	if len(parts) > 1 || parts[0]["type"] != "text" {
		content = parts
	}
	s.say("user.replay", object{"message": object{"role": "user", "content": content}, "parent_tool_use_id": nil, "isReplay": true})
}

// restored shows an exchange of the conversation that the session goes on with.
func (s *SDK) restored(p parley.HistoryRestored) {
	if p.User != "" {
		s.replay(parley.Text(parley.RoleUser, p.User))
	}
	if p.Reply != "" {
		s.say("assistant", s.assistant("", "restored_"+strconv.FormatInt(s.at, 10), "<synthetic>", textBlock(p.Reply), parley.Usage{}))
	}
}

// parent is the call whose sub-agent is at path; nil for an agent that has the turn.
func (s *SDK) parent(path parley.AgentPath) any {
	if s.turn != nil {
		if sub, ok := s.turn.subs[path]; ok && sub.Call != "" {
			return sub.Call
		}
	}
	return nil
}

// of adds the names of the sub-agent that a message is from.
func (s *SDK) of(path parley.AgentPath, body object) object {
	body["parent_tool_use_id"] = s.parent(path)
	if body["parent_tool_use_id"] != nil {
		sub := s.turn.subs[path]
		body["agent_id"], body["subagent_type"] = path, sub.Name
		if sub.Title != "" {
			body["task_description"] = sub.Title
		}
	}
	return body
}

// assistant is the message of one block of a model's reply.
func (s *SDK) assistant(path parley.AgentPath, id, model string, block object, u parley.Usage) object {
	return s.of(path, object{"message": object{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": []object{block},
		"stop_reason": nil, "stop_sequence": nil, "stop_details": nil, "usage": usageOf(u), "context_management": nil, "container": nil, "diagnostics": nil,
	}})
}

// usageOf is a usage in the form of the Messages API.
func usageOf(u parley.Usage) object {
	return object{
		"input_tokens": u.InputTokens, "output_tokens": u.OutputTokens, "cache_creation_input_tokens": u.CacheWriteTokens, "cache_read_input_tokens": u.CacheReadTokens,
		"output_tokens_details": object{"thinking_tokens": u.ReasoningTokens}, "server_tool_use": object{"web_search_requests": 0, "web_fetch_requests": 0},
		"service_tier": "standard", "cache_creation": object{"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0}, "inference_geo": "", "iterations": []object{},
		"speed": "standard", "fallback_credit": nil,
	}
}

// input is the input of a call, which is an object.
func input(raw json.RawMessage) any {
	if len(raw) == 0 {
		return object{}
	}
	return raw
}

// replied shows a model's reply.
func (s *SDK) replied(e parley.Event, p parley.ModelReplied) {
	t := s.turn
	t.api += p.TookMS
	of := t.models[p.Model]
	if of == nil {
		of = &model{}
		t.models[p.Model] = of
	}
	of.used, of.window = of.used.Add(p.Usage), t.started[p.Call].Window
	t.used = t.used.Add(p.Usage)
	delete(t.started, p.Call)
	speaks := steps.Speaks(e.Agent)
	if speaks {
		if t.steps == 0 {
			t.ttft = p.TTFTMS
		}
		t.steps++
		t.stop = p.StopReason
	}
	blocks := blocksOf(p.Parts)
	for _, part := range p.Parts {
		if part.Call != "" {
			t.said[part.Call] = true
		}
	}
	if s.quiet {
		return
	}
	if speaks {
		s.whole(p, blocks, func(b object) { s.say("assistant", s.assistant(e.Agent, string(p.Call), p.Model, b, p.Usage)) })
		return
	}
	for _, b := range blocks {
		s.say("assistant", s.assistant(e.Agent, string(p.Call), p.Model, b, p.Usage))
	}
}

func textBlock(text string) object { return object{"type": "text", "text": text, "citations": nil} }

// blocksOf are the parts of a reply as content blocks.
func blocksOf(parts []parley.Part) []object {
	var blocks []object
	for _, p := range parts {
		switch p.Type {
		case parley.PartText:
			blocks = append(blocks, textBlock(p.Text))
		case parley.PartThinking:
			// The provider's seal is for the provider alone.
			blocks = append(blocks, object{"type": "thinking", "thinking": p.Text, "signature": ""})
		case parley.PartToolCall:
			blocks = append(blocks, object{"type": "tool_use", "id": p.Call, "name": p.Name, "input": input(p.Input)})
		case parley.PartHandoff:
			blocks = append(blocks, object{"type": "tool_use", "id": p.Call, "name": "transfer_to_" + p.Name, "input": object{"reason": p.Text}})
		}
	}
	return blocks
}

// failed shows what a model had said before its call failed.
func (s *SDK) failed(e parley.Event, p parley.ModelFailed) {
	name := s.modelOf(p.Call)
	delete(s.turn.started, p.Call)
	if s.quiet || !steps.Speaks(e.Agent) {
		return
	}
	if p.Partial != "" && !p.Retry {
		if s.live.call != p.Call {
			s.open(p.Call, name, parley.Usage{})
			s.start("text", emptyOf("text"))
			s.add(p.Partial)
		}
		m := s.assistant(e.Agent, string(p.Call), name, textBlock(p.Partial), p.Usage)
		m["aborted"] = true
		s.say("assistant", m)
		return // its stream is cut off where the turn says that it was stopped
	}
	s.cutOff()
}

// modelOf is the model of a call in flight.
func (s *SDK) modelOf(call parley.CallID) string { return s.turn.started[call].Model }

// result is the message of a call's result.
func (s *SDK) result(path parley.AgentPath, call parley.CallID, content string, failed bool, structured any) object {
	block := object{"type": "tool_result", "tool_use_id": call, "content": content}
	if failed {
		block["is_error"] = true
	}
	return s.of(path, object{"message": object{"role": "user", "content": []object{block}}, "tool_use_result": structured})
}

// ended shows the result of a call.
func (s *SDK) ended(e parley.Event, p parley.ToolEnded) {
	t := s.turn
	asked := t.calls[p.Call]
	delete(t.calls, p.Call)
	delete(t.said, p.Call)
	failed := p.Outcome != parley.OutcomeOK
	content := p.Output
	if content == "" && p.Error != nil {
		content = p.Error.Message
	}
	var structured any = content
	switch {
	case failed:
		structured = "Error: " + content
	case p.Data != nil:
		structured = p.Data
	}
	switch p.Outcome {
	case parley.OutcomeDenied:
		t.denied = append(t.denied, object{"tool_name": p.Name, "tool_use_id": p.Call, "tool_input": input(asked.Input)})
	case parley.OutcomeCancelled:
		t.cut = true
	}
	s.say("user", s.result(e.Agent, p.Call, content, failed, structured))
}

// agent shows the beginning of a sub-agent.
func (s *SDK) agent(e parley.Event, p parley.AgentStarted) {
	if p.Parent == "" {
		return
	}
	s.turn.subs[e.Agent] = p
	title := p.Title
	if title == "" {
		title = p.Name
	}
	s.say("system.task_started", object{
		"task_id": e.Agent, "tool_use_id": p.Call, "description": title, "subagent_type": p.Name, "is_backgrounded": p.Background, "task_type": "local_agent", "prompt": p.Input,
	})
	s.say("user", s.of(e.Agent, object{"message": object{"role": "user", "content": []object{{"type": "text", "text": p.Input}}}}))
}

func (s *SDK) agentEnded(e parley.Event, p parley.AgentEnded) {
	sub, ok := s.turn.subs[e.Agent]
	if !ok {
		return
	}
	status := "completed"
	switch p.Outcome {
	case parley.OutcomeOK:
	case parley.OutcomeCancelled:
		status = "stopped"
	default:
		status = "failed"
	}
	s.say("system.task_notification", object{"task_id": e.Agent, "tool_use_id": sub.Call, "status": status, "output_file": "", "summary": parley.Cut(p.Result, 500)})
}

// hook shows a hook that has run.
func (s *SDK) hook(p parley.HookRan) {
	name := p.Event
	if call, ok := s.turn.calls[p.Call]; ok {
		name += ":" + call.Name
	} else if p.Subject != "" {
		name += ":" + p.Subject
	}
	id := passing(s.o.Session, "hook", int(s.at))
	body := object{"hook_id": id, "hook_name": name, "hook_event": p.Event}
	s.say("system.hook_started", body)
	outcome, output := "success", p.Message
	if output == "" {
		output = p.Reason
	}
	stderr := ""
	if p.Error != nil {
		outcome, stderr = "error", p.Error.Message
	}
	s.say("system.hook_response", object{"hook_id": id, "hook_name": name, "hook_event": p.Event, "output": output, "stdout": output, "stderr": stderr, "outcome": outcome})
}
