package homeassistant

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"strings"
	"time"

	"golang.org/x/image/font"
	"gonum.org/v1/plot"
	pfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// A chart's image has a band for each entity, one above the other over a common time axis:
// numbers as a line with the outliers marked, other states as coloured stretches. It looks like
// the page in its light theme. Lengths are in units of the image's width; a unit is one and a
// half pixels.
const (
	plotWidth  = 960
	plotLeft   = 64 // for the numbers of the axis
	plotRight  = 20
	plotTop    = 14
	plotFoot   = 40 // the axis of time
	bandNumber = 132
	bandState  = 30
	bandHead   = 24 // the name above a band
	bandGap    = 18
	plotDPI    = 108
	maxPath    = 40 // points
)

// The colours of the page.
var (
	ink    = color.RGBA{0x18, 0x18, 0x1b, 255}
	muted  = color.RGBA{0x5b, 0x5b, 0x66, 255}
	faint  = color.RGBA{0xde, 0xde, 0xe3, 255}
	calm   = color.RGBA{0xec, 0xec, 0xef, 255}
	danger = color.RGBA{0xb4, 0x23, 0x18, 255}
	hole   = color.RGBA{0xfd, 0xec, 0xeb, 255}
	tints  = []color.RGBA{{0xc2, 0x57, 0x0a, 255}, {0x02, 0x69, 0xa1, 255}, {0x15, 0x80, 0x3d, 255}, {0x7e, 0x22, 0xce, 255}}
)

func style(size vg.Length, c color.Color, x text.XAlignment) text.Style {
	return text.Style{Color: c, Font: pfont.Font{Typeface: typeface, Variant: variant, Size: size}, XAlign: x, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
}

func bold(s text.Style) text.Style {
	s.Font.Weight = font.WeightBold
	return s
}

// image draws a chart as a PNG, 1440 pixels wide.
func (c Chart) image(zone *time.Location) ([]byte, error) {
	img := vgimg.NewWith(vgimg.UseWH(plotWidth, c.height()), vgimg.UseDPI(plotDPI))
	if err := c.draw(draw.New(img), zone); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img.Image()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c Chart) height() vg.Length {
	height := vg.Length(plotTop + plotFoot)
	for _, s := range c.Series {
		height += bandHead + s.height() + bandGap
	}
	return height
}

func (c Chart) draw(page draw.Canvas, zone *time.Location) error {
	marks := ticks(time.UnixMilli(c.From), time.UnixMilli(c.To), zone)
	top := c.height() - plotTop
	for i, s := range c.Series {
		tint := tints[i%len(tints)]
		s.head(page, top-bandHead/2, tint)
		top -= bandHead
		foot := vg.Length(0)
		if i == len(c.Series)-1 {
			foot = plotFoot / 2 // the labels of the axis stand below the band
		}
		p, err := s.band(c, marks, tint, foot > 0)
		if err != nil {
			return err
		}
		// The axes differ in width, but the bands must line up.
		box := draw.Canvas{Canvas: page.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: 0, Y: top - s.height() - foot}, Max: vg.Point{X: plotWidth, Y: top}}}
		inner := p.DataCanvas(box)
		p.Draw(draw.Crop(box, plotLeft-inner.Min.X, plotWidth-plotRight-inner.Max.X, top-s.height()-inner.Min.Y, top-inner.Max.Y))
		top -= s.height() + bandGap
	}
	const day = "Mon 2 Jan 15:04"
	span := time.UnixMilli(c.From).In(zone).Format(day) + " – " + time.UnixMilli(c.To).In(zone).Format(day+" 2006") + "  ·  " + zone.String()
	page.FillText(style(11, muted, text.XLeft), vg.Point{X: plotLeft, Y: plotTop}, span)
	return nil
}

func (s ChartSeries) height() vg.Length {
	if len(s.Points) > 0 {
		return bandNumber
	}
	return bandState
}

// head draws the line above a band: the name, and the range of the values.
func (s ChartSeries) head(c draw.Canvas, y vg.Length, tint color.Color) {
	c.FillPolygon(tint, rect(plotLeft, y-5, plotLeft+8, y+3))
	name := bold(style(12.5, ink, text.XLeft))
	at := vg.Point{X: plotLeft + 14, Y: y}
	title := clip(drawable(s.Name, s.ID), 80)
	c.FillText(name, at, title)
	if unit := drawable(s.Unit, ""); unit != "" {
		at.X += name.Width(title) + 7
		c.FillText(style(11.5, muted, text.XLeft), at, unit)
	}
	c.FillText(style(11.5, muted, text.XRight), vg.Point{X: plotWidth - plotRight, Y: y}, s.summary())
}

// summary returns what a reader wants to know first: the range of a number.
func (s ChartSeries) summary() string {
	lo, hi, ok := s.bounds()
	unit := drawable(s.Unit, "")
	switch {
	case len(s.Points) == 0 && len(s.States) == 0:
		return "nothing recorded"
	case !ok:
		return ""
	case lo == hi:
		return strings.TrimSpace(figure(lo) + " " + unit)
	}
	return strings.TrimSpace(figure(lo) + " to " + figure(hi) + " " + unit)
}

func (s ChartSeries) bounds() (lo, hi float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, p := range s.Points {
		if !p.None {
			lo, hi = min(lo, p.Value), max(hi, p.Value)
		}
	}
	return lo, hi, lo <= hi
}

// band is the plot of one series.
func (s ChartSeries) band(c Chart, marks []tick, tint color.RGBA, last bool) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Min, p.X.Max = float64(c.From), float64(c.To)
	p.X.Padding, p.Y.Padding, p.X.LineStyle.Width, p.Y.LineStyle.Width, p.X.Tick.Length, p.Y.Tick.Length = 0, 0, 0, 0, 0, 0
	p.Y.Tick.Label = style(11, muted, text.XRight)
	p.X.Tick.Label = style(11, muted, text.XCenter)
	p.X.Tick.Label.YAlign = text.YTop
	var at, labels []plot.Tick
	for _, m := range marks {
		at = append(at, plot.Tick{Value: float64(m.at.UnixMilli())})
		labels = append(labels, plot.Tick{Value: float64(m.at.UnixMilli()), Label: m.label})
	}
	p.X.Tick.Marker = plot.ConstantTicks(nil)
	if last {
		p.X.Tick.Marker = plot.ConstantTicks(labels)
	}
	grid := draw.LineStyle{Color: faint, Width: 0.7}
	p.Add(upright{at, grid}, holes{s, c.To})
	if len(s.Points) == 0 {
		p.Y.Min, p.Y.Max = 0, 1
		p.Y.Tick.Marker = plot.ConstantTicks(nil)
		p.Add(stretches{s, c.To, tint})
		return p, nil
	}
	lo, hi, ok := s.bounds()
	if !ok {
		lo, hi = 0, 1
	}
	pad := max((hi-lo)*0.08, math.Abs(hi)*1e-6, 1e-6)
	if lo == hi {
		pad = max(math.Abs(hi)*0.05, 1)
	}
	p.Y.Min, p.Y.Max = lo-pad, hi+pad
	p.Y.Tick.Marker = levels{}
	lines := plotter.NewGrid()
	lines.Horizontal, lines.Vertical = grid, draw.LineStyle{}
	p.Add(lines)
	return p, s.lines(p, c.To, tint)
}

// lines adds the values. Each lasts until the next one, so the line has steps; it is interrupted
// at gaps.
func (s ChartSeries) lines(p *plot.Plot, to int64, tint color.RGBA) error {
	var run plotter.XYs
	flush := func(end float64) error {
		if len(run) == 0 {
			return nil
		}
		run = append(run, plotter.XY{X: end, Y: run[len(run)-1].Y})
		// The rasterizer's time grows with the square of a path's length. Short paths that
		// overlap look the same.
		for i := 0; i+1 < len(run); i += maxPath {
			l, err := plotter.NewLine(run[i:min(i+maxPath+2, len(run))])
			if err != nil {
				return err
			}
			l.StepStyle, l.Width, l.Color = plotter.PostStep, 1.4, tint
			p.Add(l)
		}
		run = nil
		return nil
	}
	for _, v := range s.Points {
		at := float64(v.At.UnixMilli())
		if !v.None {
			run = append(run, plotter.XY{X: at, Y: v.Value})
		} else if err := flush(at); err != nil {
			return err
		}
	}
	if err := flush(float64(to)); err != nil {
		return err
	}
	var dots plotter.XYs
	for _, m := range s.Marks {
		if v, ok := value(m.State); ok {
			dots = append(dots, plotter.XY{X: float64(m.At), Y: v})
		}
	}
	if len(dots) == 0 {
		return nil
	}
	for _, g := range []draw.GlyphStyle{{Color: color.White, Radius: 5, Shape: draw.CircleGlyph{}}, {Color: danger, Radius: 3.6, Shape: draw.CircleGlyph{}}} {
		d, err := plotter.NewScatter(dots)
		if err != nil {
			return err
		}
		d.GlyphStyle = g
		p.Add(d)
	}
	return nil
}
