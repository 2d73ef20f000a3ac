package household

import (
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// sunAhead matches a question about what the sun will do. The history only has what it
// did.
var sunAhead = pattern.New(`\b(?:will|going to|gonna)\b|\b(?:does|do) the sun (?:set|rise|go down|come up)\b`)

// nextSun says when the sun sets or rises next. Home Assistant gives the times in
// next_setting and next_rising of the sun; the past does not tell them.
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
