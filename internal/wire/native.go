package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sse"
)

// sseEncoder writes the native SSE form.
type sseEncoder struct {
	scratch []byte
	places  []eventlog.Place // when there are several sessions; nil for one
}

func (e *sseEncoder) frame(dst []byte, f eventlog.Frame) []byte {
	var out sse.Frame
	out.Event, e.scratch = appendBody(e.scratch[:0], f)
	if f.Event != nil {
		if e.places == nil {
			out.ID = strconv.FormatInt(f.Event.Seq, 10)
		} else {
			out.ID = e.advance(f.Event)
		}
	}
	out.Data = e.scratch
	if cap(e.scratch) > 4*kept {
		e.scratch = nil // a large event should not stay in memory
	}
	return sse.AppendFrame(dst, out)
}

// advance returns the client's place once it has ev.
func (e *sseEncoder) advance(ev *parley.Event) string {
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

func (e *sseEncoder) fail(dst []byte, err error) []byte {
	if one, ok := err.(*eventlog.SessionError); ok {
		// A client that reconnects with the list must not be refused because of it.
		e.places = slices.DeleteFunc(e.places, func(at eventlog.Place) bool { return at.Session == one.Session })
	}
	return sse.AppendFrame(dst, sse.Frame{Event: "error", Data: errorBody(err)})
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

// appendLine appends the NDJSON form of f.
func appendLine(dst []byte, f eventlog.Frame) []byte {
	start := len(dst)
	if f.Event == nil {
		dst = append(dst, `{"type":"`...)
		name := start
		switch {
		case f.Delta != nil:
			dst = append(dst, deltaName(f)...)
		case f.Reset != nil:
			dst = append(dst, "reset"...)
		default:
			return dst[:name]
		}
		dst = append(dst, `",`...)
		body := len(dst)
		_, dst = appendBody(dst, f)
		dst = append(dst[:body], dst[body+1:]...) // without its opening brace
	} else {
		_, dst = appendBody(dst, f)
		oneLine(dst[start:])
	}
	return append(dst, '\n')
}

func appendErrorLine(dst []byte, err error) []byte {
	dst = append(dst, `{"type":"error",`...)
	return append(append(dst, errorBody(err)[1:]...), '\n')
}

// oneLine removes line breaks from JSON that was formatted elsewhere; strings in JSON
// contain none.
func oneLine(b []byte) {
	for _, c := range []byte("\r\n") {
		for i := bytes.IndexByte(b, c); i >= 0; i = bytes.IndexByte(b, c) {
			b[i] = ' '
		}
	}
}
