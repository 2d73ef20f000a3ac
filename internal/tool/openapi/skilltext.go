package openapi

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley"
)

// quoted is a text of the description in quotation marks, on one line. Nothing in it can end the
// quotation, begin a heading, a list or a fence, hide, or change the direction of what follows.
func quoted(text string, limit int) string {
	clean := plainly(text, limit)
	if clean == "" {
		return ""
	}
	return "“" + clean + "”"
}

func plainly(text string, limit int) string {
	text = parley.Cut(text, 4*limit) // before it is looked at rune by rune
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r), r == utf8.RuneError, unicode.Is(unicode.Variation_Selector, r):
			return -1
		}
		switch r {
		case '`', '“', '”', '„', '‟', '"', '«', '»':
			return '\''
		case '<', '＜':
			return '‹'
		case '>', '＞':
			return '›'
		case '[':
			return '('
		case ']':
			return ')'
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	text = strings.NewReplacer("---", "–", "![", "(", "***", "*").Replace(text)
	return parley.Cut(text, limit)
}

// code is a name or a value as code. ok is false for what could not be used as it would be shown.
func code(text string) (s string, ok bool) {
	if text == "" || len(text) > maxWord || !utf8.ValidString(text) || strings.TrimSpace(text) != text {
		return "", false
	}
	for _, r := range text {
		if r == '`' || !unicode.IsPrint(r) {
			return "", false
		}
	}
	return "`" + text + "`", true
}

// plainPath reports whether a path can be written in a skill and used with api_request.
func plainPath(path string) bool {
	if len(path) > 500 || !strings.HasPrefix(path, "/") {
		return false
	}
	for _, r := range path {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-._~!$&'()*+,=:@/{}", r) {
			return false
		}
	}
	return true
}
