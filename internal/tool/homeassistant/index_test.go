package homeassistant_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

func TestIndexSearch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	for _, c := range []struct {
		q    homeassistant.Query
		best string
	}{
		{homeassistant.Query{Text: "bedroom ceiling light"}, "light.bedroom_ceiling"},
		{homeassistant.Query{Text: "bedrom celing"}, "light.bedroom_ceiling"},
		{homeassistant.Query{Text: "lihgt.bedroom_ceiling"}, "light.bedroom_ceiling"},
		{homeassistant.Query{Text: "voltage l2"}, "sensor.mains_voltage_l2"},
		{homeassistant.Query{Text: "Mains voltages"}, "sensor.mains_voltage_l1"},
		{homeassistant.Query{Text: "the heat pump's compressor"}, "binary_sensor.heat_pump_compressor"},
		{homeassistant.Query{Text: "Daikin"}, "binary_sensor.heat_pump_compressor"},
		{homeassistant.Query{Text: "window", Domain: "binary_sensor"}, "binary_sensor.bedroom_window"},
		{homeassistant.Query{Area: "master bedroom", Domain: "climate"}, "climate.bedroom_radiator"},
		{homeassistant.Query{DeviceClass: "smoke"}, "binary_sensor.kitchen_smoke"},
		{homeassistant.Query{State: "unavailable"}, "switch.old_office_plug"},
		{homeassistant.Query{Integration: "nuki", Domain: "lock"}, "lock.front_door"},
		{homeassistant.Query{Device: "Wallbox", Domain: "number"}, "number.wallbox_current_limit"},
		{homeassistant.Query{IDs: []string{"media_player.*_tv"}}, "media_player.living_room_tv"},
		{homeassistant.Query{Text: "blind", Area: "Ground floor"}, "cover.living_room_blind"},
	} {
		hits, _ := r.tools.Index().Search(c.q)
		if len(hits) == 0 || hits[0].ID != c.best {
			t.Errorf("%+v: got %v, want %s first", c.q, names(hits), c.best)
		}
	}
	if hits, total := r.tools.Index().Search(homeassistant.Query{Text: "submarine"}); total != 0 {
		t.Errorf("submarine: got %v", hits)
	}
	hits, total := r.tools.Index().Search(homeassistant.Query{Area: "Bedroom", Domain: "light"})
	if total != 3 || len(hits) != 3 {
		t.Errorf("lights of the bedroom: got %d, want 3", total)
	}
	text, _ := r.ok("index_search", m{"query": "submarine"})
	has(t, text, "No entity matches", "Kitchen")
	text, _ = r.ok("index_search", m{"domain": "light", "area": "bedroom", "limit": 2})
	has(t, text, "2 of 3 entities", "light.bedroom_bedside_left = off · Bedside left · Bedroom · zha", "index: live")
}

func TestGraph(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	e, ok := r.tools.Index().Entity("sensor.mains_voltage_l1")
	if !ok {
		t.Fatal("the entity is not there")
	}
	e.State, e.Attributes, e.Changed, e.Updated, e.DeviceID = "", nil, time.Time{}, time.Time{}, ""
	want := homeassistant.Entity{
		ID: "sensor.mains_voltage_l1", Name: "Mains meter Voltage L1", Unit: "V", DeviceClass: "voltage", Area: "Utility room", AreaID: "utility_room", Floor: "Ground floor",
		Device: "Mains meter", Integration: "shelly", Manufacturer: "Shelly", Model: "Pro 3EM",
	}
	if d := cmp.Diff(want, e); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	var rooms []string
	for _, a := range r.tools.Index().Areas() {
		rooms = append(rooms, a.Name)
	}
	if d := cmp.Diff([]string{"Bathroom", "Bedroom", "Children's room", "Garage", "Garden", "Hallway", "Kitchen", "Living room", "Office", "Utility room"}, rooms); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEventsKeepItFresh(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	x := r.tools.Index()
	r.house.SetState("light.bedroom_ceiling", "on", nil)
	if c := r.until("light.bedroom_ceiling", "on"); c.Old != "off" || c.Missed {
		t.Errorf("got %+v, want a change from off that an event told of", c)
	}
	r.house.SetState("sensor.new_one", "7", m{"friendly_name": "New one"})
	r.until("sensor.new_one", "7")
	if e, ok := x.Entity("sensor.new_one"); !ok || e.Name != "New one" {
		t.Errorf("got %+v, want the new entity", e)
	}
	r.house.Remove("sensor.new_one")
	r.until("sensor.new_one", "")
	if _, ok := x.Entity("sensor.new_one"); ok {
		t.Error("the entity that was removed is still there")
	}
	r.house.Rename("light.bedroom_ceiling", "Big lamp")
	r.house.Move("light.bedroom_ceiling", "office")
	r.house.RenameArea("office", "Study")
	r.when("registries are read again", func() bool {
		e, _ := x.Entity("light.bedroom_ceiling")
		return e.Name == "Big lamp" && e.Area == "Study"
	})
}

// TestNothingIsMissed: what changes while there is no connection, and what no
// event tells of, is found and reported.
func TestNothingIsMissed(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.Resync = 30 * time.Millisecond })
	r.live()
	x := r.tools.Index()

	r.house.SetFaults(sim.Faults{Down: true})
	r.when("the connection is gone", func() bool { return !x.Age().Live })
	r.house.SetState("lock.front_door", "unlocked", nil)
	r.house.Remove("vacuum.house")
	if a := x.Age(); a.Why == "" || !a.Known {
		t.Errorf("got %+v, want the reason", a)
	}
	if e, _ := x.Entity("lock.front_door"); e.State != "locked" {
		t.Errorf("got %s, want what was known last", e.State)
	}
	r.house.SetFaults(sim.Faults{})
	if c := r.until("lock.front_door", "unlocked"); !c.Missed {
		t.Errorf("got %+v, want it found by comparing", c)
	}
	r.when("the entity that was removed is gone", func() bool { _, ok := x.Entity("vacuum.house"); return !ok })

	r.house.SetFaults(sim.Faults{DropEvents: 1})
	r.house.SetState("light.office_desk", "on", nil)
	if c := r.until("light.office_desk", "on"); !c.Missed {
		t.Errorf("got %+v, want it found by comparing", c)
	}
}

// TestChurn: a house that changes all the time while the connection breaks again
// and again ends in an index that is as the house.
func TestChurn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	done := make(chan struct{})
	go func() { // changes are reported in order, and each once
		last := map[string]string{"light.garden": "off", "switch.wallbox_charging": "off"}
		for c := range r.changes {
			if was, ok := last[c.Entity]; ok {
				if c.Old != was {
					t.Errorf("%s: got a change from %q, it was %q", c.Entity, c.Old, was)
				}
				last[c.Entity] = c.New
			}
			if c.Entity == "input_boolean.guest_mode" {
				close(done)
				return
			}
		}
	}()
	for i := range 400 {
		state := []string{"on", "off"}[i%2]
		r.house.SetState("light.garden", state, nil)
		r.house.SetState("switch.wallbox_charging", []string{"off", "on"}[i/3%2], nil)
		if i%60 == 59 {
			r.house.Disconnect()
			if i%120 == 59 {
				r.live()
			}
		}
	}
	r.when("the index is as the house", func() bool {
		for _, id := range []string{"light.garden", "switch.wallbox_charging"} {
			if e, _ := r.tools.Index().Entity(id); e.State != r.house.Reported(id) {
				return false
			}
		}
		return r.tools.Index().Age().Live
	})
	r.house.SetState("input_boolean.guest_mode", "on", nil)
	select {
	case <-done:
	case <-time.After(within):
		t.Fatal("the last change was not reported")
	}
}

func TestStateQuery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, data := r.ok("ha_state_query", m{"entities": []string{"climate.bedroom_radiator", "Mains meter Voltage L1"}})
	has(t, text, "climate.bedroom_radiator = heat", `"temperature":18`, "sensor.mains_voltage_l1 = 23", "read now from Home Assistant")
	if data["read"] != "live" {
		t.Errorf("got %v, want live", data["read"])
	}
	text, _ = r.ok("ha_state_query", m{"entities": []string{"light.bedroom_ceiling"}})
	has(t, text, "1 entity:\n")
	text, _ = r.ok("ha_state_query", m{"domain": "light"})
	has(t, text, "14 entities (14 off)", "index: live")
	text, _ = r.ok("ha_state_query", m{"entities": []string{"sensor.mains_*"}, "device_class": "voltage"})
	has(t, text, "3 entities")
	r.refused("ha_state_query", m{"entities": []string{"light.bedroom_cieling"}}, "not_found", "did you mean light.bedroom_ceiling")
	r.refused("ha_state_query", m{"entities": []string{"sensor.bedroom_ceiling"}}, "not_found", "light.bedroom_ceiling")
}

func names(hits []homeassistant.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.ID)
	}
	return out
}
