package redact

import (
	"encoding/base64"
	"strings"
)

// look judges the rule at position i, where a word begins or the rule may match within
// one. A yes or no must hold for every text that continues b; only with final may the end
// itself decide. With wait, it also returns the first byte that may be secret, or len(b)
// if that is still to come.
func (r *rule) look(b string, i int, final bool) (span, verdict, int) {
	rest := b[i:]
	if !r.begins(rest) {
		return span{}, no, 0
	}
	s := i + len(r.prefix)
	if s > len(b) {
		return open(len(b), final)
	}
	switch r.kind {
	case assign:
		return lookAssign(b, i, s, final)
	case jwt:
		return lookJWT(b, s, final)
	case pem:
		return lookPEM(b, s, final)
	case userinfo:
		return lookUserinfo(b, s, final)
	case basic:
		return lookBasic(b, s, final)
	case dotted:
		return lookDotted(b, s, final)
	}
	return r.lookRun(b, s, final)
}

// open is the answer at the end of what is there.
func open(hold int, final bool) (span, verdict, int) {
	if final {
		return span{}, no, 0
	}
	return span{}, wait, hold
}

// grow is a yes to at least b[s:e], and to what follows in the class.
func grow(s, e int, c class) (span, verdict, int) {
	return span{s: s, e: e, open: true, class: c}, yes, 0
}

// escape reports whether b[i] ends an escape such as \n or %20, which separates
// words as what it stands for does.
func escape(b string, i int) bool {
	if i > 0 && b[i-1] == '\\' && strings.IndexByte("nrtbf", b[i]) >= 0 {
		return true
	}
	return i > 1 && b[i-2] == '%' && hexDigit(b[i-1]) && hexDigit(b[i])
}

func hexDigit(c byte) bool { return classes[c|0x20]&hex != 0 && has[c] != 0 }

// begins compares as much of the prefix as there is.
func (r *rule) begins(rest string) bool {
	n := min(len(rest), len(r.prefix))
	if !r.fold {
		return rest[:n] == r.prefix[:n]
	}
	for j := range n {
		if c := rest[j]; c != r.prefix[j] && (has[c] != upcase || c|0x20 != r.prefix[j]) {
			return false
		}
	}
	return true
}

func (r *rule) lookRun(b string, s int, final bool) (span, verdict, int) {
	far := min(len(b), s+longest)
	var got chars
	j := s
	for ; j < far && classes[b[j]]&r.class != 0; j++ {
		got |= has[b[j]]
		if n := j + 1 - s; r.max == 0 && n >= r.min && got&r.need == r.need {
			return grow(s, j+1, r.class)
		} else if r.max > 0 && n > r.max {
			return span{}, no, 0
		}
	}
	if sp, v := cutOff(b, s, j, got, final); v != no {
		return sp, v, s
	}
	switch {
	case j == len(b) && j < s+longest && !final:
		return span{}, wait, s
	case r.max > 0 && j-s >= r.min && got&r.need == r.need:
		return span{s: s, e: j}, yes, 0
	}
	return span{}, no, 0
}

// ellipsis is what [parley.Cut] puts where it cut a text off.
const ellipsis = "…"

// cutOff judges b[s:j], which has a shape but is too short, by what follows: if the text
// was cut off there, it is a piece of a secret. A no does not mean that it is no secret:
// it may be a complete one.
func cutOff(b string, s, j int, got chars, final bool) (span, verdict) {
	const shortest = 8
	if j-s < shortest || got&digit == 0 {
		return span{}, no
	}
	n := min(len(ellipsis), len(b)-j)
	switch {
	case n == 0 || b[j:j+n] != ellipsis[:n]:
		return span{}, no
	case n == len(ellipsis):
		return span{s: s, e: j}, yes
	case final:
		return span{}, no
	}
	return span{}, wait
}

// kinds are those of the characters of text.
func kinds(text string) (got chars) {
	for i := range len(text) {
		got |= has[text[i]]
	}
	return got
}

// headers are the first names in the header of a JSON web token, after {" and
// in base64: alg, typ, kid, enc, cty, x5t, x5c, jku, jwk, zip.
var headers = []string{"hbGci", "0eXAi", "raWQi", "lbmMi", "jdHki", "4NXQi", "4NWMi", "qa3Ui", "qd2si", "6aXAi"}

func lookJWT(b string, s int, final bool) (span, verdict, int) {
	const header, payload = 10, 8
	far := min(len(b), s+longest)
	j := s
	for j < far && classes[b[j]]&token != 0 {
		j++
	}
	if j == s+longest { // a long header: by its first name, or not at all
		for _, h := range headers {
			if strings.HasPrefix(b[s:], h) {
				return grow(s, j, jot)
			}
		}
		return span{}, no, 0
	}
	if j == len(b) {
		return open(s, final)
	}
	if sp, v := cutOff(b, s, j, kinds(b[s:j]), final); v != no {
		return sp, v, s
	}
	if b[j] != '.' || j-s < header {
		return span{}, no, 0
	}
	for k := j + 1; k < len(b) && classes[b[k]]&token != 0; k++ {
		if k-j == payload {
			return grow(s, k+1, jot)
		}
		if k+1 == len(b) {
			return open(s, final)
		}
		if sp, v := cutOff(b, s, k+1, digit, final); v != no {
			return sp, v, s
		}
	}
	if j+1 == len(b) {
		return open(s, final)
	}
	if sp, v := cutOff(b, s, j+1, digit, final); v != no {
		return sp, v, s
	}
	return span{}, no, 0
}

// thirdOfDigits are the characters that a number in base64 has in the third place.
const thirdOfDigits = "AEIMQUYcgk"

// lookDotted wants the rest of a number of 17 to 20 digits in base64, six characters,
// and 27 or more, with dots between.
func lookDotted(b string, s int, final bool) (span, verdict, int) {
	if s < len(b) && strings.IndexByte(thirdOfDigits, b[s]) < 0 {
		return span{}, no, 0
	}
	j := s
	for _, n := range [...][2]int{{21, 26}, {6, 6}} {
		k := j
		for k < len(b) && k-j <= n[1] && classes[b[k]]&token != 0 {
			k++
		}
		switch {
		case k-j > n[1]:
			return span{}, no, 0
		case k == len(b):
			return open(s, final)
		}
		if j > s {
			if sp, v := cutOff(b, s, k, digit, final); v != no {
				return sp, v, s
			}
		}
		if k-j < n[0] || b[k] != '.' {
			return span{}, no, 0
		}
		j = k + 1
	}
	for k := j; k < j+27; k++ {
		if k == len(b) {
			return open(s, final)
		}
		if classes[b[k]]&token == 0 {
			sp, v := cutOff(b, s, k, digit, final)
			return sp, v, s
		}
	}
	return grow(s, j+27, token)
}

// skipBlank skips a few blanks; more of them mean that it is no secret.
func skipBlank(b string, j int) int {
	for k := 0; k < 4 && j < len(b) && (b[j] == ' ' || b[j] == '\t'); k++ {
		j++
	}
	return j
}

func lookUserinfo(b string, s int, final bool) (span, verdict, int) {
	const longestUser = 64
	j := s
	for j < len(b) && j < s+longestUser && classes[b[j]]&user != 0 {
		j++
	}
	if j == len(b) {
		return open(j, final)
	}
	if b[j] != ':' {
		return span{}, no, 0
	}
	j++
	if j == len(b) {
		return open(j, final)
	}
	if strings.IndexByte("$<{[%*", b[j]) >= 0 {
		return span{}, no, 0
	}
	k, at := j, j // at: the last @, as a password may hold one itself
	for ; k < len(b) && k < j+longest && classes[b[k]]&pass != 0; k++ {
		if b[k] == '@' {
			at = k
		}
	}
	if k == len(b) && k < j+longest && !final {
		return span{}, wait, j
	}
	if at == j {
		return span{}, no, 0
	}
	return span{s: j, e: at}, yes, 0
}

// lookBasic wants base64 of printable text with a colon in it: "basic" is also a word.
func lookBasic(b string, s int, final bool) (span, verdict, int) {
	const shortest = 8
	j := s
	for j < len(b) && j < s+longest && classes[b[j]]&b64 != 0 {
		j++
	}
	if j == len(b) && j < s+longest && !final {
		return span{}, wait, s
	}
	if j-s < shortest {
		return span{}, no, 0
	}
	enc := strings.TrimRight(b[s:j], "=")
	var buf [longest]byte
	n, err := base64.RawStdEncoding.Decode(buf[:], []byte(enc))
	if err != nil {
		return span{}, no, 0
	}
	colon := false
	for _, c := range buf[:n] {
		if c < ' ' || c == 0x7f {
			return span{}, no, 0
		}
		colon = colon || c == ':'
	}
	if !colon {
		return span{}, no, 0
	}
	return grow(s, j, b64)
}

// lookPEM judges a private key's first line, and enough of what follows to tell it from
// talk about keys. From there on everything is removed, up to the end marker.
func lookPEM(b string, s int, final bool) (span, verdict, int) {
	const label, gap, body = 40, 16, 16
	j := s
	for j < len(b) && j < s+label && (b[j] == ' ' || classes[b[j]]&upnum != 0) {
		j++
	}
	for k := 0; k < 5; k++ {
		if j+k == len(b) {
			return open(len(b), final)
		}
		if b[j+k] != '-' {
			return span{}, no, 0
		}
	}
	if !strings.Contains(b[s:j], "PRIVATE KEY") {
		return span{}, no, 0
	}
	s = j + 5
	for j = s; ; j++ {
		if j == len(b) {
			return open(s, final)
		}
		if j == s+gap {
			return span{}, no, 0
		}
		if strings.IndexByte(" \t\r\n\\\"'`", b[j]) < 0 && !escape(b, j) {
			break
		}
	}
	for k := j; ; k++ {
		switch {
		case k-j == body, k-j >= 4 && k < len(b) && b[k] == ':': // "Proc-Type:"
			return grow(s, s, inPEM)
		case k == len(b):
			return open(s, final)
		case classes[b[k]]&b64 == 0 && b[k] != '-':
			return span{}, no, 0
		}
	}
}

// pemState counts how much of "-----END ... -----" was seen.
type pemState uint8

const (
	pemDashes pemState = 5  // of the end marker's front
	pemEnd    pemState = 8  // -----END
	pemDone   pemState = 13 // and five more
)

func (p pemState) next(c byte) pemState {
	switch {
	case c == '-' && p == pemDashes:
		return p
	case c == '-' && (p < pemDashes || p >= pemEnd):
		return p + 1
	case p >= pemDashes && p < pemEnd && c == "END"[p-pemDashes]:
		return p + 1
	case p >= pemEnd:
		return pemEnd
	case c == '-':
		return 1
	}
	return 0
}
