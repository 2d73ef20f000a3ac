package household

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/keyword"
)

// raining answers whether it rains, snows and so on.
func raining(q *ask, e entity) string {
	for words, states := range map[string]string{"rain|raining|rainy": "rain|pouring", "snow|snowing": "snow", "sunny": "sunny|clear", "cloudy": "cloud", "windy": "wind"} {
		if !has(q.ws, words) {
			continue
		}
		for s := range strings.SplitSeq(states, "|") {
			if strings.Contains(e.state, s) {
				return "Yes. "
			}
		}
		return "No. "
	}
	return ""
}

// overview describes the house: who is at home, what is on, and what is unavailable.
func (u *turn) overview(q *ask, a *answered) []Call {
	var calls []Call
	for _, o := range []ask{
		{ws: q.ws, kind: kindNamed("person"), state: "home"},
		{ws: q.ws, kind: kindNamed("light"), state: "on", aspect: "count"},
		{ws: q.ws, intent: isUnavailable, aspect: "faults"},
	} {
		calls = append(calls, u.answer(&o, a)...)
	}
	return calls
}

func (u *turn) weather(e entity) string {
	var out []string
	if v, ok := e.number("temperature"); ok {
		out = append(out, amount(v, "°C"))
	}
	if v, ok := e.number("humidity"); ok {
		out = append(out, amount(v, "%")+" humidity")
	}
	if v, ok := e.number("wind_speed"); ok {
		out = append(out, "wind of "+amount(v, "km/h"))
	}
	if len(out) == 0 {
		return ""
	}
	return ", with " + listed(out)
}

// home says who is at home.
func (u *turn) home(q *ask, es []entity, a *answered) {
	var in, out []string
	for _, e := range es {
		if e.is("home") {
			in = append(in, e.name)
		} else {
			out = append(out, e.name)
		}
		if t := moment(e.since); !t.IsZero() {
			a.prove("%s: %s since %s", e.name, e.told(), u.know.since(t))
		}
	}
	yes, no := "", ""
	if len(q.ws) > 0 && (q.ws[0] == "is" || q.ws[0] == "are" || q.ws[0] == "so") {
		yes, no = "Yes, ", "No, "
		if q.all {
			yes = map[bool]string{true: "Yes, ", false: "Not all: "}[len(out) == 0]
		}
	}
	if q.aspect == "count" {
		yes, no = upper(count(len(in)))+": ", upper(count(0))+": "
	}
	if q.aspect == "since" {
		for _, e := range es {
			a.say("%s", u.sinceWhen(e))
		}
		return
	}
	switch {
	case len(in) == 0:
		a.say("%s", upper(fmt.Sprintf("%snobody is at home; %s %s out.", no, listed(out), plural(len(out), "is", "are"))))
	case len(out) == 0:
		a.say("%s%s %s at home.", yes, listed(in), plural(len(in), "is", "are"))
	default:
		a.say("%s%s %s at home; %s %s out.", yes, listed(in), plural(len(in), "is", "are"), listed(out), plural(len(out), "is", "are"))
	}
}

// nothing says that there is no such thing, and what else of its kind there is.
func (u *turn) nothing(q *ask, a *answered) []Call {
	named := strings.Join(q.names, " ")
	if q.only != "" { // of those that there are, none is in the state that was spoken of
		own := *q
		own.only = ""
		if es, calls := u.chosen(&own); len(calls) > 0 {
			return calls
		} else if len(es) > 0 {
			what := "of them"
			if q.kind != nil {
				what = q.kind.name + inAreas(q)
			}
			a.say("None: no %s is %s.", strings.TrimPrefix(what, "of "), doneWord(q.only))
			return nil
		}
	}
	if q.kind == nil {
		if len(q.unknown) == len(q.names) && !asking.MatchString(strings.Join(q.ws, " ")) && !strings.HasSuffix(strings.TrimSpace(u.Question), "?") && len(q.ws) > 2 {
			a.say("I cannot help with that: it names nothing in this house, as far as Home Assistant knows.\n\n%s", help)
			return nil
		}
		if named == "" {
			named = "that"
		}
		a.say("I cannot tell: nothing called %s is in this house, as far as Home Assistant knows.%s", named, u.offer(q))
		return nil
	}
	if q.kind.class == "battery" && len(q.names) > 0 { // some devices give it as an attribute
		if es := u.main(u.things(q), q); len(es) > 0 {
			live, calls := u.live(es)
			if len(calls) > 0 {
				return calls
			}
			for _, e := range live {
				if v, ok := e.number("battery_level"); ok {
					a.cite(e.id, e.name)
					a.say("The battery of %s is at %s.", e.the(), amount(v, "%"))
					return nil
				}
			}
		}
	}
	all, calls := u.list(q.kind)
	if len(calls) > 0 {
		return calls
	}
	if q.kind.measure && len(q.unknown) == 0 { // other measurements of the thing may help
		if es := u.main(u.things(q), q); len(es) > 0 {
			live, calls := u.live(es[:min(len(es), 3)])
			if len(calls) > 0 {
				return calls
			}
			if v, ok := live[0].number("current_temperature"); ok && q.kind.class == "temperature" {
				a.cite(live[0].id, live[0].name+": "+live[0].told())
				target := ""
				if to, ok := live[0].number("temperature"); ok {
					target = ", and is set to " + amount(to, "°C")
				}
				a.say("The %s has %s%s.", lowerFirst(live[0].name), amount(v, "°C"), target)
				return nil
			}
			a.say("Home Assistant has no %s of the %s.", q.kind.noun, named)
			for _, e := range live {
				a.cite(e.id, e.name+": "+e.told())
				a.say("%s %s %s.", upper(e.the()), e.verb(), e.told())
			}
			return nil
		}
	}
	where := ""
	switch {
	case len(q.areas) > 0 && len(q.unknown) > 0: // there are others in the room
		where = " called " + strings.Join(q.unknown, " ") + " in the " + strings.ToLower(listed(q.areas))
		if here := slices.DeleteFunc(slices.Clone(all), func(e entity) bool { return !slices.Contains(q.areas, e.area) }); len(here) > 0 {
			all = here
		}
	case len(q.areas) > 0:
		where = " in the " + strings.ToLower(listed(q.areas))
	case named != "" && q.kind.measure:
		where = " of the " + named
	case named != "":
		where = " called " + named
	}
	if len(all) == 0 {
		a.say("I cannot tell: there is no %s in this house, as far as Home Assistant knows.", q.kind.name)
		return nil
	}
	var have []string
	for _, e := range roomly(&ask{kind: q.kind}, all) {
		if n := subject(q, e); !slices.Contains(have, n) {
			have = append(have, n)
		}
	}
	what := q.kind.name
	a.say("I cannot tell: there is no %s%s. There %s: %s.", what, where, plural(len(have), "is one", "are some"), listed(have[:min(len(have), 8)]))
	return nil
}

// resembles reports whether a name has a word that was meant, perhaps: it is the same, or begins
// alike, or is two typos away.
func (u *turn) resembles(e entity, w string) bool {
	_, e.id, _ = strings.Cut(e.id, ".") // a panel is not meant by alarm_control_panel
	return u.named(e, w) || slices.ContainsFunc(clean(e.name), func(have string) bool {
		return len(w) > 4 && len(have) > 4 && (w[:4] == strings.ToLower(have)[:4] || keyword.Slips(w, strings.ToLower(have)) <= 2)
	})
}

// offer names a similar thing that was found.
func (u *turn) offer(q *ask) string {
	var out []string
	near := slices.DeleteFunc(slices.Clone(u.know.hits), func(e entity) bool {
		return !slices.ContainsFunc(slices.Concat(q.names, q.unsaid), func(w string) bool { return u.resembles(e, w) })
	})
	for _, e := range u.main(near, q) {
		if n := e.short(); !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return " Its rooms are " + listed(u.know.areas) + "; ask me of one of them to learn what is there."
	}
	return " Did you mean " + strings.Join(out[:min(len(out), 3)], ", ") + "?"
}

// room describes a room: what is on, and what is measured.
func (u *turn) room(q *ask, a *answered) []Call {
	var calls []Call
	var all []entity
	for _, area := range q.areas {
		c := Call{Tool: query, Input: map[string]any{"area": area, "limit": 60, "attributes": false}}
		r, ok := u.got(c)
		if !ok {
			calls = append(calls, c)
			continue
		}
		all = append(all, entities(r.Output, u.know.areas)...)
	}
	if len(calls) > 0 {
		return calls
	}
	var on, numbers []string
	for _, e := range all {
		switch {
		case e.unit == "lqi" || e.domain() == "update" || e.domain() == "button":
		case e.class == "battery":
		case e.unit != "":
			numbers = append(numbers, u.measures(e)+" "+e.told())
		case e.is("on") || e.is("open") && e.domain() != "cover":
			on = append(on, lowerFirst(e.short()))
		}
		a.prove("%s: %s%s", e.name, e.told(), u.sinceOf(e))
	}
	where := strings.ToLower(listed(q.areas))
	if has(q.ws, "device|devices|things|entities|what's in|is there") {
		var names []string
		for _, e := range all {
			if n := lowerFirst(e.short()); e.unit != "lqi" && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		a.say("In the %s there %s: %s.", where, plural(len(names), "is", "are"), listed(names))
		return nil
	}
	if len(on) == 0 {
		a.say("Nothing is on in the %s.", where)
	} else {
		a.say("On in the %s: %s.", where, listed(on))
	}
	if len(numbers) > 0 {
		a.say("Measured: %s.", listed(numbers[:min(len(numbers), 8)]))
	}
	return nil
}

// measures is what a number of a room is of: its temperature, the power of a thing in it.
func (u *turn) measures(e entity) string {
	for _, k := range kinds {
		if k.measure && k.class == e.class && len(withoutArea(e)) == 0 {
			return k.noun
		}
	}
	return strings.ToLower(strings.TrimSpace(strings.TrimPrefix(e.name, e.area)))
}

// where says in which room something is.
func (u *turn) where(q *ask, a *answered) []Call {
	es, calls := u.chosen(q)
	if len(calls) > 0 {
		return calls
	}
	if len(es) == 0 {
		return u.nothing(q, a)
	}
	u.placed(es, a)
	return nil
}

func (u *turn) placed(es []entity, a *answered) {
	for _, e := range es[:min(len(es), 5)] {
		a.cite(e.id, e.name+" in "+e.area)
		switch {
		case e.domain() == "person":
			a.say("%s is %s.", e.name, e.told())
		case e.area == "":
			a.say("%s is in no room, as far as Home Assistant knows.", upper(e.the()))
		default:
			a.say("%s is in the %s%s.", upper(e.the()), strings.ToLower(e.area), moves(e))
		}
	}
}

// moves says what a thing that moves about does: its room is that of its dock.
func moves(e entity) string {
	if e.domain() == "vacuum" || e.domain() == "lawn_mower" {
		return ", and is " + e.told()
	}
	return ""
}
