package anthropic

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/parley-server/parley"
)

// failure is an error object, in an error response or in a stream.
type failure struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Details struct {
		ErrorCode string `json:"error_code"`
	} `json:"details"`
}

// code returns our code for a type of error. The type takes precedence over the status, because
// an error in a stream comes with status 200.
func (f failure) code() parley.Code {
	words := strings.ToLower(f.Message)
	switch f.Type {
	case "invalid_request_error":
		switch {
		case strings.Contains(words, "prompt is too long"), strings.Contains(words, "exceed context limit"):
			return parley.CodeTooLarge
		case strings.Contains(words, "credit balance"), strings.Contains(words, "usage limits"), strings.Contains(words, "spend limit"):
			return parley.CodeForbidden
		}
		return parley.CodeInvalid
	case "authentication_error":
		return parley.CodeUnauthenticated
	case "billing_error", "permission_error":
		return parley.CodeForbidden
	case "not_found_error":
		return parley.CodeNotFound
	case "request_too_large":
		return parley.CodeTooLarge
	case "rate_limit_error":
		// A monthly spend limit does not lift within a minute.
		if f.Details.ErrorCode == "enforced_spend_limit_reached" {
			return parley.CodeForbidden
		}
		return parley.CodeRateLimited
	case "api_error", "timeout_error", "overloaded_error", "conflict":
		return parley.CodeUnavailable
	}
	return ""
}

// refusal is the Error for an answer whose status is not 2xx.
func (c *Client) refusal(resp *http.Response) *parley.Error {
	id := resp.Header.Get("Request-Id")
	e := c.said.Refusal(resp, func(_ int, body []byte) (parley.Code, string) {
		var b struct {
			Error failure `json:"error"`
		}
		if json.Unmarshal(body, &b) != nil {
			return "", "" // a proxy's page, not the provider's words
		}
		return b.Error.code(), b.Error.Message
	})
	if id != "" {
		e.Err = errors.New("request " + c.said.Words(id))
	}
	return e
}

// interrupted is the Error for an error event in a stream.
func (c *Client) interrupted(f failure) *parley.Error {
	code := f.code()
	if code == "" {
		code = parley.CodeUnavailable
	}
	return c.said.Refused(code, f.Message)
}
