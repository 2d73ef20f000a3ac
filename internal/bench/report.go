package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// report prints the table, each line as soon as it is known.
type report struct {
	w     io.Writer
	short int
}

const columns = "%-74s %12s %12s %9s %9s  %s\n"

func (r *report) head(machine string) {
	fmt.Fprintln(r.w, machine)
	fmt.Fprintf(r.w, columns, "figure", "floor", "parley", "ratio", "aim", "")
	fmt.Fprintln(r.w, strings.Repeat("-", 126))
}

func (r *report) foot(took time.Duration) {
	fmt.Fprintln(r.w, strings.Repeat("-", 126))
	switch r.short {
	case 0:
		fmt.Fprintf(r.w, "every aim is met; took %s\n", took.Round(time.Second))
	default:
		fmt.Fprintf(r.w, "%d short of their aim; took %s\n", r.short, took.Round(time.Second))
	}
}

func (r *report) line(name, floor, value, ratio, aim string, good bool) {
	verdict := "ok"
	switch {
	case aim == "":
		aim, verdict = "-", ""
	case !good:
		verdict = "short"
		r.short++
	}
	fmt.Fprintf(r.w, columns, name, floor, value, ratio, aim, verdict)
}

// aim is the target of a ratio; the zero value means none.
type aim struct {
	ratio float64
	more  bool // a larger ratio is better
}

func atMost(ratio float64) aim  { return aim{ratio, false} }
func atLeast(ratio float64) aim { return aim{ratio, true} }

// pairs is a figure measured in rounds, for the floor and for Parley. The ratio is the median of
// the rounds' ratios, because a disturbance affects both.
func (r *report) pairs(name string, floors, values []float64, unit func(float64) string, a aim) {
	of, want := ratioOf(floors, values), ""
	if a.ratio != 0 {
		want = fmt.Sprintf("%gx", a.ratio)
	}
	r.line(name, unit(median(floors)), unit(median(values)), ratio(of), want, of <= a.ratio && !a.more || of >= a.ratio && a.more)
}

// ratioOf is the median of the rounds' ratios, or NaN if noise exceeded the figure in each.
func ratioOf(floors, values []float64) float64 {
	var ratios []float64
	for i := range floors {
		if floors[i] > 0 && values[i] > 0 {
			ratios = append(ratios, values[i]/floors[i])
		}
	}
	return median(ratios)
}

func ratio(of float64) string {
	if math.IsNaN(of) {
		return "-"
	}
	return fmt.Sprintf("%.2fx", of)
}

// within is a figure whose aim is an amount. A negative floor means none.
func (r *report) within(name string, floor, value float64, unit func(float64) string, aim float64) {
	base, ratio := "-", "-"
	if floor >= 0 {
		base = unit(floor)
	}
	if floor > 0 && value > 0 {
		ratio = fmt.Sprintf("%.2fx", value/floor)
	}
	r.line(name, base, unit(value), ratio, unit(aim), value <= aim)
}

// note is a line of text.
func (r *report) note(format string, args ...any) { fmt.Fprintf(r.w, "  "+format+"\n", args...) }

func millis(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f ms", v)
	}
	return fmt.Sprintf("%.3g ms", v)
}

func seconds(v float64) string { return fmt.Sprintf("%.2f s", v) }
func kilo(v float64) string    { return fmt.Sprintf("%.1f KB", v/1024) }
func mega(v float64) string    { return fmt.Sprintf("%.1f MB", v/(1<<20)) }
func rate(v float64) string    { return fmt.Sprintf("%.0f/s", v) }
func count(v float64) string   { return fmt.Sprintf("%.0f", v) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile sorts its own copy.
func quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	return s[min(len(s)-1, int(q*float64(len(s))))]
}

func median(v []float64) float64 { return quantile(v, 0.5) }
