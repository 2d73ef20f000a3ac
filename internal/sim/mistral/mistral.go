// Package mistral simulates Mistral's La Plateforme on loopback: chat completions, agents and
// conversations, for tests and the offline demo.
//
// A [Server] follows the provider's API strictly: it rejects a request that the provider would
// reject, in the same words ([Validate] has the rules of a chat completion). The answers come
// from a brain, any seam.Model: the API request becomes one of ours, and the brain's stream
// becomes the API's. Agents and conversations are kept in memory.
//
// The provider's behaviour after a handoff in client mode is not documented; [Options] choose
// among the possibilities. [Server.Fail] makes the next requests fail. A test drives the server
// with the provider's own client, as a check that does not depend on our reading of the API.
package mistral

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley/internal/seam"
)

// maxBody is the provider's limit for a request.
const maxBody = 64 << 20

// Options set a server up.
type Options struct {
	// Key is the accepted key. Empty: any key is accepted.
	Key string
	// Brain gives the answers. It sees the agent's name, the system prompt or instructions, the
	// history, tools and handoffs.
	Brain seam.Model
	// Agent derives the agent of a chat completion from its system prompt, because the API does
	// not transmit it. nil: no agent.
	Agent func(system string) string
	// Models are the known ids. nil: mistral-medium-latest and mistral-small-latest.
	Models []string
	Now    func() time.Time // nil: time.Now

	// HandoffCalls makes a handoff in client mode a call of a function named after the agent,
	// instead of an agent.handoff entry.
	HandoffCalls bool
	// StrictHandoffs rejects every append after a handoff in client mode.
	StrictHandoffs bool
	// SameAgent lets the agent that handed over continue after such an append.
	SameAgent bool
	// ServerHandoffs does handoffs on the server, whatever the request says.
	ServerHandoffs bool
}

// Fault is a failure of a request.
type Fault struct {
	Path   string // only requests whose path has this prefix
	Method string // only requests with this method
	Times  int    // how many requests; 0: one
	// Status is answered at once, with Body and Header. Empty Body: the provider's own for that
	// status.
	Status int
	Body   string
	Header http.Header
	// In an event stream, after so many frames:
	After     int
	Hang      bool          // nothing more comes
	Reached   func()        // called when it hangs; may be nil
	Cut       bool          // the connection ends
	End       bool          // the response ends, whole as far as HTTP knows
	Malformed bool          // a frame is not JSON
	Err       string        // error that the provider reports in the stream
	Type      string        // the media type of the answer
	Every     time.Duration // delay before each frame
}

func (f *Fault) hang(ctx context.Context) {
	if f.Reached != nil {
		f.Reached()
	}
	<-ctx.Done()
}

// Request is a received request.
type Request struct {
	Method string
	Path   string
	Body   []byte
}

// Server simulates the provider. It is an http.Handler, safe for concurrent use.
type Server struct {
	o   Options
	mux *http.ServeMux

	mu            sync.Mutex
	faults        []Fault
	requests      []Request
	agents        map[string]*agent
	conversations map[string]*conversation
	made          int
	closed        chan struct{} // closed when a client has disconnected before its answer was complete
	gone          int
}

// New makes a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Models == nil {
		o.Models = []string{"mistral-medium-latest", "mistral-small-latest"}
	}
	s := &Server{
		o: o, mux: http.NewServeMux(), closed: make(chan struct{}),
		agents: map[string]*agent{}, conversations: map[string]*conversation{},
	}
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("GET /v1/models/{id}", s.model)
	s.mux.HandleFunc("POST /v1/chat/completions", s.chat)
	s.routes()
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusNotFound, map[string]any{"message": "no Route matched with those values"})
	})
	return s
}

// Fail makes the next requests fail.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.Times = max(f.Times, 1)
	s.faults = append(s.faults, f)
}

// Requests returns the received requests, including those that failed by a fault.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Closed is closed when a client has disconnected before its answer was complete.
func (s *Server) Closed() <-chan struct{} { return s.closed }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, &Refusal{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Message: "Request body too large"})
		return
	}
	f := s.arrived(r, body)
	defer func() {
		if r.Context().Err() != nil {
			s.left()
		}
	}()
	w.Header().Set("Mistral-Correlation-Id", s.id("corr"))
	if s.o.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.o.Key {
		write(w, http.StatusUnauthorized, map[string]any{"detail": "Unauthorized"})
		return
	}
	if f != nil && f.Status != 0 {
		for k, v := range f.Header {
			w.Header()[k] = v
		}
		if f.Body == "" {
			refuse(w, usual(f.Status))
			return
		}
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body) // the client may have disconnected
		return
	}
	if f != nil && f.Hang && f.After == 0 {
		f.hang(r.Context())
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	s.mux.ServeHTTP(&faulty{ResponseWriter: w, r: r, f: f}, r)
}

// arrived records a request and returns its fault, if any.
func (s *Server) arrived(r *http.Request, body []byte) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Body: body})
	for i := range s.faults {
		f := &s.faults[i]
		if !strings.HasPrefix(r.URL.Path, f.Path) || f.Method != "" && f.Method != r.Method {
			continue
		}
		out := *f
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i], s.faults[i+1:]...)
		}
		return &out
	}
	return nil
}

func (s *Server) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone++; s.gone == 1 {
		close(s.closed)
	}
}

// faulty carries a request's fault to the code that writes its frames.
type faulty struct {
	http.ResponseWriter
	r *http.Request
	f *Fault
}

// Unwrap gives http.ResponseController the original writer.
func (w *faulty) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func write(w http.ResponseWriter, status int, v any) {
	kind := "application/json"
	if f, ok := w.(*faulty); ok && f.f != nil && f.f.Type != "" {
		kind = f.f.Type
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client may have disconnected
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	var list []map[string]any
	for _, id := range s.o.Models {
		list = append(list, card(id))
	}
	list = append(list, map[string]any{
		"id": "mistral-embed", "object": "model", "created": 1700000000, "owned_by": "mistralai", "type": "base", "max_context_length": 8192,
		"capabilities": map[string]bool{"completion_chat": false, "function_calling": false, "vision": false},
	})
	write(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

func (s *Server) model(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if !s.knows(id) {
		refuse(w, &Refusal{Status: http.StatusNotFound, Type: "invalid_model", Message: "Invalid model: " + id, Code: "1500"})
		return
	}
	write(w, http.StatusOK, card(id))
}

func (s *Server) knows(id string) bool {
	for _, known := range s.o.Models {
		if known == id {
			return true
		}
	}
	return false
}

func card(id string) map[string]any {
	return map[string]any{
		"id": id, "object": "model", "created": 1700000000, "owned_by": "mistralai", "type": "base", "max_context_length": 131072, "aliases": []string{},
		"capabilities": map[string]bool{"completion_chat": true, "function_calling": true, "vision": true, "completion_fim": false, "fine_tuning": false},
	}
}

// id makes a new id that ends in nine letters or digits.
func (s *Server) id(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newID(prefix)
}

func (s *Server) newID(prefix string) string {
	s.made++
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := []byte("Sim000000")
	for i, n := len(out)-1, s.made; i >= 3; i-- {
		out[i], n = digits[n%len(digits)], n/len(digits)
	}
	if prefix == "" {
		return string(out)
	}
	return prefix + "_" + string(out)
}
