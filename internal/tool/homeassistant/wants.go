package homeassistant

import (
	"encoding/json"
	"slices"
	"strings"
)

// wants returns the states that a service brings about, or nil if that cannot be said
// beforehand.
func wants(domain, name string, data map[string]any) []string {
	text := func(k string) []string {
		if s, ok := data[k].(string); ok && s != "" {
			return []string{s}
		}
		return nil
	}
	switch domain + "." + name {
	case "climate.turn_on", "scene.turn_on", "script.turn_on", "script.turn_off", "media_player.turn_on":
		return nil
	case "climate.set_hvac_mode":
		return text("hvac_mode")
	case "water_heater.set_operation_mode":
		return text("operation_mode")
	case "select.select_option", "input_select.select_option":
		return text("option")
	case "cover.open_cover", "valve.open_valve":
		return []string{"open", "opening"}
	case "cover.close_cover", "valve.close_valve":
		return []string{"closed", "closing"}
	case "lock.lock":
		return []string{"locked", "locking"}
	case "lock.unlock":
		return []string{"unlocked", "unlocking"}
	case "vacuum.start":
		return []string{"cleaning"}
	case "vacuum.return_to_base":
		return []string{"returning", "docked"}
	case "alarm_control_panel.alarm_disarm":
		return []string{"disarmed"}
	case "alarm_control_panel.alarm_arm_home", "alarm_control_panel.alarm_arm_away", "alarm_control_panel.alarm_arm_night":
		return []string{"armed_" + strings.TrimPrefix(name, "alarm_arm_"), "arming"}
	}
	switch name {
	case "turn_on":
		return []string{"on"}
	case "turn_off":
		return []string{"off"}
	}
	return nil
}

// asked reports whether a state is what the call asks for. known is false if the state cannot
// tell.
func (c checked) asked(s *wireState) (ok, known bool) {
	var a map[string]any
	_ = json.Unmarshal(s.Attributes.raw, &a)
	states := wants(c.domain, c.name, c.in.Data)
	switch c.domain + "." + c.name {
	case "input_number.set_value", "number.set_value":
		v, is := value(s.State)
		want, wants := numberOf(c.in.Data["value"])
		return is && wants && near(v, want, 1e-6), wants
	}
	attrs := map[string]float64{} // numbers that must show, each with its tolerance
	want := map[string]float64{}
	number := func(field, attr string, scale, tolerance float64) {
		if v, ok := numberOf(c.in.Data[field]); ok {
			want[attr], attrs[attr] = v*scale, tolerance
		}
	}
	switch c.domain {
	case "light":
		number("brightness", "brightness", 1, 2)
		number("brightness_pct", "brightness", 2.55, 3)
		number("color_temp_kelvin", "color_temp_kelvin", 1, 60)
	case "climate", "water_heater":
		number("temperature", "temperature", 1, 0.05)
	case "cover":
		number("position", "current_position", 1, 2)
	case "fan":
		number("percentage", "percentage", 1, 2)
	case "media_player":
		number("volume_level", "volume_level", 1, 0.02)
	case "humidifier":
		number("humidity", "humidity", 1, 0.5)
	}
	if states == nil && len(want) == 0 {
		return false, false
	}
	ok = states == nil || slices.Contains(states, s.State)
	for attr, v := range want {
		have, is := numberOf(a[attr])
		ok = ok && is && near(have, v, attrs[attr])
	}
	return ok, true
}

func near(a, b, by float64) bool { return a-b <= by && b-a <= by }

func numberOf(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		return value(v)
	}
	return 0, false
}
