package homeassistant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// TestRetrieveKnowsWhatAQuestionIsAbout: most words of a question name nothing in
// a house.
func TestRetrieveKnowsWhatAQuestionIsAbout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.live()
	for question, want := range map[string]string{
		"Why did the bedroom lights flicker last night?": "light.bedroom",
		"How warm is it in the living room, temperature": "sensor.living_room_temperature",
		"Tell me a joke about submarines":                "",
	} {
		got, err := r.tools.Retrieve(t.Context(), parley.Local, question, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			if len(got) != 0 {
				t.Errorf("%q: got %v, want nothing", question, got)
			}
			continue
		}
		if len(got) == 0 || len(got) > 3 || !slices.ContainsFunc(got, func(s parley.Snippet) bool {
			return s.Ref == want && s.Source == "home assistant" && s.Text != ""
		}) {
			t.Errorf("%q: got %+v, want %s among them", question, got, want)
		}
	}
}

// TestStartIsLate: a toolset that only lists its tools makes no connection, and can be closed
// without one.
func TestStartIsLate(t *testing.T) {
	t.Parallel()
	tools, err := homeassistant.New(homeassistant.Options{URL: "http://127.0.0.1:1", Token: "x", Later: true})
	if err != nil {
		t.Fatal(err)
	}
	decls, err := tools.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range decls {
		act := d.Name == homeassistant.CallService
		if d.Actuation != act || act && d.SubjectOf([]byte(`{"service":"light.turn_on"}`)) != "light.turn_on" {
			t.Errorf("%s: actuation %v, subject %q", d.Name, d.Actuation, d.Subject)
		}
	}
	if got, err := tools.Retrieve(t.Context(), parley.Local, "bedroom", nil, 3); err != nil || got != nil {
		t.Errorf("got %v, %v of an index that was never filled", got, err)
	}
	tools.Close()
	tools.Close()
}

func TestPast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from, to := morning.Add(-24*time.Hour), morning
	past := func(id string) homeassistant.ChartSeries {
		t.Helper()
		c, err := r.tools.Past(t.Context(), id, from, to)
		if err != nil {
			t.Fatal(err)
		}
		if c.From != from.UnixMilli() || c.To != to.UnixMilli() || c.Zone != "UTC" || len(c.Series) != 1 {
			t.Fatalf("got %d series from %d to %d in %s", len(c.Series), c.From, c.To, c.Zone)
		}
		return c.Series[0]
	}
	volts := past("sensor.mains_voltage_l1")
	low := 1000.0
	for _, v := range volts.Points {
		low = min(low, v.Value)
	}
	if low != 196.3 || len(volts.States) != 0 {
		t.Errorf("the lowest of %d voltages is %v, and there are %d states", len(volts.Points), low, len(volts.States))
	}
	lamp := past("light.bedroom_ceiling")
	lost := 0
	for _, s := range lamp.States {
		if s.State == "unavailable" {
			lost++
		}
	}
	if lost != 5 || len(lamp.Points) != 0 {
		t.Errorf("the lamp was lost %d times, and has %d points", lost, len(lamp.Points))
	}
	if _, err := r.tools.Past(t.Context(), "light.nosuch", from, to); err == nil || !strings.Contains(err.Error(), "no entity") {
		t.Errorf("got %v", err)
	}
}
