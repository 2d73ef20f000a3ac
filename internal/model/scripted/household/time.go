package household

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	dayPart  = regexp.MustCompile(`\b(?:(this|yesterday|last|today|monday|tuesday|wednesday|thursday|friday|saturday|sunday)(?:'s)? )(morning|afternoon|evening|night)\b`)
	someDay  = regexp.MustCompile(`\b(?:last |on )?(monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b`)
	someLast = regexp.MustCompile(`\b(?:last|past) (\d+|few|couple of) (hour|day)s?\b`)
	someAgo  = regexp.MustCompile(`\b(\d+|an|a|two|three|few) (hour|day)s? ago\b`)
	longAgo  = regexp.MustCompile(`\b(?:last|this|past) (year|summer|winter|spring|autumn|quarter)\b|\byears? ago\b`)
)

// timeIn finds the time that a question is about, as the tools take it.
func timeIn(flat string) span {
	s := wordsForTime(flat)
	switch {
	case strings.Contains(flat, "after midnight"):
		s.half = 1
	case strings.Contains(flat, "before midnight"):
		s.half = -1
	}
	if s.half != 0 && s.tool == "" {
		s.tool, s.said = "night", "during the night"
	}
	return s
}

// short reports whether the span is a day or less, so that the hour alone says
// when in it something was.
func (s span) short() bool {
	return s.tool != "" && s.tool != "now" && !strings.HasSuffix(s.tool, "week") && !strings.HasSuffix(s.tool, "month") && !strings.HasPrefix(s.tool, "-")
}

func wordsForTime(flat string) span {
	has := func(pattern string) bool { return re(`\b(?:` + pattern + `)\b`).MatchString(flat) }
	if m := dayPart.FindStringSubmatch(flat); m != nil {
		switch m[1] {
		case "today":
			m[1] = "this"
		case "last":
			if m[2] != "night" {
				m[1] = "yesterday"
			}
		}
		said := m[1] + " " + m[2]
		if someDay.MatchString(m[1]) {
			said = "on " + upper(m[1]) + " " + m[2]
		}
		if m[1] == "this" && m[2] == "night" {
			return span{tool: "tonight", said: "tonight"}
		}
		return span{tool: m[1] + " " + m[2], said: said}
	}
	if m := someLast.FindStringSubmatch(flat); m != nil {
		return ago(m[1], m[2], "in the last ")
	}
	if m := someAgo.FindStringSubmatch(flat); m != nil {
		return ago(m[1], m[2], "in the last ")
	}
	switch {
	case longAgo.MatchString(flat):
		return span{tool: "last month", said: longAgo.FindString(flat)}
	case has("day before yesterday"):
		return span{tool: "day before yesterday", said: "the day before yesterday"}
	case has("yesterday|yesterdays|yesterday's"):
		return span{tool: "yesterday", said: "yesterday"}
	case has("tonight|tonights"):
		return span{tool: "tonight", said: "tonight"}
	case has("during the night|in the night|overnight|at night|over night|all night"):
		return span{tool: "night", said: "during the night"}
	case has("today|todays|today's|so far"):
		return span{tool: "today", said: "today"}
	case has("last week|past week"):
		return span{tool: "last week", said: "last week"}
	case has("this week"):
		return span{tool: "this week", said: "this week"}
	case has("last month|past month"):
		return span{tool: "last month", said: "last month"}
	case has("this month"):
		return span{tool: "this month", said: "this month"}
	case has("now|right now|currently|at the moment"):
		return span{tool: "now", said: "now"}
	}
	if m := someDay.FindStringSubmatch(flat); m != nil {
		return span{tool: m[1], said: "on " + upper(m[1])}
	}
	return span{}
}

func ago(n, unit, before string) span {
	v := map[string]int{"an": 1, "a": 1, "two": 2, "three": 3, "few": 3, "couple of": 2}[n]
	if v == 0 {
		v, _ = strconv.Atoi(n)
	}
	v = max(v, 1)
	h := v
	if unit == "day" {
		h *= 24
	}
	return span{tool: fmt.Sprintf("-%dh", min(h, 744)), said: fmt.Sprintf("%s%s %s", before, count(v), strings.TrimSuffix(unit, "s")+plural(v, "", "s"))}
}

// tool is the span for a tool. "During the night" is the one under way, or the
// last one, which are two things before noon and after.
func (u *turn) span(s span, otherwise string) string {
	switch {
	case s.tool == "" || s.tool == "now":
		return otherwise
	case s.tool == "night" && u.know.now.Hour() >= 12:
		return "last night"
	case s.tool == "night":
		return "tonight"
	}
	return s.tool
}
