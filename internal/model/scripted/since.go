package scripted

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// aDay matches a day or month in a text.
var aDay = regexp.MustCompile(`(?i)\b(?:` + months + `|(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow)\b|\d{4}-\d\d`)

func upper(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:n]) + text[n:]
}

var since = regexp.MustCompile(`(?i)\b(?:since|after|from)\b (?:the )?(?:(?:beginning|start|middle|end|first) of )?(?:(\d{4}-\d\d(?:-\d\d)?)|(` + months + `)(?: (\d{4}))?)`)

// sinceWhen returns the day from which on a question asks, in the latest year with any record by
// then.
func sinceWhen(question string, rs []record) time.Time {
	m := since.FindStringSubmatch(question)
	if in := within.FindStringSubmatch(question); m == nil && in != nil {
		m = []string{in[0], "", in[1], in[2]}
	}
	if m == nil {
		return time.Time{}
	}
	if m[1] != "" {
		for _, layout := range []string{time.DateOnly, "2006-01"} {
			if t, err := time.Parse(layout, m[1]); err == nil {
				return t
			}
		}
		return time.Time{}
	}
	month, _ := time.Parse("January", strings.ToUpper(m[2][:1])+strings.ToLower(m[2][1:]))
	var last time.Time
	for _, r := range rs {
		if r.at.After(last) {
			last = r.at
		}
	}
	year := last.Year()
	if m[3] != "" {
		t, _ := time.Parse("2006", m[3])
		year = t.Year()
	} else if month.Month() > last.Month() {
		year--
	}
	return time.Date(year, month.Month(), 1, 0, 0, 0, 0, time.UTC)
}
