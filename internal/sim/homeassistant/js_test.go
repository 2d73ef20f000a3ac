package homeassistant_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/sim/nodetest"
)

type m = map[string]any

var morning = time.Date(2026, 11, 21, 8, 30, 0, 0, time.UTC)

func house(t *testing.T, o homeassistant.Options) (*homeassistant.House, *httptest.Server) {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return morning }
	}
	h := homeassistant.New(o)
	srv := httptest.NewServer(h)
	t.Cleanup(func() { h.Close(); srv.Close() })
	return h, srv
}

// TestRealClient uses Home Assistant's own client: it logs in, reads, subscribes, calls
// services, is cut off and reconnects.
func TestRealClient(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok", LimitedToken: "guest"})
	j := nodetest.Start(t)
	j.Want("connect", m{"url": srv.URL, "token": "tok"}, homeassistant.Version)
	j.Want("user", nil, "Ana")
	j.Want("config", nil, "Casa")
	j.Want("ping", nil, "pong")
	n, _ := j.Ask("watch", nil)
	if got, _ := n.(float64); got < 100 {
		t.Errorf("got %v entities, want at least 100", n)
	}
	j.Want("states", nil, n)
	j.Want("listen", m{"kind": "state_changed"}, true)

	call, no := j.Ask("call", m{"domain": "light", "service": "turn_on", "data": m{"brightness_pct": 40}, "target": m{"entity_id": "light.kitchen_counter"}})
	if no != nil {
		t.Fatal(no)
	}
	if ctx, _ := call.(m)["context"].(m); ctx["id"] == "" || ctx["user_id"] == nil {
		t.Errorf("got %v, want the context of the call", call)
	}
	j.Want("until", m{"id": "light.kitchen_counter", "state": "on"}, "on")
	e, _ := j.Ask("entity", m{"id": "light.kitchen_counter"})
	if b := e.(m)["attributes"].(m)["brightness"]; b != 102.0 {
		t.Errorf("brightness: got %v, want 102", b)
	}
	j.Want("heard", m{"n": 1}, []any{[]any{"state_changed", "light.kitchen_counter"}})

	_, no = j.Ask("call", m{"domain": "light", "service": "explode", "target": m{"entity_id": "light.kitchen_counter"}})
	if d := cmp.Diff(m{"code": "not_found", "message": "Service light.explode not found."}, no); d != "" {
		t.Errorf("unknown service (-want +got):\n%s", d)
	}
	_, no = j.Ask("send", m{"message": m{"type": "get_states", "nonsense": 1}})
	if got, _ := no.(m); got["code"] != "invalid_format" {
		t.Errorf("unknown key: got %v, want invalid_format", no)
	}
	answer, no := j.Ask("call", m{"domain": "weather", "service": "get_forecasts", "data": m{"type": "daily"}, "target": m{"entity_id": "weather.home"}, "returns": true})
	if no != nil {
		t.Fatal(no)
	}
	if f, _ := answer.(m)["response"].(m)["weather.home"].(m)["forecast"].([]any); len(f) != 5 {
		t.Errorf("got %v, want a forecast of five days", answer)
	}

	// After a disconnection it reconnects, subscribes again, and has missed nothing. Events
	// during the disconnection reach no subscription.
	if got := h.Sockets(); got != 1 {
		t.Errorf("got %d sockets, want 1", got)
	}
	h.SetFaults(homeassistant.Faults{Down: true})
	h.SetState("binary_sensor.kitchen_leak", "on", nil)
	h.SetFaults(homeassistant.Faults{})
	j.Want("reconnected", m{"n": 1}, 1.0)
	// The client reports the reconnection after it has sent its subscriptions. Messages on a
	// connection are handled in order, so once a later one is answered, the subscriptions
	// exist.
	j.Want("ping", nil, "pong")
	j.Want("until", m{"id": "binary_sensor.kitchen_leak", "state": "on"}, "on")
	h.SetState("lock.front_door", "unlocked", nil)
	j.Want("until", m{"id": "lock.front_door", "state": "unlocked"}, "unlocked")
	h.Remove("vacuum.house")
	j.Want("heard", m{"n": 2}, []any{[]any{"state_changed", "lock.front_door"}, []any{"state_changed", "vacuum.house"}})
	j.Want("until", m{"id": "vacuum.house", "state": nil}, nil) // from another subscription, in either order

	want := map[homeassistant.Call]int{{Service: "light.turn_on", Entity: "light.kitchen_counter"}: 1, {Service: "weather.get_forecasts"}: 1, {Service: "weather.get_forecasts", Entity: "weather.home"}: 1}
	if d := cmp.Diff(want, h.Calls()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
}

func TestRealClientIsRefused(t *testing.T) {
	t.Parallel()
	_, srv := house(t, homeassistant.Options{Token: "tok", LimitedToken: "guest"})
	j := nodetest.Start(t)
	_, no := j.Ask("connect", m{"url": srv.URL, "token": "wrong"})
	if no != 2.0 { // ERR_INVALID_AUTH
		t.Errorf("got %v, want 2", no)
	}
	j.Want("connect", m{"url": srv.URL, "token": "guest"}, homeassistant.Version)
	_, no = j.Ask("send", m{"message": m{"type": "system_log/list"}})
	if d := cmp.Diff(m{"code": "unauthorized", "message": "Unauthorized"}, no); d != "" {
		t.Errorf("a guest reads the log (-want +got):\n%s", d)
	}
}

// TestRealClientReads sends the requests that Home Assistant's pages send.
func TestRealClientReads(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok"})
	j := nodetest.Start(t)
	j.Want("connect", m{"url": srv.URL, "token": "tok"}, homeassistant.Version)
	night := h.Night()
	from, to := night.Add(22*time.Hour).Format(time.RFC3339), night.Add(25*time.Hour).Format(time.RFC3339)
	for _, c := range []struct {
		message m
		holds   string
	}{
		{m{"type": "config/area_registry/list"}, `"area_id":"bedroom"`},
		{m{"type": "zone/list"}, `[]`},
		{m{"type": "config/floor_registry/list"}, `"floor_id":"upper"`},
		{m{"type": "config/device_registry/list"}, `"manufacturer":"Daikin"`},
		{m{"type": "config/entity_registry/list"}, `"entity_id":"light.bedroom_ceiling"`},
		{m{"type": "config/entity_registry/get", "entity_id": "light.bedroom_ceiling"}, `"platform":"zha"`},
		{m{"type": "config/entity_registry/list_for_display"}, `"ei":"sensor.mains_voltage_l1"`},
		{m{"type": "search/related", "item_type": "entity", "item_id": "light.bedroom_ceiling"}, `"automation":["automation.bedroom_night_light","automation.bedtime"]`},
		{m{"type": "system_log/list"}, `fault U2 (power supply)`},
		{m{"type": "config/automation/config", "entity_id": "automation.mains_voltage_alert"}, `"below":207`},
		{m{"type": "history/history_during_period", "start_time": from, "end_time": to, "entity_ids": []any{"sensor.mains_voltage_l1"}}, `"s":"196.3"`},
		{m{"type": "logbook/get_events", "start_time": from, "end_time": to, "entity_ids": []any{"light.bedroom_ceiling"}}, `"state":"unavailable"`},
		{m{"type": "recorder/statistics_during_period", "start_time": from, "end_time": to, "statistic_ids": []any{"sensor.mains_voltage_l1"}, "period": "hour"}, `"min":196.3`},
		{m{"type": "extract_from_target", "target": m{"area_id": "bedroom"}}, `"light.bedroom_bedside_left"`},
		{m{"type": "manifest/list"}, `"domain":"zha"`},
		{m{"type": "get_services"}, `"set_hvac_mode"`},
	} {
		ok, no := j.Ask("send", m{"message": c.message})
		raw, _ := json.Marshal(ok)
		if no != nil || !strings.Contains(string(raw), c.holds) {
			t.Errorf("%v: got %.400s %v, want something with %s", c.message["type"], raw, no, c.holds)
		}
	}
}

// TestDigitalAlchemy starts an application of @digital-alchemy/hass. It asks for all registries
// before it is ready, calls a service and gets events for changes. The library logs unexpected
// answers: it must log none.
func TestDigitalAlchemy(t *testing.T) {
	t.Parallel()
	h, srv := house(t, homeassistant.Options{Token: "tok"})
	h.Label("night", "light.bedroom_ceiling")
	j := nodetest.Start(t)
	j.Want("alchemy", m{"url": srv.URL, "token": "tok"}, "connected")
	for what, holds := range map[string]string{
		"agents":    `"conversation.home_assistant"`,
		"areas":     `"area_id":"bedroom"`,
		"backups":   `"backups":[]`,
		"config":    `"location_name":"Casa"`,
		"devices":   `"manufacturer":"Daikin"`,
		"entries":   `"domain":"zha"`,
		"floors":    `"floor_id":"upper"`,
		"labels":    `"label_id":"night"`,
		"manifests": `"domain":"zha"`,
		"registry":  `"entity_id":"light.bedroom_ceiling"`,
		"sources":   `"light.bedroom_ceiling"`,
		"themes":    `{}`,
		"zones":     `[]`,
	} {
		raw, err := json.Marshal(j.Must("alchemy_list", m{"what": what}))
		if err != nil || !strings.Contains(string(raw), holds) {
			t.Errorf("%s: got %.400s %v, want something with %s", what, raw, err, holds)
		}
	}
	has := j.Must("alchemy_has", nil).(m)
	for what, least := range map[string]float64{"areas": 5, "devices": 20, "entities": 100, "floors": 2, "labels": 1, "registry": 100, "zones": 0} {
		if got, _ := has[what].(float64); got < least {
			t.Errorf("when it is ready it has %v %s, want at least %v", has[what], what, least)
		}
	}
	night := h.Night()
	past := j.Must("alchemy_history", m{"id": "sensor.mains_voltage_l1", "from": night.Add(22 * time.Hour), "to": night.Add(25 * time.Hour)})
	if states, _ := past.([]any); len(states) < 2 {
		t.Errorf("got the history %.200v, want several states", past)
	}

	j.Want("alchemy_state", m{"id": "light.kitchen_counter"}, "off")
	j.Must("alchemy_call", m{"domain": "light", "service": "turn_on", "data": m{"entity_id": "light.kitchen_counter", "brightness_pct": 40}})
	j.Want("alchemy_change", m{"id": "light.kitchen_counter", "state": "on"}, "on")
	h.SetState("binary_sensor.kitchen_leak", "on", nil)
	j.Want("alchemy_change", m{"id": "binary_sensor.kitchen_leak", "state": "on"}, "on")
	want := map[homeassistant.Call]int{{Service: "light.turn_on", Entity: "light.kitchen_counter"}: 1}
	if d := cmp.Diff(want, h.Calls()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	j.Want("alchemy_complaints", nil, []any{})

	// A Core without a Supervisor does not know the Supervisor's command. It does not know a
	// command that only earlier releases had either.
	unknown := []any{m{"code": "unknown_command", "message": "Unknown command."}}
	j.Want("alchemy_send", m{"message": m{"type": "supervisor/api", "endpoint": "/addons", "method": "get"}}, unknown)
	j.Want("alchemy_send", m{"message": m{"type": "backup/remove", "slug": "x"}}, unknown)
	j.Must("alchemy_end", nil)
}
