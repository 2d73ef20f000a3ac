package homeassistant

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entity is one entity with its history; the last record is its current state.
type entity struct {
	plan
	domain   string
	uid      string // id in the registry; "": it is not registered
	unique   string
	platform string
	device   *device
	area     string // its own area, not its device's
	given    string // a name given by a user
	created  time.Time
	modified time.Time
	routine  *routine
	recs     []record
}

type record struct {
	state            string
	attrs            attrs // never changed in place
	changed, updated time.Time
	ctx              origin
}

// origin is a context in Home Assistant's terms.
type origin struct{ id, parent, user string }

func (c origin) json() attrs {
	return attrs{"id": c.id, "parent_id": orNull(c.parent), "user_id": orNull(c.user)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (e *entity) now() record { return e.recs[len(e.recs)-1] }

// at returns the record at a moment; false before the history begins.
func (e *entity) at(t time.Time) (record, bool) {
	i, found := slices.BinarySearchFunc(e.recs, t, func(r record, t time.Time) int { return r.updated.Compare(t) })
	if !found {
		i--
	}
	if i < 0 {
		return record{}, false
	}
	return e.recs[i], true
}

// title returns the displayed name.
func (e *entity) title() string {
	switch {
	case e.given != "":
		return e.given
	case e.device != nil && e.name == "":
		return e.device.name
	case e.device != nil:
		return e.device.name + " " + e.name
	}
	return e.name
}

func (e *entity) areaID() string {
	if e.area == "" && e.device != nil {
		return e.device.area
	}
	return e.area
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000+00:00") }

func epoch(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (r record) json(id string) attrs {
	return attrs{
		"entity_id": id, "state": r.state, "attributes": r.attrs,
		"last_changed": stamp(r.changed), "last_reported": stamp(r.updated), "last_updated": stamp(r.updated),
		"context": r.ctx.json(),
	}
}

// value returns what a wave reports at a moment: always the same number for the same seed,
// entity and moment.
func (h *House) value(e *entity, t time.Time) string {
	w := e.wave
	noise := float64(mix(h.o.Seed^hash(e.id)^uint64(t.Unix()))>>11)/(1<<53)*2 - 1
	v := w.mean + w.noise*noise
	if w.perHour != 0 { // counted from a fixed day, so that it never decreases
		hours := t.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).Hours()
		v = w.mean + w.perHour*hours
	}
	local := t.In(h.zone)
	v += w.day * math.Cos(2*math.Pi*(float64(local.Hour()*60+local.Minute())/1440-16./24))
	if v < 0 && w.mean >= 0 {
		v = 0
	}
	return strconv.FormatFloat(v, 'f', w.digits, 64)
}

type due struct {
	at    time.Time
	e     *entity
	state string
}

// day returns the midnight before a moment, by the house's clock.
func (h *House) day(t time.Time) time.Time {
	y, m, d := t.In(h.zone).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, h.zone)
}

// usual lists the routine changes in (from, to], in order.
func (h *House) usual(e *entity, from, to time.Time) []due {
	var out []due
	if e.wave != nil {
		phase := time.Duration(hash(e.id) % uint64(e.wave.every))
		t := from.Add(-phase).Truncate(e.wave.every).Add(phase).Truncate(time.Millisecond)
		for ; !t.After(to); t = t.Add(e.wave.every) {
			if t.After(from) {
				out = append(out, due{t, e, h.value(e, t)})
			}
		}
	}
	if len(e.days) > 0 {
		for day := h.day(from).AddDate(0, 0, -1); !day.After(to); day = day.AddDate(0, 0, 1) {
			for i, d := range e.days {
				// Everything in the same hour is early or late by the same minutes, so that a door
				// opens before its owner is away.
				late := time.Duration(mix(h.o.Seed^uint64(day.Unix())^uint64(d.at/h1))%uint64(4*m1)) + time.Duration(hash(e.id+strconv.Itoa(i))%9000)*time.Millisecond
				if t := day.Add(d.at + late).Truncate(time.Millisecond); t.After(from) && !t.After(to) {
					out = append(out, due{t, e, d.state})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b due) int { return a.at.Compare(b.at) })
	return out
}

// advance applies everything that is due since the last call.
func (h *House) advance() {
	now := h.now()
	from := h.advanced
	if !now.After(from) {
		return
	}
	if oldest := now.Add(-24 * h1); from.Before(oldest) { // a clock jump does not generate days of events
		from = oldest
	}
	h.advanced = now
	var all []due
	for _, id := range h.order {
		e := h.entities[id]
		if !e.unlit && (e.recs[len(e.recs)-1].state != "unavailable" || e.wave == nil) {
			all = append(all, h.usual(e, from, now)...)
		}
	}
	slices.SortStableFunc(all, func(a, b due) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.e.id, b.e.id))
	})
	for _, d := range all {
		h.set(d.e, d.state, h.shown(d.e, d.state, d.e.now().attrs, nil), origin{id: h.newID(d.at)}, d.at)
	}
}

// set sets the current state and notifies listeners. An unchanged state makes no event.
func (h *House) set(e *entity, state string, a attrs, ctx origin, at time.Time) {
	old := e.now()
	if old.state == state && reflect.DeepEqual(old.attrs, a) {
		return
	}
	if !at.After(old.updated) { // two changes at the same clock reading keep their order
		at = old.updated.Add(time.Microsecond)
	}
	r := record{state: state, attrs: a, changed: at, updated: at, ctx: ctx}
	if old.state == state {
		r.changed = old.changed
	}
	e.recs = append(e.recs, r)
	if len(e.recs) > maxRecords {
		e.recs = slices.Clone(e.recs[maxRecords/10:])
	}
	h.emitChange(e.id, &old, &r)
}

// shown returns the attributes for a state: a light that is off has no brightness.
func (h *House) shown(e *entity, state string, was, with attrs) attrs {
	a := make(attrs, len(was)+len(with))
	for k, v := range was {
		a[k] = v
	}
	for k, v := range with {
		a[k] = v
	}
	switch e.domain {
	case "light":
		modes, _ := a["supported_color_modes"].([]any)
		mode := any(nil)
		if len(modes) > 0 {
			mode = modes[0]
		}
		if state != "on" {
			a["color_mode"] = nil
			for _, k := range []string{"brightness", "color_temp_kelvin", "rgb_color"} {
				if mode != "onoff" {
					a[k] = nil
				}
			}
			break
		}
		a["color_mode"] = mode
		if mode != "onoff" {
			if a["brightness"] == nil {
				a["brightness"] = 254
			}
			if a["color_temp_kelvin"] == nil && a["rgb_color"] == nil {
				a["color_temp_kelvin"] = 2700
			}
		}
	case "cover":
		switch {
		case with["current_position"] != nil:
		case state == "open" && a["current_position"] == 0:
			a["current_position"] = 100
		case state == "closed":
			a["current_position"] = 0
		}
	case "fan":
		switch {
		case state == "off":
			a["percentage"] = 0
		case a["percentage"] == 0:
			a["percentage"] = 67
		}
	}
	return a
}

func (h *House) emitChange(id string, old, new *record) {
	side := func(r *record) any {
		if r == nil {
			return nil
		}
		return r.json(id)
	}
	ctx, at := origin{id: h.newID(h.now())}, h.now()
	if new != nil {
		ctx, at = new.ctx, new.updated
	}
	h.emit(event{
		kind: "state_changed", at: at, ctx: ctx, entity: id, old: old, new: new,
		data: attrs{"entity_id": id, "old_state": side(old), "new_state": side(new)},
	})
}

// event is one event of the bus.
type event struct {
	kind   string
	at     time.Time
	ctx    origin
	data   attrs
	entity string // entity of a state_changed event
	old    *record
	new    *record
}

func (ev event) json() attrs {
	return attrs{"event_type": ev.kind, "data": ev.data, "origin": "LOCAL", "time_fired": stamp(ev.at), "context": ev.ctx.json()}
}

func (h *House) emit(ev event) {
	if ev.kind == "state_changed" && h.faults.DropEvents > 0 {
		h.faults.DropEvents--
		return
	}
	for c := range h.conns {
		c.hear(ev)
	}
}
