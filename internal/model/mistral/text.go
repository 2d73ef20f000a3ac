package mistral

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// A jsonText is a JSON string in its original bytes. A character may be split over two
// fragments, as bytes or as the halves of a \u pair, and encoding/json would replace both
// halves. Half of a pair is kept as its three bytes.
type jsonText []byte

// UnmarshalJSON implements json.Unmarshaler. It ignores values that are not strings.
func (t *jsonText) UnmarshalJSON(raw []byte) error {
	if len(raw) < 2 || raw[0] != '"' {
		return nil
	}
	*t = unquote(nil, raw[1:len(raw)-1])
	return nil
}

// unquote appends the text of a JSON string given without its quotes.
func unquote(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			dst = append(dst, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, ok := hex4(s[i+1:])
			if !ok {
				dst = append(dst, "\ufffd"...)
				continue
			}
			i += 4
			dst = appendUnit(dst, r)
		default:
			dst = append(dst, s[i])
		}
	}
	return dst
}

func hex4(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	return rune(n), err == nil
}

// appendUnit appends a UTF-16 code unit. The second half of a pair is combined with the first
// half at the end of dst.
func appendUnit(dst []byte, r rune) []byte {
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(dst, r)
	}
	if n := len(dst); n >= 3 && r >= 0xdc00 {
		if first, ok := half(dst[n-3:]); ok {
			return utf8.AppendRune(dst[:n-3], utf16.DecodeRune(first, r))
		}
	}
	return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0x3f, 0x80|byte(r)&0x3f)
}

// half returns the first half of a pair that b begins with.
func half(b []byte) (rune, bool) {
	if len(b) < 3 || b[0] != 0xed || b[1]&0xf0 != 0xa0 || b[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | rune(b[1]&0x3f)<<6 | rune(b[2]&0x3f), true
}

// runes passes on only complete characters and holds back the beginning of one.
type runes struct{ held []byte }

// next returns the valid text that b completes.
func (h *runes) next(b []byte) string {
	if len(h.held) == 0 && utf8.Valid(b) {
		return string(b)
	}
	b = append(h.held, b...)
	h.held = nil
	keep := len(b)
	for i := max(0, len(b)-3); i < len(b); i++ {
		if tail := b[i:]; utf8.RuneStart(b[i]) && (!utf8.FullRune(tail) || isHalf(tail)) {
			keep = i
			break
		}
	}
	h.held = append([]byte(nil), b[keep:]...)
	return valid(b[:keep])
}

func isHalf(b []byte) bool { _, ok := half(b); return ok }

// rest returns what was held back and never completed.
func (h *runes) rest() string {
	b := h.held
	h.held = nil
	return valid(b)
}

// valid combines separated halves of pairs and replaces invalid bytes.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if first, ok := half(b[i:]); ok && i+6 <= len(b) && b[i+3] == 0xed && b[i+4]&0xf0 == 0xb0 && b[i+5]&0xc0 == 0x80 {
			second := 0xd000 | rune(b[i+4]&0x3f)<<6 | rune(b[i+5]&0x3f)
			out = utf8.AppendRune(out, utf16.DecodeRune(first, second))
			i += 6
			continue
		}
		if i+3 <= len(b) && b[i] == 0xed && b[i+1]&0xe0 == 0xa0 {
			out = append(out, "\ufffd"...) // a half without the other
			i += 3
			continue
		}
		r, n := utf8.DecodeRune(b[i:])
		out = utf8.AppendRune(out, r)
		i += n
	}
	return string(out)
}

// tooMuch is the error of a reply larger than any model's.
func tooMuch(what string) *parley.Error {
	return parley.Errorf(parley.CodeTooLarge, "Mistral's reply has too much %s", what).WithHint("try again, or choose another model")
}
