package homeassistant

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Story is what happened in the house last night: the reason why the bedroom lights flickered.
type Story string

const (
	// The heat pump's compressor starts repeatedly, the voltage of phase L1 dips each time, and
	// the bulbs on it drop out for seconds. The default.
	StoryVoltageDip Story = "voltage_dip"
	// The Wi-Fi moved to the channel of the Zigbee network: the bedroom's bulbs lose their
	// connection and come back. The voltage is normal.
	StoryZigbee Story = "zigbee_interference"
	// A motion sensor flaps, and an automation toggles the ceiling light each time.
	StoryAutomation Story = "automation_loop"
	// Nothing happened.
	StoryQuiet Story = "quiet"
)

// Stories lists all stories.
func Stories() []Story {
	return []Story{StoryVoltageDip, StoryZigbee, StoryAutomation, StoryQuiet}
}

// moment is a logbook entry that is not a state change.
type moment struct {
	at                            time.Time
	name, message, domain, entity string
	ctx                           origin
}

type logEntry struct {
	name, level, file, exception string
	line                         int
	messages                     []string
	first, last                  time.Time
	count                        int
}

// Night returns the day on whose evening the story begins: the last night that is over. Before
// five in the morning, that is not the current one.
func (h *House) Night() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.night()
}

func (h *House) night() time.Time { return h.day(h.made.Add(-29 * h1)) }

// put adds a record to the history; settle sorts it in.
func (h *House) put(id string, at time.Time, state string, ctx origin) {
	if at.After(h.made) {
		return
	}
	if ctx.id == "" {
		ctx.id = h.newID(at)
	}
	e := h.entities[id]
	e.recs = append(e.recs, record{state: state, updated: at, ctx: ctx})
}

// quiet removes an entity's usual changes in a time range.
func (h *House) quiet(id string, from, to time.Time) {
	e := h.entities[id]
	e.recs = slices.DeleteFunc(e.recs, func(r record) bool { return r.updated.After(from) && r.updated.Before(to) })
}

// logged adds an entry to the error log, repeated count times between first and last.
func (h *House) logged(level, name, file string, line int, first, last time.Time, count int, messages ...string) {
	h.log = append(h.log, &logEntry{name: name, level: level, file: file, line: line, messages: messages, first: first, last: last, count: count})
}

func (h *House) triggered(automation, source string, at time.Time) origin {
	ctx := origin{id: h.newID(at), parent: h.newID(at)}
	e := h.entities[automation]
	h.moments = append(h.moments, moment{at, e.title(), "triggered by " + source, "automation", automation, ctx})
	e.recs = append(e.recs, record{state: e.recs[0].state, updated: at, ctx: ctx, attrs: attrs{"last_triggered": stamp(at)}})
	return ctx
}

func (h *House) tell() {
	night := h.night()
	clock := func(hh, mm, ss int) time.Time {
		return night.Add(time.Duration(hh)*h1 + time.Duration(mm)*m1 + time.Duration(ss)*time.Second)
	}
	h.background(clock)
	switch h.o.Story {
	case StoryVoltageDip:
		h.tellDips(clock)
	case StoryZigbee:
		h.tellZigbee(clock)
	case StoryAutomation:
		h.tellLoop(clock)
	}
}

// background adds the entries that any house's log has.
func (h *House) background(clock func(hh, mm, ss int) time.Time) {
	h.logged("ERROR", "homeassistant.components.mqtt.client", "components/mqtt/client.py", 1032, clock(3, 12, 9), clock(20, 4, 41), 3,
		"Disconnected from MQTT server core-mosquitto:1883 (7)")
	h.logged("ERROR", "homeassistant.components.met.coordinator", "helpers/update_coordinator.py", 421, clock(1, 2, 3), clock(30, 17, 20), 11,
		"Timeout fetching met data")
	h.logged("WARNING", "homeassistant.components.tuya", "components/tuya/__init__.py", 214, clock(-9, 0, 0), clock(9, 30, 0), 27,
		"Device switch.old_office_plug is offline: no answer from bf8c1e")
	h.logged("WARNING", "homeassistant.helpers.template", "helpers/template.py", 2480, clock(7, 0, 1), clock(7, 0, 1), 1,
		"Template variable warning: 'forecast' is undefined when rendering '{{ forecast[0].temperature }}'")
	h.logged("ERROR", "homeassistant.components.automation.window_heating", "components/automation/__init__.py", 711, clock(7, 46, 5), clock(7, 46, 5), 1,
		"No heating with the window open: Error executing script. Error for call_service at pos 1: climate.bedroom_radiator: tado API rate limit")
	h.triggered("automation.garden_at_sunset", "sunset", clock(16, 59, 58))
	h.triggered("automation.bedtime", "time", clock(23, 59, 0))
}

// tellDips tells StoryVoltageDip: five starts of the compressor, each with a dip and its
// effects.
func (h *House) tellDips(clock func(hh, mm, ss int) time.Time) {
	dips := []struct {
		at    time.Time
		volts float64
	}{{clock(22, 34, 10), 201.8}, {clock(22, 52, 41), 199.4}, {clock(23, 17, 5), 196.3}, {clock(23, 41, 30), 203.1}, {clock(24, 26, 48), 197.7}}
	h.quiet("light.bedroom_ceiling", clock(22, 30, 0), clock(24, 40, 0))
	h.quiet("light.bedroom_bedside_left", clock(22, 30, 0), clock(24, 40, 0))
	volts := func(at time.Time, v float64) {
		h.put("sensor.mains_voltage_l1", at, strconv.FormatFloat(v, 'f', 1, 64), origin{})
	}
	for i, d := range dips {
		h.put("binary_sensor.heat_pump_compressor", d.at.Add(-2*time.Second), "on", origin{})
		h.put("sensor.heat_pump_power", d.at, strconv.Itoa(3870+i*35), origin{})
		volts(d.at, d.volts)
		volts(d.at.Add(3*time.Second), 226.9+float64(i)/10)
		h.put("sensor.heat_pump_power", d.at.Add(40*time.Second), strconv.Itoa(1640+i*20), origin{})
		h.put("binary_sensor.heat_pump_compressor", d.at.Add(time.Duration(5+i)*m1), "off", origin{})
		h.triggered("automation.mains_voltage_alert", "numeric state of sensor.mains_voltage_l1", d.at.Add(200*time.Millisecond))

		bulbs := []string{"light.bedroom_ceiling", "light.bedroom_bedside_left"}
		for j, id := range bulbs {
			after := d.at.Add(time.Duration(700+j*260) * time.Millisecond)
			h.put(id, after, "unavailable", origin{})
			h.put(id, after.Add(time.Duration(2900+i*120)*time.Millisecond), "on", origin{})
		}
	}
	// At the last dip the lights were off: when power returns they come on, and Ana turns them
	// off.
	last := dips[len(dips)-1].at
	for _, id := range []string{"light.bedroom_ceiling", "light.bedroom_bedside_left"} {
		h.put(id, clock(23, 58, 30), "off", origin{})
		h.put(id, last.Add(52*time.Second), "off", origin{id: h.newID(last), user: userAna.id})
	}
	h.logged("WARNING", "homeassistant.components.shelly", "components/shelly/coordinator.py", 602, dips[0].at, last, len(dips),
		"Mains meter: undervoltage on phase A: 201.8 V", "Mains meter: undervoltage on phase A: 196.3 V", "Mains meter: undervoltage on phase A: 197.7 V")
	h.logged("ERROR", "homeassistant.components.daikin_onecta", "components/daikin_onecta/climate.py", 388, last.Add(time.Minute), last.Add(time.Minute), 1,
		"Heat pump: fault U2 (power supply): compressor restarted 5 times within 2 hours, soft starter not responding")
	h.logged("WARNING", "zigpy.zcl", "zigpy/zcl/__init__.py", 512, dips[0].at.Add(time.Second), last.Add(time.Second), 9,
		"[0x4F2C:1:0x0006] light.bedroom_ceiling: device did not respond, rejoined after power loss", "[0x9A01:1:0x0006] light.bedroom_bedside_left: device did not respond, rejoined after power loss")
}

// tellZigbee tells StoryZigbee: the radio is jammed twice, for three quarters of an hour.
func (h *House) tellZigbee(clock func(hh, mm, ss int) time.Time) {
	h.quiet("light.bedroom_ceiling", clock(22, 10, 0), clock(23, 57, 0))
	h.quiet("light.bedroom_bedside_left", clock(22, 10, 0), clock(23, 57, 0))
	drops := []time.Time{clock(22, 21, 15), clock(22, 29, 2), clock(22, 37, 48), clock(23, 8, 33), clock(23, 20, 11), clock(23, 31, 57)}
	for i, t := range drops {
		for j, id := range []string{"light.bedroom_ceiling", "light.bedroom_bedside_left"} {
			lost := t.Add(time.Duration(j*1900) * time.Millisecond)
			h.put(id, lost, "unavailable", origin{})
			h.put(id, lost.Add(time.Duration(6+i)*time.Second), "on", origin{})
			h.put("sensor."+id[len("light."):]+"_lqi", lost, strconv.Itoa(9+2*i+j), origin{})
			h.put("sensor."+id[len("light."):]+"_lqi", lost.Add(4*m1), strconv.Itoa(61+i), origin{})
		}
	}
	for i, t := 0, clock(22, 18, 0); t.Before(clock(23, 40, 0)); i, t = i+1, t.Add(4*m1) {
		h.put("sensor.zigbee_channel_utilisation", t, strconv.Itoa(78+(i*7)%17), origin{})
	}
	h.logged("WARNING", "homeassistant.components.fritz", "components/fritz/coordinator.py", 377, clock(22, 17, 30), clock(22, 17, 30), 1,
		"Router: automatic channel change, 2.4 GHz Wi-Fi moved from channel 1 to channel 11 at 40 MHz")
	h.logged("ERROR", "homeassistant.components.zha.light", "components/zha/light.py", 240, drops[0], drops[5], 14,
		"light.bedroom_ceiling: Failed to send request: MAC_CHANNEL_ACCESS_FAILURE", "light.bedroom_bedside_left: Failed to send request: MAC_CHANNEL_ACCESS_FAILURE")
	h.logged("WARNING", "zigpy.application", "zigpy/application.py", 921, drops[0], drops[5], 1,
		"Zigbee channel 24 utilization is 94.1%!")
}

// tellLoop tells StoryAutomation: the sensor reports motion where there is none, and the
// automation reacts every time.
func (h *House) tellLoop(clock func(hh, mm, ss int) time.Time) {
	const id = "light.bedroom_ceiling"
	h.quiet(id, clock(22, 40, 0), clock(23, 57, 0))
	on := true // from the evening on
	for i := range 16 {
		t := clock(22, 44, 6).Add(time.Duration(i)*47*time.Second + time.Duration(i*i)*600*time.Millisecond)
		h.put("binary_sensor.bedroom_motion", t, "on", origin{})
		ctx := h.triggered("automation.bedroom_night_light", "state of binary_sensor.bedroom_motion", t.Add(40*time.Millisecond))
		state := "on"
		if on {
			state = "off"
		}
		on = !on
		h.put(id, t.Add(310*time.Millisecond), state, ctx)
		h.put("binary_sensor.bedroom_motion", t.Add(21*time.Second), "off", origin{})
	}
	h.logged("WARNING", "homeassistant.components.automation.bedroom_night_light", "helpers/script.py", 1860, clock(22, 44, 50), clock(22, 58, 0), 6,
		"Bedroom night light: Already running")
	h.logged("WARNING", "homeassistant.components.hue.v2.binary_sensor", "components/hue/v2/binary_sensor.py", 151, clock(22, 43, 0), clock(22, 58, 0), 4,
		fmt.Sprintf("Bedroom motion: %d motion reports in 15 minutes, battery low (4%%)", 16))
}
