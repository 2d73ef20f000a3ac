package homeassistant

import (
	"testing"
	"time"

	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// TestDrawable: a name is drawn as it is if the font has it, and otherwise as its id.
func TestDrawable(t *testing.T) {
	t.Parallel()
	const id = "light.wohnkuche"
	for name, want := range map[string]string{
		"Wohnküche":       "Wohnküche",
		"Wohnku\u0308che": "Wohnküche", // with a combining mark
		"Спальня":         "Спальня",
		"Υπνοδωμάτιο":     "Υπνοδωμάτιο",
		"CO₂ µg/m³ °C":    "CO₂ µg/m³ °C",
		"居間の照明":           id,
		"غرفة النوم":      id,
		"חדר שינה":        id, // the font has it, but it would be drawn backwards
		"शयनकक्ष":         id,
		"Wohnküche 💡":     id,
		"x\u0323\u0301":   id,
		"":                "",
	} {
		if got := drawable(name, id); got != want {
			t.Errorf("%q is drawn as %q, want %q", name, got, want)
		}
	}
}

// TestChartHasGlyphs: the image has a glyph for every character that is drawn in it, whatever
// things are named and whatever they say.
func TestChartHasGlyphs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC)
	c := Chart{From: at.UnixMilli(), To: at.Add(time.Hour).UnixMilli(), Zone: "UTC"}
	for _, foreign := range []string{"居間の照明", "غرفة النوم", "Küche 💡"} {
		c.Series = append(c.Series,
			ChartSeries{ID: "sensor.a", Name: foreign, Unit: foreign, Points: []Value{{At: at, Value: 1}, {At: at.Add(time.Minute), Value: 2}}},
			ChartSeries{ID: "light.b", Name: foreign, States: []Stretch{{at, foreign}, {at.Add(30 * time.Minute), "on"}}})
	}
	var r recorder.Canvas
	if err := c.draw(draw.NewCanvas(&r, plotWidth, c.height()), time.UTC); err != nil {
		t.Fatal(err)
	}
	var buf sfnt.Buffer
	texts := map[string]int{}
	for _, a := range r.Actions {
		s, ok := a.(*recorder.FillString)
		if !ok {
			continue
		}
		texts[s.String]++
		f := plot.DefaultTextHandler.Cache().Lookup(s.Font, vg.Length(11)).Face
		for _, letter := range s.String {
			if glyph, err := f.GlyphIndex(&buf, letter); err != nil || glyph == 0 {
				t.Errorf("%q is drawn without a glyph for %q", s.String, letter)
			}
		}
	}
	if texts["sensor.a"] != 3 || texts["light.b"] != 3 || texts["On"] != 3 {
		t.Errorf("drawn: %v", texts)
	}
}
