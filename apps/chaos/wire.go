package chaos

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
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
	text  wire.Said
	seq   int64
	ended bool
	send  func(wire.Message)
	data  []byte // of a frame, used again
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

// Encode implements [wire.Encoder]. After the last frame it sends nothing.
func (w *Wire) Encode(f eventlog.Frame, send func(wire.Message)) {
	w.send, w.text.Paragraphs = send, true
	switch {
	case w.ended:
	case f.Event != nil:
		w.seq = f.Event.Seq
		w.event(*f.Event)
	case f.Delta != nil && f.Delta.Kind == parley.DeltaText && f.Delta.Agent == w.entry && w.entry != "":
		w.token(w.text.Delta(*f.Delta, f.Partial))
	}
}

// Failed implements [wire.Encoder], for an error that is not in the log, such as that the server
// stops.
func (w *Wire) Failed(err error, send func(wire.Message)) {
	if w.send = send; !w.ended {
		w.fail(parley.Info(err).Message)
	}
}

// Ended reports whether the last frame was sent.
func (w *Wire) Ended() bool { return w.ended }

func (w *Wire) event(e parley.Event) {
	p, err := e.Payload()
	if err != nil {
		return // events newer than this wire are not shown
	}
	agent := string(e.Agent)
	switch p := p.(type) {
	case parley.AgentStarted:
		if w.entry == "" {
			w.entry = e.Agent
		}
		w.start(agent)
	case parley.AgentHandoff:
		w.frame("handoff", false, "from", string(p.From), "to", string(p.To))
		w.start(string(p.To))
	case parley.ModelReplied:
		if e.Agent == w.entry {
			w.token(w.text.Whole(p.Call, parley.PartsText(p.Parts)))
		}
	case parley.ModelFailed:
		w.text.Failed(p.Call)
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
		w.drain()
	case parley.ToolEnded:
		if t := w.find(p.Call); t != nil {
			t.ended, t.result = true, p.Output
		}
		w.drain()
	case parley.InteractionOpened:
		// Nobody can answer on this wire, and it must not hang.
		w.fail("the turn waits for an answer that cannot be given here: " + p.Title)
	case parley.TurnCompleted:
		w.token(w.text.Final(p.Response.Message))
		w.ended = true
		w.frame("done", true)
	case parley.TurnFailed:
		w.fail(p.Error.Message)
	case parley.TurnCancelled:
		w.fail(because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		w.fail(because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes { // else the frames go on with the turn
			w.fail(because("the turn was interrupted", p.Reason))
		}
	}
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

func (w *Wire) start(agent string) { w.frame("agent_start", true, "agent", agent) }

func (w *Wire) token(text string) {
	if text != "" {
		w.frame("token", false, "text", text)
	}
}

func (w *Wire) fail(message string) {
	w.ended = true
	w.frame("error", true, "message", message)
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
func (w *Wire) drain() {
	for len(w.tools) > 0 {
		t := w.tools[0]
		if !t.shown && (t.started || t.ended) { // a denied call ends without a start
			t.shown = true
			w.frame("tool_call", false, "agent", t.agent, "tool", t.name, "query", t.query)
		}
		if !t.ended {
			return
		}
		w.tools = w.tools[1:]
		w.frame("tool_result", true, "agent", t.agent, "tool", t.name, "result", t.result)
	}
}

// frame sends one frame whose fields are text. It has an id only if no earlier frame is
// held back.
func (w *Wire) frame(event string, settled bool, fields ...string) {
	m := wire.Message{Event: event}
	if w.Cursor && settled && len(w.tools) == 0 {
		m.ID = strconv.FormatInt(w.seq, 10)
	}
	data := append(w.data[:0], '{')
	for i := 0; i < len(fields); i += 2 {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(append(append(data, '"'), fields[i]...), `":`...)
		data = appendText(data, fields[i+1])
	}
	m.Data = append(data, '}')
	w.send(m)
	if w.data = m.Data; cap(w.data) > 4<<10 {
		w.data = nil // a large result should not stay in memory
	}
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
