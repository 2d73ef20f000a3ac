package homeassistant

import (
	"context"
	"fmt"
	"strings"
	"time"

	zombie "zombiezen.com/go/sqlite"

	"github.com/parley-server/parley"
)

// Decode shows what the decoder makes of a frame.
func Decode(raw []byte) (string, error) {
	fs, err := decode(raw)
	var out []string
	for _, f := range fs {
		out = append(out, fmt.Sprintf("%d %s", f.ID, f.Type))
	}
	return strings.Join(out, ", "), err
}

// SetQueryTime makes a SELECT end sooner.
func SetQueryTime(o *Options, d time.Duration) { o.sqlTime = max(d, 50*time.Millisecond) }

// SetLateness makes Reconcile wait less long for a late effect.
func SetLateness(o *Options, d time.Duration) { o.lateness = d }

// Functions that a question may call.
const Functions = allowed

// Ask answers questions by a database without tables, with our functions or as
// SQLite has it. It returns the cells.
func Ask(ctx context.Context, ours bool) func(query string) string {
	return func(query string) string {
		conn, err := zombie.OpenConn(":memory:", zombie.OpenReadWrite|zombie.OpenCreate|zombie.OpenMemory)
		if err != nil {
			return err.Error()
		}
		defer conn.Close() //nolint:errcheck // it holds nothing
		db := &memory{conn: conn}
		if ours {
			out, err := db.ask(ctx, query, 10, time.Minute)
			return fmt.Sprint(out.Rows, err)
		}
		s, _, err := conn.PrepareTransient(query)
		if err != nil {
			return err.Error()
		}
		defer s.Finalize() //nolint:errcheck // the error came with Step
		if _, err := s.Step(); err != nil {
			return err.Error()
		}
		if s.ColumnCount() == 1 {
			return s.ColumnText(0)
		}
		return fmt.Sprint([][]any{{s.ColumnText(0), s.ColumnText(1)}}, nil)
	}
}

// Period reads the words for a time.
var Period = period

// SeriesOf is the chart of n points.
func SeriesOf(from, to time.Time, n int, at func(i int) (time.Time, string)) ChartSeries {
	s := series{from: from, to: to}
	numbers := 0
	for i := range n {
		t, state := at(i)
		if len(s.points) > 0 && s.points[len(s.points)-1].state == state {
			continue
		}
		if _, ok := value(state); ok {
			numbers++
		}
		s.points = append(s.points, point{t, state})
	}
	s.numeric = numbers > 0 && numbers >= len(s.points)/2
	return s.chart()
}

// Ticks are the labels of an axis.
func Ticks(from, to time.Time, zone *time.Location) []string {
	var out []string
	for _, t := range ticks(from, to, zone) {
		out = append(out, t.label)
	}
	return out
}

// EnterAnalyze takes a slot as a query of ha_analyze does.
func (t *Toolset) EnterAnalyze(ctx context.Context, who parley.Principal) (leave func(), err error) {
	return t.analyzing.Enter(ctx, who)
}

// MaxQueued is how many queries of one user wait at most.
const MaxQueued = maxQueued
