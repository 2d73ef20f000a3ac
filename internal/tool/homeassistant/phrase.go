package homeassistant

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A phrase says how a service call is described to a person: the action, with %s for its
// targets, and the data field that belongs to it, if any.
type phrase struct {
	say   string
	join  string // before the value
	field string
	unit  string // "°" is the house's unit of temperature, "/1" a fraction shown in percent
}

// anyDomain are the services with the same meaning in every domain.
var anyDomain = map[string]phrase{
	"turn_on":  {say: "Turn on %s"},
	"turn_off": {say: "Turn off %s"},
	"toggle":   {say: "Turn %s on or off, whichever it is not"},
}

var phrases = map[string]phrase{
	"light.turn_on":                          {"Turn on %s", " at ", "brightness_pct", "%"},
	"fan.turn_on":                            {"Turn on %s", " at ", "percentage", "%"},
	"fan.set_percentage":                     {"Set %s", " to ", "percentage", "%"},
	"fan.set_preset_mode":                    {"Set %s", " to ", "preset_mode", ""},
	"climate.set_temperature":                {"Set %s", " to ", "temperature", "°"},
	"climate.set_hvac_mode":                  {"Set %s", " to ", "hvac_mode", ""},
	"climate.set_preset_mode":                {"Set %s", " to ", "preset_mode", ""},
	"water_heater.set_temperature":           {"Set %s", " to ", "temperature", "°"},
	"water_heater.set_operation_mode":        {"Set %s", " to ", "operation_mode", ""},
	"humidifier.set_humidity":                {"Set %s", " to ", "humidity", "%"},
	"cover.open_cover":                       {say: "Open %s"},
	"cover.close_cover":                      {say: "Close %s"},
	"cover.stop_cover":                       {say: "Stop %s"},
	"cover.set_cover_position":               {"Set %s", " to ", "position", "% open"},
	"valve.open_valve":                       {say: "Open %s"},
	"valve.close_valve":                      {say: "Close %s"},
	"valve.set_valve_position":               {"Set %s", " to ", "position", "% open"},
	"lock.lock":                              {say: "Lock %s"},
	"lock.unlock":                            {say: "Unlock %s"},
	"lock.open":                              {say: "Open %s"},
	"media_player.media_play":                {say: "Play on %s"},
	"media_player.media_pause":               {say: "Pause %s"},
	"media_player.media_stop":                {say: "Stop %s"},
	"media_player.media_next_track":          {say: "Skip to the next track on %s"},
	"media_player.media_previous_track":      {say: "Go back to the previous track on %s"},
	"media_player.volume_up":                 {say: "Turn up %s"},
	"media_player.volume_down":               {say: "Turn down %s"},
	"media_player.volume_set":                {"Set the volume of %s", " to ", "volume_level", "/1"},
	"media_player.select_source":             {"Switch %s", " to ", "source", ""},
	"vacuum.start":                           {say: "Start %s"},
	"vacuum.pause":                           {say: "Pause %s"},
	"vacuum.stop":                            {say: "Stop %s"},
	"vacuum.return_to_base":                  {say: "Send %s back to its base"},
	"lawn_mower.start_mowing":                {say: "Start %s"},
	"lawn_mower.pause":                       {say: "Pause %s"},
	"lawn_mower.dock":                        {say: "Send %s back to its base"},
	"scene.turn_on":                          {say: "Activate the scene %s"},
	"script.turn_on":                         {say: "Run the script %s"},
	"script.turn_off":                        {say: "Stop the script %s"},
	"automation.turn_on":                     {say: "Enable the automation %s"},
	"automation.turn_off":                    {say: "Disable the automation %s"},
	"automation.trigger":                     {say: "Run the automation %s"},
	"button.press":                           {say: "Press %s"},
	"input_button.press":                     {say: "Press %s"},
	"number.set_value":                       {"Set %s", " to ", "value", ""},
	"input_number.set_value":                 {"Set %s", " to ", "value", ""},
	"select.select_option":                   {"Set %s", " to ", "option", ""},
	"input_select.select_option":             {"Set %s", " to ", "option", ""},
	"alarm_control_panel.alarm_disarm":       {say: "Disarm %s"},
	"alarm_control_panel.alarm_arm_home":     {say: "Arm %s for people at home"},
	"alarm_control_panel.alarm_arm_away":     {say: "Arm %s for nobody at home"},
	"alarm_control_panel.alarm_arm_night":    {say: "Arm %s for the night"},
	"alarm_control_panel.alarm_arm_vacation": {say: "Arm %s for a holiday"},
	"homeassistant.restart":                  {say: "Restart Home Assistant"},
	"homeassistant.stop":                     {say: "Stop Home Assistant"},
}

const (
	maxThings = 3 // targets that a phrase names
	maxExtras = 3 // other data fields that it names
)

// Words implements seam.Worder: it describes a call with the house's names. It mentions
// everything the call asks for, so that a person approves only what they have read.
func (t *Toolset) Words(tool string, input json.RawMessage) string {
	var in callInput
	if tool != CallService || t.index.empty() || json.Unmarshal(input, &in) != nil {
		return ""
	}
	c, err := t.check(in)
	aimed := len(in.Target.Entities)+len(in.Target.Devices)+len(in.Target.Areas) > 0
	if err != nil || aimed && len(c.entities) == 0 {
		return ""
	}
	return t.index.words(c)
}

func (x *Index) words(c checked) string {
	rest := maps.Clone(c.in.Data)
	p, known := phrases[c.in.Service]
	if !known {
		p, known = anyDomain[c.name]
	}
	said := ""
	switch {
	case c.domain == "notify" && len(c.entities) == 0:
		said = "Notify " + humane(c.name)
		if v, ok := rest["message"].(string); ok {
			said += ": " + quoted(v)
			delete(rest, "message")
		}
	case known && strings.Contains(p.say, "%s") == (len(c.entities) > 0):
		said = p.say
		if len(c.entities) > 0 {
			said = fmt.Sprintf(p.say, x.things(c.entities))
		}
		if v, ok := rest[p.field]; ok && p.field != "" {
			said += p.join + x.value(v, p.unit)
			delete(rest, p.field)
		}
	case c.domain == "script" && len(c.entities) == 0:
		e, ok := x.Entity(c.in.Service) // a script is also a service of its own name
		if !ok || e.Name == "" {
			e.Name = humane(c.name)
		}
		said = "Run the script " + clip(e.Name, 80)
	default:
		said = "Use “" + x.serviceName(c.domain, c.name) + "”"
		if len(c.entities) > 0 {
			said += " on " + x.things(c.entities)
		} else {
			said += " of " + strings.Replace(humane(c.domain), "Homeassistant", "Home Assistant", 1)
		}
	}
	return said + extras(rest)
}

// things returns the names of the first few entities, each distinct within its domain.
func (x *Index) things(es []Entity) string {
	var out []string
	for _, e := range es[:min(len(es), maxThings)] {
		out = append(out, x.nameOf(e))
	}
	if more := len(es) - maxThings; more > 0 {
		return strings.Join(out, ", ") + " and " + strconv.Itoa(more) + " more"
	}
	if n := len(out); n > 1 {
		return strings.Join(out[:n-1], ", ") + " and " + out[n-1]
	}
	return strings.Join(out, "")
}

// nameOf returns the name of an entity, with its area or else its id if another entity of its
// domain has the same name.
func (x *Index) nameOf(e Entity) string {
	name := clip(e.Name, 80)
	if name == "" {
		return e.ID
	}
	same, near := false, false
	for _, o := range x.Entities() {
		if o.ID != e.ID && strings.EqualFold(o.Name, e.Name) && domainOf(o.ID) == domainOf(e.ID) {
			same = true
			near = near || o.AreaID == e.AreaID
		}
	}
	switch {
	case !same:
		return name
	case near || e.Area == "":
		return name + " (" + e.ID + ")"
	}
	return name + " (" + clip(e.Area, 40) + ")"
}

// value formats a value of a call's data with its unit.
func (x *Index) value(v any, unit string) string {
	n, ok := numberOf(v)
	if !ok {
		return spelt(v)
	}
	switch unit {
	case "°":
		x.mu.RLock()
		defer x.mu.RUnlock()
		unit = x.config.Units.Temperature
	case "/1":
		n, unit = n*100, "%"
	}
	return strings.TrimSpace(strconv.FormatFloat(n, 'f', -1, 64) + " " + unit)
}

// extras describes the rest of a call's data, apart from what was already mentioned.
func extras(data map[string]any) string {
	if len(data) == 0 {
		return ""
	}
	var out []string
	keys := slices.Sorted(maps.Keys(data))
	for _, k := range keys[:min(len(keys), maxExtras)] {
		out = append(out, strings.ReplaceAll(clip(k, 40), "_", " ")+" "+spelt(data[k]))
	}
	if more := len(keys) - maxExtras; more > 0 {
		out = append(out, strconv.Itoa(more)+" more")
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// spelt formats a value as a person would write it.
func spelt(v any) string {
	switch v := v.(type) {
	case string:
		if _, number := value(v); number || !strings.ContainsAny(v, " ,()") && v != "" {
			return clip(v, 60)
		}
		return quoted(v)
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	raw, _ := json.Marshal(v)
	return clip(string(raw), 60)
}

func quoted(s string) string { return "“" + clip(s, 80) + "”" }

// serviceName returns Home Assistant's name of a service.
func (x *Index) serviceName(domain, name string) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var has struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(x.services[domain][name], &has) // not every service has one
	if has.Name = clip(has.Name, 60); has.Name == "" {
		return humane(name)
	}
	return has.Name
}

// humane turns the last part of an id into words.
func humane(id string) string {
	s := strings.TrimSpace(strings.ReplaceAll(id, "_", " "))
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return id
	}
	return string(unicode.ToUpper(first)) + s[size:]
}
