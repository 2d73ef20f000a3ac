package household

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// past says whether, when and by whom something came to be so.
func (u *turn) past(q *ask, a *answered) []Call {
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	es = es[:min(len(es), 8)]
	if slices.ContainsFunc(es, func(e entity) bool { _, is := e.value(); return is && e.unit != "" }) {
		return u.figures(q, a)
	}
	span := u.span(q.when, "-168h")
	if _, ok := u.instant(q); ok { // what was so at a time began before it
		span = "-168h"
	}
	book := Call{logbook, map[string]any{"entities": idsOf(es), "start": span, "limit": 200}}
	seen := Call{history, map[string]any{"entities": idsOf(es), "start": span}}
	rows, ok := u.got(book)
	states, ok2 := u.got(seen)
	if !ok || !ok2 {
		return []Call{book, seen}
	}
	all := bookOf(rows.Output)
	all = slices.DeleteFunc(all, func(c change) bool { return !inPart(q, c.at) || strings.HasPrefix(c.id, "automation.") })
	past := pastOf(states.Output)
	for _, e := range es {
		a.cite(e.id, e.name)
	}
	state := q.state
	if state == "" {
		state = "on"
		if len(es) > 0 && (es[0].domain() == "cover" || es[0].class == "door" || es[0].class == "window") {
			state = "open"
		}
		if es[0].domain() == "person" {
			state = "home"
		}
	}
	if t, ok := u.instant(q); ok {
		u.stateAt(q, es, all, state, t, a)
		return nil
	}
	var hits []change
	ended := map[string]bool{} // at the end of its program, and off later: that is one end
	for _, c := range all {
		is := c.of(es)
		again := state == "finished" && ended[c.id]
		ended[c.id] = is.is("finished")
		if is.is(state) && (state != "away" || is.state == "not_home") && !is.lost() && !again {
			hits = append(hits, c)
		}
	}
	const most = 12
	for _, c := range all[max(0, len(all)-most):] {
		a.prove("%s: %s %s%s", c.name, c.of(es).told(), u.know.when(c.at), byWhom(c))
	}
	said := q.when.said
	if said == "" || q.when.tool == "now" {
		said = "in the time that is recorded"
	}
	switch {
	case q.aspect == "who" || q.first:
		u.who(q, es, hits, state, said, a)
	case q.aspect == "often":
		if len(hits) == 0 {
			a.say("%s", u.notSeen(es, past, state, said))
			return nil
		}
		a.say("%s: %s %s%s.", upper(times(len(hits))), theNames(es), verbed(state), strings.TrimPrefix(clocksOf(u, hits), ","))
	case len(hits) == 0:
		a.say("%s", u.notSeen(es, past, state, said))
	case q.aspect == "howlong":
		u.lengths(es, hits, all, said, a)
	case q.aspect == "when" || q.aspect == "begin":
		u.moments(q, es, hits, all, state, a)
	default:
		u.intervals(q, es, hits, all, state, said, a)
	}
	return nil
}

// inPart leaves out what is of another part of a night, when one is named.
func inPart(q *ask, t time.Time) bool {
	return q.when.half == 0 || (q.when.half > 0) == (t.Hour() < 12)
}

var atClock = regexp.MustCompile(`\bat (?:about |around )?(?:(noon|midday|midnight)|(\d{1,2})(?:[. ]([0-5]\d))? ?(am|pm|a\.m|p\.m|o'clock)?)(?:\s|$)`)

// instant is the moment that a question names: at noon yesterday. Who asks when
// something came to be so names none.
func (u *turn) instant(q *ask) (time.Time, bool) {
	m := atClock.FindStringSubmatch(strings.Join(q.ws, " "))
	if m == nil || q.aspect != "" || !slices.Contains([]string{"was", "were"}, q.ws[0]) {
		return time.Time{}, false
	}
	hour, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(m[3])
	switch {
	case m[1] == "midnight":
		hour = 0
	case m[1] != "":
		hour = 12
	case strings.HasPrefix(m[4], "p") && hour < 12:
		hour += 12
	case strings.HasPrefix(m[4], "a") && hour == 12:
		hour = 0
	}
	day := u.know.now
	switch q.when.tool {
	case "", "now", "today":
	case "yesterday":
		day = day.AddDate(0, 0, -1)
	case "day before yesterday":
		day = day.AddDate(0, 0, -2)
	default:
		return time.Time{}, false
	}
	t := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, day.Location())
	return t, hour < 24 && t.Before(u.know.now)
}

// stateAt says how things were at a moment.
func (u *turn) stateAt(q *ask, es []entity, all []change, state string, t time.Time, a *answered) {
	for _, e := range es {
		is := e
		var from, to time.Time
		for _, c := range all {
			if c.id != e.id {
				continue
			}
			if c.at.After(t) {
				to = c.at
				break
			}
			is, from = c.of(es), c.at
		}
		if from.IsZero() {
			a.say("I can not tell: nothing is recorded of %s up to then.", e.the())
			continue
		}
		a.prove("%s: %s %s", e.name, is.told(), u.know.when(from))
		until := ""
		if !to.IsZero() {
			until = " to " + u.know.since(to)
		}
		yes := map[bool]string{true: "Yes", false: "No"}[is.is(state)]
		a.say("%s: %s was %s %s, from %s%s.", yes, e.the(), is.told(), u.know.when(t), u.know.since(from), until)
	}
}
