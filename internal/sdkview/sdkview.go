// Package sdkview shows a session in the messages of the Claude Agent SDK, for programs that were
// written for it, and in a simple form of five events.
//
// Both are wires: state machines that make messages of the frames of a log, for whichever runtime
// wrote it. [SDK] makes the SDK's own messages, in the order in which the Claude Code CLI writes
// them: system/init at the beginning of each turn, the user's message, for each reply of a model
// stream_event messages around one assistant message a block, for each call of a tool a user
// message with its result, and result at the end. [Simple] makes TextDelta, ToolUse, ToolResult,
// Done and Error.
//
// A client that resumes gets what comes after its last message, and nothing twice. An event may
// become several messages, so a cursor is the number of an event, or of one before, with how much
// of the next the client has; see [Cursor]. What a client needs to know from before its cursor is
// told by Prime. Messages of stream_event are text in flight: they have no place in the order, and
// a client that comes back gets those of an open reply from its message_start on.
//
// What differs from the CLI is in the test that compares this with its transcripts.
package sdkview

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/wire"
)

// Encoder is one of the two views.
type Encoder interface {
	wire.Encoder
	// Prime tells it an event up to the cursor, without sending anything. It gets all of them, in
	// order.
	Prime(e parley.Event)
}

// Options of a view.
type Options struct {
	Session parley.SessionID
	From    Cursor
	Types   Types
	// Deltas says that text in flight is shown.
	Deltas bool
	// App returns the resolved app with a digest. Nil, or an error, leaves out what it says.
	App func(parley.Digest) (parley.App, error)
	// Version is that of the server.
	Version string
}

// Cursor is where a client is. Its id is the number of an event, "12", of which the client has all
// messages; or "12-1": it has the first message of event 12; or "12.340": it has event 12 and 340
// bytes of the text of the reply in flight. On wires without ids the uuid of a message is its cursor,
// and in the simple view its field cursor.
type Cursor struct {
	Seq  int64 // the last event of which the client has everything
	Sent int   // messages that it has of the next
	Text int   // bytes of the text in flight that it has
}

// maxSent is the most messages of one event that a cursor counts: a uuid has 12 bits for it.
const maxSent = 1<<12 - 1

// ParseCursor reads the cursor of a client of a session; "" is the beginning. Errors call it field.
func ParseCursor(field, id string, session parley.SessionID) (Cursor, error) {
	bad := parley.Errorf(parley.CodeInvalid, "%q is not a cursor of this session", parley.Cut(id, 40)).WithField(field).
		WithHint("a cursor is the id of the last message you have of this session, or its uuid where messages have no id")
	if id == "" {
		return Cursor{}, nil
	}
	if len(id) == 36 {
		raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(raw) != 16 || raw[6]>>4 != 8 {
			return Cursor{}, bad
		}
		seq := int64(binary.BigEndian.Uint64(append([]byte{0, 0}, raw[:6]...)))
		sent := int(raw[6]&0xf)<<8 | int(raw[7])
		if seq < 1 || sent < 1 || id != uuidOf(session, seq, sent) {
			return Cursor{}, bad
		}
		return Cursor{Seq: seq - 1, Sent: sent}, nil
	}
	at, text, dotted := strings.Cut(id, ".")
	at, sent, dashed := strings.Cut(at, "-")
	c := Cursor{}
	var ok, fine bool
	c.Seq, ok = whole(at)
	switch {
	case dotted && !dashed:
		var n int64
		n, fine = whole(text)
		c.Text = int(min(n, 1<<30))
	case dashed && !dotted:
		var n int64
		n, fine = whole(sent)
		fine = fine && n >= 1 && n <= maxSent && c.Seq > 0
		c.Seq, c.Sent = c.Seq-1, int(min(n, maxSent))
	default:
		fine = !dotted
	}
	if !ok || !fine {
		return Cursor{}, bad
	}
	return c, nil
}

// whole reads a number as it is written here.
func whole(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// uuidOf is the uuid of the n-th message of an event, from which its place can be read.
func uuidOf(session parley.SessionID, seq int64, n int) string {
	of := sha256.Sum256([]byte(session))
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(seq)<<16)
	n = min(n, maxSent)
	b[6], b[7] = 0x80|byte(n>>8), byte(n)
	copy(b[8:], of[:8])
	b[8] = b[8]&0x3f | 0x80
	return format(b)
}

// passing is the uuid of a message that has no place.
func passing(session parley.SessionID, call parley.CallID, n int) string {
	of := sha256.Sum256(fmt.Append(nil, session, "\x00", call, "\x00", n))
	var b [16]byte
	copy(b[:], of[:])
	b[6], b[8] = b[6]&0x0f|0x50, b[8]&0x3f|0x80
	return format(b)
}

func format(b [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Types are the message types that a client wants; nil: all.
type Types []string

// names are the types that there are, and what stands for several of them.
var (
	sdkNames    = []string{"assistant", "user", "user.replay", "stream_event", "result", "system", "system.init", "system.status", "system.compact_boundary", "system.hook_started", "system.hook_response", "system.session_state_changed", "system.task_started", "system.task_notification"}
	simpleNames = []string{"TextDelta", "ToolUse", "ToolResult", "Done", "Error"}
)

// MessageTypes are what the type of a message of a view may be.
func MessageTypes() (types []string) {
	for _, name := range slices.Concat(sdkNames, simpleNames) {
		if !strings.Contains(name, ".") {
			types = append(types, name)
		}
	}
	return types
}

// ParseTypes reads ?types=, a list of types of a view. user stands also for user.replay, and system for
// all that begin so.
func ParseTypes(list string, view string) (Types, error) {
	if list == "" {
		return nil, nil
	}
	names := sdkNames
	if view == ViewSimple {
		names = simpleNames
	}
	types := Types{}
	for t := range strings.SplitSeq(list, ",") {
		if t = strings.TrimSuffix(t, ".*"); !slices.Contains(names, t) {
			return nil, parley.Errorf(parley.CodeInvalid, "the view has no message type %q", parley.Cut(t, 40)).WithField("types").
				WithHint("%s", strings.Join(names, ", "))
		}
		types = append(types, t)
	}
	return types, nil
}

func (t Types) wants(name string) bool {
	family, _, _ := strings.Cut(name, ".")
	return t == nil || slices.Contains(t, name) || slices.Contains(t, family)
}

// The views that a client may ask for.
const (
	ViewSDK    = "sdk"
	ViewSimple = "simple"
)

// New makes a view.
func New(view string, o Options) (Encoder, error) {
	switch view {
	case ViewSDK:
		return NewSDK(o), nil
	case ViewSimple:
		return NewSimple(o), nil
	}
	return nil, parley.Errorf(parley.CodeInvalid, "there is no view %q", parley.Cut(view, 40)).WithField("view").WithHint("one of native, sdk, simple")
}

// object is a JSON object.
type object = map[string]any

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("sdkview: " + err.Error()) // it is made of text, numbers and JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// failure is the last message of a stream that fails, as in the native form.
func failure(err error) wire.Message {
	return wire.Message{Event: "error", Data: encode(object{"error": parley.Info(err)})}
}
