package homeassistant

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// window is a request for history.
type window struct {
	from, to    time.Time
	entities    []string
	noStart     bool // omit the state at the beginning
	all         bool // include changes of attributes
	minimal     bool
	noAttribute bool
}

// changes returns the records of one entity in a window. The first has the time of the window's
// beginning.
func (h *House) changes(id string, w window) []record {
	e := h.entities[id]
	if e == nil {
		return nil
	}
	var out []record
	if first, ok := e.at(w.from); ok && !w.noStart {
		first.updated, first.changed = w.from, w.from
		out = append(out, first)
	}
	i, _ := slices.BinarySearchFunc(e.recs, w.from, func(r record, t time.Time) int { return r.updated.Compare(t) })
	always := slices.Contains([]string{"climate", "device_tracker", "humidifier", "water_heater"}, e.domain)
	for ; i < len(e.recs); i++ {
		r := e.recs[i]
		if !r.updated.After(w.from) {
			continue
		}
		if r.updated.After(w.to) {
			break
		}
		if !w.all && !always && !r.changed.Equal(r.updated) {
			continue
		}
		out = append(out, r)
	}
	return out
}

// compressed returns the short form of a record, as WebSocket answers have it.
func compressed(r record, attributes bool) attrs {
	out := attrs{"s": r.state, "lu": epoch(r.updated)}
	if attributes {
		out["a"] = r.attrs
	}
	if !r.changed.Equal(r.updated) {
		out["lc"] = epoch(r.changed)
	}
	return out
}

func (h *House) historyWS(w window) attrs {
	out := attrs{}
	for _, id := range w.entities {
		recs := h.changes(id, w)
		if len(recs) == 0 {
			continue
		}
		rows := make([]any, len(recs))
		for i, r := range recs {
			full := !w.minimal || i == 0
			rows[i] = compressed(r, full && !w.noAttribute)
			if full && w.noAttribute {
				rows[i].(attrs)["a"] = attrs{}
			}
		}
		out[id] = rows
	}
	return out
}

func (h *House) historyREST(w window) [][]any {
	out := [][]any{}
	for _, id := range w.entities {
		recs := h.changes(id, w)
		if len(recs) == 0 {
			continue
		}
		rows := make([]any, len(recs))
		for i, r := range recs {
			full := r.json(id)
			if w.noAttribute {
				full["attributes"] = attrs{}
			}
			delete(full, "context")
			if w.minimal && i > 0 && i < len(recs)-1 {
				full = attrs{"state": r.state, "last_changed": stamp(r.changed)}
			}
			rows[i] = full
		}
		out = append(out, rows)
	}
	return out
}

// row is a line of the logbook.
type row struct {
	at     time.Time
	entity string
	fields attrs
	name   string
}

func (h *House) rowOf(e *entity, r record) row {
	f := attrs{"entity_id": e.id, "state": r.state}
	if r.ctx.user != "" {
		f["context_user_id"] = r.ctx.user
	}
	// Search backwards: the newest are requested most, and contexts are only looked up near
	// their record.
	for i := len(h.moments) - 1; i >= 0 && r.ctx.parent != ""; i-- {
		if m := h.moments[i]; m.ctx.id == r.ctx.id || m.ctx.id == r.ctx.parent {
			f["context_event_type"], f["context_domain"] = m.domain+"_triggered", m.domain
			f["context_name"], f["context_message"], f["context_entity_id"] = m.name, m.message, m.entity
			break
		}
	}
	return row{r.updated, e.id, f, e.title()}
}

func (m moment) row() row {
	f := attrs{"name": m.name, "message": m.message, "domain": m.domain, "entity_id": m.entity, "context_id": m.ctx.id}
	return row{m.at, m.entity, f, m.name}
}

// continuous reports whether an entity is a measurement, which the logbook does not show.
func (e *entity) continuous() bool {
	return e.unit != "" || e.wave != nil || e.domain == "sensor" && e.now().attrs["state_class"] != nil
}

func (h *House) logbook(w window) []row {
	var out []row
	want := func(id string) bool { return len(w.entities) == 0 || slices.Contains(w.entities, id) }
	for _, id := range h.order {
		e := h.entities[id]
		if !want(id) || e.continuous() {
			continue
		}
		for _, r := range h.changes(id, window{from: w.from, to: w.to, noStart: true}) {
			out = append(out, h.rowOf(e, r))
		}
	}
	for _, m := range h.moments {
		if want(m.entity) && !m.at.Before(w.from) && !m.at.After(w.to) {
			out = append(out, m.row())
		}
	}
	slices.SortStableFunc(out, func(a, b row) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.entity, b.entity)) })
	return out
}

func (r row) json(rest bool) attrs {
	out := attrs{"when": epoch(r.at)}
	for k, v := range r.fields {
		out[k] = v
	}
	if rest {
		out["when"], out["name"] = stamp(r.at), r.name
	}
	return out
}

// statistics returns the hourly statistics of a number, as the recorder keeps them.
func (h *House) statistics(id string, from, to time.Time, step time.Duration) []any {
	e := h.entities[id]
	if e == nil || e.wave == nil {
		return nil
	}
	var out []any
	for t := from.Truncate(step); t.Before(to); t = t.Add(step) {
		n, sum, lo, hi := 0, 0., 0., 0.
		for _, r := range h.changes(id, window{from: t, to: t.Add(step)}) {
			v, ok := number(r.state)
			if !ok {
				continue
			}
			if n == 0 || v < lo {
				lo = v
			}
			if n == 0 || v > hi {
				hi = v
			}
			n++
			sum += v
		}
		if n > 0 {
			out = append(out, attrs{"start": t.UnixMilli(), "end": t.Add(step).UnixMilli(), "mean": sum / float64(n), "min": lo, "max": hi})
		}
	}
	return out
}
