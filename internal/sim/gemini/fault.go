package gemini

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/parley-server/parley"
)

// Error is a rejection in the provider's words.
type Error struct {
	Status  string // such as INVALID_ARGUMENT
	Message string
	HTTP    int    // 0: the usual one for Status
	Reason  string // the reason of an ErrorInfo, if any
	Retry   time.Duration
}

func (e *Error) Error() string { return e.Status + ": " + e.Message }

func invalid(format string, args ...any) *Error {
	return &Error{Status: "INVALID_ARGUMENT", Message: fmt.Sprintf(format, args...)}
}

func badKey(message string) *Error {
	return &Error{Status: "INVALID_ARGUMENT", Message: message, Reason: "API_KEY_INVALID"}
}

var statuses = map[string]int{
	"INVALID_ARGUMENT": 400, "FAILED_PRECONDITION": 400, "OUT_OF_RANGE": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "NOT_FOUND": 404,
	"ABORTED": 409, "RESOURCE_EXHAUSTED": 429, "CANCELLED": 499, "INTERNAL": 500, "UNKNOWN": 500, "UNAVAILABLE": 503, "DEADLINE_EXCEEDED": 504,
}

func (e *Error) http() int {
	switch {
	case e.HTTP != 0:
		return e.HTTP
	case statuses[e.Status] != 0:
		return statuses[e.Status]
	}
	return http.StatusInternalServerError
}

func (e *Error) body() map[string]any {
	in := map[string]any{"code": e.http(), "message": e.Message, "status": e.Status}
	var details []any
	if e.Reason != "" {
		details = append(details, map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": e.Reason, "domain": "googleapis.com",
			"metadata": map[string]string{"service": "generativelanguage.googleapis.com"},
		})
	}
	if e.Status == "RESOURCE_EXHAUSTED" {
		details = append(details, map[string]any{
			"@type": "type.googleapis.com/google.rpc.QuotaFailure",
			"violations": []any{map[string]string{
				"quotaMetric": "generativelanguage.googleapis.com/generate_requests", "quotaId": "GenerateRequestsPerMinutePerProjectPerModel",
			}},
		})
	}
	if e.Retry > 0 {
		details = append(details, map[string]any{
			"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": strconv.FormatFloat(e.Retry.Seconds(), 'f', -1, 64) + "s",
		})
	}
	if details != nil {
		in["details"] = details
	}
	return map[string]any{"error": in}
}

func refuse(w http.ResponseWriter, e *Error) { answer(w, e.http(), e.body()) }

// refusalOf converts an error of the brain.
func refusalOf(err error) *Error {
	p, ok := errors.AsType[*parley.Error](err)
	if !ok {
		return &Error{Status: "INTERNAL", Message: "An internal error has occurred. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"}
	}
	e := &Error{Status: "UNAVAILABLE", Message: p.Message, Retry: p.RetryAfter}
	switch p.Code {
	case parley.CodeInvalid:
		e.Status = "INVALID_ARGUMENT"
	case parley.CodeUnauthenticated:
		return badKey("API key not valid. Please pass a valid API key.")
	case parley.CodeForbidden:
		e.Status = "PERMISSION_DENIED"
	case parley.CodeNotFound:
		e.Status = "NOT_FOUND"
	case parley.CodeTooLarge:
		return invalid("The input token count (%d) exceeds the maximum number of tokens allowed (%d).", 1_200_000, 1_048_576)
	case parley.CodeRateLimited:
		e.Status = "RESOURCE_EXHAUSTED"
	case parley.CodeModel, parley.CodeInternal:
		e.Status = "INTERNAL"
	}
	return e
}

// Then is a failure in the middle of an answer.
type Then string

const (
	ThenCut   Then = "cut"   // the connection breaks
	ThenEnd   Then = "end"   // the answer ends cleanly
	ThenChunk Then = "chunk" // a chunk that cannot be read
	ThenError Then = "error" // a chunk with Fault.Error
	ThenBare  Then = "bare"  // a bare error object, outside any chunk
)

// Fault is a failure of one request for content.
type Fault struct {
	// Status rejects the request, with Error or with Body.
	Status int
	Error  Error
	Body   string
	Header http.Header // added to the usual headers, or replacing them
	// Finish and Why end the answer for another reason than the brain's. Blocked means that the
	// prompt was blocked and there is no answer.
	Finish  string
	Why     string
	Blocked string
	// Then happens After so many chunks.
	After int
	Then  Then
}

// Fault makes the next requests for content fail, one fault each.
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
		e := f.Error
		e.HTTP = f.Status
		for s, status := range statuses {
			if e.Status == "" && status == f.Status && s != "FAILED_PRECONDITION" && s != "OUT_OF_RANGE" {
				e.Status = s
			}
		}
		refuse(w, &e)
		return true
	}
	return false
}
