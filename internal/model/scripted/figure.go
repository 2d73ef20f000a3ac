package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

const (
	aDate    = "a date"
	aPlace   = "a place"
	span     = `(?:(?:\d+|one|two|three|four|five|six|seven|eight|ten|twelve|fourteen|thirty)\W?(?:more |extra |further )?(?:second|minute|hour|day|week|month|year)s?|an? (?:hour|week|month|year))`
	money    = `[$€£]\s?\d|\d\s?(?:[$€£]|euros?\b|dollars?\b|pounds?\b|usd\b|eur\b|cents?\b)|\bfree\b`
	dateText = `\b(?:` + months + `|monday|tuesday|wednesday|thursday|friday|saturday|sunday|today|yesterday|tomorrow|next week)\b|\d{4}-\d\d|\b\d{1,2}:\d\d\b|\b` + span + `\W+(?:before|after|earlier|later|ahead|in advance)\b`
)

// figure finds the figures of a kind. Days of a month do not count as such.
type figure struct {
	name    string
	re, but *pattern.Regexp
}

func (f *figure) in(text string) bool {
	if f.but != nil {
		text = f.but.ReplaceAllString(text, "")
	}
	return f.re.MatchString(text)
}

// The kinds of figure that a question may ask for.
var wanted = []struct {
	ask *pattern.Regexp
	figure
}{
	{pattern.New(`(?i)\bhow (?:long|soon|early|far|much time|many \w+) (?:before|in advance|ahead)\b`), figure{"a time", pattern.New(`(?i)\b` + span + `\W+(?:before|earlier|ahead|in advance)\b`), nil}},
	{pattern.New(`(?i)\bhow (?:long|fast|quick|quickly|soon|often)\b|\bhow many (?:years|months|weeks|days|hours|minutes|seconds)\b`), figure{"a time", pattern.New(`(?i)\b` + span + `\b|\b(?:hourly|daily|weekly|monthly|yearly|every|always|never)\b`), nil}},
	{pattern.New(`(?i)\b(?:cost|costs|price|prices|pricing|charge|charges|pay|fee|fees|expensive|euros?|dollars?|cents)\b`), figure{"a price", pattern.New(`(?i)` + money), nil}},
	{pattern.New(`(?i)\bhow much\b`), figure{"an amount", pattern.New(`(?i)\d|` + money), nil}},
	{pattern.New(`(?i)\bwhat time\b`), figure{"a time of day", pattern.New(`(?i)\b\d{1,2}[:.]\d\d\b|\b\d{1,2} ?(?:am|pm|o'clock)\b|\b(?:noon|midnight)\b`), nil}},
	{pattern.New(`(?i)(?:^\W*|[,.;:?!]\s*|\b(?:and|or|but|so|since|until|till|from|by|know|say|says|said|tell me|hey|ok)\s+)when\b|\bwhen\W*$|\b(?:what time|which day|what day|(?:what|which|due|end|start|starting|launch|release|opening) date|deadline)\b`), figure{aDate, pattern.New(`(?i)` + dateText), nil}},
	{pattern.New(`(?i)^\W*(?:(?:and|so|but)\W+)?where\b`), figure{aPlace, pattern.New(`(?i)\b(?:in|on|at|near|to|use|uses|via|with) \w`), nil}},
	{pattern.New(`(?i)\bhow (?:many|large|big|high|heavy|tall|small|old)\b|\bversion\b|\blimit\b|\b(?:minimum|maximum)\b`), figure{"a number", pattern.New(`(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b`), dayOf}},
}

var dayOf = pattern.New(`(?i)\b\d{1,2}(?:st|nd|rd|th)? (?:of )?(?:` + months + `)(?: \d{4})?\b|\b(?:` + months + `) \d{1,2}\b|\b\d{4}-\d\d(?:-\d\d)?\b`)

// clause returns the part of a sentence between commas that contains the figure.
func clause(text string, f *figure) string {
	for c := range strings.SplitSeq(strings.TrimRight(text, "."), ", ") {
		if f.in(c) {
			return upper(c) + "."
		}
	}
	return text
}

// figureAt reports whether a sentence has the figure and is next to a sentence about the
// question, if none of those has it: "The trip is on 12 June. There are 40 places."
func (x *weighed) figureAt(i int, f *figure) bool {
	if f == nil || !f.in(x.sentences[i].text) || slices.ContainsFunc(x.focus, func(o sentence) bool { return f.in(o.text) }) {
		return false
	}
	return slices.ContainsFunc(x.focus, func(o sentence) bool {
		return i > 0 && o.text == x.sentences[i-1].text || i+1 < len(x.sentences) && o.text == x.sentences[i+1].text
	})
}

// fromTo matches a time with its two ends.
var fromTo = pattern.New(`(?i)\bfrom (\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?|` + dateEnd + `) (?:to|till|until) (\d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?|` + dateEnd + `)(?:\W|$)`)

const dateEnd = `(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:\d{1,2} )?(?:` + months + `)`

// The questions for one end of a time.
var (
	forEnd   = pattern.New(`(?i)\b(?:until|till|to) (?:when|what (?:time|hour|day))\b|\bhow late\b`)
	forBegin = pattern.New(`(?i)\bfrom (?:when|what (?:time|hour|day))\b|\bhow early\b`)
	closes   = pattern.New(`(?i)\b(?:when|what time)\b.*\b(?:closes?|shuts?|ends?|finish(?:es)?|over)\b`)
	opens    = pattern.New(`(?i)\b(?:when|what time) (?:do|does|will|can)\b.*\b(?:open|start|begin)\b|\b(?:when|what time)\b.*\b(?:opens|starts|begins)\b`)
)

// edge returns the end of a time in a text that a question asks for, or "".
func edge(question, text string) string {
	m := fromTo.FindStringSubmatch(text)
	until, from := forEnd.MatchString(question), forBegin.MatchString(question)
	if !until && !from {
		until, from = closes.MatchString(question), opens.MatchString(question)
	}
	switch {
	case m == nil || until == from:
		return ""
	case until:
		return "Until " + m[2]
	}
	return "From " + m[1]
}
