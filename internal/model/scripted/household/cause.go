package household

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// patients returns the things to diagnose: a room's light group if there is one,
// otherwise the things themselves.
func (u *turn) patients(q *ask) ([]entity, []Call) {
	if q.kind != nil && !q.kind.measure {
		all, calls := u.list(q.kind)
		if len(calls) > 0 {
			return nil, calls
		}
		es := u.narrow(q, all)
		if len(es) > 1 {
			for _, g := range u.know.hits { // a group has no area, but the room's name is in its own
				named := g.domain() == q.kind.domain && g.class == "group"
				if named && slices.ContainsFunc(q.areas, func(a string) bool { return u.named(g, strings.ToLower(a)) }) {
					return []entity{g}, nil
				}
			}
		}
		return es[:min(len(es), 3)], nil
	}
	es, calls := u.chosen(q)
	es = es[:min(len(es), 2)]
	for _, e := range u.things(q) { // the power a machine draws shows what its state does not
		if len(es) > 0 && len(es) < 3 && e.class == "power" && !slices.ContainsFunc(es, func(o entity) bool { return o.id == e.id }) && u.namedAll(e, q.names) {
			es = append(es, e)
		}
	}
	return es, calls
}

func (u *turn) namedAll(e entity, names []string) bool {
	return !slices.ContainsFunc(names, func(w string) bool { return !u.named(e, w) })
}

// cause says why something happened, what it was, and what to do about it.
func (u *turn) cause(q *ask, a *answered) []Call {
	if q.kind == nil && len(q.names) == 0 && len(q.areas) == 0 {
		a.say("I do not know what you mean: say which thing it is about, and about when.\n\n%s", help)
		return nil
	}
	if q.kind == nil && len(q.names) == 0 {
		return u.happened(q, a)
	}
	if q.kind != nil && q.kind.class == "temperature" && len(q.areas) > 0 { // "why is the bedroom so cold"
		all, calls := u.list(q.kind)
		if len(calls) > 0 {
			return calls
		}
		if es := roomly(q, u.narrow(q, all)); len(es) > 0 {
			if has(q.ws, "cold|cool|chilly|freezing|colder") {
				q.extreme = -1
			} else {
				q.extreme = 1
			}
			a.say("%s", reading(q, es[0]))
			return u.rankWhy(q, es, a)
		}
	}
	if q.aspect == "why" && q.state != "" && q.clock != "" { // why it came to be so at that time
		es, calls := u.chosen(q)
		if len(calls) > 0 {
			return calls
		}
		if len(es) > 0 {
			return u.whyState(q, es, a)
		}
	}
	es, calls := u.patients(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	if q.aspect == "since" && es[0].lost() {
		return u.lostSince(es, a)
	}
	span := u.span(q.when, "-36h")
	var ds []diagnosed
	log := Call{Tool: failures, Input: map[string]any{"since": span}}
	for _, e := range es {
		c := Call{Tool: diagnose, Input: map[string]any{"entity": e.id, "start": span}}
		r, ok := u.got(c)
		if !ok {
			calls = append(calls, c)
			continue
		}
		if !r.Failed {
			ds = append(ds, diagnosisOf(r.Output, u.know.areas))
		}
	}
	if _, ok := u.got(log); !ok {
		calls = append(calls, log)
	}
	if len(calls) > 0 {
		a.plan = "I look at what it went through, and at the errors."
		return calls
	}
	if len(ds) == 0 {
		a.say("I could not look into it.")
		return nil
	}
	d := ds[0]
	for _, o := range ds[1:] {
		if o.moments > d.moments {
			d = o
		}
	}
	if d.lost && len(d.errors) == 0 { // what is silent for long left its errors long ago
		c := Call{Tool: failures, Input: map[string]any{"entity": d.about.id, "since": "-720h"}}
		r, ok := u.got(c)
		if !ok {
			return []Call{c}
		}
		d.errors = faultsOf(r.Output)
	}
	for _, o := range ds {
		if o.about.id != d.about.id && o.moments == d.moments && len(o.at) == len(d.at) && !slices.ContainsFunc(o.at, func(t time.Time) bool { return !near(t, d.at) }) {
			d.also = append(d.also, o.about)
		}
	}
	d.together = slices.DeleteFunc(d.together, func(t together) bool {
		return slices.ContainsFunc(d.also, func(e entity) bool { return e.id == t.id })
	})
	if more := u.seen(d, span); more != nil {
		a.plan = "I look at the history of what happened at the same moments."
		return []Call{*more}
	}
	if u.verdict(d).kind == "nothing" && len(es) > 1 && len(d.errors) == 0 && !d.lost && q.aspect == "" {
		a.say("**I find nothing unusual about %s %s.** No outage, no state that stood only for moments, and no value far from the others is recorded.", theNames(es), orText(q.when.said, "in the last day and a half"))
		return nil
	}
	if v := u.verdict(d); v.kind == "nothing" && q.state != "" && q.aspect == "why" && len(d.errors) == 0 {
		if re(`\b(?:did|does|do|is|was|has|have) not\b`).MatchString(strings.Join(q.ws, " ")) {
			return u.whyNot(q, es[0], a)
		}
		return u.whyState(q, es, a)
	}
	u.explain(q, d, a)
	return nil
}

// seen returns the call that draws the history of things that changed together. It
// returns nil if there are none, or if the call was made already.
func (u *turn) seen(d diagnosed, span string) *Call {
	var ids []any
	for _, t := range d.together {
		if dom, _, _ := strings.Cut(t.id, "."); (dom == "sensor" || dom == "binary_sensor") && len(ids) < 3 {
			ids = append(ids, t.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	c := Call{Tool: history, Input: map[string]any{"entities": append(ids, d.about.id), "start": span}}
	if _, ok := u.got(c); ok {
		return nil
	}
	return &c
}

// verdict is the cause of the moments, as far as it can be told.
type verdict struct {
	kind    string // voltage, link, automation, error, unclear, nothing
	what    string // a sentence
	starter string // in how many of the moments something had started: "each time when the pump had just started"
	besides string // a sentence about its starts at other times, or ""
}

// started says how many of the moments came with a start. What was counted are the moments: that
// each start came with one is another claim, so the starts at other times are named, too.
func (u *turn) started(d diagnosed, t *together, past, without string) (of, besides string) {
	name, verb := lowerFirst(t.name), "come on"
	if past == "started" {
		name, verb = "the "+name, past
	}
	of = "each time when " + name + " had just " + verb
	switch {
	case d.moments == 1:
		of = "when " + name + " had just " + verb
	case t.hits < d.moments:
		of = fmt.Sprintf("%s of the %s times when %s had just %s", count(t.hits), count(d.moments), name, verb)
	}
	if t.without > 0 {
		besides = fmt.Sprintf("%s also %s %s %s", upper(name), past, times(t.without), without)
		if len(t.alone) == t.without {
			besides += map[bool]string{true: ", ", false: ": "}[t.without == 1] + u.know.clocks(t.alone)
		}
		besides += "."
	}
	return of, besides
}

func (u *turn) verdict(d diagnosed) verdict {
	v := verdict{kind: "unclear"}
	if d.moments == 0 && len(d.caused) == 0 {
		v.kind = "nothing"
		return v
	}
	var volts, link, starts *together
	for i := range d.together {
		t := &d.together[i]
		low := strings.ToLower(t.name)
		domain, _, _ := strings.Cut(t.id, ".")
		switch {
		case t.what == "unusual value" && strings.Contains(low, "voltage") && volts == nil:
			volts = t
		case t.what == "unusual value" && (strings.Contains(low, "lqi") || strings.Contains(low, "rssi") || strings.Contains(low, "signal")) && link == nil:
			link = t
		case t.what == "→ on" && (domain == "binary_sensor" || domain == "switch") && starts == nil:
			starts = t
		}
	}
	auto := ""
	for _, c := range d.caused {
		if strings.Contains(c, "automation.") || strings.Contains(c, "script.") {
			if m := re(`\(([^()]*)\)$`).FindStringSubmatch(c); m != nil {
				auto = m[1]
			}
		}
	}
	switch {
	case auto != "":
		v.kind, v.what = "automation", fmt.Sprintf("The automation %s did it", auto)
		if starts != nil {
			v.starter, v.besides = u.started(d, starts, "came on", "without such a moment")
			v.what += ", " + v.starter
		}
	case volts != nil:
		v.kind, v.what = "voltage", "The mains voltage dipped"
		if starts != nil {
			without := "without such a moment"
			if volts.without == 0 { // all dips were at these moments
				without = "without a dip"
			}
			v.starter, v.besides = u.started(d, starts, "started", without)
			if volts.hits == d.moments {
				v.what = fmt.Sprintf("%s the mains voltage dipped, %s", upper(times(d.moments)), v.starter)
			} else {
				v.what += fmt.Sprintf(" at %s of the %s moments; they came %s", count(volts.hits), count(d.moments), v.starter)
			}
		}
	case link != nil:
		v.kind, v.what = "link", "The radio link was weak: the link quality collapsed at the same moments"
	default:
		v.what = "The cause is not certain"
	}
	return v
}
