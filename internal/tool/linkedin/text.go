package linkedin

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/parley-server/parley/internal/pattern"
)

// Limits of texts, in characters. LinkedIn cuts a longer post without an error.
const (
	maxPost    = 3000
	maxComment = 1250
)

// length is how many characters LinkedIn counts in a text: like browsers, it counts units of
// UTF-16. Where it should count otherwise, this is never less.
func length(text string) int { return len(utf16.Encode([]rune(text))) }

// reserved are the characters that mean something in the text of a post, which LinkedIn calls
// little text. It shows such a text only up to a reserved character that it cannot interpret, and
// reports no error.
const reserved = `\()[]{}<>_*~|@#`

// mention is how a post names an organisation or a member, with the exact name.
var mention = pattern.New(`^@\[[^\[\]()\\{}<>|@#\n]{1,200}\]\(urn:li:(?:organization|person):[A-Za-z0-9-]{1,100}\)`)

// escaped is a text as the commentary of a post. Hashtags and mentions stay as they are, and
// everything else that is reserved is escaped.
func escaped(text string) string {
	var b strings.Builder
	before := ' '
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRuneInString(text[i:])
		next, _ := utf8.DecodeRuneInString(text[i+size:])
		switch {
		case c == '@' && mention.MatchString(text[i:]):
			m := mention.FindString(text[i:])
			b.WriteString(m)
			i, before = i+len(m), ')'
			continue
		case c == '#' && isWord(next) && !isWord(before):
		case strings.ContainsRune(reserved, c):
			b.WriteByte('\\')
		}
		b.WriteString(text[i : i+size])
		i, before = i+size, c
	}
	return b.String()
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// shown is a text as LinkedIn shows it: a mention is the name.
func shown(text string) string {
	var b strings.Builder
	for text != "" {
		at := strings.IndexByte(text, '@')
		if at < 0 {
			break
		}
		b.WriteString(text[:at])
		text = text[at:]
		if m := mention.FindString(text); m != "" {
			b.WriteString(m[2:strings.IndexByte(m, ']')])
			text = text[len(m):]
			continue
		}
		b.WriteByte('@')
		text = text[1:]
	}
	return b.String() + text
}

// encoded is a value in the path or the query of a request: Rest.li 2.0 wants more characters
// escaped than a URL needs, among them : ( ) and the comma.
func encoded(value string) string {
	return strings.ReplaceAll(url.QueryEscape(value), "+", "%20")
}

var (
	postURN    = pattern.New(`^urn:li:(?:share|ugcPost|activity|groupPost):[0-9]{1,25}$`)
	commentURN = pattern.New(`^urn:li:comment:\((urn:li:(?:share|ugcPost|activity|groupPost):[0-9]{1,25}),[0-9]{1,25}\)$`)
	anyURN     = pattern.New(`urn:li:(?:share|ugcPost|activity):[0-9]{1,25}`)
)

// tidy removes from what strangers wrote what a reader cannot see but a model can: control
// characters, tags (invisible letters), and what changes the direction of text.
func tidy(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || 0x7f <= r && r < 0xa0, r == '\ufeff', 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, 0xe0000 <= r && r <= 0xe007f:
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
}
