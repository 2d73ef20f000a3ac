// Package openai simulates a chat completions server on loopback, for tests. It behaves like
// OpenAI, OpenRouter, Ollama, vLLM, llama.cpp or Gemini's compatible endpoint, or like Odd,
// which combines unusual habits seen in various servers.
//
//	s := openai.New(openai.Options{Brain: m, Dialect: openai.OpenRouter, Key: "k"})
//	srv := httptest.NewServer(s)
//
// The answers come from a brain, a [seam.Model]: a request is checked by the rules of the
// dialect and either rejected in its words or converted to a [seam.Request], and the brain's
// stream becomes the dialect's stream. A test drives it with OpenAI's own client, as a check
// that does not depend on our reading of the API.
//
// Faults are set for the next requests. A Server is safe for concurrent use.
package openai

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of a Server.
type Options struct {
	Brain   seam.Model
	Dialect Dialect  // empty: OpenAI
	Key     string   // empty: no key is required
	Models  []string // empty: every model exists, and the list has one
	NoUsage bool     // never reports a usage
	// Context is the context window in tokens, for servers whose operator sets it; 0: 131,072,
	// or 32,768 for vLLM. Ollama drops the beginning of longer prompts.
	Context   int64
	Modelfile string // Ollama only: a line of parameters, such as "num_ctx 8192"
	Silent    bool   // Ollama only: an old version that does not report the window
	// Refuses are fields of a body that no model of this server accepts.
	Refuses []string
}

// Fault is a failure of requests for completions.
type Fault struct {
	Times  int // how many requests; 0: all
	Status int // answered at once, with Header and Body
	Header http.Header
	Body   string
	Hang   bool // no answer is sent

	// In a stream, After so many frames:
	After int
	Raw   string // these bytes are sent instead of a frame, and the stream ends
	Cut   bool   // the connection breaks
	Stall bool   // nothing more comes
	Close bool   // it ends cleanly
}

// Server is a simulated server.
type Server struct {
	opt Options
	d   dialect

	mu       sync.Mutex
	fault    *Fault
	requests int
	loaded   string // Ollama only: the model in memory
	bodies   [][]byte
	closed   chan struct{}
}

// New returns a server. It panics without a brain, or with an unknown dialect.
func New(o Options) *Server {
	if o.Dialect == "" {
		o.Dialect = OpenAI
	}
	d, ok := dialects[o.Dialect]
	if !ok || o.Brain == nil {
		panic("sim/openai: a server needs a brain and a known dialect")
	}
	if len(o.Models) > 0 && o.Dialect == LlamaCpp {
		o.Models = o.Models[:1] // it serves a single model
	}
	if o.Context == 0 {
		o.Context = 131_072
		if o.Dialect == VLLM {
			o.Context = 32_768
		}
	}
	return &Server{opt: o, d: d, closed: make(chan struct{}, 1024)}
}

// Prefix returns the path of the base URL.
func (s *Server) Prefix() string { return s.d.prefix }

// SetFault makes the next requests fail; the zero Fault ends that.
func (s *Server) SetFault(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = &f
}

// Requests returns the number of requests for completions.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// LastBody returns the body of the last request for completions.
func (s *Server) LastBody() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) == 0 {
		return nil
	}
	return s.bodies[len(s.bodies)-1]
}

// Closed receives a value for each client that disconnected before its answer was complete.
func (s *Server) Closed() <-chan struct{} { return s.closed }

func (s *Server) gone() {
	select {
	case s.closed <- struct{}{}:
	default:
	}
}

// begin counts a request and returns its fault.
func (s *Server) begin(body []byte) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.bodies = append(s.bodies[max(0, len(s.bodies)-1):], body)
	f := s.fault
	if f == nil {
		return Fault{}
	}
	out := *f
	if f.Times > 0 {
		if f.Times--; f.Times == 0 {
			s.fault = nil
		}
	}
	return out
}

const maxBody = 128 << 20

// ServeHTTP answers as the dialect's server does.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ours := strings.CutPrefix(r.URL.Path, s.d.prefix)
	if r.URL.Path == "/tokenize" && s.opt.Dialect == VLLM || r.URL.Path == "/props" && s.opt.Dialect == LlamaCpp || strings.HasPrefix(r.URL.Path, "/api/") && s.opt.Dialect == Ollama {
		path, ours = r.URL.Path, true
	}
	if !ours {
		http.NotFound(w, r)
		return
	}
	if r.ContentLength > maxBody {
		s.refuse(w, refusal{status: 413, words: "Request too large."}, nil)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	switch {
	case path == "/chat/completions" && r.Method == http.MethodPost:
		s.completions(w, r, body)
	case !s.lets(r) && !(s.d.openList && path == "/models"):
		s.refuse(w, s.d.badKey, nil)
	case path == "/models" && r.Method == http.MethodGet:
		s.list(w)
	case strings.HasPrefix(path, "/models/") && r.Method == http.MethodGet:
		id := strings.TrimPrefix(path, "/models/")
		if !s.has(id) {
			s.refuse(w, s.d.noModel(id), nil)
			return
		}
		writeJSON(w, 200, s.entry(id))
	case path == "/key" && s.opt.Dialect == OpenRouter:
		writeJSON(w, 200, obj{"data": obj{"label": "sk-or-…", "usage": 0, "limit": nil}})
	case path == "/tokenize":
		writeJSON(w, 200, obj{"count": len(body)/4 + 1, "max_model_len": s.opt.Context, "tokens": []int{}})
	case path == "/props":
		writeJSON(w, 200, obj{"default_generation_settings": obj{"id": 0, "n_ctx": s.opt.Context, "params": obj{}}, "total_slots": 1, "model_path": "model.gguf"})
	case strings.HasPrefix(path, "/api/"):
		s.native(w, r, path, body)
	default:
		http.NotFound(w, r)
	}
}

func (s *Server) lets(r *http.Request) bool {
	return s.opt.Key == "" || s.opt.Dialect == Ollama || r.Header.Get("Authorization") == "Bearer "+s.opt.Key
}

func (s *Server) has(id string) bool {
	return len(s.opt.Models) == 0 || slices.Contains(s.opt.Models, id) || s.opt.Dialect == LlamaCpp
}

func (s *Server) entry(id string) obj {
	e := obj{"id": id, "object": "model", "created": 1_790_000_000, "owned_by": s.d.owner}
	switch s.opt.Dialect {
	case OpenRouter:
		e = obj{
			"id": id, "name": id, "created": 1_790_000_000, "context_length": 200_000,
			"architecture":         obj{"input_modalities": []string{"text", "image", "file"}, "output_modalities": []string{"text"}},
			"pricing":              obj{"prompt": "0.000003", "completion": "0.000015", "request": "0", "image": "0.0048", "input_cache_read": "0.0000003", "input_cache_write": "0.00000375"},
			"top_provider":         obj{"context_length": 200_000, "max_completion_tokens": 64_000, "is_moderated": true},
			"supported_parameters": []string{"tools", "reasoning", "max_tokens", "temperature"},
		}
	case VLLM:
		e["max_model_len"], e["root"], e["parent"] = s.opt.Context, id, nil
	case LlamaCpp:
		e["meta"] = obj{"vocab_type": 1, "n_vocab": 32_000, "n_ctx_train": 131_072, "n_embd": 4096}
	case Gemini:
		e["id"] = "models/" + id
	}
	return e
}

func (s *Server) list(w http.ResponseWriter) {
	ids := s.opt.Models
	if len(ids) == 0 {
		ids = []string{"test-model"}
	}
	data := make([]obj, 0, len(ids))
	for _, id := range ids {
		data = append(data, s.entry(id))
	}
	writeJSON(w, 200, obj{"object": "list", "data": data})
}

func (s *Server) completions(w http.ResponseWriter, r *http.Request, body []byte) {
	f := s.begin(body)
	switch {
	case f.Hang:
		<-r.Context().Done()
		s.gone()
		return
	case f.Status != 0:
		for k, v := range f.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
		return
	case !s.lets(r):
		s.refuse(w, s.d.badKey, nil)
		return
	}
	q, bad := s.read(body)
	if bad == nil && !s.has(q.Model) {
		no := s.d.noModel(q.Model)
		bad = &no
	}
	if bad != nil {
		s.refuse(w, *bad, nil)
		return
	}
	s.load(q.Model)
	a := newAnswer(s, q, f, w)
	if !q.Stream {
		a.whole(r)
		return
	}
	a.stream(r)
}

// read parses and validates a body.
func (s *Server) read(body []byte) (*request, *refusal) {
	q, bad := validate(s.opt.Dialect, body)
	if bad != nil {
		return nil, bad
	}
	for _, k := range s.opt.Refuses {
		if q.keys[k] != nil {
			return nil, &refusal{status: 400, words: "Unsupported parameter: '" + k + "' is not supported with this model.", kind: "invalid_request_error", param: k, code: "unsupported_parameter"}
		}
	}
	return q, nil
}

// of converts a brain's error to a refusal.
func (s *Server) of(err error) (refusal, *parley.Error) {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok {
		return refusal{status: 500, words: "The server had an error while processing your request.", kind: "server_error"}, nil
	}
	no := refusal{words: e.Message}
	switch e.Code {
	case parley.CodeRateLimited:
		no.status, no.kind, no.code = 429, "requests", "rate_limit_exceeded"
	case parley.CodeUnavailable:
		no.status, no.kind = 503, "server_error"
	case parley.CodeInvalid:
		no.status, no.kind = 400, "invalid_request_error"
	case parley.CodeUnauthenticated:
		no = s.d.badKey
	case parley.CodeForbidden:
		no.status, no.kind = 403, "permission_error"
	case parley.CodeNotFound:
		no = s.d.noModel("it")
	case parley.CodeTooLarge:
		no.status, no.kind, no.code = 400, "invalid_request_error", "context_length_exceeded"
		no.words = "This model's maximum context length is 32768 tokens: " + e.Message
		switch s.opt.Dialect {
		case Gemini:
			no.words, no.code = "The input token count (40000) exceeds the maximum number of tokens allowed (32768).", ""
		case LlamaCpp:
			no.kind = "exceed_context_size_error"
		}
	default:
		no.status, no.kind = 500, "server_error"
	}
	return no, e
}

// refuse answers with an error before the stream has started.
func (s *Server) refuse(w http.ResponseWriter, no refusal, e *parley.Error) {
	if e != nil && e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	writeJSON(w, no.status, s.d.shape(no))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(v))
}
