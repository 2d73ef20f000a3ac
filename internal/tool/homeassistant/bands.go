package homeassistant

import (
	"image/color"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plotters and tickers that gonum/plot lacks: stretches of states, gaps, and the clock of a
// house.

func rect(x0, y0, x1, y1 vg.Length) []vg.Point {
	return []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}}
}

// upright draws a vertical line at each moment that the axis names.
type upright struct {
	at    []plot.Tick
	style draw.LineStyle
}

func (u upright) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for _, t := range u.at {
		c.StrokeLine2(u.style, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
	}
}

// holes draws the times without a value.
type holes struct {
	s  ChartSeries
	to int64
}

func (h holes) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	for i, v := range h.s.Points {
		if !v.None {
			continue
		}
		end := h.to
		if i+1 < len(h.s.Points) {
			end = h.s.Points[i+1].At.UnixMilli()
		}
		from := x(float64(v.At.UnixMilli()))
		c.FillPolygon(hole, rect(from, c.Min.Y, max(x(float64(end)), from+1), c.Max.Y))
	}
}

// quiet lists the states in which nothing is on. The page has the same list.
var quiet = []string{"off", "closed", "idle", "not_home", "standby", "paused", "docked", "locked"}

// stretches draws states, with their names where there is room.
type stretches struct {
	s    ChartSeries
	to   int64
	tint color.RGBA
}

func (s stretches) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	shades := map[string]color.RGBA{}
	each := func(draw func(st Stretch, from, to vg.Length)) {
		for i, st := range s.s.States {
			end := s.to
			if i+1 < len(s.s.States) {
				end = s.s.States[i+1].At.UnixMilli()
			}
			from := x(float64(st.At.UnixMilli()))
			draw(st, from, max(x(float64(end)), from+1.2)) // at least wide enough to be seen
		}
	}
	each(func(st Stretch, from, to vg.Length) {
		if unknown(st.State) {
			return
		}
		fill, words := calm, color.Color(muted)
		if !slices.Contains(quiet, st.State) {
			shade, ok := shades[st.State]
			if !ok {
				shade = lighter(s.tint, float64(len(shades)%4)*0.22)
				shades[st.State] = shade
			}
			if fill, words = shade, color.White; shade != s.tint {
				words = ink
			}
		}
		s.stretch(c, st, from, to, fill, words)
	})
	// Times without a value are drawn last, above the states, since most are short.
	each(func(st Stretch, from, to vg.Length) {
		if !unknown(st.State) {
			return
		}
		fill := hole
		if to-from < 8 {
			fill = danger
		}
		s.stretch(c, st, from, to, fill, danger)
	})
}

func (stretches) stretch(c draw.Canvas, st Stretch, from, to vg.Length, fill, words color.Color) {
	c.FillPolygon(fill, rect(from, c.Min.Y, to, c.Max.Y))
	label, letters := drawable(word(st.State), ""), style(11, words, text.XLeft)
	if letters.Width(label)+10 < to-from {
		c.FillText(letters, vg.Point{X: from + 6, Y: (c.Min.Y + c.Max.Y) / 2}, label)
	}
}

// lighter mixes a colour with white.
func lighter(c color.RGBA, share float64) color.RGBA {
	mix := func(v uint8) uint8 { return v + uint8(share*float64(255-v)) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}

// word returns a state as people read it.
func word(state string) string {
	switch state {
	case "not_home":
		return "Away"
	}
	r := []rune(clip(strings.ReplaceAll(state, "_", " "), 40))
	if len(r) == 0 {
		return "Unknown"
	}
	return strings.ToUpper(string(r[:1])) + string(r[1:])
}

// figure formats a number with at most four digits, or with all digits before the decimal point.
func figure(v float64) string {
	digits := 0
	if a := math.Abs(v); a > 0 && a < 1000 {
		digits = min(max(0, 3-int(math.Floor(math.Log10(a)))), 4)
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// levels places three or four ticks at round numbers.
type levels struct{}

func (levels) Ticks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10(hi-lo)))
	for _, f := range []float64{0.2, 0.25, 0.5, 1, 2} {
		if (hi-lo)/(step*f) <= 5 {
			step *= f
			break
		}
	}
	var out []plot.Tick
	for n := math.Ceil(lo / step); n*step <= hi && len(out) < 8; n++ {
		out = append(out, plot.Tick{Value: n * step, Label: figure(n * step)})
	}
	return out
}

// tick is a moment that the time axis names.
type tick struct {
	at    time.Time
	label string
}

// ticks returns whole steps of the house's clock, at most twelve. The first tick of a day shows
// the weekday.
func ticks(from, to time.Time, zone *time.Location) []tick {
	const day = 24 * 60
	step := 31 * day
	for _, m := range []int{1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, day, 2 * day, 3 * day, 7 * day, 14 * day} {
		if to.Sub(from) <= time.Duration(12*m)*time.Minute {
			step = m
			break
		}
	}
	y, mo, d := from.In(zone).Date()
	var out []tick
	for n := 0; ; n += step { // minutes of local time, which may repeat when the clocks go back
		t := time.Date(y, mo, d, 0, n, 0, 0, zone)
		if t.After(to) {
			return out
		}
		if !t.After(from) || len(out) > 0 && !t.After(out[len(out)-1].at) {
			continue
		}
		label := t.Format("15:04")
		if t.Hour() == 0 && t.Minute() == 0 {
			label = t.Format("Mon 2 Jan")
		}
		out = append(out, tick{t, label})
	}
}
