// Package gemini simulates Google's Gemini API around a model of ours, for tests without a
// network.
//
//	srv := httptest.NewServer(gemini.New(gemini.Options{Key: "k", Brain: brain}))
//
// A [Server] answers generateContent, streamGenerateContent and countTokens of a model, and GET
// /v1beta/models. It is strict: it rejects what the provider would reject, with the same status
// and error body, above all a history that violates the provider's rules ([Validate]). Models
// since Gemini 3 sign the first call of a step, or otherwise the end of a text, and require it
// back unchanged. The brain's stream becomes the API's stream.
//
// [Server.Fault] simulates the provider's failures, once for each fault. The server starts no
// goroutine. All methods are safe for concurrent use.
//
// Not simulated: streams as a JSON list (without alt=sse), uploaded files, cached contents,
// batches, the live API, and tools that the provider runs. A brain may return the parts of such
// tools in its reply.
package gemini

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
	// Asked is called with every request for content, as received and as the brain will see it.
	// It may change the latter: the API does not transmit the agent's name.
	Asked func(body []byte, r *seam.Request)
}

// Model is a model of the simulated provider, with its capabilities.
type Model struct {
	ID        string
	MaxInput  int64
	MaxOutput int64
	Level     bool // accepts a thinking level
	NoMedium  bool // there is no level between low and high
	Budget    bool // accepts a thinking budget
	Seals     bool // signs calls and requires the signatures back
	NoIDs     bool // calls have no ids
}

// Known returns some models of each generation.
func Known() []Model {
	return []Model{
		{ID: "gemini-3.8-flash", MaxInput: 1_048_576, MaxOutput: 65_536, Level: true, Budget: true, Seals: true},
		{ID: "gemini-3.1-pro-preview", MaxInput: 1_048_576, MaxOutput: 65_536, Level: true, Budget: true, Seals: true},
		{ID: "gemini-3-pro-preview", MaxInput: 1_048_576, MaxOutput: 65_536, Level: true, NoMedium: true, Budget: true, Seals: true},
		{ID: "gemini-2.5-flash", MaxInput: 1_048_576, MaxOutput: 65_536, Budget: true, NoIDs: true},
		{ID: "gemini-2.0-flash", MaxInput: 1_048_576, MaxOutput: 8192, NoIDs: true},
	}
}

// Counts are the totals so far.
type Counts struct {
	Requests int // of any kind
	Contents int // accepted requests for content
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

// id makes a unique id.
func (s *Server) id(format string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return fmt.Sprintf(format, s.ids)
}

func (s *Server) model(id string) *Model {
	if i := slices.IndexFunc(s.opt.Models, func(m Model) bool { return m.ID == id }); i >= 0 {
		return &s.opt.Models[i]
	}
	return nil
}

// maxBody is the provider's limit for a request.
const maxBody = 20 << 20

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count(func(c *Counts) { c.Requests++ })
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if e := s.admit(r); e != nil {
		refuse(w, e)
		return
	}
	if len(body) > maxBody {
		refuse(w, invalid("Request payload size exceeds the limit: %d bytes. Please reduce the batch size.", maxBody))
		return
	}
	if r.URL.Path == "/v1beta/models" && r.Method == http.MethodGet {
		s.list(w, r.URL.Query())
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/v1beta/models/")
	if !ok {
		refuse(w, nowhere)
		return
	}
	id, method, _ := strings.Cut(name, ":")
	m := s.model(id)
	if m == nil {
		refuse(w, &Error{Status: "NOT_FOUND", Message: fmt.Sprintf(
			"models/%s is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", id)})
		return
	}
	switch {
	case method == "" && r.Method == http.MethodGet:
		answer(w, http.StatusOK, m.object())
	case r.Method != http.MethodPost:
		refuse(w, nowhere)
	case method == "generateContent":
		s.content(w, r, body, m, false)
	case method == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		s.content(w, r, body, m, true)
	case method == "countTokens":
		s.countTokens(w, body, m)
	default:
		refuse(w, nowhere)
	}
}

// nowhere is the error for an unknown path. The real provider answers with an HTML page.
var nowhere = &Error{Status: "NOT_FOUND", Message: "The requested URL was not found on this server."}

// admit checks the credentials and headers.
func (s *Server) admit(r *http.Request) *Error {
	key := r.Header.Get("X-Goog-Api-Key")
	if key == "" {
		key = r.URL.Query().Get("key")
	}
	switch {
	case key == "":
		return &Error{Status: "PERMISSION_DENIED", Message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."}
	case s.opt.Key != "" && key != s.opt.Key:
		return badKey("API key not valid. Please pass a valid API key.")
	case r.Method == http.MethodPost && !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return invalid("Invalid content type.")
	}
	return nil
}

func (s *Server) countTokens(w http.ResponseWriter, body []byte, m *Model) {
	var in struct {
		Contents json.RawMessage `json:"contents"`
		Whole    json.RawMessage `json:"generateContentRequest"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		refuse(w, invalid("Invalid JSON payload received. %v", err))
		return
	}
	switch {
	case in.Whole != nil && in.Contents != nil:
		refuse(w, invalid("contents and generateContentRequest are mutually exclusive."))
		return
	case in.Whole != nil:
		var named struct{ Model string }
		if json.Unmarshal(in.Whole, &named) != nil || named.Model != "models/"+m.ID {
			refuse(w, invalid("* CountTokensRequest.model: unexpected model name %q", named.Model))
			return
		}
	default:
		in.Whole, _ = json.Marshal(map[string]json.RawMessage{"contents": in.Contents}) // already parsed
	}
	if _, e := parse(in.Whole, m); e != nil {
		refuse(w, e)
		return
	}
	answer(w, http.StatusOK, map[string]any{"totalTokens": guess(body), "promptTokensDetails": []any{map[string]any{"modality": "TEXT", "tokenCount": guess(body)}}})
}

// guess estimates a request's tokens.
func guess(body []byte) int64 { return int64(len(body))/4 + 1 }

func (m Model) object() map[string]any {
	return map[string]any{
		"name": "models/" + m.ID, "version": "001", "displayName": m.ID, "description": "A model of the simulation.",
		"inputTokenLimit": m.MaxInput, "outputTokenLimit": m.MaxOutput, "temperature": 1, "topP": 0.95, "topK": 64, "maxTemperature": 2,
		"supportedGenerationMethods": []string{"generateContent", "countTokens", "createCachedContent", "batchGenerateContent"},
		"thinking":                   m.Level || m.Budget,
	}
}

func (s *Server) list(w http.ResponseWriter, q url.Values) {
	size := 50
	if v := q.Get("pageSize"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			refuse(w, invalid("* ListModelsRequest.page_size: must not be negative"))
			return
		}
		if n > 0 {
			size = min(n, 1000)
		}
	}
	from := 0
	if v := q.Get("pageToken"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > len(s.opt.Models) {
			refuse(w, invalid("* ListModelsRequest.page_token: invalid page token"))
			return
		}
		from = n
	}
	// The list also has embedding models, which cannot answer.
	all := []map[string]any{{"name": "models/gemini-embedding-001", "version": "001", "inputTokenLimit": 2048, "outputTokenLimit": 1, "supportedGenerationMethods": []string{"embedContent"}}}
	for _, m := range s.opt.Models {
		all = append(all, m.object())
	}
	to := min(from+size, len(all))
	page := map[string]any{"models": all[from:to]}
	if to < len(all) {
		page["nextPageToken"] = strconv.Itoa(to)
	}
	answer(w, http.StatusOK, page)
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
