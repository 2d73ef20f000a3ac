package homeassistant_test

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sim "github.com/parley-server/parley/internal/sim/homeassistant"
	"github.com/parley-server/parley/internal/tool/homeassistant"
)

// chart is what a page reads of a chart.
type chart struct {
	From, To int64
	Zone     string
	Series   []struct {
		ID      string `json:"entity_id"`
		Name    string
		Unit    string
		Points  [][2]*float64
		States  [][2]any
		Marks   []homeassistant.Mark
		Thinned bool
	}
}

// TestChart: beside the image that everybody can show, a history keeps its values
// for a page that draws them itself.
func TestChart(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *sim.Options, _ *homeassistant.Options) { o.TimeZone = "America/Sao_Paulo" })
	_, data := r.ok("ha_history", m{"entities": []string{"sensor.mains_voltage_l1", "binary_sensor.heat_pump_compressor", "light.bedroom_ceiling"}, "start": "2026-11-20 15:00", "end": "2026-11-21 03:00"})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.files) != 2 || r.files[0].MediaType != "image/png" || r.files[0].Name != data["plot"] || r.files[1].MediaType != homeassistant.ChartType || r.files[1].Name != data["chart"] {
		t.Fatalf("got %d files, want the image and the values that the answer names", len(r.files))
	}
	var c chart
	if err := json.Unmarshal(r.files[1].Body, &c); err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	if c.From != from.UnixMilli() || c.To != from.Add(12*time.Hour).UnixMilli() || c.Zone != "America/Sao_Paulo" || len(c.Series) != 3 {
		t.Fatalf("got %d to %d in %s with %d series", c.From, c.To, c.Zone, len(c.Series))
	}
	volts, pump, light := c.Series[0], c.Series[1], c.Series[2]
	if volts.Name != "Mains meter Voltage L1" || volts.Unit != "V" || len(volts.States) != 0 || len(volts.Points) < 500 {
		t.Errorf("got %s in %q with %d points and %d states", volts.Name, volts.Unit, len(volts.Points), len(volts.States))
	}
	saoPaulo, err := time.LoadLocation("America/Sao_Paulo")
	if err != nil {
		t.Fatal(err)
	}
	var marked []string
	for _, m := range volts.Marks {
		marked = append(marked, time.UnixMilli(m.At).In(saoPaulo).Format("15:04:05 ")+m.State)
	}
	if diff := cmp.Diff([]string{"22:34:10 201.8", "22:52:41 199.4", "23:17:05 196.3", "23:41:30 203.1", "00:26:48 197.7"}, marked); diff != "" {
		t.Errorf("marked (-want +got):\n%s", diff)
	}
	if len(pump.Points) != 0 || len(pump.States) < 10 || pump.States[0][0] != float64(c.From) {
		t.Errorf("the compressor has %d points and the states %v", len(pump.Points), pump.States)
	}
	gone := 0
	for _, s := range light.States {
		if s[1] == "unavailable" {
			gone++
		}
	}
	if gone != 5 {
		t.Errorf("the light was away %d times, want 5", gone)
	}
	img, err := png.Decode(bytes.NewReader(r.files[0].Body))
	if err != nil {
		t.Fatal(err)
	}
	if to := os.Getenv("PLOT"); to != "" { // to be looked at
		_ = os.WriteFile(to, r.files[0].Body, 0o600)
	}
	if b := img.Bounds(); b.Dx() != 1440 || b.Dy() != 558 {
		t.Errorf("got an image of %v", b)
	}
	for name, c := range map[string]color.RGBA{
		"the line": {0xc2, 0x57, 0x0a, 255}, "what stands out": {0xb4, 0x23, 0x18, 255}, "the pump": {0x02, 0x69, 0xa1, 255}, "what is off": {0xec, 0xec, 0xef, 255}, "letters": {0x18, 0x18, 0x1b, 255},
	} {
		if n := count(img, c); n < 60 {
			t.Errorf("%s has %d pixels", name, n)
		}
	}
}

func count(img image.Image, want color.RGBA) (n int) {
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if r, g, b, _ := img.At(x, y).RGBA(); uint8(r>>8) == want.R && uint8(g>>8) == want.G && uint8(b>>8) == want.B {
				n++
			}
		}
	}
	return n
}

// TestChart_is_bounded: however much was recorded, a chart is small, and has what
// stands out, every end of a gap, and the longest states.
func TestChart_is_bounded(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return from.Add(time.Duration(i) * 10 * time.Second) }
	const n = 200_000
	to := at(n)
	numbers := homeassistant.SeriesOf(from, to, n, func(i int) (time.Time, string) {
		switch {
		case i == n/3:
			return at(i), "190"
		case i%500 == 7:
			return at(i), "unavailable"
		}
		return at(i), strconv.FormatFloat(230+math.Sin(float64(i)), 'f', 2, 64)
	})
	states := homeassistant.SeriesOf(from, to, n, func(i int) (time.Time, string) {
		switch {
		case i >= 1000 && i < 3000:
			return at(i), "on"
		case i == n/2:
			return at(i), "unavailable"
		}
		return at(i), []string{"on", "off"}[i%2]
	})
	for name, c := range map[string]homeassistant.ChartSeries{"numbers": numbers, "states": states} {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) > 64<<10 || !c.Thinned {
			t.Errorf("%s: %d bytes, thinned %t", name, len(raw), c.Thinned)
		}
	}
	seen := false
	for i, p := range numbers.Points {
		seen = seen || p.Value == 190
		if p.None && i+1 < len(numbers.Points) && numbers.Points[i+1].At.Sub(p.At) != 10*time.Second {
			t.Fatalf("the gap at %s ends at %s", p.At, numbers.Points[i+1].At)
		}
	}
	if !seen || len(numbers.Marks) == 0 {
		t.Errorf("the dip is there: %t, and marked: %v", seen, numbers.Marks)
	}
	var text strings.Builder
	for i, s := range states.States {
		if i > 0 && states.States[i-1].State == s.State {
			t.Fatalf("%s begins twice, the second time at %s", s.State, s.At)
		}
		text.WriteString(s.State + " ")
	}
	if !strings.Contains(text.String(), "unavailable") {
		t.Error("that it was away is not there")
	}
}

// TestTicks: the axis names whole steps of the clock on the wall, also on the day
// that has an hour twice.
func TestTicks(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{"2026-11-20T22:15:00+01:00", "2026-11-21T06:00:00+01:00", "23:00, Sat 21 Nov, 01:00, 02:00, 03:00, 04:00, 05:00, 06:00"},
		{"2026-10-24T18:00:00+02:00", "2026-10-25T12:00:00+01:00", "20:00, 22:00, Sun 25 Oct, 02:00, 04:00, 06:00, 08:00, 10:00, 12:00"},
		{"2026-11-01T00:00:00+01:00", "2026-11-21T00:00:00+01:00", "Tue 3 Nov, Thu 5 Nov, Sat 7 Nov, Mon 9 Nov, Wed 11 Nov, Fri 13 Nov, Sun 15 Nov, Tue 17 Nov, Thu 19 Nov, Sat 21 Nov"},
		{"2026-11-20T22:15:00+01:00", "2026-11-20T22:16:30+01:00", "22:16"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		to, _ := time.Parse(time.RFC3339, c.to)
		if diff := cmp.Diff(c.want, strings.Join(homeassistant.Ticks(from, to, berlin), ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.from, diff)
		}
	}
}
