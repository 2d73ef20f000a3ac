package household

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// whole has the names of meters for the whole house, which are no single device.
var whole = []string{"mains", "grid", "total", "house", "home", "meter", "main", "solar", "inverter"}

// meter reports whether it measures the whole house.
func (e entity) meter() bool {
	return slices.ContainsFunc(clean(e.name), func(w string) bool { return slices.Contains(whole, w) })
}

// rank says which thing has the most or the least now.
func (u *turn) rank(q *ask, a *answered) []Call {
	if q.kind == nil || !q.kind.measure {
		q.intent = isState
		return u.state(q, a)
	}
	all, calls := u.list(q.kind)
	if len(calls) > 0 {
		return calls
	}
	es := u.narrow(&ask{kind: q.kind, areas: q.areas}, all)
	es = roomly(&ask{kind: q.kind}, es)
	es = slices.DeleteFunc(es, func(e entity) bool {
		_, is := e.value()
		outside := slices.Contains(outdoors, strings.ToLower(e.area)) && q.kind.class == "temperature" && !slices.Contains(q.areas, e.area)
		meter := q.kind.class == "power" && e.meter()
		return !is || outside || meter
	})
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	if q.extreme == 0 {
		q.extreme = 1
	}
	slices.SortStableFunc(es, func(x, y entity) int { return -q.extreme * cmp.Compare(x.scaled(), y.scaled()) })
	for _, e := range es {
		a.cite(e.id, e.name+": "+e.told())
	}
	if q.aspect == "why" {
		return u.rankWhy(q, es, a)
	}
	if (has(q.ws, "than") || q.compare != nil && q.compare.equal) && len(q.areas) == 2 {
		first := es[slices.IndexFunc(es, func(e entity) bool { return e.area == es[0].area })]
		yes := map[bool]string{true: "Yes", false: "No"}[first.area == q.areas[0] && len(es) > 1 && es[1].told() != first.told()]
		var each []string
		for _, area := range q.areas {
			for _, e := range es {
				if e.area == area {
					each = append(each, lowerStart(strings.TrimSuffix(reading(q, e), ".")))
				}
			}
		}
		if len(each) < 2 {
			for _, area := range q.areas {
				if !slices.ContainsFunc(es, func(e entity) bool { return e.area == area }) {
					a.say("I cannot tell: nothing measures the %s of the %s. %s.", q.kind.noun, strings.ToLower(area), upper(strings.Join(each, "")))
				}
			}
			return nil
		}
		said := listed(each) + between(es, q.areas) + "."
		flat := strings.Join(q.ws, " ")
		yesNo := re(`^(?:and |so |but )*(?:is|are) `).MatchString(flat) || has(q.ws, "than") && !re(`^(?:and |so |but |by )*(?:how|what|which|show|tell|compare)`).MatchString(flat)
		switch {
		case !yesNo:
			a.say("%s", upper(said))
			return nil
		case q.compare != nil && q.compare.equal:
			yes = map[bool]string{true: "Yes", false: "No"}[es[0].told() == es[len(es)-1].told()]
		}
		a.say("%s: %s", yes, said)
		return nil
	}
	best := es[0]
	if q.kind.class == "power" && q.extreme > 0 && q.aspect != "others" {
		if es, calls = u.believed(q, es, all, a); len(calls) > 0 || len(es) == 0 {
			return calls
		}
		best = es[0]
	}
	word := at(q.ws, strings.Trim(q.kind.low+"|"+q.kind.high, "|"))
	if q.aspect == "others" {
		var lines []string
		for _, e := range es[1:] {
			lines = append(lines, fmt.Sprintf("- %s: %s", upper(subject(q, e)), e.told()))
		}
		a.say("The others:\n\n%s", strings.Join(lines, "\n"))
		return nil
	}
	switch {
	case q.kind.class == "temperature" && len(word) > 0:
		a.say("The %s is the %s room, with %s.", subject(q, best), strings.Join(word, " "), best.told())
	case q.kind.class == "battery":
		a.say("The battery of the %s is the %s, at %s.", subject(q, best), cmp.Or(strings.Join(word, " "), map[int]string{-1: "lowest", 1: "highest"}[q.extreme]), best.told())
	case q.kind.class == "power":
		a.say("The %s: it draws %s now.", subject(q, best), best.told())
	default:
		a.say("The %s has the %s %s, with %s.", subject(q, best), map[int]string{-1: "lowest", 1: "highest"}[q.extreme], q.kind.noun, best.told())
	}
	if len(es) == 2 {
		a.say("The %s has %s%s.", subject(q, es[1]), es[1].told(), between(es, nil))
		return nil
	}
	for _, e := range es[1:min(len(es), 8)] {
		a.prove("%s: %s", upper(subject(q, e)), e.told())
	}
	return nil
}

// totalOf returns the meter of the whole house, or nil. What the house makes itself is not in its
// total: then no meter tells.
func totalOf(meters []entity) *entity {
	i := slices.IndexFunc(meters, func(e entity) bool { _, is := e.value(); return is && e.meter() })
	own := func(e entity) bool { return has(clean(e.name), "solar|inverter|pv|battery") }
	if i < 0 || slices.ContainsFunc(meters, own) {
		return nil
	}
	return &meters[i]
}

// believed returns es if the meter of the whole house does not contradict them. If a reading
// exceeds the meter's, the answer reports both figures, and believed returns nothing to add.
func (u *turn) believed(q *ask, es, all []entity, a *answered) ([]entity, []Call) {
	total := totalOf(all)
	if total == nil {
		return es, nil
	}
	over := 0
	for over < len(es) && es[over].scaled() > total.scaled() {
		over++
	}
	if over == 0 {
		return es, nil
	}
	switches, calls := u.list(kindNamed("plug"))
	if len(calls) > 0 {
		return nil, calls
	}
	for _, e := range es[:over] {
		whose := slices.DeleteFunc(clean(e.name), func(w string) bool { return w == "power" })
		said := ""
		for _, s := range switches {
			if s.is("off") && !slices.ContainsFunc(whose, func(w string) bool { return !slices.Contains(clean(s.name), w) }) {
				said = fmt.Sprintf(", and %s is off", s.the())
				a.prove("%s: %s", s.name, s.told())
			}
		}
		a.say("The %s reports the most, %s. But %s shows %s for the whole house%s: these contradict each other, so one of them is wrong.", subject(q, e), e.told(), total.the(), total.told(), said)
		a.cite(total.id, total.name+": "+total.told())
		a.prove("%s: %s", total.name, total.told())
	}
	if over < len(es) {
		a.say("Of the others, the %s draws the most, %s.", subject(q, es[over]), es[over].told())
		for _, e := range es[over+1 : min(len(es), over+8)] {
			a.prove("%s: %s", upper(subject(q, e)), e.told())
		}
	}
	return nil, nil
}

// between returns the difference between the numbers of two rooms or things.
func between(es []entity, areas []string) string {
	if len(areas) == 2 {
		es = slices.DeleteFunc(slices.Clone(es), func(e entity) bool { return !slices.Contains(areas, e.area) })
	}
	if len(es) != 2 || es[0].unit != es[1].unit {
		return ""
	}
	x, _ := es[0].value()
	y, _ := es[1].value()
	return "; a difference of " + amount(math.Abs(x-y), es[0].unit)
}

// scaled is the value in the unit that others of its kind have.
func (e entity) scaled() float64 {
	v, _ := e.value()
	switch e.unit {
	case "kW", "kWh", "kB/s":
		return v * 1e3
	case "MW", "MWh", "MB/s":
		return v * 1e6
	case "mV", "mA":
		return v / 1e3
	}
	return v
}

// rankWhy explains why a room is the coldest or the warmest: by its heating, and by its
// windows and doors.
func (u *turn) rankWhy(q *ask, es []entity, a *answered) []Call {
	room := es[0].area
	if q.kind.class != "temperature" || room == "" {
		a.say("The house does not record why %s is %s; it only measures.", subject(q, es[0]), es[0].told())
		return nil
	}
	heaters, calls := u.list(kindNamed("radiator"))
	windows, more := u.list(kindNamed("window"))
	if calls = append(calls, more...); len(calls) > 0 {
		return calls
	}
	var own []entity
	lowest, highest := true, true
	for _, e := range heaters {
		if e.area == room {
			own = append(own, e)
		}
	}
	if len(own) > 0 {
		mine, _ := own[0].number("temperature")
		for _, e := range heaters {
			if v, ok := e.number("temperature"); ok && e.id != own[0].id {
				lowest, highest = lowest && v > mine, highest && v < mine
			}
		}
		a.cite(own[0].id, own[0].heating())
		which := ""
		if lowest && q.extreme < 0 {
			which = ", the lowest of all"
		} else if highest && q.extreme > 0 {
			which = ", the highest of all"
		}
		a.say("Most likely because its radiator is set to %s%s. That is what goes together; the house records no cause.", amount(mine, "°C"), which)
	} else {
		a.say("The %s has no radiator that Home Assistant knows, and it records no cause.", strings.ToLower(room))
	}
	for _, e := range windows {
		if e.area == room {
			a.cite(e.id, e.told())
			a.say("Its window is %s%s.", e.told(), u.sinceOf(e))
		}
	}
	return nil
}
