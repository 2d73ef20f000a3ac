package homeassistant

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// ChartType is the media type of a [Chart] that is kept as a file.
const ChartType = "application/vnd.parley.chart+json"

// maxDrawn is the most points of one entity in a chart. Wide screens have fewer columns, and
// eight entities with this many points take about 200 KB.
const maxDrawn = 1200

// Chart is the data from which a client draws the history of some entities. Times are in ms
// since 1970.
type Chart struct {
	From   int64         `json:"from"`
	To     int64         `json:"to"`
	Zone   string        `json:"zone"` // the house's time zone, by its IANA name
	Series []ChartSeries `json:"series"`
}

// ChartSeries is one entity of a [Chart]. Numbers have Points and everything else has States;
// the other one is empty.
type ChartSeries struct {
	ID          string    `json:"entity_id"`
	Name        string    `json:"name"`
	Unit        string    `json:"unit,omitempty"`
	DeviceClass string    `json:"device_class,omitempty"`
	Points      []Value   `json:"points"`
	States      []Stretch `json:"states"`
	Marks       []Mark    `json:"marks"`
	Thinned     bool      `json:"thinned,omitempty"` // points were left out
}

// Value is a number from a moment on, or a gap. In JSON it is [ms, number] or [ms, null].
type Value struct {
	At    time.Time
	Value float64
	None  bool
}

// Stretch is a state from a moment on. In JSON it is [ms, "state"].
type Stretch struct {
	At    time.Time
	State string
}

// Mark is a moment that stands out: a value far from the others.
type Mark struct {
	At    int64  `json:"at"`
	State string `json:"state"`
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.None {
		return json.Marshal([]any{v.At.UnixMilli(), nil})
	}
	return json.Marshal([]any{v.At.UnixMilli(), v.Value})
}

// MarshalJSON implements json.Marshaler.
func (s Stretch) MarshalJSON() ([]byte, error) { return json.Marshal([]any{s.At.UnixMilli(), s.State}) }

// chart makes the chart of series of one window.
func (t *Toolset) chart(all []series) Chart {
	c := Chart{Zone: t.index.location().String(), Series: []ChartSeries{}}
	for _, s := range all {
		c.From, c.To = s.from.UnixMilli(), s.to.UnixMilli()
		c.Series = append(c.Series, s.chart())
	}
	return c
}

func (s series) chart() ChartSeries {
	out := ChartSeries{ID: s.e.ID, Name: s.e.Name, Unit: s.e.Unit, DeviceClass: s.e.DeviceClass, Points: []Value{}, States: []Stretch{}, Marks: []Mark{}}
	marks := s.marks()
	for _, p := range marks {
		out.Marks = append(out.Marks, Mark{p.at.UnixMilli(), p.state})
	}
	drawn := s.thin(maxDrawn, marks)
	out.Thinned = len(drawn) < len(s.points)
	for _, p := range drawn {
		if v, ok := value(p.state); s.numeric {
			out.Points = append(out.Points, Value{At: p.at, Value: v, None: !ok})
		} else {
			out.States = append(out.States, Stretch{p.at, clip(p.state, 80)})
		}
	}
	return out
}

// marks returns the values of a number that stand out most.
func (s series) marks() []point {
	f, ok := s.figures()
	if !ok || !s.numeric {
		return nil
	}
	return strongest(f.unusual, f.mean, maxShown)
}

// thin reduces a series to about most points, plus those in keep. For numbers, each interval
// keeps its first value and its extremes, so that a dip of a few seconds shows in a plot of a
// whole day; gaps stay, the longest first. For states, the longest stay, together with gaps
// before them.
func (s series) thin(most int, keep []point) []point {
	if len(s.points) <= most {
		return s.points
	}
	stays := make([]bool, len(s.points))
	for _, k := range keep {
		if i, ok := slices.BinarySearchFunc(s.points, k.at, func(p point, at time.Time) int { return p.at.Compare(at) }); ok {
			stays[i] = true
		}
	}
	longest := s.byLength(func(i int) bool { return unknown(s.points[i].state) })
	if s.numeric {
		for _, i := range longest[:min(len(longest), most/8)] {
			stays[i] = true
		}
		s.extremes(most/2, stays)
		for i := 1; i < len(stays); i++ { // a gap that stays keeps its end
			stays[i] = stays[i] || stays[i-1] && unknown(s.points[i-1].state)
		}
	} else {
		longest = longest[:min(len(longest), most/2)]
		rest := s.byLength(func(i int) bool { return !unknown(s.points[i].state) })
		for _, i := range append(longest, rest[:min(len(rest), most-len(longest))]...) {
			stays[i] = true
		}
		stays[0] = true
	}
	var out []point
	for i, p := range s.points {
		if stays[i] && (s.numeric || len(out) == 0 || out[len(out)-1].state != p.state) {
			out = append(out, p)
		}
	}
	return out
}

// byLength returns the wanted points, the longest-lasting first.
func (s series) byLength(wanted func(i int) bool) []int {
	var out []int
	for i := range s.points {
		if wanted(i) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Compare(s.until(b).Sub(s.points[b].at), s.until(a).Sub(s.points[a].at))
	})
	return out
}

// extremes marks about n points: the first, the lowest and the highest of each interval.
func (s series) extremes(n int, stays []bool) {
	stretch := s.to.Sub(s.from) / time.Duration(max(n/3, 1))
	for i := 0; i < len(s.points); {
		end := s.from.Add(s.points[i].at.Sub(s.from).Truncate(stretch) + stretch)
		stays[i] = true
		lo, hi := -1, -1
		for first := i; i < len(s.points) && (i == first || s.points[i].at.Before(end)); i++ {
			v, ok := value(s.points[i].state)
			if !ok {
				continue
			}
			if l, _ := value(s.points[max(lo, 0)].state); lo < 0 || v < l {
				lo = i
			}
			if h, _ := value(s.points[max(hi, 0)].state); hi < 0 || v > h {
				hi = i
			}
		}
		if lo >= 0 {
			stays[lo], stays[hi] = true, true
		}
	}
}
