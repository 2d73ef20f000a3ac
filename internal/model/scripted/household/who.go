package household

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// coming matches a question whether somebody came or went, and not where somebody was.
var coming = pattern.New(`^(?:and |so |but )*did\b.*\b(?:come|get|arrive|return|leave|go)\b`)

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

func (u *turn) notSeen(q *ask, es []entity, past map[string]*series, state, said string) string {
	e := es[0]
	var held []entity // in the state all the time
	for _, e := range es {
		if p := past[e.id]; p != nil {
			for s, share := range p.share {
				was := e
				was.state, was.attrs = s, nil
				if share > 99.9 && was.is(state) && !was.lost() {
					held = append(held, was)
				}
			}
		}
	}
	yesNo := q.aspect == "" && re(`^(?:and |so |but )*(?:was|were|did|has|have|is|are)\b`).MatchString(strings.Join(q.ws, " "))
	if len(held) > 0 && e.domain() == "person" && yesNo && coming.MatchString(strings.Join(q.ws, " ")) { // who was there did not come
		return fmt.Sprintf("No: nobody %s %s. %s %s %s all the time.", verbed(state), said, upper(theNames(held)), map[string]string{"is": "was", "are": "were"}[are(held)], held[0].told())
	}
	if len(held) > 0 && (len(es) > 1 || yesNo) {
		yes := map[bool]string{true: "Yes: "}[yesNo]
		return upper(fmt.Sprintf("%s%s %s %s all the time %s.", yes, theNames(held), map[string]string{"is": "was", "are": "were"}[are(held)], held[0].told(), said))
	}
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
		each := map[string][]time.Time{}
		for _, h := range hits {
			if q.when.tool == "" || q.last { // the last time is meant
				each[h.id] = nil
			}
			each[h.id] = append(each[h.id], h.at)
		}
		var what []string
		for _, e := range es {
			if ts := each[e.id]; len(ts) > 0 {
				what = append(what, fmt.Sprintf("%s %s %s", e.the(), verbedOf(e, state), u.know.clocks(ts[:min(len(ts), 10)])))
			}
		}
		a.say("Home Assistant does not say who it was: %s, and no person or automation is recorded for it.", listed(what))
	}
}
