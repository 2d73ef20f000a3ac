package household

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// span is a period in words, both for the tools and for people.
type span struct {
	tool, said string
	half       int // part of a night: 1 after midnight, -1 before
}

const (
	weekdays = `monday|tuesday|wednesday|thursday|friday|saturday|sunday`
	weekday  = `(` + weekdays + `)`
)

// spans are the words for periods. The first match wins. $1 is the pattern's group; the
// day of the week gets its capital for people.
var spans = []struct {
	words      *pattern.Regexp
	tool, said string
}{
	{spanWords(`since (?:this |early |earlier this )*(morning|afternoon|evening)`), "since this $1", "since this $1"},
	{spanWords(`since (yesterday|last|` + weekdays + `)(?:'s)? (morning|afternoon|evening|night)`), "since $1 $2", "since $1 $2"},
	{spanWords(`since (?:last )?(yesterday|` + weekdays + `)`), "since $1", "since $1"},
	{spanWords(`since (lunch|breakfast|dinner|noon|midday|midnight)(?:time)?`), "since $1", "since $1"},
	{spanWords(`day before yesterday(?:'s)?,? (?:in the )?(morning|afternoon|evening|night)`), "day before yesterday $1", "the $1 before last"},
	{spanWords(`(?:evening|night) before last`), "day before yesterday night", "the night before last"},
	{spanWords(`(?:this|today(?:'s)?) night`), "tonight", "tonight"},
	{spanWords(`(?:this|today(?:'s)?) (morning|afternoon|evening)`), "this $1", "this $1"},
	{spanWords(`(?:last|yesterday(?:'s)?) (morning|afternoon|evening)`), "yesterday $1", "yesterday $1"},
	{spanWords(`last night`), "last night", "last night"},
	{spanWords(`yesterday(?:'s)? night`), "yesterday night", "yesterday night"},
	{spanWords(`(?:last |on )?` + weekday + `(?:'s)? (morning|afternoon|evening|night)`), "$1 $2", "on $1 $2"},
	{spanWords(`(?:last|past) (year|summer|winter|spring|autumn|quarter)`), "last month", "last $1"},
	{spanWords(`years? ago`), "last month", "years ago"},
	{spanWords(`day before yesterday`), "day before yesterday", "the day before yesterday"},
	{spanWords(`yesterdays?|yesterday's`), "yesterday", "yesterday"},
	{spanWords(`tonights?`), "tonight", "tonight"},
	{spanWords(`during the night|in the night|overnight|at night|over night|all night`), "night", "during the night"},
	{spanWords(`todays?|today's|so far|all day|the whole day`), "today", "today"},
	{spanWords(`(?:last|past) week`), "last week", "last week"},
	{spanWords(`this week`), "this week", "this week"},
	{spanWords(`(?:last|past) month`), "last month", "last month"},
	{spanWords(`this month`), "this month", "this month"},
	{spanWords(`(?:right )?now|currently|at the moment`), "now", "now"},
	{spanWords(`(?:last |on )?` + weekday), "$1", "on $1"},
}

func spanWords(words string) *pattern.Regexp { return pattern.New(`\b(?:` + words + `)\b`) }

var (
	// A number of hours or days, up to now.
	lately  = spanWords(`(?:last|past) (?:(\d+|few|couple of|two|three|four|five|six|twelve) )?(hour|day)s?|(\d+|an|a|two|three|few) (hour|day)s? ago`)
	someDay = pattern.New(weekday)
	howMany = map[string]int{"": 1, "an": 1, "a": 1, "two": 2, "three": 3, "few": 3, "couple of": 2, "four": 4, "five": 5, "six": 6, "twelve": 12}
)

// timeIn returns the period that a question is about, in the tools' words.
func timeIn(flat string) span {
	s := wordsForTime(flat)
	switch {
	case strings.Contains(flat, "after midnight"):
		s.half = 1
	case strings.Contains(flat, "before midnight"):
		s.half = -1
	}
	if s.half != 0 && s.tool == "" {
		s.tool, s.said = "night", "during the night"
	}
	return s
}

func wordsForTime(flat string) span {
	if m := lately.FindStringSubmatch(flat); m != nil {
		return ago(m[1]+m[3], m[2]+m[4])
	}
	for _, t := range spans {
		if m := t.words.FindStringSubmatchIndex(flat); m != nil {
			fill := func(text string) string { return string(t.words.ExpandString(nil, text, flat, m)) }
			return span{tool: fill(t.tool), said: someDay.ReplaceAllStringFunc(fill(t.said), upper)}
		}
	}
	return span{}
}

// ago returns the last n hours or days.
func ago(n, unit string) span {
	v, ok := howMany[n]
	if !ok {
		v, _ = strconv.Atoi(n)
	}
	v = max(v, 1)
	h := v
	if unit == "day" {
		h *= 24
	}
	said := fmt.Sprintf("in the last %s %ss", count(v), unit)
	if v == 1 {
		said = "in the last " + unit
	}
	return span{tool: fmt.Sprintf("-%dh", min(h, 744)), said: said} // the tools accept a month at most
}

// short reports whether the span is a day or less. The hour alone then tells when
// something happened in it.
func (s span) short() bool {
	return s.tool != "" && s.tool != "now" && !strings.HasSuffix(s.tool, "week") && !strings.HasSuffix(s.tool, "month") && !strings.HasPrefix(s.tool, "-") && (!strings.HasPrefix(s.tool, "since ") || slices.Contains(sinceToday, s.tool))
}

// sinceToday are the spans that begin on the day of the question.
var sinceToday = []string{"since this morning", "since this afternoon", "since this evening", "since lunch", "since breakfast", "since dinner", "since noon", "since midday", "since midnight"}

// day returns the whole day that a part of a day belongs to.
func (s span) day() span {
	for _, d := range []struct{ begins, day string }{{"this ", "today"}, {"yesterday ", "yesterday"}} {
		if part, ok := strings.CutPrefix(s.tool, d.begins); ok && part != "week" && part != "month" {
			return span{tool: d.day, said: d.day}
		}
	}
	return s
}

// before returns the same period one day earlier, or zero if there is none.
func (s span) before() span {
	const two = "day before yesterday"
	switch {
	case s.tool == "today" || s.tool == "now":
		return span{tool: "yesterday", said: "yesterday"}
	case s.tool == "yesterday":
		return span{tool: two, said: "the " + two}
	case s.tool == "last night" || s.tool == "yesterday night":
		return span{tool: two + " night", said: "the night before last", half: s.half}
	case s.tool == "tonight" || s.tool == "night":
		return span{tool: "last night", said: "last night", half: s.half}
	case strings.HasPrefix(s.tool, "this ") && !strings.HasSuffix(s.tool, "week") && !strings.HasSuffix(s.tool, "month"):
		part := strings.TrimPrefix(s.tool, "this ")
		return span{tool: "yesterday " + part, said: "yesterday " + part}
	case strings.HasPrefix(s.tool, "yesterday "):
		part := strings.TrimPrefix(s.tool, "yesterday ")
		return span{tool: two + " " + part, said: "the " + part + " before last"}
	case strings.HasPrefix(s.tool, "this "):
		rest := "last " + strings.TrimPrefix(s.tool, "this ")
		return span{tool: rest, said: rest}
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if rest, ok := strings.CutPrefix(s.tool, strings.ToLower(d.String())); ok {
			day := ((d + 6) % 7).String()
			return span{tool: strings.ToLower(day) + rest, said: "on " + day + rest}
		}
	}
	return span{}
}

// partBegins are the hours at which the parts of a day begin, as for the tools.
var partBegins = map[string]int{"morning": 5, "afternoon": 12, "evening": evening, "night": 20}

// since returns the moment at which a span begins that lasts until now.
func (u *turn) since(s span) time.Time {
	day, part, _ := strings.Cut(strings.TrimPrefix(s.tool, "since "), " ")
	at := func(back int, clock string) time.Time {
		c, _ := time.Parse("15:04", clock)
		now := u.know.now
		return time.Date(now.Year(), now.Month(), now.Day()-back, c.Hour(), c.Minute(), 0, 0, now.Location())
	}
	if c := meals[day]; c != "" {
		if t := at(0, c); t.Before(u.know.now) {
			return t
		}
		return at(1, c)
	}
	back := map[string]int{"yesterday": 1, "last": 1}[day]
	if day == "this" && u.know.now.Hour() < dawn || day == "last" && part == "night" && u.know.now.Hour() < dawn {
		back++
	}
	for d := 1; d <= 7 && back == 0; d++ {
		if strings.EqualFold(u.know.now.AddDate(0, 0, -d).Weekday().String(), day) {
			back = d
		}
	}
	clock := fmt.Sprintf("%02d:00", partBegins[part])
	if t := at(back, clock); t.Before(u.know.now) {
		return t
	}
	return at(back+1, clock)
}

// span returns the words for a tool. "During the night" means the current or the last
// night. The tools have different words for these before and after noon. For people,
// "tonight" begins with the evening; for the tools, later.
func (u *turn) span(s span, otherwise string) string {
	switch {
	case strings.HasPrefix(s.tool, "since "):
		return u.since(s).Format("2006-01-02 15:04")
	case s.tool == "tonight" && u.know.now.Hour() >= evening:
		return "this evening"
	case s.tool == "" || s.tool == "now":
		return otherwise
	case s.tool == "night" && u.know.now.Hour() >= 12:
		return "last night"
	case s.tool == "night":
		return "tonight"
	}
	return s.tool
}

// meals are times of day that people name. Everybody has them at another hour, so an answer
// says which hour it took.
var meals = map[string]string{"breakfast": "08:00", "lunch": "12:30", "dinner": "19:00", "supper": "19:00", "noon": "12:00", "midday": "12:00", "midnight": "00:00"}

var atClock = pattern.New(`\b(?:at|around|about|by|over|during) (?:about |around )?(?:(noon|midday|midnight|breakfast|lunch|dinner|supper)(?: ?time)?|(\d{1,2})(?:[.: ]([0-5]\d))? ?(am|pm|a\.m|p\.m|o'clock)?)(?:\s|$)`)

// clockIn returns the time of day that a question names: "03:00" for "at 3 am".
func clockIn(flat string) string {
	m := atClock.FindStringSubmatch(levelWithUnit.ReplaceAllString(flat, "")) // "at 20 %" is no time
	if m == nil {
		return ""
	}
	hour, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(m[3])
	switch {
	case m[1] != "":
		return meals[m[1]]
	case strings.HasPrefix(m[4], "p") && hour < 12:
		hour += 12
	case strings.HasPrefix(m[4], "a") && hour == 12:
		hour = 0
	}
	if hour > 23 {
		return ""
	}
	return fmt.Sprintf("%02d:%02d", hour, minute)
}

// instant returns the moment that a question is about, such as noon yesterday. A
// question about when a state began names none. Without a day, it is the last time the
// clock showed that hour.
func (u *turn) instant(q *ask) (time.Time, bool) {
	if q.clock == "" || !slices.Contains([]string{"", "where", "which"}, q.aspect) || u.know.now.IsZero() {
		return time.Time{}, false
	}
	c, err := time.Parse("15:04", q.clock)
	if err != nil {
		return time.Time{}, false
	}
	back, known := map[string]int{"": 0, "now": 0, "today": 0, "this morning": 0, "tonight": 0, "yesterday": 1, "day before yesterday": 2}[q.when.tool]
	if day, part, _ := strings.Cut(q.when.tool, " "); part == "evening" || part == "afternoon" || part == "night" && day != "last" || part == "morning" {
		if b, ok := map[string]int{"this": 0, "yesterday": 1}[day]; ok {
			back, known = b, true
			if day == "this" && u.know.now.Hour() < dawn {
				back = 1
			}
			if part != "morning" && c.Hour() < 12 {
				c = c.Add(12 * time.Hour)
			}
		}
	}
	if q.when.tool == "last night" || q.when.tool == "night" { // the hours after midnight belong to the next day
		known = true
		if c.Hour() >= 12 {
			back = 1
		}
	}
	for d := 1; d <= 7 && !known; d++ {
		if strings.EqualFold(u.know.now.AddDate(0, 0, -d).Weekday().String(), q.when.tool) {
			back, known = d, true
		}
	}
	at := func(back int) time.Time {
		day := u.know.now
		return time.Date(day.Year(), day.Month(), day.Day()-back, c.Hour(), c.Minute(), 0, 0, day.Location())
	}
	t := at(back)
	if t.After(u.know.now) && q.when.tool == "" {
		t = at(1)
	}
	return t, known && t.Before(u.know.now)
}
