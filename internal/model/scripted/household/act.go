package household

import (
	"fmt"
	"slices"
	"strings"
)

// targets returns the things that a request may mean, with their present states.
func (u *turn) targets(q *ask) ([]entity, []Call) {
	if q.kind != nil && q.kind.class == "temperature" { // "make the bedroom warmer"
		q.kind = kindNamed("radiator")
	}
	if q.kind != nil && q.kind.measure || q.kind != nil && q.kind.name == "door" {
		q.kind = nil
	}
	if q.kind == nil && len(q.names) == 0 && len(q.areas) > 0 {
		switch {
		case q.deed.verb == "set" && q.deed.value != nil && *q.deed.value < 40 || q.deed.by != 0:
			q.kind = kindNamed("radiator")
		case q.deed.verb == "on" || q.deed.verb == "off" || q.deed.verb == "dim":
			q.kind = kindNamed("light")
		case q.deed.verb == "open" || q.deed.verb == "close":
			q.kind = kindNamed("door, blind or gate")
		}
	}
	if q.kind == nil && q.all && (q.deed.verb == "off" || q.deed.verb == "on") && len(q.names) == 0 {
		q.kind = kindNamed("light")
	}
	if es := u.exactly(q); len(es) > 0 {
		return u.live(es)
	}
	var es []entity
	if q.kind != nil {
		all, calls := u.list(q.kind)
		if len(calls) > 0 {
			return nil, calls
		}
		es = u.narrow(q, all)
		if q.deed.verb == "on" && q.kind.domain == "light" && len(es) > 1 && !q.all && len(q.areas) > 0 {
			for _, g := range u.know.hits { // a group is one of the candidates
				if g.domain() == "light" && g.class == "group" && slices.ContainsFunc(q.areas, func(a string) bool { return u.named(g, strings.ToLower(a)) }) {
					es = append([]entity{g}, es...)
				}
			}
		}
	}
	if len(es) == 0 && len(q.names) > 0 {
		acts := slices.DeleteFunc(u.things(q), func(e entity) bool { s, _ := q.deed.service(e.domain()); return s == "" })
		rank := 0 // the thing that matches the most words, whatever its rank
		for _, e := range acts {
			n := u.rankOf(e, q) / 10
			switch {
			case n > rank:
				rank, es = n, []entity{e}
			case n == rank && n > 0:
				es = append(es, e)
			}
		}
		if len(es) > 0 {
			return u.live(es[:min(len(es), 20)])
		}
	}
	return es, nil
}

// exactly returns the things named by their ids, or the group named in full: a group may
// be called "the bedroom lights".
func (u *turn) exactly(q *ask) []entity {
	var out []entity
	flat := " " + strings.Join(q.ws, " ") + " "
	for _, e := range u.know.hits {
		if slices.Contains(q.ws, e.id) {
			out = append(out, e)
		}
	}
	for _, e := range u.know.hits {
		if len(out) == 0 && e.class == "group" && strings.Contains(flat, " "+strings.Join(clean(e.name), " ")+" ") {
			return []entity{e}
		}
	}
	return out
}

// wishes counts the requests in the question.
func (u *turn) wishes() int {
	n := 0
	for _, q := range u.asks {
		if q.intent == isAct {
			n++
		}
	}
	return n
}

// halfway reports whether it is neither fully open nor fully closed.
func (e entity) halfway() bool {
	p, ok := e.number("current_position")
	return ok && p > 0 && p < 100
}

// act carries out a request, or says why it did nothing.
func (u *turn) act(q *ask, a *answered) []Call {
	if done := u.results(act); len(done) > 0 {
		u.report(q, done, a)
		return nil
	}
	if asked := u.results(askUser); len(asked) > 0 {
		return u.afterAsking(q, asked[len(asked)-1], a)
	}
	es, calls := u.targets(q)
	if len(calls) > 0 {
		return calls
	}
	if (q.deed.verb == "set" || q.deed.verb == "dim" || q.deed.verb == "open") && len(es) > 0 && len(es) <= 5 { // the answer tells what they are set to, which is in their attributes
		if es, calls = u.live(es); len(calls) > 0 {
			return calls
		}
	}
	wish := q.wish()
	if len(es) == 0 {
		what := strings.Join(q.names, " ")
		if q.kind != nil {
			what = q.kind.name + inAreas(q)
		}
		if what == "" {
			a.say("Nothing was changed: I do not know what to %s. Name the thing, or the room.", wish)
			return nil
		}
		a.say("Nothing was changed: I find no %s that I could %s.%s", what, wish, u.offer(q))
		return nil
	}
	var open []entity
	before := len(a.parts)
	for _, e := range es {
		a.cite(e.id, e.name+": "+e.told())
		service, state := q.deed.service(e.domain())
		if service == "" {
			a.say("Nothing was changed: %s cannot be %s.", e.the(), map[bool]string{true: "set like that", false: "used like that"}[q.deed.verb == "set"])
			return nil
		}
		if e.lost() {
			a.say("Nothing was changed: %s does not answer%s.", e.the(), u.sinceOf(e))
			continue
		}
		if state != "" && e.is(state) && !e.halfway() || q.deed.already(e) {
			continue
		}
		open = append(open, e)
	}
	if len(open) == 0 {
		if len(a.parts) == before {
			what := theNames(es)
			if len(es) > 6 && q.kind != nil {
				what = fmt.Sprintf("all %d %ss%s", len(es), q.kind.name, inAreas(q))
			}
			a.say("Nothing to do: %s %s already %s.", what, are(es), q.deed.result(es[0]))
		}
		return nil
	}
	if (q.deed.verb == "set" || q.deed.verb == "dim") && q.deed.value == nil && q.deed.by == 0 && (q.deed.step == 0 || q.deed.step < 0 && open[0].is("off")) {
		a.say("Nothing was changed: say to which value %s is to be set. %s is %s now.", open[0].the(), upper(open[0].the()), open[0].leveled(""))
		return nil
	}
	if q.deed.step != 0 {
		for _, e := range open {
			if _, _, ok := e.level(); !ok {
				a.say("Nothing was changed: %s has nothing that I could turn up or down.", e.the())
				return nil
			}
		}
	}
	if !u.may(act) {
		for _, e := range open {
			a.prove("%s: %s%s", e.name, e.told(), u.sinceOf(e))
		}
		a.barred(wish+" "+q.deed.each(open), orText(u.Off, "actuation is off here"))
		return nil
	}
	many := q.all || has(q.ws, "lights|lamps|bulbs|blinds|shutters|radiators|both|plugs|switches|curtains|fans|locks|doors|them|these|those") || q.deed.verb == "off" && q.kind != nil && q.kind.domain == "light"
	if len(open) > 1 && !many && u.may(askUser) && u.wishes() == 1 {
		a.plan = fmt.Sprintf("%s things fit, and nothing says which of them is meant.", upper(count(len(open))))
		return []Call{u.which(q, open, es)}
	}
	a.plan = fmt.Sprintf("I %s %s.", wish, q.deed.each(open))
	return q.deed.calls(open)
}
