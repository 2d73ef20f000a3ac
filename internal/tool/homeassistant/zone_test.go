package homeassistant_test

import (
	"testing"
	"time"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// TestZone: people name times by their own clock, and read them so.
func TestZone(t *testing.T) {
	t.Parallel()
	if _, err := time.LoadLocation("America/Sao_Paulo"); err != nil {
		t.Fatalf("this machine has no time zones: %v", err)
	}
	r := newRig(t, func(o *sim.Options, _ *homeassistant.Options) { o.TimeZone = "America/Sao_Paulo" })
	text, _ := r.ok("ha_history", m{"entities": []string{"sensor.mains_voltage_l1"}, "start": "2026-11-20 23:00", "end": "2026-11-20 23:30", "plot": false})
	has(t, text, "from 2026-11-20 23:00:00-03:00", "min 196.3 V at 2026-11-20 23:17:05-03:00")
	text, _ = r.ok("ha_logbook", m{"entities": []string{"light.bedroom_ceiling"}, "start": "yesterday 23:00", "end": "2026-11-21T02:30:00Z"})
	has(t, text, "2026-11-20 23:17:05-03:00 light.bedroom_ceiling")
}
