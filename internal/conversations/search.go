package conversations

import (
	"bytes"
	"encoding/json"
	"strings"
)

// fold is text as it is compared: in lower case, with single spaces.
func fold(text string) string { return strings.Join(strings.Fields(strings.ToLower(text)), " ") }

// unsaid are fields whose values nobody wrote.
var unsaid = map[string]bool{"id": true, "role": true, "type": true, "status": true, "session_id": true, "sessionId": true}

// says reports whether a text in JSON contains the folded words.
func says(raw []byte, words string) bool {
	return walk(raw, func(key, text string) bool { return !unsaid[key] && strings.Contains(fold(text), words) })
}

// tooDeep reports whether JSON is nested more than maxDepth deep.
func tooDeep(raw []byte) bool {
	depth, within := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case within && b == '\\':
			i++
		case b == '"':
			within = !within
		case within:
		case b == '[' || b == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case b == ']' || b == '}':
			depth--
		}
	}
	return false
}

// walk calls found for each text in valid JSON, with the name of the field that it is the value
// of, until found returns true.
func walk(raw []byte, found func(key, text string) bool) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	type level struct {
		object bool
		key    string
		named  bool // the next text is a value
	}
	var at []level
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		var top *level
		if len(at) > 0 {
			top = &at[len(at)-1]
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == ']' || v == '}' {
				at = at[:len(at)-1]
				continue
			}
			key := ""
			if top != nil {
				key = top.key // a list's texts belong to the field that has the list
				top.named = false
			}
			at = append(at, level{object: v == '{', key: key})
		case string:
			switch {
			case top == nil:
				return found("", v)
			case top.object && !top.named:
				top.key, top.named = v, true
				continue
			case found(top.key, v):
				return true
			}
			top.named = false
		default:
			if top != nil {
				top.named = false
			}
		}
	}
}
