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

// comparison is what a question compares: "warmer than outside", "more than on Friday",
// "longer than five minutes". If it compares two rooms, they are in the question's
// areas.
type comparison struct {
	sign  int      // 1: is it more?; -1: is it less?
	times bool     // compares two times: first, and the question's own
	first span     // empty for now or today
	limit *float64 // a figure to compare with, in the unit of the measurement
	long  time.Duration
	equal bool // asks whether two rooms or times are alike, or how they differ
}

// usual asks how something is beside how it mostly is.
var usual = pattern.New(`\b(?:than|as|is (?:that|this|it)|that's|was (?:that|this|it)) (?:\S+ )?(?:usual|usually|normal|normally|typical|unusual|average|a lot|much)\b`)

var (
	comparative = pattern.New(`\b(?:(warmer|hotter|brighter|louder|noisier|higher|longer|damper|fuller|more)|(colder|cooler|chillier|darker|quieter|lower|shorter|drier|emptier|less|fewer))\b`)
	theDayThen  = pattern.New(`\bthe (?:day|night|evening|morning|afternoon) before\b`)
	someLength  = pattern.New(`\b(\d+(?:[.,]\d+)?|an?|half an|one|two|three|four|five|six|ten|fifteen|twenty|thirty) (second|minute|hour)s?\b`)
	lengths     = map[string]float64{"a": 1, "an": 1, "half an": .5, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10, "fifteen": 15, "twenty": 20, "thirty": 30}
	byHowMuch   = pattern.New(`^` + lightly + `(?:by how (?:much|many \S+|long)|how (?:much|many \S+) (?:more|less|fewer|longer|shorter|warmer|colder|higher|lower|brighter|darker)(?: (?:is|was) (?:it|that))?|(?:what(?:'s| is| was) )?the difference)$`)
)

// alongside matches a question for two rooms side by side, without "than".
var alongside = pattern.New(`^(?:please )?compare\b|\b(?:vs|versus|compared (?:to|with))\b|\bdifference\b.*\bbetween\b|\b(?:as|so) \w+ (?:\S+ ){0,5}as\b`)

// beside matches a question for two times side by side, without "than".
var beside = pattern.New(`^(?:and |so |please )*(?:compare (.+?) (?:with|to|and|against)|how (?:does|do|did) (.+?) compare (?:with|to|against)|(?:what(?:'?s| is| was) )?the difference between (.+?) and) (.+)$`)

// floors matches a question for the floors of a house.
var floors = pattern.New(`\b(?:upstairs|downstairs|(?:upper|ground|first|top) floor)\b`)

// bareFigure matches a figure without a unit, which is that of the measurement.
var bareFigure = pattern.New(`^(-?\d+(?:[.,]\d+)?)(?: (?:degrees )?(?:in|at|on|outside|inside|now|right|today|there|here)\b.*)?$`)

// limits matches a limit without a comparative: "is it under 20 degrees?"
var limits = pattern.New(`\b(under|below|over|above) (-?\d.*)$`)

// comparisonIn returns the comparison in a question, or nil.
func (u *turn) comparisonIn(q *ask, flat string, t *topic) *comparison {
	if usual.MatchString(flat) {
		return nil // there is no time to compare with
	}
	if re(`^(?:and |so )?(?:is|was) it (?:below )?freezing\b`).MatchString(flat) && q.when.tool == "" {
		return &comparison{sign: -1, limit: new(float64)}
	}
	if m := limits.FindStringSubmatch(flat); m != nil && re(`^(?:and |so )?(?:is|are) `).MatchString(flat) {
		flat = strings.Replace(flat, m[0], map[bool]string{true: "lower", false: "higher"}[m[1] == "under" || m[1] == "below"]+" than "+m[2], 1)
		if q.kind == nil && strings.Contains(m[2], "degree") {
			q.kind = kindNamed("thermometer")
		}
	}
	if alongside.MatchString(flat) && len(q.areas) == 2 && q.when.tool == "" && (q.kind == nil || q.kind.measure) {
		if q.kind == nil {
			q.kind = kindNamed("thermometer") // what differs most between rooms
		}
		return &comparison{sign: 1, equal: true}
	}
	if m := beside.FindStringSubmatch(flat); m != nil {
		first := timeIn(m[1] + m[2] + m[3])
		if then := u.timeAfter(m[4], first); first.tool != "" && then.tool != "" {
			q.when = then
			return &comparison{sign: 1, times: true, first: first, equal: true}
		}
	}
	left, right, than := strings.Cut(flat, " than ")
	m := comparative.FindStringSubmatch(left)
	past := q.when.tool != "" && q.when.tool != "now"
	switch {
	case m == nil, !than && !(past && q.kind != nil && q.kind.measure && q.kind.class != "energy" && re(`^(?:is|are|was|were|did) `).MatchString(left)) && !floors.MatchString(left):
		return nil
	case q.kind == nil && (m[0] == "brighter" || m[0] == "darker"):
		q.kind = kindNamed("light sensor")
	case q.kind == nil && slices.Contains([]string{"warmer", "hotter", "colder", "cooler", "chillier"}, m[0]):
		q.kind = kindNamed("thermometer")
	case q.kind == nil && slices.Contains([]string{"louder", "noisier", "quieter"}, m[0]):
		q.kind = kindNamed("noise meter")
	case q.kind == nil && slices.Contains([]string{"damper", "drier"}, m[0]):
		q.kind = kindNamed("humidity sensor")
	}
	c := &comparison{sign: 1}
	if m[2] != "" {
		c.sign = -1
	}
	if !than && !past { // "is it warmer upstairs?"
		return c
	}
	if !than { // "was it warmer yesterday?"
		c.times, c.first, q.when = true, q.when, span{tool: "now"}
		return c
	}
	one, _ := u.areasIn(clean(left))
	if other, _ := u.areasIn(clean(right)); len(one) <= 1 && len(other) == 1 {
		q.areas = append(one, other...)
	}
	l := levelWithUnit.FindStringSubmatch(right)
	if l == nil && q.kind != nil && q.kind.measure && !someLength.MatchString(right) {
		l = bareFigure.FindStringSubmatch(right) // "warmer than 21.5"
	}
	if l != nil {
		v, _ := strconv.ParseFloat(strings.ReplaceAll(l[1], ",", "."), 64)
		c.limit = &v
		return c
	}
	if l := someLength.FindStringSubmatch(right); l != nil {
		n, ok := lengths[l[1]]
		if !ok {
			n, _ = strconv.ParseFloat(strings.ReplaceAll(l[1], ",", "."), 64)
		}
		c.long = time.Duration(n * float64(map[string]time.Duration{"second": time.Second, "minute": time.Minute, "hour": time.Hour}[l[2]]))
		return c
	}
	since := timeIn(left)
	if since.tool == "" && t != nil {
		since = t.when
	}
	then := u.timeAfter(right, since)
	if then.tool != "" {
		c.times, c.first, q.when = true, timeIn(left), then
		if c.first.tool == "" && t != nil && then.tool != t.when.tool {
			c.first = t.when
		}
	}
	return c
}

// timeAfter returns the time in a text. The day before is before the time that was named first.
func (u *turn) timeAfter(text string, first span) span {
	then := timeIn(text)
	if then.tool == "" && first.tool != "" && theDayThen.MatchString(text) {
		return u.before(first)
	}
	return then
}

// compares answers a comparison. ok is false if another rule has to answer it.
func (u *turn) compares(q *ask, a *answered) (calls []Call, ok bool) {
	c := q.compare
	measure := q.kind != nil && q.kind.measure
	switch {
	case c == nil, q.intent == isAct, q.intent == isCause:
		return nil, false
	case c.times && (q.intent == isEnergy || measure && q.kind.class == "energy"):
		return u.energy(q, a), true
	case measure && c.limit != nil:
		return u.withLimit(q, a), true
	case measure && floors.MatchString(strings.Join(q.ws, " ")):
		return u.storeys(q, a), true
	case measure && c.times:
		return u.overTime(q, a), true
	case measure && len(q.areas) == 2:
		return u.rank(q, a), true
	case !measure && (c.times || c.long > 0) && has(q.ws, "longer|shorter|more|less"):
		return u.howLong(q, a), true
	}
	return nil, false
}

// verdict says whether first compares with other as asked, and by how much they differ.
func (c *comparison) verdict(first, other float64, show func(float64) string) (yes, by string) {
	switch d := first - other; {
	case show(math.Abs(d)) == show(0):
		return "No", "the same"
	case d > 0 == (c.sign > 0):
		return "Yes", "a difference of " + show(math.Abs(d))
	default:
		return "No", "a difference of " + show(math.Abs(d))
	}
}

// opens begins the answer: with yes or no, unless the question only asks how two times differ.
func (c *comparison) opens(yes, text string) string {
	if c.equal {
		return upper(text)
	}
	return yes + ": " + text
}

// numbers returns the measurements that a comparison is about. Without a room, a
// temperature is the one outside: people mean the weather.
func (u *turn) numbers(q *ask) ([]entity, []Call) {
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return nil, calls
	}
	es = roomly(q, es)
	es = slices.DeleteFunc(slices.Clone(es), func(e entity) bool { _, is := e.value(); return !is })
	if out := slices.DeleteFunc(slices.Clone(es), func(e entity) bool { return !slices.Contains(outdoors, strings.ToLower(e.area)) }); q.kind.class == "temperature" && len(q.areas)+len(q.names) == 0 && len(out) > 0 {
		es = out
	}
	return es[:min(len(es), 4)], nil
}

// withLimit compares measurements with a figure.
func (u *turn) withLimit(q *ask, a *answered) []Call {
	es, calls := u.numbers(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	for _, e := range es {
		v, _ := e.value()
		a.cite(e.id, e.name+": "+e.told())
		yes, _ := q.compare.verdict(v, *q.compare.limit, func(f float64) string { return amount(f, e.unit) })
		a.say("%s: %s; you asked for %s than %s.", yes, lowerStart(strings.TrimSuffix(reading(q, e), ".")), map[bool]string{true: "more", false: "less"}[q.compare.sign > 0], amount(*q.compare.limit, e.unit))
	}
	return nil
}

// overTime compares the measurements of two times. Each is the value now, or the average
// of a period.
func (u *turn) overTime(q *ask, a *answered) []Call {
	es, calls := u.numbers(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	past := map[string]map[string]*series{}
	for _, s := range []span{q.compare.first, q.when} {
		if s.tool == "" || s.tool == "now" {
			continue
		}
		c := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": u.span(s, "today"), "plot": false}}
		if r, ok := u.got(c); ok {
			past[s.tool] = pastOf(r.Output)
		} else {
			calls = append(calls, c)
		}
	}
	if len(calls) > 0 {
		return calls
	}
	for _, e := range es {
		at := func(s span) (v float64, said string, ok bool) {
			if s.tool == "" || s.tool == "now" {
				v, _ = e.value()
				return v, e.told() + " now", true
			}
			p := past[s.tool][e.id]
			if p == nil || !p.numeric {
				return 0, "", false
			}
			a.prove("%s: %s to %s %s", upper(subject(q, e)), amount(p.min, p.unit), amount(p.max, p.unit), s.said)
			return p.mean, amount(p.mean, p.unit) + " on average " + s.said, true
		}
		x, first, ok := at(q.compare.first)
		y, other, ok2 := at(q.when)
		if !ok || !ok2 {
			a.say("That cannot be told of the %s: the history of the house does not have both times.", subject(q, e))
			continue
		}
		a.cite(e.id, first+", "+other)
		yes, by := q.compare.verdict(x, y, func(f float64) string { return amount(f, e.unit) })
		a.say("%s of the %s is **%s**, and was **%s**; %s.", q.compare.opens(yes, "the "+q.kind.noun), subject(q, e), first, other, by)
		if !strings.HasSuffix(first, "now") {
			a.parts[len(a.parts)-1] = strings.Replace(strings.Replace(a.parts[len(a.parts)-1], " is **", " was **", 1), ", and was **", ", and **", 1)
		}
	}
	return nil
}

// howLong compares how long something was on or open: in two periods, or with a given
// length.
func (u *turn) howLong(q *ask, a *answered) []Call {
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	es = es[:1]
	c := q.compare
	spans := []span{c.first, q.when}
	if c.long > 0 {
		spans = []span{q.when}
	}
	var sums []time.Duration
	var said []string
	state := orText(q.state, usualState(es[0]))
	for _, s := range spans {
		if s.tool == "" || s.tool == "now" {
			s = span{tool: "today", said: "today"}
		}
		book := Call{Tool: logbook, Input: map[string]any{"entities": idsOf(es), "start": u.span(s, "today"), "limit": 200}}
		seen := Call{Tool: history, Input: map[string]any{"entities": idsOf(es), "start": u.span(s, "today")}}
		rows, ok := u.got(book)
		states, ok2 := u.got(seen)
		if !ok || !ok2 {
			calls = append(calls, book, seen)
			continue
		}
		past := pastOf(states.Output)
		m := historySpan.FindStringSubmatch(states.Output)
		if p := past[es[0].id]; m == nil || p == nil || !p.recorded.IsZero() {
			a.say("That cannot be told: the history of the house does not have all of %s.", s.said)
			return nil
		}
		all := bookOf(rows.Output)
		own := *q
		own.when = s
		hits := u.begun(&own, es, all, past, states, state)
		for _, h := range all {
			if h.id == es[0].id && h.of(es).is(state) {
				hits = append(hits, h)
			}
		}
		length, _ := sum(es[0], hits, all, moment(m[2]))
		sums = append(sums, length)
		if s.tool == "today" || strings.HasPrefix(s.tool, "this ") {
			s.said += " so far"
		}
		said = append(said, s.said)
		a.cite(es[0].id, fmt.Sprintf("%s: %s %s", es[0].name, tookOrNot(length), s.said))
	}
	if len(calls) > 0 {
		return calls
	}
	word := es[0]
	word.state, word.attrs = stateNamed(es[0], state), nil
	if c.long > 0 {
		yes := map[bool]string{true: "Yes", false: "No"}[sums[0] > c.long == (c.sign > 0) && sums[0] != c.long]
		a.say("%s: %s %s %s for %s %s in all.", yes, es[0].the(), was(es[0]), word.told(), tookOrNot(sums[0]), said[0])
		return nil
	}
	yes, by := c.verdict(sums[0].Minutes(), sums[1].Minutes(), func(f float64) string { return took(time.Duration(f * float64(time.Minute))) })
	a.say("%s: %s %s %s for **%s** %s, and for **%s** %s; %s.", yes, es[0].the(), was(es[0]), word.told(), tookOrNot(sums[0]), said[0], tookOrNot(sums[1]), said[1], by)
	return nil
}

func tookOrNot(d time.Duration) string {
	if d == 0 {
		return "no time"
	}
	return took(d)
}

// usualState is the state that people mean if they name none.
func usualState(e entity) string {
	switch {
	case e.domain() == "cover" || e.class == "door" || e.class == "window":
		return "open"
	case e.domain() == "person":
		return "home"
	case e.domain() == "sun":
		return "down"
	}
	return "on"
}

// stateNamed is the name that Home Assistant has for a state.
func stateNamed(e entity, state string) string {
	if e.domain() == "binary_sensor" {
		return map[bool]string{true: "on", false: "off"}[state == "on" || state == "open"]
	}
	return state
}
