package sdkview

import (
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/steps"
	"github.com/parley-server/parley/internal/wire"
)

// Simple is the view of five events: TextDelta{text}, ToolUse{name, input, id},
// ToolResult{tool_use_id, output}, Done{usage, cost, is_error, result} and Error{message}. The texts
// of a turn together are its answer, with what was said before calls. What was said and does not
// count, because a call failed, cannot be taken back: its repetition begins a paragraph. A turn that
// fails or is stopped is done with is_error; one that waits to be resumed is an Error. On each, cursor
// is the message's id.
type Simple struct {
	o    Options
	send func(wire.Message)
	seq  int64 // of the last event
	text wire.Text
	gap  bool
}

// NewSimple makes the simple view.
func NewSimple(o Options) *Simple {
	return &Simple{o: o, seq: o.From.Seq, text: wire.Text{Sent: o.From.Text}}
}

// Prime implements [Encoder]. This view needs to know nothing from before.
func (s *Simple) Prime(parley.Event) {}

// Encode implements [wire.Encoder].
func (s *Simple) Encode(f eventlog.Frame, send func(wire.Message)) {
	s.send = send
	switch {
	case f.Event != nil:
		if f.Event.Seq != s.o.From.Seq+1 || s.o.From.Sent == 0 { // an event has one message
			s.event(*f.Event)
		}
		s.seq = f.Event.Seq
	case f.Delta != nil && s.o.Deltas && f.Delta.Kind == parley.DeltaText && steps.Speaks(f.Delta.Agent):
		s.begin(f.Delta.Call)
		s.text.Add(f.Delta.Text, f.Partial)
		rest := s.text.Rest(s.text.Seen())
		s.say(strconv.FormatInt(s.seq, 10)+"."+strconv.Itoa(s.text.Sent), rest)
	}
}

// Failed implements [wire.Encoder].
func (s *Simple) Failed(err error, send func(wire.Message)) {
	s.send = send
	s.message("", "Error", object{"message": parley.Info(err).Message})
}

func (s *Simple) begin(call parley.CallID) { s.text.Begin(call) }

// say sends text, if there is any.
func (s *Simple) say(id, text string) {
	if text == "" {
		return
	}
	if s.gap {
		text, s.gap = "\n\n"+text, false
	}
	s.message(id, "TextDelta", object{"text": text})
}

func (s *Simple) message(id, name string, body object) {
	if !s.o.Types.wants(name) {
		return
	}
	body["type"] = name
	if id != "" {
		body["cursor"] = id // for wires without ids
	}
	s.send(wire.Message{ID: id, Event: name, Data: encode(body), Typed: true})
}

func (s *Simple) event(e parley.Event) {
	p, err := e.Payload()
	if err != nil || e.Agent.OfMemory() || e.Agent.OfSampling() {
		return
	}
	id := strconv.FormatInt(e.Seq, 10)
	switch p := p.(type) {
	case parley.ModelReplied:
		if steps.Speaks(e.Agent) {
			s.replied(id, p)
		}
	case parley.ModelFailed:
		if steps.Speaks(e.Agent) {
			s.begin(p.Call)
			s.gap = s.gap || s.text.Sent > 0
			s.text.Forget()
		}
	case parley.ToolRequested:
		s.message(id, "ToolUse", object{"name": p.Name, "input": input(p.Input), "id": p.Call})
	case parley.ToolEnded:
		s.message(id, "ToolResult", object{"tool_use_id": p.Call, "output": p.Output})
	case parley.TurnCompleted:
		s.done(id, p.Usage, false, p.Response.Message)
	case parley.TurnFailed:
		s.done(id, p.Usage, true, p.Error.Message)
	case parley.TurnCancelled:
		s.done(id, p.Usage, true, because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		s.done(id, p.Usage, true, because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes {
			s.message(id, "Error", object{"message": because("the turn was interrupted", p.Reason)})
		}
	}
}

// replied sends what the client does not have of a reply's text.
func (s *Simple) replied(id string, p parley.ModelReplied) {
	s.begin(p.Call)
	whole := parley.PartsText(p.Parts)
	if !s.text.Begins(whole) {
		s.gap, s.text.Sent = true, 0 // what was sent cannot be taken back
	}
	s.text.Add(whole, true)
	s.say(id, s.text.Rest(s.text.Seen()))
}

func (s *Simple) done(id string, u parley.Usage, failed bool, result string) {
	s.text.Forget()
	s.gap = false
	s.message(id, "Done", object{
		"usage": object{"input_tokens": u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens, "output_tokens": u.OutputTokens},
		"cost":  u.USD, "is_error": failed, "result": result,
	})
}
