package homeassistant

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// The tool ha_history.

type historyInput struct {
	Entities []string `json:"entities"`
	span
	Plot *bool `json:"plot"`
}

const (
	maxHistory = 8  // entities in one answer, and bands in one plot
	maxShown   = 12 // changes, gaps and unusual values of one entity
)

type moment struct {
	At    string `json:"at"`
	State string `json:"state"`
}

type historyItem struct {
	ID      string             `json:"entity_id"`
	Name    string             `json:"name"`
	Unit    string             `json:"unit,omitempty"`
	Samples int                `json:"samples"`
	Changes int                `json:"changes"`
	Min     *float64           `json:"min,omitempty"`
	MinAt   string             `json:"min_at,omitempty"`
	Max     *float64           `json:"max,omitempty"`
	MaxAt   string             `json:"max_at,omitempty"`
	Mean    *float64           `json:"mean,omitempty"`
	First   string             `json:"first,omitempty"`
	Last    string             `json:"last,omitempty"`
	Begins  string             `json:"recorded_from,omitempty"` // if later than the start asked for
	Share   map[string]float64 `json:"share,omitempty"`         // of the time, by state
	Unusual []moment           `json:"unusual,omitempty"`
	Gaps    []gap              `json:"gaps,omitempty"`
	Recent  []moment           `json:"recent_changes,omitempty"`
}

type historyAnswer struct {
	From     string        `json:"from"`
	To       string        `json:"to"`
	Entities []historyItem `json:"entities"`
	Plot     string        `json:"plot,omitempty"`  // name of the artifact with the image
	Chart    string        `json:"chart,omitempty"` // name of the artifact with the data
}

func (t *Toolset) history(ctx context.Context, r seam.Run, in historyInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	from, to, err := in.of(t.index, t.o.Now(), 24)
	if err != nil {
		return answer{}, err
	}
	if len(in.Entities) == 0 {
		return answer{}, parley.Errorf(parley.CodeInvalid, "entities is empty").WithField("entities").WithHint("name at least one; %s finds them", IndexSearch)
	}
	es, err := t.index.expand(in.Entities, maxHistory)
	if err != nil {
		return answer{}, err
	}
	all, err := t.past(ctx, es, from, to)
	if err != nil {
		return answer{}, err
	}
	out := historyAnswer{From: t.index.local(from), To: t.index.local(to), Entities: []historyItem{}}
	var b strings.Builder
	fmt.Fprintf(&b, "History from %s to %s.\n", out.From, out.To)
	points := 0
	for _, s := range all {
		it := t.describe(s)
		out.Entities = append(out.Entities, it)
		b.WriteString(it.text())
		points += len(s.points)
	}
	if points > 0 && (in.Plot == nil || *in.Plot) {
		if err := t.keepPlot(ctx, r, all, &out); err != nil {
			return answer{}, err
		}
	}
	if out.Plot != "" {
		fmt.Fprintf(&b, "A plot is kept as the image %s.\n", out.Plot)
	}
	var about []string
	for _, e := range es {
		about = append(about, e.ID)
	}
	return answer{b.String(), out, about}, nil
}

// keepPlot keeps a plot of the series as an image, and its data for clients that draw it
// themselves. If one of them cannot be kept, it is left out and the log says why.
func (t *Toolset) keepPlot(ctx context.Context, r seam.Run, all []series, out *historyAnswer) error {
	if t.o.Keep == nil {
		return nil
	}
	c := t.chart(all)
	image, err := c.image(t.index.location())
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "draw the plot: %w", err)
	}
	data, err := json.Marshal(c)
	if err != nil {
		return parley.Errorf(parley.CodeInternal, "write the chart: %w", err)
	}
	name := History + "-" + string(r.Call)
	for _, f := range []struct {
		File
		into *string
	}{
		{File{name + ".png", "image/png", image}, &out.Plot},
		{File{name + ".json", ChartType, data}, &out.Chart},
	} {
		if err := t.o.Keep(ctx, r, f.File); err != nil {
			t.o.Logger.Warn("home assistant: a plot was not kept", "call", r.Call, "file", f.Name, "reason", err.Error())
			continue
		}
		*f.into = f.Name
	}
	return nil
}

// describe summarizes one series in numbers.
func (t *Toolset) describe(s series) historyItem {
	it := historyItem{ID: s.e.ID, Name: s.e.Name, Unit: s.e.Unit, Samples: len(s.points), Changes: s.changes()}
	say := func(p point) moment { return moment{t.index.local(p.at), clip(p.state, 80)} }
	if n := len(s.points); n > 0 {
		it.First, it.Last = s.points[0].state, s.points[n-1].state
		if s.points[0].at.Sub(s.from) > time.Minute {
			it.Begins = t.index.local(s.points[0].at)
		}
	}
	for _, g := range s.gaps() {
		if len(it.Gaps) == maxShown {
			break
		}
		g.From, g.To, g.Seconds = t.index.local(g.from), t.index.local(g.to), round(g.Seconds)
		it.Gaps = append(it.Gaps, g)
	}
	if f, ok := s.figures(); ok && s.numeric {
		lo, hi, mean := round(f.min), round(f.max), round(f.mean)
		it.Min, it.Max, it.Mean, it.MinAt, it.MaxAt = &lo, &hi, &mean, t.index.local(f.minAt), t.index.local(f.maxAt)
		for _, p := range strongest(f.unusual, f.mean, maxShown) {
			it.Unusual = append(it.Unusual, say(p))
		}
		return it
	}
	total := s.to.Sub(s.from).Seconds()
	it.Share = map[string]float64{}
	for state, d := range s.shares() {
		it.Share[clip(state, 80)] = round(d.Seconds() / total)
	}
	for _, p := range s.points[max(min(1, len(s.points)), len(s.points)-maxShown):] {
		it.Recent = append(it.Recent, say(p))
	}
	return it
}

// round keeps four digits after the decimal point: more is noise to a reader.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

func num(f *float64) string { return strconv.FormatFloat(*f, 'f', -1, 64) }

func (it historyItem) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s (%s)\n", it.ID, it.Name)
	unit := ""
	if it.Unit != "" {
		unit = " " + it.Unit
	}
	switch {
	case it.Samples == 0:
		b.WriteString("  nothing is recorded in this time\n")
		return b.String()
	case it.Min != nil:
		fmt.Fprintf(&b, "  min %s%s at %s, max %s%s at %s, mean %s%s; first %s, last %s; %d changes\n",
			num(it.Min), unit, it.MinAt, num(it.Max), unit, it.MaxAt, num(it.Mean), unit, it.First, it.Last, it.Changes)
	default:
		states := slices.SortedFunc(maps.Keys(it.Share), func(a, b string) int { return cmp.Or(cmp.Compare(it.Share[b], it.Share[a]), strings.Compare(a, b)) })
		var parts []string
		for _, s := range states[:min(len(states), 8)] {
			parts = append(parts, fmt.Sprintf("%s %.1f%%", s, 100*it.Share[s]))
		}
		fmt.Fprintf(&b, "  %d changes; of the time: %s\n", it.Changes, strings.Join(parts, ", "))
	}
	if it.Begins != "" {
		b.WriteString("  recorded only from " + it.Begins + "\n")
	}
	if len(it.Unusual) > 0 {
		b.WriteString("  unusual values:\n")
		for _, m := range it.Unusual {
			fmt.Fprintf(&b, "    %s %s%s\n", m.At, m.State, unit)
		}
	}
	if len(it.Recent) > 0 {
		b.WriteString("  latest changes:\n")
		for _, m := range it.Recent {
			fmt.Fprintf(&b, "    %s → %s\n", m.At, m.State)
		}
	}
	if len(it.Gaps) > 0 {
		fmt.Fprintf(&b, "  without a value:\n")
		for _, g := range it.Gaps {
			fmt.Fprintf(&b, "    %s for %s (%s)\n", g.From, since(time.Duration(g.Seconds*float64(time.Second))), or(g.State, "no state"))
		}
	}
	return b.String()
}
