package anthropic

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// Error is a rejection in the provider's words.
type Error struct {
	Type    string // such as invalid_request_error
	Message string
	Status  int // 0: the type's usual status
}

func (e *Error) Error() string { return e.Type + ": " + e.Message }

func invalid(format string, args ...any) *Error {
	return &Error{Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
}

var statuses = map[string]int{
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
	"request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504, "overloaded_error": 529,
}

func (e *Error) body(id string) map[string]any {
	return map[string]any{"type": "error", "error": map[string]string{"type": e.Type, "message": e.Message}, "request_id": id}
}

func refuse(w http.ResponseWriter, e *Error) {
	status := e.Status
	if status == 0 {
		status = statuses[e.Type]
	}
	if status == 0 {
		status = http.StatusInternalServerError
	}
	answer(w, status, e.body(w.Header().Get("Request-Id")))
}

// refusalOf converts an error of the brain, and returns how long to wait.
func refusalOf(err error) (*Error, time.Duration) {
	p, ok := errors.AsType[*parley.Error](err)
	if !ok {
		return &Error{Type: "api_error", Message: "Internal server error"}, 0
	}
	e := &Error{Type: "api_error", Message: p.Message}
	switch p.Code {
	case parley.CodeInvalid:
		e.Type = "invalid_request_error"
	case parley.CodeUnauthenticated:
		e.Type = "authentication_error"
	case parley.CodeForbidden:
		e.Type = "permission_error"
	case parley.CodeNotFound:
		e.Type = "not_found_error"
	case parley.CodeTooLarge:
		e.Type = "request_too_large"
	case parley.CodeRateLimited:
		e.Type = "rate_limit_error"
	case parley.CodeUnavailable:
		if strings.Contains(p.Message, "overloaded") {
			e.Type = "overloaded_error"
		}
	}
	return e, p.RetryAfter
}

func retryAfter(h http.Header, d time.Duration) {
	if d > 0 {
		h.Set("Retry-After", strconv.FormatFloat(math.Ceil(d.Seconds()), 'f', 0, 64))
	}
}

// Then is a failure in the middle of an answer.
type Then string

const (
	ThenCut   Then = "cut"   // the connection breaks
	ThenEnd   Then = "end"   // the answer ends cleanly
	ThenChunk Then = "chunk" // a chunk that cannot be read
	ThenError Then = "error" // an error event with Fault.Type
)

// Fault is a failure of one request for a message.
type Fault struct {
	// Status rejects the request, with Type and Message or with Body.
	Status  int
	Type    string
	Message string
	Body    string
	Header  http.Header // added to the usual headers, or replacing them
	// Then happens After so many events.
	After int
	Then  Then
}

// Fault makes the next requests for a message fail, one fault each.
func (s *Server) Fault(f ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f...)
}

func (s *Server) fault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return Fault{}
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f
}

// before applies the part of a fault that precedes reading the request. It returns true if that
// ended the request.
func (f Fault) before(w http.ResponseWriter) bool {
	for k, v := range f.Header {
		w.Header()[http.CanonicalHeaderKey(k)] = v
	}
	switch {
	case f.Status != 0 && f.Body != "":
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
		return true
	case f.Status != 0:
		e := &Error{Type: f.Type, Message: f.Message, Status: f.Status}
		for t, status := range statuses {
			if e.Type == "" && status == f.Status {
				e.Type = t
			}
		}
		refuse(w, e)
		return true
	}
	return false
}
