package notes

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

// Wire turns the frames of one turn's log into the lines of POST /api/claude/chat-stream. It is a
// state machine without I/O: its output depends only on the frames it was given.
//
// There are five types of line:
//
//	{"type":"text","delta"}       {"type":"tool","name","input"}
//	{"type":"status","message"}   {"type":"done","session_id"}
//	                              {"type":"error","message"}
//
// A call is announced when the model asks for it: the status "Running tool: NAME", with the URL
// for WebFetch, then its tool line. Its status "Tool finished: NAME" comes when it has ended, once,
// before the next text. A person who is asked something about a call is announced by a status, too.
// Exactly one of done and error is the last line.
type Wire struct {
	session string // as clients of this wire know it
	entry   parley.AgentPath
	open    []parley.CallID // calls that were announced and have not ended
	text    wire.Said
	ended   bool
	send    func(wire.Message)
}

// NewWire makes the wire of a turn. session is the session's id on this wire.
func NewWire(session string) *Wire { return &Wire{session: session} }

// Encode implements [wire.Encoder]. After the last line it sends nothing.
func (w *Wire) Encode(f eventlog.Frame, send func(wire.Message)) {
	w.send = send
	switch {
	case w.ended:
	case f.Event != nil:
		w.event(*f.Event)
	case f.Delta != nil && f.Delta.Kind == parley.DeltaText && f.Delta.Agent == w.entry && w.entry != "":
		w.say(w.text.Delta(*f.Delta, f.Partial))
	}
}

// Failed implements [wire.Encoder], for an error that is not in the log, such as that the server
// stops.
func (w *Wire) Failed(err error, send func(wire.Message)) {
	if w.send = send; !w.ended {
		w.fail(parley.Info(err).Message)
	}
}

// Ended reports whether the last line was sent.
func (w *Wire) Ended() bool { return w.ended }

func (w *Wire) event(e parley.Event) {
	p, err := e.Payload()
	if err != nil || e.Agent.OfMemory() {
		return // what is newer than this wire is not shown, nor is what is done for the memory
	}
	switch p := p.(type) {
	case parley.AgentStarted:
		if w.entry == "" {
			w.entry = e.Agent
		}
	case parley.ModelReplied:
		if e.Agent == w.entry {
			w.say(w.text.Whole(p.Call, parley.PartsText(p.Parts)))
		}
	case parley.ModelFailed:
		w.text.Failed(p.Call)
	case parley.ToolRequested:
		w.open = append(w.open, p.Call)
		w.status("Running tool: " + p.Name + urlOf(p))
		w.line(struct {
			Type  string          `json:"type"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}{"tool", p.Name, p.Input})
	case parley.ToolEnded:
		if i := slices.Index(w.open, p.Call); i >= 0 {
			w.open = slices.Delete(w.open, i, i+1)
			w.status("Tool finished: " + p.Name)
		}
	case parley.InteractionOpened:
		title := p.Title
		if p.URL != "" { // where the person has to go
			title += " " + p.URL
		}
		w.status("Waiting for a person: " + title + " (interaction " + string(p.ID) + ")")
	case parley.TurnCompleted:
		w.say(w.text.Final(p.Response.Message))
		w.ended = true
		w.line(struct {
			Type    string `json:"type"`
			Session string `json:"session_id"`
		}{"done", w.session})
	default:
		w.ending(p)
	}
}

// ending handles the ends of a turn without an answer.
func (w *Wire) ending(p parley.Payload) {
	switch p := p.(type) {
	case parley.TurnFailed:
		w.fail(p.Error.Message)
	case parley.TurnCancelled:
		w.fail(because("the turn was cancelled", p.Reason))
	case parley.TurnExpired:
		w.fail(because("the turn expired", p.Reason))
	case parley.TurnInterrupted:
		if !p.Resumes { // else the lines go on with the turn
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

// urlOf is what a status says of a call of WebFetch beyond its name.
func urlOf(p parley.ToolRequested) string {
	var in struct {
		URL string `json:"url"`
	}
	if p.Name != "WebFetch" || json.Unmarshal(p.Input, &in) != nil || in.URL == "" {
		return ""
	}
	return " " + in.URL
}

func (w *Wire) say(text string) {
	if text != "" {
		w.line(struct {
			Type  string `json:"type"`
			Delta string `json:"delta"`
		}{"text", text})
	}
}

func (w *Wire) status(message string) { w.message("status", message) }

func (w *Wire) fail(message string) {
	w.ended = true
	w.message("error", message)
}

func (w *Wire) message(kind, message string) {
	w.line(struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}{kind, message})
}

func (w *Wire) line(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return // its values can be written as JSON
	}
	w.send(wire.Message{Data: bytes.TrimSuffix(b.Bytes(), []byte("\n")), Typed: true})
}
