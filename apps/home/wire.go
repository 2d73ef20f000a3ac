// Package home is the wire of the Home Assistant app: the server-sent events at
// /events/{session_id}.
//
// The app itself is app.yaml and the files beside it; its tools are also offered over
// MCP, at a door of its own.
package home

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/steps"
	"github.com/parley-server/parley/internal/wire"
)

// QuietClient is the door named in a turn whose sender wants no partial frames (stream: false).
const QuietClient = "mcp/quiet"

// Wire turns the frames of a session's log into those of /events. It is a state machine and does no
// input or output itself.
//
// There are four types of frame, progress, step, partial and final, each in one
// `data:` line, as
//
//	{"type", "session_id", "continuation_id", "payload": {"message"?, "step"?, "partial_response"?, "final_response"?}}
//
// A partial holds only new text, of the agent that has the turn. When a model calls tools, the text
// before the calls is repeated as a step of type plan. When a model call fails, there is a step of
// type error. So the partials since the last plan or error, joined, are the beginning of the
// answer. Before final they are all of it.
//
// # Cursor
//
// The id of a frame is the number of its event, so it is also a cursor of every other wire. Two
// additions allow resuming after any frame. "8.150" is after event 8 and 150 bytes of the text in
// flight. "12-1" is after the first frame of event 12, which has more frames.
type Wire struct {
	NoIDs bool

	from  Cursor
	seq   int64
	text  wire.Text
	said  string // a reply without calls, which may or may not be the answer
	turn  parley.TurnID
	quiet bool // turn is without partials
	steps steps.Log
	send  func(wire.Message)
	n     int // frames of the event so far
	skip  int // of its frames that were sent already
}

// Cursor is a client's position.
type Cursor struct {
	Seq    int64 // of the last event of which it has all frames
	Text   int   // bytes of the text in flight that it has
	Frames int   // frames that it has of the event after Seq

	House bool // the session's app has a house; not part of the id
}

// ParseCursor parses a frame's id; "" is the zero Cursor. Errors name it as field.
func ParseCursor(field, id string) (Cursor, error) {
	bad := parley.Errorf(parley.CodeInvalid, "%q is not a cursor", parley.Cut(id, 40)).WithField(field).
		WithHint("a cursor is the id of the last frame you have of this session")
	num := func(text string) (int64, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
	}
	if id == "" {
		return Cursor{}, nil
	}
	at, text, dotted := strings.Cut(id, ".")
	at, frames, dashed := strings.Cut(at, "-")
	c := Cursor{}
	var ok bool
	if c.Seq, ok = num(at); !ok || dotted && dashed {
		return Cursor{}, bad
	}
	if dotted {
		n, ok := num(text)
		if !ok || n > 1<<30 {
			return Cursor{}, bad
		}
		c.Text = int(n)
	}
	if dashed {
		n, ok := num(frames)
		if !ok || n < 1 || n > 8 || c.Seq == 0 {
			return Cursor{}, bad
		}
		c.Frames = int(n)
		c.Seq--
	}
	return c, nil
}

// NewWire makes the wire of a client whose position is c.
func NewWire(c Cursor) *Wire { return &Wire{from: c, seq: c.Seq, text: wire.Text{Sent: c.Text}} }

// Prime passes an event before the cursor. A client in the middle of a turn needs
// everything that came before in it, in order.
func (w *Wire) Prime(e parley.Event) {
	w.send = func(wire.Message) {} // the client has these frames
	w.event(e)
	w.seq, w.text.Sent = w.from.Seq, w.from.Text
}

// Encode implements [wire.Encoder].
func (w *Wire) Encode(f eventlog.Frame, send func(wire.Message)) {
	w.send = send
	switch {
	case f.Event != nil:
		w.n, w.skip = 0, 0
		if f.Event.Seq == w.from.Seq+1 {
			w.skip = w.from.Frames
		}
		w.event(*f.Event)
		w.seq = f.Event.Seq
	case f.Delta != nil && steps.Speaks(f.Delta.Agent) && f.Delta.Kind == parley.DeltaText:
		w.delta(*f.Delta, f.Partial)
	}
}

// Failed implements [wire.Encoder]. This wire has no error frame and just ends.
func (w *Wire) Failed(error, func(wire.Message)) {}

func (w *Wire) delta(d parley.Delta, whole bool) {
	w.begin(d.Call)
	w.text.Add(d.Text, whole)
	// Trailing white space may separate the answer from its notes. The notes are not part of the
	// answer.
	w.partial(d.Session, d.Turn, bytes.TrimRight(w.text.Seen(), " \n"))
}

// begin switches to a call. The first call after a cut is the one in the cursor.
func (w *Wire) begin(call parley.CallID) {
	if w.text.Begin(call) {
		w.said = ""
	}
}

func (w *Wire) over() {
	w.text.Forget()
	w.said = ""
}

// partial sends the new part of text.
func (w *Wire) partial(s parley.SessionID, t parley.TurnID, text []byte) {
	if w.quiet && t == w.turn {
		return
	}
	if fresh := w.text.Rest(text); fresh != "" {
		w.message(strconv.FormatInt(w.seq, 10)+"."+strconv.Itoa(w.text.Sent), envelope{Type: "partial", Session: s, Turn: t, Payload: payload{Partial: fresh}})
	}
}

type envelope struct {
	Type    string           `json:"type"`
	Session parley.SessionID `json:"session_id"`
	Turn    parley.TurnID    `json:"continuation_id"`
	Payload payload          `json:"payload"`
}

type payload struct {
	Message string    `json:"message,omitempty"`
	Step    *step     `json:"step,omitempty"`
	Partial string    `json:"partial_response,omitempty"`
	Final   *response `json:"final_response,omitempty"`
}

type step struct {
	TS     int64  `json:"ts"`
	Type   string `json:"type"`
	Detail any    `json:"detail"`
}

type response struct {
	FinalMessage     string            `json:"finalMessage"`
	ReasoningSummary string            `json:"reasoningSummary,omitempty"`
	Citations        []parley.Citation `json:"citations,omitempty"`
	FollowUps        []string          `json:"followUps,omitempty"`
	Scripted         bool              `json:"scripted,omitempty"`
}

func (w *Wire) event(e parley.Event) {
	if e.Turn == "" {
		return
	}
	p, err := e.Payload()
	if err != nil {
		return // events that are newer than this wire, or were condensed, are not shown
	}
	out := &events{w: w, e: e}
	if !e.Agent.OfMemory() {
		out.of(p)
	}
	step, ok := w.steps.Of(e, p)
	_, message := steps.Why(p)
	if i, is := p.(parley.TurnInterrupted); is && i.Resumes {
		message = "" // the turn goes on by itself
	}
	if ok {
		out.send(out.stepFrame(step), message == "")
	}
	if message != "" {
		out.send(envelope{Type: "final", Payload: payload{Message: message}}, true)
	}
}

// events makes the frames of one event.
type events struct {
	w *Wire
	e parley.Event
}

func (o *events) of(p parley.Payload) {
	w := o.w
	switch p := p.(type) {
	case parley.TurnQueued:
		o.progress("queued behind the turn that is open")
	case parley.TurnStarted:
		w.over()
		w.turn, w.quiet = o.e.Turn, p.Client == QuietClient
		o.progress(begins(p, w.from.House))
	case parley.TurnResumed:
		o.progress("resumed")
	case parley.TurnSteered:
		o.progress("message from the user: " + p.Message.Text())
	case parley.TurnStopRequested:
		o.progress(because("stopping", p.Reason))
	case parley.AgentHandoff:
		o.progress(string(p.From) + " hands over to " + string(p.To))
	case parley.InteractionOpened:
		o.progress("waiting for a " + waitsFor(p.Kind) + ": " + p.Title + " (" + inIDs(p.Interaction) + "interaction " + string(p.ID) + ")")
	case parley.InteractionAnswered:
		o.progress("answered: " + p.Answer.Choice)
	case parley.InteractionExpired:
		o.progress(because("the question is closed", p.Reason))
	case parley.ModelStarted:
		o.asked(p)
	case parley.ModelReplied:
		o.replied(p)
	case parley.ModelFailed:
		if steps.Speaks(o.e.Agent) {
			o.rest(p.Call, p.Partial)
			w.over()
		}
	case parley.TurnCompleted:
		r := p.Response
		w.partial(o.e.Session, o.e.Turn, []byte(r.Message))
		w.over()
		o.send(envelope{Type: "final", Payload: payload{Final: &response{r.Message, r.ReasoningSummary, r.Citations, r.FollowUps, r.Scripted}}}, true)
	case parley.TurnFailed, parley.TurnCancelled, parley.TurnExpired, parley.TurnInterrupted:
		w.over()
	}
}

// begins says what a turn does first.
func begins(p parley.TurnStarted, house bool) string {
	switch {
	case p.Call != nil:
		return "Calling " + p.Call.Name
	case p.NoTools:
		return "Answering from what is known, without tools"
	case house:
		return "Gathering related entities and logs"
	}
	return "Gathering what the question is about"
}

// asked handles a turn that goes on after a reply that looked like the answer, for example because
// a message came in between.
func (o *events) asked(p parley.ModelStarted) {
	if !steps.Speaks(o.e.Agent) {
		return
	}
	if o.w.said != "" {
		o.rest(o.w.text.Call(), o.w.said)
	}
	o.w.over()
	o.w.text.Begin(p.Call)
}

// replied handles a reply. Text before a call or a handoff was not the answer. Text without one is
// kept until the end of the turn says what the answer is.
func (o *events) replied(p parley.ModelReplied) {
	if !steps.Speaks(o.e.Agent) {
		return
	}
	text := parley.PartsText(p.Parts)
	if !steps.Acts(p.Parts) {
		o.w.begin(p.Call)
		o.w.said, _, _ = strings.Cut(text, endNotes)
		return
	}
	o.rest(p.Call, text)
	o.w.over()
}

// rest sends the text of a call that was not sent yet, for a client that was not connected.
func (o *events) rest(call parley.CallID, said string) {
	o.w.begin(call)
	o.w.partial(o.e.Session, o.e.Turn, []byte(strings.TrimRight(said, " \n")))
}

func (o *events) progress(message string) {
	o.send(envelope{Type: "progress", Payload: payload{Message: message}}, true)
}

func (o *events) stepFrame(s steps.Step) envelope {
	return envelope{Type: "step", Payload: payload{Step: &step{TS: o.e.Time.UnixMilli(), Type: s.Type, Detail: s.Detail}}}
}

// send appends a frame of the event, unless the client has it. last says that it is the event's
// last frame.
func (o *events) send(m envelope, last bool) {
	w := o.w
	if w.n++; w.n <= w.skip {
		return
	}
	id := strconv.FormatInt(o.e.Seq, 10)
	switch {
	case !last:
		id += "-" + strconv.Itoa(w.n)
	case w.text.Sent > 0:
		id += "." + strconv.Itoa(w.text.Sent)
	}
	m.Session, m.Turn = o.e.Session, o.e.Turn
	w.message(id, m)
}

func (w *Wire) message(id string, m envelope) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return // plain data
	}
	if w.NoIDs {
		id = ""
	}
	w.send(wire.Message{ID: id, Data: bytes.TrimSuffix(b.Bytes(), []byte("\n")), Typed: true})
}

func waitsFor(k parley.InteractionKind) string {
	switch k {
	case parley.KindUnknown:
		return "word on an unknown outcome"
	case parley.KindClient:
		return "a client that runs a call"
	}
	return string(k)
}

// inIDs returns the detail of an interaction and a separator for what follows it. A frame has no
// field of its own for the detail.
func inIDs(in parley.Interaction) string {
	if in.Detail == "" {
		return ""
	}
	return in.Detail + "; "
}

func because(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// endNotes begins the notes after an answer. They are not part of the answer, and the runtime
// removes them.
const endNotes = "```parley"

// PartialEvery is how long new text is collected before it is sent.
const PartialEvery = 500 * time.Millisecond
