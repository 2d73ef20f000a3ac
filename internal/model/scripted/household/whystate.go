package household

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// A routine that ran this close to a change that nobody is recorded for is worth a mention. A time
// of day that somebody names is less exact than a logbook.
const (
	closeRun   = 5 * time.Minute
	aroundTime = 15 * time.Minute
)

// habitual matches a question for what happens again and again.
var habitual = pattern.New(`\b(?:every|each|always|usually|keeps?)\b`)

// whyState says who or what caused a state that has no unusual cause, such as a light that somebody
// turned off: by the logbook, and else by what ran at that time and uses the thing.
func (u *turn) whyState(q *ask, es []entity, a *answered) []Call {
	es = es[:min(len(es), 8)]
	in, slack := map[string]any{"start": u.span(q.when, "-36h"), "limit": 200}, closeRun
	own := *q
	own.aspect = ""
	if t, ok := u.instant(&own); ok {
		const layout = "2006-01-02 15:04"
		in["start"], in["end"], slack = t.Add(-aroundTime).Format(layout), t.Add(aroundTime).Format(layout), aroundTime
	}
	all, calls := u.routines("automation", "script")
	book := Call{Tool: logbook, Input: with(in, map[string]any{"entities": idsOf(es)})}
	rows, ok := u.got(book)
	if !ok {
		calls = append(calls, book)
	}
	if len(calls) > 0 {
		return calls
	}
	var hits []change // the last of each
	for _, e := range es {
		for _, row := range slices.Backward(bookOf(rows.Output)) {
			if row.id == e.id && row.of(es).is(q.state) {
				hits = append(hits, row)
				break
			}
		}
	}
	if len(hits) == 0 {
		a.say("%s did not do so in that time.", upper(theNames(es)))
		return nil
	}
	var order []string // sentences of the same words are one
	of := map[string][]entity{}
	unknown := false
	for _, h := range hits {
		e := h.of(es)
		a.cite(e.id, e.name)
		said := fmt.Sprintf("%%s %s %s.", verbed(q.state), u.know.when(h.at))
		if h.by != "" {
			said = fmt.Sprintf("%s %s %%s %s.", upper(h.by), did(q.state), u.know.when(h.at))
		}
		unknown = unknown || h.by == ""
		if of[said] == nil {
			order = append(order, said)
		}
		of[said] = append(of[said], e)
	}
	then := "that"
	if habitual.MatchString(strings.Join(q.ws, " ")) { // then each time counts
		then = "such a"
		hits = slices.DeleteFunc(bookOf(rows.Output), func(c change) bool { return !c.of(es).is(q.state) })
	}
	var ran []string
	if unknown && len(all) > 0 {
		if ran, calls = u.ranThere(in, all, hits, es, slack); len(calls) > 0 {
			return calls
		}
	}
	var said []string
	for _, s := range order {
		said = append(said, upper(fmt.Sprintf(s, theNames(of[s]))))
	}
	if unknown {
		said = append(said, "No person and no automation is recorded for this.")
	}
	a.say("%s", strings.Join(said, " "))
	if len(ran) > 0 {
		a.say("Near %s time %s.", then, listed(ran))
	}
	return nil
}

// whyNot says what might have brought a thing into a state and did not, and when it was in it.
func (u *turn) whyNot(q *ask, e entity, a *answered) []Call {
	by, _, calls := u.usersOf(e)
	if len(calls) > 0 {
		return calls
	}
	said := "no automation, script or scene uses it"
	if len(by) > 0 {
		said = "it is used by " + listed(by)
	}
	a.say("Nothing records why something did not happen. Of what could have acted on %s: %s.", e.the(), said)
	own := *q
	own.intent, own.aspect, own.clause = isPast, "", false
	if own.when.tool == "" {
		own.when = span{tool: "today", said: "today"}
	}
	first := len(a.parts)
	calls = u.past(&own, a)
	if len(a.parts) > first {
		a.parts[first] = upper(strings.TrimPrefix(strings.TrimPrefix(a.parts[first], "Yes, "), "No: "))
	}
	return calls
}

// ranThere returns the routines that ran close to the changes and use what changed, or the calls
// for them.
func (u *turn) ranThere(in map[string]any, all []entity, hits []change, es []entity, slack time.Duration) (said []string, calls []Call) {
	book := Call{Tool: logbook, Input: with(in, map[string]any{"entities": idsOf(all[:min(len(all), 50)])})}
	r, ok := u.got(book)
	if !ok {
		return nil, []Call{book}
	}
	near := map[string]time.Time{}
	for _, row := range bookOf(r.Output) {
		if slices.ContainsFunc(hits, func(h change) bool { return h.at.Sub(row.at).Abs() <= slack }) {
			near[row.id] = row.at
		}
	}
	const most = 3
	for _, e := range all {
		at, ok := near[e.id]
		if !ok || len(said)+len(calls) >= most {
			continue
		}
		r, ok := u.got(usesOf(e))
		if !ok {
			calls = append(calls, usesOf(e))
			continue
		}
		ids := usedIDs(e, r)
		if slices.ContainsFunc(es, func(o entity) bool {
			return slices.Contains(ids, o.id) || slices.ContainsFunc(ids, func(id string) bool { return u.groupOf(id, o) })
		}) {
			said = append(said, fmt.Sprintf("the %s %s ran, %s, which uses %s", e.domain(), e.name, u.know.when(at), map[bool]string{true: "them", false: "it"}[len(es) > 1 || es[0].many()]))
		}
	}
	return said, calls
}

// groupOf reports whether an id is that of the group of a thing's room: a group has no area, but
// the room's name is in its own.
func (u *turn) groupOf(id string, of entity) bool {
	return slices.ContainsFunc(u.know.hits, func(g entity) bool {
		return g.id == id && g.class == "group" && g.domain() == of.domain() && of.area != "" && u.named(g, strings.ToLower(of.area))
	})
}
