package sdkview

import (
	"encoding/json"
	"strings"

	"github.com/parley-server/parley"
)

// reply is the reply that a client has begun to get, in the events of a model's stream.
type reply struct {
	call   parley.CallID
	blocks []block
	n      int // messages so far
}

// block is a content block of it. All but the last are closed.
type block struct{ kind, text string }

// stream says one event of a model's stream.
func (s *SDK) stream(event object) {
	if s.quiet || !s.o.Deltas {
		return
	}
	s.live.n++
	s.out = append(s.out, message{name: "stream_event", passing: true, body: object{
		"type": "stream_event", "event": event, "parent_tool_use_id": nil, "session_id": s.o.Session, "uuid": passing(s.o.Session, s.live.call, s.live.n),
	}})
}

// open begins a reply, also one that has to begin again.
func (s *SDK) open(call parley.CallID, model string, u parley.Usage) {
	if s.live.call != call {
		s.live = reply{call: call}
	}
	s.live.blocks = nil
	u.OutputTokens = 0
	s.stream(object{"type": "message_start", "message": object{
		"id": "msg_" + string(call), "type": "message", "role": "assistant", "model": model, "content": []object{}, "stop_reason": nil, "stop_sequence": nil,
		"stop_details": nil, "usage": usageOf(u), "context_management": nil, "container": nil, "diagnostics": nil,
	}})
}

// start begins a block; stop ends the last.
func (s *SDK) start(kind string, empty object) {
	s.stream(object{"type": "content_block_start", "index": len(s.live.blocks), "content_block": empty})
	s.live.blocks = append(s.live.blocks, block{kind: kind})
}

func (s *SDK) stop() {
	s.stream(object{"type": "content_block_stop", "index": len(s.live.blocks) - 1})
}

// add adds to the last block.
func (s *SDK) add(text string) {
	if text == "" {
		return
	}
	b := &s.live.blocks[len(s.live.blocks)-1]
	b.text += text
	delta := object{"type": b.kind + "_delta", b.kind: text}
	switch b.kind {
	case "input_json":
		delta = object{"type": "input_json_delta", "partial_json": text}
	case "thinking":
		delta["estimated_tokens"] = nil
	}
	s.stream(object{"type": "content_block_delta", "index": len(s.live.blocks) - 1, "delta": delta})
}

// delta shows a fragment of a reply.
func (s *SDK) delta(d parley.Delta, whole bool) {
	if s.turn == nil || s.turn.id != d.Turn {
		return
	}
	kind := "text"
	if d.Kind == parley.DeltaThinking {
		kind = "thinking"
	}
	if s.live.call != d.Call {
		s.open(d.Call, s.modelOf(d.Call), parley.Usage{})
	}
	last := func() *block {
		if n := len(s.live.blocks); n > 0 && s.live.blocks[n-1].kind == kind {
			return &s.live.blocks[n-1]
		}
		return nil
	}
	text := d.Text
	if b := last(); whole && b != nil {
		rest, goesOn := strings.CutPrefix(text, b.text)
		if !goesOn { // what was said before counts no more
			s.open(d.Call, s.modelOf(d.Call), parley.Usage{})
			rest = text
		}
		text = rest
	}
	if last() == nil {
		if len(s.live.blocks) > 0 {
			s.stop()
		}
		s.start(kind, emptyOf(kind))
	}
	s.add(text)
}

func emptyOf(kind string) object {
	if kind == "thinking" {
		return object{"type": "thinking", "thinking": "", "signature": ""}
	}
	return textBlock("")
}

// whole shows a whole reply: what is missing of its stream, with the message of each block before
// the block's end, as the CLI does.
func (s *SDK) whole(p parley.ModelReplied, blocks []object, say func(object)) {
	if s.live.call != p.Call || !s.begins(blocks) {
		s.open(p.Call, p.Model, p.Usage)
	}
	for i, b := range blocks {
		kind, text := content(b)
		if i >= len(s.live.blocks) {
			empty := emptyOf(kind)
			if kind == "input_json" {
				empty = object{"type": "tool_use", "id": b["id"], "name": b["name"], "input": object{}}
			}
			s.start(kind, empty)
		}
		if i == len(s.live.blocks)-1 {
			s.add(strings.TrimPrefix(text, s.live.blocks[i].text))
		}
		say(b)
		if i == len(s.live.blocks)-1 {
			s.stop()
		}
	}
	s.close(p.StopReason, p.Usage)
}

// begins reports whether what was streamed is the beginning of the blocks of a reply.
func (s *SDK) begins(blocks []object) bool {
	if len(s.live.blocks) > len(blocks) {
		return false
	}
	for i, have := range s.live.blocks {
		kind, text := content(blocks[i])
		if kind != have.kind || !strings.HasPrefix(text, have.text) || i < len(s.live.blocks)-1 && text != have.text {
			return false
		}
	}
	return true
}

// content is the kind of a block and what its deltas add up to.
func content(b object) (kind, text string) {
	switch b["type"] {
	case "text":
		return "text", b["text"].(string)
	case "thinking":
		return "thinking", b["thinking"].(string)
	}
	raw, ok := b["input"].(json.RawMessage)
	if !ok {
		raw = encode(b["input"])
	}
	return "input_json", string(raw)
}

func (s *SDK) close(stop string, u parley.Usage) {
	used := usageOf(u)
	for _, name := range []string{"service_tier", "cache_creation", "inference_geo", "speed"} { // those of the whole message
		delete(used, name)
	}
	s.stream(object{
		"type": "message_delta", "usage": used, "context_management": nil,
		"delta": object{"stop_reason": reasonOf(stop), "stop_sequence": nil, "stop_details": nil, "container": nil},
	})
	s.stream(object{"type": "message_stop"})
	s.live = reply{}
}

// reasonOf is why a model stopped, in the words of the Messages API; nil when it has none for it.
func reasonOf(stop string) any {
	switch stop {
	case "end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "compaction", "model_context_window_exceeded":
		return stop
	case "stop":
		return "end_turn"
	case "length":
		return "max_tokens"
	case "tool_calls":
		return "tool_use"
	}
	return nil
}

// cutOff ends the stream of a reply that fails, as the CLI does.
func (s *SDK) cutOff() {
	if s.live.call == "" {
		return
	}
	if len(s.live.blocks) > 0 {
		s.stop()
	}
	s.close("", parley.Usage{})
}
