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
	pageEvents = 1000    // per JSON page
	pageBytes  = 4 << 20 // a page ends early after this; more is then true
	pageLooked = 20_000  // events examined for one page of selected types

	// pagePiece is how much is collected before it is written.
	pagePiece = 32 << 10
)

// logPage is one JSON page of the log. It is written while it is read, so a client that
// does not read it holds no more than one batch of the store.
type logPage struct {
	s     *Server
	p     parley.Principal
	id    parley.SessionID
	limit int
	keep  func(eventlog.Frame) bool // nil: all

	next    int64          // the last event examined
	events  []parley.Event // read but not examined yet
	looked  int
	written int // number of events
	bytes   int
	buf     []byte
}

// read reads the next batch and reserves memory for it. It frees the last batch's first:
// whoever waits to read must hold nothing that those who have read wait for.
func (g *logPage) read(ctx context.Context) error {
	ask := g.limit - g.written + 1 // one more than wanted tells whether there is more
	if g.keep != nil {
		ask = 1000
	}
	if err := wire.Reserve(ctx, 0); err != nil {
		return err
	}
	events, taken, err := g.s.o.Reader.Page(ctx, g.p, g.id, g.next, min(ask, 1000))
	if err != nil {
		return err
	}
	defer taken()
	size, largest := pagePiece, 0
	for _, e := range events {
		size += len(e.Data)
		largest = max(largest, len(e.Data))
	}
	g.events = events
	return wire.Reserve(ctx, size+2*largest) // an event is encoded as a whole
}

// write writes the page, whose first batch has been read.
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

// flush writes the collected bytes if there are more than over.
func (g *logPage) flush(w io.Writer, over int) error {
	if len(g.buf) <= over {
		return nil
	}
	_, err := w.Write(g.buf)
	g.bytes += len(g.buf)
	if g.buf = g.buf[:0]; cap(g.buf) > 2*pagePiece {
		g.buf = nil // a large event should not stay in memory
	}
	return err
}
