package household

import (
	"slices"
	"strings"
)

// floorIn returns the floor that the words name, or "". Upstairs and downstairs are floors of a
// house that has two.
func (u *turn) floorIn(ws []string) string {
	for floor := range u.know.floors {
		low := strings.HasPrefix(floor, "ground") || strings.HasPrefix(floor, "lower") || strings.HasPrefix(floor, "main")
		high := strings.HasPrefix(floor, "upper") || strings.HasPrefix(floor, "first") || strings.HasPrefix(floor, "top")
		if has(ws, floor) || has(ws, "downstairs") && low || has(ws, "upstairs") && high {
			return floor
		}
	}
	return ""
}

// storeys compares the measurements of two floors, by the mean of their rooms.
func (u *turn) storeys(q *ask, a *answered) []Call {
	left, right, _ := strings.Cut(strings.Join(q.ws, " "), " than ")
	one, other := u.floorIn(clean(left)), u.floorIn(clean(right))
	for floor := range u.know.floors {
		if other == "" && len(u.know.floors) == 2 && floor != one {
			other = floor
		}
	}
	if one == "" || other == "" || one == other {
		a.say("I cannot tell: of the floors of this house I do not know which two you mean.")
		return nil
	}
	all, calls := u.list(q.kind)
	if len(calls) > 0 {
		return calls
	}
	mean := func(floor string) (float64, string) {
		sum, n, unit := 0.0, 0, ""
		for _, e := range roomly(&ask{kind: q.kind}, all) {
			if v, ok := e.value(); ok && slices.Contains(u.know.floors[floor], e.area) {
				sum, n, unit = sum+v, n+1, e.unit
				a.cite(e.id, e.area+": "+e.told())
				a.prove("%s, on the %s: %s", e.area, floor, e.told())
			}
		}
		return sum / float64(max(n, 1)), unit
	}
	x, unit := mean(one)
	y, unit2 := mean(other)
	if unit == "" || unit2 == "" {
		a.say("I cannot tell: there is no %s on the %s.", q.kind.name, map[bool]string{true: one, false: other}[unit == ""])
		return nil
	}
	show := func(v float64) string { return amount(v, unit) }
	yes, by := q.compare.verdict(x, y, show)
	a.say("%s: the %s on the %s is **%s** on average, and on the %s **%s**; %s.", yes, q.kind.noun, one, show(x), other, show(y), by)
	return nil
}
