package scripted

import (
	"slices"
	"strings"

	"github.com/parley-server/parley/internal/pattern"
)

var gone = pattern.New(`(?i)\b(?:is|are|was|were|has|have) .*\b(?:out|dead|gone|dropped|scrapped|cancell?ed|abandoned|obsolete|over)(?: for .*)?\W*$|\b(?:rules?|ban|policy|decision|anything) against\b`)

// having matches a question whether there is something, and usedUp a record that says that
// there is none.
var (
	having = pattern.New(`(?i)\b(?:have|has|got|(?:is|are) there)\b`)
	usedUp = pattern.New(`(?i)\b(?:r[au]n(?:ning)? out of|out of stock|sold out|used up|(?:none|nothing) left)\b`)
)

// stance returns the sources' answer to a yes-or-no question: yes, no, joke, wish (it
// was only requested), unmentioned (the sources do not mention the thing), unsaid (they
// do not describe its state), undecided (no source reports a decision), except and unsure
// (see throughout), or "" if they do not tell.
func (s *script) stance(w weight) string {
	switch { // what the words that no source has would change is not known
	case len(w.Subject.Ignored) > 0 && state.MatchString(w.Subject.question) && !ofUs.MatchString(w.Subject.question):
		return "unsaid"
	case len(w.Subject.Ignored) > 0:
		return ""
	case w.Best != nil && reserved.MatchString(joined(w.Best.focus)) && !strings.Contains(strings.ToLower(w.Subject.question), "only"):
		return "" // what only some may do is no plain yes
	}
	stance := s.throughout(w, s.plainly(w))
	if stance == "yes" && isEither.MatchString(w.Subject.question) && !isIdea.MatchString(w.Subject.question) {
		return "" // yes is no answer to one or the other
	}
	return stance
}

// isIdea matches a question whether something is more than an idea, to which yes is an answer.
var isIdea = pattern.New(`(?i)\bor (?:(?:only|just|merely) )?(?:an? |the )?(?:idea|wish|suggestion|proposal|rumou?r|plan|not)\b`)

// plainly returns the stance without regard to words such as "all" and "only".
func (s *script) plainly(w weight) string {
	yes, no := "yes", "no"
	if gone.MatchString(w.Subject.question) {
		yes, no = no, yes
	}
	if w.Best != nil && s.reversed(w) {
		return "unsaid" // what is kept for ten years may be kept longer
	}
	if w.Best != nil && len(w.Missing) == 0 && spoken.MatchString(w.Subject.question) {
		return yes
	}
	if w.Best != nil && w.Best.Verdict == inThis && changes.MatchString(w.Subject.question) {
		return no
	}
	if w.Kind == "author" {
		return "" // the question is about the author, not about what was said
	}
	if w.Best != nil && onDay(w.Subject.question, joined(w.Best.focus)) == "no" {
		return no
	}
	if fits := s.fits(w); fits != "" {
		return map[string]string{"yes": yes, "no": no}[fits]
	}
	unsaid := slices.ContainsFunc(w.Subject.strong(), func(t *term) bool { return slices.Contains(w.Missing, t.words) })
	named := slices.ContainsFunc(w.Subject.strong(), func(t *term) bool { return t.name && slices.Contains(w.Missing, t.words) })
	switch {
	case named:
		return "unmentioned"
	case unsaid && state.MatchString(w.Subject.question):
		return "unsaid"
	case w.Best != nil && !s.borne(w):
		if slices.ContainsFunc(w.Wishes, func(x *weighed) bool { return x.covers >= w.Best.covers && x.Kind != asking }) {
			return "wish"
		}
		return "undecided"
	}
	if w.Best != nil {
		chosen := s.choice(w.Best.record, w.Subject)
		for _, m := range s.mentions(w.Subject.question) {
			switch {
			case m.name == chosen && len(w.Missing) == 0:
				return yes
			case slices.Contains(rejects(w.Best.record), m.name), chosen != "" && m.name != chosen && m.group == s.groupOf(w.Subject):
				return no
			}
		}
	}
	var open []int // terms that are missing from the record that holds
	for i, t := range w.Subject.terms {
		if !t.weak && !t.carried && (w.Best == nil || w.Best.terms[i] < byNear) {
			open = append(open, i)
		}
	}
	has := func(x *weighed) bool {
		return slices.ContainsFunc(open, func(i int) bool { return x.terms[i] >= byNear })
	}
	if len(open) == 0 && w.Best != nil {
		switch {
		case !s.affirms(w), having.MatchString(w.Subject.question) && usedUp.MatchString(joined(w.Best.focus)) && !usedUp.MatchString(w.Subject.question):
			return no
		case comparing.MatchString(w.Subject.question):
			return "" // "older phones" are not the phones that the record is about
		}
		return yes
	}
	for _, x := range w.Wishes {
		if has(x) {
			if x.Kind == joke {
				return "joke"
			}
			return "wish"
		}
	}
	taken := false
	for _, x := range w.Overridden {
		for _, i := range open {
			taken = taken || x.terms[i] >= byNear && affirmed(x, w.Subject.terms[i])
		}
	}
	if taken {
		return no
	}
	if slices.ContainsFunc(open, func(i int) bool { return slices.Contains(w.Missing, w.Subject.terms[i].words) }) {
		return "unmentioned"
	}
	return ""
}

// reserved matches what only some may do.
var reserved = pattern.New(`(?i)\bonly\b[^.;]*\b(?:may|can|must|should)\b`)

// ofUs matches a question whose subject is a pronoun: what is in it besides is a verb.
var ofUs = pattern.New(`(?i)^\W*(?:\w+\W+){0,2}?(?:is|are|was|were|has|have|had) (?:i|you|we|they|he|she|it|there|that|this)\b`)

// spoken matches a question that asks whether somebody mentioned a thing, for or against
// it.
var spoken = pattern.New(`(?i)\b(?:say|said|says|write|written|wrote|post|posted|talk|talked|talking|mention|mentioned|mentions)\b.*\b(?:about|of|on)\b|\b(?:mention|consider|discuss|evaluat)(?:e?d|s)?\b`)

// comparing matches a question about things other than the ones it names.
var comparing = pattern.New(`(?i)\b(?:old|new|big|larg|small|long|short|high|low|cheap|fast|soon|heavi|earli|lat)er\b|\b(?:another|other|else|more than|less than|fewer)\b`)
