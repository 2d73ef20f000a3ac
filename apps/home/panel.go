package home

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// panel shows the index of the tools in the form that the page needs.
type panel struct {
	tools *homeassistant.Toolset
	feed  *Feed
	clean func(string) string
}

// maxListed is the most entities that a page gets.
const maxListed = 3000

func (p panel) Changes() *Feed { return p.feed }

// Listing omits disabled and hidden entities, and those for diagnosis and configuration.
func (p panel) Listing(context.Context) (Listing, error) {
	age := p.tools.Index().Age()
	if !age.Known {
		return Listing{}, parley.Errorf(parley.CodeUnavailable, "%s", cmp.Or(age.Why, "the house has not been read yet")).WithRetry(2 * time.Second)
	}
	l := Listing{Connected: age.Live, IndexedAt: time.Now().Add(-age.Old).UTC(), AgeMS: age.Old.Milliseconds(), Areas: []Area{}}
	at := map[string]int{}
	for _, a := range p.tools.Index().Areas() {
		at[a.ID] = len(l.Areas)
		l.Areas = append(l.Areas, Area{ID: a.ID, Name: a.Name, Entities: []HouseEntity{}})
	}
	rest := Area{Entities: []HouseEntity{}}
	n := 0
	for _, e := range p.tools.Index().Entities() {
		if e.Disabled || e.Hidden || e.Category != "" || n == maxListed {
			continue
		}
		n++
		into := &rest
		if i, ok := at[e.AreaID]; ok {
			into = &l.Areas[i]
		}
		into.Entities = append(into.Entities, NewEntity(HouseEntity{
			ID: e.ID, Name: p.clean(e.Name), DeviceClass: e.DeviceClass, State: p.clean(e.State), Unit: e.Unit, LastChanged: e.Changed,
		}))
	}
	l.Areas = slices.DeleteFunc(append(l.Areas, rest), func(a Area) bool { return len(a.Entities) == 0 })
	return l, nil
}

func (p panel) Past(ctx context.Context, entity string, from, to time.Time) (History, error) {
	c, err := p.tools.Past(ctx, entity, from, to)
	if err != nil {
		return History{}, err
	}
	s := c.Series[0]
	h := History{
		ID: s.ID, Name: p.clean(s.Name), Unit: s.Unit, DeviceClass: s.DeviceClass, From: c.From, To: c.To, Zone: c.Zone,
		Points: []Point{}, States: []State{}, Marks: []Mark{}, Thinned: s.Thinned,
	}
	for _, v := range s.Points {
		h.Points = append(h.Points, Point{At: v.At.UnixMilli(), Value: v.Value, None: v.None})
	}
	for _, st := range s.States {
		h.States = append(h.States, State{At: st.At.UnixMilli(), State: p.clean(st.State)})
	}
	for _, m := range s.Marks {
		h.Marks = append(h.Marks, Mark(m))
	}
	return h, nil
}
