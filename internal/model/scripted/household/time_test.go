package household

import (
	"testing"
	"time"
)

// Each period: the tools' words, people's words, and the words for one day earlier.
func TestTimes(t *testing.T) {
	t.Parallel()
	for words, want := range map[string][3]string{
		"what happened yesterday evening":         {"yesterday evening", "yesterday evening", "day before yesterday evening"},
		"last morning":                            {"yesterday morning", "yesterday morning", "day before yesterday morning"},
		"today's morning":                         {"this morning", "this morning", "yesterday morning"},
		"this night":                              {"tonight", "tonight", "last night"},
		"last night":                              {"last night", "last night", "day before yesterday night"},
		"yesterday night":                         {"yesterday night", "yesterday night", "day before yesterday night"},
		"the night before last":                   {"day before yesterday night", "the night before last", ""},
		"the day before yesterday in the evening": {"day before yesterday evening", "the evening before last", ""},
		"the day before yesterday":                {"day before yesterday", "the day before yesterday", ""},
		"on monday":                               {"monday", "on Monday", "sunday"},
		"sunday evening":                          {"sunday evening", "on Sunday evening", "saturday evening"},
		"in the last 3 hours":                     {"-3h", "in the last three hours", ""},
		"in the last hour":                        {"-1h", "in the last hour", ""},
		"past couple of days":                     {"-48h", "in the last two days", ""},
		"two days ago":                            {"-48h", "in the last two days", ""},
		"last year":                               {"last month", "last year", ""},
		"this week":                               {"this week", "this week", "last week"},
		"so far":                                  {"today", "today", "yesterday"},
		"overnight":                               {"night", "during the night", "last night"},
		"after midnight":                          {"night", "during the night", "last night"},
		"since this morning":                      {"since this morning", "since this morning", ""},
		"since monday":                            {"since monday", "since Monday", ""},
		"since lunchtime":                         {"since lunch", "since lunch", ""},
		"all day":                                 {"today", "today", "yesterday"},
		"right now":                               {"now", "now", "yesterday"},
		"is the yesterdaying lamp on":             {"", "", ""},
		"turn on the night light in the nightroom": {"", "", ""},
	} {
		s := timeIn(words)
		if got := [3]string{s.tool, s.said, s.before().tool}; got != want {
			t.Errorf("%q is %q, want %q", words, got, want)
		}
	}
	for words, want := range map[string]string{"at 3 am": "03:00", "at noon": "12:00", "at 12 am": "00:00", "around 7.30 pm": "19:30", "at 17:05": "17:05", "at lunchtime": "12:30", "over breakfast": "08:00", "at 20 percent": "", "at home": ""} {
		if got := clockIn(words); got != want {
			t.Errorf("%q is at %q, want %q", words, got, want)
		}
	}
}

// A span that begins with "since" lasts until now, so it never begins after now.
func TestSince(t *testing.T) {
	t.Parallel()
	for now, wants := range map[string]map[string]string{
		"2026-11-23 19:06": {"since this morning": "2026-11-23 05:00", "since yesterday": "2026-11-22 00:00", "since last night": "2026-11-22 20:00", "since friday": "2026-11-20 00:00", "since monday": "2026-11-16 00:00", "since lunch": "2026-11-23 12:30", "since yesterday evening": "2026-11-22 17:00", "tonight": "this evening"},
		"2026-11-23 09:00": {"since this evening": "2026-11-22 17:00", "since lunch": "2026-11-22 12:30", "since midnight": "2026-11-23 00:00", "tonight": "tonight"},
		"2026-11-23 01:07": {"since this morning": "2026-11-22 05:00", "since last night": "2026-11-21 20:00", "tonight": "tonight"},
	} {
		at, err := time.Parse("2006-01-02 15:04", now)
		if err != nil {
			t.Fatal(err)
		}
		u := &turn{know: house{now: at}}
		for words, want := range wants {
			if got := u.span(timeIn(words), ""); got != want {
				t.Errorf("at %s %q begins at %q, want %q", now, words, got, want)
			}
		}
	}
}
