package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-server/parley"
	"github.com/parley-server/parley/internal/schedule"
)

// TestNext: which times an expression has, also where the clock is set.
func TestNext(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		expr, zone, after string
		want              string // the following times, as the zone's clock shows them
	}{
		"each day":              {"0 7 * * *", "Europe/Zurich", "2026-01-30T06:00:00Z", "Jan 31 07:00 +01:00, Feb 1 07:00 +01:00, Feb 2 07:00 +01:00"},
		"strictly after":        {"0 7 * * *", "", "2026-01-30T07:00:00Z", "Jan 31 07:00 +00:00"},
		"a moment before":       {"0 7 * * *", "", "2026-01-30T06:59:59.999Z", "Jan 30 07:00 +00:00"},
		"names":                 {"30 8 * JAN,feb Mon-Fri", "", "2026-01-30T09:00:00Z", "Feb 2 08:30 +00:00, Feb 3 08:30 +00:00"},
		"day or weekday":        {"0 0 13 * fri", "", "2026-02-07T00:00:00Z", "Feb 13 00:00 +00:00, Feb 20 00:00 +00:00"},
		"@daily":                {"@daily", "Asia/Kolkata", "2026-01-30T00:00:00Z", "Jan 31 00:00 +05:30"},
		"leap day":              {"0 0 29 2 *", "America/New_York", "2026-01-01T00:00:00Z", "Feb 29 00:00 -05:00"},
		"steps":                 {"*/20 9-10 * * *", "", "2026-01-30T09:10:00Z", "Jan 30 09:20 +00:00, Jan 30 09:40 +00:00, Jan 30 10:00 +00:00, Jan 30 10:20 +00:00, Jan 30 10:40 +00:00, Jan 31 09:00 +00:00"},
		"gap":                   {"30 2 * * *", "Europe/Zurich", "2026-03-28T12:00:00Z", "Mar 29 03:00 +02:00, Mar 30 02:30 +02:00"},
		"gap, several":          {"0,15,30,45 2 * * *", "Europe/Zurich", "2026-03-28T12:00:00Z", "Mar 29 03:00 +02:00, Mar 30 02:00 +02:00"},
		"gap, and at its end":   {"30 2,3 * * *", "Europe/Zurich", "2026-03-28T12:00:00Z", "Mar 29 03:00 +02:00, Mar 29 03:30 +02:00, Mar 30 02:30 +02:00"},
		"gap, the end as well":  {"0 2,3 * * *", "Europe/Zurich", "2026-03-28T12:00:00Z", "Mar 29 03:00 +02:00, Mar 30 02:00 +02:00"},
		"gap, hourly":           {"30 * * * *", "Europe/Zurich", "2026-03-29T00:00:00Z", "Mar 29 01:30 +01:00, Mar 29 03:30 +02:00, Mar 29 04:30 +02:00"},
		"gap of a day":          {"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "Dec 29 12:00 -10:00, Dec 31 00:00 +14:00, Dec 31 12:00 +14:00"},
		"gap at midnight":       {"0 0 * * *", "America/Asuncion", "2023-09-30T12:00:00Z", "Oct 1 01:00 -03:00, Oct 2 00:00 -03:00"},
		"fold":                  {"30 2 * * *", "Europe/Zurich", "2026-10-24T12:00:00Z", "Oct 25 02:30 +02:00, Oct 26 02:30 +01:00"},
		"fold, between":         {"30 2 * * *", "Europe/Zurich", "2026-10-25T01:10:00Z", "Oct 26 02:30 +01:00"},
		"fold, at its end":      {"0 3 * * *", "Europe/Zurich", "2026-10-24T12:00:00Z", "Oct 25 03:00 +01:00, Oct 26 03:00 +01:00"},
		"fold, hourly":          {"30 * * * *", "Europe/Zurich", "2026-10-24T23:00:00Z", "Oct 25 01:30 +02:00, Oct 25 02:30 +02:00, Oct 25 02:30 +01:00, Oct 25 03:30 +01:00"},
		"fold, every 15 of all": {"*/15 * * * *", "Europe/Zurich", "2026-10-25T00:40:00Z", "Oct 25 02:45 +02:00, Oct 25 02:00 +01:00, Oct 25 02:15 +01:00"},
		"half an hour":          {"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "Apr 5 01:45 +11:00, Apr 6 01:45 +10:30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := schedule.Parse(tc.expr, tc.zone)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			zone, _ := time.LoadLocation(tc.zone)
			var got []string
			for range strings.Split(tc.want, ", ") {
				if at = e.Next(at); at.IsZero() {
					break
				}
				got = append(got, at.In(zone).Format("Jan 2 15:04 -07:00"))
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestExprRefused: what is not an expression is refused with the field that is wrong.
func TestExprRefused(t *testing.T) {
	t.Parallel()
	for expr, zone := range map[string]string{
		"": "", "* * * *": "", "* * * * * *": "", "60 * * * *": "", "@every 1h": "", "@reboot": "", "TZ=Europe/Zurich * * * * *": "", "TZ=x": "", "* * * * 8": "",
		"0 0 30 2 *": "", ", * * * *": "", "1,,2 * * * *": "", "*/0 * * * *": "", "5-1 * * * *": "", "0 0 * * *": "Mars/Base", "0 1 * * *": "Local",
		"-1 * * * *": "", "9999999999999999999999 * * * *": "", "a-b * * * *": "", "- * * * *": "", "1/ * * * *": "",
	} {
		_, err := schedule.Parse(expr, zone)
		e, ok := err.(*parley.Error)
		field := "cron"
		if zone != "" {
			field = "time_zone"
		}
		if !ok || e.Code != parley.CodeInvalid || e.Field != field || e.Hint == "" {
			t.Errorf("%q in %q: got %v, want a hint about %s", expr, zone, err, field)
		}
	}
}

func TestShortest(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]time.Duration{
		"* * * * *": time.Minute, "*/7 * * * *": 4 * time.Minute, "0,2 0 1 1 *": 2 * time.Minute, "@daily": 24 * time.Hour, "@monthly": 28 * 24 * time.Hour, "59 23 * * *": 24 * time.Hour,
	} {
		e, err := schedule.Parse(expr, "Europe/Zurich")
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Shortest(); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
}

// FuzzParse: no expression ends the process, and the times of one that is accepted go forward.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"0 7 * * mon-fri", "@daily", "*/5 1,2 29 2 ?", "TZ=", "0 0 30 2 *"} {
		f.Add(s, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, expr string, at int64) {
		if len(expr) > 100 {
			return
		}
		e, err := schedule.Parse(expr, "Europe/Zurich")
		if err != nil {
			return
		}
		from := time.Unix(at%4_000_000_000, 0)
		for range 5 {
			next := e.Next(from)
			if next.IsZero() {
				return
			}
			if !next.After(from) {
				t.Fatalf("%q: after %s comes %s", expr, from, next)
			}
			from = next
		}
	})
}
