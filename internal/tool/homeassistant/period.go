package homeassistant

import (
	"strings"
	"time"
)

// The hours that are meant by a part of the day. They overlap as the words do: 17:30 is both
// afternoon and evening.
const (
	morningBegins   = 5
	noon            = 12
	eveningBegins   = 17
	afternoonEnds   = 18
	nightBegins     = 20
	nightEnds       = 8 // of the next day
	stillUp         = 5 // before this hour, the current night is not "last night"
	daysOfWeek      = 7
	hoursOfDay      = 24
	midnightOfNight = 24
)

var partsOfDay = map[string][2]int{
	"morning":   {morningBegins, noon},
	"afternoon": {noon, afternoonEnds},
	"evening":   {eveningBegins, midnightOfNight},
	"night":     {nightBegins, hoursOfDay + nightEnds},
}

// period reads a span that people name in words, such as "last night", "yesterday evening",
// "friday morning" or "last week". The end may be in the future. ok is false for other words.
//
// Last night is the last night that is over. At 01:07 the current night is "tonight".
func period(words string, now time.Time) (from, to time.Time, ok bool) {
	w := strings.Join(strings.Fields(strings.ToLower(words)), " ")
	w = strings.TrimPrefix(w, "the ")
	day := func(back, fromHour, toHour int) (time.Time, time.Time, bool) {
		at := func(h int) time.Time {
			return time.Date(now.Year(), now.Month(), now.Day()-back, h, 0, 0, 0, now.Location())
		}
		return at(fromHour), at(toHour), true
	}
	switch w {
	case "today":
		return day(0, 0, hoursOfDay)
	case "yesterday":
		return day(1, 0, hoursOfDay)
	case "day before yesterday":
		return day(2, 0, hoursOfDay)
	case "last night":
		if now.Hour() < stillUp {
			return day(2, nightBegins, hoursOfDay+nightEnds)
		}
		return day(1, nightBegins, hoursOfDay+nightEnds)
	case "tonight", "this night", "night":
		if now.Hour() < noon {
			return day(1, nightBegins, hoursOfDay+nightEnds)
		}
		return day(0, nightBegins, hoursOfDay+nightEnds)
	case "last evening":
		return day(1, eveningBegins, hoursOfDay)
	case "this week", "last week":
		back := (int(now.Weekday()) + daysOfWeek - 1) % daysOfWeek // since Monday
		if w == "last week" {
			from, _, _ = day(back+daysOfWeek, 0, 0)
			to, _, _ = day(back, 0, 0)
			return from, to, true
		}
		from, _, _ = day(back, 0, 0)
		return from, from.AddDate(0, 0, daysOfWeek), true
	case "this month", "last month":
		from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location())
		if w == "last month" {
			return from.AddDate(0, -1, 0), from, true
		}
		return from, from.AddDate(0, 1, 0), true
	}
	which, part, _ := strings.Cut(w, " ")
	if which == "day" { // the day before yesterday, in the evening
		rest, found := strings.CutPrefix(w, "day before yesterday ")
		if !found {
			return from, to, false
		}
		which, part = "day before yesterday", rest
	}
	back, known := map[string]int{"this": 0, "today": 0, "yesterday": 1, "day before yesterday": 2}[which]
	if which == "last" {
		which, part, _ = strings.Cut(part, " ")
	}
	for n := 1; n <= daysOfWeek && !known; n++ {
		if strings.EqualFold(now.AddDate(0, 0, -n).Weekday().String(), which) {
			back, known = n, true
			if part == "" {
				return day(n, 0, hoursOfDay)
			}
		}
	}
	hours, is := partsOfDay[part]
	if !known || !is {
		return from, to, false
	}
	if which == "this" && now.Hour() < stillUp { // for somebody who is still awake, the day is not over
		back = 1
	}
	return day(back, hours[0], hours[1])
}

// clock formats the current time of the house in full.
func (x *Index) clock(now time.Time) string {
	at := x.in(now)
	return at.Format("Monday 2006-01-02 15:04Z07:00") + " (" + at.Location().String() + ")"
}
