package household

import (
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/pattern"
)

// series is what ha_history returns for an entity.
type series struct {
	id, name, unit string
	numeric        bool
	min, max, mean float64
	minAt, maxAt   time.Time
	first, last    float64
	recorded       time.Time // when the record begins, if later than the period asked for
	share          map[string]float64
	changes        []change
	unusual        []change
	nothing        bool
}

type change struct {
	at    time.Time
	id    string
	name  string
	state string // the new state, or the logbook's words
	by    string
	early bool // it already had the state when the period began
}

var (
	seriesHead  = pattern.New(`^([a-z0-9_]+\.[a-z0-9_]+) \((.*)\)$`)
	figuresLine = pattern.New(`^  min (-?[\d.e+]+)(?: (\S+))? at (\d{4}-\S+ \S+), max (-?[\d.e+]+)(?: \S+)? at (\d{4}-\S+ \S+), mean (-?[\d.e+]+)(?: \S+)?; first (\S+), last (\S+); \d+ changes$`)
	shareLine   = pattern.New(`^  \d+ changes; of the time: (.*)$`)
	changeLine  = pattern.New(`^    (\d{4}-\d\d-\d\d \S+) → (.*)$`)
	oddLine     = pattern.New(`^    (\d{4}-\d\d-\d\d \S+) (-?[\d.]+)(?: (\S+))?$`)
	onlyFrom    = pattern.New(`^  recorded only from (\d{4}-\d\d-\d\d \S+)$`)
	bookLine    = pattern.New(`^(\d{4}-\d\d-\d\d \S+) (\S+) \(([^)]*)\) (.*)$`)
	byWho       = pattern.New(`, by (?:([a-z_]+)\.[a-z0-9_]+ \(([^)]*)\)|(\S.*))$`)
)

// pastOf reads the result of ha_history, by entity.
func pastOf(text string) map[string]*series {
	out := map[string]*series{}
	var s *series
	for line := range strings.SplitSeq(text, "\n") {
		if m := seriesHead.FindStringSubmatch(line); m != nil {
			s = &series{id: m[1], name: m[2], share: map[string]float64{}}
			out[m[1]] = s
			continue
		}
		if s == nil {
			continue
		}
		if m := figuresLine.FindStringSubmatch(line); m != nil {
			f := func(i int) float64 { v, _ := strconv.ParseFloat(m[i], 64); return v }
			s.numeric, s.min, s.unit, s.minAt, s.max, s.maxAt, s.mean, s.first, s.last = true, f(1), m[2], moment(m[3]), f(4), moment(m[5]), f(6), f(7), f(8)
		}
		if m := shareLine.FindStringSubmatch(line); m != nil {
			for part := range strings.SplitSeq(m[1], ", ") {
				if i := strings.LastIndex(part, " "); i > 0 {
					v, _ := strconv.ParseFloat(strings.TrimSuffix(part[i+1:], "%"), 64)
					s.share[part[:i]] = v
				}
			}
		}
		if m := changeLine.FindStringSubmatch(line); m != nil {
			s.changes = append(s.changes, change{at: moment(m[1]), id: s.id, name: s.name, state: m[2]})
		}
		if m := oddLine.FindStringSubmatch(line); m != nil {
			s.unusual = append(s.unusual, change{at: moment(m[1]), id: s.id, state: m[2]})
		}
		if m := onlyFrom.FindStringSubmatch(line); m != nil {
			s.recorded = moment(m[1])
		}
		s.nothing = s.nothing || strings.HasPrefix(line, "  nothing is recorded")
	}
	return out
}

// bookOf reads the lines of a logbook.
func bookOf(text string) []change {
	var out []change
	for line := range strings.SplitSeq(text, "\n") {
		m := bookLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := change{at: moment(m[1]), id: m[2], name: m[3], state: m[4]}
		if by := byWho.FindStringSubmatch(c.state); by != nil {
			c.state, c.by = strings.TrimSuffix(c.state, by[0]), by[3]
			if by[1] != "" {
				c.by = "the " + by[1] + " " + by[2]
			}
		}
		c.state = strings.TrimPrefix(c.state, "→ ")
		out = append(out, c)
	}
	return out
}

// of returns the entity of a change, with its new state.
func (c change) of(es []entity) entity {
	for _, e := range es {
		if e.id == c.id {
			e.state, e.attrs = c.state, nil
			return e
		}
	}
	return entity{id: c.id, name: c.name, state: c.state}
}
