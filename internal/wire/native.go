package wire

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// Native is the native form of one session.
func Native() Encoder { return &native{} }

// Many is the native form of several sessions. The id of an event's message is the client's place
// in all of them. An error names its session.
func Many(places []eventlog.Place) Encoder { return &native{places: slices.Clone(places)} }

type native struct {
	scratch []byte
	places  []eventlog.Place // when there are several sessions; nil for one
}

// Encode implements [Encoder].
func (e *native) Encode(f eventlog.Frame, send func(Message)) {
	var m Message
	m.Event, e.scratch = appendBody(e.scratch[:0], f)
	if m.Event == "" {
		return
	}
	m.Data, m.Typed = e.scratch, f.Event != nil
	if f.Event != nil {
		if e.places == nil {
			m.ID = strconv.FormatInt(f.Event.Seq, 10)
		} else {
			m.ID = e.advance(f.Event)
		}
	}
	send(m)
	if cap(e.scratch) > 4*kept {
		e.scratch = nil // a large event should not stay in memory
	}
}

// advance returns the client's place once it has ev.
func (e *native) advance(ev *parley.Event) string {
	id := make([]byte, 0, 40*len(e.places))
	for i := range e.places {
		at := &e.places[i]
		if at.Session == ev.Session {
			at.After = ev.Seq
		}
		if i > 0 {
			id = append(id, ',')
		}
		id = append(append(id, at.Session...), ':')
		id = strconv.AppendInt(id, at.After, 10)
	}
	return string(id)
}

// Failed implements [Encoder].
func (e *native) Failed(err error, send func(Message)) {
	if one, ok := err.(*eventlog.SessionError); ok {
		// A client that reconnects with the list must not be refused because of it.
		e.places = slices.DeleteFunc(e.places, func(at eventlog.Place) bool { return at.Session == one.Session })
	}
	send(Message{Event: "error", Data: errorBody(err)})
}

// appendBody appends the JSON of f and returns the frame's name.
func appendBody(dst []byte, f eventlog.Frame) (string, []byte) {
	switch {
	case f.Event != nil:
		return string(f.Event.Type), f.Event.AppendJSON(dst)
	case f.Delta != nil:
		return deltaName(f), f.Delta.AppendJSON(dst)
	case f.Reset != nil:
		body, _ := json.Marshal(f.Reset) // plain data
		return "reset", append(dst, body...)
	}
	return "", dst
}

func deltaName(f eventlog.Frame) string {
	switch {
	case f.Partial:
		return "model.partial"
	case f.Delta.Kind == parley.DeltaThinking:
		return "model.thinking"
	case f.Delta.Kind == parley.DeltaProgress:
		return "tool.progress"
	}
	return "model.delta"
}

// errorBody is the one error shape, with the session if only that one failed.
func errorBody(err error) []byte {
	body := struct {
		Session parley.SessionID `json:"session,omitempty"`
		Error   parley.ErrorInfo `json:"error"`
	}{Error: parley.Info(err)}
	if one, ok := err.(*eventlog.SessionError); ok {
		body.Session = one.Session
	}
	raw, _ := json.Marshal(body) // plain data
	return raw
}
