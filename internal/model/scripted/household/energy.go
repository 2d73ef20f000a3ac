package household

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// energy says how much was used: the difference between two readings of a meter.
func (u *turn) energy(q *ask, a *answered) []Call {
	if q.kind == nil || !q.kind.measure {
		q.kind = kindNamed("energy meter")
	}
	own := *q
	own.kind = kindNamed("energy meter")
	es, calls := u.chosen(&own)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 && len(q.areas) > 0 || len(q.names) > 0 && (len(es) == 0 || !slices.ContainsFunc(es, func(e entity) bool { return u.named(e, q.names[0]) })) {
		return u.byPower(q, a)
	}
	if len(es) == 0 {
		return u.nothing(&own, a)
	}
	es = es[:min(len(es), 8)]
	if q.aspect == "normal" {
		return u.days(q, es[0], a)
	}
	span := u.span(q.when, "today")
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": span}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	said := q.when.said
	if said == "" || said == "now" {
		said = "today so far"
	} else if said == "today" || strings.HasPrefix(said, "this ") {
		said += " so far"
	}
	if q.compare != nil && q.compare.times {
		return u.compared(q, es[0], r, said, a)
	}
	past := pastOf(r.Output)
	told := false
	for _, e := range es {
		p := past[e.id]
		if p == nil || !p.numeric {
			continue
		}
		told = true
		a.cite(e.id, fmt.Sprintf("from %s to %s", amount(p.first, p.unit), amount(p.last, p.unit)))
		a.prove("%s: from %s to %s", e.name, amount(p.first, p.unit), amount(p.last, p.unit))
		if !p.recorded.IsZero() {
			a.say("That cannot be told for all of it: the history begins %s. Since then it was %s.", u.know.when(p.recorded), amount(p.last-p.first, p.unit))
			continue
		}
		a.say("You used **%s** %s, according to the %s.", amount(p.last-p.first, p.unit), said, lowerFirst(e.short()))
	}
	if told {
		return nil
	}
	far := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": "-720h", "plot": false}}
	r, ok = u.got(far)
	if !ok {
		return []Call{far}
	}
	for _, p := range pastOf(r.Output) {
		if p.numeric && !p.recorded.IsZero() {
			a.say("That cannot be told: the history of the house only goes back to %s, so it has no reading of %s.", u.know.since(p.recorded), said)
			return nil
		}
	}
	a.say("That cannot be told: the history of the house has no reading of %s.", said)
	return nil
}

// days puts the use of a time beside that of the days before: a meter's own figure only
// ever grows, so its mean tells nothing.
func (u *turn) days(q *ask, e entity, a *answered) []Call {
	asked := q.when
	if asked.tool == "" || asked.tool == "now" {
		asked = span{tool: "today", said: "today so far"}
	}
	spans := []span{asked, {tool: "yesterday", said: "yesterday"}, {tool: "day before yesterday", said: "the day before yesterday"}}
	var each []string
	var calls []Call
	for i, s := range spans {
		if i > 0 && s.tool == asked.tool {
			continue
		}
		c := Call{Tool: history, Input: map[string]any{"entities": []any{e.id}, "start": u.span(s, "today"), "plot": false}}
		r, ok := u.got(c)
		if !ok {
			calls = append(calls, c)
			continue
		}
		p := pastOf(r.Output)[e.id]
		if p == nil || !p.numeric || !p.recorded.IsZero() {
			continue
		}
		a.prove("%s: %s %s", e.name, amount(p.last-p.first, p.unit), s.said)
		each = append(each, fmt.Sprintf("**%s** %s", amount(p.last-p.first, p.unit), s.said))
	}
	if len(calls) > 0 {
		return calls
	}
	a.cite(e.id, e.name)
	if len(each) < 2 {
		a.say("What is usual is not recorded: the history of the house has no other whole day to compare with.")
		return nil
	}
	a.say("What is usual is not recorded. You used %s.", listed(each))
	return nil
}

// compared says whether one period used more than another.
func (u *turn) compared(q *ask, e entity, of Result, said string, a *answered) []Call {
	c := Call{Tool: history, Input: map[string]any{"entities": []any{e.id}, "start": u.span(q.compare.first, "today")}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	one, other := pastOf(r.Output)[e.id], pastOf(of.Output)[e.id]
	if one == nil || other == nil || !one.numeric || !other.numeric || !one.recorded.IsZero() || !other.recorded.IsZero() {
		a.say("That cannot be told: the history of the house does not have all of both times.")
		return nil
	}
	first := orText(q.compare.first.said, "today")
	if first == "today" || first == "now" {
		first = "today so far"
	}
	x, y := one.last-one.first, other.last-other.first
	yes, by := q.compare.verdict(x, y, func(f float64) string { return amount(f, one.unit) })
	a.cite(e.id, fmt.Sprintf("%s and %s", amount(x, one.unit), amount(y, one.unit)))
	a.say("%s was **%s** %s and **%s** %s; %s.", q.compare.opens(yes, "it"), amount(x, one.unit), first, amount(y, one.unit), said, by)
	return nil
}

var historySpan = pattern.New(`(?m)^History from (\d{4}-\S+ \S+) to (\d{4}-\S+ \S+)\.$`)

// byPower estimates what a thing without a meter used: its mean power times the recorded
// period.
func (u *turn) byPower(q *ask, a *answered) []Call {
	own := *q
	own.kind = kindNamed("power meter")
	es, calls := u.chosen(&own)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		own.kind = nil
		if len(u.things(q)) > 0 {
			a.say("I cannot tell: nothing measures what the %s uses.", strings.Join(q.names, " "))
			return nil
		}
		return u.nothing(&own, a)
	}
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es[:min(len(es), 4)]), "start": u.span(q.when, "today")}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	total, calls := u.counted(q)
	if len(calls) > 0 {
		return calls
	}
	said := q.when.said
	if said == "" || said == "now" {
		said = "today so far"
	}
	m := historySpan.FindStringSubmatch(r.Output)
	for _, e := range es {
		p := pastOf(r.Output)[e.id]
		if p == nil || !p.numeric || m == nil {
			a.say("That cannot be told: nothing is recorded of %s %s.", e.the(), said)
			continue
		}
		from, to := moment(m[1]), moment(m[2])
		if p.recorded.After(from) {
			from = p.recorded
		}
		first := len(a.parts)
		scale := map[string]float64{"W": 1e-3, "kW": 1}[p.unit]
		kWh := p.mean * scale * to.Sub(from).Hours()
		used := amount(kWh, "kWh")
		a.cite(e.id, "mean "+amount(p.mean, p.unit))
		if total != nil && kWh > total.last-total.first { // a part is not more than the whole
			a.say("I cannot tell: by the power that %s reports it was about %s %s, but the %s counted only %s for the whole house. These contradict each other, so one of them is wrong.", e.the(), used, said, lowerFirst(entity{name: total.name}.short()), amount(total.last-total.first, total.unit))
			a.cite(total.id, amount(total.last-total.first, total.unit))
			if calls := u.whenOn(q, a); len(calls) > 0 {
				return calls
			}
			continue
		}
		a.say("%s used about **%s** %s: it drew %s on average, and has no counter of its own.", upper(e.the()), used, map[bool]string{true: said, false: afterThat}[p.recorded.IsZero()], amount(p.mean, p.unit))
		u.qualified(a, first, said, p.recorded)
	}
	return nil
}

// counted returns what the meter of the house counted in the time of a question, or the calls for it;
// nil if there is no such meter.
func (u *turn) counted(q *ask) (*series, []Call) {
	meters, calls := u.list(kindNamed("energy meter"))
	meters = wholeHouse(&ask{kind: kindNamed("energy meter")}, meters)
	if len(calls) > 0 || len(meters) != 1 {
		return nil, calls
	}
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(meters), "start": u.span(q.when, "today"), "plot": false}}
	r, ok := u.got(c)
	if !ok {
		return nil, []Call{c}
	}
	if p := pastOf(r.Output)[meters[0].id]; p != nil && p.numeric {
		return p, nil
	}
	return nil, nil
}

// whenOn adds when the thing was on, for a use that cannot be told.
func (u *turn) whenOn(q *ask, a *answered) []Call {
	on := *q
	on.kind, on.intent, on.state, on.aspect = nil, isPast, "on", ""
	es, calls := u.chosen(&on)
	if len(calls) > 0 || len(es) == 0 || es[0].unit != "" {
		return calls
	}
	first := len(a.parts)
	calls = u.past(&on, a)
	if len(a.parts) > first {
		a.parts[first] = upper(strings.TrimPrefix(strings.TrimPrefix(a.parts[first], "Yes, "), "No: "))
	}
	return calls
}
