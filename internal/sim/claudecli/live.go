package claudecli

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// live carries out turns as the model says, until the host has no more to say.
func (p *program) live() error {
	for {
		if err := p.untilUser(); err != nil {
			return err
		}
		err := p.liveTurn()
		var by interrupted
		if errors.As(err, &by) {
			err = p.abort(string(by))
		}
		if err != nil && !errors.Is(err, errTurnOver) {
			return err
		}
	}
}

// takeUsers lets the turn hear the messages that have come.
func (p *program) takeUsers() error {
	for len(p.users) > 0 {
		u := p.users[0]
		p.users = p.users[1:]
		uuid := text(u, "uuid")
		if uuid != "" && p.seen[uuid] {
			continue // sent twice
		}
		p.seen[uuid] = uuid != ""
		if uuid != "" {
			p.turn.uuids = append(p.turn.uuids, uuid)
			if err := p.lifecycle(uuid, "started"); err != nil {
				return err
			}
		}
		if err := p.note("user", "", object(u, "message"), uuid); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) liveTurn() error {
	p.turn = &turn{}
	started := time.Now()
	before := len(p.histories[""])
	if err := p.takeUsers(); err != nil {
		return err
	}
	if len(p.histories[""]) == before {
		p.turn = nil
		return nil
	}
	if p.servers != nil && !p.greeted {
		p.greeted = true
		if err := p.greet("notifications/initialized", "tools/list"); err != nil {
			return err
		}
	}
	v, err := p.callback("UserPromptSubmit", "", Line{"prompt": p.lastPrompt()})
	if err != nil {
		return err
	}
	blocked := text(v, "decision") == "block"
	if !blocked {
		if err := p.liveInit(); err != nil {
			return err
		}
		if err := p.rounds(); err != nil {
			return err
		}
	}
	r := template("03-permission-allow", func(l Line) bool { return l["type"] == "result" })
	n := func(n int) any { return json.Number(strconv.Itoa(n)) }
	spent := p.turn.spent
	p.cost += float64(spent.in)*5e-6 + float64(spent.out)*15e-6
	return p.finish(with(r, Line{
		"session_id": p.session, "uuid": newID(), "result": p.turn.text, "num_turns": n(p.turn.calls), "result_index": n(p.results), "queued_turn_count": n(0),
		"duration_ms": n(int(time.Since(started).Milliseconds())), "total_cost_usd": json.Number(fmt.Sprintf("%.6f", p.cost)), "model_usage_since_last_result": Line{},
		"modelUsage": Line{}, "usage": with(object(r, "usage"), Line{"input_tokens": n(spent.in), "output_tokens": n(spent.out)}),
	}), "completed")
}

func (p *program) liveInit() error {
	init := template("03-permission-allow", func(l Line) bool { return l["subtype"] == "init" })
	var servers []any
	for _, s := range p.servers {
		servers = append(servers, Line{"name": s, "status": "connected", "source": "sdk"})
	}
	if servers == nil {
		servers = []any{}
	}
	tools := slices.Clone(list(init, "tools")) // the template is shared
	for _, t := range p.tools {
		tools = append(tools, text(t, "name"))
	}
	return p.write(with(p.renewed(init), Line{"session_id": p.session, "cwd": p.o.Dir, "model": p.model, "permissionMode": p.mode, "mcp_servers": servers, "tools": tools, "uuid": newID()}))
}

// rounds calls the model and makes the calls that it asks for, until it asks for none.
func (p *program) rounds() error {
	limit, _ := p.flag("max-turns")
	most, _ := strconv.Atoi(limit)
	stopped := false
	for round := 1; ; round++ {
		if p.partial {
			if err := p.write(Line{"type": "system", "subtype": "status", "status": "requesting", "session_id": p.session, "uuid": newID()}); err != nil {
				return err
			}
		}
		p.turn.open = 0
		r, err := p.call("", p.relay)
		if err != nil {
			return p.unreachable(err)
		}
		p.turn.spent.in, p.turn.spent.out, p.turn.open = p.turn.spent.in+r.usage.in, p.turn.spent.out+r.usage.out, 0
		calls := 0
		for _, b := range r.blocks {
			if u := p.useOf(text(b, "id")); u != nil && text(b, "type") == "tool_use" {
				calls++
				if err := p.permitted(u); err != nil {
					return err
				}
				if err := p.finishUse(u, nil); err != nil {
					return err
				}
			}
		}
		if most > 0 && calls > 0 && round >= most {
			l := template("14-max-turns", func(l Line) bool { return l["subtype"] == "error_max_turns" })
			if err := p.finish(with(l, Line{"session_id": p.session, "uuid": newID(), "result_index": json.Number(strconv.Itoa(p.results))}), "completed"); err != nil {
				return err
			}
			return errTurnOver
		}
		if calls > 0 {
			if err := p.takeUsers(); err != nil { // messages are folded in between rounds
				return err
			}
			if err := p.summarize(r.usage.in); err != nil {
				return err
			}
			continue
		}
		v, err := p.callback("Stop", "", Line{"stop_hook_active": stopped, "last_assistant_message": p.turn.text, "background_tasks": []any{}, "session_crons": []any{}})
		if err != nil {
			return err
		}
		if text(v, "decision") != "block" {
			return nil
		}
		stopped = true
		if err := p.note("user", "", Line{"role": "user", "content": "Stop hook feedback:\n" + text(v, "reason")}, ""); err != nil {
			return err
		}
	}
}

// relay says what the model's stream brings.
func (p *program) relay(got Line) error {
	e := object(got, "event")
	kind := text(e, "type")
	switch kind {
	case "message_start":
		p.turn.message = text(e, "message", "id")
	case "content_block_start":
		p.turn.open = number(e, "index") + 1
	case "content_block_stop":
		if b, ok := got["block"].(Line); ok {
			if err := p.block(b); err != nil {
				return err
			}
		}
	}
	if !p.partial {
		return nil
	}
	l := Line{"type": "stream_event", "event": e, "session_id": p.session, "parent_tool_use_id": nil, "uuid": newID(), "api_message_id": p.turn.message}
	if kind == "message_start" {
		l["ttft_ms"] = json.Number("5")
	}
	return p.write(l)
}

// block says a complete block of the model's answer.
func (p *program) block(b Line) error {
	l := template("03-permission-allow", func(l Line) bool { return l["type"] == "assistant" })
	l = with(l, Line{"session_id": p.session, "uuid": newID(), "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")})
	l["message"] = with(object(l, "message"), Line{"id": p.turn.message, "model": p.model, "content": []any{b}})
	switch text(b, "type") {
	case "tool_use":
		p.uses[text(b, "id")] = &use{id: text(b, "id"), name: text(b, "name"), input: object(b, "input")}
	case "text":
		p.turn.text = text(b, "text")
	}
	if err := p.write(p.stamped(l)); err != nil {
		return err
	}
	return p.note("assistant", "", Line{"role": "assistant", "content": []any{b}, "id": p.turn.message}, text(l, "uuid"))
}

var harmless = []string{"Read", "Glob", "Grep", "ToolSearch", "TodoWrite", "Skill"}

// permitted asks the host about a call, if somebody has to be asked.
func (p *program) permitted(u *use) error {
	if err := p.gate(u); err != nil {
		return err
	}
	person := u.name == "AskUserQuestion" || u.name == "ExitPlanMode"
	allowed, _ := p.flag("allowedTools")
	free := u.gate == "allow" || u.gate != "ask" && (slices.Contains(harmless, u.name) || p.mode == "bypassPermissions" ||
		p.mode == "acceptEdits" && (u.name == "Write" || u.name == "Edit") || slices.Contains(strings.Split(allowed, ","), u.name))
	if u.gate == "deny" || free && !person {
		return nil
	}
	if tool, _ := p.flag("permission-prompt-tool"); tool != "stdio" {
		u.gate, u.reason = "deny", "nobody can be asked"
		return nil
	}
	request := Line{"subtype": "can_use_tool", "tool_name": u.name, "display_name": u.name, "input": u.input, "description": filepath.Base(text(u.input, "file_path")), "tool_use_id": u.id}
	if person {
		request["requires_user_interaction"] = true
		delete(request, "description")
	} else {
		request["permission_suggestions"] = []any{Line{"type": "setMode", "mode": "acceptEdits", "destination": "session"}}
	}
	id, err := p.ask(request)
	if err != nil {
		return err
	}
	u.permit, err = p.answered(id)
	return err
}

// streamed says a block of the capture as partial messages around it, since this host wants them.
func (p *program) streamed(l Line, last bool) error {
	message := object(l, "message")
	id := text(message, "id")
	event := func(e Line) error {
		return p.write(Line{"type": "stream_event", "event": e, "session_id": p.session, "parent_tool_use_id": nil, "uuid": newID(), "api_message_id": id})
	}
	if p.turn.message != id {
		p.turn.message, p.turn.open = id, 0
		if err := event(Line{"type": "message_start", "message": with(message, Line{"content": []any{}, "context_management": nil})}); err != nil {
			return err
		}
	}
	at := json.Number(strconv.Itoa(p.turn.open))
	p.turn.open++
	b := object(list(message, "content")[0])
	empty, deltas := with(b, nil), []Line{}
	switch text(b, "type") {
	case "text":
		empty["text"] = ""
		for _, piece := range pieces(text(b, "text")) {
			deltas = append(deltas, Line{"type": "text_delta", "text": piece})
		}
	case "thinking":
		empty["thinking"], empty["signature"] = "", ""
		deltas = append(deltas, Line{"type": "thinking_delta", "thinking": text(b, "thinking")}, Line{"type": "signature_delta", "signature": text(b, "signature")})
	case "tool_use":
		empty["input"] = Line{}
		raw, err := json.Marshal(b["input"])
		if err != nil {
			return err
		}
		for _, piece := range pieces(string(raw)) {
			deltas = append(deltas, Line{"type": "input_json_delta", "partial_json": piece})
		}
	}
	if err := event(Line{"type": "content_block_start", "index": at, "content_block": empty}); err != nil {
		return err
	}
	for _, d := range deltas {
		if err := event(Line{"type": "content_block_delta", "index": at, "delta": d}); err != nil {
			return err
		}
	}
	if err := p.write(p.stamped(l)); err != nil {
		return err
	}
	if err := event(Line{"type": "content_block_stop", "index": at}); err != nil || !last {
		return err
	}
	p.turn.open = 0
	stop := "end_turn"
	if text(b, "type") == "tool_use" {
		stop = "tool_use"
	}
	usage := with(object(message, "usage"), Line{"output_tokens": json.Number("20")})
	if err := event(Line{"type": "message_delta", "delta": Line{"stop_reason": stop, "stop_sequence": nil}, "usage": usage}); err != nil {
		return err
	}
	return event(Line{"type": "message_stop"})
}

// pieces cuts a text in two.
func pieces(s string) []string {
	r := []rune(s)
	if len(r) < 2 {
		return []string{s}
	}
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}
