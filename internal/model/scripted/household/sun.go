package household

import (
	"regexp"
	"time"
)

// sunAhead are words for what the sun will do. The record tells only what it did.
var sunAhead = regexp.MustCompile(`\b(?:will|going to|gonna)\b|\b(?:does|do) the sun (?:set|rise|go down|come up)\b`)

// nextSun says when the sun sets or rises next, where Home Assistant gives that
// time: in next_setting and next_rising of the sun. It is never told from the past.
func (u *turn) nextSun(q *ask, a *answered) []Call {
	all, calls := u.list(q.kind)
	if len(calls) > 0 {
		return calls
	}
	attr, verb := "next_setting", "sets"
	if q.state == "up" {
		attr, verb = "next_rising", "rises"
	}
	for _, e := range all {
		at, err := time.Parse(time.RFC3339, textOf(e.attrs[attr]))
		if err != nil {
			continue
		}
		at = at.In(u.know.now.Location())
		day := "on " + at.Format("Monday, 2 January")
		switch at.Format(time.DateOnly) {
		case u.know.now.Format(time.DateOnly):
			day = "today"
		case u.know.now.AddDate(0, 0, 1).Format(time.DateOnly):
			day = "tomorrow"
		}
		a.cite(e.id, attr+": "+textOf(e.attrs[attr]))
		a.say("The sun next %s %s at %s.", verb, day, at.Format("15:04"))
		return nil
	}
	a.say("I cannot tell when the sun %s next: the house records what was, and Home Assistant gives no time for it here.", verb)
	return nil
}
