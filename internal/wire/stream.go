package wire

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/aside"
	"github.com/parley-server/parley/internal/eventlog"
)

// headAfter is how long a stream waits for its first frame before it sends its head.
const headAfter = 50 * time.Millisecond

// stream writes to one client. Frames come from the handler's goroutine, heartbeats from
// a timer's.
type stream struct {
	c    *Carrier
	enc  Encoder
	send func(Message) // appends to buf
	o    Options
	rc   *http.ResponseController
	a    *answer
	beat time.Duration

	buf []byte // used by the handler: what is written next

	mu       sync.Mutex
	w        http.ResponseWriter
	head     bool      // whether it was sent
	wrote    time.Time // time of the last write
	deadline time.Time // as set on the connection
	timer    *time.Timer
	err      error // the client is gone, or the handler has returned
}

func newStream(ctx context.Context, w http.ResponseWriter, c *Carrier, e Encoder, o *Options) *stream {
	a := answerOf(ctx)
	if a == nil {
		a = newAnswer(ctx, w, parley.Local, cmp.Or(o.held, held))
		w = a
	}
	s := newStreamOf(a, w, c, e, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arm(headAfter)
	return s
}

// newStreamOf makes a stream that writes to w, which a counts.
func newStreamOf(a *answer, w http.ResponseWriter, c *Carrier, e Encoder, o *Options) *stream {
	s := &stream{c: c, enc: e, o: *o, w: w, a: a, beat: orElse(o.Heartbeat, c.beat)}
	s.send = func(m Message) { s.buf = s.c.form(s.buf, m) }
	s.a.release() // frees what was reserved to find out what is requested
	s.rc = http.NewResponseController(s.w)
	if o.WriteWithin <= 0 {
		s.o.WriteWithin = 30 * time.Second
	}
	return s
}

// gather limits what is written in one piece.
const gather = 32 << 10

// kept limits the buffers of an idle stream.
const kept = 4 << 10

// behind is roughly what a stream holds besides encoded frames: a page of the log.
const behind = 64 << 10

// carry writes frames until they end, the client leaves, or Until says so. It returns an
// error only if nothing was written.
func (s *stream) carry(ctx context.Context, frames Frames) error {
	for f, err := range frames {
		last := false
		switch one, some := err.(*eventlog.SessionError); {
		case err == nil:
			if s.o.Keep == nil || s.o.Keep(f) {
				if !s.room(f) {
					return nil
				}
				s.enc.Encode(f, s.send)
			}
			last = s.o.Until != nil && s.o.Until(f)
		case ctx.Err() != nil:
			s.over(ctx)
			return nil
		case some:
			s.enc.Failed(one, s.send)
		case !s.o.Accepted && !s.begun():
			return err
		default:
			s.enc.Failed(err, s.send)
			last = true
		}
		if last || !f.More || len(s.buf) >= gather {
			f.Taken()
			if s.flush() != nil {
				return nil // the client is gone, or was cut
			}
		}
		if last {
			return nil
		}
	}
	s.over(ctx)
	_ = s.flush()
	return nil
}

// over tells a client whose identity has ended, such as a person who was signed out elsewhere, why
// the stream does.
func (s *stream) over(ctx context.Context) {
	if e, ok := errors.AsType[*parley.Error](context.Cause(ctx)); ok && e.Code == parley.CodeUnauthenticated && s.begun() {
		s.enc.Failed(e, s.send)
		_ = s.flush()
	}
}

// room counts what the stream will hold once f is encoded. A large frame is written
// alone, so that at most one such frame is encoded. It returns false when the client is
// gone or was cut.
func (s *stream) room(f eventlog.Frame) bool {
	size := 0
	switch {
	case f.Event != nil:
		size = len(f.Event.Data)
	case f.Delta != nil:
		size = len(f.Delta.Text)
	}
	if len(s.buf)+size <= kept { // small data fits into the connection's buffers
		return true
	}
	if size > gather && s.flush() != nil {
		return false
	}
	return s.a.share.Load() != nil || s.a.reserve(s.a.ctx, behind+2*max(size, gather)) == nil
}

// arm sets the timer; 0 leaves it unchanged.
func (s *stream) arm(d time.Duration) {
	if d <= 0 || s.err != nil {
		return
	}
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
	} else {
		s.timer.Reset(d)
	}
}

// tick writes what a silent stream needs. Writes do not reset the timer; it checks when
// the last one was.
func (s *stream) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	next := s.beat
	if !s.head {
		s.write(nil)
	} else if s.beat <= 0 {
		return // the timer was for the head, which has been sent with a frame
	} else if silent := time.Since(s.wrote); silent < s.beat {
		next = s.beat - silent
	} else {
		s.write([]byte(s.c.ping))
	}
	s.arm(next)
}

// flush writes what is buffered.
func (s *stream) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.a.release()
	if len(s.buf) == 0 {
		return s.err
	}
	first := !s.head
	if first {
		if s.timer != nil {
			s.timer.Stop() // it was for the head
		}
		aside.Do(func() { s.write(s.buf) }) // net/http needs much stack for a head
	} else {
		s.write(s.buf)
	}
	if cap(s.buf) > 2*gather || len(s.buf) < gather && cap(s.buf) > kept {
		s.buf = nil // a large frame, or the end of a replay; what follows is small
	}
	s.buf = s.buf[:0]
	if first {
		s.arm(s.beat)
	}
	return s.err
}

// begun reports whether the head was sent. If not, it never will be: the door still owns
// the response.
func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.head {
		s.err = context.Canceled
	}
	return s.head
}

// write sends b, preceded by the head if that is due. s.mu is held.
func (s *stream) write(b []byte) {
	if s.err != nil {
		return
	}
	now := time.Now()
	s.wrote = now
	// Setting a deadline costs more than comparing two times, and a deadline that is a
	// tenth too early is good enough.
	if within := s.o.WriteWithin; s.deadline.Sub(now) < within-within/10 {
		s.deadline = now.Add(within)
		_ = s.rc.SetWriteDeadline(s.deadline) // not every ResponseWriter supports deadlines
	}
	if !s.head {
		s.head = true
		h := s.w.Header()
		h.Set("Content-Type", s.c.contentType)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy that buffers would undo the streaming
		h.Set("X-Content-Type-Options", "nosniff")
		s.w.WriteHeader(http.StatusOK)
		if s.c.head != nil {
			b = append([]byte(s.c.head(s.o)), b...)
		}
	}
	if len(b) > 0 {
		if _, err := s.w.Write(b); err != nil {
			s.err = err
			return
		}
	}
	s.err = s.rc.Flush()
}

// end stops all writes, because the ResponseWriter must no longer be used.
func (s *stream) end() {
	s.a.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.err == nil && s.head {
		_ = s.rc.SetWriteDeadline(time.Time{}) // for the connection's next request
	}
	s.err = context.Canceled
}
