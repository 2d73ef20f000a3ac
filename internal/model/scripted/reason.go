package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// match returns the statement that shares the most words with the question. The
// statement that holds wins a tie. "Why were third-party providers ruled out" is about
// the page that ruled them out, even if a later record overrides it.
func (s *script) match(w weight, wishesToo bool) *weighed {
	if first, _ := s.asks("first", w.Subject.question); first && !wishesToo && len(w.Overridden) > 0 {
		return w.Overridden[len(w.Overridden)-1]
	}
	if w.Best == nil && !wishesToo || !wishesToo && len(s.about(w.Subject.question)) == 0 {
		return w.Best
	}
	count := func(x *weighed) int {
		n := 0
		for i, t := range w.Subject.terms {
			if !t.weak && !t.carried {
				n += x.terms[i]
			}
		}
		return n
	}
	best := w.Best
	if wishesToo && len(w.Wishes) > 0 {
		best = w.Wishes[0]
	}
	if m := within.FindStringSubmatch(w.Subject.question); m != nil && !wishesToo {
		for _, x := range w.All {
			if strings.EqualFold(x.at.Month().String(), m[1]) && x.Dated() && reason(x) != "" {
				return x
			}
		}
	}
	for _, x := range w.All {
		if (wishesToo || x.Kind == statement && reason(x) != "") && (best == nil || count(x) > count(best)) {
			best = x
		}
	}
	return best
}

// reason returns the sentence of a record that gives a reason, or "".
func reason(x *weighed) string {
	if x == nil {
		return ""
	}
	for _, list := range [][]sentence{x.focus, x.sentences} {
		for _, sen := range list {
			if because.MatchString(sen.text) {
				if to := purpose.FindString(sen.text); to != "" {
					return upper(to)
				}
				return plain(sen.text)
			}
		}
	}
	return ""
}

// purpose matches what an order is to do good for: the order itself may not hold any more.
var purpose = pattern.New(`(?i)\bto (?:save|avoid|reduce|meet|comply)\b[^.;]*\.?$`)

// deed returns the sentence of what holds in which somebody other than its author does what the
// question asks about: "The data protection officer objected to WhatsApp."
func deed(w weight) string {
	m := whoDid.FindStringSubmatch(w.Subject.question)
	if m == nil || w.Best == nil {
		return ""
	}
	for _, t := range w.Subject.terms {
		if !slices.Equal(t.exact, stems(m[1])) {
			continue
		}
		for _, sen := range w.Best.sentences {
			ts := tokens(sen.text)
			for i := range ts {
				if i > 0 && t.in(sen.stems[i:i+1]) >= byNear && !pronoun.MatchString(sen.text[:ts[i].start]) {
					return plain(sen.text)
				}
			}
		}
	}
	return ""
}

// appointed matches a sentence that says whom to turn to, or who gives approval.
var appointed = pattern.New(`(?i)\b(?:contact(?: person)? is|please (?:call|ask|contact|tell)|approv(?:al|ed) by|(?:is|are) (?:done|handled|run) by|will cover for|turn to)\b`)

// contact returns the newest record of those found that says whom to turn to, with that sentence
// for what it says.
func contact(w weight) *weighed {
	for _, x := range w.All {
		for _, sen := range x.sentences {
			if x.Kind != joke && appointed.MatchString(sen.text) {
				c := *x
				c.Says = plain(sen.text)
				return &c
			}
		}
	}
	return nil
}

// pronoun matches a beginning of a sentence that does not name who acts.
var pronoun = pattern.New(`(?i)\b(?:i|we|you|he|she|it|they|this|that|which|who)\W*(?:\w+\W+)?$`)
