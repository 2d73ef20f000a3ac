// Package sse writes and reads Server-Sent Events, the text/event-stream of
// section 9.2 of the HTML standard (https://html.spec.whatwg.org/multipage/server-sent-events.html).
//
// [AppendFrame] puts one frame behind what a buffer has, [Decode] yields the frames
// of a stream. What Decode yields of what AppendFrame wrote is the same frame,
// except that a reader of this format cannot tell CR LF and CR in data from LF.
package sse

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContentType is the media type of a stream.
const ContentType = "text/event-stream"

// Frame is one unit of a stream. The zero Frame writes nothing.
type Frame struct {
	// ID is the number or cursor to resume from. [Decode] gives the last one
	// seen, whether this frame or an earlier one brought it.
	ID string
	// Event is the type; a reader takes an empty one for "message".
	Event string
	// Data may have several lines. nil is no data: a reader will note ID and
	// Retry, but be told of no event. Empty but not nil is an event with no text.
	Data []byte
	// Retry is how long to wait before reconnecting, in whole milliseconds; zero or less
	// means none.
	Retry time.Duration
	// Comment is ignored by readers: it keeps a connection alive.
	Comment string
}

// AppendFrame appends f to dst and returns it. It allocates only when dst has no room.
//
// ID and Event cannot hold line breaks, nor ID a NUL: those bytes are left out,
// so that no text can forge a field. A line break in Data or Comment (LF, CR LF
// or CR) begins a new line of the field.
func AppendFrame(dst []byte, f Frame) []byte {
	start := len(dst)
	if f.Comment != "" {
		dst = appendLines(dst, ": ", f.Comment)
	}
	if f.ID != "" {
		dst = appendField(dst, "id: ", f.ID, "\r\n\x00")
	}
	if f.Event != "" {
		dst = appendField(dst, "event: ", f.Event, "\r\n")
	}
	if ms := f.Retry.Milliseconds(); ms > 0 {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, ms, 10)
		dst = append(dst, '\n')
	}
	if f.Data != nil {
		dst = appendLines(dst, "data: ", f.Data)
	}
	if len(dst) > start {
		dst = append(dst, '\n')
	}
	return dst
}

func appendField(dst []byte, name, value, without string) []byte {
	dst = append(dst, name...)
	if !strings.ContainsAny(value, without) {
		dst = append(dst, value...)
		return append(dst, '\n')
	}
	for i := range len(value) {
		if strings.IndexByte(without, value[i]) < 0 {
			dst = append(dst, value[i])
		}
	}
	return append(dst, '\n')
}

func appendLines[T string | []byte](dst []byte, name string, text T) []byte {
	dst = slices.Grow(dst, len(name)+len(text)+2) // at once: what grows by the byte is copied a dozen times
	dst = append(dst, name...)
	from := 0
	for i := range len(text) {
		if c := text[i]; c != '\n' && c != '\r' {
			continue
		}
		dst = append(dst, text[from:i]...)
		from = i + 1
		if text[i] == '\n' || from == len(text) || text[from] != '\n' { // CR LF is one break
			dst = append(append(dst, '\n'), name...)
		}
	}
	return append(append(dst, text[from:]...), '\n')
}

// milliseconds reads the value of a retry field, which counts only when it is
// digits and nothing else.
func milliseconds(v []byte) (time.Duration, bool) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if len(v) == 0 || len(bytes.Trim(v, "0123456789")) > 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n > most {
		n = most
	}
	return time.Duration(n) * time.Millisecond, true
}
