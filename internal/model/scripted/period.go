package scripted

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// period is a time in the past that a question asks about, in whole days.
type period struct {
	from, to time.Time // to is the day after its last one; zero: it has no end
	said     string    // "yesterday (2026-11-22)"
}

func (p period) has(r record) bool {
	return r.Dated() && !r.at.Before(p.from) && (p.to.IsZero() || r.at.Before(p.to))
}

// pastTime matches a time that a question names from the moment at which it is asked.
var pastTime = pattern.New(`(?i)\b(?:(since) )?(?:(yesterday|today)|(this|last) (week|month|year)|last ((?:mon|tues|wednes|thurs|fri|satur|sun)day)|` +
	`(?:(?:in|during|over|within|for) )?(?:the |these )(?:last|past|previous) (?:(\d{1,3}|\w+|couple of) )?(day|week|month|year)s?|` +
	`(\d{1,3}|an?|` + strings.Join(numerals, "|") + `) (day|week|month|year)s? ago)\b`)

// nowIs matches the time of a turn, as the loop writes it.
var nowIs = pattern.New(`(?m)^now: \w+, (\d{4}-\d\d-\d\d) `)

var isoDay = pattern.New(`\d{4}-\d\d-\d\d`)

// today returns the day of the turn where the user is; zero if the prompt does not say it.
func (v view) today() time.Time {
	m := nowIs.FindStringSubmatch(v.About)
	if m == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.DateOnly, m[1]) // a date that is none is as good as no date
	return t
}

// period returns the past time that the question asks about. ok is false if it names none, or
// if it is not known what day it is.
func (v view) period() (p period, ok bool) {
	today := v.today()
	if today.IsZero() {
		return period{}, false
	}
	if m := pastTime.FindStringSubmatch(v.Question); m != nil {
		return relative(m, today), true
	}
	from := sinceWhen(v.Question, today)
	if from.IsZero() {
		return period{}, false
	}
	p = period{from: from, to: until(v.Question, from), said: "since " + from.Format(time.DateOnly)}
	if !isoDay.MatchString(v.Question) {
		p.said = "since " + from.Format("January 2006")
	}
	if !p.to.IsZero() {
		p.said = "in " + from.Format("January 2006")
	}
	return p, true
}

// relative returns the period of a match of pastTime.
func relative(m []string, today time.Time) period {
	since, day, which, unit, weekday, many, rolling, ago, agoUnit := m[1] != "", strings.ToLower(m[2]), strings.ToLower(m[3]), strings.ToLower(m[4]), strings.ToLower(m[5]), m[6], strings.ToLower(m[7]), m[8], strings.ToLower(m[9])
	p := period{from: today}
	switch {
	case day == "today":
	case day == "yesterday":
		p.from, p.to = today.AddDate(0, 0, -1), today
	case which == "this":
		p.from = begin(unit, today)
	case which == "last":
		p.from, p.to = begin(unit, back(begin(unit, today), unit, 1)), begin(unit, today)
	case weekday != "":
		for p.from = today.AddDate(0, 0, -1); strings.ToLower(p.from.Weekday().String()) != weekday; {
			p.from = p.from.AddDate(0, 0, -1)
		}
		p.to = p.from.AddDate(0, 0, 1)
	case rolling != "":
		p.from = back(today, rolling, amount(many))
	default:
		p.from = begin(agoUnit, back(today, agoUnit, amount(ago)))
		p.to = back(p.from, agoUnit, -1)
	}
	if since {
		p.to = time.Time{}
	}
	said := strings.ToLower(m[0][:1]) + m[0][1:]
	switch last := p.to.AddDate(0, 0, -1); {
	case p.to.IsZero() && p.from.Equal(today), !p.to.IsZero() && last.Equal(p.from):
		p.said = fmt.Sprintf("%s (%s)", said, p.from.Format(time.DateOnly))
	case p.to.IsZero():
		p.said = fmt.Sprintf("%s (from %s on)", said, p.from.Format(time.DateOnly))
	default:
		p.said = fmt.Sprintf("%s (%s to %s)", said, p.from.Format(time.DateOnly), last.Format(time.DateOnly))
	}
	return p
}

// begin returns the first day of the week, month or year of a day. A week begins on Monday.
func begin(unit string, day time.Time) time.Time {
	switch unit {
	case "week":
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case "month":
		return day.AddDate(0, 0, 1-day.Day())
	case "year":
		return day.AddDate(0, 0, 1-day.YearDay())
	}
	return day
}

func back(day time.Time, unit string, n int) time.Time {
	switch unit {
	case "week":
		return day.AddDate(0, 0, -7*n)
	case "month":
		return day.AddDate(0, -n, 0)
	case "year":
		return day.AddDate(-n, 0, 0)
	}
	return day.AddDate(0, 0, -n)
}

// amount returns the number that a word or a figure means. A few are three.
func amount(text string) int {
	text = strings.ToLower(text)
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if i := slices.Index(numerals, text); i >= 0 {
		return i + 2
	}
	switch text {
	case "couple of":
		return 2
	case "few":
		return 3
	}
	return 1
}

// timeless returns a question without the past time that it names. The rest keeps its position.
func timeless(question string) string {
	return pastTime.ReplaceAllStringFunc(question, func(m string) string { return strings.Repeat(" ", len(m)) })
}

// kindQuiet is the kind of weight of a period in which nothing was decided. Its records are what
// was written then and is no decision, or else the newest before.
const kindQuiet = "quiet"

// during returns the weight of records of which all hold, if they are of the period that the
// question asks about. If none is, it has those of rs that are, or else the newest before, or else
// the oldest after.
func (s *script) during(v view, w weight, rs []record) weight {
	p, ok := v.period()
	if !ok {
		return w
	}
	w.Span = p.said
	w.All = slices.DeleteFunc(w.All, func(x *weighed) bool { return !p.has(x.record) })
	if len(w.All) > 0 {
		if w.Best != nil {
			w.Best = w.All[0]
		}
		return w
	}
	w.Kind, w.Best = kindQuiet, nil
	for _, r := range rs {
		if p.has(r) {
			w.All = append(w.All, s.look(r, w.Subject))
		}
	}
	if len(w.All) > 0 {
		return w
	}
	before := func(r record) bool { return r.Dated() && r.at.Before(p.from) }
	if i := slices.IndexFunc(rs, before); i >= 0 { // the newest is first
		w.Before, w.All = true, []*weighed{s.look(rs[i], w.Subject)}
		return w
	}
	for _, r := range slices.Backward(rs) {
		if r.Dated() {
			w.After, w.All = true, []*weighed{s.look(r, w.Subject)}
			break
		}
	}
	return w
}

// event matches a question that asks what came to be, and not what is.
var event = pattern.New(`(?i)\b(?:chang\w+|decid\w+|decisions?|agreed|approved|announc\w+|happen\w*|said|say|posted|wrote|written|mention\w*|updat\w+|news?|talk\w*|discuss\w*)\b`)

// dated sets what a weight says of the period in which the question asks what came to be with its
// subject: the newest record of it, or that there is none.
func (s *script) dated(v view, w weight) weight {
	p, ok := v.period()
	if !ok || w.Best == nil || !w.Best.Dated() || p.has(w.Best.record) || !event.MatchString(v.Question) {
		return w
	}
	w.Span = p.said
	if i := slices.IndexFunc(w.All, func(x *weighed) bool { return x.statement() && p.has(x.record) }); i >= 0 {
		w.Then = w.All[i]
	}
	w.Lapsed = !slices.ContainsFunc(w.All, func(x *weighed) bool { return p.has(x.record) })
	return w
}

// ago returns how long before the turn a record was written, or "".
func (v view) ago(r record) string {
	today := v.today()
	if today.IsZero() || !r.Dated() || r.at.After(today) {
		return ""
	}
	if today.Sub(r.at) < 24*time.Hour {
		return "today"
	}
	return apart(record{at: today}, r) + " ago"
}
