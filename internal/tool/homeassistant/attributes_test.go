package homeassistant_test

import "testing"

// TestNoSecretsInAttributes: what opens a camera's picture reaches no result.
func TestNoSecretsInAttributes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for tool, in := range map[string]m{
		"ha_state_query": {"entities": []string{"camera.doorbell"}, "attributes": true}, "ha_analyze": {"sql": "SELECT attributes FROM states WHERE entity_id = 'camera.doorbell'"},
		"diagnose_entity": {"entity": "camera.doorbell"},
	} {
		text, _ := r.ok(tool, in)
		hasNot(t, text, "access_token", "token=")
		has(t, text, "frontend_stream_type")
	}
	e, _ := r.tools.Index().Entity("camera.doorbell")
	hasNot(t, string(e.Attributes), "token")
}

// TestDisabled: an entity that is only in the registry can be found, and has no state.
func TestDisabled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	e, ok := r.tools.Index().Entity("sensor.mains_apparent_power")
	if !ok || !e.Disabled || e.State != "" {
		t.Errorf("got %+v, want a disabled entity; the log:\n%s", e, r.logged())
	}
	text, _ := r.ok("diagnose_entity", m{"entity": "sensor.mains_apparent_power"})
	has(t, text, "Nothing was recorded for it")
	text, _ = r.ok("index_search", m{"query": "apparent power"})
	has(t, text, "sensor.mains_apparent_power = (no state)")
}
