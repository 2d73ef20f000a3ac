// Package anthropic simulates Anthropic's Messages API around a model of ours, for tests without
// a network.
//
//	srv := httptest.NewServer(anthropic.New(anthropic.Options{Key: "k", Brain: brain}))
//
// A [Server] answers POST /v1/messages (streamed or whole), POST /v1/messages/count_tokens and
// GET /v1/models. It is strict: it rejects what the provider would reject, with the same status
// and error body, above all a history that violates the provider's rules ([Validate]). Thinking
// is signed, and must come back unchanged or not at all. The brain's stream becomes the API's
// stream.
//
// [Server.Fault] simulates the provider's failures, once for each fault. The server starts no
// goroutine. All methods are safe for concurrent use.
//
// Of beta features, those that the Claude CLI uses are accepted from requests that name any: settings
// of what the context keeps, messages of the system in between, and updates of thoughts.
//
// Not simulated: batches, files, other beta features, and tools that the provider runs. A brain may
// return the blocks of such tools as parts of its reply.
package anthropic

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parley-server/parley/internal/seam"
)

// Options are the settings of a Server.
type Options struct {
	Brain  seam.Model // the model that answers; required
	Key    string     // empty: any key is accepted
	Models []Model    // nil: Known()
	// Asked is called with every request for a message, as received and as the brain will see
	// it. It may change the latter: the API does not transmit the agent's name.
	Asked func(body []byte, r *seam.Request)
	// ID makes the ids of messages and calls; nil: they are numbered from 1.
	ID func(prefix string) string
}

// Model is a model of the simulated provider, with its capabilities.
type Model struct {
	ID        string
	MaxInput  int64
	MaxTokens int64
	Adaptive  bool // thinks by an effort
	Enabled   bool // thinks within a token budget
	Effort    bool
	Sampling  bool // accepts a temperature other than 1
	Prefill   bool // can continue an assistant's message
	NoMedia   bool // does not accept images and documents
}

// Known returns some models of each generation.
func Known() []Model {
	return []Model{
		{ID: "claude-sonnet-5-5", MaxInput: 1_000_000, MaxTokens: 128_000, Adaptive: true, Effort: true},
		{ID: "claude-opus-5-5", MaxInput: 1_000_000, MaxTokens: 128_000, Adaptive: true, Effort: true},
		{ID: "claude-haiku-5-5", MaxInput: 400_000, MaxTokens: 64_000, Adaptive: true, Effort: true},
		{ID: "claude-sonnet-4-6", MaxInput: 1_000_000, MaxTokens: 64_000, Adaptive: true, Enabled: true, Effort: true, Sampling: true},
		{ID: "claude-haiku-4-5", MaxInput: 200_000, MaxTokens: 64_000, Enabled: true, Sampling: true, Prefill: true},
	}
}

// Counts are the totals so far.
type Counts struct {
	Requests int // of any kind
	Messages int // accepted requests for a message
}

// Server simulates the provider. It is an http.Handler.
type Server struct {
	opt Options

	mu     sync.Mutex
	counts Counts
	faults []Fault
	ids    int
}

// New returns a Server.
func New(o Options) *Server {
	if o.Models == nil {
		o.Models = Known()
	}
	return &Server{opt: o}
}

// Counts returns the totals so far.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

func (s *Server) count(f func(*Counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.counts)
}

// id makes an id in the provider's form.
func (s *Server) id(prefix string) string {
	if s.opt.ID != nil {
		return s.opt.ID(prefix)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return fmt.Sprintf("%s_01%022d", prefix, s.ids)
}

func (s *Server) model(id string) *Model {
	if i := slices.IndexFunc(s.opt.Models, func(m Model) bool { return m.ID == id }); i >= 0 {
		return &s.opt.Models[i]
	}
	return nil
}

// maxBody is the provider's limit for a request.
const maxBody = 32 << 20

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count(func(c *Counts) { c.Requests++ })
	w.Header().Set("Request-Id", s.id("req"))
	w.Header().Set("Anthropic-Organization-Id", "00000000-0000-4000-8000-000000000000")
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if e := s.admit(r); e != nil {
		refuse(w, e)
		return
	}
	if len(body) > maxBody {
		refuse(w, &Error{Type: "request_too_large", Message: "Request exceeds the maximum size"})
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	id, one := strings.CutPrefix(path, "/v1/models/")
	switch {
	case path == "/v1/messages" && r.Method == http.MethodPost:
		s.messages(w, r, body)
	case path == "/v1/messages/count_tokens" && r.Method == http.MethodPost:
		s.countTokens(w, r, body)
	case path == "/v1/models" && r.Method == http.MethodGet:
		s.models(w, r.URL.Query())
	case one && r.Method == http.MethodGet:
		m := s.model(id)
		if m == nil {
			refuse(w, &Error{Type: "not_found_error", Message: "model: " + id})
			return
		}
		answer(w, http.StatusOK, m.object())
	default:
		refuse(w, &Error{Type: "not_found_error", Message: "Not Found"})
	}
}

// admit checks the credentials and headers.
func (s *Server) admit(r *http.Request) *Error {
	key := r.Header.Get("X-Api-Key")
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && key == "" {
		key = bearer
	}
	switch {
	case key == "":
		return &Error{Type: "authentication_error", Message: "x-api-key header is required"}
	case s.opt.Key != "" && key != s.opt.Key:
		return &Error{Type: "authentication_error", Message: "invalid x-api-key"}
	case r.Header.Get("Anthropic-Version") == "":
		return invalid("anthropic-version: header is required")
	case r.Header.Get("Anthropic-Version") != "2023-06-01":
		return invalid("anthropic-version: %q is not a valid version", r.Header.Get("Anthropic-Version"))
	case r.Method == http.MethodPost && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return invalid("Content-Type: Input should be 'application/json'")
	}
	return nil
}

func (s *Server) countTokens(w http.ResponseWriter, r *http.Request, body []byte) {
	req, e := parse(body, true, r.Header.Get("Anthropic-Beta") != "")
	if e == nil {
		e = s.fits(req)
	}
	if e != nil {
		refuse(w, e)
		return
	}
	answer(w, http.StatusOK, map[string]int64{"input_tokens": guess(body)})
}

// guess estimates a request's tokens.
func guess(body []byte) int64 { return int64(len(body))/4 + 1 }

func (m Model) object() map[string]any {
	yes := func(b bool) map[string]bool { return map[string]bool{"supported": b} }
	line := "sonnet"
	for _, l := range []string{"haiku", "opus"} {
		if strings.Contains(m.ID, l) {
			line = l
		}
	}
	return map[string]any{
		"type": "model", "id": m.ID, "display_name": m.ID, "created_at": "2026-06-01T00:00:00Z", "line": line, "lifecycle": "active",
		"deprecated_at": nil, "retires_at": nil, "max_input_tokens": m.MaxInput, "max_tokens": m.MaxTokens,
		"capabilities": map[string]any{
			"batch": yes(true), "citations": yes(true), "code_execution": yes(false), "structured_outputs": yes(true),
			"image_input": yes(!m.NoMedia), "pdf_input": yes(!m.NoMedia),
			"context_management": yes(false),
			"effort": map[string]any{
				"supported": m.Effort, "low": yes(m.Effort), "medium": yes(m.Effort), "high": yes(m.Effort), "xhigh": yes(m.Effort), "max": yes(m.Effort),
			},
			"server_tools": map[string]any{"supported": true, "web_search": yes(true), "code_execution": yes(false)},
			"thinking": map[string]any{"supported": m.Adaptive || m.Enabled, "types": map[string]any{
				"adaptive": yes(m.Adaptive), "enabled": yes(m.Enabled), "disabled": yes(true), "between_tools": yes(false),
			}},
		},
	}
}

func (s *Server) models(w http.ResponseWriter, q url.Values) {
	limit := 20
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 1000 {
			refuse(w, invalid("limit: Input should be between 1 and 1000"))
			return
		}
		limit = n
	}
	list := s.opt.Models
	if after := q.Get("after_id"); after != "" {
		i := slices.IndexFunc(list, func(m Model) bool { return m.ID == after })
		if i < 0 {
			refuse(w, invalid("after_id: no such model"))
			return
		}
		list = list[i+1:]
	}
	more := len(list) > limit
	list = list[:min(len(list), limit)]
	page := map[string]any{"data": []any{}, "has_more": more, "first_id": nil, "last_id": nil}
	var data []any
	for _, m := range list {
		data = append(data, m.object())
	}
	if data != nil {
		page["data"], page["first_id"], page["last_id"] = data, list[0].ID, list[len(list)-1].ID
	}
	answer(w, http.StatusOK, page)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
