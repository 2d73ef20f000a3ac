package mistral

import (
	"encoding/json"
	"strings"

	"github.com/parley-server/parley"
)

// A failure is an error from Mistral, in any of its shapes: message is a text or an object with
// a detail, code is a text or a number, and a request that violates the schema has a list of
// details instead.
type failure struct {
	Object  string          `json:"object"`
	Message json.RawMessage `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"`
	Detail  json.RawMessage `json:"detail"`
	Error   json.RawMessage `json:"error"`
}

// words returns the failure's message, or "" if none is found.
func (f failure) words() string {
	for _, raw := range []json.RawMessage{f.Message, f.Detail, f.Error} {
		if s := sentence(raw, 0); s != "" {
			return s
		}
	}
	return ""
}

// code returns the code of a failure, without quotes.
func (f failure) code() string { return strings.Trim(string(f.Code), `"`) }

// sentence finds the text in a message of any shape.
func sentence(raw json.RawMessage, depth int) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if depth > 3 {
		return ""
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		var all []string
		for _, one := range list[:min(len(list), 8)] {
			if s := sentence(one, depth+1); s != "" {
				all = append(all, s)
			}
		}
		return strings.Join(all, "; ")
	}
	var o struct {
		Message json.RawMessage   `json:"message"`
		Detail  json.RawMessage   `json:"detail"`
		Msg     string            `json:"msg"`
		Loc     []json.RawMessage `json:"loc"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	if o.Msg != "" {
		var at []string
		for _, l := range o.Loc {
			at = append(at, strings.Trim(string(l), `"`))
		}
		if at == nil {
			return o.Msg
		}
		return strings.Join(at, ".") + ": " + o.Msg
	}
	if s := sentence(o.Message, depth+1); s != "" {
		return s
	}
	return sentence(o.Detail, depth+1)
}

// refusal parses the body of an answer whose status is not 2xx.
func refusal(status int, body []byte) (parley.Code, string) {
	var f failure
	if json.Unmarshal(body, &f) != nil {
		text := strings.TrimSpace(string(body))
		if strings.HasPrefix(text, "<") {
			text = "" // a page from a proxy in between
		}
		return "", text
	}
	return refused(status, f), f.words()
}

// refused chooses another code than the status means, if the body says more.
func refused(status int, f failure) parley.Code {
	words := strings.ToLower(f.words())
	switch {
	case status == 400 && (f.Type == "invalid_model" || f.code() == "1500"):
		return parley.CodeNotFound
	case status == 400 && strings.Contains(words, "too large for model"), status == 400 && strings.Contains(words, "maximum context length"):
		return parley.CodeTooLarge
	case status == 500 && f.code() == "3000":
		// A handoff that failed at the provider is the provider's fault; trying again may help.
		return parley.CodeUnavailable
	}
	return ""
}
