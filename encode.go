package parley

import (
	"strconv"
	"unicode/utf8"
)

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// appendString appends s as a JSON string. Like encoding/json, it escapes what JSON
// requires and also U+2028 and U+2029, which old JavaScript does not accept in strings.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			case '\b':
				dst = append(dst, '\\', 'b')
			case '\f':
				dst = append(dst, '\\', 'f')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(append(dst, s[from:i]...), `\ufffd`...)
			from = i + n
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[from:i]...), '\\', 'u', '2', '0', '2', hex[r&15])
			from = i + n
		}
		i += n
	}
	return append(append(dst, s[from:]...), '"')
}

// AppendJSON appends the delta's JSON to dst: the same bytes as json.Marshal.
func (d Delta) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"session":`...)
	dst = appendString(dst, string(d.Session))
	if d.Turn != "" {
		dst = append(dst, `,"turn":`...)
		dst = appendString(dst, string(d.Turn))
	}
	if d.Agent != "" {
		dst = append(dst, `,"agent":`...)
		dst = appendString(dst, string(d.Agent))
	}
	dst = append(dst, `,"call":`...)
	dst = appendString(dst, string(d.Call))
	if d.Kind != "" {
		dst = append(dst, `,"kind":`...)
		dst = appendString(dst, string(d.Kind))
	}
	dst = append(dst, `,"n":`...)
	dst = appendInt(dst, d.N)
	dst = append(dst, `,"text":`...)
	dst = appendString(dst, d.Text)
	return append(dst, '}')
}
