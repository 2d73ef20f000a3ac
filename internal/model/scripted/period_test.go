package scripted_test

import (
	"testing"

	"github.com/parley-server/parley/internal/model/scripted"
)

func TestPeriods(t *testing.T) {
	t.Parallel()
	const day = "2026-03-04" // a Wednesday
	for q, want := range map[string][2]string{
		"what was decided today?":                    {"2026-03-04", ""},
		"What did the CEO say yesterday?":            {"2026-03-03", "2026-03-03"},
		"anything since yesterday?":                  {"2026-03-03", ""},
		"what changed this week":                     {"2026-03-02", ""},
		"what changed last week":                     {"2026-02-23", "2026-03-01"},
		"what changed since last week":               {"2026-02-23", ""},
		"what changed in the last week":              {"2026-02-25", ""},
		"was anything decided in the last 7 days?":   {"2026-02-25", ""},
		"was anything decided in the past ten days?": {"2026-02-22", ""},
		"news of the last couple of days":            {"2026-03-02", ""},
		"what happened last month":                   {"2026-02-01", "2026-02-28"},
		"what happened over the last few months":     {"2025-12-04", ""},
		"what happened last year":                    {"2025-01-01", "2025-12-31"},
		"what was said last Friday":                  {"2026-02-27", "2026-02-27"},
		"what was said last Wednesday":               {"2026-02-25", "2026-02-25"},
		"what did we decide two weeks ago":           {"2026-02-16", "2026-02-22"},
		"what did we decide a month ago":             {"2026-02-01", "2026-02-28"},
		"Has anything happened since March?":         {"2026-03-01", ""},
		"Has anything happened since April?":         {"2025-04-01", ""},
		"what was decided in February":               {"2026-02-01", "2026-02-28"},
		"what was decided in May 2024":               {"2024-05-01", "2024-05-31"},
		"anything since 2026-02-10?":                 {"2026-02-10", ""},
	} {
		if first, last, ok := scripted.Period(q, day); !ok || first != want[0] || last != want[1] {
			t.Errorf("%s: got %s to %s, %t, want %s to %s", q, first, last, ok, want[0], want[1])
		}
	}
	for _, q := range []string{"which database do we use?", "how long do we keep it?", "what is planned for next week", "is it open on Monday?"} {
		if first, last, ok := scripted.Period(q, day); ok {
			t.Errorf("%s: got %s to %s", q, first, last)
		}
	}
	if _, _, ok := scripted.Period("what was decided today?", "at noon"); ok {
		t.Error("there is a period without a day")
	}
}
