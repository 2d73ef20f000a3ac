package notebook

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/nearest"
	"github.com/parley-server/parley/internal/pattern"
)

var word = pattern.New(`[\pL\pN]+(?:['.,-][\pL\pN]+)*`)

// wordsOf are the words of a text in lower case.
func wordsOf(text string) (list []string) {
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		list = append(list, strings.TrimSuffix(w, "'s"))
	}
	return list
}

// stem is a word without its ending, so that singular and plural are one.
func stem(w string) string {
	w = strings.TrimSuffix(strings.ToLower(w), "'s")
	n := len(w)
	switch {
	case n > 4 && strings.HasSuffix(w, "ies"):
		return w[:n-3] + "y"
	case n > 4 && (strings.HasSuffix(w, "ches") || strings.HasSuffix(w, "shes") || strings.HasSuffix(w, "sses") || strings.HasSuffix(w, "oes") || strings.HasSuffix(w, "xes")):
		return w[:n-2]
	case n > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us"):
		return w[:n-1]
	case n > 5 && strings.HasSuffix(w, "ing"):
		return strings.TrimSuffix(doubled(w[:n-3]), "e")
	}
	return strings.TrimSuffix(w, "e")
}

// doubled is a stem without a doubled last letter: running, run.
func doubled(w string) string {
	if n := len(w); n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("lsz", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// weak are words of questions that say nothing about a note, in addition to the stop words.
var weak = func() map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(`note notes file page say says said write written wrote tell know find thing things make makes made get gets got much many
		have need needs want wants like still last first next year day days time times week today now please show me mine us one ones there here kind work works
		does did do done was were will would should could can may might must about any anything something everything using used use people way somebody according bring brought take took taken go goes going went come came comes put give gave start end began begin call called mean keep kept`) {
		m[w] = true
	}
	return m
}()

// topics are the words that say what a text is about.
func topics(text string) (list []string) {
	for _, w := range keyword.Of(strings.ReplaceAll(text, "'s", " ")) {
		if !weak[w] && len(w) > 1 && !slices.Contains(list, w) {
			list = append(list, w)
		}
	}
	if inMay.MatchString(text) { // the month, which is a common word, too
		list = append(list, "may")
	}
	return list
}

var inMay = pattern.New(`\S.*\b(?:in|of|until|by|before|after|for|this|next|last) May\b|\d May\b`)

// kin are words that mean nearly the same in notes.
var kin = map[string][]string{
	"cost": {"price", "euro", "offer", "budget", "cost"}, "price": {"cost", "euro", "offer"}, "pric": {"cost", "euro", "offer"}, "expensiv": {"euro", "price", "offer"}, "cheapest": {"euro", "offer", "price"},
	"birthday": {"birthday"}, "goal": {"goal"}, "aim": {"goal"}, "reason": {"cause", "because"}, "caused": {"cause"}, "caus": {"cause"},
	"phone": {"telephone", "number"}, "wish": {"wish", "gift"}, "gift": {"wish", "gift"}, "present": {"wish", "gift"}, "hydration": {"percent", "water"},
	"plant": {"plant", "sow", "outside"}, "meet": {"meeting"}, "mail": {"email"}, "movi": {"film"}, "trip": {"travel", "holiday"}, "holiday": {"travel", "trip"}, "temperatur": {"degree"}, "deadlin": {"due", "until"}, "due": {"until", "by"},
}

// mended are words with slips, as the names of files have them.
func mended(words, files []string) (list []string) {
	var known []string
	for _, f := range files {
		known = append(known, wordsOf(base(f)+" "+folder(f))...)
	}
	for _, w := range words {
		if len(w) >= 4 {
			if near := nearest.Name(w, known); near != "" {
				w = near
			}
		}
		list = append(list, w)
	}
	return list
}

// capital is a text with a capital first letter.
func capital(s string) string {
	for i, r := range s {
		return string(unicode.ToUpper(r)) + s[i+len(string(r)):]
	}
	return s
}

// clipped is a text of at most n bytes, which ends at a word.
func clipped(s string, n int) string {
	if len(s) <= n {
		return s
	}
	i := strings.LastIndexByte(s[:n], ' ')
	if i < n/2 {
		for i = n; i > 0 && s[i]&0xc0 == 0x80; i-- { //nolint:revive // back to the beginning of a letter
		}
	}
	return strings.TrimRight(s[:i], " ,;:") + " …"
}

var (
	weekdays = pattern.New(`(?i)\b(?:on |last |this )?(monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b`)
	isoDay   = pattern.New(`\b(\d{4}-\d\d-\d\d)\b`)
	namedDay = pattern.New(`(?i)\b(\d{1,2})(?:st|nd|rd|th)?\.? (?:of )?(january|february|march|april|may|june|july|august|september|october|november|december)\b`)
	daysAgo  = pattern.New(`(?i)\b(\d{1,3}|two|three|four|five|six|seven) days ago\b`)
	numbers  = map[string]int{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
)

// day is the day that a text names.
func (u *turn) day(text string) (iso string, ok bool) {
	at := func(days int) (string, bool) { return u.Now.AddDate(0, 0, days).Format(time.DateOnly), true }
	low := strings.ToLower(text)
	switch {
	case isoDay.MatchString(text):
		return isoDay.FindString(text), true
	case strings.Contains(low, "day before yesterday"):
		return at(-2)
	case strings.Contains(low, "yesterday"):
		return at(-1)
	case strings.Contains(low, "today"):
		return at(0)
	}
	if m := daysAgo.FindStringSubmatch(low); m != nil {
		n := numbers[m[1]]
		for _, c := range m[1] {
			if c >= '0' && c <= '9' {
				n = n*10 + int(c-'0')
			}
		}
		return at(-n)
	}
	if m := weekdays.FindStringSubmatch(low); m != nil {
		for back := 0; back < 7; back++ {
			if strings.EqualFold(u.Now.AddDate(0, 0, -back).Weekday().String(), m[1]) && (back > 0 || !strings.Contains(low, "last")) {
				return at(-back)
			}
		}
	}
	if m := namedDay.FindStringSubmatch(low); m != nil {
		for _, year := range []int{u.Now.Year(), u.Now.Year() - 1} {
			if t, err := time.Parse("2 January 2006", m[1]+" "+m[2]+" "+strconv.Itoa(year)); err == nil && !t.After(u.Now) {
				return t.Format(time.DateOnly), true
			}
		}
	}
	return "", false
}

var spanned = pattern.New(`(?i)\b(?:this|last|past|the last|the past|previous)(?: (\d+|seven|few|couple of))? (week|weeks|days|month|weekend|fortnight|two weeks)\b|\b(?:recently|lately)\b`)

// span are the days that a text names, and how they are called.
func (u *turn) span(text string) (from, to, said string, ok bool) {
	m := spanned.FindStringSubmatch(text)
	if m == nil {
		return "", "", "", false
	}
	days, said := 7, "the last seven days"
	switch low := strings.ToLower(m[0]); {
	case strings.Contains(low, "month"):
		days, said = 30, "the last thirty days"
	case strings.Contains(low, "fortnight") || strings.Contains(low, "weeks"):
		days, said = 14, "the last two weeks"
	}
	return u.Now.AddDate(0, 0, -days).Format(time.DateOnly), u.Now.Format(time.DateOnly), said, true
}
