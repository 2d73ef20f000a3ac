package claudecli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/parley-server/parley/internal/sse"
)

// reply is what a model answered.
type reply struct {
	id     string
	blocks []any
	stop   string
	usage  usage
	whole  bool // the stream came to its end
}

type usage struct{ in, out int }

// apiError is an answer of the API that is no reply. Status 0: there was no answer.
type apiError struct {
	status int
	text   string
}

func (e *apiError) Error() string { return fmt.Sprintf("API Error: %d %s", e.status, e.text) }

// kind is the word that the CLI has for it.
func (e *apiError) kind() string {
	switch {
	case e.status == 401:
		return "authentication_failed"
	case e.status == 429:
		return "rate_limit"
	case e.status == 529:
		return "overloaded"
	case e.status == 400:
		return "invalid_request"
	case e.status >= 500:
		return "server_error"
	}
	return "unknown"
}

// callFor makes the model call of which m is the answer in the capture, once, and demands that it
// is answered like that.
func (p *program) callFor(l, m Line) error {
	captured, agent := text(m, "id"), ""
	if parent := text(l, "parent_tool_use_id"); parent != "" {
		agent = p.renew(parent).(string)
	}
	if p.o.Env["ANTHROPIC_BASE_URL"] == "" || text(m, "model") == "<synthetic>" || p.called[captured] {
		return nil
	}
	p.called[captured] = true
	r, err := p.call(agent, nil)
	if err != nil {
		return p.unreachable(err)
	}
	return p.match(captured, r)
}

// unreachable says that the API gave no reply, if that is what err means.
func (p *program) unreachable(err error) error {
	var api *apiError
	if !errors.As(err, &api) {
		return err
	}
	for _, kind := range []string{"assistant", "result"} {
		l := template("21-api-errors-c-nokey", func(l Line) bool { return l["type"] == kind })
		l = with(p.renewed(l), Line{"uuid": newID(), "session_id": p.session})
		if kind == "assistant" {
			l["error"] = api.kind()
			l["message"] = with(object(l, "message"), Line{"id": newID(), "content": []any{Line{"type": "text", "text": api.Error()}}})
			if err := p.write(l); err != nil {
				return err
			}
			continue
		}
		l["result"], l["result_index"] = api.Error(), json.Number(strconv.Itoa(p.results))
		if api.status != 0 {
			l["api_error_status"] = json.Number(strconv.Itoa(api.status))
		}
		if err := p.finish(l, "completed"); err != nil {
			return err
		}
	}
	return errTurnOver
}

// match compares a reply with the capture's, and gives the capture's ids those of the reply.
func (p *program) match(captured string, r *reply) error {
	var blocks []any
	cut := false
	for _, e := range p.t.Entries[p.pos:] {
		if e.In && e.Line["type"] == "user" && len(blocks) > 0 {
			break
		}
		if !e.In && e.Line["type"] == "assistant" && text(e.Line, "message", "id") == captured {
			blocks = append(blocks, list(e.Line, "message", "content")...)
			cut = cut || e.Line["aborted"] == true
		}
	}
	p.ids[captured] = r.id
	if cut {
		return nil
	}
	if len(blocks) != len(r.blocks) {
		return fmt.Errorf("the model answered %d blocks, the transcript %s has %d", len(r.blocks), p.t.Name, len(blocks))
	}
	for i, b := range blocks {
		got := r.blocks[i]
		if text(b, "type") == "tool_use" {
			p.ids[text(b, "id")] = text(got, "id")
		}
		for _, field := range []string{"type", "text", "name", "input"} {
			if want, got := p.renew(get(b, field)), get(got, field); !reflect.DeepEqual(want, got) {
				return fmt.Errorf("the model's %s is %v, the transcript %s has %v", field, got, p.t.Name, want)
			}
		}
	}
	return nil
}

// call calls the model with the history of an agent. Each gets the events of the stream. What the
// host writes meanwhile is read: an interrupt cuts the call off.
func (p *program) call(agent string, each func(Line) error) (*reply, error) {
	attempts, _ := strconv.Atoi(p.o.Env["CLAUDE_CODE_MAX_RETRIES"])
	for attempt := 1; ; attempt++ {
		r, err := p.request(agent, true, each)
		var api *apiError
		if err == nil && !r.whole {
			r, err = p.request(agent, false, each) // as the real one does after a broken stream
		}
		if !errors.As(err, &api) {
			return r, err
		}
		again := api.status == 0 || api.status == 401 || api.status == 429 || api.status >= 500
		if !again || attempt > attempts {
			return nil, err
		}
		l := template("21-api-errors-a", func(l Line) bool { return l["subtype"] == "api_retry" })
		number := func(n int) any { return json.Number(strconv.Itoa(n)) }
		if err := p.write(with(l, Line{"attempt": number(attempt), "max_retries": number(attempts), "error_status": number(api.status), "error": api.kind(), "session_id": p.session, "uuid": newID()})); err != nil {
			return nil, err
		}
	}
}

func (p *program) request(agent string, stream bool, each func(Line) error) (*reply, error) {
	if err := p.step(); err != nil { // the request leaves now
		return nil, err
	}
	if p.turn != nil {
		p.turn.calls++
	}
	ctx, cancel := context.WithCancel(context.Background())
	events, ended := make(chan Line, 16), make(chan error, 1)
	defer func() {
		cancel()
		for range events { //nolint:revive // until the request is over
		}
	}()
	go func() {
		defer close(events)
		ended <- p.post(ctx, p.agents[agent], p.body(agent, stream), stream, events)
	}()
	r := &reply{}
	lines := p.lines
	for {
		select {
		case h, ok := <-lines:
			if !ok {
				lines = nil // the turn is finished all the same
				continue
			}
			if err := p.take(h); err != nil {
				return nil, err
			}
		case e, ok := <-events:
			if !ok {
				if err := <-ended; err != nil {
					return nil, err
				}
				return r, p.step()
			}
			block := r.add(e)
			if each != nil {
				if err := each(with(Line{"event": e}, Line{"block": block})); err != nil {
					return nil, err
				}
			}
		}
	}
}

// add adds an event to the reply, and returns the block that is complete with it.
func (r *reply) add(e Line) any {
	switch text(e, "type") {
	case "message_start":
		r.id = text(e, "message", "id")
		r.usage.in = number(e, "message", "usage", "input_tokens")
	case "content_block_start":
		r.blocks = append(r.blocks, with(object(e, "content_block"), nil))
	case "content_block_delta":
		if len(r.blocks) == 0 {
			return nil
		}
		b := r.blocks[len(r.blocks)-1].(Line)
		for _, field := range []string{"text", "thinking", "signature"} {
			if more, ok := get(e, "delta", field).(string); ok {
				b[field] = text(b, field) + more
			}
		}
		b["partial"] = text(b, "partial") + text(e, "delta", "partial_json")
	case "content_block_stop":
		if len(r.blocks) == 0 {
			return nil
		}
		b := r.blocks[len(r.blocks)-1].(Line)
		if raw := text(b, "partial"); raw != "" {
			if in, err := decode([]byte(raw)); err == nil {
				b["input"] = in
			}
		}
		delete(b, "partial")
		return b
	case "message_delta":
		r.stop = text(e, "delta", "stop_reason")
		r.usage.in = max(r.usage.in, number(e, "usage", "input_tokens")) // totals
		r.usage.out = number(e, "usage", "output_tokens")
	case "message_stop":
		r.whole = true
	}
	return nil
}

func number(v any, path ...string) int {
	n, _ := get(v, path...).(json.Number)
	i, _ := strconv.Atoi(string(n))
	return i
}

// body is a request as the real program makes it, without what the stand-in does not have.
func (p *program) body(agent string, stream bool) []byte {
	var messages []any
	for _, m := range p.histories[agent] {
		var content []any
		switch c := get(m, "content").(type) {
		case string:
			content = []any{Line{"type": "text", "text": c}}
		case []any:
			content = c
		}
		if n := len(messages); n > 0 && text(messages[n-1], "role") == text(m, "role") {
			last := messages[n-1].(Line)
			last["content"] = append(append([]any{}, last["content"].([]any)...), content...)
			continue
		}
		messages = append(messages, Line{"role": text(m, "role"), "content": content})
	}
	limit := 128000
	if !stream {
		limit = 64000
	}
	block := func(text string) Line { return Line{"type": "text", "text": text} }
	system := []any{block("cc_version=2.1.329; cc_entrypoint=" + p.o.Env["CLAUDE_CODE_ENTRYPOINT"]), block("You are a Claude agent.")}
	for _, name := range []string{"system-prompt", "append-system-prompt"} {
		if prompt, _ := p.flag(name); prompt != "" {
			system = append(system, block(prompt))
		}
	}
	var tools []any
	init := template("03-permission-allow", func(l Line) bool { return l["subtype"] == "init" })
	for _, name := range list(init, "tools") {
		tools = append(tools, Line{"name": name, "description": fmt.Sprintf("The tool %s.", name), "input_schema": Line{"type": "object", "properties": Line{}}})
	}
	raw, err := json.Marshal(Line{
		"model": p.model, "max_tokens": limit, "stream": stream, "system": system, "tools": append(tools, p.tools...), "messages": messages,
	})
	if err != nil {
		panic(err) // it was made of JSON
	}
	return raw
}

// post makes a request of an agent, or of the one that answers the user, and sends the events of its answer.
func (p *program) post(ctx context.Context, agent string, body []byte, stream bool, events chan<- Line) error {
	env := p.o.Env
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(env["ANTHROPIC_BASE_URL"], "/")+"/v1/messages?beta=true", bytes.NewReader(body))
	if err != nil {
		return &apiError{text: err.Error()}
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Anthropic-Version", "2023-06-01")
	h.Set("User-Agent", "claude-cli/2.1.329 (external, "+env["CLAUDE_CODE_ENTRYPOINT"]+")")
	h.Set("X-Claude-Code-Session-Id", p.session)
	if agent != "" {
		h.Set("X-Claude-Code-Agent-Id", agent)
	}
	if key := env["ANTHROPIC_API_KEY"]; key != "" {
		h.Set("X-Api-Key", key)
	}
	if token := env["ANTHROPIC_AUTH_TOKEN"]; token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	for line := range strings.Lines(env["ANTHROPIC_CUSTOM_HEADERS"]) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			h.Set(name, strings.TrimSpace(value))
		}
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return &apiError{text: "Connection error."}
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		return &apiError{status: answer.StatusCode, text: string(text)}
	}
	if !stream {
		return whole(answer.Body, events)
	}
	for frame, err := range sse.Decode(answer.Body, 16<<20) {
		if err != nil {
			return nil //nolint:nilerr // a broken stream: the reply is not whole
		}
		e, err := decode(frame.Data)
		if err != nil {
			return &apiError{text: err.Error()}
		}
		switch text(e, "type") {
		case "ping":
		case "error":
			return nil // as a broken stream
		default:
			events <- e
		}
	}
	return nil
}

// whole sends the events that a reply in one piece stands for.
func whole(from io.Reader, events chan<- Line) error {
	raw, err := io.ReadAll(io.LimitReader(from, 16<<20))
	if err != nil {
		return &apiError{text: err.Error()}
	}
	m, err := decode(raw)
	if err != nil {
		return &apiError{text: err.Error()}
	}
	events <- Line{"type": "message_start", "message": with(m, Line{"content": []any{}})}
	for i, b := range list(m, "content") {
		at := json.Number(strconv.Itoa(i))
		events <- Line{"type": "content_block_start", "index": at, "content_block": b}
		events <- Line{"type": "content_block_stop", "index": at}
	}
	events <- Line{"type": "message_delta", "delta": Line{"stop_reason": m["stop_reason"], "stop_sequence": nil}, "usage": m["usage"]}
	events <- Line{"type": "message_stop"}
	return nil
}
