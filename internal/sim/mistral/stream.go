package mistral

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	"github.com/parley-server/parley/internal/sse"
)

func bodyOf(r *http.Request) []byte {
	body, _ := io.ReadAll(r.Body) // from memory
	return body
}

// A writer writes the brain's reply in one of the APIs.
type writer interface {
	begin(e *events)
	delta(e *events, d seam.ModelDelta)
	// next handles a reply after its deltas. It returns true if the brain is to be asked again.
	next(e *events, reply *seam.Reply) (seam.Request, bool)
	end(e *events)
	failed(e *events, message string) // the provider reports its failure in the stream
	whole() any                       // the answer, if it is not streamed
}

// think lets the brain answer and writes the reply. An error before any output is an error
// response; a later one ends the connection.
func (s *Server) think(w http.ResponseWriter, r *http.Request, req seam.Request, stream bool, out writer) {
	e := &events{w: w, ctx: r.Context(), quiet: !stream, out: out}
	if f, ok := w.(*faulty); ok && f.f != nil {
		e.fault = f.f
	}
	for again := true; again; {
		reply, err := s.ask(r.Context(), req, e)
		switch {
		case e.over || e.gone():
			return
		case err != nil && !e.begun:
			refuseFor(w, err)
			return
		case err != nil:
			panic(http.ErrAbortHandler) // the client can only be told this way
		case reply == nil:
			refuse(w, usual(http.StatusInternalServerError))
			return
		}
		e.open()
		req, again = out.next(e, reply)
	}
	if !stream {
		write(w, http.StatusOK, out.whole())
		return
	}
	out.end(e)
}

// ask makes one call to the brain.
func (s *Server) ask(ctx context.Context, req seam.Request, e *events) (*seam.Reply, error) {
	for d, err := range s.o.Brain.Stream(ctx, req) {
		if err != nil || d.Reply != nil || e.over || e.gone() {
			return d.Reply, err
		}
		e.open()
		e.out.delta(e, d)
	}
	return nil, nil //nolint:nilnil // a brain that ended without a reply
}

// refuseFor answers with the provider's equivalent of our error.
func refuseFor(w http.ResponseWriter, err error) {
	status, no := http.StatusInternalServerError, ""
	var p *parley.Error
	if errors.As(err, &p) {
		no = p.Message
		switch p.Code {
		case parley.CodeRateLimited:
			status = http.StatusTooManyRequests
		case parley.CodeUnavailable:
			status = http.StatusServiceUnavailable
		case parley.CodeInvalid:
			status = http.StatusBadRequest
		case parley.CodeUnauthenticated:
			status = http.StatusUnauthorized
		case parley.CodeForbidden:
			status = http.StatusForbidden
		case parley.CodeNotFound:
			status = http.StatusNotFound
		case parley.CodeTooLarge:
			status = http.StatusRequestEntityTooLarge
		}
		if p.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.FormatFloat(p.RetryAfter.Seconds(), 'f', -1, 64))
		}
	}
	e := usual(status)
	if no != "" {
		e.Message = no
	}
	refuse(w, e)
}

// events writes an event stream, with its fault.
type events struct {
	w     http.ResponseWriter
	ctx   context.Context //nolint:containedctx // context of the one request
	out   writer
	fault *Fault
	quiet bool // the answer is not streamed: nothing is written here
	begun bool
	over  bool
	n     int
	buf   []byte
}

func (e *events) gone() bool { return e.ctx.Err() != nil }

// open starts the stream, once.
func (e *events) open() {
	if e.begun || e.quiet {
		return
	}
	e.begun = true
	kind := sse.ContentType + "; charset=utf-8"
	if e.fault != nil && e.fault.Type != "" {
		kind = e.fault.Type
	}
	e.w.Header().Set("Content-Type", kind)
	e.w.Header().Set("Cache-Control", "no-cache")
	e.w.WriteHeader(http.StatusOK)
	e.out.begin(e)
}

func (e *events) send(event string, v any) {
	if e.quiet || e.over {
		return
	}
	var body []byte
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // of our own making
	}
	e.buf = sse.AppendFrame(e.buf[:0], sse.Frame{Event: event, Data: body})
	e.raw(string(e.buf))
}

func (e *events) raw(frame string) {
	if e.quiet || e.over || e.gone() {
		return
	}
	if f := e.fault; f != nil {
		e.pace(f.Every)
		if e.n >= f.After && e.wrong(f) {
			return
		}
	}
	e.n++
	if _, err := io.WriteString(e.w, frame); err != nil {
		e.over = true
		return
	}
	_ = http.NewResponseController(e.w).Flush() // if supported
}

// wrong applies a fault. It returns false if there is none to apply.
func (e *events) wrong(f *Fault) bool {
	switch {
	case f.Hang:
		e.over = true
		f.hang(e.ctx)
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.End:
		e.over = true
	case f.Malformed:
		e.over = true
		_, _ = io.WriteString(e.w, "data: {\"choices\":[{\"del\n\n") // the client may have disconnected
	case f.Err != "":
		message := f.Err
		e.fault = nil
		e.out.failed(e, message)
		e.over = true
	default:
		return false
	}
	_ = http.NewResponseController(e.w).Flush() // if supported
	return true
}

func (e *events) pace(d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
	}
}
