package homeassistant

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// build creates everything from the seed, the story and the clock.
func (h *House) build() {
	h.rnd = rand.New(rand.NewPCG(h.o.Seed, 0x5eed))
	h.made = h.now().Truncate(time.Microsecond)
	h.advanced, h.began = h.made, h.made.Add(-26*h1)
	h.entities, h.devices, h.moments, h.log = map[string]*entity{}, nil, nil, nil
	h.todo = []todoItem{{hex32("milk")[:8], "Milk", false}, {hex32("bread")[:8], "Rye bread", false}}
	if h.areas == nil {
		for _, a := range thisHouse() {
			h.areas = append(h.areas, &a)
		}
	}
	begin := h.made.Add(-time.Duration(h.o.Days) * 24 * h1)
	for _, f := range furniture() {
		var d *device
		if f.key != "" {
			made := f.device
			made.id = hex32("device " + f.key)
			d = &made
			h.devices = append(h.devices, d)
		}
		for _, p := range f.has {
			h.add(p, d, f.platform, nil, begin)
		}
	}
	for _, r := range routines() {
		domain, _, _ := strings.Cut(r.id, ".")
		p := plan{id: r.id, name: r.name, state: "off"}
		switch {
		case domain == "scene":
			p.state, p.attrs = "unknown", attrs{"entity_id": list(r.uses)}
		case domain == "automation":
			p.attrs = attrs{"id": hex32(r.id)[:13], "mode": "single", "current": 0, "last_triggered": nil}
			if r.on {
				p.state = "on"
			}
		default:
			p.attrs = attrs{"mode": "single", "current": 0, "last_triggered": nil}
		}
		h.add(p, nil, domain, &r, begin)
	}
	h.order = slices.Sorted(maps.Keys(h.entities))
	h.tell()
	for _, id := range h.order {
		h.settle(h.entities[id])
	}
	slices.SortStableFunc(h.moments, func(a, b moment) int { return a.at.Compare(b.at) })
	slices.SortStableFunc(h.log, func(a, b *logEntry) int { return b.last.Compare(a.last) })
}

func (h *House) add(p plan, d *device, platform string, r *routine, begin time.Time) {
	domain, _, _ := strings.Cut(p.id, ".")
	e := &entity{plan: p, domain: domain, device: d, platform: platform, routine: r, created: begin.Add(-200 * 24 * h1), modified: begin.Add(-90 * 24 * h1)}
	if domain != "sun" && domain != "zone" {
		e.uid, e.unique = hex32("entity "+p.id), hex32("unique " + p.id)[:16]
	}
	a := attrs{"friendly_name": e.title()}
	for k, v := range p.attrs {
		a[k] = v
	}
	if p.class != "" {
		a["device_class"] = p.class
	}
	if p.unit != "" {
		a["unit_of_measurement"] = p.unit
	}
	if p.wave != nil {
		a["state_class"] = "measurement"
		if p.wave.perHour != 0 {
			a["state_class"] = "total_increasing"
		}
	}
	first := p.state
	switch {
	case p.wave != nil:
		first = h.value(e, begin)
	case len(p.days) > 0:
		before := h.usual(e, begin.Add(-48*h1), begin)
		first = before[len(before)-1].state
	}
	e.recs = []record{{state: first, attrs: h.shown(e, first, a, nil), updated: begin, ctx: origin{id: h.newID(begin)}}}
	usual := h.usual(e, begin, h.made)
	for e.unlit && len(usual) > 0 && usual[len(usual)-1].state == "on" {
		usual = usual[:len(usual)-1]
	}
	for _, u := range usual {
		e.recs = append(e.recs, record{state: u.state, updated: u.at, ctx: origin{id: h.newID(u.at)}})
	}
	h.entities[p.id] = e
}

// settle sorts the records after the story has added its own, drops those that changed nothing,
// and fills in attributes and the time of the last change.
func (h *House) settle(e *entity) {
	slices.SortStableFunc(e.recs, func(a, b record) int { return a.updated.Compare(b.updated) })
	out := e.recs[:1]
	out[0].changed = out[0].updated
	for _, r := range e.recs[1:] {
		was := out[len(out)-1]
		if r.state == was.state && r.attrs == nil {
			continue
		}
		if !r.updated.After(was.updated) {
			r.updated = was.updated.Add(time.Millisecond)
		}
		r.attrs = h.shown(e, r.state, was.attrs, r.attrs)
		if r.changed = r.updated; r.state == was.state {
			r.changed = was.changed
		}
		out = append(out, r)
	}
	e.recs = slices.Clip(out)
}

func list[T any](in []T) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}
