package scripted

import (
	"slices"

	"github.com/parley-server/parley/internal/pattern"
)

// borne reports whether the record that holds reports the event the question asks about:
// a decision, a change or a completion. Without it, the answer is not yes.
func (s *script) borne(w weight) bool {
	q, text := w.Subject.question, joined(w.Best.focus)
	switch {
	case deciding.MatchString(q) && !decided.MatchString(w.Best.Text),
		changing.MatchString(q) && !changes.MatchString(text) && !stays.MatchString(w.Best.Text) && len(w.Overridden) == 0:
		return false
	}
	done := stems(finished.FindString(q))
	return len(done) == 0 || holds(stems(w.Best.Text), done)
}

// reversed reports whether the question and the record that holds use opposite words of
// the same group, such as delete and keep.
func (s *script) reversed(w weight) bool {
	text := stems(joined(w.Best.focus))
	for _, g := range s.Groups {
		back := func(st []string) bool {
			return slices.ContainsFunc(g.Reverse, func(word string) bool { return holds(st, stems(word)) })
		}
		for _, t := range w.Subject.strong() {
			if len(g.Reverse) > 0 && slices.ContainsFunc(slices.Concat(g.Words, g.Search), func(word string) bool { return slices.Equal(stems(word), t.exact) }) && back(t.exact) != back(text) {
				return true
			}
		}
	}
	return false
}

// Patterns of questions. state asks how a thing is or what became of it; a record in
// other words does not answer that. The others ask whether a thing was decided, changed
// or finished.
var (
	state    = pattern.New(`(?i)^\W*(?:(?:and|so|but|then)\W+)?(?:is|are|was|were|has|have|had)\b`)
	deciding = pattern.New(`(?i)\b(?:decided|agreed|approved|confirmed|settled|official|final|granted)\b`)
	changing = pattern.New(`(?i)\b(?:mov(?:e|ed|es|ing)|chang(?:e|ed|es|ing)|replac(?:e|ed|es|ing)|switch(?:ed|es|ing)?|postponed|delayed|raised|lowered|increased|extended|shortened)\b`)
	finished = pattern.New(`(?i)\b(?:finished|implemented|built|deployed|tested|launched|released|announced|signed|started|completed)\b`)
)

// affirms reports whether the record that holds agrees with what the question says.
func (s *script) affirms(w weight) bool {
	text := joined(w.Best.focus)
	for _, m := range number.FindAllStringSubmatch(w.Subject.question, -1) {
		n, hour := m[1], m[2]
		if hour == "" && !slices.ContainsFunc(number.FindAllStringSubmatchIndex(text, -1), func(at []int) bool {
			return text[at[2]:at[3]] == n && isFor(text, at[2], at[3])
		}) {
			return false
		}
	}
	for _, t := range w.Subject.strong() {
		group := s.group([]string{t.words})
		kind := len(w.Subject.strong()) > 1 && group != "" && len(s.mentions(t.words)) == 0
		if kind && group == s.groupOf(w.Subject) && s.chosen[group] && s.choice(w.Best.record, w.Subject) != "" {
			continue // a login without a password is one: the word names what was chosen and what was rejected alike
		}
		if slices.ContainsFunc(rejects(w.Best.record), func(name string) bool { return t.in(stems(name)) >= byNear }) {
			return false // the email of Email/Password
		}
		if kind {
			continue // one of a kind may be replaced by another
		}
		if !affirmed(w.Best, t) {
			return false
		}
	}
	return true
}

// affirmed reports whether every mention of a thing in a record is in favour of it.
func affirmed(x *weighed, t *term) bool {
	named := false
	for _, sen := range x.focus {
		ts := tokens(sen.text)
		for i := range ts {
			if i+len(t.exact) > len(ts) || !slices.Equal(sen.stems[i:i+len(t.exact)], t.exact) {
				continue
			}
			named = true
			if !isFor(sen.text, ts[i].start, ts[i+len(t.exact)-1].end) {
				return false
			}
		}
	}
	return named || !negated.MatchString(joined(x.focus))
}
