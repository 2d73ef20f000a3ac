package household

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// moments says when a change happened: the last time, unless a period was named.
func (u *turn) moments(q *ask, es []entity, hits, all []change, state string, a *answered) {
	last := q.when.tool == "" || q.last
	for _, e := range es {
		var ts []time.Time
		for _, h := range hits {
			if h.id == e.id {
				ts = append(ts, h.at)
			}
		}
		if len(ts) == 0 {
			continue
		}
		name := upper(e.the())
		switch {
		case q.aspect == "begin" && q.when.tool != "":
			a.say("%s %s %s.", name, verbedOf(e, state), u.know.when(ts[0]))
		case last && q.last && (state == "open" || state == "on"):
			end := ""
			for _, c := range all {
				if c.id == e.id && c.at.After(ts[len(ts)-1]) {
					end = fmt.Sprintf(", for %s", took(c.at.Sub(ts[len(ts)-1])))
					break
				}
			}
			a.say("%s was last %s %s%s.", name, state, u.know.when(ts[len(ts)-1]), end)
		case last:
			a.say("%s %s %s.", name, verbedOf(e, state), u.know.when(ts[len(ts)-1]))
		case state == "finished": // another change right after it is still the same end
			a.say("%s finished %s.", name, u.know.when(ts[0]))
		default:
			a.say("%s %s %s.", name, verbedOf(e, state), u.know.clocks(ts[:min(len(ts), 10)]))
		}
	}
}

// lengths says for how long a state held in total, up to an end.
func (u *turn) lengths(es []entity, hits, all []change, last time.Time, said string, a *answered) {
	for _, e := range es {
		sum, n := sum(e, hits, all, last)
		if n > 0 {
			is := hits[0].of(es)
			often := ""
			if n > 1 {
				often = ", on " + count(n) + " occasions"
			}
			a.say("%s was %s for %s %s%s.", upper(e.the()), is.told(), took(sum), said, often)
		}
	}
}

// sum returns how long a state held in total up to an end, and how often.
func sum(e entity, hits, all []change, last time.Time) (total time.Duration, n int) {
	for _, h := range hits {
		if h.id != e.id {
			continue
		}
		end := last
		for _, c := range all {
			if c.id == e.id && c.at.After(h.at) {
				end = c.at
				break
			}
		}
		total += end.Sub(h.at)
		n++
	}
	return total, n
}

// intervals says from when to when a state held.
func (u *turn) intervals(q *ask, es []entity, hits, all []change, state, said string, a *answered) {
	judged := es[0].domain() == "person" && q.aspect == "" && has(q.ws, "late|early")
	if judged {
		a.say("I cannot tell what counts as %s. These are the times:", map[bool]string{true: "late", false: "early"}[has(q.ws, "late")])
	}
	for _, e := range es {
		var spans []string
		day := "" // of the span before, where there are several days
		for i, h := range hits {
			if h.id != e.id || i >= 12 {
				continue
			}
			end := time.Time{}
			for _, c := range all {
				if c.id == e.id && c.at.After(h.at) {
					end = c.at
					break
				}
			}
			switch {
			case h.early && end.IsZero():
				spans = append(spans, "all the time")
			case h.early:
				spans = append(spans, "until "+end.Format("15:04"))
			case end.IsZero() && e.state == h.state && !moment(e.since).After(h.at.Add(time.Minute)):
				spans = append(spans, "since "+u.know.since(h.at))
			case end.IsZero(): // it ended after the period that was asked about
				spans = append(spans, "from "+h.at.Format("15:04")+" on")
			default:
				on, _, _ := strings.Cut(u.know.when(h.at), "at ")
				if on = orText(on, "today "); q.when.short() || on == day || on == "today " && day == "" {
					on = ""
				} else {
					day = on
				}
				spans = append(spans, fmt.Sprintf("%sfrom %s to %s", on, h.at.Format("15:04"), end.Format("15:04")))
			}
		}
		if len(spans) == 0 {
			continue
		}
		is := e
		is.state, is.attrs = hits[len(hits)-1].state, nil
		n := ""
		if len(spans) > 1 {
			n = " " + times(len(spans)) + ","
		}
		yes := "Yes, "
		if q.aspect == "when" || q.aspect == "until" || judged {
			yes = ""
		}
		if e.domain() == "person" { // who was there already did not come
			if !slices.ContainsFunc(hits, func(h change) bool { return h.id == e.id && !h.early }) {
				continue
			}
			a.say("%s%s %s %s.", yes, e.name, verbed(state), clocksOf(u, slices.DeleteFunc(slices.Clone(hits), func(h change) bool { return h.id != e.id || h.early }))[2:])
			continue
		}
		a.say("%s %s %s %s:%s %s.", upper(yes+e.the()), was(e), is.told(), said, n, listed(spans))
	}
}
