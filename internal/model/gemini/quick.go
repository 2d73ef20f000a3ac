package gemini

import "bytes"

// fast is the result of quick: strings without their quotes, values as they are.
type fast struct {
	text, model, usage []byte
	thought            bool
	parts              int
}

// quick parses the most common chunk: one candidate with one part that is a text or a thought,
// and no finish reason. ok is false for any other chunk, which encoding/json then parses and
// validates.
func quick(chunk []byte) (f fast, ok bool) {
	c := cursor{b: chunk}
	ok = c.object(func(key []byte) bool {
		switch string(key) {
		case "candidates":
			return f.parts == 0 && c.take('[') && c.object(func(key []byte) bool {
				switch string(key) {
				case "content":
					return f.parts == 0 && c.object(func(key []byte) bool {
						if string(key) == "role" {
							_, ok := c.str()
							return ok
						}
						f.parts++
						return string(key) == "parts" && f.parts == 1 && c.take('[') && c.part(&f) && c.take(']')
					})
				case "index":
					return c.take('0')
				}
				return false
			}) && c.take(']')
		case "modelVersion":
			f.model, ok = c.str()
			return ok
		case "responseId":
			_, ok := c.str()
			return ok
		case "usageMetadata":
			f.usage, ok = c.value()
			return ok
		}
		return false
	})
	c.space()
	return f, ok && f.parts == 1 && c.i == len(c.b)
}

// part parses {"text":"..."}, optionally with "thought":true.
func (c *cursor) part(f *fast) bool {
	found := false
	return c.object(func(key []byte) bool {
		switch string(key) {
		case "text":
			again := found
			f.text, found = c.str()
			return found && !again
		case "thought":
			f.thought = true
			return c.word("true")
		}
		return false
	}) && found
}

type cursor struct {
	b []byte
	i int
}

func (c *cursor) space() {
	for c.i < len(c.b) && (c.b[c.i] == ' ' || c.b[c.i] == '\n' || c.b[c.i] == '\t' || c.b[c.i] == '\r') {
		c.i++
	}
}

func (c *cursor) take(ch byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == ch {
		c.i++
		return true
	}
	return false
}

func (c *cursor) word(w string) bool {
	c.space()
	if !bytes.HasPrefix(c.b[c.i:], []byte(w)) {
		return false
	}
	c.i += len(w)
	return true
}

// object parses an object and calls member with each key to parse its value.
func (c *cursor) object(member func(key []byte) bool) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	for {
		key, ok := c.str()
		if !ok || !c.take(':') || !member(key) {
			return false
		}
		if c.take('}') {
			return true
		}
		if !c.take(',') {
			return false
		}
	}
}

// str parses a string and returns what is between its quotes.
func (c *cursor) str() ([]byte, bool) {
	if !c.take('"') {
		return nil, false
	}
	start := c.i
	for ; c.i < len(c.b); c.i++ {
		switch ch := c.b[c.i]; {
		case ch == '"':
			s := c.b[start:c.i]
			c.i++
			return s, true
		case ch == '\\':
			c.i++ // the escape is validated by its reader
		case ch < ' ':
			return nil, false
		}
	}
	return nil, false
}

// value skips an object by matching braces and returns it unparsed. It is validated at the end
// of the stream, because the next chunk's usually replaces it.
func (c *cursor) value() ([]byte, bool) {
	c.space()
	start, depth := c.i, 0
	for c.i < len(c.b) {
		switch c.b[c.i] {
		case '"':
			if _, ok := c.str(); !ok {
				return nil, false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.i++
		if depth == 0 {
			v := c.b[start:c.i]
			return v, v[0] == '{'
		}
	}
	return nil, false
}
