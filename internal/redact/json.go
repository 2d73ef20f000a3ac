package redact

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns the document raw with the secrets in its strings and keys
// redacted, and whether there were any. All other bytes stay as they are:
// numbers, order, spacing, and how the rest of a string was escaped. A string
// that is the value of a key such as "password" is judged like an assignment.
//
// The values at the places named in opaque are of somebody else's making and
// must be sent back unchanged: they are never matched by shape. If a known value
// occurs in one, null takes the place of the whole. A place is the keys that lead
// to it, through arrays as if they were not there: "state" is a key of the document
// itself, "parts.signature" one of an object in parts, "*.state" one anywhere. The
// same keys elsewhere are ordinary: a tool may well call its secret "state".
//
// When there is nothing to redact it returns raw itself and allocates nothing.
// The result is valid when raw is. What is not JSON is redacted as plain text.
// Two keys that differ only in their secrets become equal.
func (r *Redactor) JSON(raw []byte, opaque ...string) ([]byte, bool) {
	d := document{t: r.table.Load(), b: view(raw)}
	var room [512]byte // enough for most strings with escapes, on the stack
	if !d.walk(opaque, room[:0]) {
		s, found := r.String(d.b)
		if !found {
			return raw, false
		}
		return []byte(s), true
	}
	if d.out == nil {
		return raw, false
	}
	return append(d.out, raw[d.copied:]...), true
}

// Knows reports whether a known value occurs in the JSON document raw.
func (r *Redactor) Knows(raw []byte) bool {
	d := document{t: r.table.Load()}
	return d.knows(view(raw))
}

type document struct {
	t      *table
	b      string
	out    []byte // nil until something was found
	copied int    // b[:copied] is dealt with
	spans  []span

	depth int                 // of objects
	keys  [opaqueDepth]string // of those, the key whose value we are in
}

// opaqueDepth bounds how many keys may name a place. Deeper ones are ordinary.
const opaqueDepth = 4

// walk goes from string to string, and reports false where this cannot be JSON.
func (d *document) walk(opaque []string, scratch []byte) bool {
	b := d.b
	secretAt := -1 // where the value of a key that names a secret begins
	for i := 0; ; {
		for i < len(b) && b[i] != '"' {
			switch c := b[i]; {
			case !structural[c]:
				return false
			case c == '{':
				d.depth++
			case c == '}':
				d.depth--
			}
			i++
		}
		if i == len(b) {
			return true
		}
		end, escaped := stringEnd(b, i)
		if end < 0 {
			return false
		}
		text := b[i+1 : end]
		if escaped {
			scratch = unescape(scratch[:0], text)
			text = view(scratch)
		}
		d.spans, _, _ = d.t.scan(text, 0, true, true, d.spans[:0])
		colon := skipSpace(b, end+1)
		if colon == len(b) || b[colon] != ':' {
			if i == secretAt && text != "" {
				if sp, ok := lookString(text); ok {
					d.spans = append(d.spans, sp)
				}
			}
			d.replace(i+1, end, escaped)
			i = end + 1
			continue
		}
		v := skipSpace(b, colon+1)
		if d.t.sensitive(text) {
			secretAt = v
		}
		skip := false
		if len(opaque) > 0 && !escaped && d.depth > 0 { // nobody who makes an opaque value escapes its key
			key := b[i+1 : end]
			if d.depth <= opaqueDepth {
				d.keys[d.depth-1] = key
			}
			for _, place := range opaque {
				skip = skip || d.at(place, key)
			}
		}
		d.replace(i+1, end, escaped)
		if i = colon + 1; skip {
			if i = valueEnd(b, v); i < 0 {
				return false
			}
			if d.knows(b[v:i]) {
				d.out = append(append(d.out, b[d.copied:v]...), "null"...)
				d.copied = i
			}
		}
	}
}

// at reports whether key, just read, is the one at place.
func (d *document) at(place, key string) bool {
	if deep, ok := strings.CutPrefix(place, "*."); ok {
		return deep == key
	}
	if d.depth > opaqueDepth {
		return false
	}
	for _, k := range d.keys[:d.depth-1] {
		rest, ok := strings.CutPrefix(place, k)
		if !ok || rest == "" || rest[0] != '.' {
			return false
		}
		place = rest[1:]
	}
	return place == key
}

// replace copies the string b[s:e] without what d.spans names.
func (d *document) replace(s, e int, escaped bool) {
	if len(d.spans) == 0 {
		return
	}
	if d.out == nil {
		d.out = make([]byte, 0, len(d.b)+len(Mark))
	}
	w := writer{out: append(d.out, d.b[d.copied:s]...)}
	spans := d.spans
	if escaped {
		spans = inRaw(d.b[s:e], spans)
	}
	w.write(d.b[s:e], 0, e-s, spans)
	d.out, d.copied = w.out, e
}

// inRaw turns spans of an unescaped string into spans of the escaped one.
// A character that is secret in part is so whole.
func inRaw(raw string, spans []span) []span {
	slices.SortFunc(spans, func(a, c span) int { return a.s - c.s })
	var out []span
	plain := 0 // where in the unescaped string raw[i] is
	end := 0   // of the spans that begin before it
	for i := 0; i < len(raw); {
		var u [utf8.UTFMax]byte
		n, c := unit(u[:0], raw[i:])
		for len(spans) > 0 && spans[0].s < plain+len(c) {
			end = max(end, spans[0].e)
			spans = spans[1:]
		}
		if plain < end {
			out = append(out, span{s: i, e: i + n})
		}
		plain += len(c)
		i += n
	}
	return out
}

// knows reports whether a known value occurs in the JSON value raw: in its
// strings, or in it as it stands.
func (d *document) knows(raw string) bool {
	if len(d.t.lits) == 0 {
		return false
	}
	if d.spans, _, _ = d.t.scan(raw, 0, false, true, d.spans[:0]); len(d.spans) > 0 {
		return true
	}
	if strings.IndexByte(raw, '\\') < 0 {
		return false
	}
	var scratch []byte
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, _ := stringEnd(raw, i)
		scratch = unescape(scratch[:0], raw[i+1:end])
		if d.spans, _, _ = d.t.scan(view(scratch), 0, false, true, d.spans[:0]); len(d.spans) > 0 {
			return true
		}
		i = end
	}
	return false
}

// structural are the bytes that stand outside of strings.
var structural = func() (set [256]bool) {
	for _, c := range []byte(" \t\r\n{}[],:0123456789+-.eEtrufalsn") {
		set[c] = true
	}
	return set
}()

func skipSpace(b string, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// stringEnd finds the closing quote of the string that opens at i, or -1.
func stringEnd(b string, i int) (end int, escaped bool) {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return -1, escaped
}

// valueEnd finds the end of the value that begins at i, or -1.
func valueEnd(b string, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i, _ = stringEnd(b, i); i < 0 {
				return -1
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return -1
			}
		default:
			next := i + 1
			if depth > 0 || next < len(b) && structural[b[next]] && strings.IndexByte(",}] \t\r\n", b[next]) < 0 {
				continue
			}
		}
		if depth == 0 {
			return i + 1
		}
	}
	return -1
}

func unescape(dst []byte, s string) []byte {
	for len(s) > 0 {
		k := strings.IndexByte(s, '\\')
		if k < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:k]...)
		var n int
		n, dst = unit(dst, s[k:])
		s = s[k+n:]
	}
	return dst
}

// unit appends the first character of s, or first byte when it is not an escape,
// and returns how many bytes of s it took.
func unit(dst []byte, s string) (int, []byte) {
	if s[0] != '\\' || len(s) < 2 {
		return 1, append(dst, s[0])
	}
	switch s[1] {
	case 'n':
		return 2, append(dst, '\n')
	case 'r':
		return 2, append(dst, '\r')
	case 't':
		return 2, append(dst, '\t')
	case 'b':
		return 2, append(dst, '\b')
	case 'f':
		return 2, append(dst, '\f')
	case 'u':
		r, ok := hex4(s[2:])
		if !ok {
			break // not JSON: as it stands
		}
		if utf16.IsSurrogate(r) && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if low, ok := hex4(s[8:]); ok {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					return 12, utf8.AppendRune(dst, both)
				}
			}
		}
		return 6, utf8.AppendRune(dst, r)
	}
	return 2, append(dst, s[1])
}

func hex4(s string) (r rune, ok bool) {
	if len(s) < 4 {
		return 0, false
	}
	for i := range 4 {
		c := rune(s[i])
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | c
	}
	return r, true
}
