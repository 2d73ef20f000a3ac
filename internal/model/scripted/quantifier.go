package scripted

import (
	"slices"

	"github.com/parley-server/parley/internal/pattern"
)

// Words for how much of a thing is meant are no topic. They ask for more than that
// something is so: that it is so without exception.
var (
	universal = pattern.New(`(?i)\b(?:only|exclusively|solely|everything|everywhere|everyone|everybody|all|always|never|forever|for ever|for good|permanently|indefinitely|every|each|entire|entirely|whole|completely|nothing but|no other)\b`)
	noAll     = pattern.New(`(?i)\b(?:at all|after all|above all|all right|once and for all)\b`)
	never     = pattern.New(`(?i)\bnever\b`)
	forever   = pattern.New(`(?i)\b(?:forever|for ever|for good|permanently|indefinitely)\b`)
	aSpan     = pattern.New(`(?i)\b` + span + `\b`)
	exclusive = pattern.New(`(?i)\b(?:only|solely|exclusively|nothing but)\b`)
	// unbounded is how a source says itself that there is no exception.
	unbounded = pattern.New(`(?i)\b(?:all|always|never|every|everyone|everybody|everything|each|any|only|none|around the clock|24/7|without exception)\b`)
	// required says what ought to be so, which may not be.
	required = pattern.New(`(?i)\b(?:must|should|shall|ha(?:ve|s) to|needs? to|may|can)\b`)
	// excepting is how a source says that there is an exception.
	excepting = pattern.New(`(?i)\b(?:except\w*|excluding|apart from|other than|besides|unless|the rest|(?:the|all) others?|add(?:ed|s)|as well|in addition|(?:over|above|under|below|more than|less than) \d)`)
)

// ofAll reports whether a question asks whether something is so without exception.
func ofAll(question string) bool {
	return universal.MatchString(noAll.ReplaceAllString(question, ""))
}

// exception is the sentence of what holds that excepts something from what it says, or
// "". It stands among those about the question, or beside one of them.
func (s *script) exception(w weight) string {
	if w.Best == nil {
		return ""
	}
	about := func(i int) bool {
		return i >= 0 && i < len(w.Best.sentences) && slices.ContainsFunc(w.Best.focus, func(f sentence) bool { return f.text == w.Best.sentences[i].text })
	}
	for i, sen := range w.Best.sentences {
		unchanged := stays.MatchString(sen.text) && slices.ContainsFunc(w.Subject.strong(), func(t *term) bool { return t.in(sen.stems) >= byNear })
		if (excepting.MatchString(sen.text) || unchanged) && (about(i) || about(i-1) || about(i+1)) {
			return plain(sen.text)
		}
	}
	return ""
}

// throughout is the stance to a question that asks whether something is so without
// exception, by what the sources say to it without that: except (there is one), unsure
// (none is named, and it is not said that there is none), or yes or no.
func (s *script) throughout(w weight, said string) string {
	if w.Best == nil || !ofAll(w.Subject.question) {
		return said
	}
	text := joined(w.Best.focus)
	switch {
	case forever.MatchString(w.Subject.question) && aSpan.MatchString(text):
		return "no" // it is so for that time only
	case never.MatchString(w.Subject.question) && said == "yes":
		return "no" // it is so, and thus not never
	case said == "no" && never.MatchString(w.Subject.question):
		return "unsure"
	case said != "yes":
		return said
	case exclusive.MatchString(w.Subject.question) && s.besides(w):
		return "no"
	case s.exception(w) != "":
		return "except"
	case len(rejects(w.Best.record)) > 0 && s.choice(w.Best.record, w.Subject) != "":
		return said // of the kinds of thing that are chosen one alone holds
	case unbounded.MatchString(text) && (required.MatchString(w.Subject.question) || !required.MatchString(text)):
		return said
	}
	return "unsure"
}

// besides reports whether what holds names another thing of a kind beside the one that the question
// names: French and Arabic beside English.
func (s *script) besides(w weight) bool {
	asked := s.kinds(stems(w.Subject.question))
	for kind, group := range s.kinds(stems(joined(w.Best.focus))) {
		for _, g := range asked {
			if g == group && asked[kind] == "" {
				return true
			}
		}
	}
	return false
}

// kinds are the things of a kind that a text names, with their groups: DHL, UPS.
func (s *script) kinds(text []string) map[string]string {
	out := map[string]string{}
	for i := range text {
		found, _ := s.at(text, i)
		for _, m := range found {
			if m.kind != "" {
				out[m.kind] = m.group
			}
		}
	}
	return out
}

// widens reports whether a newer record has another thing of a kind of which the older
// says that there is one only: "we added UPS", after "with DHL only".
func (s *script) widens(newer, older *weighed) bool {
	if !newer.Dated() || kindOf(newer.record, newer.sentences) != statement {
		return false
	}
	for _, sen := range older.focus {
		if !exclusive.MatchString(sen.text) {
			continue
		}
		alone := s.kinds(sen.stems)
		for _, o := range newer.sentences {
			if negated.MatchString(o.text) {
				continue
			}
			for kind, group := range s.kinds(o.stems) {
				for _, g := range alone {
					if g == group && alone[kind] == "" {
						return true
					}
				}
			}
		}
	}
	return false
}
