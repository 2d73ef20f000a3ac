package gemini

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// anySignature is accepted instead of a signature, on calls made by other models.
const anySignature = "skip_thought_signature_validator"

// sign signs what a model has said, so that changes can be detected when it comes back.
func sign(m *Model, said ...string) string {
	h := hmac.New(sha256.New, []byte("the provider's secret"))
	fmt.Fprintf(h, "%s\x00", m.ID)
	for _, s := range said {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func signCall(m *Model, name string, args json.RawMessage) string {
	return sign(m, "call", name, canonical(args))
}

// canonical rewrites JSON in a canonical form.
func canonical(raw json.RawMessage) string {
	var v any
	if len(raw) == 0 {
		return "{}"
	}
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	out, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(out)
}

// checkSignatures checks a history: signed parts are unchanged, and in the steps since the
// user's last message, the first call of each is signed.
func checkSignatures(r *request, m *Model) *Error {
	if !m.Seals {
		return nil
	}
	turn := 0
	for i, c := range r.Contents {
		for _, p := range c.Parts {
			if c.Role != "model" && p.Response == nil {
				turn = i
			}
		}
	}
	for i, c := range r.Contents {
		if c.Role != "model" {
			continue
		}
		first, text := true, ""
		for j, p := range c.Parts {
			switch {
			case p.Call != nil:
				if p.Signature == "" && first && i > turn {
					return invalid("Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:%s`, position %d. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", p.Call.Name, j+1)
				}
				if p.Signature != "" && p.Signature != anySignature && p.Signature != signCall(m, p.Call.Name, p.Call.Args) {
					return corrupted
				}
				first = false
			case p.Text != nil && !p.Thought:
				text += *p.Text
				if p.Signature != "" && p.Signature != anySignature && p.Signature != sign(m, "text", text) {
					return corrupted
				}
			}
		}
	}
	return nil
}

var corrupted = invalid("Corrupted thought signature.")
