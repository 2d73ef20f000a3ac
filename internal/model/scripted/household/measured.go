package household

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// measured says numbers, by room if they have one.
func (u *turn) measured(q *ask, es []entity, a *answered) []Call {
	es = wholeHouse(q, roomly(q, es))
	noun := q.kind.noun
	var heaters []entity
	if q.kind.class == "temperature" && len(q.areas) > 0 && has(q.ws, "enough|too") {
		all, calls := u.list(kindNamed("radiator"))
		if len(calls) > 0 {
			return calls
		}
		heaters = u.narrow(&ask{areas: q.areas}, all)
	}
	switch {
	case q.aspect == "since":
		for _, e := range es[:min(len(es), 5)] {
			a.say("%s", u.sinceWhen(e))
		}
	case len(es) == 1:
		e := es[0]
		if e.lost() {
			a.say("%s does not answer, so its %s is not known.", upper(e.the()), noun)
			return nil
		}
		said := reading(q, e)
		if yes := suits(q, e, heaters); yes != "" {
			said = yes + ": " + lowerStart(said)
		}
		a.say("%s%s", said, u.ranged(q, e))
		if t := moment(e.since); !t.IsZero() && u.know.now.Sub(t).Hours() > 24 && q.kind.class != "battery" {
			a.say("That reading is from %s, so it may be out of date.", u.know.since(t))
		}
	case q.kind.class == "battery" && (q.aspect == "" || q.aspect == "which" || q.aspect == "count"):
		u.charges(q, es, a)
	default:
		var lines []string
		for _, e := range es[:min(len(es), 20)] {
			lines = append(lines, fmt.Sprintf("- %s: %s", upper(subject(q, e)), e.told()))
		}
		a.say("%s, in %s places:\n\n%s", upper(noun), count(len(es)), strings.Join(lines, "\n"))
	}
	for _, h := range heaters {
		a.say("%s is %s.", upper(h.the()), h.heating())
	}
	if q.kind.class == "temperature" && len(q.areas) > 0 && has(q.ws, "enough") && len(heaters) == 0 {
		a.say("How warm it should be there is not recorded: it has no radiator with a target that Home Assistant knows.")
	}
	return nil
}

var (
	hopesLow  = pattern.New(`\b(?:low|lower|flat|empty|dead|dying|weak|new|change|changed|changing|replac\w*|charging|recharg\w*|swap\w*|run(?:ning)? (?:low|out|down)|running)\b`)
	hopesFull = pattern.New(`\b(?:ok|okay|fine|good|full|alright|all right|charged|enough|healthy|strong)\b`)
)

// charges says which of several batteries are low, with a yes or no where that was asked, and
// proves it by all of them.
func (u *turn) charges(q *ask, es []entity, a *answered) {
	flat := strings.Join(q.ws, " ")
	slices.SortStableFunc(es, func(x, y entity) int { return cmp.Compare(x.scaled(), y.scaled()) })
	limit := ranges["battery"].low
	var low, mute []string
	var lowest *entity
	for i, e := range es {
		v, ok := e.value()
		switch {
		case !ok:
			mute = append(mute, "the "+subject(q, e))
			continue
		case v < limit:
			low = append(low, fmt.Sprintf("the %s, at %s", subject(q, e), e.told()))
		}
		if lowest == nil {
			lowest = &es[i]
		}
		a.prove("%s: %s", upper(subject(q, e)), e.told())
	}
	verdict := ""
	switch yesNo := re(`^(?:and |so |but )*(?:is|are|do|does|have|has|any)\b`).MatchString(flat); {
	case yesNo && hopesLow.MatchString(flat):
		verdict = map[bool]string{true: "Yes: ", false: "No: "}[len(low) > 0]
	case yesNo && hopesFull.MatchString(flat):
		verdict = map[bool]string{true: "No: ", false: "Yes: "}[len(low) > 0]
	}
	said := "no battery is"
	if len(low) > 0 {
		said = fmt.Sprintf("%s of %s batteries %s", count(len(low)), count(len(es)), plural(len(low), "is", "are"))
	}
	said += " below " + amount(limit, "%")
	switch {
	case lowest == nil:
		a.say("I cannot tell: no battery gives its charge.")
		return
	case len(low) > 0:
		said += ": " + strings.Join(low, "; ")
	default:
		said += fmt.Sprintf(". The lowest is that of the %s, at %s", subject(q, *lowest), lowest.told())
	}
	if verdict == "" {
		said = upper(said)
	}
	a.say("%s%s.", verdict, said)
	if len(mute) > 0 {
		a.say("Not known: %s.", listed(mute))
	}
}

// wholeHouse keeps the meter of the house, of several that measure power, if the question names
// no thing and no room.
func wholeHouse(q *ask, es []entity) []entity {
	meters := slices.DeleteFunc(slices.Clone(es), func(e entity) bool { return !e.meter() })
	if q.kind.class != "power" || len(q.names) > 0 || len(q.areas) > 0 || len(meters) == 0 {
		return es
	}
	return meters
}

// suits answers whether a room is warm enough by what its radiator is set to, and whether
// the air is stuffy by what is commonly held; "" where nothing tells.
func suits(q *ask, e entity, heaters []entity) string {
	const near = 0.5 // °C, by which a radiator misses its target
	v, ok := e.value()
	if !ok || !re(`^(?:and |so |but )*(?:is|does|do) `).MatchString(strings.Join(q.ws, " ")) {
		return ""
	}
	if r, judged := ranges[e.class]; judged && e.class != "battery" {
		switch flat := strings.Join(q.ws, " "); {
		case has(q.ws, "stuffy|stale") || re(`\btoo (?:high|much|humid|damp|moist)\b`).MatchString(flat):
			return map[bool]string{true: "Yes", false: "No"}[v > r.high]
		case re(`\btoo (?:low|little|dry)\b`).MatchString(flat):
			return map[bool]string{true: "Yes", false: "No"}[v < r.low]
		case re(`\b(?:good|fine|ok|okay|alright|healthy|safe|acceptable|fresh)\b`).MatchString(flat):
			return map[bool]string{true: "Yes", false: "No"}[v >= r.low && v <= r.high]
		case re(`\b(?:bad|dangerous|unhealthy|harmful|worrying)\b`).MatchString(flat):
			return map[bool]string{true: "Yes", false: "No"}[v < r.low || v > r.high]
		}
	}
	if flat := strings.Join(q.ws, " "); e.class == "battery" && (hopesLow.MatchString(flat) || hopesFull.MatchString(flat)) {
		return map[bool]string{true: "Yes", false: "No"}[v < ranges["battery"].low == hopesLow.MatchString(flat)]
	}
	if len(heaters) != 1 || !has(q.ws, "enough") {
		return ""
	}
	target, ok := heaters[0].number("temperature")
	if !ok || !has(q.ws, "warm|hot|toasty") {
		return ""
	}
	return map[bool]string{true: "Yes", false: "No"}[v >= target-near]
}

// ranges are the commonly accepted ranges of numbers, in any house.
var ranges = map[string]struct {
	low, high float64
	text      string
}{
	"carbon_dioxide": {0, 1000, "indoor air is commonly held to be good up to 1000 ppm"},
	"humidity":       {40, 60, "40 to 60 % is commonly held to be right indoors"},
	"battery":        {20, 100, "a battery is commonly held to be low below 20 %"},
}

var judging = pattern.New(`\b(?:stuffy|stale|fresh|too|bad|good|fine|ok|okay|alright|dangerous|healthy|unhealthy|harmful|safe|acceptable|worrying|enough|high|low)\b`)

// ranged judges a number by the commonly accepted range, if the question asks for that.
// Temperatures have no range: they are a matter of taste.
func (u *turn) ranged(q *ask, e entity) string {
	r, ok := ranges[e.class]
	v, is := e.value()
	flat := strings.Join(q.ws, " ")
	judged := judging.MatchString(flat) || e.class == "battery" && hopesLow.MatchString(flat)
	if !ok || !is || !judged || !re(`^(?:and |so |but )*(?:is|are|does|do) `).MatchString(flat) {
		return ""
	}
	switch {
	case v > r.high:
		return " That is more than it should be: " + r.text + "."
	case v < r.low:
		return " That is less than it should be: " + r.text + "."
	}
	return " That is in the usual range: " + r.text + "."
}

// subject is what a number belongs to: a room or a thing.
func subject(q *ask, e entity) string {
	switch e.class {
	case "temperature", "humidity", "carbon_dioxide", "sound_pressure", "illuminance":
		if e.area != "" && len(withoutArea(e)) == 0 {
			return lowerFirst(e.area)
		}
	}
	return lowerFirst(e.short())
}

// withoutArea returns the words of a name that are neither the room nor the measurement.
// The words of a flow temperature show that it is not the room's.
func withoutArea(e entity) []string {
	area := clean(e.area)
	return slices.DeleteFunc(clean(e.name), func(w string) bool {
		return slices.Contains(area, w) || slices.Contains([]string{"climate", "temperature", "humidity", "co2", "noise", "air", "sensor", "illuminance", "irrigation", "thermometer", "weather", "station", "outdoor", "motion"}, w)
	})
}

func reading(q *ask, e entity) string {
	s := subject(q, e)
	switch {
	case e.class == "temperature" && strings.EqualFold(s, e.area):
		if slices.Contains(outdoors, strings.ToLower(e.area)) {
			return fmt.Sprintf("It is %s outside, in the %s.", e.told(), s)
		}
		return fmt.Sprintf("The %s has %s.", s, e.told())
	case strings.Contains(strings.ToLower(s), q.kind.noun) && e.area != "" && slices.Contains(q.areas, e.area):
		return fmt.Sprintf("The %s in the %s is %s.", q.kind.noun, strings.ToLower(e.area), e.told())
	case strings.Contains(strings.ToLower(s), q.kind.noun):
		return fmt.Sprintf("The %s is %s.", s, e.told())
	case strings.EqualFold(s, e.area):
		return fmt.Sprintf("The %s in the %s is %s.", q.kind.noun, s, e.told())
	case e.class == "battery":
		return fmt.Sprintf("The battery of the %s is at %s.", s, e.told())
	}
	return fmt.Sprintf("The %s of the %s is %s.", q.kind.noun, s, e.told())
}

// roomly picks the room's own number from several in one room.
func roomly(q *ask, es []entity) []entity {
	if len(q.names) > 0 || q.kind.class != "temperature" && q.kind.class != "humidity" {
		return es
	}
	own := slices.DeleteFunc(slices.Clone(es), func(e entity) bool { return e.area == "" || len(withoutArea(e)) > 0 })
	if len(own) == 0 {
		return es
	}
	return own
}
