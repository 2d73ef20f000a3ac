package homeassistant

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/keyword"
)

// maxAsked is the most words of a question that are looked up.
const maxAsked = 16

// Retrieve implements seam.Retriever: it returns what a question seems to be about, as the index
// knows it now. A question has many words that no house has ("why did the bedroom lights flicker
// last night"), so those are left out before the search. The entities of the previous turn come
// first, whatever the question says. It never waits, and returns nothing while the index has
// never been filled.
func (t *Toolset) Retrieve(_ context.Context, _ parley.Principal, query string, about []string, limit int) ([]parley.Snippet, error) {
	age := t.index.Age()
	if !age.Known {
		return nil, nil
	}
	var out []parley.Snippet
	add := func(e Entity, pinned bool) {
		text := strings.TrimPrefix(t.index.item(e).line(), e.ID+" = ")
		if !age.Live {
			text += " (" + age.String() + ")"
		}
		out = append(out, parley.Snippet{Source: "home assistant", Ref: e.ID, Text: text, Pinned: pinned})
	}
	for _, id := range about {
		if e, ok := t.index.Entity(id); ok {
			add(e, true)
		}
	}
	words := t.index.knows(query)
	if len(words) == 0 {
		return out, nil
	}
	hits, _ := t.index.Search(Query{Text: strings.Join(words, " "), Limit: max(limit, 1)})
	for _, h := range hits {
		if !slices.ContainsFunc(out, func(s parley.Snippet) bool { return s.Ref == h.ID }) {
			add(h.Entity, false)
		}
	}
	return out, nil
}

// Zone implements seam.Zoned: it returns the house's time zone.
func (t *Toolset) Zone(at time.Time) (parley.Zone, bool) {
	x := t.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	return parley.ZoneAt(x.zone, at), x.config.TimeZone != ""
}

// knows returns the words of a text that match something in the house.
func (x *Index) knows(text string) []string {
	words := keyword.Of(strings.NewReplacer("_", " ", ".", " ").Replace(text))
	words = words[:min(len(words), maxAsked)]
	house := map[string]bool{}
	for _, e := range x.Entities() {
		for _, w := range strings.Fields(plain(e.Name + " " + e.ID + " " + e.Area + " " + e.Device + " " + e.DeviceClass)) {
			house[w] = true
		}
	}
	return slices.DeleteFunc(words, func(w string) bool {
		for have := range house {
			if likeness(w, have) >= 0.95 {
				return false
			}
		}
		return true
	})
}

// Past reads the history of one entity, as the chart that a person is shown. The entity may have
// been removed from the house.
func (t *Toolset) Past(ctx context.Context, id string, from, to time.Time) (Chart, error) {
	if err := t.index.ready(ctx); err != nil {
		return Chart{}, err
	}
	e, known := t.index.Entity(id)
	if !known && entityID.FindString(id) != id {
		return Chart{}, t.index.errUnknown(id)
	}
	if !known {
		e = Entity{ID: id, Name: id}
	}
	all, err := t.past(ctx, []Entity{e}, from, to)
	if err != nil {
		return Chart{}, err
	}
	if !known && len(all[0].points) == 0 {
		return Chart{}, t.index.errUnknown(id)
	}
	return t.chart(all), nil
}
