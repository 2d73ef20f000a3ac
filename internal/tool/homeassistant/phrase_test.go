package homeassistant_test

import (
	"encoding/json"
	"testing"
)

// TestWords: a person is asked about a call in the names that the house has, with all
// that it asks for.
func TestWords(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	for _, c := range []struct {
		in   m
		want string
	}{
		{on("climate.set_temperature", "climate.bedroom_radiator", m{"temperature": 21}), "Set Bedroom radiator to 21 °C"},
		{on("climate.set_temperature", "climate.bedroom_radiator", m{"temperature": 20.5, "hvac_mode": "heat"}), "Set Bedroom radiator to 20.5 °C (hvac mode heat)"},
		{on("climate.set_temperature", "climate.bedroom_radiator", m{"target_temp_low": 18, "target_temp_high": 22}), "Set Bedroom radiator (target temp high 22, target temp low 18)"},
		{on("light.turn_off", "light.bedroom_ceiling", nil), "Turn off Bedroom ceiling"},
		{on("light.turn_on", "light.bedroom_ceiling", m{"brightness_pct": 40, "color_name": "warm white"}), "Turn on Bedroom ceiling at 40 % (color name “warm white”)"},
		{on("light.turn_off", "light.bedroom", nil), "Turn off Bedroom lights"},
		{on("light.turn_off", []string{"light.bedroom_ceiling", "light.garden"}, nil), "Turn off Bedroom ceiling and Garden lights"},
		{m{"service": "light.turn_off", "target": m{"area_id": "bedroom"}}, "Turn off Bedside left, Bedside right and Bedroom ceiling"},
		{m{"service": "light.turn_off", "target": m{"area_id": []string{"bedroom", "kitchen"}}}, "Turn off Bedside left, Bedside right, Bedroom ceiling and 2 more"},
		{on("cover.open_cover", "cover.bedroom_blind", nil), "Open Bedroom blind"},
		{on("cover.set_cover_position", "cover.bedroom_blind", m{"position": 30}), "Set Bedroom blind to 30 % open"},
		{on("lock.unlock", "lock.front_door", nil), "Unlock Front door lock"},
		{on("media_player.volume_set", "media_player.living_room_tv", m{"volume_level": 0.25}), "Set the volume of Living room TV to 25 %"},
		{m{"service": "script.movie_night"}, "Run the script Movie night"},
		{m{"service": "persistent_notification.create", "data": m{"message": "hi there"}}, "Use “Create” of Persistent notification (message “hi there”)"},
		{m{"service": "homeassistant.check_config"}, "Use “Check config” of Home Assistant"},
		{on("light.turn_off", "light.nowhere", nil), ""},
	} {
		raw, _ := json.Marshal(c.in)
		if got := r.box.Words("ha_call_service", raw); got != c.want {
			t.Errorf("%s: got %q, want %q", raw, got, c.want)
		}
	}
	raw, _ := json.Marshal(on("light.turn_off", []string{"light.garden", "light.bedroom_ceiling"}, nil))
	for _, c := range []struct{ like, want string }{
		{"light.garden", "Turn off Bedroom ceiling (Garden) and Bedroom ceiling (Bedroom)"},
		{"light.bedroom_bedside_left", "Turn off Bedroom ceiling (Garden) and Bedroom ceiling (light.bedroom_ceiling)"},
	} {
		r.house.Rename(c.like, "Bedroom ceiling")
		got := ""
		r.when("two lights have one name", func() bool { got = r.box.Words("ha_call_service", raw); return got == c.want })
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := r.box.Words("ha_history", json.RawMessage(`{}`)); got != "" {
		t.Errorf("a tool that reads: %q", got)
	}
}
