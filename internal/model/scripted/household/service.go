package household

import "math"

// service returns the Home Assistant service that makes this change in a domain, and the
// resulting state. Both are "" if there is none.
func (d deed) service(domain string) (name, state string) {
	if d.value != nil && (d.verb == "on" || d.verb == "open" || d.verb == "close") {
		switch domain {
		case "cover", "climate", "water_heater", "humidifier", "fan", "light":
			d.verb = "set"
		case "valve":
			return "valve.set_valve_position", ""
		}
	}
	switch d.verb {
	case "on", "off":
		switch domain {
		case "cover":
			return map[string]string{"on": "cover.open_cover", "off": "cover.close_cover"}[d.verb], map[string]string{"on": "open", "off": "closed"}[d.verb]
		case "lock":
			return map[string]string{"on": "lock.lock", "off": "lock.unlock"}[d.verb], map[string]string{"on": "locked", "off": "unlocked"}[d.verb]
		case "alarm_control_panel":
			return map[string]string{"on": "alarm_control_panel.alarm_arm_home", "off": "alarm_control_panel.alarm_disarm"}[d.verb], map[string]string{"on": "armed", "off": "disarmed"}[d.verb]
		case "vacuum":
			return map[string]string{"on": "vacuum.start", "off": "vacuum.return_to_base"}[d.verb], map[string]string{"on": "on", "off": "off"}[d.verb]
		case "scene":
			return "scene.turn_on", ""
		case "valve":
			return map[string]string{"on": "valve.open_valve", "off": "valve.close_valve"}[d.verb], map[string]string{"on": "open", "off": "closed"}[d.verb]
		case "light", "switch", "fan", "climate", "media_player", "input_boolean", "automation", "script", "humidifier":
			return domain + ".turn_" + d.verb, d.verb
		}
	case "open", "close":
		state = map[string]string{"open": "open", "close": "closed"}[d.verb]
		switch domain {
		case "cover":
			return "cover." + d.verb + "_cover", state
		case "valve":
			return "valve." + d.verb + "_valve", state
		}
	case "lock", "unlock":
		if domain == "lock" {
			return "lock." + d.verb, d.verb + "ed"
		}
	case "arm", "disarm":
		if domain != "alarm_control_panel" {
			return "", ""
		}
		if d.verb == "disarm" {
			return "alarm_control_panel.alarm_disarm", "disarmed"
		}
		return "alarm_control_panel.alarm_arm_away", "armed"
	case "dim":
		if domain == "light" {
			return "light.turn_on", ""
		}
	case "set":
		switch domain {
		case "climate":
			return "climate.set_temperature", ""
		case "light":
			return "light.turn_on", ""
		case "cover":
			return "cover.set_cover_position", ""
		case "water_heater":
			return "water_heater.set_temperature", ""
		case "humidifier":
			return "humidifier.set_humidity", ""
		case "fan":
			return "fan.set_percentage", ""
		case "media_player":
			return "media_player.volume_set", ""
		}
	case "start", "stop":
		on := map[string]string{"start": "on", "stop": "off"}[d.verb]
		switch domain {
		case "vacuum":
			return map[string]string{"start": "vacuum.start", "stop": "vacuum.return_to_base"}[d.verb], on
		case "lawn_mower":
			return map[string]string{"start": "lawn_mower.start_mowing", "stop": "lawn_mower.dock"}[d.verb], on
		case "script", "scene":
			return domain + ".turn_on", ""
		case "media_player":
			return map[string]string{"start": "media_player.media_play", "stop": "media_player.media_pause"}[d.verb], on
		case "switch", "light", "fan":
			return domain + ".turn_" + on, on
		case "valve":
			return map[string]string{"start": "valve.open_valve", "stop": "valve.close_valve"}[d.verb], map[string]string{"start": "open", "stop": "closed"}[d.verb]
		case "cover":
			if d.verb == "stop" {
				return "cover.stop_cover", ""
			}
		}
	}
	return "", ""
}

// data returns the fields of the service call.
func (d deed) data(domain string, e entity) map[string]any {
	if d.value == nil && d.by == 0 && d.step == 0 {
		return nil
	}
	v := 0.0
	if d.step != 0 {
		level, size, ok := e.level()
		if !ok {
			return nil
		}
		v = min(max(level+d.step*size, 0), 100)
		if domain == "light" {
			v = max(v, 1) // dimming must not turn it off
		}
	}
	if d.value != nil {
		v = *d.value
	}
	if name, _ := d.service(domain); !re(`_(?:temperature|position|percentage|humidity|set)$|^light\.turn_on$`).MatchString(name) {
		return nil // the service takes no level
	}
	switch domain {
	case "climate", "water_heater":
		if d.by != 0 {
			now, _ := e.number("temperature")
			v = now + d.by
		}
		return map[string]any{"temperature": v}
	case "light":
		return map[string]any{"brightness_pct": v}
	case "cover", "valve":
		return map[string]any{"position": v}
	case "fan":
		return map[string]any{"percentage": v}
	case "humidifier":
		return map[string]any{"humidity": v}
	case "media_player":
		return map[string]any{"volume_level": v / 100}
	}
	return nil
}

// level returns the value that can be turned up and down, and the size of one step
// "brighter" or "warmer". ok is false if the value is unknown, as for a lamp that is
// off.
func (e entity) level() (now, size float64, ok bool) {
	attr := map[string]string{"climate": "temperature", "water_heater": "temperature", "light": "brightness", "cover": "current_position", "fan": "percentage", "humidifier": "humidity", "media_player": "volume_level"}[e.domain()]
	now, ok = e.number(attr)
	switch e.domain() {
	case "climate", "water_heater":
		return now, 1, ok
	case "light":
		if !ok && e.state == "off" {
			return 0, 20, true
		}
		return math.Round(now / 2.55), 20, ok
	case "media_player":
		return math.Round(now * 100), 10, ok
	case "humidifier":
		return now, 10, ok
	}
	return now, 20, ok
}

// already reports whether a number has the value asked for.
func (d deed) already(e entity) bool {
	if d.step != 0 { // already at the end of its range
		now, _, ok := e.level()
		for _, v := range d.data(e.domain(), e) {
			if v, is := v.(float64); is && e.domain() == "media_player" {
				return ok && 100*v == now
			} else if is {
				return ok && v == now && e.state != "off"
			}
		}
		return false
	}
	if d.value == nil || d.verb != "set" {
		return false
	}
	v, ok := e.number("temperature")
	return ok && e.domain() == "climate" && v == *d.value && e.state != "off"
}

// calls returns one call for each domain, or for each value where things are turned up or down from
// different ones.
func (d deed) calls(es []entity) []Call {
	var out []Call
	var order []string
	by := map[string][]entity{}
	for _, e := range es {
		alike := e.domain() + d.to(e)
		if by[alike] == nil {
			order = append(order, alike)
		}
		by[alike] = append(by[alike], e)
	}
	for _, alike := range order {
		of := by[alike]
		service, _ := d.service(of[0].domain())
		var target any = idsOf(of)
		if len(of) == 1 {
			target = of[0].id
		}
		in := map[string]any{"service": service, "target": map[string]any{"entity_id": target}}
		if data := d.data(of[0].domain(), of[0]); data != nil {
			in["data"] = data
		}
		out = append(out, Call{Tool: act, Input: in})
	}
	return out
}

// wish returns the deed as a verb.
func (q *ask) wish() string {
	switch q.deed.verb {
	case "on", "off":
		return "turn " + q.deed.verb
	}
	return q.deed.verb
}

func (d deed) result(e entity) string {
	switch d.verb {
	case "set", "dim":
		return e.leveled("")
	case "start":
		return "running"
	case "stop":
		return "stopped"
	}
	_, state := d.service(e.domain())
	return state
}

// each names the things with the value that each of them gets.
func (d deed) each(es []entity) string {
	var out []string
	for _, e := range es {
		if d.to(e) != d.to(es[0]) {
			out = nil
			for _, e := range es {
				out = append(out, e.the()+d.to(e))
			}
			return listed(out)
		}
	}
	return theNames(es) + d.to(es[0])
}

// to describes the target value of a request.
func (d deed) to(e entity) string {
	switch data := d.data(e.domain(), e); {
	case data["temperature"] != nil:
		return " to " + amount(data["temperature"].(float64), "°C")
	case data["brightness_pct"] != nil:
		return " to " + amount(data["brightness_pct"].(float64), "%")
	case data["position"] != nil:
		return " to " + amount(data["position"].(float64), "%")
	case data["percentage"] != nil:
		return " to " + amount(data["percentage"].(float64), "%")
	case data["humidity"] != nil:
		return " to " + amount(data["humidity"].(float64), "%")
	case data["volume_level"] != nil:
		return " to " + amount(100*data["volume_level"].(float64), "%")
	}
	return ""
}
