package scripted

import (
	"regexp"
	"slices"
	"strings"
)

// otherDay reports whether the question names a day of the week, and what holds another.
func otherDay(w weight) bool {
	days := aWeekday.FindAllString(strings.ToLower(w.Subject.question), -1)
	text := strings.ToLower(joined(w.Best.focus))
	return len(days) > 0 && aWeekday.MatchString(text) && !slices.ContainsFunc(days, func(d string) bool { return strings.Contains(text, d) })
}

var aWeekday = regexp.MustCompile(`(?i)\b(?:mon|tues|wednes|thurs|fri|satur|sun)day`)

// number matches a number. Its second group is set if the number is an hour of the day.
var number = regexp.MustCompile(`(?i)\b(\d+(?:[.,:]\d+)*)( ?(?:am|pm|o'clock)\b)?`)

// bound is a figure up to which, or from which on, something is so.
var bound = regexp.MustCompile(`(?i)\b(?:over|above|under|below|up to|at least|at most|more than|less than|heavier than|lighter than) \d+(?:[.,]\d+)? ?([a-z%€$£]+)`)

// countedFigure is a figure with what it counts.
var countedFigure = regexp.MustCompile(`(?i)\b\d+(?:[.,]\d+)? ?([a-z%€$£]+)`)

// bounded reports whether the question has a figure for which what holds sets a bound.
func bounded(w weight) bool {
	for _, b := range bound.FindAllStringSubmatch(w.Best.Text, -1) {
		for _, m := range countedFigure.FindAllStringSubmatch(w.Subject.question, -1) {
			if stem(strings.ToLower(m[1])) == stem(strings.ToLower(b[1])) {
				return true
			}
		}
	}
	return false
}
