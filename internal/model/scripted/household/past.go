package household

import (
	"slices"
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
	var hits []change
	for _, c := range all {
		if is := c.of(es); is.is(state) && (state != "away" || is.state == "not_home") && !is.lost() {
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
