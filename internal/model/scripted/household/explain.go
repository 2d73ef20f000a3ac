package household

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// explain answers the part of a diagnosis that was asked for.
func (u *turn) explain(q *ask, d diagnosed, a *answered) {
	if q.aspect == "doubt" && len(q.unknown) == 0 && !q.leaning {
		q.aspect = "" // nothing was found before that the person could doubt
	}
	u.fill(&d)
	v := u.verdict(d)
	name := d.about.the()
	if d.about.name == "" {
		name = "it"
	}
	said := q.when.said
	if said == "" {
		said = "in the last day and a half"
	}
	hurt, fine := u.hurt(d)
	switch {
	case q.aspect == "plan" || q.aspect == "advice":
		u.plan(q, d, v, a)
	case (v.kind == "nothing" || d.lost && len(d.together) == 0) && q.aspect != "doubt":
		u.calm(q, d, said, a)
		return
	case q.aspect == "which":
		s := fmt.Sprintf("It was %s.", theAll(hurt))
		if len(fine) > 0 {
			s += fmt.Sprintf(" %s kept working.", upper(theAll(fine)))
		}
		a.say("%s", s)
	case q.aspect == "often" || q.aspect == "count":
		s := upper(times(d.moments))
		if v.starter != "" {
			s += ", " + v.starter
		}
		a.say("%s", strings.TrimSpace(s+": "+u.clocksIn(d)+". "+v.besides))
	case q.aspect == "begin":
		a.say("It began %s, and was last seen %s.", u.know.when(d.at[0]), u.know.when(d.at[len(d.at)-1]))
	case q.aspect == "when" || q.aspect == "since":
		a.say("%s: %s.", upper(times(d.moments)), u.clocksIn(d))
	case q.aspect == "doubt":
		u.doubt(q, d, v, a)
	default:
		s := strings.TrimSpace(fmt.Sprintf("**%s.** %s", v.what, v.besides))
		if own := u.ownFault(q, d); own != nil { // a machine's own error message
			a.say("**The %s reports a fault**, %s: %s.", lowerFirst(own.about), u.know.when(own.last), lowerSentence(u.faultText(*own)))
			s = strings.TrimSpace(v.what + ". " + v.besides)
			d.errors = slices.DeleteFunc(slices.Clone(d.errors), func(f fault) bool { return f == *own })
		}
		if d.moments > 0 {
			s += fmt.Sprintf(" %s had %s unusual %s %s: %s.", upper(name), count(d.moments), plural(d.moments, "moment", "moments"), said, u.clocksIn(d))
		}
		a.say("%s", s)
		if len(d.members) > 0 && len(hurt) > 0 {
			s := fmt.Sprintf("Of its members %s %s%s.", theAll(hurt), u.did(d), u.long(d))
			if len(fine) > 0 {
				s += fmt.Sprintf(" %s kept working.", upper(theAll(fine)))
			}
			a.say("%s", s)
		}
		for _, e := range d.errors {
			if e.level != "WARNING" {
				a.say("The log adds, about the %s: %s.", lowerFirst(e.about), lowerSentence(u.faultText(e)))
			}
		}
		if v.kind != "nothing" {
			a.say("These went together in time; Home Assistant itself records no more of a cause than that.")
		}
		a.next = append(a.next, "Create a mitigation plan and simulate impact.")
	}
	u.proof(q, d, a)
	a.next = append(a.next, "What is unavailable right now?", "Which errors are in the log?")
}

// ownFault returns an error that the log has of the thing asked about, found by its
// name.
func (u *turn) ownFault(q *ask, d diagnosed) *fault {
	if q.kind != nil || len(q.names) == 0 {
		return nil
	}
	for _, f := range d.errors {
		if f.level != "WARNING" && u.namedAll(entity{name: f.about}, q.names) {
			return &f
		}
	}
	return nil
}

// hurt returns the members that had moments of their own, and those that had none.
func (u *turn) hurt(d diagnosed) (hurt, fine []string) {
	for _, m := range d.members {
		if m.state != "0" {
			hurt = append(hurt, lowerFirst(m.name))
		} else {
			fine = append(fine, lowerFirst(m.name))
		}
	}
	if len(d.members) == 0 {
		hurt = []string{lowerFirst(d.about.short())}
	}
	return hurt, fine
}

func (u *turn) did(d diagnosed) string {
	if len(d.what) > 0 && strings.Contains(d.what[0], "unavailable") {
		return "dropped out each time"
	}
	return "changed for moments"
}

// long says roughly how long it was unavailable.
func (u *turn) long(d diagnosed) string {
	var sum float64
	n := 0
	for _, w := range d.what {
		for _, m := range lostFor.FindAllStringSubmatch(w, -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", for about %s", took(time.Duration(sum/float64(n)*float64(time.Second))))
}

// proof appends the evidence of an answer.
func (u *turn) proof(_ *ask, d diagnosed, a *answered) {
	past := map[string]*series{}
	for _, r := range u.results(history) {
		for id, s := range pastOf(r.Output) {
			past[id] = s
		}
	}
	a.cite(d.about.id, fmt.Sprintf("%d unusual moments", d.moments))
	for _, t := range d.together {
		what := u.togetherWord(t)
		line := fmt.Sprintf("%s: %s at %d of %d moments", t.name, what, t.hits, t.of)
		if t.without > 0 && t.what == "→ on" {
			line += fmt.Sprintf(", and %s at other times", times(t.without))
		}
		if s := past[t.id]; s != nil && len(s.unusual) > 0 && t.what == "unusual value" {
			var vs []string
			var last time.Time
			for _, c := range s.unusual {
				if near(c.at, d.at) && c.at.Sub(last) > 2*time.Minute { // one line for each moment
					last = c.at
					v, _ := strconv.ParseFloat(c.state, 64)
					vs = append(vs, fmt.Sprintf("%s %s", amount(v, s.unit), u.know.when(c.at)))
				}
			}
			if len(vs) > 0 {
				line += ": " + strings.Join(vs[:min(len(vs), 8)], ", ")
			}
		}
		a.prove("%s", line)
		a.cite(t.id, fmt.Sprintf("%s at %d of the %d moments", t.what, t.hits, t.of))
	}
	for _, c := range d.caused {
		a.prove("%s", u.known(c))
	}
	for _, e := range d.errors {
		a.prove("Log, about %s: %s (%d %s, last %s)", e.about, u.faultText(e), e.count, plural(e.count, "entry", "entries"), u.know.when(e.last))
		if len(a.cites) < maxCites {
			a.cites = append(a.cites, cite{"Home Assistant log", e.about, cut(e.text, 300)})
		}
	}
	if !d.from.IsZero() {
		a.prove("Looked at from %s to %s", u.know.since(d.from), u.know.since(d.to))
	}
}

// fill completes the moments, of which a diagnosis lists the first ones only, from the
// history of the thing.
func (u *turn) fill(d *diagnosed) {
	if len(d.at) >= d.moments {
		return
	}
	for _, r := range u.results(history) {
		p := pastOf(r.Output)[d.about.id]
		if p == nil {
			continue
		}
		var at []time.Time
		for _, c := range p.unusual {
			if n := len(at); n == 0 || c.at.Sub(at[n-1]) > 2*time.Minute {
				at = append(at, c.at)
			}
		}
		if len(at) == d.moments {
			d.at = at
			return
		}
	}
}

// clocksIn lists the moments, as far as the diagnosis lists them.
func (u *turn) clocksIn(d diagnosed) string {
	s := u.know.clocks(d.at)
	if len(d.at) < d.moments {
		s = strings.Replace(s, " and ", ", ", 1) + " and after"
	}
	return s
}

func near(t time.Time, all []time.Time) bool {
	return slices.ContainsFunc(all, func(o time.Time) bool { return t.Sub(o).Abs() < time.Minute })
}

func (u *turn) togetherWord(t together) string {
	if rest, ok := strings.CutPrefix(t.what, "→ "); ok {
		e := entity{id: t.id, name: t.name, state: rest}
		if strings.HasPrefix(rest, "on") {
			return "came on"
		}
		return "became " + e.told()
	}
	if strings.HasPrefix(t.what, "triggered") {
		return "ran"
	}
	return t.what
}

// lostNow says that a thing is unavailable, and for how long.
func (u *turn) lostNow(e entity) string {
	t := moment(e.since)
	switch {
	case t.IsZero():
		return upper(e.the()) + " does not answer now."
	case u.know.began(t):
		return fmt.Sprintf("%s has not answered for as long as the house remembers, which is since %s.", upper(e.the()), u.know.since(t))
	}
	return fmt.Sprintf("%s has not answered since %s.", upper(e.the()), u.know.since(t))
}

// calm says that nothing unusual is recorded.
func (u *turn) calm(q *ask, d diagnosed, said string, a *answered) {
	name := d.about.the()
	a.cite(d.about.id, "nothing unusual")
	if d.lost {
		a.say("%s", u.lostNow(d.about))
	}
	for _, e := range d.errors {
		word := map[string]string{"WARNING": "warning", "ERROR": "error", "CRITICAL": "critical error"}[e.level]
		if e.count == 1 {
			a.say("**The log has %s %s about the %s**, %s: %s.", article(word), word, lowerFirst(e.about), u.know.when(e.last), strings.TrimSuffix(u.faultText(e), "."))
		} else {
			a.say("**The log has %d %ss about the %s**, the last %s: %s.", e.count, word, lowerFirst(e.about), u.know.when(e.last), strings.TrimSuffix(u.faultText(e), "."))
		}
	}
	if !d.lost && len(d.errors) == 0 {
		a.say("**I find nothing unusual about %s %s.** No outage, no state that stood only for moments, and no value far from the others is recorded, so the data do not show a cause.", name, said)
		return
	}
	if d.lost {
		a.say("What made it stop answering is not recorded.")
	} else {
		a.say("The history of %s itself shows nothing unusual %s; what else belongs to it was not looked at.", name, said)
	}
	_ = q
}
