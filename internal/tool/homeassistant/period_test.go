package homeassistant_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// What people call a time is a time of the house's own clock, and has an end.
func TestPeriod(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Lisbon")
	if err != nil {
		t.Fatal(err)
	}
	const form = "Mon 2 15:04"
	for at, of := range map[string]map[string]string{
		"2026-11-22 01:07": { // a Sunday; the night under way is not over
			"last night": "Fri 20 20:00 - Sat 21 08:00", "tonight": "Sat 21 20:00 - Sun 22 08:00", "Yesterday  evening": "Sat 21 17:00 - Sun 22 00:00",
			"this evening": "Sat 21 17:00 - Sun 22 00:00", "today": "Sun 22 00:00 - Mon 23 00:00", "the day before yesterday": "Fri 20 00:00 - Sat 21 00:00",
		},
		"2026-11-22 09:00": {
			"last night": "Sat 21 20:00 - Sun 22 08:00", "tonight": "Sat 21 20:00 - Sun 22 08:00", "this morning": "Sun 22 05:00 - Sun 22 12:00",
			"friday": "Fri 20 00:00 - Sat 21 00:00", "last friday evening": "Fri 20 17:00 - Sat 21 00:00", "sunday": "Sun 15 00:00 - Mon 16 00:00",
			"last week": "Mon 9 00:00 - Mon 16 00:00", "this week": "Mon 16 00:00 - Mon 23 00:00", "last month": "Thu 1 00:00 - Sun 1 00:00", "yesterday afternoon": "Sat 21 12:00 - Sat 21 18:00",
		},
		"2026-11-22 22:50": {"last night": "Sat 21 20:00 - Sun 22 08:00", "tonight": "Sun 22 20:00 - Mon 23 08:00", "last evening": "Sat 21 17:00 - Sun 22 00:00"},
	} {
		now, err := time.ParseInLocation("2006-01-02 15:04", at, zone)
		if err != nil {
			t.Fatal(err)
		}
		for words, want := range of {
			from, to, ok := homeassistant.Period(words, now)
			if got := from.Format(form) + " - " + to.Format(form); !ok || got != want {
				t.Errorf("%s, %q: got %s, %v, want %s", at, words, got, ok, want)
			}
		}
		for _, words := range []string{"", "noon", "last", "yesterday noon", "day of rest", "soon evening"} {
			if from, to, ok := homeassistant.Period(words, now); ok {
				t.Errorf("%q is no time: got %s to %s", words, from, to)
			}
		}
	}
}

// At 01:07 the last night is the one that is over, and the tools say what they
// looked at and what time it is there.
func TestLastNightInTheSmallHours(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 1, 7, 20, 0, time.UTC)
	r := newRig(t, func(so *sim.Options, o *homeassistant.Options) {
		so.Now = func() time.Time { return at }
		o.Now = so.Now
	})
	text, _ := r.ok("diagnose_entity", m{"entity": "light.bedroom", "start": "last night"})
	has(t, text, "Looked at from 2026-11-20 20:00:00Z to 2026-11-21 08:00:00Z.", "5 unusual moments", "now: Sunday 2026-11-22 01:07Z (UTC)")
	text, _ = r.ok("ha_logbook", m{"area": "kitchen", "start": "yesterday evening"})
	has(t, text, "from 2026-11-21 17:00:00Z to 2026-11-22 00:00:00Z")
	r.refused("ha_history", m{"entities": []string{"light.bedroom"}, "start": "some evening"}, "invalid", "last night, yesterday evening")
}

// What is nearly the name of something is taken for it: by the letters of the
// name as of the id, whatever domain was guessed.
// TestDidYouMean_of_a_long_name looks at no more of it than of the longest id there is.
func TestDidYouMean_of_a_long_name(t *testing.T) {
	// Not parallel: it counts allocations.
	r := newRig(t)
	long := "light.bedroom_" + strings.Repeat("x", 500_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.refused("ha_history", m{"entities": []string{long}}, "not_found", "no entity")
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("a name of %d bytes made %d MiB", len(long), used>>20)
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for written, want := range map[string]string{
		"light.bedroom_cieling":  "did you mean light.bedroom_ceiling (Bedroom ceiling)",
		"switch.bedroom_ceiling": "did you mean light.bedroom_ceiling (Bedroom ceiling)",
		"sensor.washing_machine": "did you mean sensor.washing_machine_status (Washing machine Status)",
		"Readnig lmap":           "did you mean light.living_room_reading (Reading lamp)",
		"garagedoor":             "did you mean cover.garage_door (Garage door)",
		"light.nowhere":          "index_search finds entities", // what it shares with other lights is only the domain
	} {
		r.refused("ha_history", m{"entities": []string{written}}, "not_found", want)
	}
	text, _ := r.ok("ha_state_query", m{"area": "bathrom", "device_class": "temperature"})
	has(t, text, `There is no area "bathrom" here; did you mean Bathroom?`, "areas: Bathroom,", "Children's room (also nursery)")
	text, _ = r.ok("index_search", m{"query": "reading lamp"})
	has(t, text, "Living room (also lounge)")
}
