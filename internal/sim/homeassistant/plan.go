package homeassistant

import "time"

type area struct {
	id, name, floor, icon string
	aliases               []string
}

type device struct {
	id, key, name, maker, model, area, platform, via, sw string
	service                                              bool
}

// plan describes an entity when the house is made. An entity without a name is its device's main
// one and has the device's name.
type plan struct {
	id, name, class, unit, state string
	attrs                        attrs
	wave                         *wave
	days                         []daily
	category                     string
	hidden                       bool
	// unlit makes a light that is off whenever somebody begins to look at the house, and that only
	// they switch. So the demo's question "Turn on the bedroom light" has the same answer at any
	// hour. The light's evenings and mornings are in the history once they are over.
	unlit bool
}

type attrs = map[string]any

// wave is a sensor that reports numbers: a mean, a daily swing with its maximum at four in the
// afternoon, and noise.
type wave struct {
	every            time.Duration
	mean, day, noise float64
	digits           int
	perHour          float64 // growth of a counter
}

// daily is a change that happens every day at about the same time.
type daily struct {
	at    time.Duration // since midnight
	state string
}

func every(d time.Duration, mean, day, noise float64, digits int) *wave {
	return &wave{every: d, mean: mean, day: day, noise: noise, digits: digits}
}

func counter(start, perHour float64) *wave {
	return &wave{every: 15 * time.Minute, mean: start, perHour: perHour, digits: 2}
}

func at(h, m int, state string) daily {
	return daily{time.Duration(h)*time.Hour + time.Duration(m)*time.Minute, state}
}

var floors = []area{{id: "ground", name: "Ground floor"}, {id: "upper", name: "Upper floor"}}

func thisHouse() []area {
	return []area{
		{id: "living_room", name: "Living room", floor: "ground", icon: "mdi:sofa", aliases: []string{"lounge"}},
		{id: "kitchen", name: "Kitchen", floor: "ground", icon: "mdi:silverware-fork-knife"},
		{id: "hallway", name: "Hallway", floor: "ground", icon: "mdi:door"},
		{id: "utility_room", name: "Utility room", floor: "ground", icon: "mdi:washing-machine", aliases: []string{"technical room"}},
		{id: "garage", name: "Garage", floor: "ground", icon: "mdi:garage"},
		{id: "garden", name: "Garden", icon: "mdi:flower"},
		{id: "bedroom", name: "Bedroom", floor: "upper", icon: "mdi:bed", aliases: []string{"master bedroom"}},
		{id: "kids_room", name: "Children's room", floor: "upper", icon: "mdi:teddy-bear", aliases: []string{"nursery"}},
		{id: "bathroom", name: "Bathroom", floor: "upper", icon: "mdi:shower"},
		{id: "office", name: "Office", floor: "upper", icon: "mdi:desk"},
	}
}

// furnished is a device with its entities.
type furnished struct {
	device
	has []plan
}

const (
	m1  = time.Minute
	m5  = 5 * time.Minute
	m10 = 10 * time.Minute
	h1  = time.Hour
)

func bulb(key, name, area string, hours ...daily) furnished {
	white := attrs{"supported_color_modes": []any{"color_temp"}, "min_color_temp_kelvin": 2202, "max_color_temp_kelvin": 4000, "supported_features": 40}
	return furnished{device{key: key, name: name, maker: "IKEA of Sweden", model: "TRADFRI bulb E27 WS", area: area, platform: "zha", via: "zigbee", sw: "2.3.093"}, []plan{
		{id: "light." + key, state: "off", attrs: white, days: hours},
		{id: "sensor." + key + "_lqi", name: "LQI", unit: "lqi", wave: every(h1, 188, 0, 12, 0), category: "diagnostic"},
	}}
}

func unlit(f furnished) furnished {
	f.has[0].unlit = true
	return f
}

func plug(key, name, area string, watts float64, hours ...daily) furnished {
	return furnished{device{key: key, name: name, maker: "Shelly", model: "Plus Plug S", area: area, platform: "shelly", sw: "1.4.4"}, []plan{
		{id: "switch." + key, class: "outlet", state: "on", days: hours},
		{id: "sensor." + key + "_power", name: "Power", class: "power", unit: "W", wave: every(m10, watts, watts/4, watts/3, 1)},
	}}
}

func climateSensor(key, name, area string, mean float64) furnished {
	return furnished{device{key: key, name: name, maker: "Aqara", model: "WSDCGQ11LM", area: area, platform: "zha", via: "zigbee"}, []plan{
		{id: "sensor." + key + "_temperature", name: "Temperature", class: "temperature", unit: "°C", wave: every(m10, mean, .9, .15, 1)},
		{id: "sensor." + key + "_humidity", name: "Humidity", class: "humidity", unit: "%", wave: every(m10, 52, 4, 1.5, 1)},
		{id: "sensor." + key + "_battery", name: "Battery", class: "battery", unit: "%", wave: every(6*h1, 71, 0, .4, 0), category: "diagnostic"},
	}}
}

func valve(key, name, area string, target float64) furnished {
	return furnished{device{key: key, name: name, maker: "tado", model: "VA02", area: area, platform: "tado"}, []plan{
		{id: "climate." + key, state: "heat", attrs: attrs{
			"hvac_modes": []any{"off", "heat", "auto"}, "min_temp": 5.0, "max_temp": 25.0, "target_temp_step": 0.5,
			"temperature": target, "current_temperature": target - 0.3, "hvac_action": "idle",
			"preset_modes": []any{"home", "away", "sleep"}, "preset_mode": "home", "supported_features": 401,
		}},
	}}
}

func motion(key, name, area string, hours ...daily) furnished {
	return furnished{device{key: key, name: name, maker: "Philips", model: "Hue motion SML003", area: area, platform: "hue"}, []plan{
		{id: "binary_sensor." + key, name: "Motion", class: "motion", state: "off", days: hours},
		{id: "sensor." + key + "_illuminance", name: "Illuminance", class: "illuminance", unit: "lx", wave: every(m10, 140, 120, 15, 0)},
	}}
}

func contact(key, name, area, class string, hours ...daily) furnished {
	return furnished{device{key: key, name: name, maker: "Aqara", model: "MCCGQ11LM", area: area, platform: "zha", via: "zigbee"}, []plan{
		{id: "binary_sensor." + key, name: "Contact", class: class, state: "off", days: hours},
	}}
}

func blind(key, name, area string, hours ...daily) furnished {
	return furnished{device{key: key, name: name, maker: "Somfy", model: "Oximo io", area: area, platform: "overkiz"}, []plan{
		{id: "cover." + key, class: "shutter", state: "open", attrs: attrs{"current_position": 100, "supported_features": 15}, days: hours},
	}}
}

// furniture lists everything in the house and its usual daily changes.
func furniture() []furnished {
	return []furnished{
		{device{key: "zigbee", name: "Zigbee coordinator", maker: "Nabu Casa", model: "ZBT-2", area: "hallway", platform: "zha", sw: "7.4.4.0"}, []plan{
			{id: "update.zigbee_firmware", name: "Firmware", class: "firmware", state: "off", attrs: attrs{"installed_version": "7.4.4.0", "latest_version": "7.4.4.0"}, category: "config"},
			{id: "sensor.zigbee_channel_utilisation", name: "Channel utilisation", unit: "%", wave: every(m10, 14, 5, 2, 0), category: "diagnostic"},
		}},
		{device{key: "mains", name: "Mains meter", maker: "Shelly", model: "Pro 3EM", area: "utility_room", platform: "shelly", sw: "1.4.4"}, []plan{
			{id: "sensor.mains_voltage_l1", name: "Voltage L1", class: "voltage", unit: "V", wave: every(m1, 231.4, 1.2, .8, 1)},
			{id: "sensor.mains_voltage_l2", name: "Voltage L2", class: "voltage", unit: "V", wave: every(m5, 232.1, 1.1, .8, 1)},
			{id: "sensor.mains_voltage_l3", name: "Voltage L3", class: "voltage", unit: "V", wave: every(m5, 230.8, 1.3, .8, 1)},
			{id: "sensor.mains_power", name: "Power", class: "power", unit: "W", wave: every(m5, 640, 310, 90, 0)},
			{id: "sensor.mains_energy", name: "Energy", class: "energy", unit: "kWh", wave: counter(18211.4, .62)},
			{id: "sensor.mains_frequency", name: "Frequency", class: "frequency", unit: "Hz", wave: every(m10, 50, 0, .02, 2)},
		}},
		{device{key: "heat_pump", name: "Heat pump", maker: "Daikin", model: "Altherma 3", area: "utility_room", platform: "daikin_onecta", sw: "3.1"}, []plan{
			{id: "binary_sensor.heat_pump_compressor", name: "Compressor", class: "running", state: "off", days: []daily{at(5, 31, "on"), at(7, 2, "off"), at(12, 20, "on"), at(13, 4, "off"), at(17, 15, "on"), at(18, 40, "off")}},
			{id: "sensor.heat_pump_power", name: "Power", class: "power", unit: "W", wave: every(m5, 310, 60, 45, 0)},
			{id: "sensor.heat_pump_flow_temperature", name: "Flow temperature", class: "temperature", unit: "°C", wave: every(m10, 33, 2, .6, 1)},
			{id: "water_heater.heat_pump_tank", name: "Tank", state: "eco", attrs: attrs{"temperature": 48.0, "current_temperature": 46.5, "operation_list": []any{"off", "eco", "performance"}, "operation_mode": "eco", "min_temp": 35.0, "max_temp": 60.0}},
		}},
		unlit(bulb("bedroom_ceiling", "Bedroom ceiling", "bedroom", at(6, 50, "on"), at(7, 40, "off"), at(21, 50, "on"), at(23, 58, "off"))),
		unlit(bulb("bedroom_bedside_left", "Bedside left", "bedroom", at(21, 55, "on"), at(23, 59, "off"))),
		unlit(bulb("bedroom_bedside_right", "Bedside right", "bedroom", at(21, 56, "on"), at(23, 45, "off"))),
		climateSensor("bedroom", "Bedroom climate", "bedroom", 18.9),
		motion("bedroom_motion", "Bedroom motion", "bedroom", at(6, 48, "on"), at(6, 52, "off"), at(21, 49, "on"), at(21, 51, "off")),
		contact("bedroom_window", "Bedroom window", "bedroom", "window", at(7, 45, "on"), at(8, 15, "off")),
		valve("bedroom_radiator", "Bedroom radiator", "bedroom", 18),
		blind("bedroom_blind", "Bedroom blind", "bedroom", at(7, 5, "open"), at(20, 30, "closed")),

		bulb("living_room_ceiling", "Living room ceiling", "living_room", at(17, 5, "on"), at(22, 40, "off")),
		bulb("living_room_reading", "Reading lamp", "living_room", at(19, 20, "on"), at(22, 41, "off")),
		{device{key: "living_room_tv", name: "Living room TV", maker: "LG", model: "OLED55C3", area: "living_room", platform: "webostv"}, []plan{
			{id: "media_player.living_room_tv", class: "tv", state: "off", attrs: attrs{"source_list": []any{"HDMI 1", "Netflix", "YouTube"}, "volume_level": .22, "is_volume_muted": false, "supported_features": 24381}, days: []daily{at(20, 5, "on"), at(22, 35, "off")}},
		}},
		{device{key: "living_room_speaker", name: "Living room speaker", maker: "Sonos", model: "One", area: "living_room", platform: "sonos"}, []plan{
			{id: "media_player.living_room_speaker", class: "speaker", state: "paused", attrs: attrs{"volume_level": .3, "is_volume_muted": false, "media_title": "Morning news", "supported_features": 64063}},
			{id: "switch.living_room_speaker_night_sound", name: "Night sound", state: "off", category: "config"},
		}},
		climateSensor("living_room", "Living room climate", "living_room", 21.3),
		motion("living_room_motion", "Living room motion", "living_room", at(7, 10, "on"), at(7, 14, "off"), at(17, 4, "on"), at(17, 30, "off"), at(19, 18, "on"), at(22, 42, "off")),
		valve("living_room_radiator", "Living room radiator", "living_room", 21),
		blind("living_room_blind", "Living room blind", "living_room", at(7, 30, "open"), at(19, 0, "closed")),
		{device{key: "living_room_co2", name: "Living room air", maker: "Netatmo", model: "NAMain", area: "living_room", platform: "netatmo"}, []plan{
			{id: "sensor.living_room_co2", name: "CO2", class: "carbon_dioxide", unit: "ppm", wave: every(m10, 720, 180, 35, 0)},
			{id: "sensor.living_room_noise", name: "Noise", class: "sound_pressure", unit: "dB", wave: every(m10, 42, 6, 3, 0)},
		}},

		bulb("kitchen_ceiling", "Kitchen ceiling", "kitchen", at(6, 55, "on"), at(8, 0, "off"), at(17, 45, "on"), at(21, 10, "off")),
		bulb("kitchen_counter", "Kitchen counter", "kitchen", at(17, 45, "on"), at(21, 11, "off")),
		plug("kitchen_fridge", "Fridge", "kitchen", 62),
		plug("coffee_machine", "Coffee machine", "kitchen", 4, at(6, 45, "on"), at(9, 0, "off")),
		{device{key: "kitchen_leak", name: "Kitchen leak sensor", maker: "Aqara", model: "SJCGQ11LM", area: "kitchen", platform: "zha", via: "zigbee"}, []plan{
			{id: "binary_sensor.kitchen_leak", name: "Moisture", class: "moisture", state: "off"},
		}},
		{device{key: "kitchen_smoke", name: "Kitchen smoke alarm", maker: "Fibaro", model: "FGSD-002", area: "kitchen", platform: "zwave_js"}, []plan{
			{id: "binary_sensor.kitchen_smoke", name: "Smoke", class: "smoke", state: "off"},
		}},

		bulb("hallway_ceiling", "Hallway ceiling", "hallway", at(17, 20, "on"), at(22, 50, "off")),
		contact("front_door", "Front door", "hallway", "door", at(8, 5, "on"), at(8, 6, "off"), at(17, 3, "on"), at(17, 4, "off")),
		{device{key: "front_door_lock", name: "Front door lock", maker: "Nuki", model: "Smart Lock 4", area: "hallway", platform: "nuki"}, []plan{
			{id: "lock.front_door", state: "locked", attrs: attrs{"supported_features": 1}, days: []daily{at(8, 4, "unlocked"), at(8, 7, "locked"), at(17, 2, "unlocked"), at(17, 6, "locked")}},
			{id: "sensor.front_door_lock_battery", name: "Battery", class: "battery", unit: "%", wave: every(6*h1, 44, 0, .3, 0), category: "diagnostic"},
		}},
		{device{key: "alarm", name: "Alarm", maker: "Home Assistant", model: "Manual", area: "hallway", platform: "manual"}, []plan{
			{id: "alarm_control_panel.house", state: "disarmed", attrs: attrs{"code_arm_required": false, "supported_features": 63}, days: []daily{at(23, 59, "armed_night"), at(6, 40, "disarmed")}},
		}},
		{device{key: "doorbell", name: "Doorbell", maker: "Reolink", model: "Video Doorbell PoE", area: "hallway", platform: "reolink"}, []plan{
			{id: "camera.doorbell", name: "Camera", state: "idle", attrs: attrs{"frontend_stream_type": "hls", "supported_features": 2, "access_token": hex32("camera"), "entity_picture": "/api/camera_proxy/camera.doorbell?token=" + hex32("camera")}},
			{id: "event.doorbell_ring", name: "Ring", class: "doorbell", state: "unknown", attrs: attrs{"event_types": []any{"ring"}}},
			{id: "button.doorbell_restart", name: "Restart", class: "restart", state: "unknown", category: "config"},
		}},

		{device{key: "washing_machine", name: "Washing machine", maker: "Miele", model: "WWD660", area: "utility_room", platform: "miele"}, []plan{
			{id: "sensor.washing_machine_status", name: "Status", class: "enum", state: "off", attrs: attrs{"options": []any{"off", "in_use", "program_ended"}}, days: []daily{at(18, 10, "in_use"), at(20, 2, "program_ended"), at(21, 0, "off")}},
			{id: "select.washing_machine_program", name: "Program", state: "cottons", attrs: attrs{"options": []any{"cottons", "delicates", "express"}}},
		}},
		plug("dehumidifier", "Dehumidifier plug", "utility_room", 180, at(1, 0, "off"), at(10, 0, "on")),
		{device{key: "router", name: "Router", maker: "AVM", model: "FRITZ!Box 7590", area: "utility_room", platform: "fritz", sw: "8.02"}, []plan{
			{id: "binary_sensor.router_connection", name: "Connection", class: "connectivity", state: "on", category: "diagnostic"},
			{id: "sensor.router_download", name: "Download throughput", class: "data_rate", unit: "kB/s", wave: every(m10, 420, 300, 150, 1)},
			{id: "device_tracker.ana_phone", name: "Ana's phone", state: "home", attrs: attrs{"source_type": "router"}, days: []daily{at(8, 9, "not_home"), at(17, 1, "home")}},
		}},

		{device{key: "garage_door", name: "Garage door", maker: "Hörmann", model: "SupraMatic", area: "garage", platform: "mqtt"}, []plan{
			{id: "cover.garage_door", class: "garage", state: "closed", attrs: attrs{"current_position": 0, "supported_features": 15}, days: []daily{at(8, 7, "open"), at(8, 9, "closed"), at(16, 59, "open"), at(17, 2, "closed")}},
		}},
		{device{key: "wallbox", name: "Wallbox", maker: "go-e", model: "Charger Gemini", area: "garage", platform: "mqtt"}, []plan{
			{id: "switch.wallbox_charging", name: "Charging", state: "off", days: []daily{at(22, 0, "on"), at(2, 10, "off")}},
			{id: "sensor.wallbox_power", name: "Power", class: "power", unit: "kW", wave: every(m10, 1.9, 1.2, .4, 2)},
			{id: "number.wallbox_current_limit", name: "Current limit", class: "current", unit: "A", state: "16", attrs: attrs{"min": 6, "max": 32, "step": 1, "mode": "slider"}, category: "config"},
		}},

		{device{key: "garden_lights", name: "Garden lights", maker: "Shelly", model: "Plus 1", area: "garden", platform: "shelly"}, []plan{
			{id: "light.garden", state: "off", attrs: attrs{"supported_color_modes": []any{"onoff"}}, days: []daily{at(17, 0, "on"), at(23, 0, "off")}},
		}},
		{device{key: "irrigation", name: "Irrigation", maker: "Gardena", model: "Smart valve", area: "garden", platform: "gardena"}, []plan{
			{id: "valve.irrigation", class: "water", state: "closed", attrs: attrs{"supported_features": 3}},
			{id: "sensor.garden_soil_moisture", name: "Soil moisture", class: "moisture", unit: "%", wave: every(h1, 38, 2, 1, 0)},
			{id: "sensor.garden_temperature", name: "Temperature", class: "temperature", unit: "°C", wave: every(m10, 7.5, 3.5, .4, 1)},
		}},
		{device{key: "mower", name: "Mower", maker: "Husqvarna", model: "Automower 305", area: "garden", platform: "husqvarna_automower"}, []plan{
			{id: "lawn_mower.mower", state: "docked"},
		}},

		bulb("kids_room_ceiling", "Children's room ceiling", "kids_room", at(18, 0, "on"), at(20, 15, "off")),
		{device{key: "kids_night_light", name: "Night light", maker: "Signify", model: "Hue Go", area: "kids_room", platform: "hue"}, []plan{
			{id: "light.kids_night_light", state: "off", attrs: attrs{"supported_color_modes": []any{"color_temp", "xy"}, "effect_list": []any{"candle", "fire"}, "min_color_temp_kelvin": 2000, "max_color_temp_kelvin": 6500}, days: []daily{at(20, 15, "on"), at(6, 30, "off")}},
		}},
		climateSensor("kids_room", "Children's room climate", "kids_room", 20.4),
		{device{key: "kids_humidifier", name: "Humidifier", maker: "Xiaomi", model: "Smart Humidifier 2", area: "kids_room", platform: "xiaomi_miio"}, []plan{
			{id: "humidifier.kids_room", class: "humidifier", state: "on", attrs: attrs{"humidity": 50, "min_humidity": 30, "max_humidity": 70, "current_humidity": 47}},
		}},

		bulb("bathroom_mirror", "Bathroom mirror", "bathroom", at(6, 58, "on"), at(7, 35, "off"), at(21, 30, "on"), at(21, 48, "off")),
		{device{key: "bathroom_fan", name: "Bathroom fan", maker: "Inventer", model: "Pulsar", area: "bathroom", platform: "mqtt"}, []plan{
			{id: "fan.bathroom", state: "off", attrs: attrs{"percentage": 0, "percentage_step": 33.3, "preset_modes": []any{"auto", "boost"}, "supported_features": 57}, days: []daily{at(7, 0, "on"), at(7, 50, "off")}},
		}},
		climateSensor("bathroom", "Bathroom climate", "bathroom", 22.1),
		valve("bathroom_radiator", "Bathroom radiator", "bathroom", 22),

		bulb("office_desk", "Office desk lamp", "office", at(9, 0, "on"), at(12, 30, "off"), at(13, 20, "on"), at(16, 40, "off")),
		plug("office_desk_plug", "Office desk", "office", 84, at(8, 55, "on"), at(16, 45, "off")),
		climateSensor("office", "Office climate", "office", 20.8),
		{device{key: "vacuum", name: "Vacuum", maker: "Roborock", model: "S8", area: "office", platform: "roborock"}, []plan{
			{id: "vacuum.house", state: "docked", attrs: attrs{"battery_level": 100, "fan_speed": "balanced", "fan_speed_list": []any{"quiet", "balanced", "turbo"}}, days: []daily{at(10, 30, "cleaning"), at(11, 10, "returning"), at(11, 14, "docked")}},
		}},
		{device{key: "old_plug", name: "Old office plug", maker: "Tuya", model: "TS011F", area: "office", platform: "tuya"}, []plan{
			{id: "switch.old_office_plug", state: "unavailable"},
		}},

		// Entities without a device.
		{device{platform: "sun"}, []plan{{id: "sun.sun", name: "Sun", state: "above_horizon", days: []daily{at(7, 34, "above_horizon"), at(16, 31, "below_horizon")}}}},
		{device{platform: "met"}, []plan{{id: "weather.home", name: "Home", state: "cloudy", attrs: attrs{"temperature": 7.2, "humidity": 81, "wind_speed": 14.4, "temperature_unit": "°C", "supported_features": 3}, days: []daily{at(3, 0, "rainy"), at(9, 0, "cloudy"), at(15, 0, "partlycloudy")}}}},
		{device{platform: "person"}, []plan{
			{id: "person.ana", name: "Ana", state: "home", attrs: attrs{"user_id": userAna.id, "device_trackers": []any{"device_tracker.ana_phone"}}, days: []daily{at(8, 9, "not_home"), at(17, 1, "home")}},
			{id: "person.bruno", name: "Bruno", state: "home", days: []daily{at(7, 30, "not_home"), at(18, 12, "home")}},
		}},
		{device{platform: "zone"}, []plan{{id: "zone.home", name: "Home", state: "2", attrs: attrs{"latitude": homeLatitude, "longitude": homeLongitude, "radius": 100, "passive": false}, days: []daily{at(7, 30, "1"), at(8, 9, "0"), at(17, 1, "1"), at(18, 12, "2")}}}}, // how many persons are at home
		{device{platform: "input_boolean"}, []plan{{id: "input_boolean.guest_mode", name: "Guest mode", state: "off"}, {id: "input_boolean.holiday", name: "Holiday", state: "off"}}},
		{device{platform: "input_number"}, []plan{{id: "input_number.night_brightness", name: "Night brightness", unit: "%", state: "20", attrs: attrs{"min": 0, "max": 100, "step": 5, "mode": "slider"}}}},
		{device{platform: "input_select"}, []plan{{id: "input_select.house_mode", name: "House mode", state: "home", attrs: attrs{"options": []any{"home", "away", "night"}}}}},
		{device{platform: "group"}, []plan{{id: "light.bedroom", name: "Bedroom lights", state: "off", attrs: attrs{"entity_id": []any{"light.bedroom_ceiling", "light.bedroom_bedside_left", "light.bedroom_bedside_right"}, "supported_color_modes": []any{"color_temp"}}, days: []daily{at(6, 50, "on"), at(7, 40, "off"), at(21, 50, "on"), at(23, 59, "off")}, unlit: true}}},
		{device{platform: "local_calendar"}, []plan{{id: "calendar.family", name: "Family", state: "off"}}},
		{device{platform: "shopping_list"}, []plan{{id: "todo.shopping_list", name: "Shopping list", state: "2"}}},
		{device{platform: "timer"}, []plan{{id: "timer.oven", name: "Oven", state: "idle", attrs: attrs{"duration": "0:20:00"}}}},
		{device{platform: "backup"}, []plan{{id: "sensor.backup_last", name: "Last backup", class: "timestamp", state: "unknown", category: "diagnostic"}}},
		{device{platform: "mobile_app"}, []plan{{id: "notify.ana_phone", name: "Ana's phone", state: "unknown"}}},
	}
}

// routine is an automation, a script or a scene.
type routine struct {
	id, name string
	triggers []any
	uses     []string // entities it reads or acts on
	does     []step
	on       bool
}

type step struct {
	service string // domain.service
	entity  string
	data    attrs
}

func routines() []routine {
	stateOf := func(id, to string) []any {
		return []any{attrs{"trigger": "state", "entity_id": []any{id}, "to": to}}
	}
	below := func(id string, v float64) []any {
		return []any{attrs{"trigger": "numeric_state", "entity_id": []any{id}, "below": v}}
	}
	clock := func(at string) []any { return []any{attrs{"trigger": "time", "at": at}} }
	return []routine{
		{"automation.mains_voltage_alert", "Mains voltage alert", below("sensor.mains_voltage_l1", 207), []string{"sensor.mains_voltage_l1"}, []step{{"persistent_notification.create", "", attrs{"title": "Mains voltage", "message": "Voltage on L1 is below 207 V"}}}, true},
		{"automation.bedroom_night_light", "Bedroom night light", stateOf("binary_sensor.bedroom_motion", "on"), []string{"binary_sensor.bedroom_motion", "light.bedroom_ceiling", "input_number.night_brightness"}, []step{{"light.toggle", "light.bedroom_ceiling", nil}}, true},
		{"automation.bedtime", "Bedtime", clock("23:59:00"), []string{"light.bedroom", "alarm_control_panel.house"}, []step{{"light.turn_off", "light.bedroom", nil}, {"alarm_control_panel.alarm_arm_night", "alarm_control_panel.house", nil}}, true},
		{"automation.heat_pump_off_peak", "Heat pump off peak", clock("22:30:00"), []string{"water_heater.heat_pump_tank", "binary_sensor.heat_pump_compressor"}, []step{{"water_heater.set_operation_mode", "water_heater.heat_pump_tank", attrs{"operation_mode": "performance"}}}, true},
		{"automation.garden_at_sunset", "Garden lights at sunset", []any{attrs{"trigger": "sun", "event": "sunset"}}, []string{"sun.sun", "light.garden"}, []step{{"light.turn_on", "light.garden", nil}}, true},
		{"automation.window_heating", "No heating with the window open", stateOf("binary_sensor.bedroom_window", "on"), []string{"binary_sensor.bedroom_window", "climate.bedroom_radiator"}, []step{{"climate.set_hvac_mode", "climate.bedroom_radiator", attrs{"hvac_mode": "off"}}}, true},
		{"automation.vacuum_when_away", "Vacuum when away", stateOf("person.ana", "not_home"), []string{"person.ana", "vacuum.house"}, []step{{"vacuum.start", "vacuum.house", nil}}, false},
		{"script.movie_night", "Movie night", nil, []string{"light.living_room_ceiling", "media_player.living_room_tv", "cover.living_room_blind"}, []step{{"light.turn_off", "light.living_room_ceiling", nil}, {"cover.close_cover", "cover.living_room_blind", nil}, {"media_player.turn_on", "media_player.living_room_tv", nil}}, false},
		{"script.all_off", "Everything off", nil, []string{"light.bedroom", "light.kitchen_ceiling", "light.living_room_ceiling"}, []step{{"light.turn_off", "light.bedroom", nil}, {"light.turn_off", "light.kitchen_ceiling", nil}, {"light.turn_off", "light.living_room_ceiling", nil}}, false},
		{"scene.evening", "Evening", nil, []string{"light.living_room_reading", "light.kitchen_counter"}, []step{{"light.turn_on", "light.living_room_reading", attrs{"brightness": 120}}, {"light.turn_on", "light.kitchen_counter", attrs{"brightness": 90}}}, false},
	}
}

const (
	homeLatitude  = 41.1579
	homeLongitude = -8.6291
)

type user struct {
	id, name     string
	owner, admin bool
}

var (
	userAna        = user{hex32("Ana"), "Ana", true, true}
	userGuest      = user{hex32("Guest"), "Guest", false, false}
	userSupervisor = user{hex32("Supervisor"), "Supervisor", false, true}
)
