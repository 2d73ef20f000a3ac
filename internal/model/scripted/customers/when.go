package customers

import (
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

var (
	aTime    = pattern.New(`(?i)^(?:the )?(?:last|this|past|next|today|yesterday|total|all|general|detail|january|february|march|april|may|june|july|august|september|october|november|december|\d+)\b`)
	aMonth   = pattern.New(`^(?:January|February|March|April|May|June|July|August|September|October|November|December)$`)
	span     = pattern.New(`(?i)\b(today|yesterday|this week|last week|this month|last month|this year|this quarter|next month|next week)\b`)
	recent   = pattern.New(`(?i)\b(?:in|within|over|during|for) the (?:last|past) (\d+|two|three|four|six)? ?(day|week|month|year)s?\b`)
	since    = pattern.New(`(?i)\b(since|after|before|until) (\d{4}-\d\d-\d\d|(?:last )?(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)|(?:January|February|March|April|May|June|July|August|September|October|November|December)(?: \d{1,2})?)`)
	edges    = pattern.New(`(?i)\b(since|after|before|until|by) (?:the )?(end|start|beginning) of (this|the|next|last) (week|month|quarter|year)\b`)
	silence  = pattern.New(`(?i)(?:\b(?:not|nobody|no one|never)|n't)\b.*\b(?:contacted|spoken|spoke|talked|heard|called)\b.*\bsince\b`)
	months   = pattern.New(`(?i)\bin (January|February|March|April|May|June|July|August|September|October|November|December)\b`)
	due      = pattern.New(`(?i)\b(?:due|end|ends|ending|deadline|finish)\b`)
	starts   = pattern.New(`(?i)\b(?:start|starts|starting|begin|begins)\b`)
	weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	spoken   = pattern.New(`(?i)\b(?:contacted|spoken|spoke|talked|called|last contact)\b`)
)

// when finds the time that a question is about: of what it says was done, or else when records were
// made.
func (q *query) when(takes func(string) bool, text string, now time.Time) {
	if m := longAgo.FindStringSubmatch(text); m != nil && takes("last_contact_until") {
		day := back(now, numberOf(m[1]), m[2]).Format(time.DateOnly)
		q.set("last_contact_until", day, "that were last contacted before "+nice(day))
		return
	}
	silent := silence.MatchString(text)
	if noCall.MatchString(text) && !silent && !longest.MatchString(text) && takes("status") {
		q.filters["status"] = "new"
		q.say("status", "that nobody has contacted yet")
	}
	name, verb := "created", "added"
	switch {
	case due.MatchString(text) && takes("due_from"):
		name, verb = "due", "due"
	case starts.MatchString(text) && takes("starts_from"):
		name, verb = "starts", "starting"
	case updated.MatchString(text) && takes("updated_from"):
		name, verb = "updated", "changed"
	case (silent || spoken.MatchString(text)) && takes("last_contact_from"):
		name, verb = "last_contact", "last contacted"
		if q.filters["status"] == "contacted" {
			delete(q.filters, "status")
			q.said = slices.DeleteFunc(q.said, func(p phrase) bool { return p.key == "status" })
		}
	}
	if !takes(name + "_from") {
		return
	}
	day := now.Truncate(24 * time.Hour)
	between := func(from, until time.Time, said string) {
		if silent && name == "last_contact" && until.IsZero() && !from.IsZero() { // not since then is before then
			from, until, said = time.Time{}, from.AddDate(0, 0, -1), "before "+nice(from.Format(time.DateOnly))
		}
		if !from.IsZero() {
			q.filters[name+"_from"] = from.Format(time.DateOnly)
		}
		if !until.IsZero() {
			q.filters[name+"_until"] = until.Format(time.DateOnly)
		}
		q.say(name, strings.TrimSpace(verb+" "+said))
	}
	month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	monday := day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	if m := recent.FindStringSubmatch(text); m != nil {
		n := max(1, numberOf(m[1]))
		between(back(now, n, m[2]), time.Time{}, strings.ToLower(strings.TrimPrefix(strings.TrimSpace(pattern.New(`(?i)^(?:in|within|over|during|for) `).ReplaceAllString(m[0], "")), "")))
		return
	}
	if m := edges.FindStringSubmatch(text); m != nil {
		first, last := period(day, strings.ToLower(m[3]), strings.ToLower(m[4]))
		at := last
		if !strings.EqualFold(m[2], "end") {
			at = first
		}
		said := strings.ToLower(m[0])
		switch word := strings.ToLower(m[1]); {
		case word == "since", word == "after" && at == first:
			between(at, time.Time{}, said)
		case word == "after":
			between(at.AddDate(0, 0, 1), time.Time{}, said)
		case word == "before" && at == first:
			between(time.Time{}, at.AddDate(0, 0, -1), said)
		default: // the last day belongs to what is before the end
			between(time.Time{}, at, said)
		}
		return
	}
	if m := span.FindStringSubmatch(text); m != nil {
		switch strings.ToLower(m[1]) {
		case "today":
			between(day, day, "today")
		case "yesterday":
			between(day.AddDate(0, 0, -1), day.AddDate(0, 0, -1), "yesterday")
		case "this week":
			between(monday, monday.AddDate(0, 0, 6), "this week")
		case "last week":
			if strings.Contains(strings.ToLower(text), "since last week") {
				between(monday.AddDate(0, 0, -7), time.Time{}, "since last week")
				return
			}
			between(monday.AddDate(0, 0, -7), monday.AddDate(0, 0, -1), "last week")
		case "next week":
			between(monday.AddDate(0, 0, 7), monday.AddDate(0, 0, 13), "next week")
		case "this month":
			between(month, month.AddDate(0, 1, -1), "this month")
		case "last month":
			between(month.AddDate(0, -1, 0), month.AddDate(0, 0, -1), "last month")
		case "next month":
			between(month.AddDate(0, 1, 0), month.AddDate(0, 2, -1), "next month")
		case "this quarter":
			first := month.AddDate(0, -(int(month.Month())-1)%3, 0)
			between(first, first.AddDate(0, 3, -1), "this quarter")
		case "this year":
			between(time.Date(day.Year(), 1, 1, 0, 0, 0, 0, time.UTC), time.Date(day.Year(), 12, 31, 0, 0, 0, 0, time.UTC), "this year")
		}
		return
	}
	if m := since.FindStringSubmatch(text); m != nil {
		at, err := time.Parse(time.DateOnly, m[2])
		if back := slices.IndexFunc(weekdays, func(name string) bool { return strings.HasSuffix(strings.ToLower(m[2]), name) }); back >= 0 {
			at, err = day.AddDate(0, 0, -(int(day.Weekday())-back+7)%7), nil
		}
		if err != nil {
			if at, err = time.Parse("January 2 2006", m[2]+day.Format(" 2006")); err != nil {
				at, err = time.Parse("January 2006", m[2]+day.Format(" 2006"))
			}
			if err != nil {
				return
			}
			if at.After(day) && name != "due" && name != "starts" {
				at = at.AddDate(-1, 0, 0)
			}
		}
		switch word := strings.ToLower(m[1]); word {
		case "since":
			between(at, time.Time{}, "since "+nice(at.Format(time.DateOnly)))
		case "after":
			between(at.AddDate(0, 0, 1), time.Time{}, "after "+nice(at.Format(time.DateOnly)))
		case "before":
			between(time.Time{}, at.AddDate(0, 0, -1), "before "+nice(at.Format(time.DateOnly)))
		default:
			between(time.Time{}, at, "until "+nice(at.Format(time.DateOnly)))
		}
		return
	}
	if m := months.FindStringSubmatch(text); m != nil {
		at, err := time.Parse("January 2006", upper(strings.ToLower(m[1]))+day.Format(" 2006"))
		if err != nil {
			return
		}
		if at.After(day) && name != "due" && name != "starts" {
			at = at.AddDate(-1, 0, 0)
		}
		between(at, at.AddDate(0, 1, -1), "in "+at.Format("January"))
	}
}

// period are the first and the last day of a week, month, quarter or year: this one, the next or the last.
func period(day time.Time, which, unit string) (first, last time.Time) {
	n := map[string]int{"next": 1, "last": -1}[which]
	month := time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
	switch unit {
	case "week":
		first = day.AddDate(0, 0, 7*n-(int(day.Weekday())+6)%7)
		return first, first.AddDate(0, 0, 6)
	case "month":
		first = month.AddDate(0, n, 0)
		return first, first.AddDate(0, 1, -1)
	case "quarter":
		first = month.AddDate(0, 3*n-(int(month.Month())-1)%3, 0)
		return first, first.AddDate(0, 3, -1)
	}
	first = time.Date(day.Year()+n, 1, 1, 0, 0, 0, 0, time.UTC)
	return first, first.AddDate(1, 0, -1)
}

func back(now time.Time, n int, unit string) time.Time {
	switch strings.ToLower(unit) {
	case "day":
		return now.AddDate(0, 0, -n)
	case "week":
		return now.AddDate(0, 0, -7*n)
	case "month":
		return now.AddDate(0, -n, 0)
	}
	return now.AddDate(-n, 0, 0)
}

// nice is a day for people.
func nice(day string) string {
	at, err := time.Parse(time.DateOnly, day[:min(len(day), 10)])
	if err != nil {
		return day
	}
	return at.Format("2 January 2006")
}
