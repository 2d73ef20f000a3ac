package scripted

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-server/parley/internal/keyword"
	"github.com/parley-server/parley/internal/pattern"
)

// aDay matches a day or month in a text.
var aDay = pattern.New(`(?i)\b(?:` + months + `|(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow)\b|\d{4}-\d\d`)

func upper(text string) string {
	_, n := utf8.DecodeRuneInString(text)
	return strings.ToUpper(text[:n]) + text[n:]
}

var since = pattern.New(`(?i)\b(?:since|after|from)\b (?:the )?(?:(?:beginning|start|middle|end|first) of )?(?:(\d{4}-\d\d(?:-\d\d)?)|(` + months + `)(?: (\d{4}))?)`)

// sinceWhen returns the day from which on a question asks. A month without a year is the latest
// that has begun by the last day.
func sinceWhen(question string, last time.Time) time.Time {
	m := since.FindStringSubmatch(question)
	if in := within.FindStringSubmatch(question); m == nil && in != nil {
		m = []string{in[0], "", in[1], in[2]}
	}
	if m == nil {
		return time.Time{}
	}
	if m[1] != "" {
		for _, layout := range []string{time.DateOnly, "2006-01"} {
			if t, err := time.Parse(layout, m[1]); err == nil {
				return t
			}
		}
		return time.Time{}
	}
	month, _ := time.Parse("January", strings.ToUpper(m[2][:1])+strings.ToLower(m[2][1:]))
	year := last.Year()
	if m[3] != "" {
		t, _ := time.Parse("2006", m[3])
		year = t.Year()
	} else if month.Month() > last.Month() {
		year--
	}
	return time.Date(year, month.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// lastDay returns the day of the turn, or that of the newest record if the turn's is not known.
func lastDay(v view, rs []record) time.Time {
	last := v.today()
	if last.IsZero() {
		for _, r := range rs {
			if r.at.After(last) {
				last = r.at
			}
		}
	}
	return last
}

// oldest matches a question about a first decision. A first decision need not change
// anything.
var oldest = pattern.New(`(?i)\b(?:oldest|earliest|very first)\b`)

// decidedSince returns the records in which something was decided or changed in the
// period that the question names. It returns nil if the question has a topic.
func (s *script) decidedSince(v view, rs []record) []record {
	if !s.everything(v) {
		return nil
	}
	from := sinceWhen(v.Question, lastDay(v, rs))
	to := until(v.Question, from)
	pages, messages := ofPages(v.Question), ofMessages(v.Question)
	out := []record{}
	for _, r := range rs {
		if pages != messages && (r.User == "") != pages { // "anything on Slack since February?"
			continue
		}
		if kindOf(r, r.sentences) == statement && r.rank() > 1 && (!r.at.Before(from) || !r.Dated() && from.IsZero()) && (to.IsZero() || r.at.Before(to)) &&
			(oldest.MatchString(v.Question) || changes.MatchString(r.Text) || decided.MatchString(r.Text) || len(rejects(r)) > 0) {
			out = append(out, r)
		}
	}
	return out
}

// everything reports whether a question asks for all decisions, whatever their topic.
func (s *script) everything(v view) bool {
	if s.counting(v) {
		return false
	}
	all := s.overall(v.Question) || s.bare(v)
	if s.leans(v.Question) && (within.MatchString(v.Question) || since.MatchString(v.Question) || pastTime.MatchString(v.Question)) {
		for _, x := range slices.Backward(v.History) { // "and in March?"
			if !s.leans(x.Question) {
				all = s.overall(x.Question) && len(s.about(x.Question)) == 0
				break
			}
		}
	}
	return all && len(s.about(v.Question)) == 0
}

// bare reports whether a question is a time and no more, for an agent that does not see what it
// continues: "and yesterday?" The reason of the handoff names the topic if there is one.
func (s *script) bare(v view) bool {
	rest := within.ReplaceAllString(since.ReplaceAllString(timeless(v.Question), ""), "")
	if rest == v.Question || len(v.History) > 0 || len(keyword.Of(rest)) > 0 {
		return false
	}
	topic := ""
	if v.Handed != nil {
		_, topic, _ = strings.Cut(v.Handed.Why, lookUp)
	}
	return len(s.about(topic)) == 0
}

// overall reports whether a question, apart from its topic, asks what was decided or written.
func (s *script) overall(question string) bool {
	all, _ := s.asks("everything", question)
	return all || event.MatchString(question) && pastTime.MatchString(question) && voice(question) == ""
}

// latest returns the weight of records about different things. All of them hold.
func (s *script) latest(rs []record, sub subject) weight {
	w := weight{Subject: sub, Kind: "decisions"}
	for _, r := range rs {
		x := s.look(r, sub)
		x.Says, x.Verdict = shorten(plain(r.Text), maxSentence), "decided"
		w.All = append(w.All, x)
	}
	if len(w.All) > 0 {
		w.Best = w.All[0]
	}
	return w
}
