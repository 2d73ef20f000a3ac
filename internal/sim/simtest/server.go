package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-server/parley/internal/seam"
)

// Then is how an answer fails in the middle.
type Then string

// What may happen after some frames.
const (
	Hang      Then = "hang"      // nothing more comes
	Cut       Then = "cut"       // the connection breaks
	End       Then = "end"       // the answer ends in good order
	Malformed Then = "malformed" // half a frame is sent as a whole one
)

// Fault makes one call of a model fail.
type Fault struct {
	Status int         // the answer, in the provider's form, with Header
	Header http.Header // headers of the answer
	Type   string      // the media type of the answer
	After  int         // the number of frames before Then
	Then   Then
	// Reached is called when the answer hangs or is about to be refused. It may be nil.
	Reached func()
}

// Server is a provider on loopback. Its methods are safe for concurrent use.
type Server struct {
	URL string // without the path of the base URL

	p     Provider
	inner http.Handler

	mu     sync.Mutex
	faults []Fault
	bodies [][]byte
	gone   chan time.Time
}

// Start starts a server for the duration of the test. agent finds the brain's agent from
// the system prompt, which is all that the wire has of it.
func (p Provider) Start(t testing.TB, brain seam.Model, agent func(system string) string) *Server {
	t.Helper()
	s := p.Handler(brain, agent)
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// StartTLS is Start with an untrusted certificate.
func (p Provider) StartTLS(t testing.TB, brain seam.Model) *Server {
	t.Helper()
	s := p.Handler(brain, nil)
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ErrorLog = quiet()
	srv.StartTLS()
	t.Cleanup(srv.Close)
	s.URL = srv.URL
	return s
}

// Handler returns the server that Start starts, without starting it.
func (p Provider) Handler(brain seam.Model, agent func(system string) string) *Server {
	return &Server{p: p, inner: p.serve(brain, agent), gone: make(chan time.Time, 100)}
}

// Fail makes the next calls fail, one fault each. The zero Fault lets one call succeed.
func (s *Server) Fail(f ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f...)
}

// Calls returns the bodies of all model calls so far, failed ones included.
func (s *Server) Calls() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.bodies...)
}

// Gone receives the time at which a client was seen to disconnect before its answer was
// complete.
func (s *Server) Gone() <-chan time.Time { return s.gone }

func (s *Server) arrived(body []byte) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, body)
	if len(s.faults) == 0 {
		return Fault{}
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f
}

func (s *Server) left() {
	select {
	case s.gone <- time.Now():
	default:
	}
}

// maxBody is more than any test sends
const maxBody = 32 << 20

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.p.Calls(r) {
		s.inner.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	f := s.arrived(body)
	watch := context.AfterFunc(r.Context(), s.left)
	defer func() {
		// A brain may have noticed it first.
		if watch() && r.Context().Err() != nil {
			s.left()
		}
	}()
	if f.Status != 0 {
		for k, v := range f.Header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(f.Status)
		raw, _ := json.Marshal(s.p.refuse(f.Status, fmt.Sprintf("no, with status %d", f.Status))) // plain data
		_, _ = w.Write(raw)
		f.reached()
		return
	}
	if f.Then == Hang && f.After == 0 {
		f.hang(r.Context())
		return
	}
	s.inner.ServeHTTP(&faulty{ResponseWriter: w, ctx: r.Context(), f: f}, r)
}

func (f *Fault) reached() {
	if f.Reached != nil {
		f.Reached()
	}
}

func (f *Fault) hang(ctx context.Context) {
	f.reached()
	<-ctx.Done()
}

// faulty is an answer with a fault in it. A frame is what is written between two
// flushes.
type faulty struct {
	http.ResponseWriter
	ctx    context.Context //nolint:containedctx // of the one request
	f      Fault
	frames int
	over   bool
}

// WriteHeader gives an answer the wrong media type before it begins.
func (w *faulty) WriteHeader(status int) {
	if w.f.Type != "" {
		w.Header().Set("Content-Type", w.f.Type)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *faulty) Write(b []byte) (int, error) {
	switch {
	case w.over:
		return len(b), nil
	case w.f.Then == "" || w.frames < w.f.After:
		if w.f.Type != "" {
			w.Header().Set("Content-Type", w.f.Type)
		}
		return w.ResponseWriter.Write(b)
	}
	w.over = true
	switch w.f.Then {
	case Hang:
		w.f.hang(w.ctx)
	case Cut:
		panic(http.ErrAbortHandler)
	case Malformed:
		_, _ = io.WriteString(w.ResponseWriter, "data: {\"type\":\"content_block_del\n\n")
		_ = http.NewResponseController(w.ResponseWriter).Flush() // the client may be gone
	}
	return len(b), w.ctx.Err()
}

// FlushError implements the optional interface of http.ResponseController.
func (w *faulty) FlushError() error {
	w.frames++
	return http.NewResponseController(w.ResponseWriter).Flush()
}
