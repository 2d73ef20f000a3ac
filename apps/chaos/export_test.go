package chaos

import (
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sse"
	"github.com/parley-server/parley/internal/wire"
)

// Append appends the frames that f becomes to dst, as the wire has them.
func (w *Wire) Append(dst []byte, f eventlog.Frame) (out []byte, end bool) {
	w.Encode(f, letters(&dst))
	return dst, w.Ended()
}

// Fail appends the frame of a failure.
func (w *Wire) Fail(dst []byte, err error) []byte {
	w.Failed(err, letters(&dst))
	return dst
}

func letters(dst *[]byte) func(wire.Message) {
	return func(m wire.Message) { *dst = sse.AppendFrame(*dst, sse.Frame{ID: m.ID, Event: m.Event, Data: m.Data}) }
}
