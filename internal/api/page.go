package api

import (
	"context"
	"io"
	"strconv"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/eventlog"
	"github.com/parley-server/parley/internal/wire"
)

const (
	pageEvents = 1000    // of one JSON page
	pageBytes  = 4 << 20 // after which a page ends early; more is then true
	pageLooked = 20_000  // events looked at for one page of chosen types

	// pagePiece is what is gathered before it is written.
	pagePiece = 32 << 10
)

// logPage is one JSON page of the log. It is written while it is read, so that a
// client that does not read it holds what the store gives at once, and no more.
type logPage struct {
	s     *Server
	p     parley.Principal
	id    parley.SessionID
	limit int
	keep  func(eventlog.Frame) bool // nil: all

	next    int64          // the last event that was looked at
	events  []parley.Event // read, and not looked at
	looked  int
	written int // events
	bytes   int
	buf     []byte
}

// read reads what comes next. It holds what the page before it took, and the first
// one what heldBy says, so that few read at once however large their events are.
func (g *logPage) read(ctx context.Context) error {
	ask := g.limit - g.written + 1 // one more than wanted says whether there is more
	if g.keep != nil {
		ask = 1000
	}
	events, taken, err := g.s.o.Reader.Page(ctx, g.p, g.id, g.next, min(ask, 1000))
	if err != nil {
		return err
	}
	defer taken()
	size := 0
	for _, e := range events {
		size += len(e.Data)
	}
	g.events = events
	return wire.Reserve(ctx, max(heldPage, 3*size))
}

// write writes the page, the first of which was read.
func (g *logPage) write(ctx context.Context, w io.Writer) error {
	g.buf = append(g.buf, `{"events":[`...)
	more := false
	for len(g.events) > 0 && !more {
		for i := range g.events {
			e := &g.events[i]
			if g.keep == nil || g.keep(eventlog.Frame{Event: e}) {
				if more = g.written == g.limit || g.bytes+len(g.buf) > pageBytes; more {
					break
				}
				if g.written++; g.written > 1 {
					g.buf = append(g.buf, ',')
				}
				g.buf = e.AppendJSON(g.buf)
			}
			g.next = e.Seq
			g.looked++
			if err := g.flush(w, pagePiece); err != nil {
				return err
			}
		}
		if more = more || g.looked >= pageLooked; more {
			break
		}
		if err := g.flush(w, 0); err != nil {
			return err
		}
		g.events = nil
		if err := g.read(ctx); err != nil {
			return err
		}
	}
	g.buf = append(g.buf, `],"next":`...)
	g.buf = strconv.AppendInt(g.buf, g.next, 10)
	g.buf = append(g.buf, `,"more":`...)
	g.buf = strconv.AppendBool(g.buf, more)
	g.buf = append(g.buf, '}', '\n')
	return g.flush(w, 0)
}

// flush writes what is gathered, if it is more than so many bytes.
func (g *logPage) flush(w io.Writer, over int) error {
	if len(g.buf) <= over {
		return nil
	}
	_, err := w.Write(g.buf)
	g.bytes += len(g.buf)
	if g.buf = g.buf[:0]; cap(g.buf) > 2*pagePiece {
		g.buf = nil // a large event should not stay
	}
	return err
}
