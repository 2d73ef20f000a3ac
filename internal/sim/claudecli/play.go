package claudecli

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// play plays the transcript from its beginning until the host has no more to say.
func (p *program) play() error {
	skip := p.o.Play.From
	for {
		for p.pos < len(p.t.Entries) {
			e := p.t.Entries[p.pos]
			isUser := e.In && e.Line["type"] == "user"
			if isUser && p.o.Play.Live {
				break
			}
			if isUser && skip > 0 {
				skip--
				p.toUser(p.pos + 1)
				continue
			}
			err := p.entry(e)
			var by interrupted
			if errors.As(err, &by) {
				if err = p.abort(string(by)); err == nil {
					p.toUser(p.pos + 1)
					continue
				}
			}
			if errors.Is(err, errTurnOver) {
				p.toUser(p.pos + 1)
				continue
			}
			if err != nil {
				return err
			}
			p.pos++
		}
		if p.o.Play.Live {
			return p.live()
		}
		if err := p.untilUser(); err != nil {
			return err
		}
		if !p.o.Play.Again {
			return fmt.Errorf("the transcript %s has no further turn", p.t.Name)
		}
		p.again()
		p.toUser(0)
	}
}

// toUser moves to the next message of the capture's host.
func (p *program) toUser(from int) {
	for p.pos = from; p.pos < len(p.t.Entries); p.pos++ {
		if e := p.t.Entries[p.pos]; e.In && e.Line["type"] == "user" {
			return
		}
	}
}

// untilUser waits for a message of the host.
func (p *program) untilUser() error {
	for len(p.users) == 0 {
		if err := p.read(); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) entry(e Entry) error {
	if e.In {
		return p.hear(e)
	}
	return p.say(e.Line)
}

// hear waits for what the capture's host wrote here.
func (p *program) hear(e Entry) error {
	l := e.Line
	switch l["type"] {
	case "user":
		return p.hearUser(l)
	case "control_request":
		return p.hearRequest(l)
	case "control_response":
		return p.hearAnswer(l)
	}
	return nil // what has no consequence may be left out
}

func (p *program) hearUser(l Line) error {
	if err := p.untilUser(); err != nil {
		return err
	}
	u := p.users[0]
	p.users = p.users[1:]
	if p.turn == nil {
		p.turn = &turn{}
	}
	captured, uuid := text(l, "uuid"), text(u, "uuid")
	switch {
	case uuid == "":
	case captured != "":
		p.ids[captured] = uuid // the capture says what becomes of it
	default:
		p.turn.uuids = append(p.turn.uuids, uuid)
		if err := p.lifecycle(uuid, "queued"); err != nil {
			return err
		}
	}
	return p.note("user", "", object(u, "message"), text(u, "uuid"))
}

func (p *program) hearRequest(l Line) error {
	subtype := text(l, "request", "subtype")
	for len(p.waiting[subtype]) == 0 {
		if len(p.users) > 0 && subtype != "interrupt" {
			return nil // this host does without it
		}
		err := p.read()
		var by interrupted
		if errors.As(err, &by) && subtype == "interrupt" {
			p.controls[text(l, "request_id")] = string(by)
			return nil
		}
		if err != nil {
			return err
		}
	}
	got := p.waiting[subtype][0]
	p.waiting[subtype] = p.waiting[subtype][1:]
	p.controls[text(l, "request_id")] = text(got, "request_id")
	switch subtype {
	case "initialize":
		return p.initialize(object(l, "request"), object(got, "request"))
	case "set_permission_mode":
		p.mode = text(got, "request", "mode")
	case "mcp_set_servers":
		p.setServers(object(got, "request", "servers"))
	}
	return nil
}

// setServers replaces the in-process MCP servers.
func (p *program) setServers(all Line) {
	p.servers = nil
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if text(all, name, "type") == "sdk" {
			p.servers = append(p.servers, name)
		}
	}
}

// initialize takes what the host registers.
func (p *program) initialize(captured, got Line) error {
	p.hooks = map[string][]hook{}
	for event, all := range object(got, "hooks") {
		for _, m := range all.([]any) { // checkHost has seen that it is one
			for _, id := range list(m, "hookCallbackIds") {
				p.hooks[event] = append(p.hooks[event], hook{fmt.Sprint(id), text(m, "matcher")})
			}
		}
	}
	p.sameHooks = reflect.DeepEqual(captured["hooks"], got["hooks"]) || len(object(captured, "hooks")) == 0 && len(p.hooks) == 0
	p.servers = nil
	for _, s := range list(got, "sdkMcpServers") {
		p.servers = append(p.servers, fmt.Sprint(s))
	}
	if config, _ := p.flag("mcp-config"); config != "" {
		if l, err := decode([]byte(config)); err == nil && p.servers == nil {
			p.setServers(object(l, "mcpServers"))
		}
	}
	if p.servers != nil && !p.t.asks("mcp_message") {
		return p.greet("initialize")
	}
	return nil
}

// asks reports whether the program made a request of this subtype.
func (t *Transcript) asks(subtype string) bool {
	return slices.ContainsFunc(t.Entries, func(e Entry) bool { return !e.In && text(e.Line, "request", "subtype") == subtype })
}

// greet sends the in-process MCP servers a message of the handshake, and waits for their answers.
func (p *program) greet(methods ...string) error {
	for _, server := range p.servers {
		for _, method := range methods {
			l := template("20-sdk-mcp-initialize", func(l Line) bool { return text(l, "request", "message", "method") == method })
			id, err := p.ask(with(object(p.renewed(l), "request"), Line{"server_name": server}))
			if err != nil {
				return err
			}
			a, err := p.answered(id)
			if err != nil {
				return err
			}
			for _, t := range list(a, "response", "mcp_response", "result", "tools") {
				p.tools = append(p.tools, Line{"name": "mcp__" + server + "__" + text(t, "name"), "description": text(t, "description"), "input_schema": get(t, "inputSchema")})
			}
		}
	}
	return nil
}

func (p *program) hearAnswer(l Line) error {
	captured := text(l, "response", "request_id")
	id, ok := p.ids[captured]
	if _, was := p.asked[id]; !ok || !was {
		return nil
	}
	if u := p.useOf(text(p.asked[id], "tool_use_id")); u != nil && text(p.asked[id], "subtype") == "can_use_tool" {
		if text(l, "response", "response", "behavior") == "allow" {
			u.capturedAllowed = true
		}
		if slices.ContainsFunc(p.t.Entries[:p.pos], func(e Entry) bool {
			return text(e.Line, "type") == "control_cancel_request" && text(e.Line, "request_id") == captured
		}) {
			return nil // too late: it was withdrawn
		}
		a, err := p.answered(id)
		u.permit = a
		u.asCaptured = reflect.DeepEqual(p.renew(get(l, "response", "response")), a["response"])
		return err
	}
	_, err := p.answered(id)
	return err
}

// say writes a line of the capture, if it applies to this host.
func (p *program) say(l Line) error {
	switch l["type"] {
	case "control_response":
		id, ok := p.controls[text(l, "response", "request_id")]
		if !ok {
			return nil
		}
		n := p.renewed(l)
		n["response"] = with(object(n, "response"), Line{"request_id": id})
		return p.write(n)
	case "control_request":
		return p.sayRequest(l)
	case "control_cancel_request":
		if id, ok := p.ids[text(l, "request_id")]; ok && p.asked[id] != nil {
			return p.write(p.renewed(l))
		}
		return nil
	case "command_lifecycle":
		uuid := text(l, "command_uuid")
		ofHost := func(e Entry) bool { return e.In && text(e.Line, "uuid") == uuid }
		if _, ok := p.ids[uuid]; !ok && slices.ContainsFunc(p.t.Entries, ofHost) {
			return nil // the host's message has no uuid
		}
	case "conversation_reset":
		p.session = p.renew(text(l, "new_conversation_id")).(string)
	case "stream_event":
		if !p.partial {
			return nil
		}
		if text(l, "event", "type") == "message_start" {
			if err := p.callFor(l, object(l, "event", "message")); err != nil {
				return err
			}
		}
	case "assistant":
		return p.assistant(l)
	case "user":
		return p.user(l)
	case "result":
		return p.result(l)
	case "system":
		switch text(l, "subtype") {
		case "init":
			return p.init(l)
		case "status":
			if text(l, "status") == "requesting" && !p.partial {
				return nil
			}
		case "thinking_tokens":
			if !p.partial {
				return nil
			}
		case "session_state_changed":
			if p.o.Env["CLAUDE_CODE_SDK_READS_SESSION_STATE"] == "" {
				return nil
			}
		}
	}
	return p.write(p.renewed(l))
}

func (p *program) sayRequest(l Line) error {
	request := object(l, "request")
	captured := text(l, "request_id")
	switch text(request, "subtype") {
	case "hook_callback":
		if !p.sameHooks {
			return nil
		}
	case "mcp_message":
		if !slices.Contains(p.servers, text(request, "server_name")) {
			return nil
		}
	case "can_use_tool":
		u := p.useOf(p.renew(text(request, "tool_use_id")).(string))
		if u == nil {
			break
		}
		if err := p.gate(u); err != nil {
			return err
		}
		if u.gate == "deny" || u.gate == "allow" && request["requires_user_interaction"] != true {
			return nil
		}
	}
	n := p.renewed(l)
	p.asked[text(n, "request_id")] = object(n, "request")
	p.ids[captured] = text(n, "request_id")
	return p.write(n)
}

func (p *program) init(l Line) error {
	if p.turn == nil { // it begins by itself
		p.turn = &turn{}
	}
	for _, uuid := range p.turn.uuids {
		if err := p.lifecycle(uuid, "started"); err != nil {
			return err
		}
	}
	if p.servers != nil && !p.greeted && !p.t.asks("mcp_message") {
		p.greeted = true
		if err := p.greet("notifications/initialized", "tools/list"); err != nil {
			return err
		}
	}
	if !p.sameHooks {
		if _, err := p.callback("UserPromptSubmit", "", Line{"prompt": p.lastPrompt()}); err != nil {
			return err
		}
	}
	return p.write(p.renewed(l))
}

func (p *program) lastPrompt() string {
	for _, m := range slices.Backward(p.histories[""]) {
		if s, ok := get(m, "content").(string); ok && text(m, "role") == "user" {
			return s
		}
	}
	return ""
}

// assistant says a block of the model's answer.
func (p *program) assistant(l Line) error {
	if err := p.callFor(l, object(l, "message")); err != nil {
		return err
	}
	n := p.renewed(l)
	id, agent := text(n, "message", "id"), text(n, "parent_tool_use_id")
	for _, b := range list(n, "message", "content") {
		if text(b, "type") == "tool_use" {
			u := &use{id: text(b, "id"), name: text(b, "name"), input: object(b, "input"), agent: agent}
			p.uses[u.id] = u
			if u.name == "Agent" {
				p.histories[u.id] = []any{Line{"role": "user", "content": text(u.input, "prompt")}}
			}
		}
		if text(b, "type") == "text" && p.turn != nil && agent == "" {
			p.turn.text = text(b, "text")
		}
	}
	if p.partial && !p.t.has("stream_event") && n["error"] == nil && agent == "" {
		if err := p.streamed(n, p.lastOf(l)); err != nil {
			return err
		}
	} else if err := p.write(p.stamped(n)); err != nil {
		return err
	}
	return p.note("assistant", agent, Line{"role": "assistant", "content": list(n, "message", "content"), "id": id}, text(n, "uuid"))
}

// stamped adds the uuids of the turn's messages to what is said first in it.
func (p *program) stamped(l Line) Line {
	if p.turn == nil || len(p.turn.uuids) == 0 || l["user_message_uuid"] != nil {
		return l
	}
	return with(l, Line{"user_message_uuid": p.turn.uuids[0], "user_message_uuids": slices.Clone(p.turn.uuids)})
}

// lastOf reports whether the block is the last of its message.
func (p *program) lastOf(l Line) bool {
	for _, e := range p.t.Entries[p.pos+1:] {
		if e.In && e.Line["type"] == "user" {
			return true
		}
		if text(e.Line, "message", "id") == text(l, "message", "id") {
			return false
		}
	}
	return true
}

// result ends the turn.
func (p *program) result(l Line) error {
	if !p.sameHooks && p.turn != nil && l["is_error"] != true {
		if _, err := p.callback("Stop", "", Line{"stop_hook_active": false, "last_assistant_message": p.turn.text, "background_tasks": []any{}, "session_crons": []any{}}); err != nil {
			return err
		}
	}
	return p.finish(with(p.renewed(l), Line{"result_index": json.Number(fmt.Sprint(p.results))}), "completed")
}

// finish says a result, and what has become of the turn's messages.
func (p *program) finish(result Line, state string) error {
	p.results++
	p.failed = result["is_error"] == true
	t := p.turn
	p.turn = nil
	clear(p.uses)
	if t == nil {
		t = &turn{}
	}
	if len(t.uuids) > 0 && result["user_message_uuid"] == nil {
		result = with(result, Line{"user_message_uuid": t.uuids[0], "user_message_uuids": slices.Clone(t.uuids)})
	}
	if err := p.write(result); err != nil {
		return err
	}
	for _, uuid := range t.uuids {
		if err := p.lifecycle(uuid, state); err != nil {
			return err
		}
	}
	return nil
}
