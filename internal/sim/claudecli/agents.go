package claudecli

import (
	"encoding/json"
	"strings"
)

// How many tokens of the model's context are too many: above the first the conversation is summarized before
// the next model call, and above the second there is none without that.
const (
	summarizeAt = 970_000
	blockedAt   = 985_000
)

// delegate has an agent do a task, in the foreground, and returns what it reports.
func (p *program) delegate(u *use) (report string, err error) {
	kind := text(u.input, "subagent_type")
	if kind == "" {
		kind = "general-purpose"
	}
	id := "a" + strings.ReplaceAll(newID(), "-", "")[:16]
	p.agents[u.id] = id
	about := Line{"task_id": id, "tool_use_id": u.id, "session_id": p.session}
	if err := p.write(with(about, Line{
		"type": "system", "subtype": "task_started", "task_type": "local_agent", "subagent_type": kind, "is_backgrounded": false,
		"description": text(u.input, "description"), "prompt": text(u.input, "prompt"), "uuid": newID(),
	})); err != nil {
		return "", err
	}
	v, err := p.callback("SubagentStart", kind, Line{"agent_id": id, "agent_type": kind})
	if err != nil {
		return "", err
	}
	prompt := text(u.input, "prompt")
	if more := text(v, "hookSpecificOutput", "additionalContext"); more != "" {
		prompt = "SubagentStart hook additional context: " + more + "\n\n" + prompt
	}
	said := func(s string) error { return p.note("user", u.id, Line{"role": "user", "content": s}, "") }
	if err := said(prompt); err != nil {
		return "", err
	}
	for stopped := false; ; stopped = true {
		if report, err = p.work(u); err != nil {
			return "", err
		}
		v, err := p.callback("SubagentStop", kind, Line{
			"agent_id": id, "agent_type": kind, "stop_hook_active": stopped, "last_assistant_message": report,
			"agent_transcript_path": p.file(p.session), "background_tasks": []any{}, "session_crons": []any{},
		})
		if err != nil {
			return "", err
		}
		if text(v, "decision") != "block" {
			break
		}
		if err := said("SubagentStop:Callback hook blocking error from command: \"callback\": " + text(v, "reason")); err != nil {
			return "", err
		}
	}
	return report, p.write(with(about, Line{"type": "system", "subtype": "task_notification", "status": "completed", "summary": report, "uuid": newID()}))
}

// work has an agent take steps until it asks for no calls any more.
func (p *program) work(of *use) (said string, err error) {
	for {
		r, err := p.call(of.id, nil)
		if err != nil {
			return "", err
		}
		if err := p.note("assistant", of.id, Line{"role": "assistant", "content": r.blocks, "id": r.id}, ""); err != nil {
			return "", err
		}
		var uses []*use
		for _, b := range r.blocks {
			l := template("03-permission-allow", func(l Line) bool { return l["type"] == "assistant" })
			l = with(l, Line{"session_id": p.session, "uuid": newID(), "parent_tool_use_id": of.id, "agent_id": p.agents[of.id]})
			l["message"] = with(object(l, "message"), Line{"id": r.id, "model": p.model, "content": []any{b}})
			if err := p.write(l); err != nil {
				return "", err
			}
			switch text(b, "type") {
			case "text":
				said = text(b, "text")
			case "tool_use":
				u := &use{id: text(b, "id"), name: text(b, "name"), agent: of.id, input: object(b, "input")}
				p.uses[u.id] = u
				uses = append(uses, u)
			}
		}
		for _, u := range uses {
			if err := p.permitted(u); err != nil {
				return "", err
			}
			if err := p.finishUse(u, nil); err != nil {
				return "", err
			}
		}
		if len(uses) == 0 {
			return said, nil
		}
	}
}

// summarize summarizes the conversation if it has become too large. It ends the turn if that is needed and
// a hook does not allow it.
func (p *program) summarize(tokens int) error {
	if tokens <= summarizeAt {
		return nil
	}
	status := func(s any) error {
		return p.write(Line{"type": "system", "subtype": "status", "status": s, "session_id": p.session, "uuid": newID()})
	}
	if err := status("compacting"); err != nil {
		return err
	}
	v, err := p.callback("PreCompact", "auto", Line{"trigger": "auto", "custom_instructions": nil})
	if err != nil {
		return err
	}
	if text(v, "decision") == "block" {
		if err := status(nil); err != nil || tokens <= blockedAt {
			return err
		}
		p.turn.text = "Prompt is too long"
		if err := p.finish(Line{
			"type": "result", "subtype": "success", "is_error": true, "result": p.turn.text, "terminal_reason": "blocking_limit", "session_id": p.session,
			"uuid": newID(), "num_turns": json.Number("1"), "queued_turn_count": json.Number("0"),
		}, "completed"); err != nil {
			return err
		}
		return errTurnOver
	}
	history := p.histories[""]
	p.histories[""] = append(history[:len(history):len(history)], Line{"role": "user", "content": []any{Line{
		"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far.",
	}}})
	r, err := p.call("", nil)
	p.histories[""] = history
	if err != nil {
		return p.unreachable(err)
	}
	var said strings.Builder
	for _, b := range r.blocks {
		said.WriteString(text(b, "text"))
	}
	if _, err := p.callback("SubagentStop", "", Line{
		"agent_id": "a" + strings.ReplaceAll(newID(), "-", "")[:16], "agent_type": "", "stop_hook_active": false, "last_assistant_message": said.String(),
		"agent_transcript_path": p.file(p.session), "background_tasks": []any{}, "session_crons": []any{},
	}); err != nil {
		return err
	}
	if err := status(nil); err != nil {
		return err
	}
	if err := p.write(Line{
		"type": "system", "subtype": "compact_boundary", "session_id": p.session, "uuid": newID(),
		"compact_metadata": Line{"trigger": "auto", "pre_tokens": tokens, "post_tokens": json.Number("1000"), "duration_ms": json.Number("5")},
	}); err != nil {
		return err
	}
	p.histories[""], p.leaf = nil, "" // what follows has no parent
	return p.note("user", "", Line{"role": "user", "content": "This session is being continued from a previous conversation that ran out of context. The summary below covers the earlier portion of the conversation.\n\n" + said.String()}, "")
}
