package scripted

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// asksWhyNot matches a question for a reason against something.
var asksWhyNot = pattern.New(`(?i)\bwhy\b.*(?:\bnot\b|n['’]?t\b)`)

// notWhy returns the thing of which a question asks why it is not so, if the record does not decide
// against it. A reason against one thing is none against another.
func (s *script) notWhy(v view, x *weighed) string {
	if x == nil || !asksWhyNot.MatchString(v.Question) {
		return ""
	}
	for _, m := range s.mentions(v.Question) {
		if !slices.Contains(rejects(x.record), m.name) {
			return v.Question[m.start:m.end]
		}
	}
	return ""
}

// mentioned returns the newest record of a weight that has a name, or nil.
func mentioned(name string, w weight) *weighed {
	for _, xs := range [][]*weighed{w.All, w.Wishes} {
		for _, x := range xs {
			if holds(stems(x.Text), stems(name)) {
				return x
			}
		}
	}
	return nil
}

// offered matches a question that offers two answers of one form, each behind a preposition.
var offered = pattern.New(`(?i)^\W*(?:\w+\W+){0,2}?(?:is|are|was|were|do|does|did|has|have|should|shall|will|can|must)\b.* ((?:for|with|by|in|on|at|to|from|until|after|before) [\w -]+?),? or (?:is it |are they )?(?:only |just |merely |even )?((?:for|with|by|in|on|at|to|from|until|after|before) [\w -]+?)\W*$`)

// either returns which of the two answers that a question offers a record speaks of, and the other;
// nothing if it speaks of both or of none.
func either(v view, x *weighed) []string {
	m := offered.FindStringSubmatch(v.Question)
	if m == nil || x == nil {
		return nil
	}
	a := m[1]
	for _, p := range strings.Fields("for with by in on at to from until after before") { // the last one begins it
		if i := strings.LastIndex(" "+strings.ToLower(a), " "+p+" "); i > 0 {
			a = a[i:]
		}
	}
	all := stems(x.Text)
	speaks := func(text string) bool {
		return !slices.ContainsFunc(tokens(text), func(t token) bool { return !keyword.IsStop(t.word) && !slices.Contains(all, stem(t.word)) })
	}
	switch first, second := speaks(a), speaks(m[2]); {
	case first == second:
		return nil
	case first:
		return []string{a, m[2]}
	}
	return []string{m[2], a}
}

// isEither matches a question for yes or no that offers two answers.
var isEither = pattern.New(`(?i)\w or (?:only|just|merely|even|is it|are they|for|with|by|in|on|at|to|from|until|after|before)\b`)

// aroundDay matches a length of time before or after a day that is named elsewhere.
var aroundDay = pattern.New(`(?i)\b(an?|\d+|one|two|three|four|five|six|seven|eight|ten|twelve|fourteen|thirty) (day|week|month)s? (?:more )?(earlier|before|later|after)\b`)

var aFullDay = pattern.New(`(?i)\b(\d{1,2}) (` + months + `) (\d{4})\b`)

// comesTo returns the day that a time such as "two weeks earlier" comes to, counted from a day that a
// newer record changed; "" if there is no such time or no such day.
func comesTo(w weight) string {
	if w.Best == nil || w.Stale == nil {
		return ""
	}
	m, day := aroundDay.FindStringSubmatch(w.Best.Says), aFullDay.FindString(w.Stale.Text)
	from, err := time.Parse("2 January 2006", properMonth(day))
	if m == nil || err != nil {
		return ""
	}
	n, _ := strconv.Atoi(m[1])
	if v, ok := spelledOut[strings.ToLower(m[1])]; ok {
		n = int(v)
	}
	if strings.Contains("later after", strings.ToLower(m[3])) {
		n = -n
	}
	to := from.AddDate(0, 0, -n*map[string]int{"day": 1, "week": 7}[strings.ToLower(m[2])])
	if strings.EqualFold(m[2], "month") {
		to = from.AddDate(0, -n, 0)
	}
	if strings.HasSuffix(strings.ToLower(m[3]), "er") && !strings.EqualFold(m[3], "after") {
		m[0] += " than"
	}
	return to.Format("2 January 2006") + ", " + m[0] + " " + from.Format("2 January 2006")
}

// properMonth is a day with the capital letters that the time package reads.
func properMonth(day string) string {
	fields := strings.Fields(day)
	for i := range fields {
		fields[i] = upper(strings.ToLower(fields[i]))
	}
	return strings.Join(fields, " ")
}
