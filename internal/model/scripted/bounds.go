package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// onDay returns whether a question's days of the week are among those that what holds names: yes,
// no, or "" if one of them names none.
func onDay(question, text string) string {
	asked, days := daysOf(question), daysOf(text)
	switch {
	case len(asked) == 0 || len(days) == 0:
		return ""
	case slices.ContainsFunc(asked, func(d string) bool { return !slices.Contains(days, d) }):
		return "no"
	}
	return "yes"
}

// daysOf returns the days of the week that a text names, by their first letters.
func daysOf(text string) []string {
	var out []string
	for _, d := range aWeekday.FindAllString(strings.ToLower(text), -1) {
		switch {
		case d == "weekday":
			out = append(out, "mon", "tue", "wed", "thu", "fri")
		case d == "weekend":
			out = append(out, "sat", "sun")
		case d == "daily", d == "every day":
			out = append(out, "mon", "tue", "wed", "thu", "fri", "sat", "sun")
		default:
			out = append(out, d[:3])
		}
	}
	return out
}

var aWeekday = pattern.New(`(?i)\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|weekday|weekend|every day\b|daily\b)`)

// number matches a number. Its second group is set if the number is an hour of the day.
var number = pattern.New(`(?i)\b(\d+(?:[.,:]\d+)*)( ?(?:am|pm|o'clock)\b)?`)
