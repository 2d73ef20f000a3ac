package homeassistant_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// TestNothingReachesPastTheTarget: Home Assistant also takes targets from the data
// of a call. None of its ways there is taken here, at any depth.
func TestNothingReachesPastTheTarget(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.house.Label("everything", "light.garden")
	r.house.Label("everything", "bedroom")
	for _, data := range []m{
		{"floor_id": "upper"},
		{"label_id": "everything"},
		{"label_id": []string{"everything"}},
		{"area_id": "bedroom"},
		{"device_id": "x"},
		{"entity_id": "all"},
		{"Floor_ID ": "upper"},
		{"brightness_pct": 40, "floor_id": []string{"upper", "ground"}},
		{"variables": m{"floor_id": "upper"}},
		{"variables": []m{{"entity_id": "all"}}},
		{"variables": m{"entity_id": []string{"light.garden", "all"}}},
	} {
		r.refused("ha_call_service", on("light.turn_on", "light.kitchen_counter", data), parley.CodeInvalid, "belongs into target, not into data")
		r.refused("ha_call_service", m{"service": "light.turn_on", "data": data}, parley.CodeInvalid, "belongs into target, not into data")
	}
	for _, target := range []m{{"floor_id": "upper"}, {"label_id": "everything"}} {
		raw, _ := json.Marshal(m{"service": "light.turn_on", "target": target})
		if e := r.box.Check("ha_call_service", raw); e == nil {
			t.Errorf("the target %v is taken", target)
		}
	}
	for _, id := range []string{"all", "ALL", " all", "none", "light.*", "{{ states.light | list }}", "light.garden, lock.front_door"} {
		if res := r.run("ha_call_service", on("light.turn_on", id, nil)); res.Outcome != parley.OutcomeError {
			t.Errorf("%q is taken: %s", id, res.Output)
		}
	}
	if got := r.house.Calls(); len(got) != 0 {
		t.Errorf("got %v, want no call", got)
	}
}

// TestReaches: what a call acts on is named with the members of groups and what
// its data name.
func TestReaches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	const speaker, tv = "media_player.living_room_speaker", "media_player.living_room_tv"
	r.house.SetState(speaker, "buffering", m{"group_members": []string{speaker, tv}})
	r.until(speaker, "buffering")
	bedroom := []string{"light.bedroom", "light.bedroom_bedside_left", "light.bedroom_bedside_right", "light.bedroom_ceiling"}
	for name, c := range map[string]struct {
		in   m
		want []string
	}{
		"an entity":            {on("light.turn_on", "light.garden", m{"brightness_pct": 3}), []string{"light.garden"}},
		"a group":              {on("light.turn_on", "light.bedroom", nil), bedroom},
		"an area":              {m{"service": "light.turn_on", "target": m{"area_id": "bedroom"}}, bedroom[1:]},
		"named by the data":    {on("media_player.media_play", tv, m{"group_members": []string{"light.garden"}}), []string{"light.garden", tv}},
		"a group in the data":  {m{"service": "homeassistant.check_config", "data": m{"x": " Light.Bedroom"}}, bedroom},
		"players together":     {on("media_player.media_play", speaker, nil), []string{speaker, tv}},
		"a scene in the data":  {m{"service": "homeassistant.check_config", "data": m{"entities": m{"light.garden": m{"state": "on"}}}}, []string{"light.garden"}},
		"a list in one text":   {m{"service": "homeassistant.check_config", "data": m{"x": "light.garden, lock.front_door"}}, []string{"light.garden", "lock.front_door"}},
		"no entity":            {m{"service": "persistent_notification.create", "data": m{"message": "hi"}}, nil},
		"a service alone":      {m{"service": "light.turn_on"}, nil},
		"an empty target":      {m{"service": "light.turn_on", "target": m{"entity_id": []string{}}, "data": m{"brightness_pct": 3}}, nil},
		"a script":             {m{"service": "script.movie_night"}, []string{"script.movie_night"}},
		"of scripts":           {m{"service": "script.turn_off"}, nil},
		"what is refused":      {on("light.turn_on", "light.nowhere", nil), nil},
		"more than is allowed": {on("light.turn_on", "light.garden", m{"floor_id": "upper"}), nil},
	} {
		raw, _ := json.Marshal(c.in)
		got, scoped := r.box.Reaches("ha_call_service", raw)
		if d := cmp.Diff(c.want, got); d != "" || !scoped {
			t.Errorf("%s: scoped %v (-want +got):\n%s", name, scoped, d)
		}
	}
	if got, scoped := r.box.Reaches("ha_history", json.RawMessage(`{}`)); scoped || got != nil {
		t.Errorf("a tool that reads: %v, %v", got, scoped)
	}
}

// TestVet: before anybody is asked for permission, the service and everything it names must
// exist. Home Assistant receives none of these calls.
func TestVet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	vet := func(tool string, in m) error {
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		return r.box.Vet(tool, raw)
	}
	r.live()
	for name, c := range map[string]struct {
		tool string
		in   m
		code parley.Code // "": nothing is wrong
		says string
	}{
		"a lamp":                 {"ha_call_service", on("light.turn_on", "light.garden", m{"brightness_pct": 3}), "", ""},
		"an area":                {"ha_call_service", m{"service": "light.turn_off", "target": m{"area_id": "bedroom"}}, "", ""},
		"no target":              {"ha_call_service", m{"service": "script.movie_night"}, "", ""},
		"an unknown entity":      {"ha_call_service", on("light.turn_on", "light.nowhere", nil), parley.CodeNotFound, "light.nowhere"},
		"one unknown of two":     {"ha_call_service", m{"service": "light.turn_on", "target": m{"entity_id": []string{"light.garden", "light.nowhere"}}}, parley.CodeNotFound, "light.nowhere"},
		"an unknown service":     {"ha_call_service", on("light.explode", "light.garden", nil), parley.CodeNotFound, "light.explode"},
		"a service of another":   {"ha_call_service", on("lock.unlock", "light.garden", nil), parley.CodeInvalid, "does not act on light.garden"},
		"no service":             {"ha_call_service", on("turn it on", "light.garden", nil), parley.CodeInvalid, "is not a service"},
		"an unknown device":      {"ha_call_service", m{"service": "light.turn_on", "target": m{"device_id": "d0"}}, parley.CodeNotFound, `the id "d0"`},
		"an unknown area":        {"ha_call_service", m{"service": "light.turn_on", "target": m{"area_id": "cellar"}}, parley.CodeNotFound, `the id "cellar"`},
		"all":                    {"ha_call_service", on("light.turn_on", "all", nil), parley.CodeInvalid, "not accepted"},
		"past the target":        {"ha_call_service", on("light.turn_on", "light.garden", m{"floor_id": "upper"}), parley.CodeInvalid, "belongs into target"},
		"a tool that only reads": {"ha_history", m{"entities": []string{"light.nowhere"}}, "", ""},
	} {
		err := vet(c.tool, c.in)
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if e, ok := errors.AsType[*parley.Error](err); !ok || e.Code != c.code || !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: got %v, want %s with %q", name, err, c.code, c.says)
		}
	}
	// A house that is not known yet has nothing against a call.
	unknown, err := homeassistant.New(homeassistant.Options{URL: "http://127.0.0.1:1", Token: token, AllowServices: []string{"*"}, Later: true})
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	if err := unknown.Vet("ha_call_service", json.RawMessage(`{"service":"light.explode","target":{"entity_id":"light.nowhere"}}`)); err != nil {
		t.Errorf("an unknown house: %v", err)
	}
	if got := r.house.Calls(); len(got) != 0 {
		t.Errorf("got %v, want no call", got)
	}
}
