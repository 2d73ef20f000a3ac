package claudecli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/parley-server/parley/internal/sse"
)

// Messages serves the Messages API with the replies of the transcripts. A prompt has its script
// after the word FAKE-SCRIPT, and the reply is the step of the script that is as far as the model
// has spoken since. Without a script it answers "ok".
func Messages() http.Handler {
	var count atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model    string `json:"model"`
			Stream   bool   `json:"stream"`
			Messages []struct {
				Role    string          `json:"role"`
				Content json.RawMessage `json:"content"`
			} `json:"messages"`
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
			http.NotFound(w, r)
			return
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		step, script := 0, []Step{{Block: Block{Text: "ok"}}}
		for _, m := range request.Messages {
			if m.Role == "assistant" {
				step++
				continue
			}
			if s, ok := scriptOf(m.Content); ok {
				step, script = 0, s
			}
		}
		s := script[min(step, len(script)-1)]
		s.serve(w, request.Model, count.Add(1), request.Stream)
	})
}

// Step is one reply of a script.
type Step struct {
	Block
	Blocks    []Block `json:"blocks,omitempty"`
	Status    int     `json:"status,omitempty"` // an error instead
	ErrorType string  `json:"err_type,omitempty"`
	Chunks    int     `json:"chunks,omitempty"`
	In        int     `json:"in_tokens,omitempty"`
	Out       int     `json:"out_tokens,omitempty"`
	Stop      string  `json:"stop,omitempty"`
}

// Block is a part of a reply.
type Block struct {
	Text     string          `json:"text,omitempty"`
	Thinking string          `json:"thinking,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"`
}

// Prompt is a message with a script for [Messages].
func Prompt(text string, steps ...Step) string {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic(err) // a Step has nothing that JSON does not
	}
	return text + "\n\nFAKE-SCRIPT " + string(raw)
}

// scriptOf finds the last script in the content of a message.
func scriptOf(content json.RawMessage) ([]Step, bool) {
	var texts []string
	var one string
	if json.Unmarshal(content, &one) == nil {
		texts = append(texts, one)
	} else {
		var parts []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		_ = json.Unmarshal(content, &parts)
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
	}
	var found []Step
	for _, t := range texts {
		if _, after, ok := strings.Cut(t, "FAKE-SCRIPT "); ok {
			var s []Step
			if json.NewDecoder(strings.NewReader(after)).Decode(&s) == nil && len(s) > 0 {
				found = s
			}
		}
	}
	return found, found != nil
}

func (s Step) serve(w http.ResponseWriter, model string, n int64, stream bool) {
	w.Header().Set("Request-Id", fmt.Sprintf("req_sim_%d", n))
	if s.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.Status)
		_ = json.NewEncoder(w).Encode(Line{"type": "error", "error": Line{"type": s.ErrorType, "message": "scripted " + s.ErrorType}})
		return
	}
	blocks := s.Blocks
	if len(blocks) == 0 {
		blocks = []Block{s.Block}
	}
	in, out, stop := 100, 20, "end_turn"
	if s.In > 0 {
		in = s.In
	}
	if s.Out > 0 {
		out = s.Out
	}
	var content []any
	for i, b := range blocks {
		switch {
		case b.Tool != "":
			stop = "tool_use"
			content = append(content, Line{"type": "tool_use", "id": fmt.Sprintf("toolu_sim_%d_%d", n, i), "name": b.Tool, "input": b.Input})
		case b.Thinking != "":
			content = append(content, Line{"type": "thinking", "thinking": b.Thinking, "signature": "c2ln"})
		default:
			content = append(content, Line{"type": "text", "text": b.Text})
		}
	}
	if s.Stop != "" {
		stop = s.Stop
	}
	usage := Line{"input_tokens": in, "output_tokens": out, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
	m := Line{"id": fmt.Sprintf("msg_sim_%d", n), "type": "message", "role": "assistant", "model": model, "content": content, "stop_reason": stop, "stop_sequence": nil, "usage": usage}
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(e Line) {
		raw, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(sse.AppendFrame(nil, sse.Frame{Event: e["type"].(string), Data: raw}))
		_ = http.NewResponseController(w).Flush()
	}
	begin := with(m, Line{"content": []any{}, "usage": with(usage, Line{"output_tokens": 1})})
	begin["stop_reason"] = nil
	send(Line{"type": "message_start", "message": begin})
	for i, b := range content {
		b := b.(Line)
		var whole, field, kind string
		empty := with(b, nil)
		switch b["type"] {
		case "tool_use":
			whole, field, kind = string(b["input"].(json.RawMessage)), "partial_json", "input_json_delta"
			empty["input"] = Line{}
		case "thinking":
			whole, field, kind = b["thinking"].(string), "thinking", "thinking_delta"
			empty["thinking"], empty["signature"] = "", ""
		default:
			whole, field, kind = b["text"].(string), "text", "text_delta"
			empty["text"] = ""
		}
		send(Line{"type": "content_block_start", "index": i, "content_block": empty})
		for _, piece := range cut(whole, max(s.Chunks, 3)) {
			send(Line{"type": "content_block_delta", "index": i, "delta": Line{"type": kind, field: piece}})
		}
		if b["type"] == "thinking" {
			send(Line{"type": "content_block_delta", "index": i, "delta": Line{"type": "signature_delta", "signature": "c2ln"}})
		}
		send(Line{"type": "content_block_stop", "index": i})
	}
	send(Line{"type": "message_delta", "delta": Line{"stop_reason": stop, "stop_sequence": nil}, "usage": usage})
	send(Line{"type": "message_stop"})
}

// cut cuts a text into at most n pieces.
func cut(s string, n int) []string {
	r := []rune(s)
	size := max(1, (len(r)+n-1)/n)
	var all []string
	for len(r) > size {
		all, r = append(all, string(r[:size])), r[size:]
	}
	return append(all, string(r))
}
