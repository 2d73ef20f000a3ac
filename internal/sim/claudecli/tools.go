package claudecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// use is a call of a tool.
type use struct {
	id, name, agent string
	input           Line

	gate            string // what a PreToolUse hook decided: "allow", "deny", "ask", or "none"; "" until it was asked
	reason          string
	permit          Line // the host's answer to can_use_tool
	capturedAllowed bool // the capture's host allowed it
	asCaptured      bool // the host has answered as the capture's
	over            bool
}

func (p *program) useOf(id string) *use { return p.uses[id] }

// callback asks the hooks of an event, one after another, and returns their last answer that says
// something.
func (p *program) callback(event, tool string, fields Line) (Line, error) {
	verdict := Line{}
	for _, h := range p.hooks[event] {
		if h.matcher != "" && h.matcher != "*" && tool != "" {
			if ok, err := regexp.MatchString("^(?:"+h.matcher+")$", tool); err != nil || !ok {
				continue
			}
		}
		input := Line{
			"session_id": p.session, "transcript_path": p.file(p.session), "cwd": p.o.Dir, "prompt_id": newID(),
			"permission_mode": p.mode, "hook_event_name": event,
		}
		maps.Copy(input, fields)
		request := Line{"subtype": "hook_callback", "callback_id": h.id, "input": input, "tool_use_id": newID()}
		if id, ok := fields["tool_use_id"]; ok {
			request["tool_use_id"] = id
		}
		id, err := p.ask(request)
		if err != nil {
			return nil, err
		}
		a, err := p.answered(id)
		if err != nil {
			return nil, err
		}
		if text(a, "subtype") == "error" {
			return Line{"error": text(a, "error")}, nil
		}
		if got := object(a, "response"); len(got) > 0 {
			verdict = got
		}
	}
	return verdict, nil
}

func (u *use) fields() Line {
	f := Line{"tool_name": u.name, "tool_input": u.input, "tool_use_id": u.id, "effort": Line{"level": "medium"}}
	if u.agent != "" {
		f["agent_id"] = u.agent
	}
	return f
}

// gate asks the host's PreToolUse hooks about a call, once.
func (p *program) gate(u *use) error {
	if u.gate != "" || p.sameHooks {
		return nil
	}
	u.gate = "none"
	if len(p.hooks["PreToolUse"]) == 0 {
		return nil
	}
	if p.o.Play.Alters && u.name == "Write" {
		u.input = with(u.input, Line{"content": Altered})
	}
	v, err := p.callback("PreToolUse", u.name, u.fields())
	if err != nil {
		u.gate = ""
		return err
	}
	own := object(v, "hookSpecificOutput")
	switch {
	case text(v, "error") != "":
		// the hooks of a runtime that gates every call block on failure
		u.gate, u.reason = "deny", text(v, "error")
	case text(own, "permissionDecision") != "":
		u.gate, u.reason = text(own, "permissionDecision"), text(own, "permissionDecisionReason")
	case text(v, "decision") == "block":
		u.gate, u.reason = "deny", text(v, "reason")
	}
	if in := object(own, "updatedInput"); in != nil {
		u.input = in
	}
	return nil
}

// user says the results of tools, and what the program itself says to the model.
func (p *program) user(l Line) error {
	n := p.renewed(l)
	results := list(n, "message", "content")
	if len(results) != 1 || text(results[0], "type") != "tool_result" {
		if err := p.write(n); err != nil {
			return err
		}
		return p.note("user", text(n, "parent_tool_use_id"), object(n, "message"), text(n, "uuid"))
	}
	u := p.useOf(text(results[0], "tool_use_id"))
	if u == nil {
		return p.write(n)
	}
	return p.finishUse(u, n)
}

// finishUse finds out what comes of a call and says it. captured is the result that the capture has
// for it; nil if there is none.
func (p *program) finishUse(u *use, captured Line) error {
	if err := p.gate(u); err != nil {
		return err
	}
	refused := false // in the capture
	for _, m := range list(captured, "tool_result_meta") {
		refused = refused || text(m, "non_execution_kind") != ""
	}
	if in := object(u.permit, "response", "updatedInput"); in != nil {
		u.input = in
	}
	answer := object(u.permit, "response")
	var l Line
	switch {
	case u.gate == "deny":
		l = p.denied(u, "PreToolUse:"+u.name+" hook error: "+u.reason, "hook")
	case u.permit != nil && text(answer, "behavior") != "allow" && (u.capturedAllowed || captured == nil):
		why := text(answer, "message")
		if why == "" {
			why = "Tool permission request failed: " + text(u.permit, "error")
		}
		l = p.denied(u, why, "user_reject")
		if answer["interrupt"] == true {
			u.over = true
			if err := p.write(l); err != nil {
				return err
			}
			if err := p.aborted("aborted_tools"); err != nil {
				return err
			}
			return errTurnOver
		}
	case refused && u.gate != "allow" && text(answer, "behavior") != "allow":
		l = captured
	default:
		var err error
		if l, err = p.ran(u, captured, refused); err != nil {
			return err
		}
	}
	u.over = true
	if err := p.write(l); err != nil {
		return err
	}
	return p.note("user", u.agent, object(l, "message"), text(l, "uuid"))
}

func (p *program) denied(u *use, why, source string) Line {
	l := p.resultOf(u, why, true, "Error: "+why)
	l["tool_result_meta"] = []any{Line{"id": u.id, "non_execution_kind": "permission-rule", "permission_decision": Line{"decision": "reject", "source": source}}}
	return l
}

// resultOf returns the line with a result.
func (p *program) resultOf(u *use, content any, failed bool, structured any) Line {
	block := Line{"type": "tool_result", "tool_use_id": u.id, "content": content}
	if failed {
		block["is_error"] = true
	}
	var parent any
	if u.agent != "" {
		parent = u.agent
	}
	return Line{
		"type": "user", "message": Line{"role": "user", "content": []any{block}}, "parent_tool_use_id": parent, "session_id": p.session,
		"uuid": newID(), "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), "tool_use_result": structured,
		"tool_result_meta": []any{Line{"id": u.id, "permission_decision": Line{"decision": "accept", "source": "hook"}}},
	}
}

// ran makes a call and returns its result.
func (p *program) ran(u *use, captured Line, refused bool) (Line, error) {
	l := captured
	switch {
	case u.name == "Agent" && p.o.Play.Live:
		report, err := p.delegate(u)
		if err != nil {
			return nil, err
		}
		l = p.resultOf(u, report, false, Line{"status": "completed", "agentId": p.agents[u.id]})
	case u.name == "AskUserQuestion" && u.permit != nil && !u.asCaptured:
		l = p.resultOf(u, said(u.input), false, u.input)
	case strings.HasPrefix(u.name, "mcp__") && (captured == nil || !p.t.asks("mcp_message")):
		content, failed, err := p.callMCP(u)
		if err != nil {
			return nil, err
		}
		if content != nil {
			l = p.resultOf(u, content, failed, content)
		}
	case p.o.Play.Effects && slices.Contains([]string{"Write", "Edit", "Bash", "Read"}, u.name):
		content, failed, structured, err := p.perform(u)
		if err != nil {
			return nil, err
		}
		l = p.resultOf(u, content, failed, structured)
	case captured == nil || refused:
		l = p.resultOf(u, "(the stand-in did nothing)", false, Line{})
	}
	if p.sameHooks {
		return l, nil
	}
	fields := u.fields()
	event := "PostToolUse"
	if r := list(l, "message", "content"); len(r) > 0 && object(r[0])["is_error"] == true {
		event = "PostToolUseFailure"
		fields["error"] = get(r[0], "content")
	} else {
		fields["tool_response"] = l["tool_use_result"]
		fields["duration_ms"] = json.Number("5")
	}
	_, err := p.callback(event, u.name, fields)
	return l, err
}

// said is what the model reads of the answers to AskUserQuestion.
func said(input Line) string {
	var all []string
	for _, q := range list(input, "questions") {
		if a, ok := get(input, "answers", text(q, "question")).(string); ok {
			all = append(all, fmt.Sprintf("%q=%q", text(q, "question"), a))
		}
	}
	if len(all) == 0 {
		return "The user did not answer the questions."
	}
	return "Your questions have been answered: " + strings.Join(all, ", ") + ". You can now continue with these answers in mind."
}

// callMCP makes a call of an in-process MCP server. Nil: there is no such server.
func (p *program) callMCP(u *use) (content any, failed bool, err error) {
	server, tool, _ := strings.Cut(strings.TrimPrefix(u.name, "mcp__"), "__")
	if !slices.Contains(p.servers, server) {
		return nil, false, nil
	}
	id, err := p.ask(Line{"subtype": "mcp_message", "server_name": server, "message": Line{
		"jsonrpc": "2.0", "id": json.Number(fmt.Sprint(p.steps + 2)), "method": "tools/call",
		"params": Line{"name": tool, "arguments": u.input, "_meta": Line{"claudecode/toolUseId": u.id, "progressToken": json.Number("2")}},
	}})
	if err != nil {
		return nil, false, err
	}
	a, err := p.answered(id)
	if err != nil {
		return nil, false, err
	}
	answer := object(a, "response", "mcp_response")
	if e := text(answer, "error", "message"); e != "" {
		return e, true, nil
	}
	content = get(answer, "result", "content")
	if content == nil {
		content = []any{}
	}
	return content, get(answer, "result", "isError") == true, nil
}

// perform makes a call for real. Its effect is noted before it is a step.
func (p *program) perform(u *use) (content string, failed bool, structured any, err error) {
	path := text(u.input, "file_path")
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(p.o.Dir, path)
	}
	done := func(what string) error {
		p.o.Note("effects.log", u.name+" "+u.id+" "+what)
		return p.step()
	}
	fail := func(err error) (string, bool, any, error) { return err.Error(), true, "Error: " + err.Error(), nil }
	switch u.name {
	case "Write":
		before, readErr := os.ReadFile(path)
		if err := os.WriteFile(path, []byte(text(u.input, "content")), 0o600); err != nil {
			return fail(err)
		}
		structured := Line{"type": "update", "filePath": path, "content": text(u.input, "content"), "structuredPatch": []any{}, "originalFile": string(before), "userModified": false}
		content = "The file " + path + " has been updated successfully. (file state is current in your context — no need to Read it back)"
		if errors.Is(readErr, fs.ErrNotExist) {
			structured["type"], structured["originalFile"] = "create", nil
			content = "File created successfully at: " + path + " (file state is current in your context — no need to Read it back)"
		}
		return content, false, structured, done(path)
	case "Edit":
		before, err := os.ReadFile(path)
		if err != nil {
			return fail(err)
		}
		if !strings.Contains(string(before), text(u.input, "old_string")) {
			return "String to replace not found in file.", true, "Error: String to replace not found in file.", nil
		}
		after := strings.Replace(string(before), text(u.input, "old_string"), text(u.input, "new_string"), 1)
		if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
			return fail(err)
		}
		return "The file " + path + " has been updated successfully.", false, Line{"filePath": path, "oldString": text(u.input, "old_string"), "newString": text(u.input, "new_string"), "originalFile": string(before), "structuredPatch": []any{}, "userModified": false, "replaceAll": false}, done(path)
	case "Read":
		got, err := os.ReadFile(path)
		if err != nil {
			return fail(err)
		}
		return string(got), false, Line{"type": "text", "file": Line{"filePath": path, "content": string(got)}}, nil
	}
	return p.bash(u, done)
}

func (p *program) bash(u *use, done func(string) error) (content string, failed bool, structured any, err error) {
	command := text(u.input, "command")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	c.Dir, c.WaitDelay = p.o.Dir, time.Second
	ownSession(c)
	var out, problems strings.Builder
	c.Stdout, c.Stderr = &out, &problems
	runErr := c.Run()
	structured = Line{"stdout": strings.TrimSuffix(out.String(), "\n"), "stderr": problems.String(), "interrupted": false, "isImage": false, "noOutputExpected": false}
	content = strings.TrimSuffix(out.String(), "\n")
	if runErr != nil {
		content, failed, structured = fmt.Sprintf("%s\n%s%s", runErr, content, problems.String()), true, "Error: "+runErr.Error()
	}
	return content, failed, structured, done(command)
}

// withdraw takes back what the host is being asked about.
func (p *program) withdraw() error {
	for id, request := range p.asked {
		if _, ok := p.answers[id]; ok || text(request, "subtype") != "can_use_tool" {
			continue
		}
		p.answers[id] = Line{} // once
		if err := p.write(Line{"type": "control_cancel_request", "request_id": id}); err != nil {
			return err
		}
	}
	return nil
}

// abort ends the turn because the host has asked for it where its capture did not.
func (p *program) abort(by string) error {
	if err := p.withdraw(); err != nil {
		return err
	}
	queued := []any{}
	for _, u := range p.users {
		queued = append(queued, u["uuid"])
	}
	if err := p.respond(by, Line{"still_queued": queued}); err != nil {
		return err
	}
	if p.turn == nil {
		return nil
	}
	reason := "aborted_streaming"
	for _, id := range slices.Sorted(maps.Keys(p.uses)) {
		u := p.uses[id]
		if u.over {
			continue
		}
		reason = "aborted_tools"
		l := template("09-interrupt-permission", func(l Line) bool { return l["tool_use_result"] != nil })
		l = with(p.resultOf(u, list(l, "message", "content")[0].(Line)["content"], true, "User rejected tool use"), Line{"tool_result_meta": []any{Line{"id": u.id, "non_execution_kind": "user-rejected"}}})
		if err := p.write(l); err != nil {
			return err
		}
		if err := p.note("user", u.agent, object(l, "message"), text(l, "uuid")); err != nil {
			return err
		}
	}
	return p.aborted(reason)
}

// aborted says that the turn has been stopped.
func (p *program) aborted(reason string) error {
	from, mark := "07-interrupt-stream", "[Request interrupted by user]"
	if reason == "aborted_tools" {
		from, mark = "08-interrupt-tool", "[Request interrupted by user for tool use]"
	}
	l := template(from, func(l Line) bool {
		c := list(l, "message", "content")
		return l["type"] == "user" && len(c) == 1 && text(c[0], "text") == mark
	})
	l = with(l, Line{"uuid": newID(), "session_id": p.session})
	if err := p.write(l); err != nil {
		return err
	}
	if err := p.note("user", "", object(l, "message"), text(l, "uuid")); err != nil {
		return err
	}
	for ; p.partial && p.turn.open > 0; p.turn.open = 0 {
		for _, kind := range []string{"content_block_stop", "message_delta", "message_stop"} {
			l := template("07-interrupt-stream", func(l Line) bool { return text(l, "event", "type") == kind })
			event := object(l, "event")
			if kind == "content_block_stop" {
				event = with(event, Line{"index": json.Number(fmt.Sprint(p.turn.open - 1))})
			}
			if err := p.write(with(l, Line{"event": event, "uuid": newID(), "session_id": p.session, "api_message_id": p.turn.message})); err != nil {
				return err
			}
		}
	}
	r := template(from, func(l Line) bool { return l["subtype"] == "error_during_execution" })
	r = with(r, Line{"uuid": newID(), "session_id": p.session, "result_index": json.Number(fmt.Sprint(p.results)), "user_message_uuid": nil, "user_message_uuids": nil})
	return p.finish(r, "cancelled")
}
