package home

import (
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/sse"
	"github.com/parley-server/parley/internal/wire"
)

// Append appends the frames that f becomes to dst, as the wire has them.
func (w *Wire) Append(dst []byte, f eventlog.Frame) []byte {
	w.Encode(f, func(m wire.Message) { dst = sse.AppendFrame(dst, sse.Frame{ID: m.ID, Data: m.Data}) })
	return dst
}
