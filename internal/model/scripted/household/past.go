package household

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// past says whether, when and by whom something was brought into a state.
func (u *turn) past(q *ask, a *answered) []Call {
	if q.kind == nil && len(q.names) == 0 && len(q.areas) > 0 && (q.state == "open" || q.state == "closed") {
		q.kind = kindNamed("door, blind or gate")
	}
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
	if es[0].domain() == "event" {
		for _, e := range es {
			if e.domain() != "event" {
				continue
			}
			a.cite(e.id, e.name+": "+e.told())
			if t := moment(e.state); !t.IsZero() {
				a.say("The last time for %s is %s.", e.the(), u.know.when(t))
				continue
			}
			ws := strings.Fields(e.the()) // "the doorbell ring"
			of, what := strings.Join(ws[:len(ws)-1], " "), ws[len(ws)-1]
			a.say("No %s of %s is recorded%s.", what, orText(of, "it"), strings.TrimRight(" "+q.when.said, " "))
		}
		return nil
	}
	if picked := slices.DeleteFunc(slices.Clone(es), func(e entity) bool { return !strings.HasSuffix(e.domain(), "select") }); len(picked) == len(es) {
		return u.picked(q, es, a)
	}
	since := u.span(q.when, "-168h")
	then := u.period(q.when, "-168h")
	if _, ok := u.instant(q); ok { // a state at a moment may have begun before it
		since = "-168h"
		then = map[string]any{"start": since}
	}
	book := Call{Tool: logbook, Input: with(then, map[string]any{"entities": idsOf(es), "limit": 200})}
	seen := Call{Tool: history, Input: with(then, map[string]any{"entities": idsOf(es)})}
	rows, ok := u.got(book)
	states, ok2 := u.got(seen)
	if !ok || !ok2 {
		return []Call{book, seen}
	}
	all := bookOf(rows.Output)
	all = slices.DeleteFunc(all, func(c change) bool { return !inPart(q, c.at) || strings.HasPrefix(c.id, "automation.") })
	past := pastOf(states.Output)
	all = slices.DeleteFunc(all, func(c change) bool { // the start of the record is no event
		p := past[c.id]
		return p != nil && !p.recorded.IsZero() && c.at.Sub(p.recorded).Abs() < 2*time.Second
	})
	for _, e := range es {
		a.cite(e.id, e.name)
	}
	state := orText(q.state, usualState(es[0]))
	if t, ok := u.instant(q); ok {
		u.stateAt(q, es, all, state, t, a)
		return nil
	}
	said := q.when.said
	if said == "" || q.when.tool == "now" {
		said = "in the time that is recorded"
	}
	if named := q.when.tool != "" && q.when.tool != "now"; named && !slices.ContainsFunc(es, func(e entity) bool { return past[e.id] != nil && !past[e.id].nothing }) {
		return u.unrecorded(es, said, a)
	} else if from := partly(past); named && !from.IsZero() && !q.out {
		first, whole := len(a.parts), said
		said = afterThat
		defer func() { u.qualified(a, first, whole, from) }()
	}
	within := all
	var begun []change
	if q.out {
		out, when, calls := u.inAbsence(q, since)
		if len(calls) > 0 {
			return calls
		}
		within, said, begun = during(all, out), when, already(es, all, past, out, state)
	}
	var hits []change
	ended := map[string]bool{} // a program that ends and the machine that goes off later count as one end
	for _, c := range within {
		is := c.of(es)
		again := state == "finished" && ended[c.id]
		ended[c.id] = is.is("finished")
		if is.is(state) && (state != "away" || is.state == "not_home") && !is.lost() && !again {
			hits = append(hits, c)
		}
	}
	if q.whose && slices.ContainsFunc(hits, func(c change) bool { return c.by != "" }) {
		hits = slices.DeleteFunc(hits, func(c change) bool { return c.by == "" })
	}
	if !q.out {
		begun = u.begun(q, es, all, past, states, state)
	}
	const most = 12
	for _, c := range all[max(0, len(all)-most):] {
		a.prove("%s: %s %s%s", c.name, c.of(es).told(), u.know.when(c.at), byWhom(c))
	}
	switch {
	case q.out && len(hits)+len(begun) == 0 && q.aspect != "who" && q.aspect != "often":
		a.say("No: %s %s not %s %s.", theNames(es), map[string]string{"is": "was", "are": "were"}[are(es)], doneWord(state), said)
	case len(es) == 2 && q.aspect == "" && len(hits) > 0 && sooner.MatchString(strings.Join(q.ws, " ")):
		u.sooner(q, es, hits, state, a)
	case q.aspect == "who" || q.first:
		u.who(q, es, hits, state, said, a)
	case q.aspect == "often":
		if len(hits) == 0 {
			a.say("%s", u.notSeen(q, es, past, state, said))
			return nil
		}
		a.say("%s: %s %s%s.", upper(times(len(hits))), theNames(es), verbed(state), strings.TrimPrefix(clocksOf(u, hits), ","))
	case len(hits) == 0 && q.lent && q.aspect == "when" && q.clock == "": // not in that time, but maybe before
		q.lent, q.when = false, span{}
		before := len(a.parts)
		calls := u.past(q, a)
		if len(a.parts) > before {
			a.parts[before] = "Not " + said + ". " + a.parts[before]
		}
		return calls
	case len(hits)+len(begun) == 0:
		if q.clause && len(es) == 1 { // it was expected to
			failed, calls := u.failedFor(es[0], since)
			if len(calls) > 0 {
				return calls
			}
			defer func() { a.say("%s", failed) }()
		}
		a.say("%s", u.notSeen(q, es, past, state, said))
	case len(hits) == 0 && q.aspect == "when" && len(begun) == len(es) && q.when.short() && !ongoing.MatchString(strings.Join(q.ws, " ")):
		for _, h := range begun {
			a.say("%s %s %s already when that time began, %s.", upper(h.of(es).the()), was(h.of(es)), h.of(es).told(), u.know.when(h.at))
		}
	case q.aspect == "howlong" && q.last && len(hits) > 0 && len(es) == 1:
		last := hits[len(hits)-1]
		u.lengths(es, hits[len(hits)-1:], all, u.know.now, "", a)
		a.parts[len(a.parts)-1] = strings.TrimSuffix(a.parts[len(a.parts)-1], " .") + ", from " + u.know.since(last.at) + " on."
	case q.aspect == "howlong":
		end := u.know.now
		if m := historySpan.FindStringSubmatch(states.Output); m != nil && moment(m[2]).Before(end) {
			end = moment(m[2])
		}
		u.lengths(es, append(begun, hits...), all, end, said, a)
	case q.aspect == "when" && habit.MatchString(strings.Join(q.ws, " ")):
		for _, e := range es {
			var ts []time.Time
			for _, h := range hits {
				if h.id == e.id {
					ts = append(ts, h.at)
				}
			}
			if len(ts) > 0 {
				var at []string
				for _, t := range ts {
					if c := t.Format("15:04"); !slices.Contains(at, c) {
						at = append(at, c)
					}
				}
				slices.Sort(at)
				a.say("In the days that are recorded %s %s at %s.", e.the(), verbedOf(e, state), listed(at))
			}
		}
	case q.aspect == "when" && ongoing.MatchString(strings.Join(q.ws, " ")) && q.when.short():
		u.intervals(q, es, append(begun, hits...), all, state, said, a)
	case (q.aspect == "when" || q.aspect == "begin") && len(hits) > 0:
		u.moments(q, es, hits, all, state, a)
	default:
		u.intervals(q, es, append(begun, hits...), all, state, said, a)
	}
	return nil
}

// with returns the two together.
func with(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// habit matches a question for the time at which something happens on most days.
var habit = pattern.New(`\b(?:usually|normally|typically)\b|^(?:and |so )?(?:when|what time|at what time) (?:do|does) `)

// picked says what was selected in a list at a time.
func (u *turn) picked(q *ask, es []entity, a *answered) []Call {
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": u.span(q.when, "-168h")}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	said := orText(q.when.said, "in the time that is recorded")
	for _, e := range es {
		p := pastOf(r.Output)[e.id]
		if p == nil || len(p.share) == 0 {
			a.say("That cannot be told: nothing is recorded of %s %s.", e.the(), said)
			continue
		}
		var were []string
		for s := range p.share {
			was := e
			was.state = s
			were = append(were, was.told())
		}
		slices.Sort(were)
		a.cite(e.id, e.name+": "+listed(were))
		a.say("%s %s %s %s.", upper(e.the()), was(e), listed(were), said)
	}
	return nil
}

// sooner matches words that compare the times of two changes.
var sooner = pattern.New(`\b(?:before|earlier than|sooner than|after|later than)\b`)

// sooner says which of two things changed first.
func (u *turn) sooner(q *ask, es []entity, hits []change, state string, a *answered) {
	first := hits[0].of(es)
	other := slices.IndexFunc(hits, func(c change) bool { return c.id != first.id })
	if other < 0 {
		a.say("Only %s %s, %s.", first.the(), verbedOf(first, state), u.know.when(hits[0].at))
		return
	}
	second := hits[other].of(es)
	place := func(e entity) int { // position in the question
		return slices.IndexFunc(q.ws, func(w string) bool { return u.named(e, w) && !idle[w] })
	}
	late := has(q.ws, "after|later")
	yes := map[bool]string{true: "Yes", false: "No"}[place(first) < place(second) != late]
	a.say("%s: %s %s %s, and %s %s.", yes, first.the(), verbedOf(first, state), u.know.when(hits[0].at), second.the(), u.know.when(hits[other].at))
}

// ongoing matches a question about when a state held, not when it began.
var ongoing = pattern.New(`^(?:and )?(?:when|at what times?) (?:was|were) (?:\S+ ){1,4}(?:on|off|open|closed|shut|locked|unlocked|armed|disarmed|running|charging|playing|cleaning|heating|out|away|home|at home)\b`)

// begun returns the things that were already in a state when the period began. Each of
// them keeps it until its first change.
func (u *turn) begun(q *ask, es []entity, all []change, past map[string]*series, r Result, state string) []change {
	m := historySpan.FindStringSubmatch(r.Output)
	if m == nil || q.when.tool == "" || q.when.half != 0 {
		return nil
	}
	var out []change
	for _, e := range es {
		p := past[e.id]
		i := slices.IndexFunc(all, func(c change) bool { return c.id == e.id })
		if p == nil || i < 0 || all[i].of(es).is(state) {
			continue
		}
		for s := range p.share {
			was := e
			was.state, was.attrs = s, nil
			// Of two states that it had, the first change led from the one to the other.
			later := len(p.share) != 2 && slices.ContainsFunc(all, func(c change) bool { return c.id == e.id && c.state == s })
			if was.is(state) && !was.lost() && !later {
				begin := moment(m[1])
				if p.recorded.After(begin) {
					begin = p.recorded
				}
				out = append(out, change{at: begin, id: e.id, name: e.name, state: s, early: true})
			}
		}
	}
	return out
}

// inPart reports whether a time is in the half of the night that the question names, if
// it names one.
func inPart(q *ask, t time.Time) bool {
	return q.when.half == 0 || (q.when.half > 0) == (t.Hour() < 12)
}

// stateAt says what states things had at a moment.
func (u *turn) stateAt(q *ask, es []entity, all []change, state string, at time.Time, a *answered) {
	for _, e := range es {
		is := e
		var from, to time.Time
		for _, c := range all {
			if c.id != e.id {
				continue
			}
			if c.at.After(at) {
				to = c.at
				break
			}
			is, from = c.of(es), c.at
		}
		if from.IsZero() {
			a.say("I cannot tell: nothing is recorded of %s up to then.", e.the())
			continue
		}
		a.prove("%s: %s %s", e.name, is.told(), u.know.when(from))
		clock := func(t time.Time) string { // on the same day, the hour is enough
			if day := u.know.now.Location(); t.In(day).YearDay() == at.In(day).YearDay() {
				return t.Format("15:04")
			}
			return u.know.since(t)
		}
		until := "since " + clock(from)
		if !to.IsZero() {
			until = "from " + clock(from) + " to " + clock(to)
		}
		yes := map[bool]string{true: "Yes: ", false: "No: "}[is.is(state)]
		if q.aspect == "where" || q.state == "" {
			yes = ""
		}
		a.say("%s%s %s %s %s, %s.", yes, orText(map[bool]string{true: upper(e.the())}[yes == ""], e.the()), was(e), is.told(), u.know.when(at), until)
	}
}
