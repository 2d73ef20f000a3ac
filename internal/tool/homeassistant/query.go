package homeassistant

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
)

// span is the time range a tool is asked about.
type span struct {
	Start string  `json:"start"`
	End   string  `json:"end"`
	Hours float64 `json:"hours"`
}

// maxSpan is more than the recorder keeps by default.
const maxSpan = 31 * 24 * time.Hour

// of returns the range. Without a start, it is the given hours before the end.
func (s span) of(x *Index, now time.Time, hours float64) (from, to time.Time, err error) {
	to = now
	if s.End != "" {
		if _, end, ok := period(s.End, x.in(now)); ok {
			to = end
		} else if to, err = x.when(s.End, now); err != nil {
			return from, to, err.(*parley.Error).WithField("end") //nolint:errorlint // when returns no other
		}
	}
	if s.Hours > 0 {
		hours = s.Hours
	}
	from = to.Add(-time.Duration(hours * float64(time.Hour)))
	if s.Start != "" {
		if from, err = x.when(s.Start, now); err != nil {
			return from, to, err.(*parley.Error).WithField("start") //nolint:errorlint // when returns no other
		}
		if _, end, ok := period(s.Start, x.in(now)); ok && s.End == "" && s.Hours == 0 {
			to = end // the words name start and end
		}
		if s.End == "" && s.Hours > 0 {
			to = from.Add(time.Duration(s.Hours * float64(time.Hour)))
		}
	}
	if to.After(now) {
		to = now
	}
	switch {
	case !from.Before(to):
		return from, to, parley.Errorf(parley.CodeInvalid, "the time range is empty: it begins at %s and ends at %s; now it is %s", x.local(from), x.local(to), x.local(now)).WithField("start")
	case to.Sub(from) > maxSpan:
		return from, to, parley.Errorf(parley.CodeInvalid, "the time range is longer than %d days", int(maxSpan.Hours()/24)).WithField("start")
	}
	return from, to, nil
}

// when reads a time as people and models write it. A time without a zone is in the house's zone.
func (x *Index) when(s string, now time.Time) (time.Time, error) {
	zone := x.location()
	s = strings.TrimSpace(s)
	if s == "now" {
		return now, nil
	}
	if d, err := time.ParseDuration(s); err == nil && strings.HasPrefix(s, "-") {
		return now.Add(d), nil
	}
	today := now.In(zone)
	if from, _, ok := period(s, today); ok {
		return from, nil
	}
	midnight := time.Date(today.Year(), today.Month(), today.Day(), 0, 0, 0, 0, zone)
	for word, day := range map[string]int{"today": 0, "yesterday": -1} {
		if rest, ok := strings.CutPrefix(s, word+" "); ok {
			if c, err := time.ParseInLocation("15:04", rest, zone); err == nil {
				return midnight.AddDate(0, 0, day).Add(time.Duration(c.Hour())*time.Hour + time.Duration(c.Minute())*time.Minute), nil
			}
		}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, parley.Errorf(parley.CodeInvalid, "%q is not a time", clip(s, 40)).
		WithHint("write 2026-11-20 22:30, 2026-11-20T22:30:00Z, yesterday 22:00, last night, yesterday evening, -12h or now")
}

// in converts a time to the house's clock.
func (x *Index) in(t time.Time) time.Time {
	return t.In(x.location())
}

// The tool ha_state_query.

type queryInput struct {
	Entities []string `json:"entities"`
	searchInput
	Attributes *bool `json:"attributes"`
}

const (
	maxQuery  = 100 // states in one answer
	maxLive   = 20  // states read from Home Assistant, with one request each
	maxListed = 500 // characters of one attribute
)

type stateAnswer struct {
	Index    Age            `json:"index"`
	Read     string         `json:"read"` // live, or index
	Total    int            `json:"total"`
	ByState  map[string]int `json:"by_state"`
	Entities []foundItem    `json:"entities"`
}

func (t *Toolset) query(ctx context.Context, _ seam.Run, in queryInput) (answer, error) {
	if err := t.index.ready(ctx); err != nil {
		return answer{}, err
	}
	var picked []Entity
	out := stateAnswer{Read: "index", ByState: map[string]int{}, Entities: []foundItem{}}
	var b strings.Builder
	if len(in.Entities) > 0 {
		all, err := t.index.expand(in.Entities, 2000)
		if err != nil {
			return answer{}, err
		}
		q := in.searchInput.query(0)
		for _, e := range all {
			if q.admits(e, t.index) {
				picked = append(picked, e)
			}
		}
		if len(picked) <= maxLive {
			live, why, err := t.live(ctx, picked)
			if err != nil {
				return answer{}, err
			}
			if why == nil {
				picked, out.Read = live, "live"
			} else {
				fmt.Fprintf(&b, "Home Assistant could not be asked now (%s). These are the last known states:\n", why.Message)
			}
		}
		out.Total = len(picked)
	} else {
		q := in.searchInput.query(0)
		q.Limit = 1 << 20
		hits, total := t.index.Search(q)
		for _, h := range hits {
			if h.State != "" {
				picked = append(picked, h.Entity)
			} else {
				total--
			}
		}
		out.Total = total
	}
	for _, e := range picked {
		if _, number := value(e.State); !number {
			out.ByState[clip(e.State, 60)]++
		}
	}
	for s := range out.ByState { // a count of texts that all differ says nothing
		if len(out.ByState) > 12 && out.ByState[s] == 1 {
			delete(out.ByState, s)
		}
	}
	limit := min(or(in.Limit, maxQuery), maxQuery)
	with := len(picked) <= 5
	if in.Attributes != nil {
		with = *in.Attributes
	}
	if out.Total == 1 {
		b.WriteString("1 entity")
	} else {
		fmt.Fprintf(&b, "%d entities", out.Total)
	}
	if len(out.ByState) > 0 && out.Total > 1 {
		b.WriteString(" (" + counts(out.ByState) + ")")
	}
	b.WriteString(":\n")
	for _, e := range picked[:min(len(picked), limit)] {
		it := t.index.item(e)
		b.WriteString("- " + it.line() + "\n")
		if with {
			a := attributes(e.Attributes)
			it.Attributes = a
			if len(a) > 0 {
				raw, _ := json.Marshal(a)
				b.WriteString("  " + clip(string(raw), 1500) + "\n")
			}
		}
		out.Entities = append(out.Entities, it)
	}
	if rest := len(picked) - limit; rest > 0 {
		fmt.Fprintf(&b, "… and %d more; ask for an area, a domain or a state.\n", rest)
	}
	if out.Total == 0 {
		b.WriteString(t.index.areaLine(in.Area))
	}
	out.Index = t.index.Age()
	if out.Read == "live" {
		b.WriteString("read now from Home Assistant")
	} else {
		b.WriteString(out.Index.String())
	}
	return answer{b.String(), out, few(picked, Entity.id)}, nil
}

// live reads states from Home Assistant. why says that Home Assistant cannot be asked; err is
// the caller's own fault.
func (t *Toolset) live(ctx context.Context, in []Entity) (out []Entity, why *parley.Error, err error) {
	for _, e := range in {
		var s wireState
		err := t.client.get(ctx, "states/"+e.ID, nil, &s)
		switch {
		case ctx.Err() != nil:
			return nil, nil, err
		case isRefused(err) && is(err, parley.CodeNotFound):
			if e.State != "" && !e.Disabled {
				return nil, nil, t.index.errUnknown(e.ID)
			}
		case err != nil:
			e, _ := err.(*parley.Error) //nolint:errorlint // get returns no other
			if e == nil {
				return nil, nil, err
			}
			return nil, e, nil
		default:
			e.State, e.Changed, e.Updated, e.Attributes = s.State, s.Changed, s.Updated, s.Attributes.raw
		}
		out = append(out, e)
	}
	return out, nil, nil
}

// attributes leaves out what other fields contain, and cuts long values.
func attributes(raw json.RawMessage) map[string]any {
	var a map[string]any
	_ = json.Unmarshal(raw, &a)
	for _, k := range []string{"friendly_name", "device_class", "unit_of_measurement", "icon", "supported_features", "entity_picture", "access_token", "attribution"} {
		delete(a, k)
	}
	for k, v := range a {
		if one, _ := json.Marshal(v); len(one) > maxListed {
			a[k] = clip(string(one), maxListed)
		}
	}
	return a
}

func counts(m map[string]int) string { return strings.Join(counted(m), ", ") }

// counted lists counts, the largest first.
func counted(m map[string]int) []string {
	keys := slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), strings.Compare(a, b)) })
	var out []string
	for _, k := range keys {
		out = append(out, fmt.Sprintf("%d %s", m[k], k))
	}
	return out
}
