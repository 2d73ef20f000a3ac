package household

import (
	"fmt"
	"slices"
	"strings"
)

// doubt compares a cause that the person suggests with the findings.
func (u *turn) doubt(q *ask, d diagnosed, v verdict, a *answered) {
	guess := q.unknown
	if len(guess) == 0 {
		guess = []string{"that"}
	}
	fits := func(text string) bool {
		low := strings.ToLower(text)
		return slices.ContainsFunc(guess, func(g string) bool {
			if g == "zigbee" || g == "wifi" || g == "wi-fi" || g == "radio" || g == "network" || g == "signal" {
				return strings.Contains(low, "lqi") || strings.Contains(low, "signal") || strings.Contains(low, "channel")
			}
			return slices.ContainsFunc(clean(low), func(w string) bool { return alike(g, w) })
		})
	}
	var found []string
	for _, t := range d.together {
		if fits(t.name) {
			found = append(found, fmt.Sprintf("%s %s at %d of %d moments", t.name, u.togetherWord(t), t.hits, t.of))
		}
	}
	name := strings.Join(guess, " ")
	switch {
	case v.kind == "nothing":
		a.say("Nothing unusual is recorded, so nothing speaks for the %s.", name)
	case len(found) > 0:
		a.say("Yes, that fits: %s.", listed(found))
	default:
		a.say("Not as far as the data show: nothing of the %s stood out at those moments. %s", name, strings.TrimSpace(v.what+". "+v.besides))
	}
}

// plan proposes what to do, and says how much of the problem that would cover.
func (u *turn) plan(q *ask, d diagnosed, v verdict, a *answered) {
	if v.kind == "nothing" {
		a.say("There is nothing to mitigate: the data show no unusual moment of %s.", d.about.the())
		return
	}
	name := theNames(append([]entity{d.about}, d.also...))
	var steps []string
	step := func(format string, args ...any) { steps = append(steps, "- "+fmt.Sprintf(format, args...)) }
	effect := func(hits int) string {
		if q.aspect != "plan" {
			return ""
		}
		return fmt.Sprintf(" Simulated: if this had been in place, it would have taken away what came with %d of the %d moments.", hits, d.moments)
	}
	for _, e := range d.errors {
		if e.level != "WARNING" {
			step("Have the %s looked at by a technician: it reports %s.", lowerFirst(e.about), strings.TrimSuffix(u.faultText(e), "."))
		}
	}
	for _, t := range d.together {
		low := strings.ToLower(t.name)
		domain, _, _ := strings.Cut(t.id, ".")
		switch {
		case strings.Contains(low, "lqi") || strings.Contains(low, "signal") || strings.Contains(low, "rssi"):
			step("%s: bring the link up, with a router of the same network nearby.%s", t.name, effect(t.hits))
		case strings.Contains(low, "utilisation") || strings.Contains(low, "utilization"):
			step("%s: move one of the two networks to a free channel.%s", t.name, effect(t.hits))
		case strings.Contains(low, "voltage") && t.what == "unusual value":
			step("%s: have an electrician check the supply, or put the lamps on another phase.%s", t.name, effect(t.hits))
		case domain == "automation" || domain == "script":
			if v.kind == "automation" {
				step("%s: let it wait until what triggers it has held for some seconds.%s", t.name, effect(t.hits))
			}
		case strings.Contains(low, "motion") || strings.Contains(low, "occupancy"):
			step("%s: change its battery or its place, and lower its sensitivity.%s", t.name, effect(t.hits))
		case t.what == "→ on":
			step("%s: have its start softened, or keep it from starting at that time.%s", t.name, effect(t.hits))
		}
	}
	if len(steps) == 0 {
		step("Watch %s, and ask again when it has happened once more.", name)
	}
	if hurt, _ := u.hurt(d); len(d.members) > 0 && len(hurt) > 0 && len(hurt) < len(d.members) {
		name += " (" + listed(hurt) + ")"
	}
	a.say("**A plan for %s**, from %s unusual moments. It is a proposal: nothing has been changed.", name, count(d.moments))
	a.parts = append(a.parts, strings.Join(steps, "\n"))
	if q.aspect == "plan" {
		a.say("The simulation only counts what went together in the recorded time; it does not prove that the moments would not have come.")
	}
	a.next = append(a.next, "Did it happen again today?")
}
