package homeassistant

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// wireState is a state as Home Assistant writes it.
type wireState struct {
	ID         string     `json:"entity_id"`
	State      string     `json:"state"`
	Attributes properties `json:"attributes"`
	Changed    time.Time  `json:"last_changed"`
	Updated    time.Time  `json:"last_updated"`
	Context    struct {
		ID     string `json:"id"`
		Parent string `json:"parent_id"`
		User   string `json:"user_id"`
	} `json:"context"`
}

// properties are the attributes of a state, parsed once. Those that give access to a camera's
// picture are left out.
type properties struct {
	raw               json.RawMessage
	name, class, unit string
}

func (p *properties) UnmarshalJSON(raw []byte) error {
	*p = properties{}
	if bytes.Contains(raw, []byte(`"access_token"`)) || bytes.Contains(raw, []byte(`"entity_picture"`)) {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
		delete(all, "access_token")
		delete(all, "entity_picture")
		raw, _ = json.Marshal(all)
	}
	p.raw = bytes.Clone(raw)
	var known struct {
		Name  any `json:"friendly_name"`
		Class any `json:"device_class"`
		Unit  any `json:"unit_of_measurement"`
	}
	_ = json.Unmarshal(raw, &known) // attributes that are not an object have no fields
	p.name, _ = known.Name.(string)
	p.class, _ = known.Class.(string)
	p.unit, _ = known.Unit.(string)
	return nil
}

type wireEvent struct {
	Type string `json:"event_type"`
	Data struct {
		EntityID string     `json:"entity_id"`
		Old      *wireState `json:"old_state"`
		New      *wireState `json:"new_state"`
	} `json:"data"`
	Fired time.Time `json:"time_fired"`
}

type wireEntity struct {
	ID           string   `json:"entity_id"`
	UniqueID     any      `json:"unique_id"`
	Platform     string   `json:"platform"`
	Name         string   `json:"name"`
	OriginalName string   `json:"original_name"`
	AreaID       string   `json:"area_id"`
	DeviceID     string   `json:"device_id"`
	DisabledBy   string   `json:"disabled_by"`
	HiddenBy     string   `json:"hidden_by"`
	Category     string   `json:"entity_category"`
	Labels       []string `json:"labels"`
}

type wireDevice struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	NameByUser   string   `json:"name_by_user"`
	AreaID       string   `json:"area_id"`
	Manufacturer string   `json:"manufacturer"`
	Model        string   `json:"model"`
	Software     string   `json:"sw_version"`
	Via          string   `json:"via_device_id"`
	Disabled     string   `json:"disabled_by"`
	Labels       []string `json:"labels"`
}

type wireArea struct {
	ID      string   `json:"area_id"`
	Name    string   `json:"name"`
	FloorID string   `json:"floor_id"`
	Aliases []string `json:"aliases"`
}

type wireFloor struct {
	ID   string `json:"floor_id"`
	Name string `json:"name"`
}

type wireConfig struct {
	TimeZone string `json:"time_zone"`
	Name     string `json:"location_name"`
	Version  string `json:"version"`
	Units    struct {
		Temperature string `json:"temperature"`
	} `json:"unit_system"`
}

// wireLog is an entry of system_log/list.
type wireLog struct {
	Name      string          `json:"name"`
	Messages  json.RawMessage `json:"message"` // a list of texts; one text in old versions
	Level     string          `json:"level"`
	Source    []any           `json:"source"`
	At        float64         `json:"timestamp"`
	Exception string          `json:"exception"`
	Count     int             `json:"count"`
	First     float64         `json:"first_occurred"`
}

func (l wireLog) messages() []string {
	var many []string
	if json.Unmarshal(l.Messages, &many) == nil {
		return many
	}
	var one string
	_ = json.Unmarshal(l.Messages, &one)
	return []string{one}
}

// wirePoint is a row of history in the short form.
type wirePoint struct {
	State   string   `json:"s"`
	Updated float64  `json:"lu"`
	Changed *float64 `json:"lc"`
}

func (p wirePoint) at() time.Time {
	if p.Changed != nil {
		return fromEpoch(*p.Changed)
	}
	return fromEpoch(p.Updated)
}

func fromEpoch(f float64) time.Time {
	if math.IsNaN(f) || math.Abs(f) > 1e11 {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(f * 1e6))).UTC()
}

// wireRow is a row of the logbook.
type wireRow struct {
	When     string `json:"when"`
	Name     string `json:"name"`
	Message  string `json:"message"`
	Domain   string `json:"domain"`
	EntityID string `json:"entity_id"`
	State    string `json:"state"`
	User     string `json:"context_user_id"`
	ByName   string `json:"context_name"`
	ByEntity string `json:"context_entity_id"`
	ByEvent  string `json:"context_event_type"`
	ByDomain string `json:"context_domain"`
	ByServ   string `json:"context_service"`
	at       time.Time
	person   string // name of the person with that user, if there is one
}

func (r wireRow) text() string {
	var b strings.Builder
	switch {
	case r.Message != "":
		b.WriteString(clip(r.Message, 200))
	case r.State != "":
		b.WriteString("→ " + clip(r.State, 60))
	}
	switch {
	case r.ByEntity != "" && r.ByName != "":
		b.WriteString(", by " + r.ByEntity + " (" + clip(r.ByName, 80) + ")")
	case r.ByEntity != "":
		b.WriteString(", by " + r.ByEntity)
	case r.ByServ != "":
		b.WriteString(", by " + r.ByDomain + "." + r.ByServ)
	}
	if r.User != "" {
		b.WriteString(", by " + or(r.person, "a person"))
	}
	return b.String()
}

// unknown reports whether a state means that there is no value.
func unknown(state string) bool { return state == "unavailable" || state == "unknown" || state == "" }

func value(state string) (float64, bool) {
	f, err := strconv.ParseFloat(state, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func domainOf(id string) string {
	d, _, _ := strings.Cut(id, ".")
	return d
}
