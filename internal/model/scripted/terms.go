package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// term is a word or phrase of a question, with other words for the same.
type term struct {
	words   string
	exact   []string   // its stems
	near    [][]string // stems of other words for the same
	kin     [][]string // stems of others of the same kind: PayPal for Stripe
	weak    bool       // says little: app, system
	name    bool       // is one of a kind: DHL, iOS
	carried bool       // comes from an earlier question of the conversation
}

// anHour matches a time of day such as 3am.
var anHour = pattern.New(`^\d{1,2}(?:am|pm)$`)

// How well a text matches a term.
const (
	absent = iota
	byKin
	byNear
	byWord
)

func (t *term) in(text []string) int {
	if holds(text, t.exact) {
		return byWord
	}
	for _, p := range t.near {
		if holds(text, p) {
			return byNear
		}
	}
	// auth in OAuth, logins in weblogins
	if len(t.exact) == 1 && (len(t.exact[0]) > 4 || len(t.exact[0]) == 4 && len(t.near) > 0) && slices.ContainsFunc(text, func(w string) bool {
		return strings.HasSuffix(w, t.exact[0]) || len(t.exact[0]) > 4 && strings.Contains(w, t.exact[0]) // data is not in database
	}) {
		return byNear
	}
	for _, p := range t.kin {
		if holds(text, p) {
			return byKin
		}
	}
	return absent
}

// weight is what a term counts when it matches this well.
func (t *term) weight(level int) int {
	switch {
	case t.carried:
		return [...]int{0, 1, 2, 2}[level]
	case t.weak:
		return [...]int{0, 0, 2, 2}[level]
	case t.name:
		return [...]int{0, 3, 8, 9}[level]
	}
	return [...]int{0, 3, 5, 6}[level]
}

// terms returns the terms of a list of words and phrases.
func (s *script) terms(words []string, carried bool) []*term {
	var out []*term
	strong := false
	for _, w := range words {
		t := &term{words: w, exact: stems(w), carried: carried}
		t.weak = slices.Contains(s.Weak, w) || len(t.exact) == 1 && (strings.Trim(w, "0123456789.,-") == "" || anHour.MatchString(w) || aWeekday.MatchString(w))
		strong = strong || !t.weak
		if len(t.exact) == 0 {
			t.exact = []string{w} // only punctuation: c++
		}
		if found, n := s.at(t.exact, 0); n == len(t.exact) {
			for _, m := range found {
				s.relate(t, m)
				t.name = t.name || m.kind != ""
			}
		}
		out = append(out, t)
	}
	if !strong {
		for _, t := range out {
			t.weak = false
		}
	}
	return out
}

// relate adds the related words of a term's meaning. A thing is related to others of its kind,
// and the word for the kind to all other words for it.
func (s *script) relate(t *term, m meaning) {
	for _, ms := range s.meanings {
		for _, o := range ms {
			switch {
			case o.group != m.group:
			case o.kind == m.kind || m.kind == "" && o.kind != "" && !s.chosen[m.group]: // a country is named by its name
				t.near = append(t.near, o.stems)
			default:
				t.kin = append(t.kin, o.stems)
			}
		}
	}
}
