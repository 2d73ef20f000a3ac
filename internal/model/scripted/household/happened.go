package household

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

var bookSpan = pattern.New(`(?m)^Logbook from \S+ \S+ to (\d{4}-\S+ \S+): `)

// happened says what changed.
func (u *turn) happened(q *ask, a *answered) []Call {
	in := map[string]any{"start": u.span(q.when, "today"), "limit": 200}
	said := q.when.said
	if said == "" || said == "now" {
		said = "today"
	}
	var calls []Call
	var all []change
	var until time.Time
	places := []map[string]any{}
	for _, area := range q.areas {
		places = append(places, map[string]any{"area": area})
	}
	var es []entity
	if len(q.areas) == 0 && (len(q.names) > 0 || q.kind != nil) {
		es, calls = u.chosen(q)
		if len(calls) > 0 {
			return calls
		}
		if len(es) == 0 {
			return u.nothing(q, a)
		}
		places = append(places, map[string]any{"entities": idsOf(es)})
	}
	if len(places) == 0 {
		places = append(places, map[string]any{})
	}
	for _, p := range places {
		for k, v := range in {
			p[k] = v
		}
		c := Call{Tool: logbook, Input: p}
		r, ok := u.got(c)
		if !ok {
			calls = append(calls, c)
			continue
		}
		all = append(all, bookOf(r.Output)...)
		if m := bookSpan.FindStringSubmatch(r.Output); m != nil {
			until = moment(m[1])
		}
	}
	if len(calls) > 0 {
		return calls
	}
	if q.out {
		out, when, calls := u.inAbsence(q, u.span(q.when, "today"))
		if len(calls) > 0 {
			return calls
		}
		all, said = during(all, out), when
	}
	where := ""
	if len(q.areas) > 0 {
		where = " in the " + strings.ToLower(listed(q.areas))
	}
	all = slices.DeleteFunc(all, func(c change) bool {
		d, _, _ := strings.Cut(c.id, ".")
		return len(q.areas) > 0 && (d == "automation" || d == "script") || d == "device_tracker" || d == "sun"
	})
	if some := append(slices.Clone(es), u.know.hits...); len(all) == 0 && len(some) > 0 && !q.out && q.when.tool != "" && q.when.tool != "now" {
		begin, calls := u.begins(some[0])
		if len(calls) > 0 {
			return calls
		}
		if !begin.IsZero() && begin.After(until) {
			return u.unrecorded(some[:1], said, a)
		}
	}
	if len(all) == 0 {
		if len(es) > 0 {
			a.say("Nothing: %s did not change %s.", theNames(es), said)
			return nil
		}
		a.say("Nothing is recorded%s %s: no light, door or device there changed.", where, said)
		return nil
	}
	var order []string
	by := map[string][]string{}
	for _, c := range all {
		e := c.of(append(slices.Clone(u.know.hits), es...))
		if by[c.name] == nil {
			order = append(order, c.name)
		}
		word := e.told()
		if strings.HasPrefix(c.state, "triggered") {
			word = "ran"
		}
		when := u.know.when(c.at)
		if q.when.short() {
			when = "at " + c.at.Format("15:04")
		}
		by[c.name] = append(by[c.name], fmt.Sprintf("%s %s%s", word, when, byWhom(c)))
		a.cite(c.id, c.name+" "+c.state)
	}
	var lines []string
	for _, n := range order {
		few := by[n]
		if len(few) > 6 {
			few = append(slices.Clone(few[:6]), fmt.Sprintf("and %s more", count(len(by[n])-6)))
		}
		lines = append(lines, fmt.Sprintf("- %s: %s", upper(lowerFirst(aboutSuffix.ReplaceAllString(n, ""))), strings.Join(few, ", ")))
	}
	most := 12
	a.say("%s%s changed%s %s:", upper(count(len(order))), plural(len(order), " thing", " things"), where, said)
	a.parts[len(a.parts)-1] += "\n\n" + strings.Join(lines[:min(len(lines), most)], "\n")
	for _, l := range lines[min(len(lines), most):] {
		a.prove("%s", strings.TrimPrefix(l, "- "))
	}
	return nil
}
