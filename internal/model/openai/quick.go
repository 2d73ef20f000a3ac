package openai

import "bytes"

// quick parses the most common frame: one choice with a piece of text or reasoning and nothing
// else that matters. ok is false for other frames, which encoding/json then parses and
// validates.
func quick(frame []byte) (q fast, ok bool) {
	c := cursor{b: frame}
	if !c.object(&q, (*cursor).top) {
		return fast{}, false
	}
	c.space()
	return q, c.i == len(c.b)
}

// fast is the result of quick: raw strings, without their quotes.
type fast struct {
	content, reasoning []byte
	field              string // field that contained the reasoning
	choices            bool
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

// object parses an object and calls member for each value.
func (c *cursor) object(q *fast, member func(*cursor, *fast, []byte) bool) bool {
	if !c.take('{') {
		return false
	}
	if c.take('}') {
		return true
	}
	for {
		key, ok := c.str()
		// encoding/json treats Choices and choice\u0073 as the same key.
		if !ok || !simple(key) || !c.take(':') || !member(c, q, key) {
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

func simple(key []byte) bool {
	for _, ch := range key {
		if ch != '_' && (ch < 'a' || ch > 'z') && (ch < '0' || ch > '9') {
			return false
		}
	}
	return true
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
			if c.i+1 >= len(c.b) || bytes.IndexByte([]byte(`"\/bfnrtu`), c.b[c.i+1]) < 0 {
				return nil, false
			}
			if c.b[c.i+1] == 'u' {
				if _, ok := hex4(c.b[c.i+2:]); !ok {
					return nil, false
				}
			}
			c.i++
		case ch < 0x20:
			return nil, false
		}
	}
	return nil, false
}

// plain parses a value that is not an object or array. The first byte says what it is.
func (c *cursor) plain() (first byte, ok bool) {
	c.space()
	if c.i >= len(c.b) {
		return 0, false
	}
	switch first = c.b[c.i]; first {
	case '"':
		_, ok = c.str()
		return first, ok
	case 'n':
		return first, c.word("null")
	case 't':
		return first, c.word("true")
	case 'f':
		return first, c.word("false")
	}
	start := c.i
	for c.i < len(c.b) && c.b[c.i] >= '0' && c.b[c.i] <= '9' {
		c.i++
	}
	// Other numbers, such as 01, are left to encoding/json.
	return first, c.i > start && (first != '0' || c.i == start+1)
}

func (c *cursor) word(w string) bool {
	if !bytes.HasPrefix(c.b[c.i:], []byte(w)) {
		return false
	}
	c.i += len(w)
	return true
}

func (c *cursor) null() bool {
	first, ok := c.plain()
	return ok && first == 'n'
}

func (c *cursor) top(q *fast, key []byte) bool {
	switch string(key) {
	case "choices":
		if q.choices {
			return false
		}
		q.choices = true
		return c.take('[') && c.object(q, (*cursor).choice) && c.take(']')
	case "usage", "error":
		return c.null()
	case "object":
		s, ok := c.str()
		return ok && string(s) != "error"
	}
	_, ok := c.plain()
	return ok
}

func (c *cursor) choice(q *fast, key []byte) bool {
	switch string(key) {
	case "delta":
		return c.object(q, (*cursor).delta)
	case "finish_reason", "message":
		return c.null()
	}
	_, ok := c.plain()
	return ok
}

func (c *cursor) delta(q *fast, key []byte) bool {
	switch string(key) {
	case "content":
		return c.piece(&q.content)
	case "reasoning", "reasoning_content":
		if q.reasoning != nil {
			return false
		}
		q.field = string(key)
		return c.piece(&q.reasoning)
	case "role":
		_, ok := c.plain()
		return ok
	}
	return c.null()
}

func (c *cursor) piece(to *[]byte) bool {
	c.space()
	if c.i < len(c.b) && c.b[c.i] == 'n' {
		return c.null()
	}
	if *to != nil {
		return false
	}
	s, ok := c.str()
	if ok && len(s) > 0 {
		*to = s
	}
	return ok
}
