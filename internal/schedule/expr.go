package schedule

import (
	"hash/fnv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/parley-server/parley"
)

// Expr is a cron expression in a time zone. The library reads the expression and finds the next
// match on a clock that is never set; what happens where the zone's clock is set is decided here.
type Expr struct {
	spec *cron.SpecSchedule
	zone *time.Location
	// hourly expressions are about the minutes of every hour: they follow the time that passes,
	// and not the clock on the wall.
	hourly bool
}

// starBit marks a field that was written as * in what the library made of an expression.
const starBit = 1 << 63

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Parse reads an expression. Empty zone: UTC.
func Parse(text, zone string) (Expr, error) {
	bad := func(format string, args ...any) error {
		return parley.Errorf(parley.CodeInvalid, format, args...).WithField("cron").
			WithHint("five fields, minute hour day month weekday, such as 0 7 * * mon-fri; or @hourly, @daily, @weekly, @monthly, @yearly. Sunday is 0 or sun")
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Expr{}, parley.Errorf(parley.CodeInvalid, "there is no time zone %q", parley.Cut(zone, 60)).WithField("time_zone").WithHint("such as Europe/Zurich")
	}
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Expr{}, bad("cron is empty")
	case strings.Contains(text, "TZ="):
		return Expr{}, parley.Errorf(parley.CodeInvalid, "the expression names a time zone").WithField("cron").WithHint("the field time_zone does that")
	case strings.HasPrefix(text, "@every"):
		return Expr{}, bad("@every is not supported, because such times depend on when the server started")
	}
	for field := range strings.FieldsSeq(text) {
		if strings.Trim(field, ",-/") == "" || strings.HasPrefix(field, ",") || strings.HasSuffix(field, ",") || strings.Contains(field, ",,") {
			return Expr{}, bad("%q is not a field of a cron expression", parley.Cut(field, 60))
		}
	}
	made, err := parser.Parse(strings.ToLower(text))
	spec, ok := made.(*cron.SpecSchedule)
	if err != nil || !ok {
		return Expr{}, bad("%q: %v", parley.Cut(text, 100), err)
	}
	spec.Location = time.UTC
	e := Expr{spec: spec, zone: loc, hourly: spec.Hour&starBit != 0}
	if e.spec.Next(sampled).IsZero() {
		return Expr{}, bad("%q: there is no such day", parley.Cut(text, 100))
	}
	return e, nil
}

// Next returns the first time after t, or the zero time if there is none within years.
//
// Where the clock is set forward, times that it skips become the moment when that happens, once.
// Where it is set back, a time that comes twice counts the first time only. Both do not hold for
// hourly expressions, which have their runs at each of the minutes that pass.
func (e Expr) Next(t time.Time) time.Time {
	if e.spec == nil {
		return time.Time{} // a schedule without times
	}
	at := t.In(e.zone)
	clock := onWall(at) // the search goes on after this reading of the clock
	for range 24 {      // stretches between changes of the clock: more than in the five years that the library searches
		_, off := at.Zone()
		start, end := at.ZoneBounds()
		if !start.IsZero() && !e.hourly {
			// What the clock showed until it was set back has had its run.
			if had := onWall(start.Add(-time.Second)).Add(time.Second); clock.Before(had) {
				clock = had.Add(-time.Second)
			}
		}
		found := e.spec.Next(clock)
		if found.IsZero() {
			return time.Time{}
		}
		moment := found.Add(-time.Duration(off) * time.Second)
		if end.IsZero() || moment.Before(end) {
			return moment.UTC()
		}
		last, next := onWall(end.Add(-time.Second)).Add(time.Second), onWall(end.In(e.zone))
		if !e.hourly && last.Before(next) {
			if skipped := e.spec.Next(last.Add(-time.Second)); skipped.Before(next) {
				return end.UTC()
			}
		}
		at, clock = end.In(e.zone), next.Add(-time.Second)
	}
	return time.Time{}
}

// onWall is what a clock shows at t, as if it were UTC.
func onWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// sampled is where Shortest begins, whenever it is asked: what is accepted today is accepted
// tomorrow. The year is a leap year.
var sampled = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)

// Shortest returns the shortest time between two runs, on a clock that is never set.
func (e Expr) Shortest() time.Duration {
	least := 5 * 366 * 24 * time.Hour
	before := e.spec.Next(sampled)
	// 3000: each minute of two days, or each of a day's hours for months.
	for range 3000 {
		next := e.spec.Next(before)
		if next.IsZero() {
			break
		}
		least = min(least, next.Sub(before))
		if least <= time.Minute {
			break
		}
		before = next
	}
	return least
}

// delay is the part of the jitter that a schedule has. It does not change.
func delay(of parley.Principal, id parley.ScheduleID, jitter int) time.Duration {
	if jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	for _, text := range []string{of.User, of.Org, string(id)} {
		_, _ = h.Write([]byte(text))
		_, _ = h.Write([]byte{0})
	}
	return time.Duration(mix(h.Sum64())%uint64(jitter*1000+1)) * time.Millisecond
}

// mix spreads the bits of h, because ids that were made one after the other differ in few.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
