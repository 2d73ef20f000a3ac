package homeassistant

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// refusal is an error as Home Assistant returns it.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return r.message }

func refuse(code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

const (
	codeFormat     = "invalid_format"
	codeNotFound   = "not_found"
	codeValidation = "service_validation_error"
	codeFailed     = "home_assistant_error"
)

// service is one service of a domain.
type service struct {
	about    string
	fields   map[string]string // type of each field: number, text, list, bool, any
	needs    []string          // required fields
	response string            // "", "optional" or "only"
	target   bool              // acts on entities
	does     func(h *House, e *entity, data attrs, c *callCtx) (string, attrs, *refusal)
	once     func(h *House, data attrs, c *callCtx) (any, *refusal) // for services without a target or with a response
}

// callCtx is one call in progress.
type callCtx struct {
	ctx     origin
	domain  string
	name    string
	targets []*entity
	depth   int
}

func to(state string) func(*House, *entity, attrs, *callCtx) (string, attrs, *refusal) {
	return func(*House, *entity, attrs, *callCtx) (string, attrs, *refusal) { return state, nil, nil }
}

func same(e *entity) string { return e.now().state }

// keep returns a service that sets an attribute from a field and keeps the state.
func keep(attr, field string) func(*House, *entity, attrs, *callCtx) (string, attrs, *refusal) {
	return func(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
		return same(e), attrs{attr: d[field]}, nil
	}
}

func lightOn(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
	with := attrs{}
	if v, ok := number(d["brightness_pct"]); ok {
		with["brightness"] = int(math.Round(v * 255 / 100))
	}
	if v, ok := number(d["brightness"]); ok {
		with["brightness"] = int(v)
	}
	if b, ok := with["brightness"].(int); ok {
		if b < 0 || b > 255 {
			return "", nil, refuse(codeFormat, "value must be at most 255 for dictionary value @ data['brightness']. Got %d", b)
		}
		if b == 0 {
			return "off", nil, nil
		}
	}
	if modes, _ := e.now().attrs["supported_color_modes"].([]any); slices.Contains(modes, any("onoff")) {
		with = attrs{}
	}
	for _, k := range []string{"color_temp_kelvin", "rgb_color", "effect"} {
		if d[k] != nil {
			with[k] = d[k]
		}
	}
	return "on", with, nil
}

func toggle(h *House, e *entity, d attrs, c *callCtx) (string, attrs, *refusal) {
	if e.now().state == "on" {
		return "off", nil, nil
	}
	if e.domain == "light" {
		return lightOn(h, e, d, c)
	}
	return "on", nil, nil
}

func setNumber(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
	v, ok := number(d["value"])
	lo, _ := number(e.now().attrs["min"])
	hi, _ := number(e.now().attrs["max"])
	if !ok || v < lo || v > hi {
		return "", nil, refuse(codeValidation, "Validation error: Value %v for %s is outside valid range %v - %v", d["value"], e.id, lo, hi)
	}
	return strconv.FormatFloat(v, 'f', -1, 64), nil, nil
}

func choose(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
	want, _ := d["option"].(string)
	opts, _ := e.now().attrs["options"].([]any)
	if !slices.Contains(opts, any(want)) {
		return "", nil, refuse(codeValidation, "Validation error: Option %s is not valid for entity %s", want, e.id)
	}
	return want, nil, nil
}

func setTemperature(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
	v, ok := number(d["temperature"])
	if !ok {
		return "", nil, refuse(codeFormat, "expected float for dictionary value @ data['temperature']")
	}
	lo, _ := number(e.now().attrs["min_temp"])
	hi, _ := number(e.now().attrs["max_temp"])
	if v < lo || v > hi {
		return "", nil, refuse(codeValidation, "Validation error: Provided temperature %v is not valid. Accepted range is %v to %v", v, lo, hi)
	}
	return same(e), attrs{"temperature": v}, nil
}

func oneOf(field, attr string, isState bool) func(*House, *entity, attrs, *callCtx) (string, attrs, *refusal) {
	return func(_ *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
		want, _ := d[field].(string)
		opts, _ := e.now().attrs[attr].([]any)
		if !slices.Contains(opts, any(want)) {
			return "", nil, refuse(codeValidation, "Validation error: %s %s is not valid. Valid ones are: %s", strings.ReplaceAll(field, "_", " "), want, joinAny(opts))
		}
		if isState {
			return want, nil, nil
		}
		return same(e), attrs{field: want}, nil
	}
}

func joinAny(in []any) string {
	out := make([]string, len(in))
	for i, v := range in {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ", ")
}

func pressed(h *House, _ *entity, _ attrs, _ *callCtx) (string, attrs, *refusal) {
	return stamp(h.now()), nil, nil
}

// run runs an automation, a script or a scene.
func run(h *House, e *entity, _ attrs, c *callCtx) (string, attrs, *refusal) {
	if e.routine == nil || c.depth > 3 {
		return same(e), nil, nil
	}
	at := h.now()
	child := origin{id: h.newID(at), parent: c.ctx.id, user: c.ctx.user}
	if e.domain != "scene" {
		h.moment(moment{at, e.title(), map[string]string{"automation": "triggered", "script": "started"}[e.domain], e.domain, e.id, child})
		h.emit(event{kind: map[string]string{"automation": "automation_triggered", "script": "script_started"}[e.domain], at: at, ctx: child, data: attrs{"name": e.title(), "entity_id": e.id}})
	}
	for _, s := range e.routine.does {
		data := attrs{}
		for k, v := range s.data {
			data[k] = v
		}
		if s.entity != "" {
			data["entity_id"] = s.entity
		}
		domain, name, _ := strings.Cut(s.service, ".")
		if _, _, err := h.call(domain, name, data, nil, child, c.depth+1); err != nil {
			h.warn("ERROR", "homeassistant.components."+e.domain, e.title()+": "+err.message)
		}
	}
	if e.domain == "scene" {
		return stamp(at), nil, nil
	}
	return same(e), attrs{"last_triggered": stamp(at)}, nil
}

// services returns the services of the house, by domain.
func services() map[string]map[string]*service {
	onOff := func(fields map[string]string) map[string]*service {
		return map[string]*service{
			"turn_on":  {about: "Turns it on.", target: true, fields: fields, does: to("on")},
			"turn_off": {about: "Turns it off.", target: true, does: to("off")},
			"toggle":   {about: "Turns it on or off.", target: true, fields: fields, does: toggle},
		}
	}
	light := map[string]string{"brightness": "number", "brightness_pct": "number", "transition": "number", "color_temp_kelvin": "number", "rgb_color": "list", "effect": "text", "flash": "text"}
	s := map[string]map[string]*service{
		"light": {
			"turn_on":  {about: "Turns on one or more lights and adjusts their properties.", target: true, fields: light, does: lightOn},
			"turn_off": {about: "Turns off one or more lights.", target: true, fields: map[string]string{"transition": "number", "flash": "text"}, does: to("off")},
			"toggle":   {about: "Toggles one or more lights.", target: true, fields: light, does: toggle},
		},
		"switch": onOff(nil), "input_boolean": onOff(nil), "siren": onOff(nil), "humidifier": onOff(nil), "fan": onOff(map[string]string{"percentage": "number"}),
		"automation": onOff(nil), "homeassistant": onOff(light), "media_player": onOff(nil), "remote": onOff(nil),
		"climate": {
			"set_temperature": {about: "Sets the target temperature.", target: true, fields: map[string]string{"temperature": "number", "hvac_mode": "text"}, needs: []string{"temperature"}, does: setTemperature},
			"set_hvac_mode":   {about: "Sets the mode of heating and cooling.", target: true, fields: map[string]string{"hvac_mode": "text"}, needs: []string{"hvac_mode"}, does: oneOf("hvac_mode", "hvac_modes", true)},
			"set_preset_mode": {about: "Sets the preset.", target: true, fields: map[string]string{"preset_mode": "text"}, needs: []string{"preset_mode"}, does: oneOf("preset_mode", "preset_modes", false)},
			"turn_on":         {about: "Turns climate on.", target: true, does: to("heat")},
			"turn_off":        {about: "Turns climate off.", target: true, does: to("off")},
		},
		"cover": {
			"open_cover": {about: "Opens a cover.", target: true, does: func(*House, *entity, attrs, *callCtx) (string, attrs, *refusal) {
				return "open", attrs{"current_position": 100}, nil
			}},
			"close_cover": {about: "Closes a cover.", target: true, does: to("closed")},
			"stop_cover":  {about: "Stops a cover.", target: true, does: func(_ *House, e *entity, _ attrs, _ *callCtx) (string, attrs, *refusal) { return same(e), nil, nil }},
			"set_cover_position": {about: "Moves a cover to a position.", target: true, fields: map[string]string{"position": "number"}, needs: []string{"position"}, does: func(_ *House, _ *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
				v, ok := number(d["position"])
				if !ok || v < 0 || v > 100 {
					return "", nil, refuse(codeFormat, "value must be at most 100 for dictionary value @ data['position']. Got %v", d["position"])
				}
				state := "open"
				if v == 0 {
					state = "closed"
				}
				return state, attrs{"current_position": int(v)}, nil
			}},
		},
		"valve": {"open_valve": {about: "Opens a valve.", target: true, does: to("open")}, "close_valve": {about: "Closes a valve.", target: true, does: to("closed")}},
		"lock":  {"lock": {about: "Locks a lock.", target: true, does: to("locked")}, "unlock": {about: "Unlocks a lock.", target: true, does: to("unlocked")}},
		"alarm_control_panel": {
			"alarm_disarm":    {about: "Disarms the alarm.", target: true, fields: map[string]string{"code": "text"}, does: to("disarmed")},
			"alarm_arm_home":  {about: "Arms the alarm for people at home.", target: true, fields: map[string]string{"code": "text"}, does: to("armed_home")},
			"alarm_arm_away":  {about: "Arms the alarm for nobody at home.", target: true, fields: map[string]string{"code": "text"}, does: to("armed_away")},
			"alarm_arm_night": {about: "Arms the alarm for the night.", target: true, fields: map[string]string{"code": "text"}, does: to("armed_night")},
		},
		"vacuum":     {"start": {about: "Starts cleaning.", target: true, does: to("cleaning")}, "pause": {about: "Pauses.", target: true, does: to("paused")}, "stop": {about: "Stops.", target: true, does: to("idle")}, "return_to_base": {about: "Sends it to its dock.", target: true, does: to("docked")}},
		"lawn_mower": {"start_mowing": {about: "Starts mowing.", target: true, does: to("mowing")}, "dock": {about: "Sends it to its dock.", target: true, does: to("docked")}},
		"water_heater": {
			"set_temperature":    {about: "Sets the target temperature.", target: true, fields: map[string]string{"temperature": "number"}, needs: []string{"temperature"}, does: setTemperature},
			"set_operation_mode": {about: "Sets the mode of operation.", target: true, fields: map[string]string{"operation_mode": "text"}, needs: []string{"operation_mode"}, does: oneOf("operation_mode", "operation_list", true)},
		},
		"number":       {"set_value": {about: "Sets the value.", target: true, fields: map[string]string{"value": "any"}, needs: []string{"value"}, does: setNumber}},
		"input_number": {"set_value": {about: "Sets the value.", target: true, fields: map[string]string{"value": "any"}, needs: []string{"value"}, does: setNumber}},
		"select":       {"select_option": {about: "Selects an option.", target: true, fields: map[string]string{"option": "text"}, needs: []string{"option"}, does: choose}},
		"input_select": {"select_option": {about: "Selects an option.", target: true, fields: map[string]string{"option": "text"}, needs: []string{"option"}, does: choose}},
		"button":       {"press": {about: "Presses a button.", target: true, does: pressed}},
		"timer":        {"start": {about: "Starts a timer.", target: true, fields: map[string]string{"duration": "any"}, does: to("active")}, "cancel": {about: "Cancels a timer.", target: true, does: to("idle")}},
		"scene":        {"turn_on": {about: "Activates a scene.", target: true, fields: map[string]string{"transition": "number"}, does: run}},
		"script":       {"turn_on": {about: "Runs a script.", target: true, fields: map[string]string{"variables": "any"}, does: run}, "turn_off": {about: "Stops a script.", target: true, does: func(_ *House, e *entity, _ attrs, _ *callCtx) (string, attrs, *refusal) { return same(e), nil, nil }}},
		"persistent_notification": {"create": {about: "Shows a notification.", fields: map[string]string{"message": "text", "title": "text", "notification_id": "text"}, needs: []string{"message"}, once: func(h *House, _ attrs, _ *callCtx) (any, *refusal) {
			h.notes++
			return nil, nil
		}}},
		"notify": {"send_message": {about: "Sends a message.", target: true, fields: map[string]string{"message": "text", "title": "text"}, needs: []string{"message"}, does: pressed}},
		"weather": {"get_forecasts": {about: "Retrieves the forecast.", target: true, fields: map[string]string{"type": "text"}, needs: []string{"type"}, response: "only", once: func(h *House, _ attrs, c *callCtx) (any, *refusal) {
			out := attrs{}
			for _, e := range c.targets {
				var days []any
				for i := range 5 {
					days = append(days, attrs{"datetime": stamp(h.day(h.now()).Add(time24(i + 1))), "condition": []string{"rainy", "cloudy", "sunny"}[i%3], "temperature": 9 + i, "templow": 3 + i%2, "precipitation": float64(i%3) * 2.4})
				}
				out[e.id] = attrs{"forecast": days}
			}
			return out, nil
		}}},
		"todo": {
			"get_items": {about: "Gets the items of a list.", target: true, fields: map[string]string{"status": "any"}, response: "only", once: func(h *House, _ attrs, c *callCtx) (any, *refusal) {
				out := attrs{}
				for _, e := range c.targets {
					items := []any{}
					for _, it := range h.todo {
						items = append(items, attrs{"uid": it.uid, "summary": it.text, "status": map[bool]string{true: "completed", false: "needs_action"}[it.done]})
					}
					out[e.id] = attrs{"items": items}
				}
				return out, nil
			}},
			"add_item": {about: "Adds an item to a list.", target: true, fields: map[string]string{"item": "text"}, needs: []string{"item"}, does: func(h *House, e *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
				if len(h.todo) >= maxExtra {
					return "", nil, refuse(codeFailed, "the list is full")
				}
				h.todo = append(h.todo, todoItem{h.newID(h.now()), fmt.Sprint(d["item"]), false})
				return strconv.Itoa(len(h.todo)), nil, nil
			}},
		},
	}
	s["media_player"]["turn_on"].does = to("on")
	for name, state := range map[string]string{"media_play": "playing", "media_pause": "paused", "media_stop": "idle"} {
		s["media_player"][name] = &service{about: "Controls playback.", target: true, does: to(state)}
	}
	s["media_player"]["volume_set"] = &service{about: "Sets the volume.", target: true, fields: map[string]string{"volume_level": "number"}, needs: []string{"volume_level"}, does: keep("volume_level", "volume_level")}
	s["media_player"]["volume_mute"] = &service{about: "Mutes.", target: true, fields: map[string]string{"is_volume_muted": "bool"}, needs: []string{"is_volume_muted"}, does: keep("is_volume_muted", "is_volume_muted")}
	s["media_player"]["select_source"] = &service{about: "Selects a source.", target: true, fields: map[string]string{"source": "text"}, needs: []string{"source"}, does: keep("source", "source")}
	s["fan"]["set_percentage"] = &service{about: "Sets the speed.", target: true, fields: map[string]string{"percentage": "number"}, needs: []string{"percentage"}, does: func(_ *House, _ *entity, d attrs, _ *callCtx) (string, attrs, *refusal) {
		v, _ := number(d["percentage"])
		if v == 0 {
			return "off", nil, nil
		}
		return "on", attrs{"percentage": int(v)}, nil
	}}
	s["humidifier"]["set_humidity"] = &service{about: "Sets the humidity.", target: true, fields: map[string]string{"humidity": "number"}, needs: []string{"humidity"}, does: keep("humidity", "humidity")}
	s["automation"]["trigger"] = &service{about: "Triggers the actions of an automation.", target: true, fields: map[string]string{"skip_condition": "bool"}, does: run}
	s["homeassistant"]["update_entity"] = &service{about: "Asks an entity to report.", target: true, does: func(_ *House, e *entity, _ attrs, _ *callCtx) (string, attrs, *refusal) { return same(e), nil, nil }}
	s["homeassistant"]["check_config"] = &service{about: "Checks the configuration.", once: func(*House, attrs, *callCtx) (any, *refusal) { return nil, nil }}
	s["system_log"] = map[string]*service{
		"clear": {about: "Clears the log.", once: func(h *House, _ attrs, _ *callCtx) (any, *refusal) { h.log = nil; return nil, nil }},
		"write": {about: "Writes into the log.", fields: map[string]string{"message": "text", "level": "text", "logger": "text"}, needs: []string{"message"}, once: func(h *House, d attrs, _ *callCtx) (any, *refusal) {
			level, _ := d["level"].(string)
			if level == "" {
				level = "error"
			}
			h.warn(strings.ToUpper(level), "homeassistant.components.system_log.external", fmt.Sprint(d["message"]))
			return nil, nil
		}},
	}
	for _, r := range routines() { // each script is also a service with its own name
		if name, ok := strings.CutPrefix(r.id, "script."); ok {
			s["script"][name] = &service{about: r.name, once: func(h *House, _ attrs, c *callCtx) (any, *refusal) {
				_, _, err := run(h, h.entities["script."+name], nil, c)
				return nil, err
			}}
		}
	}
	return s
}
