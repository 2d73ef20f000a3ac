package claim

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/parley-server/parley/internal/pattern"
)

// token is a word, a mark or a value of a statement.
type token struct {
	text string // as it is written
	low  string
	kind byte // one of the following
	v    *value
}

const (
	isWord  byte = 'w'
	isMark  byte = '.' // punctuation; a dash is "-"
	isNum   byte = '0' // a bare number
	isValue byte = 'v'
)

var (
	pointers = pattern.New(`(?i)[,;(]?\s*\b(?:see also|see|cf\.?)\s+[^.;:)]*\)?$`) // to where more is said
	task     = pattern.New(`^(?:[-*+]\s*)?\[[ xX]\]`)

	lexer = pattern.New(strings.Join([]string{
		/* 1 money */ `(?:(?:[€$£]|\b(?:EUR|USD|GBP|CHF)\b)\s?(\d[\d.,]*\d|\d))|(\d[\d.,]*\d|\d)\s?(?:[€$£]|(?:EUR|USD|GBP|CHF|(?i:euros?|dollars?|pounds?|pence|cents?|francs?|crowns?))\b)`,
		/* 3 date */ `(\d{4}-\d\d-\d\d)\b`,
		/* 4 */ `\b(\d{1,2})(?:st|nd|rd|th)?(?: of)? (January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?(?:,? (\d{4})\b)?`,
		/* 7 */ `\b(January|February|March|April|May|June|July|August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.? (\d{1,2})(?:st|nd|rd|th)?\b(?:,? (\d{4})\b)?`,
		/* 10 phone */ `(\+\d[\d ()/-]{5,}\d|\b0\d[\d ()/-]{4,}\d|\b\d{3,4}[- ]\d{4}\b)`,
		/* 11 */ `(?i:\b(?:ext|extension)\b\.?:? ?)(\d{2,6})\b`,
		/* 12 time */ `\b(\d{1,2}):(\d\d)\b(?:\s?([AaPp])\.?[Mm]\b\.?)?`,
		/* 15 */ `\b(\d{1,2})(?:\.(\d\d))?\s?([AaPp])\.?[Mm]\b\.?`,
		/* 18 */ `(?i)\b(noon|midday|midnight)\b`,
		/* 19 */ `(?i)\b(half past|quarter past|quarter to)\s+([a-z]+|\d{1,2})\b`,
		/* 21 */ `(?i)\b([a-z]+|\d{1,2}) o['’]clock\b`,
		/* 22 measure */ `(\d+(?:[.,]\d+)*)\s?(°\s?[CF]?|%|km/h\b|(?:kg|km|cm|mm|ml|cl|hl|ms|min|kW|MB|GB|TB|m|g|t|l|h|s|kn|ft)\b)(/[a-z²³0-9]+)?`,
		/* 25 number */ `(\d+(?:[.,]\d+)*)`,
		/* 26 word */ `(\pL[\pL\d]*(?:['’]\pL+)?)`,
		/* 27 mark */ `([–—-]|[.,;:!?()"|›/≈~])`,
	}, "|"))
)

// tokens are those of a text.
func tokens(text string) (list []token) {
	for _, m := range lexer.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return text[m[2*n]:m[2*n+1]]
		}
		t := token{text: text[m[0]:m[1]]}
		t.low = strings.ToLower(t.text)
		switch {
		case group(1) != "" || group(2) != "":
			t.kind, t.v = isValue, money(t.low, group(1)+group(2))
		case group(3) != "":
			t.kind, t.v = isValue, exact("date", group(3))
		case group(4) != "":
			t.kind, t.v = isValue, day(group(4), group(5), group(6))
		case group(7) != "":
			t.kind, t.v = isValue, day(group(8), group(7), group(9))
		case group(10) != "" && countDigits(group(10)) >= 7:
			t.kind, t.v = isValue, exact("phone", digitsOf(group(10)))
		case group(11) != "":
			t.kind, t.v = isValue, exact("phone", group(11))
		case group(12) != "":
			t.kind, t.v = isValue, clock(number(group(12)), number(group(13)), group(14))
		case group(15) != "":
			t.kind, t.v = isValue, clock(number(group(15)), number(group(16)), group(17))
		case group(18) != "":
			t.kind, t.v = isValue, clock(map[bool]float64{true: 24, false: 12}[t.low == "midnight"], 0, "x")
		case group(19) != "":
			t.v = spoken(strings.ToLower(group(19)), strings.ToLower(group(20)))
			t.kind = isValue
		case group(21) != "":
			t.v = spoken("", strings.ToLower(group(21)))
			t.kind = isValue
		case group(22) != "":
			t.kind, t.v = isValue, measure(group(22), group(23), group(24))
		case group(25) != "", group(10) != "":
			t.kind = isNum
		case group(27) != "":
			t.kind = isMark
			if strings.ContainsAny(t.low, "–—-") {
				t.low = "-"
			}
		default:
			t.kind = isWord
		}
		if t.kind == isValue && t.v == nil { // such as half past the hour
			for w := range strings.FieldsSeq(t.text) {
				list = append(list, token{text: w, low: strings.ToLower(w), kind: isWord})
			}
			continue
		}
		list = append(list, t)
	}
	return list
}

func countDigits(s string) int { return len(digitsOf(s)) }

func digitsOf(s string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
}

// capital reports whether a token is a word that begins as names do.
func (t token) capital() bool {
	r, n := utf8.DecodeRuneInString(t.text)
	return t.kind == isWord && unicode.IsUpper(r) && len(t.text) > n && t.text != strings.ToUpper(t.text)
}

// named reports whether a token may be a person's name.
func (t token) named() bool {
	if !t.capital() || function[t.low] || roles[meaning(t.low)] || genres[meaning(t.low)] {
		return false
	}
	_, day := weekdayNames[t.low]
	_, day2 := weekdayNames[strings.TrimSuffix(t.low, "s")]
	_, month := monthNames[t.low]
	return !day && !day2 && !month
}

// participle reports whether a token may begin what is only added to a clause, as in ", taken off the invoice".
func (t token) participle() bool {
	return t.kind == isWord && (len(t.low) > 4 && (strings.HasSuffix(t.low, "ed") || strings.HasSuffix(t.low, "ing")) || participles[t.low])
}

var participles = set(`taken given paid kept made held sold left built led brought bought sent written shown`)
