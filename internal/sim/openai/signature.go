package openai

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// anySignature is accepted by Gemini instead of a signature, for calls made by other models.
const anySignature = "skip_thought_signature_validator"

// signature signs what was said, so that changes can be detected when it comes back.
func signature(said ...string) string {
	h := sha256.New()
	for _, s := range said {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// signed checks Gemini's rule: in the steps since the user's last message, the first call of
// each has its original signature.
func (q *request) signed() *refusal {
	from := 0
	for i, m := range q.Messages {
		if m.Role == "user" {
			from = i
		}
	}
	for i, m := range q.Messages[from:] {
		for n, c := range m.Calls {
			sig := c.Extra.Google.Signature
			if sig == "" && n > 0 {
				continue
			}
			if sig == "" {
				return bad("", "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly. Additional data, function call `default_api:%s`, position %d.", c.Function.Name, from+i)
			}
			if sig != anySignature && sig != signature(c.Function.Name, compact(c.args)) {
				return bad("", "Corrupted thought signature.")
			}
		}
	}
	return nil
}

// compact rewrites JSON in a canonical form.
func compact(raw string) string {
	var v any
	if json.Unmarshal([]byte(raw), &v) != nil {
		return raw
	}
	return string(marshal(v))
}

// replayed checks OpenRouter's reasoning when it comes back.
func replayed(details []json.RawMessage) bool {
	for _, raw := range details {
		var d struct {
			Type      string `json:"type"`
			Text      string `json:"text"`
			Signature string `json:"signature"`
		}
		if json.Unmarshal(raw, &d) != nil || d.Type != "reasoning.text" || d.Signature != signature(d.Text) {
			return false
		}
	}
	return true
}
