// Package wire carries what eventlog shows to a client over HTTP.
//
// [ServeSSE] and [ServeNDJSON] are the native forms; [ServeMany] is SSE of several
// sessions at once; [ServeFrames] lets an app write the exact frames of a wire of its
// own. In all of them, frames that are ready together are sent together, and a single
// frame is sent at once. A silent stream is kept alive if requested. A client that does
// not read for [Options.WriteWithin] is cut; it resumes with its cursor and misses
// nothing. What streams and all other answers of the process hold for clients that do not
// read is limited, too ([Bounded]): beyond 32 MiB, or a quarter of that for one user, the
// slowest is cut earlier.
//
// The native SSE form: each event is `id: <number>`, `event: <type>`, `data: <the event's
// JSON>`. Text in flight has no id, so that a browser keeps the number of the last event:
// `model.delta`, `model.thinking`, `tool.progress`, and `model.partial` for the whole
// text of a call so far. `reset` says that fragments were dropped for a slow reader.
// `error` is the last frame and says why the stream ends. NDJSON has the same frames, one
// per line; frames that are not events name their type in "type".
//
// Errors come in two ways. Before the head of the response is sent, Serve functions
// return the error and have written nothing, so the door answers with a status.
// Afterwards the stream ends with an error frame. A client that disconnects is not an
// error. None of them ends a turn.
package wire

import (
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
)

// Frames is what a stream carries, such as a Follow.
type Frames = iter.Seq2[eventlog.Frame, error]

// Options of one stream. The zero value is ready to use.
type Options struct {
	// Keep selects the frames to send; nil sends all.
	Keep func(eventlog.Frame) bool
	// Until ends the stream after the first frame for which it is true, whether that is
	// sent or not; nil: the client ends it.
	Until func(eventlog.Frame) bool
	// Heartbeat is how long the stream may be silent before a heartbeat is sent. 0 means
	// 15 s for SSE and never for other forms; a negative value means never.
	Heartbeat time.Duration
	// Retry tells browsers how long to wait before reconnecting; 0 means 1 s, a negative
	// value sends no advice. Only native SSE has it.
	Retry time.Duration
	// WriteWithin is how long a client may take to read what was written; 0 means 30 s.
	WriteWithin time.Duration
	// Accepted says that the first frame is known not to be an error, so the head can be
	// sent before it. Otherwise a stream with nothing to send yet sends its head after 50
	// ms.
	Accepted bool

	held *budget // for tests: replaces the budget of the process
}

func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

// Encoding is the form of an app's own wire.
type Encoding struct {
	ContentType string
	// Frame appends the form of f on this wire, which may be empty. It is called for
	// every frame that is sent, in order.
	Frame func(dst []byte, f eventlog.Frame) []byte
	// Error appends the last frame of a stream that fails; nil: it just ends.
	Error func(dst []byte, err error) []byte
	// Head is sent before everything else, Ping when the stream was silent.
	Head, Ping string
}

// ServeFrames carries frames in an app's own form. The door sets its own headers before.
func ServeFrames(w http.ResponseWriter, r *http.Request, frames Frames, enc Encoding, o Options) error {
	s := newStream(r.Context(), w, enc, o)
	defer s.end()
	return s.carry(r.Context(), frames)
}

// ServeSSE carries frames as native Server-Sent Events.
func ServeSSE(w http.ResponseWriter, r *http.Request, frames Frames, o Options) error {
	return serveSSE(w, r, frames, &sseEncoder{}, o)
}

func serveSSE(w http.ResponseWriter, r *http.Request, frames Frames, e *sseEncoder, o Options) error {
	o.Heartbeat = orElse(o.Heartbeat, heartbeat)
	return ServeFrames(w, r, frames, Encoding{
		ContentType: "text/event-stream", Frame: e.frame, Error: e.fail, Head: retryHint(o.Retry), Ping: ": ping\n\n",
	}, o)
}

// heartbeat for SSE: half of the 30 s after which the strictest proxies and phones drop a
// silent connection.
const heartbeat = 15 * time.Second

func retryHint(d time.Duration) string {
	ms := orElse(d, time.Second).Milliseconds()
	if ms == 0 {
		return ""
	}
	return "retry: " + strconv.FormatInt(ms, 10) + "\n\n"
}

// ServeNDJSON carries frames as lines of JSON.
func ServeNDJSON(w http.ResponseWriter, r *http.Request, frames Frames, o Options) error {
	return ServeFrames(w, r, frames, Encoding{
		ContentType: "application/x-ndjson", Frame: appendLine, Error: appendErrorLine, Ping: `{"type":"ping"}` + "\n",
	}, o)
}

// Cursor returns where a client wants to continue: Last-Event-ID, else ?after=, else 0.
// The header takes precedence, because a browser that reconnects sends it along with the
// original URL.
func Cursor(r *http.Request) (int64, error) {
	field, text := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if text == "" {
		field, text = "after", r.URL.Query().Get("after")
	}
	if text == "" {
		return 0, nil
	}
	return number(field, text)
}

// Flag returns the boolean query parameter name, written 0 or 1, or def if it is absent.
func Flag(q url.Values, name string, def bool) (bool, error) {
	switch text := q.Get(name); text {
	case "":
		return def, nil
	case "0", "1":
		return text == "1", nil
	default:
		return false, parley.Errorf(parley.CodeInvalid, "%s must be 0 or 1, not %q", name, parley.Cut(text, 40)).WithField(name)
	}
}

// number reads a cursor: digits only, as we write it.
func number(field, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0, parley.Errorf(parley.CodeInvalid, "%q is not a cursor", parley.Cut(text, 40)).WithField(field).
			WithHint("a cursor is the number of the last event you have of this session; 0 means from the beginning")
	}
	return n, nil
}

// Types returns an Options.Keep for ?types=: a list such as
// "turn.*,model.replied". Text in flight and resets are kept; "" keeps all.
func Types(list string) (func(eventlog.Frame) bool, error) {
	if list == "" {
		return nil, nil
	}
	var families []string
	types := map[parley.EventType]bool{}
	for t := range strings.SplitSeq(list, ",") {
		family, ok := strings.CutSuffix(t, "*")
		switch {
		case ok && strings.HasSuffix(family, "."):
			families = append(families, family)
		case parley.Known(parley.EventType(t)):
			types[parley.EventType(t)] = true
		default:
			return nil, parley.Errorf(parley.CodeInvalid, "there is no event type %q", parley.Cut(t, 40)).WithField("types").
				WithHint("such as model.replied, or turn.* for all that begin so, separated by commas")
		}
	}
	return func(f eventlog.Frame) bool {
		if f.Event == nil || types[f.Event.Type] {
			return true
		}
		for _, family := range families {
			if strings.HasPrefix(string(f.Event.Type), family) {
				return true
			}
		}
		return false
	}, nil
}

// EndOf returns an Options.Until for the end of a turn. A turn.interrupted is the end, too,
// if the turn does not go on by itself and the event's number is at least from. Of an
// earlier one it is known that the turn went on.
func EndOf(turn parley.TurnID, from int64) func(eventlog.Frame) bool {
	return func(f eventlog.Frame) bool {
		if f.Event == nil || f.Event.Turn != turn {
			return false
		}
		switch f.Event.Type {
		case "turn.completed", "turn.failed", "turn.cancelled", "turn.expired":
			return true
		case "turn.interrupted":
			p, err := f.Event.Payload()
			i, ok := p.(parley.TurnInterrupted)
			return err == nil && ok && !i.Resumes && f.Event.Seq >= from
		}
		return false
	}
}
