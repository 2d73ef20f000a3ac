package homeassistant_test

import (
	"strings"
	"testing"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

var lastNight = m{"start": "yesterday 20:00", "end": "today 08:00"}

func with(in m, more m) m {
	out := m{}
	for k, v := range in {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// TestDiagnoseFindsTheCause asks the question of the seed in each story: the
// answer is what the house's data say, and another story gives another answer.
func TestDiagnoseFindsTheCause(t *testing.T) {
	t.Parallel()
	for story, want := range map[sim.Story]struct{ says, not []string }{
		sim.StoryVoltageDip: {
			says: []string{
				"5 unusual moments", "unavailable for", "2026-11-20 23:17:05",
				"binary_sensor.heat_pump_compressor (Heat pump Compressor): → on at 5 of the 5 moments, 6 times in all, 1 of them at no such moment (2026-11-21 05:3",
				"sensor.mains_voltage_l1 (Mains meter Voltage L1): unusual value at 5 of the 5 moments",
				"fault U2 (power supply)",
			},
			not: []string{"MAC_CHANNEL_ACCESS_FAILURE", "were caused by automation.bedroom_night_light"},
		},
		sim.StoryZigbee: {
			says: []string{"6 unusual moments", "sensor.bedroom_ceiling_lqi (Bedroom ceiling LQI): unusual value at 6 of the 6 moments", "sensor.zigbee_channel_utilisation", "MAC_CHANNEL_ACCESS_FAILURE"},
			not:  []string{"mains_voltage_l1", "heat_pump_compressor"},
		},
		sim.StoryAutomation: {
			says: []string{"were caused by automation.bedroom_night_light", "binary_sensor.bedroom_motion (Bedroom motion Motion): → on", "Already running", "It was available all the time"},
			not:  []string{"mains_voltage_l1", "MAC_CHANNEL_ACCESS_FAILURE"},
		},
		sim.StoryQuiet: {
			says: []string{"Nothing unusual is recorded", "It was available all the time"},
			not:  []string{"mains_voltage_l1", "MAC_CHANNEL_ACCESS_FAILURE", "caused by automation.bedroom_night_light"},
		},
	} {
		t.Run(string(story), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(o *sim.Options, _ *homeassistant.Options) { o.Story = story })
			text, _ := r.ok("diagnose_entity", with(lastNight, m{"entity": "Bedroom ceiling"}))
			has(t, text, want.says...)
			hasNot(t, text, want.not...)
			has(t, text, "automation.bedroom_night_light", "sensor.bedroom_ceiling_lqi", "index: live")
		})
	}
}

// TestDiagnoseAGroup: people say "the bedroom lights", which is a group, and that
// was on all the time.
func TestDiagnoseAGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, _ := r.ok("diagnose_entity", with(lastNight, m{"entity": "Bedroom lights"}))
	has(t, text,
		"Its member light.bedroom_ceiling (Bedroom ceiling) had 5 unusual moments", "Its member light.bedroom_bedside_left (Bedside left) had 5 unusual moments", "light.bedroom_bedside_right = off · Bedside right · 0 unusual moments",
		"- 5 unusual moments: 2026-11-20 22:34:10Z (Bedroom ceiling unavailable for", "→ on at 5 of the 5 moments", "sensor.mains_voltage_l1",
		"WARNING about Bedroom lights (Bedroom ceiling, Bedside left), 9 times", "light.bedroom_bedside_left (Bedside left) → off, by Ana")
	hasNot(t, text, "Used by group: light.bedroom")
}

// The causes of changes to a group's members are attributed to the group too, whose own history
// shows none of them.
func TestDiagnoseAGroupByItsMembersCauses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *sim.Options, _ *homeassistant.Options) { o.Story = sim.StoryAutomation })
	text, _ := r.ok("diagnose_entity", with(lastNight, m{"entity": "light.bedroom"}))
	has(t, text, "Bedroom ceiling's 20 changes were caused by automation.bedroom_night_light (Bedroom night light)", "automation.bedroom_night_light", "Already running")
}

func TestTheStoryChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	in := with(lastNight, m{"entity": "light.bedroom_ceiling"})
	text, _ := r.ok("diagnose_entity", in)
	has(t, text, "heat_pump_compressor")
	r.house.SetStory(sim.StoryZigbee)
	text, _ = r.ok("diagnose_entity", in)
	hasNot(t, text, "heat_pump_compressor")
	has(t, text, "MAC_CHANNEL_ACCESS_FAILURE")
}

func TestErrorsAreGrouped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, data := r.ok("analyze_errors", m{})
	has(t, text, "by thing: 27 Old office plug; 11 Home (weather); 9 Bedroom lights (Bedroom ceiling, Bedside left);", "WARNING about Old office plug ×27", "ERROR about Home (weather) ×11", "ERROR about Heat pump ×1",
		"likely about light.bedroom_ceiling", "switch.old_office_plug", "logged by tuya", "now: Saturday 2026-11-21 08:30Z (UTC)")
	if data["total"].(float64) < 50 {
		t.Errorf("got %v entries", data["total"])
	}
	text, _ = r.ok("analyze_errors", m{"entity": "light.bedroom_ceiling"})
	has(t, text, "(Bedroom ceiling, Bedside left) ×9", "logged by zha")
	hasNot(t, text, "tuya", "met ")
	text, _ = r.ok("analyze_errors", m{"level": "ERROR", "query": "mqtt"})
	has(t, text, "ERROR about Garage door, Bathroom fan, Wallbox ×3")
	hasNot(t, text, "daikin")
	text, _ = r.ok("analyze_errors", m{"query": "nosuchthing"})
	has(t, text, "has no matching warning or error")
}

// TestErrorsOfAGuest: a user who may not read the log is told so.
func TestErrorsOfAGuest(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.Token = "guest" })
	r.refused("analyze_errors", m{}, "forbidden", "no administrator")
	text, _ := r.ok("diagnose_entity", with(lastNight, m{"entity": "light.bedroom_ceiling"}))
	has(t, text, "heat_pump_compressor", "Could not be read: errors")
}

func TestLogbook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, _ := r.ok("ha_logbook", with(lastNight, m{"entities": []string{"light.bedroom_ceiling", "automation.mains_voltage_alert"}}))
	has(t, text, "2026-11-20 23:17:05Z light.bedroom_ceiling (Bedroom ceiling) → unavailable", "triggered by numeric state of sensor.mains_voltage_l1", "by Ana")
	text, data := r.ok("ha_logbook", with(lastNight, m{"area": "Bedroom", "limit": 3}))
	has(t, text, "the last 3 of them")
	if n := len(data["rows"].([]any)); n != 3 {
		t.Errorf("got %d rows, want 3", n)
	}
	text, _ = r.ok("ha_logbook", with(lastNight, m{"query": "compressor"}))
	if strings.Count(text, "heat_pump_compressor") < 10 {
		t.Errorf("got\n%s\nwant the changes of the compressor", text)
	}
	r.refused("ha_logbook", m{"start": "next tuesday"}, "invalid", `"next tuesday" is not a time`)
	r.refused("ha_logbook", m{"start": "-100h"}, "too_large", "at most three days")
	r.refused("ha_logbook", m{"start": "today 23:00"}, "invalid", "is empty")
}

// TestDiagnoseARoutine: an automation, a script or a scene is explained by what it uses.
func TestDiagnoseARoutine(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for id, want := range map[string]string{
		"automation.bedtime": "\nUses: alarm_control_panel.house, light.bedroom\n",
		"script.movie_night": "\nUses: cover.living_room_blind, light.living_room_ceiling, media_player.living_room_tv\n",
		"scene.evening":      "\nUses: light.kitchen_counter, light.living_room_reading\n",
	} {
		text, _ := r.ok("diagnose_entity", m{"entity": id})
		has(t, text, want)
	}
}

// TestDiagnoseCountsWhatHappenedAtOtherTimes: what happened at each moment may have happened at
// other times too, before the first moment and after the last.
func TestDiagnoseCountsWhatHappenedAtOtherTimes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text, data := r.ok("diagnose_entity", m{"entity": "Bedroom lights", "start": "yesterday 00:00", "end": "today 08:00"})
	has(t, text, "(Heat pump Compressor): → on at 5 of the 5 moments, ", " of them at no such moment (2026-11-20 0")
	hasNot(t, text, "Could not be read")
	for _, x := range data["changed_together"].([]any) {
		w := x.(map[string]any)
		if w["entity_id"] != "binary_sensor.heat_pump_compressor" || w["what"] != "→ on" {
			continue
		}
		if all, without := w["in_all"].(float64), w["without"].(float64); without < 2 || all != 5+without || len(w["without_at"].([]any)) != int(without) {
			t.Errorf("got %v", w)
		}
	}
	// The logbook of more days is not read for a whole house, and that is said.
	text, _ = r.ok("diagnose_entity", m{"entity": "Bedroom lights", "start": "-96h"})
	has(t, text, "Could not be read: what happened at the same moments before")
}
