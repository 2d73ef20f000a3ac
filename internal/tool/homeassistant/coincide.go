package homeassistant

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// telling reports whether a sensor's value may explain what happens to another entity.
func telling(o, e Entity) bool {
	if _, ok := value(o.State); !ok || o.ID == e.ID {
		return false
	}
	switch o.DeviceClass {
	case "voltage", "current", "power", "frequency", "signal_strength", "apparent_power", "reactive_power":
		return true
	}
	switch o.Unit {
	case "lqi", "dBm", "V", "A", "W", "kW", "Hz":
		return true
	}
	return o.DeviceID == e.DeviceID && e.DeviceID != "" || o.Category == "diagnostic" && o.Unit == "%" && o.DeviceClass != "battery"
}

// coincide finds what else happened at the episodes: changes in the logbook, and
// unusual values of sensors.
func (t *Toolset) coincide(ctx context.Context, e Entity, from, to time.Time, d *diagnosis) error {
	eps := d.Episodes
	for eps[len(eps)-1].at.Sub(eps[0].at) > maxWhole-time.Hour { // only the latest, if they are spread over a longer time
		eps = eps[1:]
	}
	d.Looked = len(eps)
	// What happened at other times counts as much: without it, each occurrence seems to be at an episode.
	begin, end := from, to
	if end.Sub(begin) > maxWhole {
		begin = eps[0].at.Add(-time.Minute)
		if whole := begin.Add(maxWhole); whole.Before(end) {
			end = whole
		}
		d.Missing = append(d.Missing, fmt.Sprintf("what happened at the same moments before %s or after %s: the logbook of the whole house is read for at most three days at once", t.index.local(begin), t.index.local(end)))
	}
	rows, err := t.book(ctx, nil, begin, end)
	if err != nil {
		return err
	}
	type key struct{ id, what string }
	hits := map[key]*together{}
	seen := map[key]map[int]bool{}
	var order []key
	note := func(k key, name string, i int, lead time.Duration, example string) {
		h := hits[k]
		if h == nil {
			h = &together{ID: k.id, Name: name, What: k.what, Lead: lead.Seconds(), Example: example}
			hits[k], seen[k] = h, map[int]bool{}
			order = append(order, k)
		}
		if !seen[k][i] {
			seen[k][i] = true
			h.Episodes++
		}
	}
	all := map[key]int{}
	alone := map[key][]string{} // when it happened at no episode
	for _, r := range rows {
		if r.EntityID == e.ID || r.EntityID == "" || slices.ContainsFunc(d.Members, func(m member) bool { return m.ID == r.EntityID }) {
			continue
		}
		k := key{r.EntityID, r.text()}
		all[k]++
		near := false
		for i, ep := range eps {
			if lead := ep.at.Sub(r.at); lead <= before && lead >= -after {
				near = true
				note(k, r.Name, i, lead, t.index.local(r.at))
			}
		}
		if !near {
			alone[k] = append(alone[k], t.index.local(r.at))
		}
	}
	var sensors []Entity
	for _, o := range t.index.Entities() {
		if telling(o, e) && len(sensors) < maxSensors {
			sensors = append(sensors, o)
		}
	}
	// The day before shows what is usual.
	past, err := t.past(ctx, sensors, from.Add(-24*time.Hour), to)
	if err != nil {
		return err
	}
	for _, s := range past {
		f, ok := s.figures()
		if !ok {
			continue
		}
		k := key{s.e.ID, "unusual value"}
		for _, p := range f.unusual {
			if p.at.Before(begin) || p.at.After(end) {
				continue
			}
			all[k]++
			near := false
			for i, ep := range eps {
				if lead := ep.at.Sub(p.at); lead <= nearby && lead >= -nearby {
					near = true
					mean := round(f.mean)
					note(k, s.e.Name, i, lead, fmt.Sprintf("%s %s at %s, mean %s", p.state, s.e.Unit, t.index.local(p.at), num(&mean)))
				}
			}
			if !near {
				alone[k] = append(alone[k], t.index.local(p.at))
			}
		}
	}
	need := 1
	if len(eps) > 2 { // a single occurrence may be chance
		need = max(2, len(eps)/3)
	}
	for _, k := range order {
		h := hits[k]
		h.InAll, h.Lead, h.Without = all[k], round(h.Lead), len(alone[k])
		h.WithoutAt = alone[k][:min(len(alone[k]), maxAlone)]
		if h.Episodes >= need {
			d.Together = append(d.Together, *h)
		}
	}
	slices.SortStableFunc(d.Together, func(a, b together) int {
		// First by number of episodes, then what happens less often at other times.
		if a.Episodes != b.Episodes {
			return b.Episodes - a.Episodes
		}
		return a.InAll - b.InAll
	})
	d.Together = d.Together[:min(len(d.Together), maxTogether)]
	return nil
}
