package household

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// is reports whether an entity is in the state with this everyday name.
func (e entity) is(state string) bool {
	switch state {
	case "triggered":
		return e.state == "triggered"
	case "on":
		return slices.Contains([]string{"on", "in_use", "running", "cleaning", "playing", "heat", "auto", "mowing", "home", "eco", "performance", "active"}, e.state) || strings.HasPrefix(e.state, "armed")
	case "off":
		return slices.Contains([]string{"off", "idle", "docked", "standby", "paused", "program_ended", "disarmed"}, e.state)
	case "finished":
		return slices.Contains([]string{"off", "idle", "program_ended", "docked", "finished", "done"}, e.state)
	case "open":
		return e.state == "open" || e.state == "opening" || e.domain() == "binary_sensor" && e.state == "on"
	case "closed":
		return e.state == "closed" || e.state == "closing" || e.domain() == "binary_sensor" && e.state == "off"
	case "home":
		return e.state == "home"
	case "rain", "snow", "sun", "cloud", "wind", "fog", "clear":
		return strings.Contains(e.state, state) || state == "rain" && e.state == "pouring"
	case "up", "down":
		return e.state == map[string]string{"up": "above_horizon", "down": "below_horizon"}[state]
	case "away":
		return e.state != "home" && !e.lost() && e.state != "unknown"
	case "locked", "unlocked":
		return e.state == state
	case "armed":
		return strings.HasPrefix(e.state, "armed")
	case "disarmed":
		return e.state == "disarmed"
	}
	return false
}

// can reports whether an entity is of a sort that can be in the state with this everyday name. A
// phone that is at home or not says nothing of charging.
func (e entity) can(state string) bool {
	switch state {
	case "on", "off", "finished":
		return !slices.Contains([]string{"person", "device_tracker", "select", "input_select", "number", "input_number", "notify", "button", "event", "zone", "sun", "weather", "update", "calendar", "cover", "valve", "lock"}, e.domain())
	case "home", "away":
		return e.domain() == "person" || e.domain() == "device_tracker"
	}
	return true
}

// state describes the present states.
func (u *turn) state(q *ask, a *answered) []Call {
	if q.aspect == "who" && q.kind == nil {
		q.kind = kindNamed("person")
	}
	if q.kind == nil && len(q.names) == 0 && len(q.areas) == 0 {
		switch {
		case has(q.ws, "rooms|areas|room"):
			a.say("The rooms of this house are %s.", listed(u.know.areas))
		case q.state == "on" && has(q.ws, "anything|something|what|everything"):
			return u.onNow(q, a)
		case has(q.ws, "how|how's|hows|status|state|summary|overview|everything|update|should know|need to know|going on|what's up|whats up|coast clear|news"):
			return u.overview(q, a)
		default:
			a.say("%s", help)
		}
		return nil
	}
	if q.kind == nil && len(q.names) == 0 && (q.state == "open" || q.state == "closed") {
		q.kind = kindNamed("door, blind or gate")
	}
	if q.kind == nil && len(q.names) == 0 {
		return u.room(q, a)
	}
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 && q.leaning && q.kind != nil && len(q.areas) > 0 && len(q.names) == 0 && !q.kind.measure {
		return u.likewise(q, a)
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	for _, e := range es {
		a.cite(e.id, fmt.Sprintf("%s: %s", e.name, e.told()))
	}
	switch {
	case q.kind != nil && q.kind.measure:
		if calls := u.measured(q, es, a); len(calls) > 0 {
			return calls
		}
	case q.kind != nil && q.kind.domain == "person" && len(q.names) == 0:
		u.home(q, es, a)
	case q.kind != nil && q.kind.name == "player" && q.aspect != "since" && q.aspect != "when":
		u.playing(q, es, a)
	case q.aspect == "since":
		for _, e := range es {
			a.say("%s", u.sinceWhen(e))
		}
	case q.aspect == "when" && (q.kind == nil || q.kind.domain != "sun"):
		q.intent = isPast
		a.cites = nil
		return u.past(q, a)
	case q.aspect == "where":
		u.placed(es, a)
	case q.kind != nil && q.kind.domain == "climate" && (q.state == "" || has(q.ws, "set")):
		for _, e := range es {
			a.say("%s is %s.", upper(e.the()), e.heating())
		}
	case q.kind != nil && (len(es) > 1 || q.aspect == "count" || q.aspect == "which"):
		u.several(q, es, a)
	case q.kind != nil && q.kind.domain == "weather":
		for _, e := range es {
			a.say("%sThe weather is %s%s.", raining(q, e), e.told(), u.weather(e))
		}
	case q.kind != nil && q.kind.domain == "sun":
		for _, e := range es {
			a.say("The sun has been %s since %s, so it is %s outside.", e.told(), u.know.since(moment(e.since)), map[bool]string{true: "light", false: "dark"}[e.state == "above_horizon"])
		}
	default:
		quiet, calls := u.contradicted(q, es, a)
		if len(calls) > 0 {
			return calls
		}
		if some := slices.DeleteFunc(slices.Clone(quiet), func(e entity) bool { return e.state == "unknown" }); len(some) > 0 {
			quiet = some
		}
		for _, e := range quiet[:min(len(quiet), 5)] {
			a.say("%s%s", u.single(q, e), u.ranged(q, e))
		}
		if q.all && q.kind != nil && len(es) == 1 {
			a.say("It is the only %s%s that Home Assistant knows.", q.kind.name, inAreas(q))
		}
	}
	return nil
}

// playing says what plays. What is paused is told too, as it may go on.
func (u *turn) playing(q *ask, es []entity, a *answered) {
	var on, not []string
	for _, e := range es {
		if e.state == "playing" {
			said := e.the() + " is playing"
			if title, _ := e.attrs["media_title"].(string); title != "" {
				said += " " + title
			}
			on = append(on, said)
			continue
		}
		not = append(not, e.the()+" is "+e.told())
	}
	yes, no := "", ""
	if len(q.ws) > 0 && slices.Contains([]string{"is", "are", "any"}, q.ws[0]) {
		yes, no = "Yes: ", "No: "
	}
	if len(on) > 0 {
		a.say("%s.", upper(yes+listed(on)))
		return
	}
	a.say("%s.", upper(fmt.Sprintf("%snothing is playing%s; %s", no, inAreas(q), listed(not))))
}

// onNow lists what is on in the whole house. Nothing records what should be.
func (u *turn) onNow(q *ask, a *answered) []Call {
	var on []string
	var calls []Call
	for _, name := range []string{"light", "fan", "television", "plug"} {
		all, more := u.list(kindNamed(name))
		calls = append(calls, more...)
		for _, e := range all {
			if e.is("on") && !slices.Contains(on, e.the()) {
				on = append(on, e.the())
				a.cite(e.id, e.name+": "+e.told())
			}
		}
	}
	if len(calls) > 0 {
		return calls
	}
	said := "No light, fan, television or switch is on."
	if len(on) > 0 {
		said = fmt.Sprintf("Of the lights, fans, televisions and switches %s on: %s.", plural(len(on), "one is", count(len(on))+" are"), listed(on))
	}
	if has(q.ws, "should|supposed|meant") {
		said += " Which of it should be, the house does not record."
	}
	a.say("%s", said)
	return nil
}

// contradicted separates the entities whose state another one contradicts. A switch that
// is off while its meter shows power is described with both.
func (u *turn) contradicted(q *ask, es []entity, a *answered) (rest []entity, calls []Call) {
	const standby = 100 // watts
	if !slices.ContainsFunc(es, func(e entity) bool { return e.domain() == "switch" && e.is("off") }) {
		return es, nil
	}
	meters, calls := u.list(kindNamed("power meter"))
	if len(calls) > 0 {
		return nil, calls
	}
	for _, e := range es {
		i := slices.IndexFunc(meters, func(m entity) bool {
			whose := slices.DeleteFunc(clean(m.name), func(w string) bool { return w == "power" })
			return len(whose) > 0 && m.scaled() > standby && !slices.ContainsFunc(whose, func(w string) bool { return !slices.Contains(clean(e.name), w) })
		})
		if e.domain() != "switch" || !e.is("off") || i < 0 {
			rest = append(rest, e)
			continue
		}
		a.cite(meters[i].id, meters[i].name+": "+meters[i].told())
		if total := totalOf(meters); total != nil && total.scaled() < meters[i].scaled() {
			likely := map[string]string{"Yes": "Most likely", "No": "Most likely not"}[yesNo(q, []entity{e})]
			a.say("%s: %s %s %s%s, and %s shows only %s for the whole house. That %s draws %s, as it reports, contradicts both.", cmp.Or(likely, "Most likely so"), e.the(), e.verb(), e.told(), u.sinceOf(e), total.the(), total.told(), meters[i].the(), meters[i].told())
			a.cite(total.id, total.name+": "+total.told())
			a.prove("%s: %s", total.name, total.told())
			a.prove("%s: %s", meters[i].name, meters[i].told())
			continue
		}
		a.say("I cannot tell: %s %s %s%s, but %s draws %s now. The two contradict each other.", e.the(), e.verb(), e.told(), u.sinceOf(e), meters[i].the(), meters[i].told())
	}
	return rest, nil
}

// openings are the kinds that can be open or closed, locked or unlocked.
var openings = []string{"lock", "garage door", "door", "window", "blind"}

// likewise repeats a question for a room without that kind of thing, about a similar
// kind: "and the garage?", after a lock, is about its door.
func (u *turn) likewise(q *ask, a *answered) []Call {
	if !slices.Contains(openings, q.kind.name) {
		return u.nothing(q, a)
	}
	var found []entity
	var calls []Call
	for _, name := range openings {
		all, more := u.list(kindNamed(name))
		calls = append(calls, more...)
		for _, e := range u.narrow(&ask{kind: kindNamed(name), areas: q.areas}, all) {
			if !slices.ContainsFunc(found, func(o entity) bool { return o.id == e.id }) {
				found = append(found, e)
			}
		}
	}
	if len(calls) > 0 {
		return calls
	}
	if len(found) == 0 {
		return u.nothing(q, a)
	}
	q.state = map[string]string{"locked": "closed", "unlocked": "open"}[q.state]
	q.ws = nil // a yes or no about a lock does not fit a door
	a.say("There is no %s%s.", q.kind.name, inAreas(q))
	for _, e := range found {
		a.cite(e.id, e.name+": "+e.told())
		a.say("%s", u.single(q, e))
	}
	return nil
}

// watches reports whether a thing only watches, so that it works in either state.
func watches(e entity) bool {
	return e.domain() == "binary_sensor" && slices.Contains([]string{"moisture", "smoke", "gas", "motion", "door", "window", "occupancy"}, e.class)
}

// single describes one thing, with yes or no if the question asks for it.
func (u *turn) single(q *ask, e entity) string {
	if n, ok := e.value(); ok && e.domain() == "todo" { // its state is a count
		entries := fmt.Sprintf("%d %s; which ones", int(n), plural(int(n), "entry", "entries"))
		if n == 1 {
			entries = "1 entry; which one"
		}
		return fmt.Sprintf("%s has %s I cannot read.", upper(e.the()), entries)
	}
	if e.domain() == "calendar" {
		on := map[bool]string{true: "one is on now", false: "none is on now"}[e.state == "on"]
		return fmt.Sprintf("I cannot tell: the entries of the calendar %s I cannot read. Home Assistant says only that %s.", e.short(), on)
	}
	if e.domain() == "timer" && !has(q.ws, "timer|timers") {
		return fmt.Sprintf("I cannot tell: of %s Home Assistant knows only a timer, which is %s.", e.the(), e.told())
	}
	said := fmt.Sprintf("%s %s %s", upper(e.the()), e.verb(), e.told())
	if e.domain() == "climate" {
		said = fmt.Sprintf("%s is %s", upper(e.the()), e.heating())
	} else if t := moment(e.since); !t.IsZero() && e.unit == "" && !u.know.began(t) {
		said += ", since " + u.know.since(t)
	}
	if has(q.ws, "work|works|working") && watches(e) && !e.lost() { // its state is not its health
		return fmt.Sprintf("Yes, as far as can be told: %s answers. It %s %s.", e.the(), e.verb(), e.told())
	}
	flat := strings.Join(q.ws, " ")
	if up, down := re(`\b(?:up|working|works|ok|okay|fine|connected)\b`).MatchString(flat), re(`\bdown\b`).MatchString(flat); e.class == "connectivity" && !e.lost() && up != down {
		return fmt.Sprintf("%s: %s %s %s.", map[bool]string{true: "Yes", false: "No"}[e.is("on") == up], e.the(), e.verb(), e.told())
	}
	if yes := yesNo(q, []entity{e}); yes != "" {
		said = yes + ": " + lowerStart(said)
	} else if q.state != "" && !e.can(q.state) && re(`^(?:and |so |but )*(?:is|are|does|do|has|have) `).MatchString(strings.Join(q.ws, " ")) && len(e.told()) > 0 {
		return fmt.Sprintf("I cannot tell: Home Assistant does not record that of %s. What it does record: %s.", e.the(), lowerStart(said))
	}
	return said + "."
}

func lowerStart(s string) string {
	if strings.HasPrefix(s, "The ") || strings.HasPrefix(s, "It ") {
		return strings.ToLower(s[:1]) + s[1:]
	}
	return s
}

// yesNo answers a yes-or-no question, or returns "".
func yesNo(q *ask, es []entity) string {
	first := ""
	if len(q.ws) > 0 {
		first = strings.TrimSuffix(q.ws[0], "'s")
	}
	begins := slices.Contains([]string{"is", "are", "has", "have", "does", "do", "any", "was"}, first) || first == "so" || first == "and" || leftSo.MatchString(strings.Join(q.ws, " "))
	picks := slices.ContainsFunc(es, func(e entity) bool { // what is docked may charge
		return !e.can(q.state) || e.state == "docked" && has(q.ws, "charging|charged")
	})
	if q.state == "" || !begins || picks || slices.ContainsFunc(es, func(e entity) bool { return e.lost() || e.state == "unknown" }) {
		return ""
	}
	n := 0
	for _, e := range es {
		if e.is(q.state) {
			n++
		}
	}
	anyOf := slices.Contains(q.ws, "any") || slices.Contains(q.ws, "something")
	switch {
	case n == len(es), anyOf && n > 0:
		return "Yes"
	case n == 0:
		return "No"
	case q.all:
		return "Not all of them"
	}
	return "Some of them"
}

func (u *turn) sinceWhen(e entity) string {
	t := moment(e.since)
	if t.IsZero() {
		return fmt.Sprintf("%s %s %s; since when is not recorded.", upper(e.the()), e.verb(), e.told())
	}
	if u.know.began(t) {
		return fmt.Sprintf("%s %s %s for as long as the house remembers, which is since %s.", upper(e.the()), e.been(), e.told(), u.know.since(t))
	}
	return fmt.Sprintf("%s %s %s since %s.", upper(e.the()), e.been(), e.told(), u.know.since(t))
}

// several says how many things of a kind are in a state, and which.
func (u *turn) several(q *ask, es []entity, a *answered) {
	state := q.state
	if state == "" && (q.kind == nil || q.kind.domain != "climate") {
		state = "on"
		if q.kind != nil && (q.kind.domain == "cover" || q.kind.class == "door" || q.kind.class == "window") {
			state = "open"
		}
	}
	var yes, no, lost []string
	for _, e := range es {
		name := lowerFirst(e.short())
		switch {
		case e.lost():
			lost = append(lost, name)
		case e.is(state):
			yes = append(yes, name)
		default:
			no = append(no, name)
		}
		if len(es) <= 6 || e.is(state) {
			a.prove("%s: %s%s", e.name, e.told(), u.sinceOf(e))
		}
	}
	kind := q.kind.name
	kinds := kind + "s"
	place := ""
	if len(q.areas) > 0 {
		place = " in the " + strings.ToLower(listed(q.areas))
	}
	word := map[string]string{"on": "on", "off": "off", "away": "out", "home": "at home"}[state]
	word = cmp.Or(word, state)
	begin := yesNo(q, es)
	counting := q.aspect == "count" || q.aspect == "which" || begin == ""
	switch {
	case counting && len(yes) == 0:
		a.say("None: no %s%s is %s.", kind, place, word)
	case counting:
		a.say("%s %s%s %s %s: %s.", upper(count(len(yes))), plural(len(yes), kind, kinds), place, plural(len(yes), "is", "are"), word, listed(yes))
	case begin == "No":
		a.say("No, no %s%s is %s. %s", kind, place, word, u.rest(no, es, state))
	case begin == "Yes" && len(no) == 0:
		a.say("Yes, %s %s %s.", theAll(yes), plural(len(yes), "is", "are"), word)
	default:
		a.say("%s: %s %s %s, %s %s not.", begin, theAll(yes), plural(len(yes), "is", "are"), word, theAll(no), plural(len(no), "is", "are"))
	}
	if len(lost) > 0 {
		a.say("Not answering: %s.", listed(lost))
	}
}

func theAll(in []string) string { return "the " + listed(in) }

func (u *turn) rest(no []string, es []entity, state string) string {
	if len(no) == 0 || len(no) > 4 {
		return ""
	}
	var e entity
	var each []string // they differ, as radiators do
	differ := false
	for _, o := range es {
		if o.lost() {
			continue
		}
		differ = differ || e.id != "" && e.told() != o.told()
		e = o
		each = append(each, fmt.Sprintf("%s is %s", o.the(), o.told()))
	}
	if differ && len(each) == len(no) {
		return upper(strings.Join(each, "; ")) + "."
	}
	return upper(fmt.Sprintf("%s %s %s.", theAll(no), plural(len(no), "is", "are"), e.told()))
}

func (u *turn) sinceOf(e entity) string {
	if t := moment(e.since); !t.IsZero() && e.unit == "" && !u.know.began(t) {
		return " since " + u.know.since(t)
	}
	return ""
}
