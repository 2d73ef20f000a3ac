package household

import (
	"slices"
	"strings"
)

// deed is the change that a request asks for.
type deed struct {
	verb  string // on, off, open, close, lock, unlock, set, start, stop, dim
	value *float64
	by    float64 // change the value by this amount
	step  float64 // 1: more, -1: less; half of that for "a bit"

	timing string // the words for a time or length; empty means now, and to stay
}

// deedOf reads a request.
func deedOf(rest string, q *ask) deed {
	d := deed{timing: timingIn(rest)}
	if d.timing != "" {
		rest = strings.Replace(rest, d.timing, "", 1)
	}
	verb := func(pattern string) bool { return re(pattern).MatchString(rest) }
	switch {
	case verb(`^(?:turn|switch|put|shut)\b.*\boff\b|^(?:kill|disable)\b|^(?:turn|put|switch)\b.*\bout\b|^shut down\b`):
		d.verb = "off"
	case verb(`^unlock\b`):
		d.verb = "unlock"
	case verb(`^lock\b`):
		d.verb = "lock"
	case verb(`^disarm\b`):
		d.verb = "disarm"
	case verb(`^arm\b`):
		d.verb = "arm"
	case verb(`^(?:open|lift)\b|^(?:raise|pull up|put up)\b.*\b(?:blinds?|shutters?|curtains?)\b`):
		d.verb = "open"
	case verb(`^(?:close|shut)\b|^(?:lower|pull down|put down)\b.*\b(?:blinds?|shutters?|curtains?)\b`):
		d.verb = "close"
	case verb(`^(?:stop|pause)\b`):
		d.verb = "stop"
	case verb(`^(?:dim|brighten)\b`):
		d.verb = "dim"
	case verb(`^(?:set|make|raise|lower|increase|decrease|reduce|heat|cool|warm|turn (?:up|down)|turn\b.*\b(?:up|down)|put)\b`) && !verb(`\bon\b`):
		d.verb = "set"
	case verb(`^(?:turn|switch|put|activate|enable)\b.*\bon\b|^(?:activate|enable)\b`):
		d.verb = "on"
	case verb(`^turn\b|^switch\b`) && number.MatchString(rest):
		d.verb = "set"
	default:
		d.verb = "start"
	}
	switch d.verb {
	case "set", "dim":
		d.value = levelOf(rest, true)
	case "on", "open", "close":
		d.value = levelOf(rest, false)
	}
	if m := re(`\b(?:by )?(one|two|three|a|1|2|3|half a) degrees?\b`).FindStringSubmatch(rest); m != nil && verb(`\bwarmer\b|\bcolder\b|\bcooler\b|\bhigher\b|\blower\b|\bup\b|\bdown\b|^(?:raise|lower|increase|decrease|reduce)\b`) && !verb(`\bto \d`) {
		d.by = map[string]float64{"one": 1, "a": 1, "1": 1, "two": 2, "2": 2, "three": 3, "3": 3, "half a": 0.5}[m[1]]
		if verb(`\bcolder\b|\bcooler\b|\blower\b|\bdown\b|^(?:lower|decrease|reduce)\b`) {
			d.by = -d.by
		}
		d.value = nil
	}
	if m := re(`\b(` + more + `|up|down)\b`).FindString(rest); m != "" && (d.verb == "set" || d.verb == "dim") && d.value == nil && d.by == 0 {
		d.step = 1
		if slices.Contains([]string{"dimmer", "darker", "cooler", "colder", "lower", "quieter", "down", "less"}, m) {
			d.step = -1
		}
	}
	if d.step == 0 && d.value == nil && d.by == 0 && re(`^(?:dim|brighten|raise|lower|increase|decrease|reduce|heat|cool|warm)\b`).MatchString(rest) {
		d.step = 1
		if re(`^(?:dim|lower|decrease|reduce|cool)\b`).MatchString(rest) {
			d.step = -1
		}
	}
	if re(`\b(?:a (?:bit|little|tad|touch)|slightly)\b`).MatchString(rest) {
		d.step /= 2
	}
	return d
}
