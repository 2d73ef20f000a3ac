package anthropic

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote appends a JSON string to dst and returns it with what follows the closing quote. s
// begins after the opening quote. Bytes that are not UTF-8 stay, and half a surrogate pair
// becomes its three bytes, so that [joiner] can combine them with the next fragment.
func unquote(dst, s []byte) (out, rest []byte, ok bool) {
	for i := 0; i < len(s); {
		switch b := s[i]; {
		case b == '"':
			return dst, s[i+1:], true
		case b < ' ':
			return nil, nil, false
		case b != '\\':
			dst = append(dst, b)
			i++
			continue
		}
		if i+1 >= len(s) {
			return nil, nil, false
		}
		switch b := s[i+1]; b {
		case '"', '\\', '/':
			dst = append(dst, b)
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, ok := hex4(s[i+2:])
			if !ok {
				return nil, nil, false
			}
			i += 6
			if !utf16.IsSurrogate(r) {
				dst = utf8.AppendRune(dst, r)
				continue
			}
			if len(s) >= i+6 && s[i] == '\\' && s[i+1] == 'u' {
				if low, ok := hex4(s[i+2:]); ok {
					if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
						dst = utf8.AppendRune(dst, pair)
						i += 6
						continue
					}
				}
			}
			dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
			continue
		default:
			return nil, nil, false
		}
		i += 2
	}
	return nil, nil, false
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	return rune(n), err == nil
}

// joiner makes whole characters from fragments that may end inside one.
type joiner struct{ held []byte }

// add returns the text up to the last complete character. Bytes that cannot become a character
// are replaced by U+FFFD.
func (j *joiner) add(piece []byte) string {
	if len(j.held) == 0 && utf8.Valid(piece) {
		return string(piece)
	}
	b := append(j.held, piece...) //nolint:gocritic // held is taken over
	j.held = nil
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
			out = append(out, b[:n]...)
			b = b[n:]
			continue
		}
		if high, ok := surrogate(b); ok {
			switch low, ok := surrogate(b[3:]); {
			case ok && utf16.DecodeRune(high, low) != utf8.RuneError:
				out = utf8.AppendRune(out, utf16.DecodeRune(high, low))
				b = b[6:]
				continue
			case len(b) == 3 && high < 0xdc00:
				j.held = b
				return string(out)
			}
			out = utf8.AppendRune(out, utf8.RuneError)
			b = b[3:]
			continue
		}
		if !utf8.FullRune(b) {
			j.held = b
			return string(out)
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		b = b[1:]
	}
	return string(out)
}

// rest returns what is left at the end.
func (j *joiner) rest() string {
	if len(j.held) == 0 {
		return ""
	}
	j.held = nil
	return "\ufffd"
}

// surrogate decodes half of a pair as written by unquote.
func surrogate(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}
