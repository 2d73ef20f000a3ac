package gemini

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// quoted appends the decoded inside of a JSON string to dst. Half of a surrogate pair becomes
// its three bytes, which UTF-8 does not allow, and bytes that are not UTF-8 stay: [whole]
// combines them with the next fragment.
func quoted(dst, inside []byte) ([]byte, bool) {
	for {
		n := bytes.IndexByte(inside, '\\')
		if n < 0 {
			return append(dst, inside...), true
		}
		dst = append(dst, inside[:n]...)
		if inside = inside[n+1:]; len(inside) == 0 {
			return nil, false
		}
		if inside[0] != 'u' {
			at := bytes.IndexByte([]byte(`"\/bfnrt`), inside[0])
			if at < 0 {
				return nil, false
			}
			dst, inside = append(dst, "\"\\/\b\f\n\r\t"[at]), inside[1:]
			continue
		}
		r, ok := unit(inside[1:])
		if !ok {
			return nil, false
		}
		inside = inside[5:]
		if utf16.IsSurrogate(r) && len(inside) > 1 && inside[0] == '\\' && inside[1] == 'u' {
			if low, ok := unit(inside[2:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
				r, inside = utf16.DecodeRune(r, low), inside[6:]
			}
		}
		if utf16.IsSurrogate(r) {
			dst = append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
			continue
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unit parses the four hexadecimal digits of a UTF-16 code unit.
func unit(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[:4]), 16, 16)
	return rune(n), err == nil
}

// whole makes whole characters from fragments that may end inside one.
type whole struct{ held []byte }

// add returns what is complete with the new piece. Bytes that cannot become a character are
// replaced by U+FFFD.
func (w *whole) add(piece []byte) string {
	if len(w.held) == 0 && utf8.Valid(piece) {
		return string(piece)
	}
	b := bytes.Join([][]byte{w.held, piece}, nil)
	w.held = nil
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		high, half := surrogate(b)
		switch {
		case r != utf8.RuneError || n > 1:
			out = append(out, b[:n]...)
		case half:
			n = 3
			low, more := surrogate(b[3:])
			pair := utf16.DecodeRune(high, low)
			if !more && high < 0xdc00 && beginsHalf(b[3:]) {
				w.held = b
				return string(out)
			}
			if more && pair != utf8.RuneError {
				n = 6
			} else {
				pair = utf8.RuneError
			}
			out = utf8.AppendRune(out, pair)
		case !utf8.FullRune(b) || beginsHalf(b):
			w.held = b
			return string(out)
		default:
			out = utf8.AppendRune(out, utf8.RuneError)
		}
		b = b[n:]
	}
	return string(out)
}

// rest returns what is left at the end.
func (w *whole) rest() string {
	if len(w.held) == 0 {
		return ""
	}
	w.held = nil
	return string(utf8.RuneError)
}

// surrogate decodes half of a pair as written by quoted.
func surrogate(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xe0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}

// beginsHalf reports whether all of b may be the beginning of such a half.
func beginsHalf(b []byte) bool {
	return len(b) == 0 || len(b) < 3 && b[0] == 0xed && (len(b) == 1 || b[1]&0xe0 == 0xa0)
}
