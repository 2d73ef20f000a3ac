package household

import (
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// whileOut matches words for the time in which nobody was at home. Who "I" is, the house
// does not know.
var whileOut = pattern.New(`\b(?:while|whilst|when) (?:we|everyone|everybody|the family) (?:was|were) (?:all |both )?(?:out|away|gone|at work|not (?:home|in|there|here|at home))\b|\b(?:while|whilst|when) (?:nobody|no one|noone) was (?:at home|home|in|there|here|around)\b|\bin our absence\b|\bwhile the house was empty\b`)

// absence is a time in which nobody was at home.
type absence struct{ from, to time.Time }

// absences returns the times in which nobody was at home, out of the logbook of everybody. ok is
// false if Home Assistant knows nobody.
func (u *turn) absences(since string) (out []absence, ok bool, calls []Call) {
	people, calls := u.list(kindNamed("person"))
	if len(calls) > 0 || len(people) == 0 {
		return nil, false, calls
	}
	c := Call{Tool: logbook, Input: map[string]any{"entities": idsOf(people), "start": since, "limit": 200}}
	r, got := u.got(c)
	if !got {
		return nil, false, []Call{c}
	}
	rows := bookOf(r.Output)
	at := map[string]bool{} // who is at home
	for _, p := range people {
		i := slices.IndexFunc(rows, func(c change) bool { return c.id == p.id })
		at[p.id] = p.is("home")
		if i >= 0 { // before the first change it was the other way round
			at[p.id] = !rows[i].of(people).is("home")
		}
	}
	somebody := func() bool {
		return slices.ContainsFunc(people, func(p entity) bool { return at[p.id] })
	}
	open := !somebody()
	if open {
		out = append(out, absence{})
	}
	for _, row := range rows {
		at[row.id] = row.of(people).is("home")
		switch now := somebody(); {
		case !now && !open:
			out, open = append(out, absence{from: row.at}), true
		case now && open:
			out[len(out)-1].to, open = row.at, false
		}
	}
	if open {
		out[len(out)-1].to = u.know.now
	}
	return out, true, nil
}

// inAbsence returns the times in which nobody was at home, and words for them.
func (u *turn) inAbsence(q *ask, since string) (out []absence, said string, calls []Call) {
	out, ok, calls := u.absences(since)
	if strings.HasPrefix(since, "-") { // where the record begins, nobody came home
		out = slices.DeleteFunc(out, func(x absence) bool { return x.from.IsZero() })
	}
	const most = 2
	said = "while nobody was at home"
	switch {
	case !ok:
		return nil, said + "; but when that was, Home Assistant does not know", calls
	case len(out) == 0:
		return nil, said + "; somebody was there all the time", nil
	case len(out) > most:
		return out, said + ", in the time that is recorded", nil
	}
	var times []string
	for _, x := range out {
		from, to := u.know.since(x.from), u.know.since(x.to)
		if q.when.short() {
			from, to = x.from.Format("15:04"), x.to.Format("15:04")
		}
		if x.from.IsZero() {
			times = append(times, "until "+to)
			continue
		}
		times = append(times, "from "+from+" to "+to)
	}
	said += ", " + listed(times)
	if q.when.short() && q.when.said != "today" {
		said += " " + q.when.said
	}
	return out, said, nil
}

// during keeps the changes in these times.
func during(all []change, out []absence) []change {
	return slices.DeleteFunc(slices.Clone(all), func(c change) bool {
		return !slices.ContainsFunc(out, func(x absence) bool { return c.at.After(x.from) && c.at.Before(x.to) })
	})
}

// already returns the things that were in a state when one of these times began.
func already(es []entity, all []change, past map[string]*series, out []absence, state string) []change {
	held := func(e entity) string { // the state that it had all the time
		if p := past[e.id]; p != nil {
			for s, share := range p.share {
				if share > 99.9 {
					return s
				}
			}
		}
		return ""
	}
	var found []change
	for _, x := range out {
		for _, e := range es {
			var last *change
			for i, c := range all {
				if c.id == e.id && !c.at.After(x.from) {
					last = &all[i]
				}
			}
			if s := held(e); last == nil && s != "" {
				last = &change{name: e.name, id: e.id, state: s}
			}
			if last != nil && last.of(es).is(state) {
				found = append(found, change{at: x.from, id: e.id, name: last.name, state: last.state, early: true})
			}
		}
	}
	return found
}
