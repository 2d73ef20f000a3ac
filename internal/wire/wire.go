// Package wire carries what eventlog shows to a client over HTTP.
//
// It has two halves. An [Encoder] says what a frame of the log is on a wire: [Native] and [Many] are
// ours, an app has one for each wire of its own. It does no input or output. A [Carrier] takes its
// messages to the client: [SSE] and [NDJSON] as a response, [ServeSocket] over a WebSocket, which
// takes input, too. Any encoder goes with any carrier.
//
// In all of them, frames that are ready together are sent together, and a single frame is sent at
// once. A silent stream is kept alive if requested. A client that does not read for
// [Options.WriteWithin] is cut; it resumes with its cursor and misses nothing. What streams and all
// other answers of the process hold for clients that do not read is limited, too ([Bounded]): beyond
// 32 MiB, or a quarter of that for one user, the slowest is cut earlier.
//
// The native form: a message of an event has its number as id, its type as name, and its JSON. Text
// in flight has no id, so that a browser keeps the number of the last event: `model.delta`,
// `model.thinking`, `tool.progress`, and `model.partial` for the whole text of a call so far.
// `reset` says that fragments were dropped for a slow reader. `error` is the last message and says
// why the stream ends.
//
// Errors come in two ways. Before the head of the response is sent, Serve functions
// return the error and have written nothing, so the door answers with a status.
// Afterwards the stream ends with an error message. A client that disconnects is not an
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
	// 15 s for SSE and WebSocket, and never for NDJSON; a negative value means never.
	Heartbeat time.Duration
	// Retry tells browsers how long to wait before reconnecting; 0 means 1 s, a negative
	// value sends no advice. Only SSE has it.
	Retry time.Duration
	// WriteWithin is how long a client may take to read what was written; 0 means 30 s.
	WriteWithin time.Duration
	// Accepted says that the status is 200 even if the first frame is an error. The head is sent with the
	// first frames, or after 50 ms if there are none yet.
	Accepted bool

	held *budget // for tests: replaces the budget of the process
}

func orElse(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return max(d, 0)
}

// Serve carries what e makes of frames. The door sets its own headers before. A wire of an app has
// what its specification names and nothing else: it sets Retry to -1, and Heartbeat unless the
// client asked for one.
func Serve(w http.ResponseWriter, r *http.Request, frames Frames, c *Carrier, e Encoder, o *Options) error {
	s := newStream(r.Context(), w, c, e, o)
	defer s.end()
	return s.carry(r.Context(), frames)
}

// ServeMessages carries messages that do not come from a log, such as the states of a house.
// The messages of a list are written together, without waiting for the next list. It ends after
// the last list, or when the client is gone. Keep and Until do not apply.
func ServeMessages(w http.ResponseWriter, r *http.Request, lists iter.Seq[[]Message], c *Carrier, o Options) {
	s := newStream(r.Context(), w, c, nil, &o)
	defer s.end()
	for list := range lists {
		for _, m := range list {
			s.send(m)
		}
		if s.flush() != nil {
			return // the client is gone or was disconnected
		}
	}
}

// ServeSSE carries one session in the native form, as Server-Sent Events.
func ServeSSE(w http.ResponseWriter, r *http.Request, frames Frames, o Options) error {
	return Serve(w, r, frames, SSE, Native(), &o)
}

// ServeNDJSON carries one session in the native form, as lines of JSON.
func ServeNDJSON(w http.ResponseWriter, r *http.Request, frames Frames, o Options) error {
	return Serve(w, r, frames, NDJSON, Native(), &o)
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
