package household

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// onPhase matches the name of a phase of the mains.
var onPhase = pattern.New(`\bL[123]\b`)

// A supply with less than this is cut, and one below dipped is no longer in order, in volts.
const (
	cutBelow    = 50
	dippedBelow = 207
)

// powered says whether the lowest voltage shows that the power was out.
func powered(low *series, said string, at func(time.Time) string) string {
	lowest := fmt.Sprintf("%s %s on the %s", amount(low.min, low.unit), at(low.minAt), lowerFirst(low.name))
	switch {
	case low.min < cutBelow:
		return fmt.Sprintf("Yes, as far as the voltage tells: it was down to %s.", lowest)
	case low.min < dippedBelow:
		return fmt.Sprintf("No sign of it %s: the voltage dipped, but not below %s, and that is no cut.", said, lowest)
	}
	return fmt.Sprintf("No sign of it %s: the lowest voltage was %s.", said, lowest)
}

// figures says the lowest, highest and mean values of a period.
func (u *turn) figures(q *ask, a *answered) []Call {
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	if q.kind != nil {
		es = roomly(q, es)
		if q.aspect == "normal" {
			es = wholeHouse(q, es)
		}
	}
	es = slices.DeleteFunc(es, func(e entity) bool { _, is := e.value(); return !is && !e.lost() })
	es = es[:min(len(es), 8)]
	if t, ok := u.instant(q); ok {
		return u.valueAt(q, es, t, a)
	}
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": u.span(q.when, "today")}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	noun := "value"
	if q.kind == nil && len(es) > 0 {
		for _, k := range kinds {
			if k.measure && k.class == es[0].class {
				noun = k.noun
			}
		}
	} else if q.kind != nil {
		noun = q.kind.noun
	}
	said := q.when.said
	if said == "" || said == "now" {
		said = "today"
	}
	past := pastOf(r.Output)
	if from := partly(past); q.when.tool != "" && q.when.tool != "now" && !from.IsZero() {
		first, whole := len(a.parts), said
		said = afterThat
		defer func() { u.qualified(a, first, whole, from) }()
	}
	var low, high *series
	for _, e := range es {
		p := past[e.id]
		if p == nil || !p.numeric {
			continue
		}
		p.name = e.short()
		if e.class == "temperature" && e.area != "" && len(withoutArea(e)) == 0 {
			p.name = e.area
		}
		if low == nil || p.min < low.min {
			low = p
		}
		if high == nil || p.max > high.max {
			high = p
		}
		a.cite(p.id, fmt.Sprintf("min %s, max %s", amount(p.min, p.unit), amount(p.max, p.unit)))
		a.prove("%s: lowest %s %s, highest %s %s, %s on average", p.name, amount(p.min, p.unit), u.know.when(p.minAt), amount(p.max, p.unit), u.know.when(p.maxAt), amount(p.mean, p.unit))
	}
	if low == nil {
		a.say("That cannot be told: nothing of it is recorded %s.", said)
		return nil
	}
	at := func(t time.Time) string {
		if q.when.short() {
			return "at " + t.Format("15:04")
		}
		return u.know.when(t)
	}
	most, value, when := low, low.min, low.minAt
	word := "lowest"
	if q.extreme > 0 {
		most, value, when, word = high, high.max, high.maxAt, "highest"
	}
	on := "on the " + lowerFirst(most.name)
	if slices.Contains(u.know.areas, most.name) {
		on = "in the " + lowerFirst(most.name)
	}
	switch {
	case q.aspect == "cut":
		a.say("%s", powered(low, said, at))
	case q.aspect == "odd":
		u.odd(es, past, said, a)
	case q.aspect == "normal":
		for _, e := range es {
			if p := past[e.id]; p != nil && p.numeric {
				a.say("What is normal is not recorded. The %s is %s now; %s it was between %s and %s, and %s on average.", strings.ToLower(noun)+" of the "+subject(q, e), e.told(), said, amount(p.min, p.unit), amount(p.max, p.unit), amount(p.mean, p.unit))
			}
		}
	case q.extreme != 0 && (q.aspect == "when" || q.aspect == "begin"):
		a.say("%s, with %s %s.", upper(u.know.when(when)), amount(value, most.unit), on)
	case q.extreme != 0 && q.aspect == "on" && onPhase.MatchString(most.name):
		a.say("On phase %s: the %s was %s, %s.", onPhase.FindString(most.name), word, amount(value, most.unit), u.know.when(when))
		if len(es) > 1 {
			var rest []string
			for _, e := range es {
				if p := past[e.id]; p != nil && p.numeric && p != most {
					rest = append(rest, fmt.Sprintf("the %s was between %s and %s", lowerFirst(p.name), amount(p.min, p.unit), amount(p.max, p.unit)))
				}
			}
			a.parts[len(a.parts)-1] += " " + upper(listed(rest)) + "."
		}
	case q.extreme != 0 && (q.aspect == "on" || q.aspect == "which" || q.aspect == "where"):
		a.say("%s: it had %s %s.", upper(on), amount(value, most.unit), u.know.when(when))
	case q.extreme != 0:
		a.say("The %s %s %s was **%s**, %s, %s.", word, noun, said, amount(value, most.unit), on, at(when))
	case len(es) == 1:
		what := lowerFirst(low.name)
		if !strings.Contains(what, noun) {
			what = noun + " of the " + what
		}
		a.say("%s the %s was between %s (%s) and %s (%s), and %s on average.", upper(said), what, amount(low.min, low.unit), at(low.minAt), amount(low.max, low.unit), at(low.maxAt), amount(low.mean, low.unit))
	default:
		var lines []string
		for _, e := range es {
			if p := past[e.id]; p != nil && p.numeric {
				lines = append(lines, fmt.Sprintf("- %s: %s to %s, %s on average", upper(lowerFirst(p.name)), amount(p.min, p.unit), amount(p.max, p.unit), amount(p.mean, p.unit)))
			}
		}
		a.evidence = nil
		a.say("%s %s:\n\n%s", upper(noun), said, strings.Join(lines, "\n"))
	}
	return nil
}

// valueAt says what numbers were at a moment, from the last reading before it.
func (u *turn) valueAt(q *ask, es []entity, t time.Time, a *answered) []Call {
	const layout = "2006-01-02 15:04"
	c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": t.Format(layout), "end": t.Add(time.Minute).Format(layout), "plot": false}}
	r, ok := u.got(c)
	if !ok {
		return []Call{c}
	}
	past := pastOf(r.Output)
	when := u.know.when(t)
	var lines []string
	for _, e := range es {
		p := past[e.id]
		if p == nil || !p.numeric {
			continue
		}
		was := e
		was.state = strconv.FormatFloat(p.first, 'f', -1, 64)
		a.cite(e.id, was.told()+" "+when)
		lines = append(lines, fmt.Sprintf("- %s: %s", upper(subject(q, e)), was.told()))
		if len(es) == 1 {
			a.say("%s", strings.TrimSuffix(inPast(reading(q, was)), ".")+" "+when+".")
		}
	}
	switch {
	case len(lines) == 0:
		a.say("That cannot be told: nothing of it is recorded %s.", when)
	case len(es) > 1:
		a.say("%s %s:\n\n%s", upper(q.kind.noun), when, strings.Join(lines, "\n"))
	}
	return nil
}

// inPast rewrites the sentence for a reading in the past tense.
func inPast(s string) string {
	return strings.Replace(strings.Replace(s, " is ", " was ", 1), " has ", " had ", 1)
}

// odd says which of the values stand out from the others of their time.
func (u *turn) odd(es []entity, past map[string]*series, said string, a *answered) {
	var found []string
	for _, e := range es {
		p := past[e.id]
		if p == nil || len(p.unusual) == 0 {
			continue
		}
		worst := p.unusual[0]
		far := func(c change) float64 { v, _ := strconv.ParseFloat(c.state, 64); return math.Abs(v - p.mean) }
		for _, c := range p.unusual {
			a.prove("%s: %s %s", p.name, amount(mustFloat(c.state), p.unit), u.know.when(c.at))
			if far(c) > far(worst) {
				worst = c
			}
		}
		found = append(found, fmt.Sprintf("the %s stood out %s, most of all with **%s** %s; on average it was %s", lowerFirst(p.name), times(len(p.unusual)), amount(mustFloat(worst.state), p.unit), u.know.when(worst.at), amount(p.mean, p.unit)))
	}
	if len(found) == 0 {
		a.say("No: no value far from the others is recorded %s.", said)
		return
	}
	a.say("Yes, %s: %s.", said, strings.Join(found, "; "))
}

func mustFloat(s string) float64 { v, _ := strconv.ParseFloat(s, 64); return v }
