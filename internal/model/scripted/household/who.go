package household

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func clocksOf(u *turn, hits []change) string {
	if len(hits) == 0 {
		return ""
	}
	var ts []time.Time
	for _, h := range hits[:min(len(hits), 10)] {
		ts = append(ts, h.at)
	}
	return ", " + u.know.clocks(ts)
}

func theNames(es []entity) string {
	var out []string
	for _, e := range es {
		out = append(out, e.the())
	}
	return listed(out)
}

func byWhom(c change) string {
	if c.by == "" {
		return ""
	}
	return ", by " + c.by
}

// verbed returns the verb for a change to a state.
func verbed(state string) string {
	switch state {
	case "home":
		return "came home"
	case "away":
		return "left"
	case "open":
		return "was opened"
	case "closed":
		return "was closed"
	case "locked", "unlocked", "armed", "disarmed":
		return "was " + state
	case "finished":
		return "finished"
	case "off":
		return "went off"
	case "rain", "snow":
		return "turned to " + state
	case "up":
		return "rose"
	case "down":
		return "set"
	}
	return "came on"
}

// was returns "was" or "were" for an entity.
func was(e entity) string { return map[bool]string{true: "were", false: "was"}[e.many()] }

// verbedOf returns the verb for a change of one entity to a state.
func verbedOf(e entity, state string) string {
	if e.class == "motion" && state == "on" {
		return "saw motion"
	}
	if e.many() {
		return strings.Replace(verbed(state), "was ", "were ", 1)
	}
	return verbed(state)
}

// did returns the verb for what a person did to bring about a state.
func did(state string) string {
	switch state {
	case "open":
		return "opened"
	case "closed":
		return "closed"
	case "on", "off":
		return "turned " + state
	case "finished":
		return "ended"
	}
	return state
}

func (u *turn) notSeen(es []entity, past map[string]*series, state, said string) string {
	e := es[0]
	if len(es) > 1 && e.domain() == "person" {
		return fmt.Sprintf("No, nobody %s %s.", verbed(state), said)
	}
	stayed := ""
	if p := past[e.id]; p != nil && len(es) == 1 {
		for s, share := range p.share {
			if share > 99.9 {
				was := e
				was.state, was.attrs = s, nil
				if was.is(state) {
					return fmt.Sprintf("%s was %s all the time %s, so there is no moment at which it came to be so.", upper(e.the()), was.told(), said)
				}
				stayed = fmt.Sprintf(" It stayed %s.", was.told())
			}
		}
		if p.nothing {
			return fmt.Sprintf("That cannot be told: nothing is recorded of %s %s.", e.the(), said)
		}
	}
	if e.class == "motion" && state == "on" {
		return fmt.Sprintf("No: %s saw no motion %s.", theNames(es), said)
	}
	return fmt.Sprintf("No: %s %s not %s %s.%s", theNames(es), map[string]string{"is": "was", "are": "were"}[are(es)], doneWord(state), said, stayed)
}

// doneWord names the state itself, in a sentence about the past.
func doneWord(state string) string {
	switch state {
	case "home":
		return "at home"
	case "away":
		return "out"
	}
	return state
}

// who says who or what caused a state, or did so first.
func (u *turn) who(q *ask, es []entity, hits []change, state, said string, a *answered) {
	if len(hits) == 0 {
		a.say("Nobody: nothing of the kind is recorded %s.", said)
		return
	}
	if es[0].domain() == "person" {
		var lines []string
		if has(q.ws, "last|latest") && !q.first {
			slices.Reverse(hits)
		}
		var named []string
		for _, h := range hits {
			if !slices.Contains(named, h.name) {
				named = append(named, h.name)
				lines = append(lines, fmt.Sprintf("%s %s", h.name, u.know.when(h.at)))
			}
		}
		order := ""
		if q.first {
			order = " first"
		} else if has(q.ws, "last|latest") {
			order = " last"
		}
		then := ""
		if len(lines) > 1 {
			then = map[bool]string{true: "; before that ", false: ", then "}[order == " last"] + listed(lines[1:])
		}
		a.say("%s %s%s, %s%s.", hits[0].name, verbed(state), order, u.know.when(hits[0].at), then)
		return
	}
	if q.first {
		h := hits[0]
		a.say("%s %s first %s%s.", upper(h.of(es).the()), verbed(state), u.know.when(h.at), byWhom(h))
		return
	}
	by := map[string][]time.Time{}
	var order []string
	unknown := 0
	for _, h := range hits {
		if h.by == "" {
			unknown++
			continue
		}
		if by[h.by] == nil {
			order = append(order, h.by)
		}
		by[h.by] = append(by[h.by], h.at)
	}
	for _, who := range order {
		a.say("%s %s %s %s.", upper(who), did(state), theNames(es), u.know.clocks(by[who]))
	}
	if len(order) == 0 {
		last := map[string]time.Time{}
		for _, h := range hits {
			last[h.id] = h.at
		}
		var what []string
		for _, e := range es {
			if at, ok := last[e.id]; ok {
				what = append(what, fmt.Sprintf("%s %s %s", e.the(), verbedOf(e, state), u.know.when(at)))
			}
		}
		a.say("Home Assistant does not say who it was: %s, and no person or automation is recorded for it.", listed(what))
	}
}

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

// lengths says for how long a state held in total.
func (u *turn) lengths(es []entity, hits, all []change, said string, a *answered) {
	for _, e := range es {
		sum, n := sum(e, hits, all, u.know.now)
		if n > 0 {
			is := hits[0].of(es)
			often := ""
			if n > 1 {
				often = ", in " + count(n) + " times"
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
	for _, e := range es {
		var spans []string
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
			case end.IsZero() && e.state == h.state:
				spans = append(spans, "since "+u.know.since(h.at))
			case end.IsZero(): // it ended after the period that was asked about
				spans = append(spans, "from "+h.at.Format("15:04")+" on")
			default:
				spans = append(spans, fmt.Sprintf("from %s to %s", h.at.Format("15:04"), end.Format("15:04")))
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
		if q.aspect == "when" || q.aspect == "until" {
			yes = ""
		}
		if e.domain() == "person" {
			a.say("%s%s %s %s.", yes, e.name, verbed(state), clocksOf(u, slices.DeleteFunc(slices.Clone(hits), func(h change) bool { return h.id != e.id }))[2:])
			continue
		}
		a.say("%s %s %s %s:%s %s.", upper(yes+e.the()), was(e), is.told(), said, n, listed(spans))
	}
}
