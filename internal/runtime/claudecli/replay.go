package claudecli

import (
	"encoding/json"
	"net/http"

	"github.com/parley-server/parley"
)

// A turn that was interrupted goes on like this: the CLI gets its conversation up to the turn, and
// the message again. The replies that are in the log are given to it again in place of calls of the
// model, so it asks for the same calls, under the same ids. Those that have an outcome are not made
// again; the others are made now. So a turn continues from any prefix of its log, whatever the CLI
// itself has kept of it.

// agentLost is what became of an agent that cannot go on.
const agentLost = "The agent ended with its process, before it was done."

// recall finds the replies and calls of the turn that are in the log.
func (t *turn) recall(now *parley.Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range now.Agents {
		if a.Ended || a.Path.OfMemory() {
			continue
		}
		if call := now.Tool(a.Call); a.IsSub() && call != nil && call.Status == parley.ToolIsEnded {
			// It worked in the background. Its call is not made again, so it does not go on.
			t.note(a.Path, parley.AgentEnded{Result: agentLost, Outcome: parley.OutcomeError, Told: true})
			t.gone[a.Call] = true
			continue
		}
		for _, it := range a.Items {
			if it.Kind != parley.ItemReply {
				continue
			}
			t.again[a.Path] = append(t.again[a.Path], it)
			t.calls.known(it.Parts, a.Path)
		}
	}
}

// remembered takes the next reply of an agent that the CLI is to get again.
func (t *turn) remembered(path parley.AgentPath) (parley.Item, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.again[path]
	if len(list) == 0 {
		return parley.Item{}, false
	}
	t.again[path] = list[1:]
	return list[0], true
}

// write writes a reply as Anthropic's API does.
func (t *turn) write(w http.ResponseWriter, it parley.Item, stream bool) {
	var content []any
	stop := "end_turn"
	for _, p := range it.Parts {
		switch p.Type {
		case parley.PartText:
			content = append(content, map[string]any{"type": "text", "text": p.Text})
		case parley.PartThinking, parley.PartProvider:
			if p.Provider == provider && len(p.Signature) > 0 {
				content = append(content, p.Signature)
			}
		case parley.PartToolCall:
			stop = "tool_use"
			content = append(content, map[string]any{"type": "tool_use", "id": p.ProviderID, "name": apiName(t.app, p.Name), "input": p.Input})
		}
	}
	if content == nil {
		content = []any{}
	}
	message := func(content any, stop any) map[string]any {
		return map[string]any{
			"id": "msg_" + string(it.Call), "type": "message", "role": "assistant", "model": t.p.spec.model, "content": content,
			"stop_reason": stop, "stop_sequence": nil, "usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
		}
	}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(message(content, stop)) // the CLI may be gone
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	event := func(kind string, v map[string]any) {
		v["type"] = kind
		raw, err := json.Marshal(v)
		if err != nil {
			return
		}
		_, _ = w.Write([]byte("event: " + kind + "\ndata: " + string(raw) + "\n\n"))
		_ = out.Flush()
	}
	event("message_start", map[string]any{"message": message([]any{}, nil)})
	for i, b := range content {
		start, deltas := split(b)
		event("content_block_start", map[string]any{"index": i, "content_block": start})
		for _, d := range deltas {
			event("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		event("content_block_stop", map[string]any{"index": i})
	}
	event("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]int{"output_tokens": 1}})
	event("message_stop", map[string]any{})
}

// split divides a block into what a stream begins it with and what follows.
func split(b any) (start any, deltas []any) {
	if raw, ok := b.(json.RawMessage); ok {
		var kind struct {
			Type      string `json:"type"`
			Thinking  string `json:"thinking"`
			Signature string `json:"signature"`
		}
		if json.Unmarshal(raw, &kind) != nil || kind.Type != "thinking" {
			return b, nil
		}
		return map[string]any{"type": "thinking", "thinking": "", "signature": ""}, []any{
			map[string]any{"type": "thinking_delta", "thinking": kind.Thinking}, map[string]any{"type": "signature_delta", "signature": kind.Signature},
		}
	}
	m, ok := b.(map[string]any)
	if !ok {
		return b, nil
	}
	switch m["type"] {
	case "text":
		return map[string]any{"type": "text", "text": ""}, []any{map[string]any{"type": "text_delta", "text": m["text"]}}
	case "tool_use":
		input, err := json.Marshal(m["input"])
		if err != nil {
			input = []byte("{}")
		}
		return map[string]any{"type": "tool_use", "id": m["id"], "name": m["name"], "input": map[string]any{}}, []any{map[string]any{"type": "input_json_delta", "partial_json": string(input)}}
	}
	return b, nil
}

// apiName is the name of a tool of the log in the calls of the CLI's model.
func apiName(app *parley.App, name string) string {
	if n := nativeIn(app, name); n != nil && n.api != "" {
		return n.api
	}
	return cliName(app, name)
}
