package gemini

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/parley-server/parley"
)

// failure is an error object (google.rpc.Status), in an error response or in a stream.
type failure struct {
	Code    int      `json:"code"`
	Message string   `json:"message"`
	Status  string   `json:"status"`
	Details []detail `json:"details"`
}

// detail is any of the detail types: ErrorInfo has a reason, RetryInfo a delay.
type detail struct {
	Type       string `json:"@type"`
	Reason     string `json:"reason"`
	RetryDelay string `json:"retryDelay"`
}

// failureOf parses the body of an error response: an object, or a list with one object if the
// provider assumed a stream.
func failureOf(body []byte) (failure, bool) {
	type answer struct {
		Error *failure `json:"error"`
	}
	var one answer
	if body = bytes.TrimSpace(body); len(body) > 0 && body[0] == '[' {
		var many []answer
		if json.Unmarshal(body, &many) != nil || len(many) == 0 {
			return failure{}, false
		}
		one = many[0]
	} else if json.Unmarshal(body, &one) != nil {
		return failure{}, false
	}
	if one.Error == nil {
		return failure{}, false
	}
	return *one.Error, true
}

// code returns our code for a failure. INVALID_ARGUMENT is also used for a wrong key and for a
// prompt that is too long, so the message decides.
func (f failure) code() parley.Code {
	words := strings.ToLower(f.Message)
	for _, d := range f.Details {
		switch d.Reason {
		case "API_KEY_INVALID", "API_KEY_EXPIRED", "CREDENTIALS_MISSING", "ACCESS_TOKEN_EXPIRED":
			return parley.CodeUnauthenticated
		}
	}
	switch f.Status {
	case "INVALID_ARGUMENT", "OUT_OF_RANGE":
		switch {
		case strings.Contains(words, "api key not valid"), strings.Contains(words, "api key expired"):
			return parley.CodeUnauthenticated
		case strings.Contains(words, "token count") && strings.Contains(words, "exceeds"), strings.Contains(words, "payload size exceeds"):
			return parley.CodeTooLarge
		}
		return parley.CodeInvalid
	case "UNAUTHENTICATED":
		return parley.CodeUnauthenticated
	case "PERMISSION_DENIED":
		if strings.Contains(words, "unregistered callers") { // no key at all
			return parley.CodeUnauthenticated
		}
		return parley.CodeForbidden
	case "FAILED_PRECONDITION": // a region that is not served, or an unpaid bill
		return parley.CodeForbidden
	case "NOT_FOUND":
		return parley.CodeNotFound
	case "RESOURCE_EXHAUSTED":
		return parley.CodeRateLimited
	case "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED", "ABORTED", "UNKNOWN", "CANCELLED", "DATA_LOSS":
		return parley.CodeUnavailable
	}
	return ""
}

// maxDelay limits a requested delay, as for the headers.
const maxDelay = 24 * time.Hour

// delay is how long the provider asks clients to wait; 0 if it does not say.
func (f failure) delay() time.Duration {
	for _, d := range f.Details {
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			return min(wait, maxDelay)
		}
	}
	return 0
}

func (f failure) retry(e *parley.Error) *parley.Error {
	if e.RetryAfter == 0 && (e.Code == parley.CodeRateLimited || e.Code == parley.CodeUnavailable) {
		e.RetryAfter = f.delay()
	}
	return e
}

// refusal is the Error for an answer whose status is not 2xx.
func (c *Client) refusal(resp *http.Response) *parley.Error {
	var f failure
	e := c.said.Refusal(resp, func(_ int, body []byte) (parley.Code, string) {
		var ok bool
		if f, ok = failureOf(body); !ok {
			return "", "" // a proxy's page, not the provider's words
		}
		return f.code(), f.Message
	})
	return f.retry(e)
}

// interrupted is the Error for a failure within a 2xx answer.
func (c *Client) interrupted(f failure) *parley.Error {
	code := f.code()
	if code == "" {
		code = parley.CodeUnavailable
	}
	return f.retry(c.said.Refused(code, f.Message))
}
