package homeassistant_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/seam"
	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
	"github.com/parley-server/parley/internal/toolbox"
)

func on(service string, entity any, data m) m {
	in := m{"service": service, "target": m{"entity_id": entity}}
	if data != nil {
		in["data"] = data
	}
	return in
}

func TestServicesTakeEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		in          m
		entity      string
		state, says string
	}{
		{on("light.turn_on", "light.kitchen_counter", m{"brightness_pct": 40}), "light.kitchen_counter", "on", `off → on {"brightness":102`},
		{on("switch.turn_off", []string{"switch.kitchen_fridge"}, nil), "switch.kitchen_fridge", "off", "on → off"},
		{on("climate.set_temperature", "climate.bedroom_radiator", m{"temperature": 19.5}), "climate.bedroom_radiator", "heat", `"temperature":19.5`},
		{on("climate.set_hvac_mode", "climate.bathroom_radiator", m{"hvac_mode": "off"}), "climate.bathroom_radiator", "off", "heat → off"},
		{on("cover.set_cover_position", "cover.bedroom_blind", m{"position": 30}), "cover.bedroom_blind", "open", `"current_position":30`},
		{on("cover.close_cover", "cover.living_room_blind", nil), "cover.living_room_blind", "closed", "open → closed"},
		{on("lock.unlock", "lock.front_door", nil), "lock.front_door", "unlocked", "locked → unlocked"},
		{on("input_number.set_value", "input_number.night_brightness", m{"value": 35}), "input_number.night_brightness", "35", "20 → 35"},
		{on("input_select.select_option", "input_select.house_mode", m{"option": "night"}), "input_select.house_mode", "night", "home → night"},
		{on("light.turn_off", "light.kitchen_counter", nil), "light.kitchen_counter", "off", "on → off"},
		{on("light.turn_off", "light.garden", nil), "light.garden", "off", "It was so before"},
		{on("switch.turn_on", "switch.old_office_plug", nil), "switch.old_office_plug", "unavailable", "does NOT show the state that was asked for: the device cannot be reached"},
		{m{"service": "script.movie_night"}, "media_player.living_room_tv", "on", "carried out script.movie_night"},
	} {
		text, _ := r.ok("ha_call_service", c.in)
		has(t, text, c.says)
		if got := r.house.Reported(c.entity); got != c.state {
			t.Errorf("%v: %s is %s, want %s", c.in, c.entity, got, c.state)
		}
	}
	text, _ := r.ok("ha_call_service", m{"service": "light.turn_on", "target": m{"area_id": "bedroom"}})
	has(t, text, "light.bedroom_ceiling", "light.bedroom_bedside_left", "light.bedroom_bedside_right")
	text, data := r.ok("ha_call_service", with(on("weather.get_forecasts", "weather.home", m{"type": "daily"}), m{"return_response": true}))
	has(t, text, `"forecast"`)
	if data["response"] == nil {
		t.Errorf("got %v, want a response", data)
	}
}

func TestServicesAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		in   m
		code parley.Code
		says string
	}{
		{on("light.turn_on", "light.bedroom_cieling", nil), parley.CodeNotFound, "did you mean light.bedroom_ceiling"},
		{on("light.explode", "light.bedroom_ceiling", nil), parley.CodeNotFound, "the services of light are toggle, turn_off, turn_on"},
		{on("lamp.turn_on", "light.bedroom_ceiling", nil), parley.CodeNotFound, "the domains with services are"},
		{on("light.turn_on", "all", nil), parley.CodeInvalid, "name the entities"},
		{on("light.turn_on", "light.bedroom_ceiling", m{"entity_id": "light.garden"}), parley.CodeInvalid, "belongs into target"},
		{on("light.turn_on", "light.bedroom_ceiling", m{"colour": "red"}), parley.CodeInvalid, "extra keys not allowed"},
		{on("climate.set_temperature", "climate.bedroom_radiator", m{"temperature": 90}), parley.CodeInvalid, "Accepted range is 5 to 25"},
		{on("weather.get_forecasts", "weather.home", m{"type": "daily"}), parley.CodeInvalid, "requires responses"},
		{m{"service": "light.turn_on", "target": m{"area_id": "cellar"}}, parley.CodeNotFound, "the ids are bathroom, bedroom"},
		{m{"service": "light.turn_on", "target": m{"device_id": "x"}}, parley.CodeNotFound, "no device"},
		{m{"service": "light.turn_on"}, parley.CodeInvalid, "must contain at least one of entity_id"},
		{on("light.turn_on", "lock.front_door", nil), parley.CodeInvalid, "light.turn_on does not act on lock.front_door"},
		{on("light.turn_on", "light.garden,light.bedroom", nil), parley.CodeNotFound, "no entity"},
	} {
		r.refused("ha_call_service", c.in, c.code, c.says)
	}
	r.house.SetFaults(sim.Faults{Fail: 1})
	r.refused("ha_call_service", on("light.turn_on", "light.garden", nil), parley.CodeTool, "the device did not answer", "analyze_errors")
	if got := r.house.Calls(); len(got) != 0 {
		t.Errorf("got %v, want no call", got)
	}
	if e := r.box.Check("ha_call_service", []byte(`{"service":"LOCK.unlock"}`)); e == nil {
		t.Error("a service in capitals, which rules would not see, is taken")
	}
}

func TestAllowedServices(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(_ *sim.Options, o *homeassistant.Options) {
		o.AllowServices = []string{"light.*", "switch.turn_off"}
	})
	r.refused("ha_call_service", on("lock.unlock", "lock.front_door", nil), parley.CodeForbidden, "lock.unlock is not on the list of allowed services: light.*, switch.turn_off")
	r.refused("ha_call_service", on("switch.turn_on", "switch.kitchen_fridge", nil), parley.CodeForbidden, "not on the list")
	r.refused("ha_call_service", on("lightning.strike", "light.garden", nil), parley.CodeForbidden, "not on the list")
	r.ok("ha_call_service", on("switch.turn_off", "switch.kitchen_fridge", nil))
	r.ok("ha_call_service", on("light.turn_on", "light.garden", nil))

	off := newRig(t, func(_ *sim.Options, o *homeassistant.Options) { o.AllowServices = nil })
	off.refused("ha_call_service", on("light.turn_on", "light.garden", nil), parley.CodeForbidden, "actuation is off")
	if got := off.house.Calls(); len(got) != 0 {
		t.Errorf("got %v, want no call", got)
	}
}

// TestLostAnswers: a call whose connection breaks is left open, and then found
// out; in the end each took effect at most once.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   sim.Faults
		in      m
		known   bool
		outcome parley.Outcome
		says    string
		calls   int
	}{
		"it took effect":         {sim.Faults{DropAfter: 1}, on("light.turn_on", "light.garden", nil), true, parley.OutcomeOK, "the states show that the call took effect", 1},
		"with a number":          {sim.Faults{DropAfter: 1}, on("light.turn_on", "light.office_desk", m{"brightness_pct": 50}), true, parley.OutcomeOK, "took effect", 1},
		"it never arrived":       {sim.Faults{DropBefore: 1}, on("light.turn_on", "light.garden", nil), true, parley.OutcomeError, "did not take effect", 0},
		"a toggle has no end":    {sim.Faults{DropAfter: 1}, on("light.toggle", "light.garden", nil), false, "", "", 1},
		"an unreachable one":     {sim.Faults{DropAfter: 1}, on("switch.turn_on", "switch.old_office_plug", nil), false, "", "", 0},
		"a target that is a lot": {sim.Faults{DropAfter: 1}, m{"service": "light.turn_on", "target": m{"area_id": "bedroom"}}, true, parley.OutcomeOK, "took effect", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.live()
			r.house.SetFaults(c.fault)
			r.later(time.Minute)
			raw, _ := json.Marshal(c.in)
			call := seam.Run{Others: alone, Call: r.call(), Started: r.now(), Name: "ha_call_service", Input: raw}
			res := r.box.Run(t.Context(), call, time.Time{})
			if res.Outcome != parley.OutcomeUnknown {
				t.Fatalf("got %s %s, want unknown", res.Outcome, res.Output)
			}
			r.later(10 * time.Second)
			found, known, err := r.box.Reconcile(t.Context(), call)
			if err != nil || known != c.known {
				t.Fatalf("got known %v, %v, want %v", known, err, c.known)
			}
			if known && (found.Outcome != c.outcome || !strings.Contains(found.Output, c.says)) {
				t.Errorf("got %s %s, want %s %s", found.Outcome, found.Output, c.outcome, c.says)
			}
			n := 0
			for _, v := range r.house.Calls() {
				n += v
			}
			if n != c.calls {
				t.Errorf("got %v, want %d calls", r.house.Calls(), c.calls)
			}
		})
	}
}

// TestFoundOutLater: the answer was lost, and before anybody asked the state was
// changed back. That it was as asked in between may have been anybody's doing.
func TestFoundOutLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.house.SetFaults(sim.Faults{DropAfter: 1})
	r.later(time.Minute)
	call := seam.Run{Others: alone, Call: r.call(), Started: r.now(), Name: "ha_call_service", Input: json.RawMessage(`{"service":"light.turn_on","target":{"entity_id":"light.garden"}}`)}
	r.box.Run(t.Context(), call, time.Time{})
	r.later(time.Minute)
	r.house.SetState("light.garden", "off", nil)
	r.later(time.Minute)
	if found, known, err := r.box.Reconcile(t.Context(), call); err != nil || known {
		t.Errorf("got %v %v %+v, want that it is not known", known, err, found)
	}
}

// TestSoAlready: the state was as asked before the call, if only by a moment,
// which says nothing of it.
func TestSoAlready(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.house.SetState("light.garden", "on", nil)
	r.later(time.Millisecond)
	r.house.SetFaults(sim.Faults{DropBefore: 1})
	call := seam.Run{Others: alone, Call: r.call(), Started: r.now(), Name: "ha_call_service", Input: json.RawMessage(`{"service":"light.turn_on","target":{"entity_id":"light.garden"}}`)}
	r.box.Run(t.Context(), call, time.Time{})
	r.later(time.Minute)
	if found, known, err := r.box.Reconcile(t.Context(), call); err != nil || known {
		t.Errorf("got %v %v %+v, want that it is not known", known, err, found)
	}
}

// TestOfAnotherProcess: after a restart of ours nothing is remembered, and the
// call is found out all the same.
func TestOfAnotherProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	r.later(time.Minute)
	call := seam.Run{Others: alone, Call: r.call(), Started: r.now(), Name: "ha_call_service", Input: json.RawMessage(`{"service":"lock.unlock","target":{"entity_id":"lock.front_door"}}`)}
	r.box.Run(t.Context(), call, time.Time{})

	next, err := homeassistant.New(homeassistant.Options{URL: r.srv.URL, Token: token, AllowServices: []string{"*"}, Now: r.now, Logger: slog.New(slog.DiscardHandler), Timeout: within, Patience: within})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	box, err := toolbox.New([]seam.Toolset{next}, toolbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found, known, err := box.Reconcile(t.Context(), call)
	if err != nil || !known || found.Outcome != parley.OutcomeOK {
		t.Errorf("got %v %v %+v, want that it took effect", known, err, found)
	}
	want := map[sim.Call]int{{Service: "lock.unlock", Entity: "lock.front_door"}: 1}
	if d := cmp.Diff(want, r.house.Calls()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDeclared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got := map[string]parley.Effect{}
	for _, d := range r.box.Decls() {
		got[d.Name] = d.Effect
		if len(d.Description) < 100 || d.OutputSchema == nil {
			t.Errorf("%s is declared poorly", d.Name)
		}
	}
	want := map[string]parley.Effect{
		"diagnose_entity": "read", "analyze_errors": "read", "index_search": "read", "ha_state_query": "read", "ha_history": "read", "ha_logbook": "read",
		"ha_analyze": "read", "ha_call_service": "write",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !r.box.CanReconcile("ha_call_service") {
		t.Error("a lost call cannot be found out")
	}
}

// alone says that no other call was made.
func alone(context.Context) ([]seam.Other, bool) { return nil, true }

// TestSomebodyElseDidIt: the call was lost on its way, and the state is as asked all
// the same. Whoever may have done it, it is no proof of the call.
func TestSomebodyElseDidIt(t *testing.T) {
	t.Parallel()
	raw := json.RawMessage(`{"service":"light.turn_on","target":{"entity_id":"light.garden"}}`)
	others := func(known bool, calls ...seam.Other) func(context.Context) ([]seam.Other, bool) {
		return func(context.Context) ([]seam.Other, bool) { return calls, known }
	}
	calls := func(bearer, service, data string) func(t *testing.T, r *rig) {
		return func(t *testing.T, r *rig) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.srv.URL+"/api/services/"+service, strings.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+bearer)
			resp, err := http.DefaultClient.Do(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			_ = resp.Body.Close()
		}
	}
	by := func(bearer string) func(t *testing.T, r *rig) {
		return calls(bearer, "light/turn_on", `{"entity_id":"light.garden"}`)
	}
	for name, c := range map[string]struct {
		others func(context.Context) ([]seam.Other, bool)
		does   func(t *testing.T, r *rig)
		known  bool
	}{
		"another session":                {others(true, seam.Other{Call: "o", Reaches: []string{"light.garden"}}), by(token), false},
		"one of which nobody knows what": {others(true, seam.Other{Call: "o"}), by(token), false},
		"whoever, where the log is gone": {others(false), by(token), false},
		"whoever, where nobody looks":    {nil, by(token), false},
		"a person":                       {alone, by("guest"), false},
		// Its context names our user, and that it was not the cause itself.
		"an automation that our user triggered": {alone, calls(token, "automation/trigger", `{"entity_id":"automation.garden_at_sunset"}`), false},
		"the lamp itself":                       {alone, func(_ *testing.T, r *rig) { r.house.SetState("light.garden", "on", nil) }, false},
		"the call itself":                       {others(true, seam.Other{Call: "o", Reaches: []string{"light.office_desk"}}), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.live()
			r.later(time.Minute)
			fault := sim.Faults{DropBefore: 1}
			if c.does == nil {
				fault = sim.Faults{DropAfter: 1}
			}
			r.house.SetFaults(fault)
			call := seam.Run{Others: c.others, Call: r.call(), Started: r.now(), Name: "ha_call_service", Input: raw}
			if res := r.box.Run(t.Context(), call, time.Time{}); res.Outcome != parley.OutcomeUnknown {
				t.Fatalf("got %+v", res)
			}
			r.later(time.Second)
			if c.does != nil {
				c.does(t, r)
			}
			r.later(10 * time.Second)
			found, known, err := r.box.Reconcile(t.Context(), call)
			if err != nil || known != c.known {
				t.Fatalf("got %v, %v, %s, want known: %v", known, err, found.Output, c.known)
			}
			if known && (strings.Contains(found.Output, "so before") || strings.Contains(found.Output, "→") || !strings.Contains(found.Output, "took effect")) {
				t.Errorf("the text says two things: %s", found.Output)
			}
		})
	}
}
