package wire

import (
	"bytes"
	"strconv"
	"time"

	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sse"
)

// Message is one unit on a wire, before a carrier gives it its form.
type Message struct {
	// ID is where a client that has the message resumes. Empty: where it was.
	ID string
	// Event is the message's name; empty: it has none.
	Event string
	// Data is a JSON object. It is valid until send returns.
	Data []byte
	// Typed says that Data names its type itself, as an event does. A carrier without names puts
	// the name of other messages into Data, as the member type.
	Typed bool
}

// Encoder turns frames into the messages of a wire. It is a state machine: what it sends depends
// only on the frames it was given. One goroutine uses it.
type Encoder interface {
	// Encode sends what a frame becomes: nothing, or one or several messages. It is called for
	// every frame that is kept, in order.
	Encode(f eventlog.Frame, send func(Message))
	// Failed sends the last message of a stream that fails, or nothing. After an
	// [*eventlog.SessionError] the stream goes on with its other sessions.
	Failed(err error, send func(Message))
}

// Carrier is a form in which messages are a response.
type Carrier struct {
	contentType string
	form        func(dst []byte, m Message) []byte
	head        func(o Options) string // before everything else; nil: nothing
	ping        string
	beat        time.Duration // between heartbeats by default; 0: never
}

var (
	// SSE are Server-Sent Events.
	SSE = &Carrier{contentType: sse.ContentType, form: appendSSE, head: retryHint, ping: ": ping\n\n", beat: heartbeat}
	// NDJSON is one JSON object a line.
	NDJSON = &Carrier{contentType: "application/x-ndjson", form: appendLine, ping: `{"type":"ping"}` + "\n"}
)

// heartbeat is half of the 30 s after which the strictest proxies and phones drop a silent
// connection.
const heartbeat = 15 * time.Second

func retryHint(o Options) string {
	ms := orElse(o.Retry, time.Second).Milliseconds()
	if ms == 0 {
		return ""
	}
	return "retry: " + strconv.FormatInt(ms, 10) + "\n\n"
}

func appendSSE(dst []byte, m Message) []byte {
	return sse.AppendFrame(dst, sse.Frame{ID: m.ID, Event: m.Event, Data: m.Data})
}

func appendLine(dst []byte, m Message) []byte { return append(appendObject(dst, m), '\n') }

// appendObject appends m as one JSON object without line breaks.
func appendObject(dst []byte, m Message) []byte {
	start := len(dst)
	if m.Typed || m.Event == "" {
		dst = append(dst, m.Data...)
	} else {
		dst = append(append(append(dst, `{"type":"`...), m.Event...), '"')
		rest := m.Data[1:] // without its opening brace
		if rest[0] != '}' {
			dst = append(dst, ',')
		}
		dst = append(dst, rest...)
	}
	oneLine(dst[start:])
	return dst
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
