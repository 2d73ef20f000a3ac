package household

import (
	"cmp"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// listOf returns the call that lists everything of a kind, in all rooms. An answer can
// then name another room if the asked one has none.
func listOf(k *kind) Call {
	in := map[string]any{"limit": 100}
	if k.domain != "" {
		in["domain"] = k.domain
	}
	if k.class != "" && k.class != "shutter" {
		in["device_class"] = k.class
	}
	if k.domain == "climate" {
		in["attributes"] = true
	}
	return Call{Tool: query, Input: in}
}

// list returns the entities of a kind, or the call that has to be made first.
func (u *turn) list(k *kind) ([]entity, []Call) {
	c := listOf(k)
	r, ok := u.got(c)
	if !ok {
		return nil, []Call{c}
	}
	return slices.DeleteFunc(entities(r.Output, u.know.areas), func(e entity) bool { return !k.fits(e) || e.class == "group" }), nil
}

// live returns the present states of some entities, or the call for them.
func (u *turn) live(es []entity) ([]entity, []Call) {
	c := Call{Tool: query, Input: map[string]any{"entities": idsOf(es)}}
	r, ok := u.got(c)
	if !ok {
		return nil, []Call{c}
	}
	return entities(r.Output, u.know.areas), nil
}

func idsOf(es []entity) []any {
	var out []any
	for _, e := range es {
		out = append(out, e.id)
	}
	return out
}

// chosen returns the entities that a question is about.
func (u *turn) chosen(q *ask) (es []entity, calls []Call) {
	if q.kind != nil {
		all, calls := u.list(q.kind)
		if len(calls) > 0 {
			return nil, calls
		}
		return u.narrow(q, all), nil
	}
	es = u.main(u.things(q), q)
	if able := u.able(q); q.state != "" && len(able) > 0 && !choosing.MatchString(strings.Join(q.ws, " ")) && !slices.ContainsFunc(es, func(e entity) bool { return e.can(q.state) }) {
		es = able
	}
	if len(es) == 0 {
		return nil, nil
	}
	return u.live(es)
}

// choosing matches a question for what is selected, not for a state.
var choosing = pattern.New(`^(?:and |so |but )*(?:what|which)\b`)

// able returns what can be in the state that is asked about, and has the question's names but one:
// after "what program is the washing machine on", "is it running" is about the machine.
func (u *turn) able(q *ask) []entity {
	if len(q.names) < 2 {
		return nil
	}
	es := slices.DeleteFunc(slices.Clone(u.know.hits), func(e entity) bool {
		n := 0
		for _, w := range q.names {
			if u.named(e, w) {
				n++
			}
		}
		return n < len(q.names)-1 || !e.can(q.state) || e.unit != "" || e.domain() == "automation"
	})
	return u.main(es, q)
}

// narrow keeps the entities in the question's rooms and with its names.
func (u *turn) narrow(q *ask, all []entity) []entity {
	es := slices.Clone(all)
	if len(q.areas) > 0 {
		es = slices.DeleteFunc(es, func(e entity) bool { return !slices.Contains(q.areas, e.area) })
	}
	es = slices.DeleteFunc(es, func(e entity) bool { return u.excepted(q, e) || q.only != "" && !e.is(q.only) })
	best, most := es, 0
	for _, e := range es {
		n := 0
		for _, w := range q.names {
			if u.named(e, w) {
				n++
			}
		}
		switch {
		case n > most:
			best, most = []entity{e}, n
		case n == most && n > 0:
			best = append(best, e)
		}
	}
	if len(q.unknown) > 0 && q.intent != isCause || most == 0 && len(q.names) > 0 && len(q.areas) == 0 {
		return nil
	}
	return best
}

// main returns the entities that stand for a whole thing. A washing machine has a
// program, a status and a plug; "is it running" means one of them.
func (u *turn) main(es []entity, q *ask) []entity {
	best, rank := []entity(nil), -1
	for _, e := range es {
		n := u.rankOf(e, q)
		switch {
		case n > rank:
			best, rank = []entity{e}, n
		case n == rank:
			best = append(best, e)
		}
	}
	if rank <= 0 {
		return nil
	}
	// The shorter of two similar names is the thing itself.
	slices.SortStableFunc(best, func(a, b entity) int { return cmp.Compare(len(a.name), len(b.name)) })
	if len(best) > 1 && len(clean(best[0].name)) < len(clean(best[1].name)) && len(q.names) >= len(clean(best[0].name)) {
		best = best[:1]
	}
	return best[:min(len(best), 6)]
}

func (u *turn) rankOf(e entity, q *ask) int {
	d := e.domain()
	n := 0
	for _, w := range q.names { // entities with more of the question's words come first
		if u.named(e, w) {
			n += 10
		}
	}
	switch d {
	case "automation", "script", "scene", "update", "button", "event", "notify", "select", "number", "device_tracker", "camera", "zone", "calendar":
		return n - 8
	}
	if !e.can(q.state) && !choosing.MatchString(strings.Join(q.ws, " ")) { // "is it running" is not about its program
		n -= 15
	}
	switch q.state {
	case "locked", "unlocked":
		if d == "lock" {
			n += 8
		}
	case "open", "closed":
		if d == "cover" || d == "valve" || slices.Contains([]string{"door", "window", "garage_door", "opening"}, e.class) {
			n += 8
		}
	case "home", "away":
		if d == "person" {
			n += 8
		}
	}
	switch {
	case e.class == "running":
		n += 6
	case e.class == "enum", d == "person", d == "cover", d == "lock", d == "alarm_control_panel", d == "vacuum", d == "climate", d == "light", d == "media_player", d == "weather", d == "lawn_mower", d == "valve":
		n += 5
	case d == "switch", d == "fan", d == "binary_sensor", d == "humidifier", d == "timer", d == "input_boolean":
		n += 4
	case d == "water_heater":
		n += 3
	case d == "sensor" && e.unit == "lqi":
		n -= 5
	case d == "sensor":
		n++
	}
	return n
}
