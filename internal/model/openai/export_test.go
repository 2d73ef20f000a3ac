package openai

import "encoding/json"

// Quick returns what the fast path reads from a frame.
func Quick(frame []byte) (content, reasoning string, ok bool) {
	q, ok := quick(frame)
	return string(unescaped(q.content)), string(unescaped(q.reasoning)), ok
}

// Slow is what encoding/json reads from it. plain means that it contains nothing else that
// matters.
func Slow(frame []byte) (content, reasoning string, plain bool, err error) {
	var c chunk
	if err := json.Unmarshal(frame, &c); err != nil {
		return "", "", false, err
	}
	plain = c.Usage == nil && (len(c.Error) == 0 || string(c.Error) == "null") && string(c.Object) != "error" && len(c.Choices) < 2
	if len(c.Choices) == 1 {
		ch := c.Choices[0]
		plain = plain && len(ch.Finish) == 0 && ch.Message == nil && len(ch.Delta.Calls) == 0 && len(ch.Delta.Details) == 0 && len(ch.Delta.Refusal) == 0
		reasoning := ch.Delta.Reasoning
		if len(reasoning) == 0 {
			reasoning = ch.Delta.ReasoningContent
		}
		return string(ch.Delta.Content), string(reasoning), plain, nil
	}
	return "", "", plain, nil
}
