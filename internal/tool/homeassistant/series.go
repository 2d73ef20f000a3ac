package homeassistant

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"
)

// point is a state from a moment on.
type point struct {
	at    time.Time
	state string
}

// series is the history of an entity in a window. Its first point is at the beginning of the
// window.
type series struct {
	e        Entity
	from, to time.Time
	points   []point
	numeric  bool
}

// past reads the history of some entities, in groups, so that no answer gets too large.
func (t *Toolset) past(ctx context.Context, es []Entity, from, to time.Time) ([]series, error) {
	const group = 20
	out := make([]series, 0, len(es))
	for part := range slices.Chunk(es, group) {
		names := make([]string, len(part))
		for i, e := range part {
			names[i] = e.ID
		}
		var rows map[string][]wirePoint
		err := t.client.ask(ctx, "history/history_during_period", map[string]any{
			"start_time": from.UTC().Format(time.RFC3339Nano), "end_time": to.UTC().Format(time.RFC3339Nano), "entity_ids": names,
			"include_start_time_state": true, "significant_changes_only": false, "minimal_response": true, "no_attributes": true,
		}, &rows)
		if err != nil {
			return nil, err
		}
		for _, e := range part {
			s := series{e: e, from: from, to: to}
			for _, r := range rows[e.ID] {
				at := r.at()
				if at.Before(from) {
					at = from
				}
				if n := len(s.points); n > 0 && s.points[n-1].state == r.State {
					continue
				}
				s.points = append(s.points, point{at, r.State})
			}
			slices.SortStableFunc(s.points, func(a, b point) int { return a.at.Compare(b.at) })
			n := 0
			for _, p := range s.points {
				if _, ok := value(p.state); ok {
					n++
				}
			}
			s.numeric = n > 0 && n >= len(s.points)/2
			out = append(out, s)
		}
	}
	return out, nil
}

// until returns when a point ends.
func (s series) until(i int) time.Time {
	if i+1 < len(s.points) {
		return s.points[i+1].at
	}
	return s.to
}

// gap is a time without a value.
type gap struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Seconds float64 `json:"seconds"`
	State   string  `json:"state"`
	from    time.Time
	to      time.Time
}

func (s series) gaps() []gap {
	var out []gap
	for i, p := range s.points {
		if unknown(p.state) {
			out = append(out, gap{from: p.at, to: s.until(i), State: p.state, Seconds: s.until(i).Sub(p.at).Seconds()})
		}
	}
	return out
}

// figures summarize a number over time. A value's weight is how long it lasted.
type figures struct {
	min, max, mean, first, last float64
	minAt, maxAt                time.Time
	samples                     int
	unusual                     []point
}

func (s series) figures() (f figures, ok bool) {
	var sum, weight float64
	for i, p := range s.points {
		v, isNumber := value(p.state)
		if !isNumber {
			continue
		}
		if f.samples == 0 || v < f.min {
			f.min, f.minAt = v, p.at
		}
		if f.samples == 0 || v > f.max {
			f.max, f.maxAt = v, p.at
		}
		if f.samples == 0 {
			f.first = v
		}
		f.last = v
		f.samples++
		w := s.until(i).Sub(p.at).Seconds()
		sum += v * w
		weight += w
	}
	if f.samples == 0 {
		return f, false
	}
	if f.mean = f.first; weight > 0 {
		f.mean = sum / weight
	}
	f.unusual = s.unusual()
	return f, true
}

// weighed is a value and how long it lasted.
type weighed struct{ v, w float64 }

// middle returns the median over time: the value below which half of the time lies.
func middle(in []weighed) float64 {
	in = slices.Clone(in)
	slices.SortFunc(in, func(a, b weighed) int { return cmp.Compare(a.v, b.v) })
	var half float64
	for _, x := range in {
		half += x.w / 2
	}
	for _, x := range in {
		if half -= x.w; half <= 0 {
			return x.v
		}
	}
	return in[len(in)-1].v
}

// unusual returns outliers: values more than eight times as far from the median as values are
// for half of the time. Time counts rather than samples, because many sensors report more often
// when something happens. A growing counter has no outliers, and neither has a value that lasts
// for a fifth of the time.
func (s series) unusual() []point {
	var all, off []weighed
	grows := true
	for i, p := range s.points {
		if v, ok := value(p.state); ok {
			grows = grows && (len(all) == 0 || all[len(all)-1].v <= v)
			all = append(all, weighed{v, s.until(i).Sub(p.at).Seconds()})
		}
	}
	if len(all) < 8 || grows {
		return nil
	}
	median := middle(all)
	for _, x := range all {
		off = append(off, weighed{math.Abs(x.v - median), x.w})
	}
	limit := 8 * max(middle(off), math.Abs(median)*1e-3)
	var out []point
	var long, whole float64
	for i, p := range s.points {
		v, ok := value(p.state)
		if !ok {
			continue
		}
		w := s.until(i).Sub(p.at).Seconds()
		whole += w
		if math.Abs(v-median) > limit {
			out = append(out, p)
			long += w
		}
	}
	if long > whole/5 {
		return nil
	}
	return out
}

// strongest returns the n points farthest from the mean, in order of time.
func strongest(ps []point, mean float64, n int) []point {
	if len(ps) <= n {
		return ps
	}
	ps = slices.Clone(ps)
	slices.SortStableFunc(ps, func(a, b point) int {
		va, _ := value(a.state)
		vb, _ := value(b.state)
		return cmp.Compare(math.Abs(vb-mean), math.Abs(va-mean))
	})
	ps = ps[:n]
	slices.SortFunc(ps, func(a, b point) int { return a.at.Compare(b.at) })
	return ps
}

// shares returns how long each state lasted.
func (s series) shares() map[string]time.Duration {
	out := map[string]time.Duration{}
	for i, p := range s.points {
		out[p.state] += s.until(i).Sub(p.at)
	}
	return out
}

// changes returns how often the state changed in the window.
func (s series) changes() int { return max(0, len(s.points)-1) }
