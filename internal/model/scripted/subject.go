package scripted

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

// subject is what a question is about: its own words, and the words it takes from the
// conversation.
type subject struct {
	Own, Carried []string
	Ignored      []string // own words that no source has, and that name nothing

	heard    bool // Own is spelt as in the sources, without what they do not have
	question string
	terms    []*term
	pairs    [][2]string // stems of two words that are next to each other in the question
	wants    *figure     // the kind of figure that is asked for, or nil
}

// Words returns its own and its carried words.
func (s subject) Words() []string { return slices.Concat(s.Own, s.Carried) }

// Figure returns the kind of figure that is asked for, such as "a price", or "".
func (s subject) Figure() string {
	if s.wants == nil || s.wants.name == aPlace {
		return ""
	}
	return s.wants.name
}

// Place reports whether the question asks where something is.
func (s subject) Place() bool { return s.wants != nil && s.wants.name == aPlace }

// Narrow reports whether the question asks about one point of a larger topic.
func (s subject) Narrow() bool { return len(s.Own) > 0 && len(s.Carried) > 0 }

func (s subject) strong() []*term {
	return slices.DeleteFunc(slices.Clone(s.terms), func(t *term) bool { return t.weak || t.carried })
}

const (
	lookUp = "look up "
	asTo   = ", as to "
)

// subject finds what a question is about, from the question and the conversation. An
// agent that sees only part of them takes it from the reason of the handoff.
func (s *script) subject(v view) subject {
	var own, carried []string
	if v.Handed != nil {
		if _, asked, ok := strings.Cut(v.Handed.Why, lookUp); ok {
			mine, theirs, _ := strings.Cut(asked, asTo)
			own, carried = s.listed(mine), s.listed(theirs)
		}
	}
	if len(own) == 0 {
		own, carried = s.asked(v)
	}
	out := subject{Own: own, Carried: carried, question: v.Question}
	out.terms = append(s.terms(own, false), s.terms(carried, true)...)
	conditional(v.Question, out.terms)
	st := stems(v.Question)
	for i := 1; i < len(own); i++ {
		if a, b := stems(own[i-1]), stems(own[i]); holds(st, slices.Concat(a, b)) && len(a) > 0 && len(b) > 0 {
			out.pairs = append(out.pairs, [2]string{a[len(a)-1], b[0]})
		}
	}
	for _, w := range wanted {
		said, _ := s.asks("saying", v.Question)
		named := slices.ContainsFunc(own, func(o string) bool { return holds(st, stems(o)) })
		if w.name == aDate && (said || len(s.about(v.Question)) == 0 && !named) {
			continue // the question asks for the date of the record
		}
		if w.ask.MatchString(v.Question) {
			out.wants = &w.figure
			break
		}
	}
	for _, w := range wanted { // "and for kids?", after a question about the price for a member
		if out.wants == nil && w.ask.MatchString(strings.Join(carried, " ")) {
			out.wants = &w.figure
		}
	}
	return out
}

// listed returns the words in a handoff's reason. Another agent may have written it.
func (s *script) listed(text string) []string {
	if about := s.about(text); len(about) > 0 {
		return about
	}
	return strings.Fields(text)
}

// asked returns the words of the question, and the words it takes from an earlier one:
// "And for Android?" is about the phones of the question before.
func (s *script) asked(v view) (own, carried []string) {
	own = s.about(v.Question)
	earlier := s.earlier(v)
	if rest := s.withoutDeed(v.Question, own); len(rest) > 0 || len(earlier) > 0 {
		own = rest
	}
	switch {
	case len(own) == 0 && len(earlier) > 0:
		return earlier, nil
	case len(own) == 0:
		own = s.keywords(v.Question)
	case len(earlier) > 0 && ofThat.MatchString(v.Question):
		for _, w := range own {
			if !slices.Contains(earlier, w) {
				carried = append(carried, w)
			}
		}
		return earlier, carried
	case s.chosen[s.group(own)] && s.group(own) != s.group(earlier): // another topic
	case s.leans(v.Question) || s.faint(own): // "which version?"
		for _, w := range earlier {
			if !slices.Contains(own, w) {
				carried = append(carried, w)
			}
		}
	}
	if len(own) == 0 {
		own = strings.Fields(v.Question)
	}
	return own, carried
}

// rest matches a sentence that continues the one before it.
var rest = pattern.New(`(?i)\b(?:the rest|the others?|otherwise|all others?)\b`)

// together counts the word pairs of the question that are also next to each other in a
// record. A page about video visits fits better than one about visits.
func (s subject) together(r record) int {
	n := 0
	for _, p := range s.pairs {
		if near(r.title, p) || slices.ContainsFunc(r.sentences, func(x sentence) bool { return near(x.stems, p) }) {
			n++
		}
	}
	return n
}

// near reports whether a text has both words, with at most one word between them.
func near(text []string, pair [2]string) bool {
	for i, w := range text {
		if w == pair[0] && slices.Contains(text[max(0, i-2):min(i+3, len(text))], pair[1]) {
			return true
		}
	}
	return false
}

// asks reports whether a question matches the script's pattern with this name, and not the one
// with "not " before it.
func (s *script) asks(name, question string) (bool, error) {
	re, ok := s.patterns[name]
	if !ok {
		return false, fmt.Errorf("asks: the script has no pattern %q", name)
	}
	if not, ok := s.patterns["not "+name]; ok && not.MatchString(question) {
		return false, nil
	}
	return re.MatchString(question), nil
}
