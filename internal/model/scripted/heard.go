package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// heard returns the subject as the sources can know it: misspelt words are replaced by theirs, and
// words that they do not have are left out, unless such a word is clearly what the question asks
// about. The words left out are remembered, because the answer is not a plain yes or no then.
func (s *script) heard(rs []record, sub subject) subject {
	has := func(t *term, level int) bool {
		return slices.ContainsFunc(rs, func(r record) bool { return r.has(t, level) })
	}
	known := func(word string) bool { return has(s.terms([]string{word}, false)[0], byNear) }
	vocabulary := map[string]bool{}
	for _, r := range rs {
		for _, w := range r.all() {
			vocabulary[w] = true
		}
	}
	var own []string
	dropped := false
	var missed *term // the last word that is missed
	for i, t := range sub.terms {
		switch {
		case t.carried:
			continue
		case i >= maxClues:
		case has(t, byKin) || slices.Contains(s.Weak, t.words):
		case s.spelt(t, rs, vocabulary) != "":
			right := s.spelt(t, rs, vocabulary)
			sub.question = strings.ReplaceAll(strings.ToLower(sub.question), t.words, right)
			own = append(own, right)
			continue
		case missed != nil && holds(stems(sub.question), slices.Concat(missed.exact, t.exact)): // "two-factor codes"
		case s.thing(sub.question, t, known):
			missed = t
		default:
			if dropped = true; !tail(sub.question, t, known) {
				sub.Ignored = append(sub.Ignored, t.words)
			}
			continue
		}
		own = append(own, t.words)
	}
	if !dropped && slices.Equal(own, sub.Own) || len(own) == 0 {
		return sub
	}
	carried := slices.DeleteFunc(slices.Clone(sub.terms), func(t *term) bool { return !t.carried })
	sub.Own, sub.terms, sub.heard = own, append(s.terms(own, false), carried...), true
	return sub
}

// spelt returns the word of the sources that a misspelt one means, or "".
func (s *script) spelt(t *term, rs []record, vocabulary map[string]bool) string {
	if t.name || s.group([]string{t.words}) != "" {
		return ""
	}
	like := alikeWords(t.exact, vocabulary)
	for _, r := range rs {
		for _, w := range tokens(r.Title + " " + r.Text) {
			if like[stem(w.word)] {
				return w.word
			}
		}
	}
	for _, w := range s.tableWords { // another word for a word of the sources
		if slipped(t.words, w) && len(w) != len(t.words) {
			if right := s.terms([]string{w}, false)[0]; slices.ContainsFunc(rs, func(r record) bool { return r.has(right, byNear) }) {
				return w
			}
		}
	}
	return ""
}

// Lines by which the comparing agent passes on how it understood the question.
var (
	readAs  = pattern.New(`(?m)^Read as: (.+)$`)
	leftOut = pattern.New(`(?m)^Left out: (.+)$`)
)

// Read returns the subject's own words as the sources spell them, if the question has others.
func (w weight) Read() string {
	if w.Subject.heard {
		return strings.Join(w.Subject.Own, ", ")
	}
	return ""
}

// understood returns the subject as the agent understood it that read the sources.
func (s *script) understood(h *handed, sub subject) subject {
	if h == nil {
		return sub
	}
	if m := leftOut.FindStringSubmatch(h.Text); m != nil {
		sub.Ignored = strings.Split(m[1], ", ")
	}
	m := readAs.FindStringSubmatch(h.Text)
	if m == nil {
		return sub
	}
	carried := slices.DeleteFunc(slices.Clone(sub.terms), func(t *term) bool { return !t.carried })
	sub.Own = strings.Split(m[1], ", ")
	sub.terms = append(s.terms(sub.Own, false), carried...)
	return sub
}
