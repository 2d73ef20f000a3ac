package chaos

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// Wire turns the frames of one turn's log into the frames of POST /chat. It is a state
// machine without I/O: its output depends only on the frames it was given.
//
// This wire has seven events with exactly these fields, and nothing that was sent can be
// taken back:
//
//	agent_start {agent}            token {text}
//	tool_call {agent, tool, query} done {}
//	tool_result {agent, tool, result}
//	handoff {from, to}             error {message}
//
// Tokens come only from the agent that the turn entered with. Each tool_call is
// followed by its tool_result, in the order in which the model asked for them, so
// the frames of calls that run at the same time are held back until their turn. Exactly one of done and error is the last.
type Wire struct {
	// Cursor adds ids to the frames, which this wire does not have by itself: the number
	// of the event after which a client may continue at /v1/sessions/{id}/events.
	Cursor bool

	entry parley.AgentPath
	tools []*tool // calls not yet shown with their result, in the order in which they were requested
	text  text
	seq   int64
	ended bool
}

type tool struct {
	call        parley.CallID
	agent, name string
	query       string
	started     bool
	shown       bool // the tool_call was sent
	ended       bool
	result      string
}

// Append appends the frames that f becomes on this wire to dst. end is true after the
// last frame; later frames produce nothing.
func (w *Wire) Append(dst []byte, f eventlog.Frame) (out []byte, end bool) {
	if w.ended {
		return dst, true
	}
	switch {
	case f.Event != nil:
		w.seq = f.Event.Seq
		dst = w.event(dst, *f.Event)
	case f.Delta != nil && f.Delta.Kind == parley.DeltaText && f.Delta.Agent == w.entry && w.entry != "":
		dst = w.token(dst, w.text.delta(*f.Delta, f.Partial))
	}
	return dst, w.ended
}

// Fail ends the stream with an error that is not in the log, for example when the server
// stops.
func (w *Wire) Fail(dst []byte, err error) []byte {
	if w.ended {
		return dst
	}
	return w.fail(dst, parley.Info(err).Message)
}

func (w *Wire) event(dst []byte, e parley.Event) []byte {
	p, err := e.Payload()
	if err != nil {
		return dst // events newer than this wire are not shown
	}
	agent := string(e.Agent)
	switch p := p.(type) {
	case parley.AgentStarted:
		if w.entry == "" {
			w.entry = e.Agent
		}
		return w.start(dst, agent)
	case parley.AgentHandoff:
		dst = w.frame(dst, "handoff", false, "from", string(p.From), "to", string(p.To))
		return w.start(dst, string(p.To))
	case parley.ModelReplied:
		if e.Agent == w.entry {
			return w.token(dst, w.text.whole(p.Call, parley.PartsText(p.Parts)))
		}
	case parley.ModelFailed:
		w.text.failed(p.Call)
	case parley.ToolRequested:
		w.tools = append(w.tools, &tool{call: p.Call, agent: agent, name: p.Name, query: query(p.Input)})
	case parley.ToolStarted:
		t := w.find(p.Call)
		if t == nil && p.Attempt <= 1 {
			t = &tool{call: p.Call, agent: agent, name: p.Name}
			w.tools = append(w.tools, t)
		}
		if t != nil && !t.shown {
			t.started, t.query = true, query(p.Input) // a human may have changed it
		}
		return w.drain(dst)
	case parley.ToolEnded:
		if t := w.find(p.Call); t != nil {
			t.ended, t.result = true, p.Output
		}
		return w.drain(dst)
	case parley.InteractionOpened:
		// Nobody can answer on this wire, and it must not hang.
		return w.fail(dst, "the turn waits for an answer that cannot be given here: "+p.Title)
	case parley.TurnCompleted:
		dst = w.token(dst, w.text.final(p.Response.Message))
		w.ended = true
		return w.frame(dst, "done", true)
	case parley.TurnFailed:
		return w.fail(dst, p.Error.Message)
	case parley.TurnCancelled:
		return w.fail(dst, because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		return w.fail(dst, because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if p.Resumes {
			return dst // the frames go on with the turn
		}
		return w.fail(dst, because("the turn was interrupted", p.Reason))
	}
	return dst
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func (w *Wire) start(dst []byte, agent string) []byte {
	return w.frame(dst, "agent_start", true, "agent", agent)
}

func (w *Wire) token(dst []byte, text string) []byte {
	if text == "" {
		return dst
	}
	return w.frame(dst, "token", false, "text", text)
}

func (w *Wire) fail(dst []byte, message string) []byte {
	w.ended = true
	return w.frame(dst, "error", true, "message", message)
}

func (w *Wire) find(call parley.CallID) *tool {
	for _, t := range w.tools {
		if t.call == call {
			return t
		}
	}
	return nil
}

// drain sends the first call and, when it has ended, its result and the next call.
func (w *Wire) drain(dst []byte) []byte {
	for len(w.tools) > 0 {
		t := w.tools[0]
		if !t.shown && (t.started || t.ended) { // a denied call ends without a start
			t.shown = true
			dst = w.frame(dst, "tool_call", false, "agent", t.agent, "tool", t.name, "query", t.query)
		}
		if !t.ended {
			return dst
		}
		w.tools = w.tools[1:]
		dst = w.frame(dst, "tool_result", true, "agent", t.agent, "tool", t.name, "result", t.result)
	}
	return dst
}

// frame appends one frame whose fields are text. It has an id only if no earlier frame is
// held back.
func (w *Wire) frame(dst []byte, event string, settled bool, fields ...string) []byte {
	if w.Cursor && settled && len(w.tools) == 0 {
		dst = append(dst, "id: "...)
		dst = strconv.AppendInt(dst, w.seq, 10)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, event...)
	dst = append(dst, "\ndata: {"...)
	for i := 0; i < len(fields); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, fields[i]...)
		dst = append(dst, `":`...)
		dst = appendText(dst, fields[i+1])
	}
	return append(dst, "}\n\n"...)
}

// appendText appends s as a JSON string with its characters as they are.
func appendText(dst []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return append(dst, `""`...) // a string can be encoded
	}
	return append(dst, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// query is what a call searched for: the argument with that name, or else all arguments.
func query(input json.RawMessage) string {
	var in struct {
		Query *string `json:"query"`
	}
	if json.Unmarshal(input, &in) == nil && in.Query != nil {
		return *in.Query
	}
	return string(input)
}

// text tracks what was sent of the answer, which can only be added to.
type text struct {
	call parley.CallID
	sent []byte // of call
	seen []byte // of call, when that is not the same as sent
	lags bool   // seen differs from sent
	gap  bool   // something was sent that call does not continue
}

// begin switches to call. The text of earlier calls stays; the new one begins a
// paragraph.
func (t *text) begin(call parley.CallID) {
	if t.call == call {
		return
	}
	t.gap = t.gap || len(t.sent) > 0
	t.call, t.sent, t.seen, t.lags = call, nil, nil, false
}

func (t *text) delta(d parley.Delta, partial bool) string {
	t.begin(d.Call)
	switch {
	case partial:
		t.seen, t.lags = append(t.seen[:0], d.Text...), true
	case t.lags:
		t.seen = append(t.seen, d.Text...)
	default:
		return t.send(d.Text)
	}
	// A partial after a resync may be shorter than what was sent; deltas then catch up,
	// and only what goes beyond it is new.
	if !bytes.HasPrefix(t.seen, t.sent) {
		return ""
	}
	fresh := string(t.seen[len(t.sent):])
	t.seen, t.lags = t.seen[:0], false
	return t.send(fresh)
}

// whole is the final text of a call.
func (t *text) whole(call parley.CallID, said string) string {
	t.begin(call)
	t.seen, t.lags = nil, false
	if rest, ok := strings.CutPrefix(said, string(t.sent)); ok {
		return t.send(rest)
	}
	// What was sent is not a prefix of the final text and cannot be taken back: send the
	// text again, separately.
	t.gap, t.sent = true, nil
	return t.send(said)
}

// failed: if the call is repeated, the new one begins a paragraph.
func (t *text) failed(call parley.CallID) {
	if t.call == call {
		t.gap = t.gap || len(t.sent) > 0
		t.call, t.sent, t.seen, t.lags = "", nil, nil, false
	}
}

// final sends what the turn's answer has beyond its last call's text.
func (t *text) final(message string) string {
	if strings.HasPrefix(string(t.sent), message) {
		return ""
	}
	return t.whole(t.call, message)
}

func (t *text) send(s string) string {
	if s == "" {
		return ""
	}
	t.sent = append(t.sent, s...)
	if t.gap {
		t.gap = false
		return "\n\n" + s
	}
	return s
}
