package homeassistant

// indexVersion is the version of the index's coverage. Raise it when the coverage changes, so
// that readers of [Meta] notice.
const indexVersion = 1

// Meta says what the index covers and how current it is, for callers that keep a record of it.
// It changes when the index changes, not with time.
type Meta struct {
	Version     int       `json:"version"`
	House       MetaHouse `json:"homeAssistant"`
	Counts      MetaCount `json:"counts"`
	RefreshedAt int64     `json:"refreshedAt"` // when everything was last compared with the house, in ms
	Connected   bool      `json:"connected"`   // events are being received
}

// MetaHouse is the Home Assistant that was read.
type MetaHouse struct {
	Version  string `json:"version"`
	Name     string `json:"name,omitempty"`
	TimeZone string `json:"timeZone,omitempty"`
}

// MetaCount counts what the index has.
type MetaCount struct {
	Entities int `json:"entities"` // with a state, or in the registry
	States   int `json:"states"`
	Devices  int `json:"devices"`
	Areas    int `json:"areas"`
	Floors   int `json:"floors"`
	Services int `json:"services"`
}

// Meta reports on the index. ok is false while the index has never been filled.
func (x *Index) Meta() (m Meta, ok bool) {
	age := x.Age()
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.synced.IsZero() {
		return m, false
	}
	m = Meta{
		Version: indexVersion, RefreshedAt: x.synced.UnixMilli(), Connected: age.Live,
		House:  MetaHouse{Version: clip(x.config.Version, 40), Name: clip(x.config.Name, 200), TimeZone: clip(x.config.TimeZone, 100)},
		Counts: MetaCount{Entities: len(x.states), States: len(x.states), Devices: len(x.devices), Areas: len(x.areas), Floors: len(x.floors)},
	}
	for id := range x.entries {
		if x.states[id] == nil {
			m.Counts.Entities++
		}
	}
	for _, list := range x.services {
		m.Counts.Services += len(list)
	}
	return m, true
}
