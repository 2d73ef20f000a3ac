package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A value assigned to a name is redacted whole once it looks like a secret: in quotes up to the
// closing quote, else up to the next blank. In doubt, a neighbour is redacted too. The value
// ends sooner only at text that is certainly not part of it: the next parameter of a query,
// another name with its value after a comma or a semicolon, an escape for a quote or the end of
// a line, and closing brackets and punctuation at the end.

const (
	shortestValue = 7  // or every "password: sha256" would go
	longestName   = 24 // of a parameter of a query, and of a name behind a comma
)

// quote is the quotation around a value; the zero value means none.
type quote struct {
	char    byte
	escaped bool // as in JSON within JSON
}

// lookAssign judges what follows a name, which begins at i and ends at s: a closing
// quote, a separator, an opening quote, and a value. A value has a letter and a
// digit and is no expression of a program.
func lookAssign(b string, i, s int, final bool) (span, verdict, int) {
	j, _ := skipQuote(b, s)
	j = skipBlank(b, j)
	if j == len(b) {
		return open(j, final)
	}
	if b[j] != ':' && b[j] != '=' {
		return span{}, no, 0
	}
	if j++; j < len(b) && (b[j] == '=' || b[j] == '>') {
		j++
	}
	j = skipBlank(b, j)
	v, q := skipQuote(b, j)
	if v == len(b) {
		return open(v, final)
	}
	if strings.IndexByte("$<{[%*", b[v]) >= 0 {
		return span{}, no, 0 // a placeholder, or what was redacted before
	}
	if q.char != 0 {
		return lookQuoted(b, v, q, final)
	}
	return lookBare(b, v, inQuery(b, i), final)
}

// lookString judges a whole text that is assigned to a name.
func lookString(text string) (span, bool) {
	if text == "" || strings.IndexByte("$<{[%*", text[0]) >= 0 || strings.Contains(text, "://") || !secretive(firstWord(text)) {
		return span{}, false
	}
	return span{e: len(text)}, true
}

// firstWord is a text up to its first blank: a value of several words is a
// sentence, unless the first one looks like a secret.
func firstWord(text string) string {
	if i := strings.IndexAny(text, " \t\r\n"); i >= 0 {
		return text[:i]
	}
	return text
}

func secretive(v string) bool {
	got := kinds(v)
	return len(v) >= shortestValue && got&digit != 0 && got&(upcase|lowcase) != 0
}

// lookQuoted judges what stands in quotes. Without a closing one on the line, and
// soon, it is judged and goes as far as no quote or blank is in it.
func lookQuoted(b string, s int, q quote, final bool) (span, verdict, int) {
	far := min(len(b), s+longest)
	e := -1
scan:
	for j := s; j < far; j++ {
		switch c := b[j]; {
		case c == '\n' || c == '\r':
			break scan
		case c == '\\' && j+1 == far && far == len(b) && !final:
			return span{}, wait, s
		case c == '\\' && j+1 < far:
			if q.escaped && b[j+1] == q.char {
				e = j
				break scan
			}
			if j++; q.escaped && b[j] == '\\' && j+1 < far && b[j+1] != q.char {
				j++
			}
		case c == q.char && !q.escaped:
			e = j
			break scan
		}
		if j+1 == len(b) && j+1 < s+longest && !final {
			return span{}, wait, s
		}
	}
	if e < 0 {
		word := s
		for word < far && classes[b[word]]&quoted != 0 {
			word++
		}
		if v := b[s:word]; strings.Contains(v, "://") || !secretive(v) {
			return span{}, no, 0
		}
		if word == s+longest {
			return grow(s, word, quoted)
		}
		return span{s: s, e: word}, yes, 0
	}
	if v := b[s:e]; strings.Contains(v, "://") || !secretive(firstWord(v)) {
		return span{}, no, 0
	}
	return span{s: s, e: e}, yes, 0
}

// inQuery reports whether the name at i is that of a parameter in a query: behind
// ? or &, with nothing but a part of the name between.
func inQuery(b string, i int) bool {
	for j := i - 1; j >= 0 && j >= i-longestName; j-- {
		if b[j] == '?' || b[j] == '&' {
			return true
		}
		if classes[b[j]]&jot == 0 {
			return j > 3 && b[j] == ';' && b[j-4:j] == "&amp"
		}
	}
	return false
}

// lookBare judges a value without quotes.
func lookBare(b string, s int, query, final bool) (span, verdict, int) {
	c := bare
	if query {
		c = param
	}
	far := min(len(b), s+longest)
	j := s
	for j < far {
		n, v := bareAt(b, j, c, final)
		if j == s && b[j] == '&' { // nothing was assigned, or it begins so
			n, v = separates(b[j:], final)
		}
		if v == wait {
			return span{}, wait, s
		}
		if n == 0 {
			break
		}
		j += n
	}
	if j >= len(b) && j < s+longest && !final {
		return span{}, wait, s
	}
	if expression(b[s:min(j, len(b))]) {
		return span{}, no, 0
	}
	if j >= s+longest {
		if !secretive(b[s:j]) {
			return span{}, no, 0
		}
		return grow(s, j, c)
	}
	e := s + len(strings.TrimRight(b[s:j], ".:!?,;)]}>|&"))
	if !secretive(b[s:e]) {
		return span{}, no, 0
	}
	return span{s: s, e: e}, yes, 0
}

// bareAt is how many bytes at j belong to a value without quotes, or 0 at its end.
func bareAt(b string, j int, c class, final bool) (int, verdict) {
	rest := b[j:]
	switch ch := b[j]; {
	case ch >= utf8.RuneSelf:
		if !final && !utf8.FullRuneInString(rest) {
			return 0, wait
		}
		r, n := utf8.DecodeRuneInString(rest)
		if r == utf8.RuneError && n == 1 || unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Pi, unicode.Pf, unicode.Ps, unicode.Pe) || strings.ContainsRune("。，、；：", r) {
			return 0, no
		}
		return n, yes
	case ch == '\\':
		switch {
		case len(rest) == 1:
			if final {
				return 1, yes
			}
			return 0, wait
		case rest[1] == 'u':
			if len(rest) < 6 && !final {
				return 0, wait
			}
			// & < > as JSON has them for pages
			if len(rest) >= 6 && (rest[2:6] == "0026" && c != param || rest[2:6] == "003c" || rest[2:6] == "003e") {
				return 6, yes
			}
			return 0, no
		case strings.IndexByte("nrtbf\"'`/", rest[1]) >= 0:
			return 0, no
		}
		if !final && !utf8.FullRuneInString(rest[1:]) {
			return 0, wait
		}
		_, n := utf8.DecodeRuneInString(rest[1:])
		return 1 + n, yes
	case ch == ',' || ch == ';':
		return separates(rest, final)
	case ch == '<' && (len(rest) == 1 && !final):
		return 0, wait
	case ch == '<' && len(rest) > 1 && rest[1] == '/':
		return 0, no // the end of an element
	}
	if classes[b[j]]&c == 0 {
		return 0, no
	}
	return 1, yes
}

// separates judges a comma or a semicolon: with a name and its value behind it, it
// ends what is before.
func separates(rest string, final bool) (int, verdict) {
	k := 1
	for k < len(rest) && k <= longestName && classes[rest[k]]&jot != 0 {
		k++
	}
	switch {
	case k == len(rest) && k <= longestName && !final:
		return 0, wait
	case k > 2 && k < len(rest) && (rest[k] == '=' || rest[k] == ':'):
		return 0, no
	}
	return 1, yes
}

// expression reports whether a value is one of a program: a name with dots, a call,
// or what a template puts in, and not a secret.
func expression(v string) bool {
	if strings.Contains(v, "://") || strings.Contains(v, "${") || strings.Contains(v, "$(") || strings.Contains(v, "{{") {
		return true
	}
	k, digits := 0, 0
	for ; k < len(v) && (classes[v[k]]&word != 0 || v[k] == '.'); k++ {
		if has[v[k]] == digit {
			digits++
		}
	}
	if k < len(v) && strings.IndexByte("([{<", v[k]) >= 0 {
		return true
	}
	return digits <= 2 && strings.ContainsAny(v[:k], "._") && (k == len(v) || strings.IndexByte(".,;)]}>:!?|&", v[k]) >= 0)
}

// skipQuote passes over one quote, which may be escaped.
func skipQuote(b string, j int) (int, quote) {
	k := j
	if k < len(b) && b[k] == '\\' {
		k++
	}
	if k == len(b) {
		return k, quote{}
	}
	if strings.IndexByte("\"'`", b[k]) >= 0 {
		return k + 1, quote{b[k], k > j}
	}
	return j, quote{}
}
