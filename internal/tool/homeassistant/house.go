package homeassistant

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Entity is one entity in the index.
type Entity struct {
	ID           string          `json:"entity_id"`
	Name         string          `json:"name"`
	State        string          `json:"state"`
	Unit         string          `json:"unit,omitempty"`
	DeviceClass  string          `json:"device_class,omitempty"`
	Area         string          `json:"area,omitempty"`
	AreaID       string          `json:"area_id,omitempty"`
	Floor        string          `json:"floor,omitempty"`
	Device       string          `json:"device,omitempty"`
	DeviceID     string          `json:"device_id,omitempty"`
	Integration  string          `json:"integration,omitempty"`
	Category     string          `json:"category,omitempty"`
	Disabled     bool            `json:"disabled,omitempty"`
	Hidden       bool            `json:"hidden,omitempty"`
	Changed      time.Time       `json:"last_changed,omitzero"`
	Updated      time.Time       `json:"last_updated,omitzero"`
	Attributes   json.RawMessage `json:"attributes,omitempty"`
	Manufacturer string          `json:"manufacturer,omitempty"`
	Model        string          `json:"model,omitempty"`
}

// Change is a change of a state. Old is "" for a new entity, New for one that was removed.
type Change struct {
	Entity   string
	Old, New string
	At       time.Time
	Missed   bool // found by comparing, without an event
}

// Age says how current an index is.
type Age struct {
	Live     bool          `json:"live"`            // connected, and fed by events
	Known    bool          `json:"known"`           // it was filled at least once
	Old      time.Duration `json:"-"`               // time since Home Assistant was last heard from; 0 when live
	Seconds  float64       `json:"age_s"`           // the same, for programs
	Compared float64       `json:"compared_s_ago"`  // seconds since the last comparison with all states
	Entities int           `json:"entities"`        // how many are known
	Missed   int           `json:"missed"`          // changes that were only found by comparing
	Why      string        `json:"reason,omitzero"` // why it is not live
}

// String is the line that tool results carry.
func (a Age) String() string {
	switch {
	case !a.Known:
		return "index: empty, because Home Assistant was never reached: " + a.Why
	case !a.Live:
		return "index: " + since(a.Old) + " old and may be out of date: " + a.Why
	}
	return "index: live"
}

func since(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than a second"
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// Age returns how old the index is.
func (x *Index) Age() Age {
	why, lost, _ := x.client.status()
	x.mu.RLock()
	defer x.mu.RUnlock()
	a := Age{Known: !x.synced.IsZero(), Entities: len(x.states), Missed: x.missed}
	if a.Known {
		a.Compared = time.Since(x.synced).Seconds()
	}
	switch {
	case why != nil:
		a.Why = why.Message
	case !a.Known: // connected, but nothing has been read yet
		a.Why = "it is being filled"
	default:
		a.Live = true
		return a
	}
	if a.Known {
		a.Old = time.Since(lost)
		a.Seconds = a.Old.Seconds()
	}
	return a
}

// ready waits until the index has been filled once, or returns why it could not be.
func (x *Index) ready(ctx context.Context) error {
	for {
		x.mu.RLock()
		known, fresh := !x.synced.IsZero(), x.fresh
		x.mu.RUnlock()
		if known {
			return nil
		}
		s, err := x.client.socket(ctx)
		if err != nil {
			return err
		}
		select {
		case <-fresh:
		case <-s.dead:
		case <-ctx.Done():
			return waited(ctx, "the first read of the house", x.o.Timeout)
		}
	}
}

// Entity returns one entity.
func (x *Index) Entity(id string) (Entity, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entity(id)
}

// Entities returns all entities, ordered by id. Disabled entities have no state.
func (x *Index) Entities() []Entity {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ids := slices.Sorted(maps.Keys(union(x.states, nil)))
	for id := range x.entries {
		if x.states[id] == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	out := make([]Entity, 0, len(ids))
	for _, id := range ids {
		if e, ok := x.entity(id); ok {
			out = append(out, e)
		}
	}
	return out
}

// Areas returns the areas by name, with the ids of their entities.
func (x *Index) Areas() []Area {
	by := map[string][]string{}
	for _, e := range x.Entities() {
		if e.AreaID != "" {
			by[e.AreaID] = append(by[e.AreaID], e.ID)
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]Area, 0, len(x.areas))
	for id, a := range x.areas {
		f := ""
		if fl := x.floors[a.FloorID]; fl != nil {
			f = fl.Name
		}
		out = append(out, Area{ID: id, Name: a.Name, Floor: f, Entities: by[id]})
	}
	slices.SortFunc(out, func(a, b Area) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return out
}

// Area is a room with what is in it.
type Area struct {
	ID       string   `json:"area_id"`
	Name     string   `json:"name"`
	Floor    string   `json:"floor,omitempty"`
	Entities []string `json:"entities"`
}

// entity joins a state with the registries. x.mu is held.
func (x *Index) entity(id string) (Entity, bool) {
	st, en := x.states[id], x.entries[id]
	if st == nil && en == nil {
		return Entity{}, false
	}
	e := Entity{ID: id}
	if st != nil {
		e.State, e.Changed, e.Updated, e.Attributes = st.State, st.Changed, st.Updated, st.Attributes.raw
		e.Name, e.DeviceClass, e.Unit = st.Attributes.name, st.Attributes.class, st.Attributes.unit
	}
	if en != nil {
		e.Integration, e.Category, e.Disabled, e.Hidden, e.DeviceID, e.AreaID = en.Platform, en.Category, en.DisabledBy != "", en.HiddenBy != "", en.DeviceID, en.AreaID
		e.Name = cmp.Or(en.Name, e.Name, en.OriginalName)
	}
	if d := x.devices[e.DeviceID]; d != nil {
		e.Device, e.Manufacturer, e.Model = cmp.Or(d.NameByUser, d.Name), d.Manufacturer, d.Model
		e.AreaID = cmp.Or(e.AreaID, d.AreaID)
	}
	if a := x.areas[e.AreaID]; a != nil {
		e.Area = a.Name
		if f := x.floors[a.FloorID]; f != nil {
			e.Floor = f.Name
		}
	}
	e.Name = cmp.Or(e.Name, id)
	return e, true
}

// local formats a time in the house's zone, for people.
func (x *Index) local(t time.Time) string {
	return x.in(t).Format("2006-01-02 15:04:05Z07:00")
}

// location returns the house's time zone.
func (x *Index) location() *time.Location {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.zone
}
